"""The ControlNets that `make parity-comfyui` draws with, for the cut-down SD1.5 of model.py; random, as the ControlNet source names them.

    models/controlnet/edges.safetensors       control_model.*
    models/controlnet/lines.safetensors       another one, without the prefix
    models/controlnet/lines_shuffle.safetensors   the same bytes; the name says that its results are means over the picture
    models/controlnet/difference.safetensors  edges as a difference to the UNet, and the key that says so
    models/controlnet/control_lora.safetensors  a Control-LoRA of rank 8
"""

import math
import shutil

import torch

import common
import to_single_file

HINT = [(16, 3, 1), (16, 16, 1), (32, 16, 2), (32, 32, 1), (96, 32, 2), (96, 96, 1), (256, 96, 2)]  # out, in, stride


def unet_shapes(config):
    """{ldm name: shape} of the part of a UNet that a ControlNet has."""
    from diffusers import UNet2DConditionModel

    with torch.device("meta"):
        state = UNet2DConditionModel(**{k: v for k, v in config.items() if not k.startswith("_")}).state_dict()
    kept = {name: tuple(t.shape) for name, t in state.items() if not name.startswith(("up_blocks.", "conv_norm_out.", "conv_out."))}
    return {to_single_file.unet_name(name, config).removeprefix("model.diffusion_model."): shape for name, shape in kept.items()}


def skip_widths(config):
    widths = [config["block_out_channels"][0]]
    for level, width in enumerate(config["block_out_channels"]):
        widths += [width] * (config["layers_per_block"] + (level + 1 < len(config["block_out_channels"])))
    return widths


def shapes(config):
    found, widths = unet_shapes(config), skip_widths(config)
    convolutions = {f"zero_convs.{i}.0": (w, w, 1, 1) for i, w in enumerate(widths)}
    convolutions["middle_block_out.0"] = (widths[-1], widths[-1], 1, 1)
    convolutions.update({f"input_hint_block.{2 * i}": (out, inside, 3, 3) for i, (out, inside, _) in enumerate(HINT)})
    convolutions[f"input_hint_block.{2 * len(HINT)}"] = (widths[0], HINT[-1][0], 3, 3)
    for name, shape in convolutions.items():
        found[name + ".weight"], found[name + ".bias"] = shape, shape[:1]
    return found


def numbers(seed, name, shape):
    value = common.randn(f"{seed}.{name}", *shape)
    if len(shape) == 1:
        return 1 + 0.1 * value if name.endswith(".weight") else 0.05 * value
    gain = 1.5 if name.startswith("input_hint_block") else 0.5 if name.startswith(("zero_convs", "middle_block_out")) else 0.8
    return value * gain / math.sqrt(math.prod(shape[1:]))


def write(path, config, seed, prefix, unet=None):
    """With `unet`, a .safetensors file under ldm's names: what is written is the difference to it."""
    from safetensors import safe_open

    base = safe_open(unet, "pt") if unet else None
    tensors = {"difference": torch.zeros(1)} if unet else {}
    for name, shape in shapes(config).items():
        value = numbers(seed, name, shape)
        if base and name in base.keys():
            value = value - base.get_tensor(name).float()
        tensors[prefix + name] = value if unet else value.half()
    common.save(path, tensors, {"what": "a random ControlNet for the cut-down SD1.5"})


def write_lora(path, config, seed, rank=8):
    tensors, unet = {"lora_controlnet": torch.zeros(1)}, unet_shapes(config)
    for name, shape in shapes(config).items():
        if name not in unet or len(shape) == 1:
            tensors[name] = numbers(seed, name, shape).half()
            continue
        stem, ones = name.removesuffix(".weight"), (1,) * (len(shape) - 2)
        tensors[stem + ".up"] = (common.randn(f"{seed}.{stem}.up", shape[0], rank, *ones) / math.sqrt(2 * rank)).half()
        tensors[stem + ".down"] = (common.randn(f"{seed}.{stem}.down", rank, *shape[1:]) / math.sqrt(math.prod(shape[1:]))).half()
    common.save(path, tensors, {"what": "a random Control-LoRA for the cut-down SD1.5"})


def make(models, file, config):
    """models/controlnet/FILE, unless it is there."""
    path = models / "controlnet" / file
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        return
    if file == "lines_shuffle.safetensors":
        make(models, "lines.safetensors", config)
        shutil.copyfile(models / "controlnet" / "lines.safetensors", path)
    elif file == "difference.safetensors":
        write(path, config, "edges", "control_model.", models / "diffusion_models" / "parity.safetensors")
    elif file == "control_lora.safetensors":
        write_lora(path, config, "control_lora")
    else:
        name = path.stem
        write(path, config, name, "control_model." if name == "edges" else "")
