"""Draws a list of prompts with the trained folder and lets tests/judge say how many pictures are right.

    python3 -m shapes.measure prompts OUT.txt --one 100 --two 100     make a list of prompts that training never saw
    python3 -m shapes.measure draw FOLDER PROMPTS.txt OUT --judge build/judge --cfg 4 --steps 20 --schedule karras

Sampling is Euler in sigma space with the noise of torch's CPU generator, as `kiln run` does it, in batches.
"""
import argparse
import os
import random
import subprocess

import numpy as np
import torch
from PIL import Image

from .common import LATENT_SCALE, SEED, alphas_cumulative
from .scenes import draw_scene

BATCH = 50


def make_prompts(path, one, two, seed):
    rng = random.Random(f"held out/{seed}")
    seen, lines = set(), []
    for count, is_two in ((one, False), (two, True)):
        while count:
            caption = draw_scene(rng, two=is_two, want_held_out=True).caption
            if caption not in seen:
                seen.add(caption)
                count -= 1
                lines.append(f"{SEED % 1000 + len(lines)}\t{caption}\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write("# seed<tab>prompt. Made by scripts/shapes/measure.py from attribute combinations that training leaves out.\n")
        file.writelines(lines)


def read_prompts(path):
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
    return [(int(seed), prompt) for seed, prompt in rows]


def sigmas_of(schedule, steps, table):
    """steps noise levels from the largest down, then 0. karras: rho 7 (Karras et al. 2022); normal: even in time."""
    if schedule == "karras":
        ramp = torch.linspace(0, 1, steps, dtype=torch.float64)
        high, low = table[-1] ** (1 / 7), table[0] ** (1 / 7)
        levels = (high + ramp * (low - high)) ** 7
    else:
        at = torch.linspace(len(table) - 1, 0, steps, dtype=torch.float64)
        low = at.floor().long()
        high = (low + 1).clamp(max=len(table) - 1)
        log = table.log()
        levels = (log[low] + (at - low) * (log[high] - log[low])).exp()
    return torch.cat([levels, torch.zeros(1, dtype=torch.float64)])


@torch.no_grad()
def draw(pipe, rows, steps, cfg, schedule):
    alphas = alphas_cumulative().double()
    table = ((1 - alphas) / alphas).sqrt()
    sigmas = sigmas_of(schedule, steps, table)

    def encode(prompts):
        tokens = pipe.tokenizer(prompts, padding="max_length", max_length=77, truncation=True, return_tensors="pt")["input_ids"]
        return pipe.text_encoder(tokens).last_hidden_state

    states = torch.cat([encode([""] * len(rows)), encode([prompt for _, prompt in rows])])
    noise = torch.cat([torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(seed)) for seed, _ in rows])
    x = noise * float((1 + sigmas[0] ** 2).sqrt())
    for now, after in zip(sigmas[:-1], sigmas[1:]):
        time = (table.log() - now.log()).abs().argmin().item()
        scaled = (x / float((1 + now**2).sqrt())).repeat(2, 1, 1, 1)
        empty, full = pipe.unet(scaled, torch.full((len(scaled),), time), states).sample.chunk(2)
        x = x + (empty + cfg * (full - empty)) * float(after - now)
    picture = pipe.vae.decode(x / LATENT_SCALE).sample
    return ((picture.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()


def load(folder):
    from diffusers import StableDiffusionPipeline
    return StableDiffusionPipeline.from_pretrained(folder, torch_dtype=torch.float32)


def draw_list(folder, prompts, out, judge, steps, cfg, schedule, limit=None):
    pipe, rows = load(folder), read_prompts(prompts)[:limit]
    os.makedirs(out, exist_ok=True)
    table = os.path.join(out, "list.tsv")
    with open(table, "w", encoding="utf-8") as file:
        for i in range(0, len(rows), BATCH):
            for k, pixels in enumerate(draw(pipe, rows[i:i + BATCH], steps, cfg, schedule)):
                path = os.path.join(out, f"{i + k:03d}.png")
                Image.fromarray(np.ascontiguousarray(pixels)).save(path)
                file.write(f"{path}\t{rows[i + k][1]}\n")
    report = subprocess.run([judge, "--list", table], capture_output=True, text=True, check=False)
    with open(os.path.join(out, "report.txt"), "w", encoding="utf-8") as file:
        file.write(report.stdout)
    return report.stdout.strip().splitlines()[-1] if report.stdout else report.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("prompts")
    make.add_argument("out")
    make.add_argument("--one", type=int, default=100)
    make.add_argument("--two", type=int, default=100)
    make.add_argument("--seed", type=int, default=1)
    run = verbs.add_parser("draw")
    run.add_argument("folder")
    run.add_argument("prompts")
    run.add_argument("out")
    run.add_argument("--judge", default="build/judge")
    run.add_argument("--steps", type=int, default=20)
    run.add_argument("--cfg", type=float, nargs="+", default=[4.0])
    run.add_argument("--schedule", nargs="+", choices=("karras", "normal"), default=["karras"])
    args = parser.parse_args()
    if args.verb == "prompts":
        make_prompts(args.out, args.one, args.two, args.seed)
        return
    torch.set_num_threads(2)
    for schedule in args.schedule:
        for cfg in args.cfg:
            print(schedule, "cfg", cfg, "steps", args.steps, draw_list(args.folder, args.prompts, args.out, args.judge, args.steps, cfg, schedule), flush=True)


if __name__ == "__main__":
    main()
