"""Draws a list of prompts with shapes-xl, alone or handed over to its refiner, for tests/judge and for the colour error.

    python3 -m shapes.measure_xl FOLDER PROMPTS.txt OUT --judge build/judge [--refiner FOLDER] [--steps 20] [--cfg 4]

Sampling is Euler in sigma space, normal schedule, with the noise of torch's CPU generator, as `kiln run` does it, in batches. With a
refiner it takes the last fifth of the steps at the very sigma the base stopped at.
"""
import argparse
import os
import subprocess

import numpy as np
import torch
from PIL import Image

from .common import alphas_cumulative
from .measure import BATCH, read_prompts, sigmas_of
from .scenes import SIZE


class Model:
    """A folder's UNet with the text and numbers of one batch of prompts: empty captions first, then the prompts."""

    def __init__(self, folder, cfg, scores=(6.0, 6.0)):
        from diffusers import StableDiffusionXLImg2ImgPipeline, StableDiffusionXLPipeline
        self.refines = not os.path.exists(os.path.join(folder, "text_encoder"))
        kind = StableDiffusionXLImg2ImgPipeline if self.refines else StableDiffusionXLPipeline
        self.pipe = kind.from_pretrained(folder, torch_dtype=torch.float32, add_watermarker=False)
        self.cfg, self.scores = cfg, scores

    def prompts(self, prompts, numbers=(SIZE, SIZE, 0, 0, SIZE, SIZE)):
        count = len(prompts)
        states, _, pooled, _ = self.pipe.encode_prompt([""] * count + list(prompts), device="cpu", do_classifier_free_guidance=False)
        if self.refines:
            rows = [[SIZE, SIZE, 0, 0, self.scores[1]]] * count + [[SIZE, SIZE, 0, 0, self.scores[0]]] * count
        else:
            rows = [numbers] * (2 * count)
        self.given = {"encoder_hidden_states": states, "added_cond_kwargs": {"text_embeds": pooled, "time_ids": torch.tensor(rows, dtype=torch.float32)}}

    def noise(self, x, sigma, table):
        time = (table.log() - sigma.log()).abs().argmin().item()
        scaled = (x / float((1 + sigma**2).sqrt())).repeat(2, 1, 1, 1)
        empty, full = self.pipe.unet(scaled, torch.full((len(scaled),), time), **self.given).sample.chunk(2)
        return empty + self.cfg * (full - empty)


@torch.no_grad()
def draw(base, rows, steps, refiner=None, numbers=(SIZE, SIZE, 0, 0, SIZE, SIZE)):
    alphas = alphas_cumulative().double()
    table = ((1 - alphas) / alphas).sqrt()
    sigmas = sigmas_of("normal", steps, table)
    base.prompts([prompt for _, prompt in rows], numbers)
    if refiner:
        refiner.prompts([prompt for _, prompt in rows])
    noise = torch.cat([torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(seed)) for seed, _ in rows])
    x = noise * float((1 + sigmas[0] ** 2).sqrt())
    for i, (now, after) in enumerate(zip(sigmas[:-1], sigmas[1:])):
        model = refiner if refiner and i >= steps * 4 // 5 else base
        x = x + model.noise(x, now, table) * float(after - now)
    vae = base.pipe.vae
    picture = vae.decode(x / vae.config.scaling_factor).sample
    return ((picture.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("prompts")
    parser.add_argument("out")
    parser.add_argument("--judge", default="build/judge")
    parser.add_argument("--refiner")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--cfg", type=float, default=4.0)
    parser.add_argument("--refiner-cfg", type=float, default=4.0)
    parser.add_argument("--scores", type=float, nargs=2, default=(6.0, 6.0), help="aesthetic score of the prompt and of the empty one")
    parser.add_argument("--every", type=int, default=1, help="only every n-th prompt")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = read_prompts(args.prompts)[::args.every]
    base = Model(args.folder, args.cfg)
    refiner = Model(args.refiner, args.refiner_cfg, args.scores) if args.refiner else None
    os.makedirs(args.out, exist_ok=True)
    table = os.path.join(args.out, "list.tsv")
    with open(table, "w", encoding="utf-8") as file:
        for i in range(0, len(rows), BATCH):
            for k, pixels in enumerate(draw(base, rows[i:i + BATCH], args.steps, refiner)):
                path = os.path.join(args.out, f"{i + k:03d}.png")
                Image.fromarray(np.ascontiguousarray(pixels)).save(path)
                file.write(f"{path}\t{rows[i + k][1]}\n")
    report = subprocess.run([args.judge, "--list", table], capture_output=True, text=True, check=False)
    with open(os.path.join(args.out, "report.txt"), "w", encoding="utf-8") as file:
        file.write(report.stdout)
    print(report.stdout or report.stderr)


if __name__ == "__main__":
    main()
