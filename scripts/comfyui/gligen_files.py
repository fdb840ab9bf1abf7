"""models/gligen/boxes.safetensors: a GLIGEN for the cut-down SD1.5 of model.py; random, under the original code's names."""

import math

import torch

import common
import to_single_file

NAME = "boxes.safetensors"


def shapes(config):
    from diffusers import UNet2DConditionModel

    with torch.device("meta"):
        state = UNet2DConditionModel(**{k: v for k, v in config.items() if not k.startswith("_")}, attention_type="gated").state_dict()
    kept = {name: tuple(t.shape) for name, t in state.items() if ".fuser." in name or name.startswith("position_net.")}
    return {name if name.startswith("position_net.") else to_single_file.unet_name(name, config).removeprefix("model.diffusion_model."): shape for name, shape in kept.items()}


def numbers(name, shape):
    value = common.randn("gligen." + name, *shape)
    if ".alpha_" in name:
        return 0.8 + 0.2 * value.clamp(-1, 1)
    if len(shape) == 1:
        return 1 + 0.1 * value if ".norm" in name and name.endswith("weight") else (0.5 if "null_" in name else 0.05) * value
    return value / math.sqrt(math.prod(shape[1:]))


def make(models, prompts, config):
    """The file, if these prompts want it and it is not there."""
    path = models / "gligen" / NAME
    if path.exists() or not any(node["inputs"].get("gligen_name") == NAME for prompt in prompts.values() for node in prompt.values()):
        return
    common.save(path, {name: numbers(name, shape).half() for name, shape in shapes(config).items()}, {"format": "pt"})
