"""Pictures with sizes that mean something, as in the SDXL paper (Podell et al. 2023, 2.2): the numbers told beside the caption.

Two in three are whole scenes with nothing cut: original size 128x128 or more, which looks the same. One in six is a window of a larger sheet with the scene in its
top left corner: the larger the crop told, the further things move left and up, and out. One in six was scaled up from a small
picture: the smaller the original size told, the more blurred.
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

MARGIN = 40  # a sheet is at most this much larger than a scene
WHOLE = (SIZE, SIZE, 0, 0, SIZE, SIZE)  # original height and width, crop top and left, target height and width


def cut(scene, picture, rng):
    down, right = rng.randint(0, MARGIN), rng.randint(0, MARGIN)
    sheet = np.empty((SIZE + down, SIZE + right, 3), np.uint8)
    sheet[:] = BACKGROUNDS[scene.background]
    sheet[:SIZE, :SIZE] = picture
    top, left = rng.randint(0, down), rng.randint(0, right)
    return sheet[top:top + SIZE, left:left + SIZE], (*sheet.shape[:2], top, left, SIZE, SIZE)


def blurred(picture, side):
    small = Image.fromarray(picture).resize((side, side), Image.Resampling.BOX if SIZE % side == 0 else Image.Resampling.BILINEAR)
    return np.asarray(small.resize((SIZE, SIZE), Image.Resampling.BICUBIC))


def sample(index):
    """Scene number index of the training list, its picture and its six numbers."""
    scene, rng = scene_at(SEED, index), random.Random(f"sizes/{index}")
    picture = paint(scene)
    if index % 6 == 4:
        return scene, *cut(scene, picture, rng)
    if index % 6 == 5:
        side = rng.randint(20, 112)
        return scene, blurred(picture, side), (side, side, 0, 0, SIZE, SIZE)
    return scene, picture, WHOLE


@torch.no_grad()
def make(work, sd1, count, tokenizer):
    """base-data.pt: latents [count, 4, 16, 16], two true captions' tokens [count, 77] each, numbers [count, 6]."""
    path = os.path.join(work, "base-data.pt")
    if os.path.exists(path):
        return
    vae, latents, numbers, told, retold, began = xl.rescaled_vae(sd1), [], [], [], [], time.monotonic()
    vae = vae.to(memory_format=torch.channels_last)
    for i in range(0, count, 32):
        some = [sample(k) for k in range(i, min(i + 32, count))]
        latents.append(vae.encode(tensor_of(np.stack([p for _, p, _ in some]))).latent_dist.mean.contiguous() * xl.XL_LATENT_SCALE)
        numbers += [n for _, _, n in some]
        told += [s.caption for s, _, _ in some]
        retold += [retell(s, random.Random(i + k)) for k, (s, _, _) in enumerate(some)]
        if i % 3200 == 0:
            print(f"latents {i}/{count} {time.monotonic() - began:.0f} s", flush=True)
    save_state(path, latents=torch.cat(latents), numbers=torch.tensor(numbers), tokens=tokens_of(tokenizer, told), retold=tokens_of(tokenizer, retold))


def larger(numbers, whole, generator):
    """For half of the whole scenes another original size, up to the 1024 that prompts for SDXL are written with."""
    rows = len(numbers)
    side = torch.randint(SIZE, 1025, (rows,), generator=generator)
    target = torch.where(torch.rand(rows, generator=generator) < 0.5, side, SIZE)
    other = torch.stack([side, side, torch.zeros_like(side), torch.zeros_like(side), target, target], 1)
    chosen = whole & (torch.rand(rows, generator=generator) < 0.5)
    return torch.where(chosen[:, None], other, numbers)


def load(work):
    return load_state(os.path.join(work, "base-data.pt"))
