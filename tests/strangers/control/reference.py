"""What the scripts of both proofs share: a UNet of SD1.x's kind in miniature, and a sampler around it in float64.

A model is a function of (x, sigma, conditioning) that gives what the UNet predicts; everything else here is the few lines of classifier-free
guidance and Euler's method that k-diffusion has.
"""

import json
import pathlib
import sys

import torch

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[2] / "scripts" / "golden"))

import schedules  # noqa: E402
from common import nhwc, randn, randomise, save, versions  # noqa: E402,F401

CONTEXT = 16
UNET = {
    "_class_name": "UNet2DConditionModel",
    "act_fn": "silu",
    "attention_head_dim": 2,
    "block_out_channels": [8, 12],
    "cross_attention_dim": CONTEXT,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 2,
    "norm_eps": 1e-05,
    "norm_num_groups": 4,
    "out_channels": 4,
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
}
# Four levels: 8 pixels a latent cell. A scale of 1 lets a latent's numbers be the sampler's.
VAE = {"_class_name": "AutoencoderKL", "block_out_channels": [8, 8, 8, 8], "scaling_factor": 1.0}
SIGMAS = [12.0, 4.0, 2.0, 1.0, 0.3, 0.0]
CFG = 3.0


def save_config(path, config):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def save_weights(folder, module, config):
    """As diffusers stores a model: f16 numbers, which its parameters are exactly."""
    save_config(folder / "config.json", config)
    save(folder / "diffusion_pytorch_model.safetensors", {k: v.half() for k, v in module.state_dict().items()})


def random_model(kind, config, seed=0):
    return randomise(kind.from_config(config), seed, torch.float16)


def tiny_unet():
    from diffusers import UNet2DConditionModel

    return random_model(UNet2DConditionModel, UNET)


def timestep(sigma):
    return torch.tensor([float(schedules.t_interpolated(sigma))])


def sigma_at_percent(percent):
    return float(schedules.sigma_at((1 - percent) * (schedules.TRAIN - 1)))


def guided(model, x, sigma, sides, cfg):
    """The guess of x0; `sides`: the positive conditioning and the negative."""
    one, no = (x - sigma * model(x, sigma, side) for side in sides)
    return no + cfg * (one - no)


def euler(model, x, sigmas, sides, cfg=CFG):
    """Sampling from x on, with what `guided` gives; a list of two levels is one step."""
    for sigma, following in zip(sigmas, sigmas[1:]):
        x = x + (x - guided(model, x, sigma, sides, cfg)) / sigma * (following - sigma)
    return x


def scaled(x, sigma):
    return x / (1 + sigma**2) ** 0.5
