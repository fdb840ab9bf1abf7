"""A Control-LoRA in training: a ControlNet whose matrices are those of the base's UNet plus products of two narrow ones, and its file."""
import json
import os
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.nn.utils import parametrize

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from to_single_file import unet_name

NUMBERS = 530_000  # of all products; with what a ControlNet has of its own the file has 1.4 MB in f16


class LowRank(torch.nn.Module):
    """weight -> weight + up down, the product in weight's shape: the nearest one to `change`, or nothing at first."""

    def __init__(self, weight, rank, change):
        super().__init__()
        if change is None:
            up, down = torch.zeros(len(weight), rank), torch.randn(rank, weight[0].numel()) / weight[0].numel() ** 0.5
        else:
            u, s, v = torch.linalg.svd(change, full_matrices=False)
            up, down = u[:, :rank] * s[:rank].sqrt(), s[:rank].sqrt()[:, None] * v[:rank]
        self.up, self.down = torch.nn.Parameter(up), torch.nn.Parameter(down)

    def forward(self, weight):
        return weight + (self.up @ self.down).view_as(weight)


def ranks(weights, changes):
    """How many singular values of each change are kept: those that are largest beside the matrix, for what they cost. One at least of each matrix."""
    found, left = dict.fromkeys(weights, 1), NUMBERS - sum(len(w) + w[0].numel() for w in weights.values())
    offers = []
    for name, change in changes.items():
        cost, size = sum(change.shape), weights[name].square().sum().item()
        offers += [(s.item() ** 2 / size / cost, name, cost) for s in torch.linalg.svdvals(change)[1:]]
    for _, name, cost in sorted(offers, reverse=True):
        if cost <= left:
            found[name], left = found[name] + 1, left - cost
    return found


def narrow(control, edges, sd1):
    """Makes each matrix that `control` has of the UNet a fixed one plus a product, and begins with `edges`, a ControlNet of shapes-sd1: most of
    shapes-xl's UNet began as shapes-sd1's. What is learnt of hints is copied, and of a matrix that both have so much of the change as fits."""
    taught, plain, weights, changes = edges.state_dict(), sd1.state_dict(), {}, {}
    with torch.no_grad():
        for name, value in control.state_dict().items():
            given, hints = taught.get(name), name.startswith("controlnet_")
            if value.dim() > 1 and not hints:
                weights[name] = value
            if given is None or given.numel() != value.numel():
                continue
            if hints:
                value.copy_(given.view_as(value))
            elif value.dim() == 1:
                value.add_(given - plain[name])
            else:
                changes[name] = (given - plain[name]).flatten(1)
    found = ranks(weights, changes)
    for name, weight in weights.items():
        module = control.get_submodule(name.removesuffix(".weight"))
        parametrize.register_parametrization(module, "weight", LowRank(weight, found[name], changes.get(name)))
        module.parametrizations.weight.original.requires_grad_(False)
    return control


def file_name(name, config):
    """diffusers' name -> the ControlNet source's."""
    hint = 2 * len(config["conditioning_embedding_out_channels"]) - 2
    part, _, rest = name.partition(".")
    if part == "controlnet_mid_block":
        return f"middle_block_out.0.{rest}"
    if part == "controlnet_down_blocks":
        index, end = rest.split(".")
        return f"zero_convs.{index}.0.{end}"
    if part == "controlnet_cond_embedding":
        place, _, end = rest.rpartition(".")
        index = {"conv_in": 0, "conv_out": hint + 1}.get(place)
        return f"input_hint_block.{2 * (int(place.split('.')[1]) + 1 if index is None else index)}.{end}"
    return unet_name(name, config).removeprefix("model.diffusion_model.")


def entry_name(name, config):
    """The file's name of what a narrow control has under this one; None: the base has it."""
    stem, found, part = name.partition(".parametrizations.weight.")
    if not found:
        return file_name(name, config)
    return None if part == "original" else file_name(f"{stem}.weight", config).removesuffix("weight") + part.rpartition(".")[2]


def read(control, path):
    """A control that was made narrow takes a file's numbers."""
    with torch.no_grad(), safe_open(path, "pt") as file:
        for name, value in control.state_dict().items():
            if entry := entry_name(name, dict(control.config)):
                value.copy_(file.get_tensor(entry).view_as(value))


def write(control, weights, out, what):
    """weights: control's state, of a control that was made narrow."""
    config, tensors = dict(control.config), {"lora_controlnet": torch.zeros(1)}
    for name, tensor in weights.items():
        stem, found, part = name.partition(".parametrizations.weight.")
        if found and part != "original":
            shape = weights[f"{stem}{found}original"].shape
            tensor = tensor.view(*tensor.shape, *(1,) * (len(shape) - 2)) if part.endswith("up") else tensor.view(len(tensor), *shape[1:])
        if entry := entry_name(name, config):
            tensors[entry] = tensor
    kept = {k: v for k, v in config.items() if not k.startswith("_")}
    os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
    save_file({k: v.half().contiguous() for k, v in tensors.items()}, out, metadata={"format": "pt", "what": what, "unet_config": json.dumps(kept)})
