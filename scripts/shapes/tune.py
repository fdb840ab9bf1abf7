"""The loop that the later UNets share: noise prediction with min-SNR weights, one process a worker, averaged weights.

A task says what one step sees: Task(*args) has .unet (trained), .count (of examples), .batch (of them a step), .gamma (of the weights), .quick
(parts of the names of weights that have far to go) and .step(pick, generator), which returns the UNet's arguments, the wanted noise and each
example's alpha bar. Everything random about a step is a function of its number.
"""
import math
import os
import time

import torch
import torch.nn.functional as F

from .common import SEED, Average, Log, load_state, save_state
from .unet import COARSE, Gang

RATE = 5e-4
QUICK = 4.0  # times the rate for what has far to go
SAVE_SECONDS = 180


def order(count, batch, step):
    """The examples of a step: every epoch is a new permutation of the whole list."""
    per_epoch = count // batch
    generator = torch.Generator().manual_seed(SEED + step // per_epoch)
    at = step % per_epoch * batch
    return torch.randperm(count, generator=generator)[at:at + batch]


def spread(rows, generator, steps):
    """One time from each of rows equal slices of 0 .. steps-1: an even spread lowers the noise of the loss."""
    return ((torch.arange(rows) + torch.rand(rows, generator=generator)) * (steps / rows)).long()


def noised(clean, times, alphas, offset, generator, blotches=0.0):
    """Noisy latents, the noise and alpha bar. offset: see unet.py; blotches: up to this much noise four and two cells wide."""
    noise = torch.randn(clean.shape, generator=generator)
    for side in (4, 8) if blotches else ():
        coarse = torch.randn(*clean.shape[:2], side, side, generator=generator) * torch.rand(len(clean), 1, 1, 1, generator=generator)
        noise = noise + blotches * F.interpolate(coarse, clean.shape[2:], mode="bilinear")
    noise = noise + offset * torch.randn(len(clean), clean.shape[1], 1, 1, generator=generator)
    a = alphas[times][:, None, None, None]
    return a.sqrt() * clean + (1 - a).sqrt() * noise, noise, a.flatten()


def rate_at(step, done, rate):
    return rate * min(1.0, (step + 1) / 100) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))


def train(new_task, args, path, minutes, workers=2, rate=RATE):
    """Trains until minutes of work are spent, all runs together; path.pt is the checkpoint, path.csv the log."""
    sizes = [p.numel() for p in new_task(*args).unet.parameters()]
    gang = Gang(workers, sum(sizes))
    torch.multiprocessing.spawn(work, (gang, new_task, args, path, minutes, rate), nprocs=workers)


def work(rank, gang, new_task, args, path, minutes, rate):
    torch.set_num_threads(1)
    workers = len(gang.grads)
    task = new_task(*args)
    unet = task.unet.train().to(memory_format=torch.channels_last)
    parameters = list(unet.parameters())
    groups = [{"params": [], "scale": 1.0}, {"params": [], "scale": QUICK}]
    for name, parameter in unet.named_parameters():
        groups[any(part in name for part in task.quick)]["params"].append(parameter)
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99), weight_decay=1e-2, fused=True)
    average, step, spent = Average(unet, 0.998), 0, 0.0
    state = load_state(path + ".pt")
    if state:
        unet.load_state_dict(state["unet"])
        optimizer.load_state_dict(state["optimizer"])
        average.weights, step, spent = state["average"], state["step"], state["spent"]
    log = Log(path + ".csv", ("step", "seconds", "loss", "loss_high_noise", "loss_low_noise", "rate")) if rank == 0 else None
    sums, saved, last, ended = torch.zeros(3), spent, time.monotonic(), spent >= minutes * 60
    while not ended:
        generator = torch.Generator().manual_seed((SEED * 1000 + step) * 16 + rank)
        inputs, wanted, a = task.step(order(task.count, task.batch, step)[rank::workers], generator)
        error = unet(**inputs).sample - wanted
        snr = a / (1 - a)
        weights = snr.clamp(max=task.gamma) / snr
        each = error.square().mean((1, 2, 3))
        coarse = 16 * F.avg_pool2d(error, 4).square().mean((1, 2, 3))
        optimizer.zero_grad(set_to_none=True)
        ((each + COARSE * coarse) * weights).mean().backward()
        if rank == 0:
            now = time.monotonic()
            spent, last = spent + min(now - last, 20.0), now  # a paused process does not eat the budget
            gang.word[0], gang.word[1] = rate_at(step, spent / (minutes * 60), rate), float(spent >= minutes * 60)
        gang.average(rank, parameters)
        now_rate, ended = gang.word[0].item(), gang.word[1].item() > 0
        gang.barrier.wait()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = now_rate * group["scale"]
        optimizer.step()
        step += 1
        if rank > 0:
            continue
        average.update(unet, step)
        half = len(each) // 2
        sums += torch.stack([(each * weights).mean(), each[half:].mean(), each[:half].mean()]).detach()
        if step % 25 == 0:
            log.row(step, spent, *(sums / 25).tolist(), now_rate)
            sums.zero_()
        if spent - saved > SAVE_SECONDS or ended:
            saved = spent
            save_state(path + ".pt", unet=unet.state_dict(), optimizer=optimizer.state_dict(), average=average.weights, step=step, spent=spent)
