"""Stage one: the autoencoder, 128x128x3 pictures to 16x16x4 latents and back.

Loss: L1 + squared error + L1 of neighbouring differences (sharp edges) + a whisper of KL. Most of the time is
spent on 64x64 crops, which cost a quarter; the last part on whole pictures, so that norms and the middle attention see
the real size. Afterwards latents are standardised per channel by folding the scale into quant_conv and post_quant_conv.
"""
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL

from .common import LATENT_SCALE, SEED, VAE, Average, Log, load_state, save_state
from .scenes import SIZE, paint, scene_at

BATCH = 8
KL = 3e-4
SQUARE = 4.0  # the squared error is what tells colours apart early on
RATE = 1.2e-3


def tensor_of(stack):
    """uint8 pictures [n, h, w, 3] as floats in -1 .. 1, [n, 3, h, w] in memory order n, h, w, 3."""
    return (torch.from_numpy(stack).permute(0, 3, 1, 2).float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)


def pictures(first, count):
    """Scenes first .. first+count-1 of the training list."""
    return tensor_of(np.stack([paint(scene_at(SEED, i)) for i in range(first, first + count)]))


def crops(first, count, side):
    """The same scenes, each cut to a window that holds the centre of one of its things, aligned to the 8 pixels of a latent."""
    out = []
    for i in range(first, first + count):
        scene, rng = scene_at(SEED, i), random.Random(i)
        thing = rng.choice(scene.things)
        left, top = (min(max(int(c - rng.uniform(0, side)) // 8 * 8, 0), SIZE - side) for c in (thing.x, thing.y))
        out.append(paint(scene)[top:top + side, left:left + side])
    return tensor_of(np.stack(out))


def edges(x):
    return x[:, :, 1:] - x[:, :, :-1], x[:, :, :, 1:] - x[:, :, :, :-1]


def losses(vae, x):
    posterior = vae.encode(x).latent_dist
    y = vae.decode(posterior.sample()).sample
    l1 = F.l1_loss(y, x)
    edge = sum(F.l1_loss(a, b) for a, b in zip(edges(y), edges(x)))
    kl = 0.5 * (posterior.mean**2 + posterior.var - 1 - posterior.logvar).mean()
    return l1 + SQUARE * F.mse_loss(y, x) + edge + KL * kl, l1, kl


def train(folder, minutes, whole_share=0.2):
    torch.manual_seed(SEED)
    vae = AutoencoderKL(**VAE).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(vae.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=1e-4)
    average = Average(vae, 0.995)
    path = os.path.join(folder, "vae.pt")
    step, spent = 0, 0.0
    state = load_state(path)
    if state:
        vae.load_state_dict(state["vae"])
        optimizer.load_state_dict(state["optimizer"])
        average.weights, step, spent = state["average"], state["step"], state["spent"]
    log = Log(os.path.join(folder, "vae.csv"), ("step", "seconds", "side", "loss", "l1", "kl"))
    compiled = torch.compile(losses, dynamic=False)
    last = time.monotonic()
    saved = spent
    while spent < minutes * 60:
        done = spent / (minutes * 60)
        side = SIZE if done > 1 - whole_share else SIZE // 2
        rate = RATE * min(1.0, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        x = crops(step * BATCH, BATCH, side)
        loss, l1, kl = (losses if side == SIZE else compiled)(vae, x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimizer.step()
        average.update(vae, step)
        step += 1
        now = time.monotonic()
        spent, last = spent + min(now - last, 20.0), now  # a paused process does not eat the budget
        if step % 20 == 0:
            log.row(step, spent, side, loss.item(), l1.item(), kl.item())
        if spent - saved > 60 or spent >= minutes * 60:
            saved = spent
            save_state(path, vae=vae.state_dict(), optimizer=optimizer.state_dict(), average=average.weights, step=step, spent=spent)


def load(folder):
    """The averaged autoencoder in evaluation mode, latents as training left them."""
    vae = AutoencoderKL(**VAE)
    vae.load_state_dict(load_state(os.path.join(folder, "vae.pt"))["average"])
    return vae.eval().to(memory_format=torch.channels_last)


@torch.no_grad()
def standardise(vae, count=512):
    """Gives every latent channel mean 0 and deviation 1 / LATENT_SCALE over the training scenes, decoding unchanged.

    The encoder's quant_conv yields means m and log variances; both are linear in its output rows, so
    m' = (m - mean) * gain and logvar' = logvar + 2 log gain. post_quant_conv is a 1x1 convolution and absorbs the inverse.
    """
    means = torch.cat([vae.encode(pictures(10**7 + i, 32)).latent_dist.mean for i in range(0, count, 32)])
    mean = means.mean((0, 2, 3))
    gain = 1 / (LATENT_SCALE * means.std((0, 2, 3)))
    n = mean.numel()
    quant, post = vae.quant_conv, vae.post_quant_conv
    quant.weight[:n] *= gain[:, None, None, None]
    quant.bias[:n] = (quant.bias[:n] - mean) * gain
    quant.bias[n:] += 2 * gain.log()
    post.bias += post.weight[:, :, 0, 0] @ mean
    post.weight /= gain[None, :, None, None]
    return vae


def sharpen(folder, minutes, noise=0.06):
    """Trains the decoder on, with the latents as they are and a little noise on them: what a UNet hands over is never exact."""
    torch.manual_seed(SEED + 3)
    model = AutoencoderKL(**VAE)
    path = os.path.join(folder, "vae-final.pt")
    state = load_state(path)
    if state.get("sharpened"):
        return
    model.load_state_dict(state["vae"])
    model = model.to(memory_format=torch.channels_last)
    latents = load_state(os.path.join(folder, "latents.pt"))["latents"]
    parts = torch.nn.ModuleList([model.decoder, model.post_quant_conv])
    optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=1e-4)
    average = Average(model, 0.99)
    log = Log(os.path.join(folder, "decoder.csv"), ("step", "seconds", "loss", "l1"))
    step, spent, last = 0, 0.0, time.monotonic()
    while spent < minutes * 60:
        done = spent / (minutes * 60)
        for group in optimizer.param_groups:
            group["lr"] = 8e-4 * min(1.0, (step + 1) / 20) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        first = step * BATCH % (len(latents) - BATCH)
        x, z = pictures(first, BATCH), latents[first:first + BATCH]
        z = z + noise * torch.rand(BATCH, 1, 1, 1) * torch.randn_like(z)
        y = model.decode((z / LATENT_SCALE).contiguous(memory_format=torch.channels_last)).sample
        l1 = F.l1_loss(y, x)
        loss = l1 + SQUARE * F.mse_loss(y, x) + sum(F.l1_loss(a, b) for a, b in zip(edges(y), edges(x)))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parts.parameters(), 1.0)
        optimizer.step()
        average.update(model, step)
        step += 1
        now = time.monotonic()
        spent, last = spent + min(now - last, 20.0), now
        if step % 20 == 0:
            log.row(step, spent, loss.item(), l1.item())
    save_state(path, vae=average.weights, sharpened=True)
