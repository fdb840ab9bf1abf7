"""The goldens of this proof, from diffusers: make.py writes goldens.safetensors beside itself. The tiny UNet is the control proof's.

Everything is computed in float64 and rounded once; noise is torch's.
"""

import pathlib
import sys

import torch
import torch.nn.functional as F

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "control"))

import reference  # noqa: E402
from reference import SIGMAS, euler, nhwc, randn, save  # noqa: E402

HEIGHT, WIDTH = 9, 14
CONTEXT = reference.CONTEXT


def guess(unet, x, sigma, tokens):
    n = x.shape[0]
    p = unet(reference.scaled(x, sigma), reference.timestep(sigma), tokens.expand(n, -1, -1)).sample
    return x - sigma * p


def three_way(unet, x, sides, text, image):
    for sigma, following in zip(SIGMAS, SIGMAS[1:]):
        full, picture, none = (guess(unet, x, sigma, s) for s in sides)
        d = none + image * (picture - none) + text * (full - picture)
        x = x + (x - d) / sigma * (following - sigma)
    return x


def noise(seed, shape):
    return torch.randn(shape, generator=torch.Generator("cpu").manual_seed(seed), dtype=torch.float32).double()


def begins(size, tile, overlap):
    step = tile - overlap if tile > overlap else 1
    if tile >= size:
        return [0]
    return [min(i * step, size - tile) for i in range(-(-(size - tile) // step) + 1)]


def weights(h, w, overlap):
    y, x = torch.arange(h).double(), torch.arange(w).double()
    ramp = lambda i, n: torch.minimum(torch.minimum(i + 1, n - i) / (overlap + 1), torch.ones_like(i))
    return (ramp(y, h)[:, None] * ramp(x, w)[None, :]).float().double()


def guess_in_tiles(unet, x, sigma, sides, tile, overlap, cfg):
    sums, total = torch.zeros_like(x), torch.zeros_like(x)
    h, w = min(tile, x.shape[2]), min(tile, x.shape[3])
    weight = weights(h, w, overlap)
    for y in begins(x.shape[2], h, overlap):
        for left in begins(x.shape[3], w, overlap):
            part = x[:, :, y : y + h, left : left + w]
            one, no = (guess(unet, part, sigma, s) for s in sides)
            sums[:, :, y : y + h, left : left + w] += weight * (no + cfg * (one - no))
            total[:, :, y : y + h, left : left + w] += weight
    return sums / total


def tiled(unet, given, sides, tile=6, overlap=2, cfg=3.0, most=1000.0, smooth=0.0, churn=0.0, seed=0, keep=None):
    x = given + SIGMAS[0] * noise(seed, given.shape)
    for i, (sigma, following) in enumerate(zip(SIGMAS, SIGMAS[1:])):
        moved = torch.roll(x, (3 * i, 5 * i), (2, 3))
        d = torch.roll(guess_in_tiles(unet, moved, sigma, sides, tile, overlap, cfg), (-3 * i, -5 * i), (2, 3))
        d = d * min(1.0, most / float((d**2).mean().sqrt()))
        if smooth:
            half = F.interpolate(d, ((HEIGHT + 1) // 2, (WIDTH + 1) // 2), mode="area")
            d = (1 - smooth) * d + smooth * F.interpolate(half, (HEIGHT, WIDTH), mode="bilinear")
        if keep is not None:
            d = given * keep + d * (1 - keep)
        x = x + (x - d) / sigma * (following - sigma)
        if following > 0 and churn:
            x = x + churn * following * noise(seed + 1 + i, given.shape)
    return x


def main():
    unet = reference.tiny_unet().double()
    with torch.no_grad():
        full, image, none = (randn(f"tiles.{n}", 1, 3, CONTEXT).half().double() for n in ("full", "image", "none"))
        x = randn("tiles.x", 1, 4, HEIGHT, WIDTH).half().double()
        start = SIGMAS[0] * x
        mask = torch.zeros(1, 1, HEIGHT, WIDTH).double()
        mask[:, :, 2:6, 3:8] = 1
        mask[:, :, 6, 3:8] = 0.5
        out = {
            "full": full,
            "image": image,
            "none": none,
            "start": nhwc(start),
            "given": nhwc(x),
            "keep": mask[:, 0],
            "golden.three_way": nhwc(three_way(unet, start, (full, image, none), 5.0, 1.5)),
            "golden.whole": nhwc(tiled(unet, x, (full, none), tile=64, seed=7)),
            "golden.tiles": nhwc(tiled(unet, x, (full, none), seed=7)),
            "golden.all": nhwc(tiled(unet, x, (full, none), most=1.2, smooth=0.4, churn=0.1, seed=11, keep=mask)),
        }
    save(FOLDER / "goldens.safetensors", {k: v.float().contiguous() for k, v in out.items()})


main()
