"""unet_concat.safetensors: what ComfyUI (COMFYUI=FOLDER) puts beside x for inpainting and editing models.

CASE.mask [n,h,w], CASE.noise_mask, CASE.image and CASE.latent [n,h,w,4] (those that the case has) -> CASE.out
[2,8,12,5 or 4], model space. Latents are scaled by 0.18215, but for editing. upscale.N: the x4 upscaler's picture [1,12,20,3] with
noise_augmentation and seed as AUGMENTED says, the level, and torch's
noise of the seed 10 below.
"""

import os
import sys
import types

import torch

from common import GOLDEN, nhwc, randn, save

SCALE = 0.18215
HEIGHT, WIDTH = 8, 12
CASES = {  # sizes of what is given
    "pixels": dict(mask=(1, 64, 96), image=(1, 8, 12)),
    "crop": dict(mask=(1, 40, 40), image=(1, 10, 6)),
    "noise": dict(noise_mask=(2, 5, 9)),
    "noise_image": dict(noise_mask=(1, 8, 12), image=(2, 8, 12)),
    "blank": dict(image=(1, 8, 12)),
    "edit": dict(image=(1, 16, 20)),
    "edit_blank": dict(),
}
AUGMENTED = [(0.0, 7), (0.3, 7), (0.0005, 3), (1.0, 11)]  # share and seed


def upscaled(tensors):
    from comfy import model_base
    from comfy.ldm.modules.diffusionmodules.upscaling import ImageConcatWithNoiseAugmentation

    schedule = {"linear_start": 0.0001, "linear_end": 0.02}
    model = types.SimpleNamespace(noise_augmentor=ImageConcatWithNoiseAugmentation(noise_schedule_config=schedule, max_noise_level=350))
    noise = torch.zeros(1, 4, HEIGHT, WIDTH)
    image = randn("upscale.image", 1, 3, 12, 20)
    tensors["upscale.image"] = nhwc(image)
    for i, (share, seed) in enumerate(AUGMENTED):
        got = model_base.SD_X4Upscaler.extra_conds(
            model, concat_image=image, noise=noise, noise_augmentation=share, device=noise.device, seed=seed
        )
        tensors[f"upscale.{i}.out"] = nhwc(got["c_concat"].cond)
        tensors[f"upscale.{i}.noise"] = torch.randn((1, 3, HEIGHT, WIDTH), generator=torch.manual_seed(seed - 10))
        tensors[f"upscale.{i}.level"] = got["y"].cond.float()


def made(case, given):
    from comfy import model_base, sampler_helpers

    noise = torch.zeros(2, 4, HEIGHT, WIDTH)
    model = types.SimpleNamespace(
        concat_keys=("mask", "masked_image"), process_latent_in=lambda x: x * SCALE, process_ip2p_image_in=lambda x: x
    )
    model_base.BaseModel.set_inpaint(model)
    known = {"noise": noise, "device": noise.device, "latent_image": given["latent"] * SCALE}
    if "mask" in given:
        known["concat_mask"] = given["mask"][:, None]
    if "noise_mask" in given:
        known["denoise_mask"] = sampler_helpers.prepare_mask(given["noise_mask"], noise.shape, noise.device)
    if "image" in given:
        known["concat_latent_image"] = given["image"]
    by = model_base.IP2P if case.startswith("edit") else model_base.BaseModel
    return by.concat_cond(model, **known)


def main():
    sys.path.insert(0, os.environ["COMFYUI"])
    sys.argv = [sys.argv[0], "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    tensors = {}
    for case, sizes in CASES.items():
        given = {"latent": randn(f"{case}.latent", 2, 4, HEIGHT, WIDTH)}
        for name, size in sizes.items():
            if name == "image":
                given[name] = randn(f"{case}.{name}", size[0], 4, *size[1:])
            else:
                given[name] = torch.rand(size, generator=torch.Generator().manual_seed(len(case)))
        out = made(case, given)
        tensors.update({f"{case}.{name}": nhwc(value) for name, value in given.items()})
        tensors[f"{case}.out"] = nhwc(out)
    upscaled(tensors)
    save(GOLDEN / "unet_concat.safetensors", tensors, {"layout": "NHWC", "what": __doc__.split("\n\n")[1].strip()})


if __name__ == "__main__":
    main()
