"""The models and pictures that `make parity-comfyui` draws with: a cut-down SD1.5 that ComfyUI recognises, made from a seed.

The text encoder and the autoencoder have SD1.5's true sizes, for ComfyUI knows no others; the UNet keeps its 320 channels, its heads and
its width of text and loses its lower half. All weights are random, of a scale at which a picture is neither grey nor saturated.

    models/checkpoints/parity.safetensors   all three, named as the original (LDM) checkpoints name them
    models/{diffusion_models,text_encoders,vae}/parity.safetensors   each by itself
    models/diffusers/parity                 the folder they were made of
    models/loras/parity.safetensors         rank 3, alpha 2, as kohya's scripts name it
    models/checkpoints/{sd21,sdxl,refiner}.safetensors and models/diffusion_models/{sd21_eps,ssd1b,inpaint,ip2p}.safetensors
                                            the other architectures (CUT), each made when a row wants it; full-size ones by
                                            themselves, for as long as their rows are drawn
    models/controlnet/*                     see controls.py, each made when a row wants it
    models/gligen/boxes.safetensors         see gligen_files.py
    input/{colour,alpha,grey}.png           48x40 pixels
"""

import json
import os
import pathlib
import shutil
import sys

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "golden")]

import numpy as np
import torch
from PIL import Image

import common
import config_files
import controls
import gligen_files
import hook_files
import lora_files
import upscale_files
import make_random_sd as random_sd
import make_random_sd15 as sd15
import to_single_file
import vision_files

VERSION = 2  # of what is made here: a folder of another one is made anew
UNET = {
    **sd15.UNET,
    "block_out_channels": [320, 320, 640],
    "down_block_types": ["CrossAttnDownBlock2D"] * 3,
    "up_block_types": ["CrossAttnUpBlock2D"] * 3,
    "layers_per_block": 1,
}
NAME = "parity.safetensors"
# ComfyUI tells these architectures by the first level's channels, the depths and the width of text: other levels may be narrow.
CUT = {
    "checkpoints/sd21.safetensors": ("sd21", None),
    "checkpoints/sdxl.safetensors": ("sdxl", None),
    "checkpoints/refiner.safetensors": ("refiner", None),
    "diffusion_models/sd21_eps.safetensors": ("sd21-eps", ["unet"]),
    "diffusion_models/ssd1b.safetensors": ("ssd1b", ["unet"]),
    "diffusion_models/inpaint.safetensors": ("sd15-inpaint", ["unet"]),
    "diffusion_models/ip2p.safetensors": ("ip2p", ["unet"]),
}
LORA_UNET = ["down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q", "mid_block_attentions_0_transformer_blocks_0_attn2_to_v"]
LORA_CONV = "down_blocks_1_resnets_0_conv1"
LORA_TEXT = [f"text_model_encoder_layers_{layer}_{part}" for layer in (0, 7) for part in ("self_attn_q_proj", "mlp_fc1")]


def parts(models):
    """The three parts of the one file, each in a file of its own."""
    from safetensors import safe_open

    whole = safe_open(models / "checkpoints" / NAME, "pt")
    for folder, prefix in (("diffusion_models", "model.diffusion_model."), ("vae", "first_stage_model."), ("text_encoders", "cond_stage_model.transformer.")):
        names = {name[len(prefix) :]: name for name in whole.keys() if name.startswith(prefix)}
        tensors = {short: whole.get_tensor(name) for short, name in names.items()}
        common.save(models / folder / NAME, tensors, {"format": "pt"})


def factors(key, shape, rank=3):
    """lora_up and lora_down of a weight of this shape, whose product is of half its size."""
    up = common.randn(key + ".up", shape[0], rank, *(1,) * (len(shape) - 2))
    down = common.randn(key + ".down", rank, *shape[1:])
    scale = 1.5 / torch.tensor(shape[1:]).prod().item() ** 0.5
    return {f"{key}.lora_up.weight": up * scale, f"{key}.lora_down.weight": down / rank**0.5, f"{key}.alpha": torch.tensor(2.0)}


def lora(path):
    tensors = {}
    for name in LORA_UNET:
        channels = 320 if name.startswith("down") else 640
        inside = 768 if name.endswith("attn2_to_v") else channels
        tensors.update(factors("lora_unet_" + name, (channels, inside)))
    tensors.update(factors("lora_unet_" + LORA_CONV, (320, 320, 3, 3)))
    for name in LORA_TEXT:
        tensors.update(factors("lora_te_" + name, (3072 if name.endswith("fc1") else 768, 768)))
    common.save(path, tensors, {"what": "a LoRA for the cut-down SD1.5; rank 3, alpha 2"})


def picture(name, channels, h=40, w=48):
    """Waves and noise: smooth enough to survive scaling, and no two pixels alike."""
    y, x = np.mgrid[0:h, 0:w]
    noise = common.randn("picture." + name, h, w, channels).numpy()
    waves = [np.sin(x / (3 + k)) * np.cos(y / (4 + k)) for k in range(channels)]
    pixels = 127.5 + 90 * np.stack(waves, -1) + 16 * noise
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8).squeeze())


def pictures(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, channels in (("colour", 3), ("alpha", 4), ("grey", 1)):
        picture(name, channels).save(folder / f"{name}.png")


def write(folder):
    models = folder / "models"
    sd15.write(models / "diffusers" / "parity", torch.float16, 15, UNET)
    to_single_file.write(models / "diffusers" / "parity", models / "checkpoints" / NAME)
    parts(models)
    lora(models / "loras" / NAME)
    pictures(folder / "input")


def make(folder):
    """write(), unless the folder is there already, whole."""
    marker = folder / "made.json"
    if marker.exists() and json.loads(marker.read_text()) == {"version": VERSION}:
        return
    for part in ("models", "input"):
        shutil.rmtree(folder / part, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder)
    part = folder / "made.part"
    part.write_text(json.dumps({"version": VERSION}) + "\n")
    os.replace(part, marker)


def files_of(prompts):
    """What the loaders of these prompts name, as paths below models/."""
    folders = {"ckpt_name": "checkpoints", "unet_name": "diffusion_models", "control_net_name": "controlnet"}
    inputs = [item for prompt in prompts.values() for node in prompt.values() for item in node["inputs"].items()]
    return {f"{folders[key]}/{value}" for key, value in inputs if key in folders}


def make_cut(folder, prompts):
    """The cut-down models and the controls that these prompts want, each unless it is there."""
    for file in sorted(files_of(prompts)):
        if file.startswith("controlnet/"):
            controls.make(folder / "models", file.removeprefix("controlnet/"), UNET)
    for file in sorted(files_of(prompts) & set(CUT)):
        path = folder / "models" / file
        if not path.exists():
            family, parts = CUT[file]
            make_single(path, family, parts, cut=True)
    lora_files.make(folder / "models", prompts)
    upscale_files.make(folder / "models", prompts)
    hook_files.make(folder / "models", prompts)
    vision_files.make(folder / "models", prompts)
    config_files.make(folder / "models", prompts)
    gligen_files.make(folder / "models", prompts, UNET)


def make_single(path, family, parts=None, cut=False):
    part = path.with_suffix(".part")
    random_sd.write_single(part, family, torch.float16, 15, parts, cut)
    os.replace(part, path)


def make_full(folder, families, prompts):
    """A folder of full-size models, their controls that these prompts want, and the pictures."""
    pictures(folder / "input")
    (folder / "models" / "checkpoints").mkdir(parents=True, exist_ok=True)
    for family in families:
        make_single(folder / "models" / "checkpoints" / f"{family}.safetensors", family)
    for file in sorted(file for file in files_of(prompts) if file.startswith("controlnet/")):
        controls.make(folder / "models", file.removeprefix("controlnet/"), random_sd.FAMILIES[families[0]]["unet"])
    return folder
