"""image.safetensors: pictures and masks through torch's interpolation, Pillow's Lanczos and scipy's morphology.

Values are computed in float64 except where 8-bit pictures are the definition (lanczos). The centre crop and the roundings are
those of ComfyUI's nodes; formulas are written out here.
"""

import numpy as np
import PIL
import scipy.ndimage
import torch
import torch.nn.functional as F
from PIL import Image

from common import GOLDEN, generator, save, versions

SIZES = {"up": (16, 21), "mixed": (13, 5), "down": (3, 4), "wide": (7, 23)}


def random(name, *shape):
    """Multiples of 1/255, so that 8-bit pictures are exact."""
    return torch.randint(0, 256, shape, generator=generator(name)).double() / 255


def pillow(x, h, w):
    pictures = [Image.fromarray(np.clip(255.0 * p.float().numpy(), 0, 255).astype(np.uint8)) for p in x]
    return torch.stack([torch.from_numpy(np.array(p.resize((w, h), Image.Resampling.LANCZOS)).astype(np.float64) / 255) for p in pictures])


def centre(x, h, w):
    old_h, old_w = x.shape[1:3]
    old, new = old_w / old_h, w / h
    left = round((old_w - old_w * (new / old)) / 2) if old > new else 0
    top = round((old_h - old_h * (old / new)) / 2) if old < new else 0
    return x[:, top : old_h - top, left : old_w - left]


def scale(x, h, w, method, crop="disabled"):
    if crop == "center":
        x = centre(x, h, w)
    if method == "lanczos":
        return pillow(x, h, w)
    return F.interpolate(x.movedim(-1, 1), size=(h, w), mode=method).movedim(1, -1)


def blend(a, b, mode):
    if mode == "normal":
        return b
    if mode == "multiply":
        return a * b
    if mode == "screen":
        return 1 - (1 - a) * (1 - b)
    if mode == "overlay":
        return torch.where(a <= 0.5, 2 * a * b, 1 - 2 * (1 - a) * (1 - b))
    if mode == "difference":
        return a - b
    g = torch.where(a <= 0.25, ((16 * a - 12) * a + 4) * a, a.sqrt())
    return torch.where(b <= 0.5, a - (1 - 2 * b) * a * (1 - a), a + (2 * b - 1) * (g - a))


def pad_mask(h, w, left, top, right, bottom, feathering):
    new = torch.ones(1, h + top + bottom, w + left + right, dtype=torch.float64)
    old = torch.zeros(h, w, dtype=torch.float64)
    for y in range(h if 0 < feathering < min(h, w) / 2 else 0):
        for x in range(w):
            edges = [d for side, d in ((top, y), (bottom, h - y), (left, x), (right, w - x)) if side] + [h, w]
            old[y, x] = max(0, (feathering - min(edges)) / feathering) ** 2
    new[0, top : top + h, left : left + w] = old
    return new


def grow(mask, amount, tapered):
    corner = 0 if tapered else 1
    kernel = np.array([[corner, 1, corner], [1, 1, 1], [corner, 1, corner]])
    one = scipy.ndimage.grey_dilation if amount > 0 else scipy.ndimage.grey_erosion
    out = []
    for m in mask.numpy():
        for _ in range(abs(amount)):
            m = one(m, footprint=kernel)
        out.append(torch.from_numpy(m))
    return torch.stack(out)


def feather(mask, left, top, right, bottom):
    h, w = mask.shape[1:]
    fade = lambda n, width: torch.tensor([min(1, (i + 1) / width) if width else 1 for i in range(n)], dtype=torch.float64)
    across = fade(w, left) * fade(w, right).flip(0)
    down = fade(h, top) * fade(h, bottom).flip(0)
    return mask * across * down[:, None]


def paste(a, b, m, x, y, resize):
    if resize:
        b = scale(b, *a.shape[1:3], "bilinear")
    m = F.interpolate(m[:, None], size=b.shape[1:3], mode="bilinear")[:, 0, :, :, None]
    out = a.clone()
    h, w = min(b.shape[1], a.shape[1] - y), min(b.shape[2], a.shape[2] - x)
    part = out[:, y : y + h, x : x + w]
    out[:, y : y + h, x : x + w] = m[:, :h, :w] * b[:, :h, :w] + (1 - m[:, :h, :w]) * part
    return out


def main():
    a, b, m, m2 = random("a", 2, 7, 10, 3), random("b", 1, 9, 6, 3), random("m", 2, 8, 11), random("m2", 1, 5, 9)
    out = {"a": a, "b": b, "m": m, "m2": m2}
    for method in ("nearest-exact", "bilinear", "area", "bicubic", "lanczos"):
        for name, (h, w) in SIZES.items():
            for crop in ("disabled", "center"):
                out[f"scale.{method}.{name}.{crop}"] = scale(a, h, w, method, crop).clamp(0, 1)
    for k in range(4):
        out[f"rotate.{k}"] = torch.rot90(a, k=k, dims=[2, 1])
    out["flip.x"], out["flip.y"] = a.flip(1), a.flip(2)
    for mode in ("normal", "multiply", "screen", "overlay", "soft_light", "difference"):
        fitted = scale(b, 7, 10, "bicubic", "center")
        out[f"blend.{mode}"] = (a * 0.25 + blend(a, fitted, mode) * 0.75).clamp(0, 1)
    out["pad"] = pad_mask(7, 10, 8, 0, 16, 8, 3)
    out["pad_small"] = pad_mask(7, 10, 8, 8, 0, 0, 4)
    for amount in (1, 3, -2, 40):
        out[f"grow.{amount}.tapered"], out[f"grow.{amount}.square"] = grow(m, amount, True), grow(m, amount, False)
    out["feather"] = feather(m, 3, 2, 4, 8)
    out["paste"], out["paste_resized"] = paste(a, b, m2, 3, 2, False), paste(a, b, m2, 0, 0, True)
    meta = {**versions(), "pillow": PIL.__version__, "scipy": scipy.__version__, "layout": "NHWC", "what": "inputs a, b (pictures), m, m2 (masks); the others are what nodes make of them"}
    save(GOLDEN / "image.safetensors", out, meta)


main()
