"""quantize.safetensors: pictures of few colours, as Pillow makes them for ComfyUI's ImageQuantize: `noise` and `smooth`, and PICTURE.COLOURS.DITHER of each.
`palette` is the one of 16 colours of a picture with more than 65536 colours, whose bytes a linear congruential generator draws."""

import math

import numpy as np
import torch
from PIL import Image

from common import GOLDEN, save, versions

DITHERS = ("none", "floyd-steinberg", "bayer-2", "bayer-4", "bayer-8", "bayer-16")


def thresholds(order):
    """Bayer's matrix around 0, each step a fraction of 1."""
    m = np.zeros((1, 1), np.float32)
    while len(m) < order:
        q = np.float32(4 * len(m) ** 2)
        m = np.block([[q * m - 1.5, q * m + 0.5], [q * m + 1.5, q * m - 0.5]]).astype(np.float32) / q
    return m


def quantized(image, colours, dither):
    palette = image.quantize(colours)
    if dither.startswith("bayer"):
        m = thresholds(int(dither[6:]))
        m = np.float32(2 * 256 / (len(palette.getpalette()) // 3)) * m + np.float32(0.5)
        a = np.asarray(image, np.float32)
        m = np.tile(m, [math.ceil(n / len(m)) for n in a.shape[:2]])[: a.shape[0], : a.shape[1], None]
        image, dither = Image.fromarray(np.clip(a + m, 0, 255).astype(np.uint8)), "none"
    how = Image.Dither.FLOYDSTEINBERG if dither != "none" else Image.Dither.NONE
    return np.asarray(image.quantize(palette=palette, dither=how).convert("RGB"))


def drawn(n):
    x, out = 1, np.empty(n, np.uint8)
    for i in range(n):
        x = (x * 1664525 + 1013904223) % 2**32
        out[i] = x >> 24
    return out


def main():
    rng = np.random.default_rng(20)
    y, x = np.mgrid[0:24, 0:23]
    pictures = {"noise": rng.integers(0, 256, (16, 17, 3), dtype=np.uint8), "smooth": np.stack([x * 11, y * 10, (x + y) * 5], -1).astype(np.uint8)}
    out = {}
    for name, pixels in pictures.items():
        out[name] = torch.from_numpy(pixels.astype(np.float32) / 255)[None]
        for colours, dithers in ((1, DITHERS[:1]), (5, DITHERS), (16, DITHERS[:3]), (256, DITHERS[:2])):
            for dither in dithers:
                made = quantized(Image.fromarray(pixels), colours, dither)
                out[f"{name}.{colours}.{dither}"] = torch.from_numpy(made.astype(np.float32) / 255)[None]
    many = Image.fromarray(drawn(320 * 320 * 3).reshape(320, 320, 3))
    out["palette"] = torch.tensor(many.quantize(16).getpalette()[: 16 * 3], dtype=torch.float32).reshape(16, 3)
    save(GOLDEN / "quantize.safetensors", out, {**versions(), "pillow": Image.__version__})


if __name__ == "__main__":
    main()
