"""unclip.safetensors: what ComfyUI (COMFYUI=FOLDER) makes of the pictures that an unCLIP is shown, 32 numbers an embedding.

CASE.N.embeds [n,32] of each item of unclip_conditioning, with the numbers of CASES -> CASE.out [1,64] (SD2.1's) and CASE.pooled [1,32] (SDXL's);
CASE.noise: 64 numbers of torch's generator of the seed 10 below.
"""

import os
import sys
import types

import torch

from common import GOLDEN, randn, save

WIDTH = 32
CASES = {  # seed, and of each item its pictures, strength and noise_augmentation
    "one": (7, [(1, 1.0, 0.0)]),
    "noisy": (7, [(1, 0.8, 0.3)]),
    "all": (0, [(1, 1.0, 1.0)]),
    "two": (11, [(1, 1.0, 0.1), (1, -0.5, 0.0)]),
    "batch": (123456789, [(3, 0.7, 0.025)]),
}


def main():
    sys.path.insert(0, os.environ["COMFYUI"])
    import comfy.options

    comfy.options.enable_args_parsing()
    sys.argv = sys.argv[:1] + ["--cpu"]
    from comfy import model_base
    from comfy.ldm.modules.encoders.noise_aug_modules import CLIPEmbeddingNoiseAugmentation

    schedule = {"timesteps": 1000, "beta_schedule": "squaredcos_cap_v2"}
    augmentor = CLIPEmbeddingNoiseAugmentation(noise_schedule_config=schedule, timestep_dim=WIDTH)
    model, device, tensors = types.SimpleNamespace(noise_augmentor=augmentor, adm_channels=2 * WIDTH), torch.device("cpu"), {}
    for case, (seed, items) in CASES.items():
        listed = []
        for i, (n, strength, share) in enumerate(items):
            tensors[f"{case}.{i}.embeds"] = embeds = randn(f"unclip.{case}.{i}", n, WIDTH)
            listed.append({"clip_vision_output": types.SimpleNamespace(image_embeds=embeds), "strength": strength, "noise_augmentation": share})
        given = {"unclip_conditioning": listed, "device": device, "seed": seed}
        tensors[f"{case}.out"] = model_base.SD21UNCLIP.encode_adm(model, **given)
        tensors[f"{case}.pooled"] = model_base.sdxl_pooled(given, augmentor)[:, :WIDTH]
        tensors[f"{case}.noise"] = torch.randn(2 * WIDTH, generator=torch.manual_seed(seed - 10))
    save(GOLDEN / "unclip.safetensors", tensors, {"what": "ComfyUI's unclip_adm: CASE.N.embeds -> CASE.out, CASE.pooled; scripts/golden/unclip.py has the cases"})


if __name__ == "__main__":
    main()
