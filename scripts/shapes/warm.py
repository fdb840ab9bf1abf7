"""A UNet's first weights out of shapes-sd1's: what fits is copied, what is new adds nothing to begin with."""
import math

import torch
import torch.nn.functional as F
from diffusers import UNet2DConditionModel

from .common import SEED

SILENT = ("attn1.to_out.0", "attn2.to_out.0", "ff.net.2")


def sd1_unet(folder):
    return UNet2DConditionModel.from_pretrained(folder, subfolder="unet", torch_dtype=torch.float32).eval().requires_grad_(False)


def block_of(name, blocks):
    """The name in shapes-sd1 of a tensor of the new UNet. blocks maps `up_blocks.0` to the block it comes from."""
    here = ".".join(name.split(".")[:2])
    return name.replace(here, blocks[here], 1) if here in blocks else name


def fill(unet, source, blocks, reader):
    """Copies source's tensors; reader [96, context] turns the new context into the states shapes-sd1 was trained on.

    Returns the names of what is new. The last layer of each new branch starts at zero.
    """
    old, new, fresh = source.state_dict(), unet.state_dict(), []
    for name, value in new.items():
        given = old.get(block_of(name, blocks))
        if given is None:
            fresh.append(name)
            if any(layer in name for layer in SILENT):
                value.zero_()
        elif given.shape == value.shape:
            value.copy_(given)
        elif given.dim() == 4 and value.dim() == 2:  # a 1x1 convolution and a linear layer
            value.copy_(given[:, :, 0, 0])
        elif name.endswith(("attn2.to_k.weight", "attn2.to_v.weight")):
            value.copy_(given @ reader)
        elif name == "conv_in.weight":  # channels beyond the noisy latents
            value.zero_()
            value[:, :given.shape[1]] = given
        else:
            raise ValueError(f"{name}: {tuple(given.shape)} does not fit {tuple(value.shape)}")
    unet.load_state_dict(new)
    return fresh


def fit_reader(states, wanted, ridge=1e-3):
    """The linear map [wanted's width, states' width] that comes nearest to wanted [n, a] from states [n, b], and its share of error."""
    states, wanted = states.double(), wanted.double()
    square = states.T @ states / len(states)
    square += ridge * square.diagonal().mean() * torch.eye(len(square), dtype=square.dtype)
    reader = torch.linalg.solve(square, states.T @ wanted / len(states)).T
    left = (wanted - states @ reader.T).square().mean() / wanted.var()
    return reader.float(), left.item()


@torch.no_grad()
def open_numbers(unet, numbers, amounts, length=6.0):
    """First weights of add_embedding: its answer to numbers [n, k] is a sum of fixed directions, amounts [n, directions] of each.

    A direction is `length` long; the time embedding moves by about 11 between its ends. With zeros or with small random answers the numbers
    went unheard for 2,000 steps. The first layer is random and deaf to high frequencies, the second is fitted by least squares. Text adds little.
    """
    generator = torch.Generator().manual_seed(SEED + 15)
    first, second = unet.add_embedding.linear_1, unet.add_embedding.linear_2
    half = unet.add_time_proj.num_channels // 2
    frequencies = torch.exp(-torch.arange(half) * math.log(10000.0) / half)
    hearing = torch.exp(-8 * frequencies).repeat(2 * numbers.shape[1])
    pooled = first.in_features - len(hearing)
    first.weight[:, :pooled] = 0.02 * torch.randn(first.out_features, pooled, generator=generator)
    first.weight[:, pooled:] = torch.randn(first.out_features, len(hearing), generator=generator) * hearing * 3 / hearing.norm()
    first.bias.copy_(torch.randn(first.out_features, generator=generator))
    directions = torch.randn(amounts.shape[1], second.out_features, generator=generator)
    directions *= length / directions.norm(dim=1, keepdim=True)
    features = unet.add_time_proj(numbers.flatten()).reshape(len(numbers), -1)
    heard = F.silu(F.linear(torch.cat([torch.zeros(len(numbers), pooled), features], 1), first.weight, first.bias))
    heard = torch.cat([heard, torch.ones(len(heard), 1)], 1).double()
    square = heard.T @ heard / len(heard) + 1e-6 * torch.eye(heard.shape[1], dtype=torch.float64)
    fit = torch.linalg.solve(square, heard.T @ (amounts @ directions).double() / len(heard))
    second.weight.copy_(fit[:-1].T)
    second.bias.copy_(fit[-1])
    left = ((heard @ fit - amounts @ directions).square().mean() / (amounts @ directions).var()).item()
    print(f"numbers: {left:.2%} of the answer is not fitted", flush=True)
