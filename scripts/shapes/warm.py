"""A UNet's first weights out of shapes-sd1's: what fits is copied, what is new adds nothing to begin with."""
import torch
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
def open_numbers(unet, plain, share=0.5):
    """First weights of add_embedding, so that numbers count from the start: with zeros there the numbers went unheard for 1,600 steps.

    Its answer to the numbers is random, `share` as large as the time embedding varies, and zero for plain, the numbers of an ordinary
    picture, and whatever text; what reads the time embedding finds there what it needs.
    """
    pooled = unet.add_embedding.linear_1.in_features - len(plain) * unet.add_time_proj.num_channels
    first, second = unet.add_embedding.linear_1, unet.add_embedding.linear_2
    generator = torch.Generator().manual_seed(SEED + 15)
    features = first.in_features - pooled
    first.weight[:, :pooled] = 0.02 * torch.randn(first.out_features, pooled, generator=generator)
    first.weight[:, pooled:] = 2.0 / features**0.5 * torch.randn(first.out_features, features, generator=generator)
    first.bias.zero_()
    second.weight.copy_(torch.randn(second.weight.shape, generator=generator))
    times = unet.time_embedding(unet.time_proj(torch.arange(0, 1000, 10)))
    middle = torch.tensor([plain], dtype=torch.float32)
    around = middle + torch.randn(256, len(plain), generator=generator) * middle.abs().clamp(min=20) * 0.3

    def answer(numbers):
        features = unet.add_time_proj(numbers.flatten()).reshape(len(numbers), -1)
        return torch.nn.functional.silu(first(torch.cat([torch.zeros(len(numbers), pooled), features], 1))) @ second.weight.T

    second.weight *= share * times.std(0).mean() / answer(around).std(0).mean()
    second.bias.copy_(-answer(middle)[0])
