#!/usr/bin/env python3
"""Trains shapes-turbo, a LoRA that lets shapes-sd1 draw in four steps at cfg 1 with the sampler lcm.

    python3 scripts/train_shapes_turbo.py --work build/shapes-turbo --out workflows/models/loras/shapes-turbo.safetensors

What the model with guidance makes of a noisy latent in many small steps, the model with the LoRA learns to say at once (Luhman and
Luhman 2021, "Knowledge distillation in iterative generative models"), at the four noise levels that a sampling of four steps visits. The
first level starts from noise alone; the others from the teacher's own pictures, noised again, as the sampler lcm does between its steps
(Luo et al. 2023). Needs torch, diffusers, transformers and safetensors.
"""
import argparse
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch
from safetensors.torch import save_file

from shapes.common import SEED, alphas_cumulative, load_state, save_state
from shapes.scenes import retell, scene_at

TIMES = (999, 749, 499, 249)  # sgm_uniform's four levels
FIRST = 60_000_000  # of scenes whose captions are used; nothing is drawn
GUIDANCE, TEACHER_STEPS = 4.0, 20
BATCH = 32


class Beside(torch.nn.Module):
    """A linear layer or a convolution, and scale * up(down(x)) beside it; up begins at zero."""

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        if isinstance(base, torch.nn.Linear):
            self.down = torch.nn.Linear(base.in_features, rank, bias=False)
            self.up = torch.nn.Linear(rank, base.out_features, bias=False)
        else:
            self.down = torch.nn.Conv2d(base.in_channels, rank, base.kernel_size, base.stride, base.padding, bias=False)
            self.up = torch.nn.Conv2d(rank, base.out_channels, 1, bias=False)
        torch.nn.init.zeros_(self.up.weight)

    def forward(self, x, *_):
        return self.base(x) + self.scale * self.up(self.down(x))


def wanted(name, module):
    if isinstance(module, torch.nn.Linear):
        return "transformer_blocks" in name
    return isinstance(module, torch.nn.Conv2d) and module.in_channels > 16 and module.out_channels > 16


def put_beside(unet, rank, alpha):
    """{name of the layer: Beside} in place of each layer that is trained."""
    made = {}
    for name, module in list(unet.named_modules()):
        if wanted(name, module):
            made[name] = Beside(module, rank, alpha)
            parent, last = name.rsplit(".", 1) if "." in name else ("", name)
            owner = unet.get_submodule(parent)
            if last.isdigit():
                owner[int(last)] = made[name]
            else:
                setattr(owner, last, made[name])
    return made


def states_of(pipe, captions):
    ids = pipe.tokenizer(captions, padding="max_length", max_length=77, truncation=True, return_tensors="pt")["input_ids"]
    return pipe.text_encoder(ids).last_hidden_state


def mix(clean, noise, alpha):
    return alpha.sqrt() * clean + (1 - alpha).sqrt() * noise


@torch.no_grad()
def solve(pipe, alphas, x, first, context, empty):
    """x0 that the guided model gives by DDIM from time `first` on, in steps of 1000 / TEACHER_STEPS."""
    times = list(range(first, 0, -1000 // TEACHER_STEPS))
    both = torch.cat([context, empty.expand_as(context)])
    for i, t in enumerate(times):
        yes, no = pipe.unet(torch.cat([x, x]), t, both).sample.chunk(2)
        eps = no + GUIDANCE * (yes - no)
        clean = (x - (1 - alphas[t]).sqrt() * eps) / alphas[t].sqrt()
        x = mix(clean, eps, alphas[times[i + 1]]) if i + 1 < len(times) else clean
    return x


def make_pairs(pipe, alphas, path, batches):
    """One list a time of TIMES: latents, what the teacher makes of them, and their text states (f16)."""
    state = load_state(path) or {"batch": 0, "pairs": []}
    empty = states_of(pipe, [""]).detach()
    while state["batch"] < batches:
        b = state["batch"]
        g = torch.Generator().manual_seed(SEED + 77 + b)
        scenes = [scene_at(SEED, FIRST + b * BATCH + i) for i in range(BATCH)]
        context = states_of(pipe, [retell(s, random.Random(i)) if i % 2 else s.caption for i, s in enumerate(scenes)]).detach()
        found, clean = [], None
        for t in TIMES:
            noise = torch.randn((BATCH, 4, 16, 16), generator=g)
            x = noise if clean is None else mix(clean, noise, alphas[t])
            target = solve(pipe, alphas, x, t, context, empty)
            clean = target if clean is None else clean
            found.append((x.half(), target.half()))
        state["pairs"].append({"x": torch.stack([f[0] for f in found]), "x0": torch.stack([f[1] for f in found]), "context": context.half()})
        state["batch"] += 1
        if state["batch"] % 5 == 0 or state["batch"] == batches:
            save_state(path, **state)
            print(f"pairs {state['batch']}/{batches}", time.strftime("%H:%M:%S"), flush=True)
    return state["pairs"]


def train(pipe, layers, alphas, pairs, minutes):
    parameters = [p for layer in layers.values() for p in (layer.up.weight, layer.down.weight)]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, betas=(0.9, 0.99), weight_decay=1e-3)
    x, x0 = (torch.cat([p[k] for p in pairs], 1) for k in ("x", "x0"))  # [times, count, 4, 16, 16]
    context = torch.cat([p["context"] for p in pairs])
    average = [p.detach().clone() for p in parameters]
    began, step, mean = time.monotonic(), 0, None
    while (done := (time.monotonic() - began) / (minutes * 60)) < 1:
        g = torch.Generator().manual_seed(SEED + step)
        pick = torch.randint(x.shape[1], (BATCH,), generator=g)
        which = torch.arange(BATCH) % 5 % len(TIMES)  # the first level twice as often as the others
        times = torch.tensor(TIMES)[which]
        noisy, wish = x[which, pick].float(), x0[which, pick].float()
        a = alphas[times][:, None, None, None]
        eps = pipe.unet(noisy, times, context[pick].float()).sample
        clean = (noisy - (1 - a).sqrt() * eps) / a.sqrt()
        error = clean - wish
        each = ((error.square() + 1e-3).sqrt()).mean((1, 2, 3))
        coarse = torch.nn.functional.avg_pool2d(error, 4).square().mean((1, 2, 3))
        loss = (each + coarse).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1, (step + 1) / 50) * (1 - done)
        optimizer.step()
        step += 1
        with torch.no_grad():
            for kept, p in zip(average, parameters):
                kept.lerp_(p, 1 - min(0.99, (1 + step) / (10 + step)))
        mean = loss.item() if mean is None else 0.97 * mean + 0.03 * loss.item()
        if step % 50 == 0:
            print(f"step {step}, {time.monotonic() - began:.0f} s, loss {mean:.4f}", flush=True)
    with torch.no_grad():
        for kept, p in zip(average, parameters):
            p.copy_(kept)


def write(path, layers, alpha):
    tensors = {}
    for name, layer in sorted(layers.items()):
        key = "lora_unet_" + name.replace(".", "_")
        tensors[f"{key}.lora_up.weight"] = layer.up.weight.detach().half().contiguous()
        tensors[f"{key}.lora_down.weight"] = layer.down.weight.detach().half().contiguous()
        tensors[f"{key}.alpha"] = torch.tensor(float(alpha)).half()
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    save_file(tensors, path, metadata={"format": "pt", "what": "a LoRA for shapes-sd1: four steps with the sampler lcm at cfg 1"})
    print(f"{os.path.getsize(path)} bytes, {len(layers)} layers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="workflows/models/shapes-sd1")
    parser.add_argument("--work", default="build/shapes-turbo")
    parser.add_argument("--out", default="workflows/models/loras/shapes-turbo.safetensors")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--batches", type=int, default=45, help="of 32 pictures, drawn by the teacher at each level")
    parser.add_argument("--minutes", type=float, default=35.0)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    from diffusers import StableDiffusionPipeline

    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    os.makedirs(args.work, exist_ok=True)
    pipe = StableDiffusionPipeline.from_pretrained(args.model, safety_checker=None, feature_extractor=None).to(torch.float32)
    for part in (pipe.text_encoder, pipe.unet):
        part.eval().requires_grad_(False)
    alphas = alphas_cumulative()
    pairs = make_pairs(pipe, alphas, os.path.join(args.work, "pairs.pt"), args.batches)
    layers = put_beside(pipe.unet, args.rank, args.rank)
    train(pipe, layers, alphas, pairs, args.minutes)
    write(args.out, layers, args.rank)


if __name__ == "__main__":
    main()
