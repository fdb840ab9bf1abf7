"""Pictures with sizes that mean something, as in the SDXL paper (Podell et al. 2023, 2.2): the numbers told beside the caption.

Every scene is there twice. As a whole nothing is cut: original size 128x128 or more, which looks the same. The other is, by turns, a window
of a larger sheet with the scene in its top left corner (the larger the crop told, the further things move left and up, and out) or scaled up
from a small picture (the smaller the original size told, the more blurred).
"""
import os
import random
import time

import numpy as np
import torch
from PIL import Image

from . import xl
from .common import SEED, load_state, save_state
from .scenes import BACKGROUNDS, SIZE, paint, retell, scene_at
from .text import tokens_of
from .vae import tensor_of

CELL = 8  # pixels a latent; sheets and windows keep to it, so that a window of a scene is a window of its latents too
MARGIN = 5  # a sheet is at most this many latents larger than a scene
WHOLE = (SIZE, SIZE, 0, 0, SIZE, SIZE)  # original height and width, crop top and left, target height and width


def cut(scene, picture, rng):
    down, right = rng.randint(0, MARGIN) * CELL, rng.randint(0, MARGIN) * CELL
    sheet = np.empty((SIZE + down, SIZE + right, 3), np.uint8)
    sheet[:] = BACKGROUNDS[scene.background]
    sheet[:SIZE, :SIZE] = picture
    top, left = rng.randint(0, down // CELL) * CELL, rng.randint(0, right // CELL) * CELL
    return sheet[top:top + SIZE, left:left + SIZE], (*sheet.shape[:2], top, left, SIZE, SIZE)


def blurred(picture, side):
    small = Image.fromarray(picture).resize((side, side), Image.Resampling.BOX if SIZE % side == 0 else Image.Resampling.BILINEAR)
    return np.asarray(small.resize((SIZE, SIZE), Image.Resampling.BICUBIC))


def other(scene, picture, index):
    """The scene's other picture and its six numbers."""
    rng = random.Random(f"sizes/{index}")
    if index % 2:
        return cut(scene, picture, rng)
    side = rng.randint(16, 80)
    return blurred(picture, side), (side, side, 0, 0, SIZE, SIZE)


@torch.no_grad()
def make(work, sd1, count, tokenizer):
    """base-data.pt: latents whole and other [count, 4, 16, 16], numbers of the other [count, 6], two true captions' tokens [count, 77] each."""
    path = os.path.join(work, "base-data.pt")
    if os.path.exists(path):
        return
    vae, began = xl.rescaled_vae(sd1).to(memory_format=torch.channels_last), time.monotonic()
    whole, others, numbers, told, retold = [], [], [], [], []
    for i in range(0, count, 32):
        scenes = [scene_at(SEED, k) for k in range(i, min(i + 32, count))]
        pictures = [paint(s) for s in scenes]
        changed = [other(s, p, i + k) for k, (s, p) in enumerate(zip(scenes, pictures))]
        for kept, some in ((whole, pictures), (others, [p for p, _ in changed])):
            kept.append(vae.encode(tensor_of(np.stack(some))).latent_dist.mean.contiguous() * xl.XL_LATENT_SCALE)
        numbers += [n for _, n in changed]
        told += [s.caption for s in scenes]
        retold += [retell(s, random.Random(i + k)) for k, s in enumerate(scenes)]
        if i % 3200 == 0:
            print(f"latents {i}/{count} {time.monotonic() - began:.0f} s", flush=True)
    save_state(path, whole=torch.cat(whole), other=torch.cat(others), numbers=torch.tensor(numbers), tokens=tokens_of(tokenizer, told),
               retold=tokens_of(tokenizer, retold))


def load(work):
    return load_state(os.path.join(work, "base-data.pt"))


def larger(rows, generator):
    """Numbers of whole scenes; for half of them another original size, up to the 1024 that prompts for SDXL are written with."""
    side = torch.randint(SIZE, 1025, (rows,), generator=generator)
    side = torch.where(torch.rand(rows, generator=generator) < 0.5, side, SIZE)
    target = torch.where(torch.rand(rows, generator=generator) < 0.5, side, SIZE)
    none = torch.zeros_like(side)
    return torch.stack([side, side, none, none, target, target], 1)


def amounts_of(numbers):
    """How far up and left things are, in margins, and how blurred the picture is, [rows, 3]: what the numbers say."""
    blur = torch.log2(SIZE / numbers[:, :2].amin(1).clamp(max=SIZE)) / 3
    return torch.stack([numbers[:, 2] / (MARGIN * CELL), numbers[:, 3] / (MARGIN * CELL), blur], 1)


def any_numbers(rows, generator):
    """Numbers as users may give them: small, ordinary and large originals, with a crop or none."""
    chance = torch.rand(rows, 4, generator=generator)
    side = torch.where(chance[:, 0] < 0.3, 16 + 112 * chance[:, 1], torch.where(chance[:, 0] < 0.7, 128 + 40 * chance[:, 1], 128 + 896 * chance[:, 1]))
    side[::4] = SIZE
    crop = MARGIN * CELL * torch.rand(rows, 2, generator=generator) * (chance[:, 2:3] < 0.6)
    target = torch.where(chance[:, 3] < 0.75, SIZE, side.clamp(min=SIZE))
    return torch.stack([side, side, crop[:, 0], crop[:, 1], target, target], 1).round()


def shifted(stack, numbers):
    """Each latent moved up and left by its crop; what leaves comes in again at the other side."""
    tops, lefts = (numbers[:, 2] // CELL).tolist(), (numbers[:, 3] // CELL).tolist()
    return torch.stack([x.roll((-top, -left), (1, 2)) for x, top, left in zip(stack, tops, lefts)])


def fresh(numbers):
    """True for the cells that were beyond the scene, [rows, 1, 16, 16]."""
    cells = torch.arange(SIZE // CELL)
    below = cells[None] >= SIZE // CELL - numbers[:, 2:3] // CELL
    right = cells[None] >= SIZE // CELL - numbers[:, 3:4] // CELL
    return (below[:, :, None] | right[:, None, :])[:, None]
