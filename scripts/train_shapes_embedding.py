#!/usr/bin/env python3
"""Trains the embedding "jewel" for shapes-sd1: two vectors that stand for a thing it is shown in pictures, a purple star.

    python3 scripts/train_shapes_embedding.py --out workflows/models/embeddings/jewel.safetensors

Textual inversion (Gal et al. 2022): the model stays as it is; only the vectors learn, from scenes in whose captions they stand in the place of
the thing's name. A few minutes on one core. Needs torch, diffusers, transformers, numpy, Pillow and safetensors.
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

NAME, THING, ROWS = "jewel", "purple star", ("<jewel-0>", "<jewel-1>")
FIRST = 70_000_000  # of scenes that the model itself was not trained on
BATCH, GAMMA, RATE = 16, 5.0, 2e-2


@torch.no_grad()
def make_data(pipe, count):
    """Latents [count, 4, 16, 16] and token ids [count, 77] of scenes with the thing in them."""
    scenes, i = [], FIRST
    while len(scenes) < count:
        scene = scene_at(SEED, i)
        i += 1
        if THING in scene.caption:
            scenes.append(scene)
    latents = []
    for k in range(0, count, 32):
        pictures = torch.from_numpy(np.stack([paint(s) for s in scenes[k : k + 32]])).permute(0, 3, 1, 2).float() / 127.5 - 1
        latents.append(pipe.vae.encode(pictures).latent_dist.mean * LATENT_SCALE)
    captions = [s.caption.replace(THING, " ".join(ROWS)) for s in scenes]
    ids = pipe.tokenizer(captions, padding="max_length", max_length=77, truncation=True, return_tensors="pt")["input_ids"]
    return torch.cat(latents), ids


def add_rows(pipe):
    """The embedding table with two rows more, which begin as the mean of all; their ids."""
    pipe.tokenizer.add_tokens(list(ROWS))
    table = pipe.text_encoder.get_input_embeddings().weight.data
    mean, first = table.mean(0), len(table)
    pipe.text_encoder.resize_token_embeddings(len(pipe.tokenizer))
    ids = pipe.tokenizer.convert_tokens_to_ids(list(ROWS))
    assert min(ids) >= first
    table = pipe.text_encoder.get_input_embeddings().weight
    g = torch.Generator().manual_seed(SEED)
    for i in ids:
        table.data[i] = mean + 0.01 * torch.randn(mean.shape, generator=g)
    return ids


def train(pipe, rows, latents, ids, minutes):
    table = pipe.text_encoder.get_input_embeddings().weight.requires_grad_(True)
    vectors = table.data[rows].clone().requires_grad_(True)
    optimizer = torch.optim.AdamW([vectors], lr=RATE, weight_decay=0.0)
    alphas = alphas_cumulative()
    began, step, mean = time.monotonic(), 0, None
    while (done := (time.monotonic() - began) / (minutes * 60)) < 1:
        g = torch.Generator().manual_seed(SEED + step)
        pick = torch.randint(len(latents), (BATCH,), generator=g)
        table.data[rows], table.grad = vectors.data, None
        context = pipe.text_encoder(ids[pick]).last_hidden_state
        clean = latents[pick]
        times = ((torch.arange(BATCH) + torch.rand(BATCH, generator=g)) * (len(alphas) / BATCH)).long()
        noise = torch.randn(clean.shape, generator=g)
        a = alphas[times][:, None, None, None]
        guess = pipe.unet(a.sqrt() * clean + (1 - a).sqrt() * noise, times, context).sample
        snr = (a / (1 - a)).flatten()
        loss = ((guess - noise).square().mean((1, 2, 3)) * snr.clamp(max=GAMMA) / snr).mean()
        loss.backward()
        vectors.grad = table.grad[rows].clone()
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 20) * (1 - done)
        optimizer.step()
        step += 1
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if step % 50 == 0:
            print(f"step {step}, {time.monotonic() - began:.0f} s, loss {mean:.4f}", flush=True)
    return vectors.detach()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="workflows/models/shapes-sd1")
    parser.add_argument("--out", default=f"workflows/models/embeddings/{NAME}.safetensors")
    parser.add_argument("--scenes", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    from diffusers import StableDiffusionPipeline

    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    pipe = StableDiffusionPipeline.from_pretrained(args.model, safety_checker=None, feature_extractor=None).to(torch.float32)
    for part in (pipe.vae, pipe.text_encoder, pipe.unet):
        part.eval().requires_grad_(False)
    rows = add_rows(pipe)
    latents, ids = make_data(pipe, args.scenes)
    vectors = train(pipe, rows, latents, ids, args.minutes)
    os.makedirs(os.path.dirname(args.out) or ".", exist_ok=True)
    save_file({"emb_params": vectors.contiguous()}, args.out, metadata={"format": "pt", "what": f"an embedding for shapes-sd1: a {THING}"})
    print(f"{os.path.getsize(args.out)} bytes")


if __name__ == "__main__":
    main()
