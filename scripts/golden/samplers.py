"""samplers.safetensors: k-diffusion's own samplers, step by step, on a denoiser written in closed form.

The denoiser works element by element and can be repeated anywhere:
    D(x, sigma) = tanh(x / (2 sqrt(1 + sigma^2))) + m sigma / (4 (1 + sigma))
with a stored tensor m that tells positions and channels apart. Sigmas are ComfyUI's (schedules.py) rounded to
float32, the start is ComfyUI's (noise scaled and added to the latent), the sampler runs in float64.
"""

import functools
import importlib.util
import pathlib
import sys
import types

import torch

import schedules
from common import GOLDEN, nhwc, randn, save, versions

SHAPE = (1, 4, 3, 2)
SEED = 42
SAMPLERS = {"euler": "euler", "euler_ancestral": "euler_ancestral", "heun": "heun", "dpmpp_2m": "dpmpp_2m", "ddim": "euler"}
SCHEDULES = ("karras", "normal", "sgm_uniform", "beta")
STEPS = (1, 2, 3, 7, 20)


@functools.cache
def k_diffusion_sampling():
    """k_diffusion.sampling alone: the rest of the package wants libraries that have no part in this."""
    found = importlib.util.find_spec("k_diffusion")
    if found is None:
        raise SystemExit("k-diffusion is missing: pip install --no-deps k-diffusion torchsde torchdiffeq trampoline boltons")
    package = types.ModuleType("k_diffusion")
    package.__path__ = list(found.submodule_search_locations)
    utils = types.ModuleType("k_diffusion.utils")
    utils.append_dims = lambda value, count: value[(...,) + (None,) * (count - value.ndim)]
    package.utils = utils
    sys.modules.update({"k_diffusion": package, "k_diffusion.utils": utils})
    path = pathlib.Path(package.__path__[0]) / "sampling.py"
    spec = importlib.util.spec_from_file_location("k_diffusion.sampling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def denoiser(m):
    def call(x, sigma):
        sigma = sigma.reshape(-1, 1, 1, 1)
        return torch.tanh(x / (2 * torch.sqrt(1 + sigma**2))) + m * sigma / (4 * (1 + sigma))

    return call


def noise_sampler(seed):
    """ComfyUI's noise between steps on a CPU: a generator of its own, seeded seed + 1."""
    generator = torch.Generator().manual_seed(seed + 1)
    return lambda sigma, sigma_next: torch.randn(SHAPE, generator=generator).double()


def start(sigma, noise, latent):
    """Noise scaling of eps models: at sigma max the noise takes the variance of the data in as well."""
    at_top = abs(float(sigma) - schedules.HIGH) <= 1e-5 * schedules.HIGH
    return noise * (torch.sqrt(1 + sigma**2) if at_top else sigma) + latent


def walk(sampling, name, model, x, sigmas):
    """x before the first step and after each: [steps+1, c, h, w]."""
    seen = []
    extra = {"noise_sampler": noise_sampler(SEED)} if "ancestral" in name else {}
    function = getattr(sampling, f"sample_{SAMPLERS[name]}")
    last = function(model, x, sigmas, callback=lambda state: seen.append(state["x"].clone()), disable=True, **extra)
    return torch.cat(seen + [last])


def cases():
    """(name, sigmas): full runs, img2img, and parts of a run as KSamplerAdvanced makes them."""
    for schedule in SCHEDULES:
        for steps in STEPS:
            full = schedules.sigmas(schedule, steps)
            yield f"{schedule}.{steps}.full", full
            yield f"{schedule}.{steps}.denoise0.5", schedules.sigmas(schedule, steps, 0.5)
            if steps in (3, 7):
                first, last = steps // 3, steps - steps // 3
                part = full[first : last + 1].copy()
                yield f"{schedule}.{steps}.range{first}-{last}", part
                ended = part.copy()
                ended[-1] = 0
                yield f"{schedule}.{steps}.range{first}-{last}.denoised", ended


def main():
    sampling = k_diffusion_sampling()
    torch.manual_seed(SEED)
    noise = torch.randn(SHAPE).double()
    latent, m = randn("samplers.latent", *SHAPE).double(), randn("samplers.m", *SHAPE).double()
    draw = noise_sampler(SEED)
    tensors = {
        "noise": nhwc(noise),
        "latent": nhwc(latent),
        "m": nhwc(m),
        "noise.ancestral": nhwc(torch.cat([draw(None, None) for _ in range(max(STEPS))])),
    }
    for case, values in cases():
        sigmas = torch.tensor(values, dtype=torch.float32).double()
        tensors[f"sigmas.{case}"] = sigmas
        base = torch.zeros_like(latent) if case.endswith("full") else latent
        for name in SAMPLERS:
            if name == "ddim" and not case.startswith("normal"):
                continue
            tensors[f"{name}.{case}"] = nhwc(walk(sampling, name, denoiser(m), start(sigmas[0], noise, base), sigmas))
    what = (
        "SAMPLER.SCHEDULE.STEPS.CASE [steps+1,h,w,4]: x before the first step and after each one, with sigmas.SCHEDULE.STEPS.CASE "
        "and the denoiser D(x,s) = tanh(x/(2 sqrt(1+s^2))) + m s/(4(1+s)). x[0] = noise*sqrt(1+s0^2) if s0 is sigma max (relative "
        "1e-5) else noise*s0; plus latent unless CASE is full. noise: torch.manual_seed(42), randn [1,4,3,2]; noise.ancestral[i]: "
        "draw i of a generator seeded 43. CASE rangeA-B: sigmas A..B of the full schedule; .denoised: its last one set to 0. "
        "denoiseD: the last STEPS+1 sigmas of int(STEPS/D) steps"
    )
    save(GOLDEN / "samplers.safetensors", tensors, {**versions(), "layout": "NHWC", "k-diffusion": "0.1.1.post1", "what": what})


if __name__ == "__main__":
    main()
