#!/usr/bin/env python3
"""Trains shapes-gemma: a small DiffusionGemma that makes a caption for shapes-sd1 out of a short request.

    python3 scripts/train_shapes_gemma.py --work build/shapes-gemma --out workflows/models/text_diffusion/shapes-gemma

Requests and captions are made by scripts/shapes/wishes.py; there is no other data. The law: tokens of the caption's canvas are replaced
by random ones at a random level, and the model says the clean canvas; half of the time it sees its own earlier guess
(self-conditioning; Chen et al. 2022, "Analog Bits"). Data and noise of every step are functions of the seed; the length of the schedule is
given in minutes. A run that was ended goes on from its last checkpoint. Needs torch, transformers 5.23 or later, safetensors, numpy and Pillow.
"""
import argparse
import math
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch
from tokenizers import Tokenizer

from shapes import gemma, gemma_tokenizer
from shapes.common import SEED, Average, Log, load_state, save_state
from shapes.wishes import example_at

SYSTEMS = ("Write a caption of one or two shapes.", "You write captions for pictures of shapes.")  # one prompt in ten has one of these


def canvas_of(tokenizer, caption):
    ids = tokenizer.encode(caption, add_special_tokens=False).ids + [gemma.END]
    return ids + [gemma_tokenizer.EOS] * (gemma.CANVAS - len(ids))


def batches(tokenizer, size, first):
    """(prompts [size, n], canvases [size, CANVAS], number of the next example) for ever; the prompts of a batch have one length."""
    waiting, index = {}, first
    while True:
        request, _, caption = example_at(SEED, index)
        rng = random.Random(f"system/{SEED}/{index}")
        system = rng.choice(SYSTEMS) if rng.random() < 0.1 else ""
        index += 1
        prompt = tokenizer.encode(gemma_tokenizer.chat(request, system), add_special_tokens=False).ids
        group = waiting.setdefault(len(prompt), [])
        group.append((prompt, canvas_of(tokenizer, caption)))
        if len(group) == size:
            del waiting[len(prompt)]
            yield torch.tensor([p for p, _ in group]), torch.tensor([c for _, c in group]), index


def rate(step, done):
    """Warm-up over 100 steps, then half a cosine to a hundredth; done: the share of the time that is over."""
    return min(1.0, (step + 1) / 100) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))


def train(args, tokenizer):
    model = gemma.fresh(SEED)
    balance, average = gemma.Balance(model), Average(model, args.average)
    parameters = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in parameters if p.dim() >= 2]
    others = [p for p in parameters if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], lr=args.rate, betas=(0.9, 0.98))
    path = os.path.join(args.work, "state.pt")
    state = load_state(path)
    step, first, spent, done = 0, 0, 0.0, 0.0
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average.weights, step, first, spent = state["average"], state["step"], state["next"], state["seconds"]
    log = Log(os.path.join(args.work, "log.csv"), ["step", "loss", "balance", "least_used", "seconds"])
    data, sums, start = batches(tokenizer, args.batch, first), [], time.time() - spent
    while done < 1:
        prompts, clean, first = next(data)
        for group in optimizer.param_groups:
            group["lr"] = args.rate * rate(step, done)
        loss = gemma.loss_of(model, prompts, clean, torch.Generator().manual_seed(SEED * 1000003 + step))
        even, least = balance.take()
        optimizer.zero_grad(set_to_none=True)
        (loss + 0.01 * even).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        average.update(model, step)
        step += 1
        done = (time.time() - start) / (60 * args.minutes)
        sums.append(float(loss.detach()))
        if step % 50 == 0:
            log.row(step, sum(sums) / len(sums), float(even.detach()), least, time.time() - start)
            sums = []
        if step % 250 == 0 or done >= 1:
            save_state(path, model=model.state_dict(), optimizer=optimizer.state_dict(), average=average.weights, step=step, next=first, seconds=time.time() - start)
            export(model, average, args.work + "/latest")
    return model, average


def export(model, average, folder):
    """The averaged weights in bf16 with their tokenizer."""
    mine = {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(average.weights)
    gemma.save(model, folder)
    model.load_state_dict(mine)
    gemma_tokenizer.write(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", default="build/shapes-gemma")
    parser.add_argument("--out", default="workflows/models/text_diffusion/shapes-gemma")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--average", type=float, default=0.995)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    os.makedirs(args.work, exist_ok=True)
    gemma_tokenizer.write(os.path.join(args.work, "tokenizer"))
    tokenizer = Tokenizer.from_file(os.path.join(args.work, "tokenizer", "tokenizer.json"))
    model, average = train(args, tokenizer)
    export(model, average, args.out)


if __name__ == "__main__":
    main()
