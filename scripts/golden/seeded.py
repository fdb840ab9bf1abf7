"""Writes tests/sampler/seeded_tables.h: whole samplings from a seed, with each noise source and each way to ask for noise.

The network is denoise.py's, samplers are k-diffusion's in float64, noise is what torch and torchsde draw in float32: the first
noise and that of the steps, from the generators ComfyUI takes. CUDA's are brownian.py's philox() (a device that holds the
draw at once).
"""

import pathlib

import torch

import brownian
import denoise
from common import nchw, nhwc

kd = brownian.kd
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "sampler" / "seeded_tables.h"
SEED, COUNT = 2**32 + 77, 32
LEVELS = kd.get_sigmas_karras(7, 0.0291672, 14.6146412).float()
SHAPE = (2, 4, 2, 2)
NAMES = {"dpmpp_sde": {}, "dpmpp_2m_sde": {}, "dpmpp_2m_sde_heun": {"solver_type": "heun"}, "dpmpp_3m_sde": {}}


class Cuda:
    """torch.Generator("cuda") for draws of one size below 256 blocks: call k takes block k of every thread."""

    def __init__(self, seed):
        self.seed, self.calls = seed, 0

    def randn(self):
        self.calls += 1
        return brownian.philox(self.seed, COUNT, self.calls - 1).reshape(SHAPE)


class Cpu:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def randn(self):
        return torch.randn(SHAPE, generator=self.generator, dtype=torch.float32)


def white(generator):
    return lambda a, b: generator.randn().double()


def path(cuda):
    def noise(a, b):
        brownian.interval._randn = brownian.cuda_randn if cuda else brownian.cpu_randn
        return tree(a.float(), b.float()).double()

    brownian.interval._randn = brownian.cuda_randn if cuda else brownian.cpu_randn
    tree = kd.BrownianTreeNoiseSampler(torch.zeros(SHAPE, dtype=torch.float32), LEVELS[LEVELS > 0].min(), LEVELS.max(), seed=SEED)
    return noise


def denoiser(x, sigma):
    count, level, now = denoise.Discrete(), float(sigma[0]), nhwc(x)
    guess = {w: count.denoised(level, denoise.network(now * count.input(level), count.timestep(level), w), now) for w in ("positive", "negative")}
    return nchw(denoise.plain(guess["positive"], guess["negative"], denoise.CFG))


def run(name, first, noise, **options):
    levels = LEVELS.double()
    x = denoise.Discrete().start(float(LEVELS[0]), first.double(), torch.zeros(SHAPE))
    options = {**options, **({"noise_sampler": noise} if noise else {})}
    return nhwc(getattr(kd, f"sample_{name}")(denoiser, x, levels, disable=True, **options)) / denoise.SCALE + denoise.SHIFT


def churned(generator):
    """s_churn draws from the generator of the first noise, which goes on."""
    first, plain = generator.randn(), torch.randn_like
    kd.torch.randn_like = lambda x: generator.randn().double()
    try:
        return run("euler", first, None, s_churn=3.0)
    finally:
        kd.torch.randn_like = plain


def samplings():
    cpu_first = Cpu(SEED).randn()
    yield "euler_ancestral", "auto", run("euler_ancestral", cpu_first, white(Cpu(SEED + 1)))
    yield "euler_ancestral", "cuda", run("euler_ancestral", cpu_first, white(Cuda(SEED)))
    one = Cuda(SEED)
    yield "euler_ancestral", "cuda_all", run("euler_ancestral", one.randn(), white(one))
    yield "euler; options=s_churn=3", "auto", churned(Cpu(SEED))
    yield "euler; options=s_churn=3", "cuda_all", churned(Cuda(SEED))
    for name, options in NAMES.items():
        function = name.removesuffix("_heun")
        cpu, gpu = (run(function, cpu_first, path(cuda), **options) for cuda in (0, 1))
        yield name, "auto", cpu
        yield name, "cuda", cpu
        yield name + "_gpu", "auto", gpu
        yield name + "_gpu", "cpu", cpu
        yield name + "_gpu", "cuda", gpu
        yield name, "cuda_all", run(function, Cuda(SEED).randn(), path(1), **options)


def main():
    rows = []
    for name, source, latent in samplings():
        numbers = [f"{v:.9g}" for v in latent.flatten().tolist()]
        lines = [", ".join(numbers[i : i + 8]) for i in range(0, len(numbers), 8)]
        rows.append(f'    {{"{name}", "{source}",\n     {{' + ",\n      ".join(lines) + "}},\n")
    levels = ", ".join(f"{float(v):.9g}" for v in LEVELS)
    OUT.write_text(
        "/* seeded_tables.h - written by scripts/golden/seeded.py: latents that samplings from a seed end with. */\n"
        f"static const uint64_t seeded_seed = {SEED}u;\n"
        f"static const double seeded_levels[] = {{{levels}}};\n"
        f"static const struct {{\n    const char *sampler, *source;\n    double latent[{COUNT}];\n}} seeded[] = {{\n{''.join(rows)}}};\n"
    )
    print(OUT.stat().st_size, len(rows))


if __name__ == "__main__":
    main()
