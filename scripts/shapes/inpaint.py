"""shapes-sd1-inpainting: shapes-sd1 with nine input channels (noisy latents, the mask, the masked picture's latents).

Every picture has its own mask: a half, a rectangle, a few blobs or all of it; what is masked is gray to the encoder. The caption is
that of the whole scene. The five new input channels start at zero, so training begins with shapes-sd1 itself.
"""
import os
import random
import time

import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionInpaintPipeline, UNet2DConditionModel
from PIL import Image, ImageDraw
from transformers import CLIPTextModel

from . import bpe, export, warm
from .common import LATENT_SCALE, SCHEDULE, SEED, UNET, alphas_cumulative, load_state, save_state
from .scenes import SIZE, paint, retell, scene_at
from .text import tokens_of
from .tune import noised, spread
from .unet import EMPTY, GAMMA, OFFSET
from .vae import tensor_of

FIRST = 40_000_000  # scenes that shapes-sd1 was not trained on
SIZES = {**UNET, "in_channels": 9}


def half(pen, rng):
    middle, far = SIZE // 2 + rng.randint(-12, 12), SIZE
    pen.rectangle(rng.choice(((0, 0, middle - 1, far), (middle, 0, far, far), (0, 0, far, middle - 1), (0, middle, far, far))), fill=255)


def rectangle(pen, rng):
    w, h = rng.randint(24, 112), rng.randint(24, 112)
    x, y = rng.randint(0, SIZE - w), rng.randint(0, SIZE - h)
    pen.rectangle((x, y, x + w - 1, y + h - 1), fill=255)


def blobs(pen, rng):
    x, y = rng.uniform(16, 112), rng.uniform(16, 112)
    for _ in range(rng.randint(2, 7)):
        r = rng.uniform(8, 30)
        pen.ellipse((x - r, y - r, x + r, y + r), fill=255)
        x, y = x + rng.uniform(-24, 24), y + rng.uniform(-24, 24)


def everything(pen, rng):
    pen.rectangle((0, 0, SIZE, SIZE), fill=255)


def mask_of(index):
    """uint8 [128, 128], 255 where the picture is to be drawn anew."""
    rng = random.Random(f"mask/{index}")
    image = Image.new("L", (SIZE, SIZE))
    rng.choice((half, half, half, rectangle, rectangle, blobs, everything))(ImageDraw.Draw(image), rng)
    return np.asarray(image)


@torch.no_grad()
def make(work, sd1, count, tokenizer):
    """inpaint-data.pt: latents and latents of the masked pictures [count, 4, 16, 16], masks [count, 1, 16, 16], tokens [count, 77]."""
    path = os.path.join(work, "inpaint-data.pt")
    if os.path.exists(path):
        return
    vae = AutoencoderKL.from_pretrained(sd1, subfolder="vae", torch_dtype=torch.float32).eval().to(memory_format=torch.channels_last)
    latents, masked, masks, told, began = [], [], [], [], time.monotonic()
    for i in range(0, count, 32):
        scenes = [scene_at(SEED, FIRST + k) for k in range(i, min(i + 32, count))]
        pictures = tensor_of(np.stack([paint(s) for s in scenes]))
        mask = torch.from_numpy(np.stack([mask_of(k) for k in range(i, i + len(scenes))]))[:, None].float() / 255
        both = vae.encode(torch.cat([pictures, pictures * (mask < 0.5)])).latent_dist.mean.contiguous() * LATENT_SCALE
        latents.append(both[:len(scenes)])
        masked.append(both[len(scenes):])
        masks.append(mask[:, :, ::8, ::8])
        told += [retell(s, random.Random(i + k)) for k, s in enumerate(scenes)]
        if i % 3200 == 0:
            print(f"latents {i}/{count} {time.monotonic() - began:.0f} s", flush=True)
    save_state(path, latents=torch.cat(latents), masked=torch.cat(masked), masks=torch.cat(masks), tokens=tokens_of(tokenizer, told))


def first_unet(sd1):
    torch.manual_seed(SEED + 14)
    unet = UNet2DConditionModel(**SIZES)
    warm.fill(unet, warm.sd1_unet(sd1), {}, torch.eye(UNET["cross_attention_dim"]))
    return unet


class Task:
    batch, gamma, quick = 32, GAMMA, ()

    def __init__(self, work, sd1):
        self.unet = first_unet(sd1)
        self.tokenizer = bpe.load(os.path.join(sd1, "tokenizer"))
        self.text = CLIPTextModel.from_pretrained(sd1, subfolder="text_encoder", torch_dtype=torch.float32).eval()
        self.data, self.alphas = load_state(os.path.join(work, "inpaint-data.pt")), alphas_cumulative()
        self.count = len(self.data["latents"])
        self.empty = tokens_of(self.tokenizer, [""])[0].long()

    @torch.no_grad()
    def step(self, pick, generator):
        rows, data = len(pick), self.data
        tokens = data["tokens"][pick].long()
        tokens[torch.rand(rows, generator=generator) < EMPTY] = self.empty
        times = spread(rows, generator, len(self.alphas))
        noisy, wanted, a = noised(data["latents"][pick], times, self.alphas, OFFSET, generator)
        sample = torch.cat([noisy, data["masks"][pick], data["masked"][pick]], 1).contiguous(memory_format=torch.channels_last)
        return {"sample": sample, "timestep": times, "encoder_hidden_states": self.text(tokens).last_hidden_state}, wanted, a


def write(work, sd1, out):
    """Exports the averaged weights of the newest checkpoint, or the first weights when there is none."""
    unet, state = first_unet(sd1), load_state(os.path.join(work, "inpaint.pt"))
    if state:
        unet.load_state_dict(state["average"])
    vae = AutoencoderKL.from_pretrained(sd1, subfolder="vae", torch_dtype=torch.float32)
    text = CLIPTextModel.from_pretrained(sd1, subfolder="text_encoder", torch_dtype=torch.float32)
    tokenizer = os.path.join(sd1, "tokenizer")
    export.save(out, tokenizer, StableDiffusionInpaintPipeline(
        vae=vae, text_encoder=text, tokenizer=bpe.load(tokenizer), unet=unet, scheduler=DDIMScheduler(**SCHEDULE),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    ))
