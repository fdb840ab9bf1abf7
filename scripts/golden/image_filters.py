"""image_filters.safetensors: Canny, ImageBlur and ImageSharpen of ComfyUI (COMFYUI=FOLDER), and hints by numpy and scipy.

`shapes` [1,41,55,3] are flat colours, `soft` [1,24,33,3] a smooth random picture in multiples of 1/255; the others are what nodes make of them.
"""

import importlib.machinery
import os
import sys
import unittest.mock

import numpy as np
import scipy.ndimage
import torch
from PIL import Image, ImageDraw

from common import GOLDEN, generator, save, versions


def shapes():
    picture = Image.new("RGB", (55, 41), "#181c20")
    draw = ImageDraw.Draw(picture)
    draw.ellipse((4, 5, 24, 27), fill="#c02020")
    draw.rectangle((29, 13, 46, 34), fill="#2040c0")
    draw.polygon(((13, 37), (26, 20), (37, 39)), fill="#20a040")
    draw.line((1, 39, 53, 3), fill="#f0f0f0", width=2)
    return torch.from_numpy(np.asarray(picture, dtype=np.float32) / 255)[None]


def soft():
    small = torch.rand(1, 3, 6, 8, generator=generator("soft"))
    large = torch.nn.functional.interpolate(small, size=(24, 33), mode="bicubic").clamp(0, 1)
    return ((large * 255).round() / 255).permute(0, 2, 3, 1).contiguous()


def gray(x):
    return x @ torch.tensor([0.299, 0.587, 0.114], dtype=x.dtype)


def line_art(x, sigma, ratio, gain):
    def gauss(sigma):
        radius = int(np.ceil(3 * sigma))
        return scipy.ndimage.gaussian_filter(x.double().numpy(), (0, sigma, sigma, 0), mode="mirror", radius=(0, radius, radius, 0))

    lines = gain * (gray(torch.from_numpy(gauss(sigma * ratio))) - gray(torch.from_numpy(gauss(sigma))))
    return lines.clamp(0, 1)[..., None].expand(-1, -1, -1, 3).float()


def blocks(x, side):
    out = x.double().clone()
    for top in range(0, x.shape[1], side):
        for left in range(0, x.shape[2], side):
            part = out[:, top : top + side, left : left + side]
            part[:] = part.mean((1, 2), keepdim=True)
    return out.float()


def main():
    sys.path.insert(0, os.environ["COMFYUI"])
    sys.argv = [sys.argv[0], "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    for absent in ("torchaudio", "torchaudio.functional", "torchaudio.transforms"):  # for parts that are not used here
        stand_in = unittest.mock.MagicMock(__spec__=importlib.machinery.ModuleSpec(absent, None), __path__=[])
        sys.modules.setdefault(absent, stand_in)
    import kornia.filters.gaussian
    from comfy_extras.nodes_canny import Canny
    from comfy_extras.nodes_post_processing import Blur, Sharpen

    kornia.filters.gaussian._gaussian_blur2d_cpu_eligible = lambda *_: True  # the sums of pictures from 256x256 on
    a, b = shapes(), soft()
    out = {"shapes": a, "soft": b}
    for name, x in (("shapes", a), ("soft", b)):
        out[f"canny.{name}"] = Canny.execute(x, 0.4, 0.8).result[0]
        out[f"canny_low.{name}"] = Canny.execute(x, 0.05, 0.2).result[0]
        out[f"blur.{name}"] = Blur.execute(x, 3, 0.7).result[0]
        out[f"sharpen.{name}"] = Sharpen.execute(x, 2, 1.3, 0.4).result[0]
        out[f"threshold.{name}"] = (gray(x.double()) >= 0.35).float()[..., None].expand(-1, -1, -1, 3)
        out[f"lines.{name}"] = line_art(x, 1.2, 1.6, 8.0)
        out[f"blocks.{name}"] = blocks(x, 16)
    out["blur_wide.soft"] = Blur.execute(b, 20, 10.0).result[0]
    bytes_of = {k: v.contiguous() for k, v in out.items()}
    save(GOLDEN / "image_filters.safetensors", bytes_of, {**versions(), "layout": "NHWC", "what": __doc__.split("\n\n")[1].strip()})


if __name__ == "__main__":
    main()
