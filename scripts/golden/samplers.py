"""samplers.safetensors: every sampler, step by step, on a denoiser written in closed form.

    samplers.py [--comfyui FOLDER] [--full FILE]

The numbers are those of k-diffusion's samplers and, for what only ComfyUI has, those of a ComfyUI checkout the script is
pointed at: it runs comfy/k_diffusion and comfy/extra_samplers alone, with stand-ins for the rest. Without a checkout only
k-diffusion's are made. The short form (the committed file) has a few cases of each; --full writes all schedules, lengths
and parts of a run to FILE.

The denoiser works element by element and can be repeated anywhere; it has a guided and an unconditional answer:
    D(x, s) = tanh(x / (2 sqrt(1 + s^2))) + m s / (4 (1 + s))
    U(x, s) = 0.9 tanh(x / (3 sqrt(1 + s^2))) - m s / (5 (1 + s))
with a stored tensor m. Sigmas are rounded to float32, samplers run in float64, noise is the k-th of stored draws.
What is kept: x at the start, as each evaluation sees it, and the result.
"""

import argparse
import functools
import importlib.util
import inspect
import pathlib
import re
import sys
import types

import torch

import schedules
from common import GOLDEN, randn, save, versions

SIZE = 8
DRAWS = 64
SCHEDULES = ("karras", "normal", "sgm_uniform", "beta")
STEPS = (1, 2, 3, 7, 20)
SHORT = ("karras.7.full", "sgm_uniform.3.full", "normal.2.denoise0.5", "beta.1.full", "karras.7.range2-5")

# name -> (function, arguments); an SDE sampler's noise is fed in as well.
K_DIFFUSION = {
    "euler": ("euler", {}),
    "euler_ancestral": ("euler_ancestral", {}),
    "euler_ancestral.half": ("euler_ancestral", {"eta": 0.5, "s_noise": 0.9}),
    "heun": ("heun", {}),
    "dpm_2": ("dpm_2", {}),
    "dpm_2_ancestral": ("dpm_2_ancestral", {}),
    "dpm_fast": ("dpm_fast", {}),
    "dpm_adaptive": ("dpm_adaptive", {}),
    "dpm_adaptive.two": ("dpm_adaptive", {"order": 2, "rtol": 0.02, "pcoeff": 0.1, "icoeff": 0.9, "dcoeff": 0.05, "eta": 0.3}),
    "dpmpp_2s_ancestral": ("dpmpp_2s_ancestral", {}),
    "dpmpp_sde": ("dpmpp_sde", {}),
    "dpmpp_sde.third": ("dpmpp_sde", {"eta": 0.7, "s_noise": 0.9, "r": 1 / 3}),
    "dpmpp_2m": ("dpmpp_2m", {}),
    "dpmpp_2m_sde": ("dpmpp_2m_sde", {"solver_type": "midpoint"}),
    "dpmpp_2m_sde_heun": ("dpmpp_2m_sde", {"solver_type": "heun"}),
    "dpmpp_3m_sde": ("dpmpp_3m_sde", {}),
    "dpmpp_3m_sde.half": ("dpmpp_3m_sde", {"eta": 0.5, "s_noise": 0.9}),
    "ddim": ("euler", {}),
}
COMFYUI = {
    "euler.churn": ("euler", {"s_churn": 3.0, "s_tmin": 0.1, "s_tmax": 10.0, "s_noise": 1.01}),
    "heun.churn": ("heun", {"s_churn": 3.0, "s_tmin": 0.1, "s_tmax": 10.0, "s_noise": 1.01}),
    "lms": ("lms", {}),
    "lms.two": ("lms", {"order": 2}),
    "euler_cfg_pp": ("euler_cfg_pp", {}),
    "euler_ancestral_cfg_pp": ("euler_ancestral_cfg_pp", {}),
    "heunpp2": ("heunpp2", {}),
    "exp_heun_2_x0": ("exp_heun_2_x0", {}),
    "exp_heun_2_x0_sde": ("exp_heun_2_x0_sde", {}),
    "dpmpp_2s_ancestral_cfg_pp": ("dpmpp_2s_ancestral_cfg_pp", {}),
    "dpmpp_2m_cfg_pp": ("dpmpp_2m_cfg_pp", {}),
    "ddpm": ("ddpm", {}),
    "lcm": ("lcm", {}),
    "lcm.clipped": ("lcm", {"s_noise": 1.2, "s_noise_end": 0.8, "noise_clip_std": 1.0}),
    "ipndm": ("ipndm", {}),
    "ipndm_v": ("ipndm_v", {}),
    "deis": ("deis", {}),
    "res_multistep": ("res_multistep", {}),
    "res_multistep_cfg_pp": ("res_multistep_cfg_pp", {}),
    "res_multistep_ancestral": ("res_multistep_ancestral", {}),
    "res_multistep_ancestral_cfg_pp": ("res_multistep_ancestral_cfg_pp", {}),
    "gradient_estimation": ("gradient_estimation", {}),
    "gradient_estimation_cfg_pp": ("gradient_estimation_cfg_pp", {}),
    "er_sde": ("er_sde", {}),
    "seeds_2": ("seeds_2", {}),
    "seeds_2.phi_2": ("seeds_2", {"eta": 0.5, "s_noise": 0.9, "r": 0.7, "solver_type": "phi_2"}),
    "seeds_3": ("seeds_3", {}),
    "sa_solver": ("sa_solver", {}),
    "sa_solver.simple": ("sa_solver", {"predictor_order": 2, "corrector_order": 2, "simple_order_2": True}),
    "sa_solver_pece": ("sa_solver_pece", {}),
    "uni_pc": ("unipc", {}),
    "uni_pc_bh2": ("unipc_bh2", {}),
}
# With ComfyUI's flow models (CONST), whose sigmas fall from 1.
FLOW = ("euler", "euler_ancestral", "euler_ancestral_cfg_pp", "dpm_2_ancestral", "dpmpp_2s_ancestral", "dpmpp_sde", "dpmpp_2m_sde", "dpmpp_3m_sde",
        "lcm", "er_sde", "seeds_2", "seeds_3", "sa_solver", "exp_heun_2_x0")  # fmt: skip


# Levels that rise (FlipSigmas): from a picture to the noise it comes from.
FLIPPED = ("euler", "euler_cfg_pp", "heun", "heunpp2", "exp_heun_2_x0", "dpm_2", "lms", "dpm_fast", "dpm_adaptive", "dpmpp_2m", "dpmpp_2m_cfg_pp", "ipndm",
           "ipndm_v", "deis", "res_multistep", "gradient_estimation", "ddim", "uni_pc", "uni_pc_bh2")  # fmt: skip


def euler_cfg_pp_alternative(model, x, sigmas, disable=None, extra_args=None):
    """ComfyUI's SamplerEulerCFGpp, version "alternative", from its formula: the slope is (x - D + U - D) / sigma."""
    for now, after in zip(sigmas, sigmas[1:]):
        d = model(x, now)
        x = x + (x - d + model.plain - d) / now * (after - now)
    return x


def lcm_upscale(model, x, sigmas, disable=None, extra_args=None, noise_sampler=None):
    """ComfyUI's SamplerLCMUpscale at scale 1, from its formula: the guess, noised anew."""
    for now, after in zip(sigmas, sigmas[1:]):
        x = model(x, now)
        if after > 0:
            x = x + after * noise_sampler(now, after)
    return x


def append_dims(value, count):
    return value[(...,) + (None,) * (count - value.ndim)]


def module(name, path=None, **members):
    """A module from a file, or one made of the members given, under that name."""
    if path is None:
        found = types.ModuleType(name)
    else:
        spec = importlib.util.spec_from_file_location(name, path)
        found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    vars(found).update(members)
    if path is not None:
        spec.loader.exec_module(found)
    return found


@functools.cache
def k_diffusion_sampling():
    """k_diffusion.sampling alone: the rest of the package wants libraries that have no part in this."""
    found = importlib.util.find_spec("k_diffusion")
    if found is None:
        raise SystemExit("k-diffusion is missing: pip install --no-deps k-diffusion torchsde torchdiffeq trampoline boltons")
    folder = pathlib.Path(list(found.submodule_search_locations)[0])
    module("k_diffusion", __path__=[str(folder)], utils=module("k_diffusion.utils", append_dims=append_dims))
    return module("k_diffusion.sampling", folder / "sampling.py")


class Const:
    """Stands for ComfyUI's flow model sampling, shift 1."""

    def noise_scaling(self, sigma, noise, latent, max_denoise=False):
        return sigma * noise + (1 - sigma) * latent

    def percent_to_sigma(self, percent):
        return 1.0 - percent


class Eps:
    """Stands for ComfyUI's model sampling of SD1's table."""

    def noise_scaling(self, sigma, noise, latent, max_denoise=False):
        return sigma * noise + latent

    def percent_to_sigma(self, percent):
        if percent <= 0:
            return 999999999.9
        return 0.0 if percent >= 1 else float(schedules.sigma_at((1 - percent) * (schedules.TRAIN - 1)))


def with_function(options, function, disable_cfg1_optimization=False):
    """What ComfyUI's model patcher does with a function to be called after guidance."""
    return {**options, "sampler_post_cfg_function": options.get("sampler_post_cfg_function", []) + [function]}


@functools.cache
def comfyui_samplers(folder):
    """{name: function} of a checkout's sampling modules, the rest of ComfyUI being stand-ins."""
    comfy = pathlib.Path(folder) / "comfy"
    plain = lambda n, disable=None: range(n)
    module(
        "comfy",
        __path__=[],
        model_patcher=module("comfy.model_patcher", set_model_options_post_cfg_function=with_function),
        model_sampling=module("comfy.model_sampling", CONST=Const),
        memory_management=module("comfy.memory_management"),
        utils=module("comfy.utils", model_trange=plain),
    )
    folder_k = comfy / "k_diffusion"
    parts = {name: module(f"comfy.k_diffusion.{name}", folder_k / f"{name}.py") for name in ("deis", "sa_solver")}
    parts["utils"] = module("comfy.k_diffusion.utils", append_dims=append_dims)
    module("comfy.k_diffusion", __path__=[], **parts)
    sampling = module("comfy.k_diffusion.sampling", folder_k / "sampling.py")
    unipc = module("comfy.extra_samplers.uni_pc", comfy / "extra_samplers" / "uni_pc.py")
    return {name: getattr(sampling, name, None) or getattr(unipc, name, None) for name in [*dir(sampling), *dir(unipc)]}


class Model:
    """The denoiser as either package calls it; remembers what it was asked."""

    def __init__(self, m, sampling):
        self.m, self.seen = m, []
        self.inner_model = self
        self.model_sampling = sampling
        self.model_patcher = self

    def get_model_object(self, name):
        return getattr(self, name)

    def __call__(self, x, sigma, model_options=None, seed=None):
        sigma = sigma.reshape(-1, 1, 1, 1)
        self.seen.append(x.reshape(-1).clone())
        root = torch.sqrt(1 + sigma**2)
        guided = torch.tanh(x / (2 * root)) + self.m * sigma / (4 * (1 + sigma))
        plain = 0.9 * torch.tanh(x / (3 * root)) - self.m * sigma / (5 * (1 + sigma))
        self.plain = plain
        for function in (model_options or {}).get("sampler_post_cfg_function", []):
            guided = function({"denoised": guided, "uncond_denoised": plain})
        return guided


class Noise:
    """The k-th call gets the k-th stored draw, whatever the levels."""

    def __init__(self, draws):
        self.draws, self.k = draws, 0

    def __call__(self, *_):
        self.k += 1
        return self.draws[self.k - 1]


def run(function, name, arguments, m, sampling, draws, x, sigmas):
    """[evaluations + 2, SIZE]: x at the start, as each evaluation sees it, and the result."""
    model, noise = Model(m, sampling), Noise(draws)
    extra = dict(arguments)
    if "noise_sampler" in inspect.signature(function).parameters:
        extra["noise_sampler"] = noise
    kept = torch.randn_like
    torch.randn_like = lambda x: noise()
    try:
        if name.startswith(("dpm_fast", "dpm_adaptive")):
            low = sigmas[-1] if sigmas[-1] > 0 else sigmas[-2]
            count = (len(sigmas) - 1,) if name == "dpm_fast" else ()
            last = function(model, x, low, sigmas[0], *count, disable=True, **extra)
        else:
            last = function(model, x, sigmas, disable=True, extra_args={}, **extra)
    finally:
        torch.randn_like = kept
    return torch.stack([x.reshape(-1)] + model.seen + [last.reshape(-1)])


def cases(names=None):
    """(name, sigmas) of those named, or of all: full runs, img2img, and parts of a run as KSamplerAdvanced makes them."""
    for schedule in SCHEDULES:
        for steps in STEPS:
            full = schedules.sigmas(schedule, steps)
            found = {f"{schedule}.{steps}.full": full, f"{schedule}.{steps}.denoise0.5": schedules.sigmas(schedule, steps, 0.5)}
            if steps > 1:  # one step has no parts
                first, last = (steps // 3, steps - steps // 3) if steps > 2 else (0, 1)
                part = full[first : last + 1].copy()
                found[f"{schedule}.{steps}.range{first}-{last}"] = part
                found[f"{schedule}.{steps}.range{first}-{last}.denoised"] = part.copy()
                found[f"{schedule}.{steps}.range{first}-{last}.denoised"][-1] = 0
            yield from ((name, values) for name, values in found.items() if names is None or name in names)


def flipped_cases(names=None):
    yield "flipped.6", schedules.sigmas("karras", 7)[-2::-1].copy()


def flow_cases(names=None):
    """Flow levels, shift 3, from 1 and from the middle."""
    for steps in STEPS:
        even = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
        levels = (3 * even / (1 + 2 * even)).numpy()
        if names is None or steps in (2, 7):
            yield f"flow.{steps}.full", levels
        if steps == 7:
            yield f"flow.{steps}.part", levels[2:6]


# Runs that have no meaning or that kiln gives one: see docs/samplers.md.
def refused(name, sigmas):
    alone = len(sigmas) == 2
    if name.startswith(("dpm_fast", "dpm_adaptive")):
        return (sigmas[-1] if sigmas[-1] > 0 else sigmas[-2]) == sigmas[0]
    if name.startswith(("dpmpp_2m_sde", "dpmpp_3m_sde")) and alone and sigmas[-1] == 0:
        return True  # k-diffusion stumbles over its own variable
    return name.startswith("uni_pc") and alone


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--comfyui", help="a ComfyUI checkout: its numbers for what k-diffusion lacks")
    parser.add_argument("--full", help="write every case to this file instead of the committed short form")
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    table = {name: (getattr(k_diffusion_sampling(), f"sample_{what}"), how) for name, (what, how) in K_DIFFUSION.items()}
    table |= {"euler_cfg_pp.alternative": (euler_cfg_pp_alternative, {}), "lcm_upscale": (lcm_upscale, {})}
    flow = {}
    version = "none"
    if args.comfyui:
        version = re.search(r'"(.*)"', (pathlib.Path(args.comfyui) / "comfyui_version.py").read_text())[1]
        samplers = comfyui_samplers(args.comfyui)
        table |= {name: (samplers[f"sample_{what}"], how) for name, (what, how) in COMFYUI.items()}
        flow = {name: (samplers[f"sample_{({**K_DIFFUSION, **COMFYUI})[name][0]}"], {}) for name in FLOW}
    flipped = {name: table[name] for name in FLIPPED if name in table}
    names = None if args.full else SHORT
    shape = (1, SIZE, 1, 1)
    noise, latent, m = (randn(f"samplers.{part}", *shape).double() for part in ("noise", "latent", "m"))
    draws = randn("samplers.draws", DRAWS, *shape).double()
    tensors = {"m": m.reshape(-1), "draws": draws.reshape(DRAWS, SIZE)}
    for prediction, which, entries, sampling in (("eps", cases, table, Eps()), ("eps", flipped_cases, flipped, Eps()), ("flow", flow_cases, flow, Const())):
        for case, values in which(names):
            sigmas = torch.tensor(values, dtype=torch.float32).double()
            tensors[f"sigmas.{case}"] = sigmas
            start = sigmas[0] * noise + (1 - sigmas[0] if prediction == "flow" else float(not case.endswith("full"))) * latent
            for name, (function, arguments) in entries.items():
                if refused(name, sigmas):
                    continue
                tensors[f"{name}:{case}"] = run(function, name, arguments, m, sampling, draws, start, sigmas.clone())
    what = (
        "SAMPLER[.OPTIONS]:CASE [evaluations+2, 8]: x at the start, as each evaluation sees it, and the result. sigmas.CASE: the levels. m: of "
        "the denoiser D(x,s) = tanh(x/(2 sqrt(1+s^2))) + m s/(4(1+s)), unconditional 0.9 tanh(x/(3 sqrt(1+s^2))) - m s/(5(1+s)). draws: "
        "the noise, one after another. CASE rangeA-B: sigmas A..B of the full schedule, .denoised: the last one set to 0; denoiseD: the "
        "last STEPS+1 sigmas of int(STEPS/D) steps; flipped: levels that rise; flow: prediction flow, shift 3"
    )
    origin = {"k-diffusion": "0.1.1.post1", "comfyui": version, "options": {n: a for n, (_, a) in {**K_DIFFUSION, **COMFYUI}.items() if a}}
    save(args.full or GOLDEN / "samplers.safetensors", tensors, {**versions(), **origin, "what": what})


if __name__ == "__main__":
    main()
