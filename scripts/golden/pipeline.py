"""A whole picture with ComfyUI's meaning, step by step, from any SD1.x folder in diffusers layout.

    pipeline.py                                   pipeline.safetensors and pipeline_karras.safetensors from tiny-sd1
    pipeline.py --model DIR --out FILE [...]      one picture from another model

Everything runs in float64. The UNet's timestep exists in two readings: log-sigma interpolation in the training
table, which is kiln's (and diffusers' for Karras grids), and the table's nearest entry, which is ComfyUI's.
"""

import argparse
import json
import pathlib

import torch

import samplers
import schedules
import text
import tiny
import unet as unet_golden
import vae as vae_golden
from common import GOLDEN, nhwc, save, versions

SAMPLERS = {"euler": "euler", "euler_ancestral": "euler_ancestral", "heun": "heun", "dpmpp_2m": "dpmpp_2m", "ddim": "euler"}
READINGS = {"interpolated": schedules.t_interpolated, "nearest": schedules.t_nearest}


class Denoiser:
    """Classifier-free guidance over an eps UNet: D = x - sigma eps(x / sqrt(1 + sigma^2), t(sigma))."""

    def __init__(self, unet, positive, negative, cfg, reading):
        self.unet, self.positive, self.negative = unet, positive, negative
        self.cfg, self.reading = cfg, READINGS[reading]

    def one(self, x, sigma, context):
        t = torch.tensor(self.reading(sigma[0].numpy()))
        eps = unet_golden.run(self.unet, x / torch.sqrt(1 + sigma[0] ** 2), [float(t)] * x.shape[0], context)
        return x - sigma[0] * eps

    def __call__(self, x, sigma):
        negative = self.one(x, sigma, self.negative)
        return negative + (self.one(x, sigma, self.positive) - negative) * self.cfg


def scaling_factor(folder):
    return json.loads((folder / "vae/config.json").read_text()).get("scaling_factor", 0.18215)


def start(sigma, noise):
    """Noise scaling of eps models: at sigma max the noise takes the variance of the data in as well."""
    at_top = abs(float(sigma) - schedules.HIGH) <= 1e-5 * schedules.HIGH
    return noise * (torch.sqrt(1 + sigma**2) if at_top else sigma)


def walk(name, model, x, sigmas, seed):
    """x before the first step and after each: [steps+1, c, h, w]. Noise between steps as ComfyUI draws it on a CPU."""
    seen = []
    generator = torch.Generator().manual_seed(seed + 1)
    draw = lambda *_: torch.randn(x.shape, generator=generator).double()
    extra = {"noise_sampler": draw} if "ancestral" in name else {}
    function = getattr(samplers.k_diffusion_sampling(), f"sample_{SAMPLERS[name]}")
    last = function(model, x, sigmas, callback=lambda state: seen.append(state["x"].clone()), disable=True, **extra)
    return torch.cat(seen + [last])


def make(options):
    tokenizer, encoder = text.load(options.model)
    unet, vae = unet_golden.load(options.model), vae_golden.load(options.model)
    positive, *_ = text.condition(tokenizer, encoder.double(), options.prompt)
    negative, *_ = text.condition(tokenizer, encoder.double(), options.negative)
    shape = (options.batch, 4, options.height // 8, options.width // 8)
    torch.manual_seed(options.seed)
    noise = torch.randn(shape)
    sigmas = torch.tensor(schedules.sigmas(options.scheduler, options.steps), dtype=torch.float32).double()
    tensors = {"positive": positive[0], "negative": negative[0], "noise": nhwc(noise), "sigmas": sigmas}
    for reading in options.readings.split(","):
        spread = [context.expand(options.batch, -1, -1) for context in (positive, negative)]
        model = Denoiser(unet, *spread, options.cfg, reading)
        path = walk(options.sampler, model, start(sigmas[0], noise.double()), sigmas, options.seed)
        path = path.reshape(-1, *shape).permute(0, 1, 3, 4, 2).contiguous()
        picture = vae_golden.decode(vae, path[-1].permute(0, 3, 1, 2) / scaling_factor(options.model))
        unit = nhwc((picture / 2 + 0.5).clamp(0, 1))
        tensors.update({f"{reading}.t": torch.tensor(READINGS[reading](sigmas[:-1].numpy())), f"{reading}.x": path})
        tensors[f"{reading}.u8"] = (unit * 255).to(torch.uint8)
    return tensors


WHAT = (
    "positive, negative [77*chunks,width]; noise [n,h,w,4]; sigmas [steps+1]; READING.t [steps]: timesteps given to the UNet; "
    "READING.x [steps+1,n,h,w,4]: scaled latents before the first step and after each; READING.u8 [n,8h,8w,3]: the picture, "
    "truncated to bytes. READING interpolated: t(sigma) log-linear between entries of the table; nearest: the nearest entry"
)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=tiny.FOLDER)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--prompt", default="a photo of a (cute:1.3) cat")
    parser.add_argument("--negative", default="blurry, low quality")
    parser.add_argument("--seed", type=int, default=8566257)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--cfg", type=float, default=7.0)
    parser.add_argument("--sampler", default="euler", choices=sorted(SAMPLERS))
    parser.add_argument("--scheduler", default="normal", choices=sorted(schedules.SCHEDULES))
    parser.add_argument("--width", type=int, default=80)
    parser.add_argument("--height", type=int, default=64)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--readings", default="interpolated", help="interpolated, nearest, or both with a comma")
    options = parser.parse_args()
    if options.out is None and options.model != tiny.FOLDER:
        parser.error("--model wants --out as well")
    if options.width % 8 or options.height % 8:
        parser.error("--width and --height are multiples of 8")
    return options


def write(options, out):
    chosen = {key: value for key, value in vars(options).items() if key not in ("model", "out", "readings")}
    with torch.inference_mode():
        tensors = make(options)
    meta = {**versions(), "layout": "NHWC", "what": WHAT, "model": options.model.name}
    save(out, tensors, {**meta, **{key: str(value) for key, value in chosen.items()}})


def main():
    options = parse()
    if options.out:
        write(options, options.out)
        return
    write(options, GOLDEN / "pipeline.safetensors")
    second = {"sampler": "euler_ancestral", "scheduler": "karras", "width": 40, "height": 48, "batch": 2}
    second["readings"] = ",".join(READINGS)
    write(argparse.Namespace(**{**vars(options), **second}), GOLDEN / "pipeline_karras.safetensors")


if __name__ == "__main__":
    main()
