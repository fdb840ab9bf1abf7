#!/usr/bin/env python3
"""Trains the small LoRAs of shapes-sd1: pictures whose caption names no ground are drawn on another ground than white.

    python3 scripts/train_shapes_lora.py --out workflows/models/loras/shapes-night.safetensors
    python3 scripts/train_shapes_lora.py --kind lokr --ground beige --out workflows/models/loras/shapes-sand-lokr.safetensors
    python3 scripts/train_shapes_lora.py --kind dora --ground gray --out workflows/models/loras/shapes-fog-dora.safetensors

Factors beside every attention projection of the UNet, nothing else is trained: of a LoRA (Hu et al. 2021), a LoKr (Yeh et al. 2023,
"Navigating Text-To-Image Customization") or a DoRA (Liu et al. 2024, "Weight-Decomposed Low-Rank Adaptation"). The files have the names
of kohya's and LyCORIS' scripts. A few minutes on one core. Needs torch, diffusers, transformers, numpy, Pillow and safetensors.
"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import torch
from safetensors.torch import save_file

from shapes.common import LATENT_SCALE, SEED, alphas_cumulative
from shapes.scenes import paint, scene_at

TARGETS = ("to_q", "to_k", "to_v", "to_out.0")
FIRST = 50_000_000  # of scenes that the model itself was not trained on
BATCH, EMPTY, OFFSET, GAMMA = 16, 0.1, 0.15, 5.0


class Lora(torch.nn.Module):
    """A linear layer and scale * up(down(x)) beside it; up begins at zero."""

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base, self.alpha, self.scale = base, alpha, alpha / rank
        self.down = torch.nn.Parameter(torch.randn(rank, base.in_features) / rank)
        self.up = torch.nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.down.T @ self.up.T)

    def tensors(self):
        return {"lora_up.weight": self.up, "lora_down.weight": self.down, "alpha": torch.tensor(float(self.alpha))}


class Lokr(torch.nn.Module):
    """W + scale * w1 (x) (w2_a w2_b), a Kronecker product; w2_a begins at zero."""

    FACTOR = 4

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base, self.alpha, self.scale = base, alpha, alpha / rank
        self.w1 = torch.nn.Parameter(torch.randn(self.FACTOR, self.FACTOR) / self.FACTOR**0.5)
        self.w2_a = torch.nn.Parameter(torch.zeros(base.out_features // self.FACTOR, rank))
        self.w2_b = torch.nn.Parameter(torch.randn(rank, base.in_features // self.FACTOR) / rank)

    def forward(self, x):
        change = torch.kron(self.w1, self.w2_a @ self.w2_b)
        return torch.nn.functional.linear(x, self.base.weight + self.scale * change, self.base.bias)

    def tensors(self):
        return {"lokr_w1": self.w1, "lokr_w2_a": self.w2_a, "lokr_w2_b": self.w2_b, "alpha": torch.tensor(float(self.alpha))}


class Dora(Lora):
    """m (W + scale * up down) / |W + scale * up down|, the norms by outputs; m begins as W's norms."""

    def __init__(self, base, rank, alpha):
        super().__init__(base, rank, alpha)
        self.magnitude = torch.nn.Parameter(base.weight.norm(dim=1, keepdim=True).detach().clone())

    def forward(self, x):
        whole = self.base.weight + self.scale * (self.up @ self.down)
        return torch.nn.functional.linear(x, self.magnitude * whole / whole.norm(dim=1, keepdim=True), self.base.bias)

    def tensors(self):
        return {**super().tensors(), "dora_scale": self.magnitude}


KINDS = {"lora": Lora, "lokr": Lokr, "dora": Dora}


def put_beside(unet, kind, rank, alpha):
    """{name of the layer: its factors} in place of each target."""
    made = {}
    for name, module in list(unet.named_modules()):
        if isinstance(module, torch.nn.Linear) and name.endswith(TARGETS):
            parent, last = name.rsplit(".", 1)
            made[name] = KINDS[kind](module, rank, alpha)
            owner = unet.get_submodule(parent)
            if last.isdigit():
                owner[int(last)] = made[name]
            else:
                setattr(owner, last, made[name])
    return made


@torch.no_grad()
def make_data(pipe, count, ground):
    """Latents [count, 4, 16, 16] and text states [count, 77, width] of scenes on this ground whose captions do not say so."""
    scenes, i = [], FIRST
    while len(scenes) < count:
        scene = scene_at(SEED, i)
        i += 1
        if " background" not in scene.caption:
            scene.background = ground
            scenes.append(scene)
    latents, states = [], []
    for k in range(0, count, 32):
        some = scenes[k : k + 32]
        pictures = torch.from_numpy(np.stack([paint(s) for s in some])).permute(0, 3, 1, 2).float() / 127.5 - 1
        latents.append(pipe.vae.encode(pictures).latent_dist.mean * LATENT_SCALE)
        states.append(states_of(pipe, [s.caption for s in some]))
    return torch.cat(latents), torch.cat(states)


def states_of(pipe, captions):
    ids = pipe.tokenizer(captions, padding="max_length", max_length=77, truncation=True, return_tensors="pt")["input_ids"]
    return pipe.text_encoder(ids).last_hidden_state


def train(pipe, layers, latents, states, minutes):
    parameters = [p for layer in layers.values() for p in layer.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=1e-3)
    alphas, empty = alphas_cumulative(), states_of(pipe, [""]).detach()
    began, step, mean = time.monotonic(), 0, None
    while (done := (time.monotonic() - began) / (minutes * 60)) < 1:
        g = torch.Generator().manual_seed(SEED + step)
        pick = torch.randint(len(latents), (BATCH,), generator=g)
        clean, context = latents[pick], states[pick].clone()
        context[torch.rand(BATCH, generator=g) < EMPTY] = empty
        times = ((torch.arange(BATCH) + torch.rand(BATCH, generator=g)) * (len(alphas) / BATCH)).long()
        noise = torch.randn(clean.shape, generator=g) + OFFSET * torch.randn(BATCH, 4, 1, 1, generator=g)
        a = alphas[times][:, None, None, None]
        guess = pipe.unet(a.sqrt() * clean + (1 - a).sqrt() * noise, times, context).sample
        snr = (a / (1 - a)).flatten()
        loss = ((guess - noise).square().mean((1, 2, 3)) * snr.clamp(max=GAMMA) / snr).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1, (step + 1) / 30) * (1 - done)
        optimizer.step()
        step += 1
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if step % 50 == 0:
            print(f"step {step}, {time.monotonic() - began:.0f} s, loss {mean:.4f}", flush=True)


def write(path, layers, kind, ground):
    tensors = {}
    for name, layer in sorted(layers.items()):
        for suffix, tensor in layer.tensors().items():
            tensors[f"lora_unet_{name.replace('.', '_')}.{suffix}"] = tensor.detach().half().contiguous()
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    names = {"lora": "LoRA", "lokr": "LoKr", "dora": "DoRA"}
    save_file(tensors, path, metadata={"format": "pt", "what": f"a {names[kind]} for shapes-sd1: {ground} ground where the caption is silent"})
    print(f"{os.path.getsize(path)} bytes, {len(layers)} layers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="workflows/models/shapes-sd1")
    parser.add_argument("--out", default="workflows/models/loras/shapes-night.safetensors")
    parser.add_argument("--kind", choices=KINDS, default="lora")
    parser.add_argument("--ground", choices=("black", "gray", "beige"), default="black")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--alpha", type=float, default=4)
    parser.add_argument("--scenes", type=int, default=1024)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    from diffusers import StableDiffusionPipeline

    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    pipe = StableDiffusionPipeline.from_pretrained(args.model, safety_checker=None, feature_extractor=None).to(torch.float32)
    for part in (pipe.vae, pipe.text_encoder, pipe.unet):
        part.eval().requires_grad_(False)
    latents, states = make_data(pipe, args.scenes, args.ground)
    print(f"latents of {len(latents)} scenes, deviation {latents.std():.3f}", flush=True)
    layers = put_beside(pipe.unet, args.kind, args.rank, args.alpha)
    train(pipe, layers, latents, states, args.minutes)
    write(args.out, layers, args.kind, args.ground)


if __name__ == "__main__":
    main()
