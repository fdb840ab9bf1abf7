"""vae_tiled.safetensors: tiny-sd1's AutoencoderKL behind ComfyUI's VAEDecodeTiled, VAEEncodeTiled and VAEEncodeForInpaint.

The nodes and the tiling are ComfyUI's own, run on the CPU in float64; the network is diffusers'. Needs a checkout:
    COMFYUI=FOLDER PYTHON scripts/golden/vae_tiled.py
Of pictures every third row and column is stored.
"""

import importlib.machinery
import os
import sys
import unittest.mock

import torch

import diffusers  # noqa: F401, before the stand-ins below
import transformers  # noqa: F401

import tiny
from common import GOLDEN, nhwc, randn, save, versions
from vae import load, picture

sys.argv = [sys.argv[0], "--cpu"]
sys.path.insert(0, os.environ["COMFYUI"])
for absent in ("torchaudio", "torchaudio.functional", "torchaudio.transforms"):  # for parts that are not used here
    stand_in = unittest.mock.MagicMock(__spec__=importlib.machinery.ModuleSpec(absent, None), __path__=[])
    sys.modules.setdefault(absent, stand_in)
import comfy.options

comfy.options.enable_args_parsing()
import comfy.sd
import nodes

F64 = torch.float64
TILINGS = [  # name, latent (height, width), tile_size, overlap
    ("small", (13, 18), 64, 32),
    ("wide", (9, 30), 96, 0),
    ("one", (7, 8), 64, 32),
]


class Network:
    def __init__(self, vae):
        self.vae = vae

    def decode(self, x):
        return self.vae.decode(x).sample

    def encode(self, x):
        return self.vae.encode(x).latent_dist.mean


class Comfy:
    """What ComfyUI's nodes ask of its VAE, with its own tiling."""

    decode_tiled_, encode_tiled_ = comfy.sd.VAE.decode_tiled_, comfy.sd.VAE.encode_tiled_
    vae_dtype, device, output_device, upscale_ratio, downscale_ratio, latent_channels = F64, "cpu", "cpu", 8, 8, 4

    def __init__(self, vae):
        self.first_stage_model = Network(vae)

    def vae_output_dtype(self):
        return F64

    def process_input(self, x):
        return 2 * x - 1

    def process_output(self, x):
        return ((x + 1) / 2).clamp(0, 1)

    def spacial_compression_decode(self):
        return 8

    def spacial_compression_encode(self):
        return 8

    def temporal_compression_decode(self):
        return None

    def decode_tiled(self, latent, tile_x, tile_y, overlap, tile_t, overlap_t):
        return self.decode_tiled_(latent, tile_x, tile_y, overlap).movedim(1, -1)

    def encode_tiled(self, pixels, tile_x, tile_y, overlap, tile_t, overlap_t):
        return self.encode_tiled_(pixels.movedim(-1, 1), tile_x, tile_y, overlap)

    def encode(self, pixels):
        return self.first_stage_model.encode(self.process_input(pixels.movedim(-1, 1)))


@torch.inference_mode()
def main():
    vae, tensors = Comfy(load(tiny.FOLDER)), {}
    for name, (height, width), size, overlap in TILINGS:
        latent = 2 * randn(f"tiled.{name}", 2 if name == "small" else 1, 4, height, width)
        (image,) = nodes.VAEDecodeTiled().decode(vae, {"samples": latent.to(F64)}, size, overlap)
        tensors[f"decode.{name}"] = nhwc(latent)
        tensors[f"decode.{name}.out"] = image[:, ::3, ::3]
    image = (nhwc(picture("tiled.image", 136, 200)) * 127.5 + 127.5).round().to(torch.uint8)
    (latent,) = nodes.VAEEncodeTiled().encode(vae, image.to(F64) / 255, 128, 32)
    tensors["encode.image"], tensors["encode.out"] = image, nhwc(latent["samples"])
    small = (image[:, 3:70, 5:80].float() / 255).contiguous()
    mask = torch.zeros(1, 30, 40)
    mask[:, 8:15, 10:22], mask[:, 15:18, 10:14] = 1, 0.55
    tensors["inpaint.mask"] = mask
    for grow in (0, 5, 6):
        (latent,) = nodes.VAEEncodeForInpaint().encode(vae, small.to(F64), mask, grow)
        tensors[f"inpaint.{grow}.samples"] = nhwc(latent["samples"])
        tensors[f"inpaint.{grow}.noise_mask"] = latent["noise_mask"][:, 0]
    what = (
        "tiny-sd1's VAE in ComfyUI's nodes: decode.NAME [n,h,w,4] -> .out, every third row and column of the picture 0..1 (small: tile_size 64, "
        "overlap 32; wide: 96, 0; one: 64, 32); encode.image [1,h,w,3] 0..255 -> encode.out (128, 32); inpaint.mask and rows 3..69, columns 5..79 of "
        "that picture -> inpaint.GROW.samples and .noise_mask"
    )
    meta = {**versions(), "layout": "NHWC", "what": what}
    save(GOLDEN / "vae_tiled.safetensors", tensors, meta)


if __name__ == "__main__":
    main()
