"""vae.safetensors and vae_blocks.safetensors: AutoencoderKL of tiny-sd1 by diffusers. Pictures are NHWC.

Encoder and decoder include quant_conv and post_quant_conv; the scaling factor is not applied.
"""

import copy

import torch

import tiny
from common import GOLDEN, errors, nhwc, randn, save, versions
from unet import record

ENCODER_BLOCKS = [
    "encoder.down_blocks.0.downsamplers.0",
    "encoder.down_blocks.1",
    "encoder.down_blocks.3",
    "quant_conv",
]
DECODER_BLOCKS = [
    "post_quant_conv",
    "decoder.up_blocks.0",
    "decoder.up_blocks.1.upsamplers.0",
    "decoder.up_blocks.3.resnets.0",
]


def load(folder, dtype=torch.float64):
    from diffusers import AutoencoderKL

    return AutoencoderKL.from_pretrained(folder / "vae").eval().requires_grad_(False).to(dtype)


def picture(name, height, width):
    """Smooth colours with a little noise, [1,3,height,width] in [-1,1]."""
    down = torch.linspace(0, 1, height)[:, None]
    across = torch.linspace(0, 1, width)[None]
    planes = torch.stack([torch.sin(5 * down + 2 * across), torch.cos(7 * across) * down, torch.sin(9 * down * across)])
    return (0.8 * planes[None] + 0.1 * randn(name, 1, 3, height, width)).clamp(-1, 1)


def moments(vae, image):
    found = vae.encode(image.to(vae.dtype)).latent_dist
    return found.mean, found.logvar


def decode(vae, latent):
    return vae.decode(latent.to(vae.dtype)).sample


def write_whole(vae):
    image, small = picture("vae.image", 64, 80), picture("vae.small", 24, 40)
    latent, odd = 2 * randn("vae.latent", 1, 4, 8, 10), 2 * randn("vae.odd", 2, 4, 3, 5)
    tensors, noise = {}, {}
    single, half = copy.deepcopy(vae).float(), copy.deepcopy(vae).bfloat16()
    for name, value in (("image", image), ("small", small)):
        mean, logvar = moments(vae, value)
        tensors.update({f"encode.{name}": value, f"encode.{name}.mean": mean, f"encode.{name}.logvar": logvar})
        noise[name] = {"f32": errors(moments(single, value)[0], mean), "bf16": errors(moments(half, value)[0], mean)}
    for name, value in (("latent", latent), ("odd", odd)):
        out = decode(vae, value)
        tensors.update({f"decode.{name}": value, f"decode.{name}.out": out})
        noise[name] = {"f32": errors(decode(single, value), out), "bf16": errors(decode(half, value), out)}
    what = (
        "diffusers AutoencoderKL of tiny-sd1: encode.NAME [n,h,w,3] in [-1,1] -> .mean and .logvar [n,h/8,w/8,4] (after "
        "quant_conv, unscaled); decode.NAME [n,h,w,4] (unscaled, before post_quant_conv) -> .out [n,8h,8w,3], not clamped"
    )
    meta = {**versions(), "layout": "NHWC", "what": what, "noise": noise}
    save(GOLDEN / "vae.safetensors", {name: nhwc(value) for name, value in tensors.items()}, meta)


def write_blocks(vae):
    image, latent = picture("vae.blocks", 24, 16), randn("vae.blocks", 1, 4, 3, 2)
    tensors = record(vae, ENCODER_BLOCKS, lambda: moments(vae, image))
    tensors.update(record(vae, DECODER_BLOCKS, lambda: decode(vae, latent)))
    wide = randn("vae.mid", 1, vae.config.block_out_channels[-1], 9, 9).double()
    for side in ("encoder", "decoder"):
        names = [f"{side}.mid_block", f"{side}.mid_block.attentions.0"]
        tensors.update(record(vae, names, lambda: vae.get_submodule(names[0])(wide)))
    what = "submodules of diffusers AutoencoderKL of tiny-sd1: BLOCK.in.x -> BLOCK.out; the middle blocks on 9x9 positions"
    save(GOLDEN / "vae_blocks.safetensors", tensors, {**versions(), "layout": "NHWC", "what": what})


def main():
    vae = load(tiny.FOLDER)
    write_whole(vae)
    write_blocks(vae)


if __name__ == "__main__":
    main()
