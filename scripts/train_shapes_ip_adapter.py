#!/usr/bin/env python3
"""Trains shapes-vision, a small CLIP vision encoder, and shapes-ip-adapter, with which shapes-sd1 takes a picture for a prompt.

    python3 scripts/train_shapes_ip_adapter.py --out workflows/models

writes clip_vision/shapes-vision.safetensors and ipadapter/shapes-ip-adapter.safetensors. Encoder and adapter (Ye et al. 2023,
"IP-Adapter") learn together: to say what noise is on a picture that the encoder was shown, and, with heads that are thrown away, what is
on it. Captions are left out for most pictures. Needs torch, diffusers, transformers, numpy, Pillow and safetensors.
"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import torch
from safetensors.torch import save_file

from shapes.common import LATENT_SCALE, SEED, Average, alphas_cumulative, load_state, save_state
from shapes.scenes import BACKGROUNDS, COLOURS, RELATIONS, SHAPES, paint, scene_at
from train_shapes_controls import noise_loss

FIRST = 110_000_000  # of scenes that the model itself was not trained on
BATCH, EMPTY, BLIND, OFFSET = 16, 0.8, 0.08, 0.15
TOKENS = 4
VISION = dict(
    hidden_size=96, intermediate_size=384, num_hidden_layers=3, num_attention_heads=4, image_size=64, patch_size=8, projection_dim=96,
    hidden_act="quick_gelu", layer_norm_eps=1e-5,
)
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # of CLIP (Radford et al. 2021)


def see(pictures):
    """[n, 3, 128, 128] in 0..1 -> what the encoder takes."""
    side = VISION["image_size"]
    small = torch.nn.functional.interpolate(pictures, (side, side), mode="bicubic", antialias=True).clamp(0, 1)
    small = (small * 255).round() / 255
    return (small - torch.tensor(MEAN)[:, None, None]) / torch.tensor(DEVIATION)[:, None, None]


class ImageProjection(torch.nn.Module):
    """An image's embedding -> TOKENS tokens of the text's width."""

    def __init__(self, width, context):
        super().__init__()
        self.proj, self.norm = torch.nn.Linear(width, TOKENS * context), torch.nn.LayerNorm(context)

    def forward(self, embeds):
        return self.norm(self.proj(embeds).reshape(len(embeds), TOKENS, -1))


def answers(scene):
    """What is on a picture, as one class for each question; the second thing's are -100 (not asked) where there is one thing."""
    shapes, colours = list(SHAPES), list(COLOURS)
    row = [list(BACKGROUNDS).index(scene.background), list(RELATIONS).index(scene.relation) if scene.relation else len(RELATIONS)]
    for k in range(2):
        thing = scene.things[k] if k < len(scene.things) else None
        row += [shapes.index(thing.shape), colours.index(thing.colour)] if thing else [-100, -100]
    return row


CLASSES = (len(BACKGROUNDS), len(RELATIONS) + 1, len(SHAPES), len(COLOURS), len(SHAPES), len(COLOURS))


class Model(torch.nn.Module):
    def __init__(self, unet):
        from diffusers.models.attention_processor import IPAdapterAttnProcessor2_0
        from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

        super().__init__()
        context = unet.config.cross_attention_dim
        self.vision = CLIPVisionModelWithProjection(CLIPVisionConfig(**VISION))
        self.image_proj = ImageProjection(VISION["projection_dim"], context)
        self.heads = torch.nn.Linear(VISION["projection_dim"], sum(CLASSES))
        processors = dict(unet.attn_processors)
        for name in processors:
            if name.endswith("attn2.processor"):
                attention = unet.get_submodule(name[: -len(".processor")])
                own = IPAdapterAttnProcessor2_0(attention.to_q.out_features, context, num_tokens=(TOKENS,))
                own.to_k_ip[0].weight.data.copy_(attention.to_k.weight)
                own.to_v_ip[0].weight.data.copy_(attention.to_v.weight)
                processors[name] = own
        unet.set_attn_processor(processors)
        self.adapters = torch.nn.ModuleList(p for n, p in unet.attn_processors.items() if n.endswith("attn2.processor"))


@torch.no_grad()
def states_of(pipe, captions):
    ids = pipe.tokenizer(captions, padding="max_length", max_length=77, truncation=True, return_tensors="pt")["input_ids"]
    return pipe.text_encoder(ids).last_hidden_state


@torch.no_grad()
def make_data(pipe, count):
    """Latents, text states, what the encoder sees (f16), answers."""
    latents, states, seen, told = [], [], [], []
    for k in range(0, count, 32):
        some = [scene_at(SEED, FIRST + i) for i in range(k, min(k + 32, count))]
        pictures = torch.from_numpy(np.stack([paint(s) for s in some])).permute(0, 3, 1, 2).float() / 255
        latents.append(pipe.vae.encode(pictures * 2 - 1).latent_dist.mean * LATENT_SCALE)
        states.append(states_of(pipe, [s.caption for s in some]).half())
        seen.append(see(pictures).half())
        told.append(torch.tensor([answers(s) for s in some]))
    return [torch.cat(x) for x in (latents, states, seen, told)]


def question_loss(logits, told):
    parts = torch.split(logits, CLASSES, 1)
    return sum(torch.nn.functional.cross_entropy(p, told[:, i], ignore_index=-100) for i, p in enumerate(parts)) / len(parts)


def train(pipe, model, data, path, minutes):
    """Goes on where an interrupted training stood; returns the averaged weights."""
    latents, states, seen, told = data
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=1e-2)
    alphas, empty = alphas_cumulative(), states_of(pipe, [""])
    average, step, spent, mean, right = Average(model, 0.995), 0, 0.0, None, None
    if state := load_state(path):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average.weights, step, spent = state["average"], state["step"], state["spent"]
    began = time.monotonic() - spent
    while (done := (time.monotonic() - began) / (minutes * 60)) < 1:
        g = torch.Generator().manual_seed(SEED + step)
        pick = torch.randint(len(latents), (BATCH,), generator=g)
        clean, context = latents[pick], states[pick].float()
        context[torch.rand(BATCH, generator=g) < EMPTY] = empty
        embeds = model.vision(seen[pick].float()).image_embeds
        asked = question_loss(model.heads(embeds), told[pick])
        embeds = embeds * (torch.rand(BATCH, 1, generator=g) >= BLIND)
        times = ((torch.arange(BATCH) + torch.rand(BATCH, generator=g)) * (len(alphas) / BATCH)).long()
        noise = torch.randn(clean.shape, generator=g) + OFFSET * torch.randn(BATCH, 4, 1, 1, generator=g)
        a = alphas[times][:, None, None, None]
        guess = pipe.unet(a.sqrt() * clean + (1 - a).sqrt() * noise, times, (context, [model.image_proj(embeds)])).sample
        loss = noise_loss(guess, noise, a)
        optimizer.zero_grad()
        (loss + 0.01 * asked).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1, (step + 1) / 100) * (1 - done)
        optimizer.step()
        step += 1
        average.update(model, step)
        mean = loss.item() if mean is None else 0.97 * mean + 0.03 * loss.item()
        right = asked.item() if right is None else 0.97 * right + 0.03 * asked.item()
        if step % 50 == 0:
            print(f"step {step}, {time.monotonic() - began:.0f} s, loss {mean:.4f}, questions {right:.3f}", flush=True)
        if step % 200 == 0:
            save_state(path, model=model.state_dict(), optimizer=optimizer.state_dict(), average=average.weights, step=step, spent=time.monotonic() - began)
    return average.weights


def write(weights, folder):
    """The encoder as transformers writes it; the adapter as IP-Adapter's authors do: their numbers count self-attentions too."""
    vision, adapter = {}, {}
    for name, tensor in weights.items():
        part, rest = name.split(".", 1)
        tensor = tensor.half().contiguous() if tensor.is_floating_point() else tensor
        if part == "vision":
            vision[rest] = tensor
        elif part == "image_proj":
            adapter[name] = tensor
        elif part == "adapters":
            number, matrix = rest.split(".")[0], rest.split(".")[1]
            adapter[f"ip_adapter.{2 * int(number) + 1}.{matrix}.weight"] = tensor
    vision.pop("vision_model.embeddings.position_ids", None)
    for where, name, tensors, what in (
        ("clip_vision", "shapes-vision", vision, "a CLIP vision encoder for shapes-ip-adapter"),
        ("ipadapter", "shapes-ip-adapter", adapter, "an IP-Adapter for shapes-sd1, for shapes-vision's embeddings"),
    ):
        os.makedirs(os.path.join(folder, where), exist_ok=True)
        path = os.path.join(folder, where, name + ".safetensors")
        save_file(tensors, path, metadata={"format": "pt", "what": what})
        print(f"{path}: {os.path.getsize(path)} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="workflows/models/shapes-sd1")
    parser.add_argument("--work", default="build/shapes-controls")
    parser.add_argument("--out", default="workflows/models", help="folder of the models")
    parser.add_argument("--scenes", type=int, default=6000)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    from diffusers import StableDiffusionPipeline

    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    os.makedirs(args.work, exist_ok=True)
    pipe = StableDiffusionPipeline.from_pretrained(args.model, safety_checker=None, feature_extractor=None).to(torch.float32)
    for part in (pipe.vae, pipe.text_encoder, pipe.unet):
        part.eval().requires_grad_(False)
    data = make_data(pipe, args.scenes)
    print(f"{len(data[0])} scenes", flush=True)
    model = Model(pipe.unet).train()
    write(train(pipe, model, data, os.path.join(args.work, "ip-adapter.pt"), args.minutes), args.out)


if __name__ == "__main__":
    main()
