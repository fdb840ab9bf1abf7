"""Masks half of drawn pictures, lets shapes-sd1-inpainting draw it anew and tests/judge say how many are right.

    python3 -m shapes.measure_inpaint pictures OUT --count 100            OUT/NNN.png and OUT/prompts.txt, OUT/boxes.txt
    python3 -m shapes.measure_inpaint draw FOLDER OUT --judge build/judge     draws them with diffusers' parts; tests/judge/measure-inpaint.sh: kiln

Half of the pictures show one thing, cut through its middle; the others two, one of which is masked whole. Captions are of those that
training leaves out. Sampling is that of measure.py; what is not masked is put back at every step, as kiln does with a noise mask.
"""
import argparse
import os
import random
import subprocess

import numpy as np
import torch
from PIL import Image

from .common import LATENT_SCALE, SEED, alphas_cumulative
from .measure import BATCH, read_prompts, sigmas_of
from .scenes import SIZE, draw_scene, paint
from .vae import tensor_of


def half_box(scene, rng):
    """Left, top, width and height of the half that is masked."""
    across = scene.relation in ("left", "right") if scene.relation else rng.random() < 0.5
    start = 0 if rng.random() < 0.5 else SIZE // 2
    return (start, 0, SIZE // 2, SIZE) if across else (0, start, SIZE, SIZE // 2)


def mask_of(box):
    x, y, width, height = box
    mask = np.zeros((SIZE, SIZE), np.uint8)
    mask[y:y + height, x:x + width] = 255
    return mask


def make_pictures(out, count, seed):
    rng, lines, boxes, seen = random.Random(f"inpaint/{seed}"), [], [], set()
    os.makedirs(out, exist_ok=True)
    while len(lines) < count:
        scene = draw_scene(rng, two=len(lines) % 2 == 1, want_held_out=True)
        if scene.caption in seen:
            continue
        seen.add(scene.caption)
        Image.fromarray(paint(scene)).save(os.path.join(out, f"{len(lines):03d}.png"))
        boxes.append(" ".join(map(str, half_box(scene, rng))) + "\n")
        lines.append(f"{SEED % 1000 + len(lines)}\t{scene.caption}\n")
    with open(os.path.join(out, "prompts.txt"), "w", encoding="utf-8") as file:
        file.writelines(lines)
    with open(os.path.join(out, "boxes.txt"), "w", encoding="utf-8") as file:
        file.writelines(boxes)


@torch.no_grad()
def draw(pipe, rows, pictures, masks, steps, cfg):
    alphas = alphas_cumulative().double()
    table = ((1 - alphas) / alphas).sqrt()
    sigmas = sigmas_of("normal", steps, table)

    def encode(prompts):
        tokens = pipe.tokenizer(prompts, padding="max_length", max_length=77, truncation=True, return_tensors="pt")["input_ids"]
        return pipe.text_encoder(tokens).last_hidden_state

    x0, mask = tensor_of(pictures), torch.from_numpy(masks)[:, None].float() / 255
    known, masked = (pipe.vae.encode(p).latent_dist.mean * LATENT_SCALE for p in (x0, x0 * (mask < 0.5)))
    mask = mask[:, :, ::8, ::8]
    states = torch.cat([encode([""] * len(rows)), encode([prompt for _, prompt in rows])])
    noise = torch.cat([torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(seed)) for seed, _ in rows])
    x = noise * float((1 + sigmas[0] ** 2).sqrt())
    for now, after in zip(sigmas[:-1], sigmas[1:]):
        now, after = float(now), float(after)
        time = (table.log() - np.log(now)).abs().argmin().item()
        x = x * mask + (known + noise * now) * (1 - mask)
        seen = torch.cat([x / (1 + now**2) ** 0.5, mask, masked], 1).repeat(2, 1, 1, 1)
        empty, full = pipe.unet(seen, torch.full((len(seen),), time), states).sample.chunk(2)
        clean = x - now * (empty + cfg * (full - empty))
        clean = clean * mask + known * (1 - mask)
        x = x + (x - clean) / now * (after - now)
    picture = pipe.vae.decode(x / LATENT_SCALE).sample
    return ((picture.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()


def draw_all(args):
    from diffusers import StableDiffusionInpaintPipeline
    pipe = StableDiffusionInpaintPipeline.from_pretrained(args.folder, torch_dtype=torch.float32, safety_checker=None)
    rows = read_prompts(os.path.join(args.out, "prompts.txt"))[:args.limit]
    table, off = os.path.join(args.out, "list.tsv"), []
    with open(os.path.join(args.out, "boxes.txt"), encoding="utf-8") as file:
        boxes = [tuple(map(int, line.split())) for line in file]
    with open(table, "w", encoding="utf-8") as file:
        for i in range(0, len(rows), BATCH):
            some = rows[i:i + BATCH]
            names = [os.path.join(args.out, f"{i + k:03d}") for k in range(len(some))]
            pictures = np.stack([np.asarray(Image.open(n + ".png")) for n in names])
            masks = np.stack([mask_of(box) for box in boxes[i:i + len(some)]])
            for k, pixels in enumerate(draw(pipe, some, pictures, masks, args.steps, args.cfg)):
                off.append(np.abs(pixels.astype(int) - pictures[k])[masks[k] == 0].mean())
                Image.fromarray(np.ascontiguousarray(pixels)).save(names[k] + "-drawn.png")
                file.write(f"{names[k]}-drawn.png\t{some[k][1]}\n")
    report = subprocess.run([args.judge, "--list", table], capture_output=True, text=True, check=False)
    print(report.stdout or report.stderr, f"unmasked pixels differ by {np.mean(off):.3f} of 255 in the mean", sep="")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("pictures")
    make.add_argument("out")
    make.add_argument("--count", type=int, default=100)
    make.add_argument("--seed", type=int, default=1)
    run = verbs.add_parser("draw")
    run.add_argument("folder")
    run.add_argument("out")
    run.add_argument("--judge", default="build/judge")
    run.add_argument("--steps", type=int, default=20)
    run.add_argument("--cfg", type=float, default=4.0)
    run.add_argument("--limit", type=int)
    args = parser.parse_args()
    if args.verb == "pictures":
        make_pictures(args.out, args.count, args.seed)
    else:
        torch.set_num_threads(1)
        draw_all(args)


if __name__ == "__main__":
    main()
