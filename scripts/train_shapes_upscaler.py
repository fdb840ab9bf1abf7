#!/usr/bin/env python3
"""Trains shapes-x2, an upscaler for pictures of the shapes: 128x128 to 256x256.

    python3 scripts/train_shapes_upscaler.py --out workflows/models/upscale_models/shapes-x2.safetensors
    python3 scripts/train_shapes_upscaler.py --measure workflows/models/upscale_models/shapes-x2.safetensors
    python3 scripts/train_shapes_upscaler.py --pictures tests/golden/shapes_large

The network is SRVGG ("compact", Wang et al. 2021, Real-ESRGAN): convolutions with PReLUs, a pixel shuffle, and the nearest pixels added. It learns
from scenes drawn at 256x256 and reduced to 128x128. A function of the seed; a few minutes on one core. --measure says by how many decibels it is
ahead of bicubic on scenes of shapes and colours that it has not seen together. Needs torch, numpy, Pillow and safetensors.
"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file

from shapes.common import SEED
from shapes.scenes import paint, scene_at

FEATURES, LAYERS, SCALE = 16, 4, 2
FIRST, HELD_OUT = 80_000_000, 90_000_000  # numbers of scenes
PATCH, BATCH, RATE, DECAY = 24, 16, 4e-3, 0.99


class Upscaler(torch.nn.Module):
    def __init__(self):
        super().__init__()
        body = [torch.nn.Conv2d(3, FEATURES, 3, 1, 1), torch.nn.PReLU(FEATURES)]
        for _ in range(LAYERS):
            body += [torch.nn.Conv2d(FEATURES, FEATURES, 3, 1, 1), torch.nn.PReLU(FEATURES)]
        body.append(torch.nn.Conv2d(FEATURES, 3 * SCALE * SCALE, 3, 1, 1))
        self.body = torch.nn.Sequential(*body)

    def forward(self, x):
        return F.pixel_shuffle(self.body(x), SCALE) + F.interpolate(x, scale_factor=SCALE, mode="nearest")


def large_picture(number, **kind):
    """Scene `number` at 256x256, uint8."""
    return paint(scene_at(SEED, number, **kind), SCALE)


def reduced(picture):
    """[2H, 2W, 3] -> the mean of each 2x2 pixels, as a file has it."""
    return np.asarray(Image.fromarray(picture).reduce(SCALE))


def to_tensor(pictures):
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 255


def make_data(count):
    large = [large_picture(FIRST + i) for i in range(count)]
    return to_tensor([reduced(p) for p in large]), to_tensor(large)


def patches(small, large, g):
    """A batch of pairs; all but one of eight patches hold an edge."""
    x, y = [], []
    while len(x) < BATCH:
        i = int(torch.randint(len(small), (), generator=g))
        top, left = (int(torch.randint(small.shape[-1] - PATCH + 1, (), generator=g)) for _ in range(2))
        part = small[i, :, top : top + PATCH, left : left + PATCH]
        if len(x) % 8 and (part.amax((1, 2)) - part.amin((1, 2))).max() < 0.1:
            continue
        whole = large[i, :, SCALE * top : SCALE * (top + PATCH), SCALE * left : SCALE * (left + PATCH)]
        turn, mirror = (int(torch.randint(n, (), generator=g)) for n in (4, 2))
        pair = [torch.rot90(t, turn, (1, 2)) for t in (part, whole)]
        x.append(pair[0].flip(2) if mirror else pair[0])
        y.append(pair[1].flip(2) if mirror else pair[1])
    return torch.stack(x), torch.stack(y)


def train(net, small, large, steps):
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE, betas=(0.9, 0.99))
    average = {k: v.clone() for k, v in net.state_dict().items()}
    began, mean = time.monotonic(), None
    for step in range(steps):
        x, y = patches(small, large, torch.Generator().manual_seed(SEED + step))
        loss = ((net(x) - y).square() + 1e-3).sqrt().mean()
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 100) * 0.5 * (1 + np.cos(np.pi * step / steps))
        optimizer.step()
        for k, v in net.state_dict().items():
            average[k].lerp_(v, 1 - DECAY if step > 200 else 1)
        mean = loss.item() if mean is None else 0.99 * mean + 0.01 * loss.item()
        if (step + 1) % 200 == 0:
            print(f"step {step + 1}, {time.monotonic() - began:.0f} s, loss {mean:.5f}", flush=True)
        if (step + 1) % 500 == 0:
            measure(net, 10)
    net.load_state_dict(average)


def psnr(a, b):
    """Of each picture, with 8 bits a channel."""
    a = (a.clamp(0, 1) * 255).round() / 255
    return -10 * torch.log10((a - b).square().mean((1, 2, 3)))


@torch.no_grad()
def measure(net, count):
    large = [large_picture(HELD_OUT + i, want_held_out=True) for i in range(count)]
    x, y = to_tensor([reduced(p) for p in large]), to_tensor(large)
    bicubic = to_tensor([np.asarray(Image.fromarray(reduced(p)).resize((p.shape[1], p.shape[0]), Image.BICUBIC)) for p in large])
    ours, theirs = (psnr(net(x), y), psnr(bicubic, y))
    lead = ours - theirs
    print(f"{count} pictures: bicubic {theirs.mean():.2f} dB, {ours.mean():.2f} dB, {lead.mean():.2f} dB ahead, {lead.min():.2f} where it is least", flush=True)


def write_pictures(folder, count):
    """Scenes of --measure at 256x256, for the test."""
    os.makedirs(folder, exist_ok=True)
    for i in range(count):
        Image.fromarray(large_picture(HELD_OUT + i, want_held_out=True)).save(os.path.join(folder, f"{i:02}.png"), optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="workflows/models/upscale_models/shapes-x2.safetensors")
    parser.add_argument("--measure", metavar="FILE", help="no training: measure this one on 100 held-out scenes")
    parser.add_argument("--pictures", metavar="FOLDER", help="no training: write the first 12 of them here, as large as they are drawn")
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--steps", type=int, default=5000)
    args = parser.parse_args()

    if args.pictures:
        return write_pictures(args.pictures, 12)
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    net = Upscaler()
    if args.measure:
        net.load_state_dict(load_file(args.measure))
    else:
        train(net, *make_data(args.scenes), args.steps)
        os.makedirs(os.path.dirname(args.out) or ".", exist_ok=True)
        weights = {k: v.detach().contiguous() for k, v in net.state_dict().items()}
        save_file(weights, args.out, metadata={"format": "pt", "what": "SRVGG x2, for pictures of the shapes"})
        print(f"{os.path.getsize(args.out)} bytes")
    measure(net, 100)


if __name__ == "__main__":
    main()
