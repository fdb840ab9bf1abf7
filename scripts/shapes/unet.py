"""Stage four: the UNet with the text encoder, on latents made beforehand.

Noise prediction with min-SNR weights (Hang et al. 2023, gamma 5), one caption in ten left empty for classifier-free guidance,
averaged weights for what is exported. Time, not steps, drives the schedule: the budget may be changed between runs.
"""
import math
import os
import time

import torch

from . import bpe, export
from .common import SEED, VAE, Average, Log, alphas_cumulative, load_state, save_state
from .text import tokens_of

BATCH = 32
RATE = 8e-4
GAMMA = 5.0
EMPTY = 0.1


def order(count, step):
    """The BATCH scene numbers of a step: every epoch is a new permutation of the whole list."""
    per_epoch = count // BATCH
    generator = torch.Generator().manual_seed(SEED + step // per_epoch)
    at = step % per_epoch * BATCH
    return torch.randperm(count, generator=generator)[at:at + BATCH]


def draw(data, empty, alphas, step):
    """Everything random about a step: noisy latents, noise, times, loss weights, tokens."""
    generator = torch.Generator().manual_seed(SEED * 1000 + step)
    pick = order(len(data["latents"]), step)
    clean, tokens = data["latents"][pick], data["tokens"][pick].long()
    tokens[torch.rand(BATCH, generator=generator) < EMPTY] = empty
    # One time step from each of BATCH equal slices: an even spread costs nothing and lowers the noise of the loss.
    times = ((torch.arange(BATCH) + torch.rand(BATCH, generator=generator)) * (len(alphas) / BATCH)).long()
    noise = torch.randn(clean.shape, generator=generator)
    a = alphas[times]
    noisy = a.sqrt()[:, None, None, None] * clean + (1 - a).sqrt()[:, None, None, None] * noise
    snr = a / (1 - a)
    return noisy, noise, times, snr.clamp(max=GAMMA) / snr, tokens


def train(folder, minutes, latest=None, export_every=8.0):
    torch.manual_seed(SEED + 2)
    tokenizer = bpe.load(os.path.join(folder, "tokenizer"))
    unet, encoder = export.new_unet(), export.new_text_encoder(tokenizer)
    unet = unet.to(memory_format=torch.channels_last)
    encoder.load_state_dict(load_state(os.path.join(folder, "text.pt"))["encoder"])
    both = torch.nn.ModuleDict({"unet": unet, "text": encoder})
    optimizer = torch.optim.AdamW(both.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=1e-2, fused=True)
    average = Average(both, 0.998)
    path = os.path.join(folder, "unet.pt")
    step, spent = 0, 0.0
    state = load_state(path)
    if state:
        both.load_state_dict(state["both"])
        optimizer.load_state_dict(state["optimizer"])
        average.weights, step, spent = state["average"], state["step"], state["spent"]
    data = load_state(os.path.join(folder, "latents.pt"))
    empty, alphas = tokens_of(tokenizer, [""])[0].long(), alphas_cumulative()
    predict = torch.compile(unet, dynamic=False)
    log = Log(os.path.join(folder, "unet.csv"), ("step", "seconds", "loss", "loss_high_noise", "loss_low_noise", "rate"))
    sums, saved, exported = torch.zeros(3), spent, spent
    last = time.monotonic()
    while spent < minutes * 60:
        done = spent / (minutes * 60)
        rate = RATE * min(1.0, (step + 1) / 200) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        noisy, noise, times, weights, tokens = draw(data, empty, alphas, step)
        guess = predict(noisy.contiguous(memory_format=torch.channels_last), times, encoder(tokens).last_hidden_state).sample
        each = (guess - noise).square().mean((1, 2, 3))
        loss = (each * weights).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(both.parameters(), 1.0)
        optimizer.step()
        average.update(both, step)
        step += 1
        with torch.no_grad():
            sums += torch.stack([loss, each[BATCH // 2:].mean(), each[:BATCH // 2].mean()])
        now = time.monotonic()
        spent, last = spent + min(now - last, 20.0), now
        if step % 50 == 0:
            log.row(step, spent, *(sums / 50).tolist(), rate)
            sums.zero_()
        if spent - saved > 180 or spent >= minutes * 60:
            saved = spent
            save_state(path, both=both.state_dict(), optimizer=optimizer.state_dict(), average=average.weights, step=step, spent=spent)
            if latest and spent - exported > export_every * 60:
                exported = spent
                write(folder, latest)


def write(folder, out):
    """Exports the averaged weights of the newest checkpoint."""
    from diffusers import AutoencoderKL
    weights = load_state(os.path.join(folder, "unet.pt"))["average"]
    tokenizer = bpe.load(os.path.join(folder, "tokenizer"))
    unet, encoder, vae = export.new_unet(), export.new_text_encoder(tokenizer), AutoencoderKL(**VAE)
    unet.load_state_dict({k[5:]: v for k, v in weights.items() if k.startswith("unet.")})
    encoder.load_state_dict({k[5:]: v for k, v in weights.items() if k.startswith("text.")})
    vae.load_state_dict(load_state(os.path.join(folder, "vae-final.pt"))["vae"])
    export.write(out, os.path.join(folder, "tokenizer"), vae, encoder, unet)
