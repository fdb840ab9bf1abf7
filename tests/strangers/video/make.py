#!/usr/bin/env python3
"""The video plugin's random weights and goldens: the networks once more, in torch and float64, with a whole Euler sampling around them.

    COMFYUI=FOLDER tests/strangers/video/make.py        (a ComfyUI checkout, for what its tiling makes of a video)

Noise is torch's for [N,C,T,H,W]. Networks and latents are [N,T,H,W,C] here too.
"""

import importlib.machinery
import os
import pathlib
import sys
import unittest.mock

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
CHANNELS, WIDTH, CONTEXT, FACTOR, TIME = 6, 16, 12, 4, 4
BLOCK = FACTOR * FACTOR * 3
F64 = torch.float64
SCALE = torch.tensor([0.5, 0.8, 1.25, 0.4, 1, 0.625], dtype=F64)
SHIFT = torch.tensor([0.1, -0.2, 0, 0.3, -0.1, 0.05], dtype=F64)


def tiled_scale():
    sys.argv = [sys.argv[0], "--cpu"]
    sys.path.insert(0, os.environ["COMFYUI"])
    for absent in ("torchaudio", "torchaudio.functional", "torchaudio.transforms"):
        stand_in = unittest.mock.MagicMock(__spec__=importlib.machinery.ModuleSpec(absent, None), __path__=[])
        sys.modules.setdefault(absent, stand_in)
    import comfy.options

    comfy.options.enable_args_parsing()
    import comfy.utils

    return comfy.utils.tiled_scale_multidim


# ---- weights

generator = torch.Generator().manual_seed(2024)


def random(*shape, gain=1.0):
    fan = torch.tensor(shape[1:]).prod().item() if len(shape) > 1 else 1
    return (torch.randn(*shape, generator=generator) * gain / fan**0.5).float()


def model_weights():
    w = {"in.weight": random(WIDTH, CHANNELS), "in.bias": random(WIDTH, gain=0.1)}
    for i in (0, 1):
        w[f"time.{i}.weight"], w[f"time.{i}.bias"] = random(WIDTH, WIDTH, gain=1.5), random(WIDTH, gain=0.1)
    for name, width in (("text", CONTEXT), ("frames", WIDTH)):
        w[f"{name}.q"] = random(WIDTH, WIDTH, gain=1.5)
        w[f"{name}.k"], w[f"{name}.v"] = random(WIDTH, width, gain=1.5), random(WIDTH, width)
    w["space.weight"], w["space.bias"] = random(WIDTH, WIDTH, 3, 3), random(WIDTH, gain=0.1)
    w["norm.weight"], w["norm.bias"] = 1 + random(WIDTH, gain=0.1), random(WIDTH, gain=0.1)
    w["out.weight"], w["out.bias"] = random(CHANNELS, WIDTH, gain=0.6), random(CHANNELS, gain=0.1)
    return w


def vae_weights():
    w = {"decoder.in": random(WIDTH, CHANNELS), "decoder.first": random(BLOCK, WIDTH, gain=0.25)}
    w["decoder.rest"] = random(TIME * BLOCK, WIDTH, gain=0.25)
    w["encoder.first"], w["encoder.rest"] = random(WIDTH, BLOCK), random(WIDTH, TIME * BLOCK)
    w["encoder.out"] = random(2 * CHANNELS, WIDTH)
    for side in ("decoder", "encoder"):
        w[f"{side}.space"], w[f"{side}.time"] = random(WIDTH, WIDTH, 3, 3), random(WIDTH, WIDTH, gain=0.7)
    return w


# ---- the networks


def attend(x, context, q, k, v):
    split = lambda y: y.unflatten(-1, (2, WIDTH // 2)).transpose(-2, -3)
    of = F.scaled_dot_product_attention(split(x @ q.T), split(context @ k.T), split(context @ v.T))
    return x + of.transpose(-2, -3).flatten(-2)


def convolve(x, weight, bias=None):
    n, t, h, w, d = x.shape
    y = F.conv2d(F.silu(x).reshape(n * t, h, w, d).permute(0, 3, 1, 2), weight, bias, padding=1)
    return x + y.permute(0, 2, 3, 1).reshape(n, t, h, w, d)


def velocity(w, x, timestep, tokens):
    n, t, h, width, _ = x.shape
    half = WIDTH // 2
    angle = timestep[..., None] * torch.exp(-torch.log(torch.tensor(10000.0, dtype=F64)) * torch.arange(half, dtype=F64) / half)
    e = torch.cat([torch.cos(angle), torch.sin(angle)], -1)
    e = F.silu(e @ w["time.0.weight"].T + w["time.0.bias"]) @ w["time.1.weight"].T + w["time.1.bias"]
    y = x @ w["in.weight"].T + w["in.bias"] + e[:, :, None, None]
    y = attend(y.reshape(n, -1, WIDTH), tokens, w["text.q"], w["text.k"], w["text.v"]).reshape(n, t, h, width, WIDTH)
    y = convolve(y, w["space.weight"], w["space.bias"])
    z = F.layer_norm(y.permute(0, 2, 3, 1, 4).reshape(-1, t, WIDTH), (WIDTH,), w["norm.weight"], w["norm.bias"], 1e-5)
    z = attend(z, z, w["frames.q"], w["frames.k"], w["frames.v"])
    y = y + z.reshape(n, h, width, t, WIDTH).permute(0, 3, 1, 2, 4)
    return y @ w["out.weight"].T + w["out.bias"]


def in_time(x, weight):
    before = torch.cat([x[:, :1], x[:, :-1]], 1)
    return x + before @ weight.T


def spread(x, frames):
    n, t, h, w, _ = x.shape
    x = x.reshape(n, t, h, w, frames, FACTOR, FACTOR, 3).permute(0, 1, 4, 2, 5, 3, 6, 7)
    return x.reshape(n, t * frames, h * FACTOR, w * FACTOR, 3)


def decode(w, latent):
    x = latent @ w["decoder.in"].T * 1.5
    x = in_time(convolve(x, w["decoder.space"]), w["decoder.time"])
    return torch.cat([spread(x[:, :1] @ w["decoder.first"].T, 1), spread(x[:, 1:] @ w["decoder.rest"].T, TIME)], 1)


def gather(x, frames):
    n, t, h, w, _ = x.shape
    x = x.reshape(n, t // frames, frames, h // FACTOR, FACTOR, w // FACTOR, FACTOR, 3).permute(0, 1, 3, 5, 2, 4, 6, 7)
    return x.reshape(n, t // frames, h // FACTOR, w // FACTOR, -1)


def encode(w, image):
    x = torch.cat([gather(image[:, :1], 1) @ w["encoder.first"].T, gather(image[:, 1:], TIME) @ w["encoder.rest"].T], 1)
    x = in_time(convolve(x, w["encoder.space"]), w["encoder.time"]) @ w["encoder.out"].T
    return x[..., :CHANNELS], x[..., CHANNELS:]


# ---- sampling


def levels(cells, steps):
    """KSampler's `simple` of a hundred shares of the way, each shifted."""
    shift = 1 + cells / 40 + steps / 100
    table = [(lambda u: shift * u / (1 + (shift - 1) * u))((i + 1) / 100) for i in range(100)]
    return [float(torch.tensor(table[-(1 + int(i * 100 / steps))]).float()) for i in range(steps)] + [0.0]


def sample(w, latent, positives, negative, seed, steps=6, cfg=3.0, mask=None):
    """positives: [(tokens, strength)]"""
    n, t, h, width, c = latent.shape
    noise = torch.randn(n, c, t, h, width, generator=torch.Generator().manual_seed(seed)).to(F64).permute(0, 2, 3, 4, 1)
    start = torch.zeros_like(latent) if not latent.any() else (latent - SHIFT) * SCALE
    sigmas = levels(t * h * width, steps)
    x = (1 - sigmas[0]) * start + sigmas[0] * noise
    keep = torch.ones(1, t, 1, 1, 1, dtype=F64) if mask is None else mask.to(F64)[None, ..., None]
    for sigma, after in zip(sigmas, sigmas[1:]):
        given = x * keep + start * (1 - keep)
        timestep = (1000 * sigma * keep.mean(dim=(2, 3, 4))).expand(n, t)
        guess = lambda tokens: given - sigma * velocity(w, given, timestep, tokens.expand(n, -1, -1))
        total = sum(strength for _, strength in positives)
        positive = sum(guess(tokens) * strength for tokens, strength in positives) / total
        denoised = guess(negative) + cfg * (positive - guess(negative))
        denoised = denoised * keep + start * (1 - keep)
        x = x + (x - denoised) / sigma * (after - sigma)
    return x / SCALE + SHIFT


def in_frames(mask, t, h, w):
    return F.interpolate(mask[None, None], size=(t, h, w), mode="trilinear")[0, 0]


def smooth(frames, height, width):
    t, y, x = torch.meshgrid(torch.linspace(0, 1, frames), torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    return torch.stack([torch.sin(5 * y + 2 * x + 3 * t), torch.cos(7 * x - 4 * t) * y, torch.sin(9 * y * x + t)], -1) * 0.4 + 0.5


@torch.inference_mode()
def main():
    scale = tiled_scale()
    model, vae = model_weights(), vae_weights()
    save_file(model, HERE / "models/diffusion_models/toy.safetensors")
    save_file(vae, HERE / "models/vae/toy.safetensors")
    model, vae = ({name: value.to(F64) for name, value in w.items()} for w in (model, vae))
    g = {name: random(1, length, CONTEXT, gain=3.4) for name, length in (("positive", 5), ("other", 5), ("negative", 5))}
    yes, other, no = (g[name].to(F64) for name in ("positive", "other", "negative"))

    empty = torch.zeros(1, 3, 5, 7, CHANNELS, dtype=F64)
    g["golden.plain"] = sample(model, empty, [(yes, 1)], no, 5)
    g["golden.batch"] = sample(model, torch.zeros(2, 2, 4, 4, CHANNELS, dtype=F64), [(yes, 1)], no, 6)
    g["golden.combined"] = sample(model, empty, [(yes, 1), (other, 0.5)], no, 5)
    frames = smooth(9, 20, 28).float()
    g["frames"] = torch.cat([frames, frames[:1]])  # one more than the autoencoder takes
    mean, logvar = encode(vae, frames.to(F64)[None] * 2 - 1)
    g["golden.encoded"] = mean
    n = torch.randn(1, CHANNELS, 3, 5, 7, generator=torch.Generator().manual_seed(9)).to(F64).permute(0, 2, 3, 4, 1)
    g["golden.drawn"] = mean + torch.exp(logvar / 2) * n
    g["mask"] = torch.stack([torch.zeros(5, 7), torch.ones(5, 7), torch.ones(5, 7)])  # the first frame is kept
    g["mask"][1, :2] = 0.25
    g["golden.masked"] = sample(model, mean, [(yes, 1)], no, 7, mask=g["mask"])
    g["pixel_mask"] = torch.zeros(9, 10, 14)
    g["pixel_mask"][5:, :, 4:], g["pixel_mask"][3, 2:6] = 1, 0.6
    g["golden.masked_frames"] = sample(model, mean, [(yes, 1)], no, 7, mask=in_frames(g["pixel_mask"].to(F64), 3, 5, 7))
    images = lambda x: (x / 2 + 0.5).clamp(0, 1).flatten(0, 1)
    g["golden.decoded"] = images(decode(vae, g["golden.plain"].float().to(F64)))[:, 2::4, 2::4]

    first = lambda x: x.permute(0, 4, 1, 2, 3)
    last = lambda x: x.permute(0, 2, 3, 4, 1)
    g["large"] = random(1, 5, 18, 16, CHANNELS, gain=80)
    up, down = lambda a: max(0, a * 4 - 3), lambda a: (a + 3) // 4
    found = scale(first(g["large"].to(F64)), lambda x: first(decode(vae, last(x))), tile=(2, 16, 16), overlap=(1, 4, 4),
                  upscale_amount=(up, 4, 4), index_formulas=(4, 4, 4), out_channels=3)
    g["golden.tiled"] = images(last(found.to(F64)))[:, 2::4, 2::4]
    assert (last(found.to(F64)) - decode(vae, g["large"].to(F64))).abs().max() > 0.01  # tiles do show in the numbers
    pixels = F.interpolate(smooth(13, 8, 36).permute(0, 3, 1, 2), scale_factor=4, mode="nearest").permute(0, 2, 3, 1)
    g["small_pixels"] = smooth(13, 8, 36).float()
    found = scale(first(pixels.to(F64)[None] * 2 - 1), lambda x: first(encode(vae, last(x))[0]), tile=(5, 128, 128), overlap=(1, 32, 32),
                  upscale_amount=(down, 4, 4), index_formulas=(4, 4, 4), out_channels=CHANNELS, downscale=True)
    g["golden.tiled_encode"] = last(found.to(F64))
    save_file({name: value.float().contiguous() for name, value in g.items()}, HERE / "goldens.safetensors")
    print(sum(path.stat().st_size for path in HERE.rglob("*.safetensors")), "bytes")


if __name__ == "__main__":
    main()
