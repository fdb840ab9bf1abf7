"""A UNet's first weights out of shapes-sd1's: what fits is copied, what is new adds nothing to begin with."""
import torch
from diffusers import UNet2DConditionModel

SILENT = ("attn1.to_out.0", "attn2.to_out.0", "ff.net.2", "add_embedding.linear_2")


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
