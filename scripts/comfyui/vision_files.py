"""models/checkpoints/unclip_l.safetensors: a cut-down UNet of SD2.1's unCLIP-L with a vision encoder ViT-L/14 of full size, which ComfyUI knows by its
layers; random, under the names of the release."""

import math
import os

import torch

import common
import make_random_sd as random_sd

NAME = "unclip_l.safetensors"
WIDTH, LAYERS, PATCH, POSITIONS, PROJECTION = 1024, 24, 14, 257, 768


def shapes():
    found = {"class_embedding": (WIDTH,), "conv1.weight": (WIDTH, 3, PATCH, PATCH), "positional_embedding": (POSITIONS, WIDTH), "proj": (WIDTH, PROJECTION)}
    for norm in ("ln_pre", "ln_post"):
        found[f"{norm}.weight"] = found[f"{norm}.bias"] = (WIDTH,)
    for layer in range(LAYERS):
        base = f"transformer.resblocks.{layer}."
        for part, out, inside in (("attn.out_proj", WIDTH, WIDTH), ("mlp.c_fc", 4 * WIDTH, WIDTH), ("mlp.c_proj", WIDTH, 4 * WIDTH)):
            found[f"{base}{part}.weight"], found[f"{base}{part}.bias"] = (out, inside), (out,)
        found[f"{base}attn.in_proj_weight"], found[f"{base}attn.in_proj_bias"] = (3 * WIDTH, WIDTH), (3 * WIDTH,)
        for norm in ("ln_1", "ln_2"):
            found[f"{base}{norm}.weight"] = found[f"{base}{norm}.bias"] = (WIDTH,)
    return found


def numbers(name, shape):
    value = common.randn("unclip." + name, *shape)
    if len(shape) == 1:
        return 1 + 0.1 * value if ".ln_" in "." + name and name.endswith("weight") else 0.1 * value
    return value * (0.5 if name == "positional_embedding" else 1 / math.sqrt(shape[0] if name == "proj" else math.prod(shape[1:])))


def make(models, prompts):
    """The checkpoint, where these prompts want it, unless it is there."""
    from safetensors import safe_open

    path = models / "checkpoints" / NAME
    wanted = any(node["inputs"].get("ckpt_name") == NAME for prompt in prompts.values() for node in prompt.values())
    if not wanted or path.exists():
        return
    part = path.with_suffix(".part")
    random_sd.write_single(part, "unclip-l", torch.float16, 15, cut=True)
    file = safe_open(part, "pt")
    tensors = {name: file.get_tensor(name) for name in file.keys()}
    tensors.update({"embedder.model.visual." + name: numbers(name, shape).half() for name, shape in shapes().items()})
    common.save(part.with_suffix(".whole"), tensors, {"format": "pt"})
    os.remove(part)
    os.replace(part.with_suffix(".whole"), path)
