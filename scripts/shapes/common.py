"""Sizes of the networks and the few helpers every training stage uses: seeds, checkpoints, a CSV log, averaged weights."""
import csv
import os
import time

import torch

SEED = 20261120
LATENT_SCALE = 0.18215  # SD1.x: latents handed to the UNet are encoder means times this, and have unit variance

VAE = dict(
    in_channels=3, out_channels=3, latent_channels=4, sample_size=128, act_fn="silu",
    down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
    block_out_channels=(16, 32, 64, 64), layers_per_block=1, norm_num_groups=2, scaling_factor=LATENT_SCALE,
)
TEXT = dict(
    hidden_size=96, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=77,
    hidden_act="quick_gelu", projection_dim=96, layer_norm_eps=1e-5,
)
UNET = dict(
    sample_size=16, in_channels=4, out_channels=4, act_fn="silu", norm_num_groups=8, norm_eps=1e-5,
    down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
    up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
    block_out_channels=(48, 96, 144, 144), layers_per_block=1, attention_head_dim=3, cross_attention_dim=96,
    use_linear_projection=False,
)
SCHEDULE = dict(
    num_train_timesteps=1000, beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear",
    prediction_type="epsilon", clip_sample=False, set_alpha_to_one=False, steps_offset=1,
)


def alphas_cumulative():
    """Product of (1 - beta) per time step for SCHEDULE: betas linear in their square roots (Rombach et al. 2022)."""
    roots = torch.linspace(SCHEDULE["beta_start"] ** 0.5, SCHEDULE["beta_end"] ** 0.5, SCHEDULE["num_train_timesteps"], dtype=torch.float64)
    return torch.cumprod(1.0 - roots**2, 0).float()


class Log:
    """Appends rows to a CSV file; keeps what an interrupted run wrote."""

    def __init__(self, path, columns):
        fresh = not os.path.exists(path)
        self.file = open(path, "a", newline="")
        self.writer = csv.writer(self.file)
        if fresh:
            self.writer.writerow(columns)

    def row(self, *values):
        self.writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in values])
        self.file.flush()
        print(*[f"{v:.5g}" if isinstance(v, float) else v for v in values], time.strftime("%H:%M:%S"), flush=True)


def save_state(path, **state):
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def load_state(path):
    return torch.load(path, weights_only=True) if os.path.exists(path) else None


class Average:
    """Exponential moving average of a module's parameters."""

    def __init__(self, module, decay):
        self.decay = decay
        self.weights = {k: v.detach().clone() for k, v in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module, step):
        decay = min(self.decay, (1 + step) / (10 + step))
        for k, v in module.state_dict().items():
            if v.is_floating_point():
                self.weights[k].lerp_(v, 1 - decay)
