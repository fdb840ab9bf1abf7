"""Stage four: the UNet with the text encoder, on latents made beforehand.

Noise prediction with min-SNR weights (Hang et al. 2023, gamma 5), one caption in ten left empty for classifier-free guidance,
averaged weights for what is exported. Time, not steps, drives the schedule: the budget may be changed between runs.
"""
import math
import os
import random
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from . import bpe, export
from .common import SEED, TEXT, VAE, Average, Log, alphas_cumulative, load_state, save_state
from .scenes import retell, scene_at
from .text import PLACES, places_of, tokens_of

BATCH = 32
RATE = 8e-4
GAMMA = 5.0
EMPTY = 0.1
# The last time step still holds 7 % of the picture, enough to read the ground from the mean of 256 pixels, which the pure
# noise that sampling starts from contradicts. A random offset of the whole picture hides it (Guttenberg 2023).
OFFSET = 0.15
PLACE = 0.01  # weight of telling, from the states of the caption, what lies where (heads that are thrown away)
COARSE = 0.3  # weight of the error averaged over 4x4 latents: ground and colours are decided there (Hoogeboom et al. 2023)


def order(count, step):
    """The BATCH scene numbers of a step: every epoch is a new permutation of the whole list."""
    per_epoch = count // BATCH
    generator = torch.Generator().manual_seed(SEED + step // per_epoch)
    at = step % per_epoch * BATCH
    return torch.randperm(count, generator=generator)[at:at + BATCH]


def draw(data, empty, alphas, step):
    """Everything random about a step: noisy latents, noise, times, loss weights, tokens, places (-100: caption left out)."""
    generator = torch.Generator().manual_seed(SEED * 1000 + step)
    pick = order(len(data["latents"]), step)
    clean, places = data["latents"][pick], data["places"][pick]
    told = torch.rand(BATCH, generator=generator) < 0.5
    tokens = torch.where(told[:, None], data["tokens"][pick], data["retold"][pick]).long()
    dropped = torch.rand(BATCH, generator=generator) < EMPTY
    tokens[dropped], places[dropped] = empty, -100
    # One time step from each of BATCH equal slices: an even spread costs nothing and lowers the noise of the loss.
    times = ((torch.arange(BATCH) + torch.rand(BATCH, generator=generator)) * (len(alphas) / BATCH)).long()
    noise = torch.randn(clean.shape, generator=generator)
    noise = noise + OFFSET * torch.randn(BATCH, clean.shape[1], 1, 1, generator=generator)
    a = alphas[times]
    noisy = a.sqrt()[:, None, None, None] * clean + (1 - a).sqrt()[:, None, None, None] * noise
    snr = a / (1 - a)
    return noisy, noise, times, snr.clamp(max=GAMMA) / snr, tokens, places


def load_data(folder, tokenizer):
    data = load_state(os.path.join(folder, "latents.pt"))
    scenes = [scene_at(SEED, i) for i in range(len(data["latents"]))]
    data["retold"] = tokens_of(tokenizer, [retell(scene, random.Random(i)) for i, scene in enumerate(scenes)])
    data["places"] = torch.tensor([places_of(scene) for scene in scenes])
    return data


def place_loss(heads, states, tokens, places, end, step):
    """Cross entropy of the place heads at the end token and at one random position of the padding."""
    rows, length = torch.arange(len(tokens)), tokens.shape[1]
    ends = (tokens == end).int().argmax(1)
    chance = torch.rand(len(tokens), generator=torch.Generator().manual_seed(step))
    later = (ends + (chance * (length - ends)).long()).clamp(max=length - 1)
    seen = torch.cat([states[rows, ends], states[rows, later]])
    return sum(F.cross_entropy(head(seen), places[:, k].repeat(2), ignore_index=-100) for k, head in enumerate(heads))


class Gang:
    """What the workers of one machine share: a gradient buffer each, a barrier, and the first worker's word on rate and end."""

    def __init__(self, workers, size):
        self.grads = [torch.zeros(size).share_memory_() for _ in range(workers)]
        self.word = torch.zeros(2, dtype=torch.float64).share_memory_()  # learning rate, 1 at the last step
        self.barrier = torch.multiprocessing.get_context("spawn").Barrier(workers)

    def average(self, rank, parameters):
        """Replaces each gradient by the mean over workers; the sum runs in worker order, so all get the same bits."""
        torch.cat([p.grad.flatten() for p in parameters], out=self.grads[rank])
        self.barrier.wait()
        mean = sum(self.grads[1:], self.grads[0]) / len(self.grads)
        at = 0
        for p in parameters:
            p.grad.copy_(mean[at:at + p.numel()].view_as(p))
            at += p.numel()
        self.barrier.wait()


def new_models(folder):
    torch.manual_seed(SEED + 2)
    tokenizer = bpe.load(os.path.join(folder, "tokenizer"))
    unet, encoder = export.new_unet(), export.new_text_encoder(tokenizer)
    encoder.load_state_dict(load_state(os.path.join(folder, "text.pt"))["encoder"])
    return tokenizer, torch.nn.ModuleDict({"unet": unet.to(memory_format=torch.channels_last), "text": encoder})


def new_heads():
    torch.manual_seed(SEED + 4)
    return torch.nn.ModuleList(torch.nn.Linear(TEXT["hidden_size"], len(names)) for _, names in PLACES)


def train(folder, minutes, latest=None, workers=2):
    """One process a worker, one thread each: small kernels keep two processes busier than two threads."""
    _, both = new_models(folder)
    sizes = [p.numel() for module in (both, new_heads()) for p in module.parameters() if p.requires_grad]
    gang = Gang(workers, sum(sizes))
    torch.multiprocessing.spawn(work, (gang, folder, minutes, latest), nprocs=workers)


def work(rank, gang, folder, minutes, latest):
    torch.set_num_threads(1)
    workers = len(gang.grads)
    mine = torch.arange(rank, BATCH, workers)
    tokenizer, both = new_models(folder)
    heads = new_heads()
    parameters = [p for module in (both, heads) for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.99), weight_decay=1e-2, fused=True)
    average = Average(both, 0.998)
    path = os.path.join(folder, "unet.pt")
    step, spent = 0, 0.0
    state = load_state(path)
    if state:
        both.load_state_dict(state["both"])
        if "heads" in state:
            heads.load_state_dict(state["heads"])
            optimizer.load_state_dict(state["optimizer"])
        average.weights, step, spent = state["average"], state["step"], state["spent"]
    data = load_data(folder, tokenizer)
    empty, alphas = tokens_of(tokenizer, [""])[0].long(), alphas_cumulative()
    predict = torch.compile(both["unet"], dynamic=False)
    log = Log(os.path.join(folder, "unet.csv"), ("step", "seconds", "loss", "loss_high_noise", "loss_low_noise", "rate", "place")) if rank == 0 else None
    sums, saved, last, ended = torch.zeros(4), spent, time.monotonic(), False
    while not ended:
        noisy, noise, times, weights, tokens, places = (part[mine] for part in draw(data, empty, alphas, step))
        states = both["text"](tokens).last_hidden_state
        guess = predict(noisy.contiguous(memory_format=torch.channels_last), times, states).sample
        each = (guess - noise).square().mean((1, 2, 3))
        coarse = 16 * F.avg_pool2d(guess - noise, 4).square().mean((1, 2, 3))  # same scale as `each` for white error
        place = place_loss(heads, states, tokens, places, tokenizer.eos_token_id, step)
        loss = ((each + COARSE * coarse) * weights).mean() + PLACE * place
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if rank == 0:
            now = time.monotonic()
            spent, last = spent + min(now - last, 20.0), now  # a paused process does not eat the budget
            gang.word[0], gang.word[1] = rate_at(step, spent / (minutes * 60)), float(spent >= minutes * 60)
        gang.average(rank, parameters)
        rate, ended = gang.word[0].item(), gang.word[1].item() > 0
        gang.barrier.wait()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        step += 1
        if rank > 0:
            continue
        average.update(both, step)
        half = len(mine) // 2
        sums += torch.stack([(each * weights).mean().detach(), each[half:].mean().detach(), each[:half].mean().detach(), place.detach()])
        if step % 50 == 0:
            log.row(step, spent, *(sums[:3] / 50).tolist(), rate, sums[3].item() / 50)
            sums.zero_()
        if spent - saved > 300 or ended:
            saved = spent
            save_state(path, both=both.state_dict(), heads=heads.state_dict(), optimizer=optimizer.state_dict(), average=average.weights, step=step, spent=spent)
            if latest and not ended:
                entry = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "train_shapes.py")
                subprocess.Popen(["nice", sys.executable, entry, "export", "--threads", "1", "--work", folder, "--out", latest])


def rate_at(step, done):
    return RATE * min(1.0, (step + 1) / 200) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))


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
