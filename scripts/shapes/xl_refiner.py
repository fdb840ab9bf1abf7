"""The refiner of shapes-xl: four levels, the second text encoder alone, five numbers, and the last fifth of the noise levels.

Its pictures carry an aesthetic score. A score about 6.5 is a clean drawing in the exact colours of scenes.py; every step down is
a worse copy: blurred, with rough edges, or washed out. Scores are spread by half a point, as a human judge's are.
"""
import os
import random
import time

import numpy as np
import torch
from diffusers import UNet2DConditionModel
from PIL import Image, ImageFilter

from . import warm, xl, xl_text
from .common import SEED, alphas_cumulative, load_state, save_state
from .scenes import SIZE, paint, retell, scene_at
from .text import tokens_of
from .tune import noised, spread
from .unet import EMPTY, GAMMA, OFFSET
from .vae import tensor_of
from .xl_base import reader_of
from .xl_pictures import larger

FIRST = 30_000_000  # scenes that the base was not trained on
LAST_TIME = 200
BEST, WORST = 6.5, 2.5
CLEAN_SHARE = 0.5
BLOTCHES = 0.6  # what a base leaves wrong is not white: whole parts of a thing lean to another colour. Such noise is removed too.
BLOCKS = {}  # the same four levels


def washed_out(picture, amount, rng):
    gray = rng.uniform(120, 220)
    return picture + (gray - picture) * 0.5 * amount


def blurred(picture, amount, rng):
    image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
    return np.asarray(image.filter(ImageFilter.GaussianBlur(0.5 + 2.5 * amount)), np.float32)


def rough(picture, amount, rng):
    """Every pixel is fetched from a little further off, and the whole gets grain: edges fray."""
    noise = np.random.default_rng(rng.getrandbits(32))
    at = np.stack(np.mgrid[0:SIZE, 0:SIZE]) + noise.normal(0, 0.4 + 2.2 * amount, (2, SIZE, SIZE))
    y, x = np.clip(np.rint(at), 0, SIZE - 1).astype(int)
    return picture[y, x] + noise.normal(0, 14 * amount, picture.shape)


def sample(index):
    """Scene FIRST + index, its picture and its aesthetic score."""
    scene, rng = scene_at(SEED, FIRST + index), random.Random(f"aesthetic/{index}")
    amount = 0.0 if rng.random() < CLEAN_SHARE else rng.uniform(0.1, 1.0)
    if not amount:
        scene.noise = [(0, 0, 0)] * len(scene.things)
    picture = paint(scene).astype(np.float32)
    if amount:
        picture = rng.choice((washed_out, blurred, rough))(picture, amount, rng)
    score = BEST + (WORST - BEST) * amount + rng.gauss(0, 0.5)
    return scene, np.rint(np.clip(picture, 0, 255)).astype(np.uint8), score


def told_sizes(rows, generator):
    """Original size and crop, which say nothing here."""
    return larger(rows, generator)[:, :4].float()


@torch.no_grad()
def make(work, sd1, count, tokenizer):
    """refiner-data.pt: latents [count, 4, 16, 16], tokens [count, 77], scores [count]."""
    path = os.path.join(work, "refiner-data.pt")
    if os.path.exists(path):
        return
    vae, latents, scores, told, began = xl.rescaled_vae(sd1).to(memory_format=torch.channels_last), [], [], [], time.monotonic()
    for i in range(0, count, 32):
        some = [sample(k) for k in range(i, min(i + 32, count))]
        latents.append(vae.encode(tensor_of(np.stack([p for _, p, _ in some]))).latent_dist.mean.contiguous() * xl.XL_LATENT_SCALE)
        scores += [n for _, _, n in some]
        told += [retell(s, random.Random(i + k)) for k, (s, _, _) in enumerate(some)]
        if i % 3200 == 0:
            print(f"latents {i}/{count} {time.monotonic() - began:.0f} s", flush=True)
    save_state(path, latents=torch.cat(latents), scores=torch.tensor(scores), tokens=tokens_of(tokenizer, told))


def start(work, sd1):
    """refiner-warm.pt: the weights the refiner begins with."""
    path = os.path.join(work, "refiner-warm.pt")
    if os.path.exists(path):
        return
    torch.manual_seed(SEED + 13)
    tokenizer, _, two = xl_text.load(work, sd1)
    old, _ = xl_text.first_encoder(sd1, tokenizer)
    captions = [scene_at(SEED, i).caption for i in range(512)] + [""] * 32
    reader, left = reader_of(old, (None, two), tokens_of(tokenizer, captions).long(), tokenizer.eos_token_id)
    unet = UNet2DConditionModel(**xl.REFINER)
    fresh = warm.fill(unet, warm.sd1_unet(sd1), BLOCKS, reader)
    scores = torch.linspace(1, 8, 1024)[:, None]
    warm.open_numbers(unet, torch.cat([told_sizes(1024, torch.Generator().manual_seed(SEED)), scores], 1), (BEST - scores) / (BEST - WORST))
    print(f"refiner: {len(fresh)} new tensors; {left:.2%} of shapes-sd1's states are lost in the new context", flush=True)
    save_state(path, unet=unet.state_dict())


class Task:
    batch, gamma, quick = 32, GAMMA, ("add_embedding",)

    def __init__(self, work, sd1):
        self.unet = UNet2DConditionModel(**xl.REFINER)
        self.unet.load_state_dict(load_state(os.path.join(work, "refiner-warm.pt"))["unet"])
        self.tokenizer, _, self.two = xl_text.load(work, sd1)
        self.data, self.alphas = load_state(os.path.join(work, "refiner-data.pt")), alphas_cumulative()
        self.count = len(self.data["latents"])
        self.empty = tokens_of(self.tokenizer, [""])[0].long()

    @torch.no_grad()
    def step(self, pick, generator):
        rows, data = len(pick), self.data
        tokens = data["tokens"][pick].long()
        tokens[torch.rand(rows, generator=generator) < EMPTY] = self.empty
        times = spread(rows, generator, LAST_TIME)
        noisy, wanted, a = noised(data["latents"][pick], times, self.alphas, OFFSET, generator, BLOTCHES)
        noisy = noisy.contiguous(memory_format=torch.channels_last)
        context, pooled = xl_text.states_of(None, self.two, tokens, self.tokenizer.eos_token_id)
        sizes = told_sizes(rows, generator)
        added = {"text_embeds": pooled, "time_ids": torch.cat([sizes, data["scores"][pick][:, None]], 1)}
        return {"sample": noisy, "timestep": times, "encoder_hidden_states": context, "added_cond_kwargs": added}, wanted, a


def write(work, sd1, out):
    """Exports the averaged weights of the newest checkpoint, or the first weights when there is none."""
    _, _, two = xl_text.load(work, sd1)
    unet = UNet2DConditionModel(**xl.REFINER)
    state = load_state(os.path.join(work, "refiner.pt"))
    unet.load_state_dict(state["average"] if state else load_state(os.path.join(work, "refiner-warm.pt"))["unet"])
    xl.write_refiner(out, os.path.join(sd1, "tokenizer"), xl.rescaled_vae(sd1), two, unet)
