"""brownian.safetensors: what k-diffusion's BrownianTreeNoiseSampler gives for sequences of pairs of levels.

Levels are float32, as ComfyUI's are. The patterns are those samplers ask in: each step's pair (2m, 3m), a middle level and
then the step (dpmpp_sde), pairs in any order, pairs that repeat and overlap, levels outside the tree. `cuda.` ones: the same
with torchsde's draws replaced by Philox as philox() below states it (a device large enough for one wave).
"""

import numpy as np
import torch
import torchsde._brownian.brownian_interval as interval

import samplers
from common import GOLDEN, save, versions

kd = samplers.k_diffusion_sampling()
cpu_randn = interval._randn

SHAPES = [(1, 3), (1, 4, 3, 2), (2, 4, 5, 7)]
SEEDS = [0, 42, 2**32 + 42, 2**64 - 1]
KARRAS = kd.get_sigmas_karras(7, 0.0291672, 14.6146412)
FLOW = torch.linspace(1, 0, 7)[:-1] ** 1.5


def steps(sigmas):
    return [(a, b) for a, b in zip(sigmas[:-1], sigmas[1:]) if b > 0]


def middles(sigmas):
    out = []
    for a, b in steps(sigmas):
        middle = ((a.log() + b.log()) / 2).exp()
        out += [(a, middle), (a, b)]
    return out


def anyhow(low, high, count, seed):
    levels = torch.rand(2 * count, generator=torch.Generator().manual_seed(seed)) * (high - low) + low
    pairs = [(a, b) for a, b in zip(levels[:count], levels[count:]) if abs(a - b) > 2e-6]  # levels that round to one end torchsde in recursion
    return pairs + [(b, a) for a, b in pairs[:3]] + pairs[:2] + [(torch.tensor(low / 2), torch.tensor(high * 2))]


PATTERNS = {
    "steps": (KARRAS, steps(KARRAS)),
    "middles": (KARRAS, middles(KARRAS)),
    "flow": (FLOW, middles(FLOW)),
    "anyhow": (torch.tensor([0.25, 80.0]), anyhow(0.25, 80.0, 12, 1)),
    "narrow": (torch.tensor([0.03, 0.0301]), anyhow(0.03, 0.0301, 8, 2)),
}


def philox(seed, count, call=0):
    """torch.randn(count) of a CUDA generator, count within one wave: word 0 and 1 of thread i's block number `call`."""
    c = [np.zeros(count, np.uint64) for _ in range(4)]
    c[0] += np.uint64(call)
    c[2] = np.arange(count, dtype=np.uint64)
    k, low = [seed & 0xFFFFFFFF, seed >> 32], np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [b >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]), b & low, a >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    u = (c[0].astype(np.float64) + 0.5) / 2**32
    v = (c[1].astype(np.float64) + 0.5) / 2**32 * np.float64(np.float32(6.2831855))
    return torch.from_numpy((np.sqrt(-2 * np.log(u)) * np.sin(v)).astype(np.float32))


def cuda_randn(size, dtype, device, seed):
    return philox(int(seed), int(np.prod(size))).reshape(size)


def main():
    tensors = {}
    for name, (levels, pairs) in PATTERNS.items():
        tensors[f"levels.{name}"] = torch.stack([levels[levels > 0].min(), levels.max()])
        tensors[f"pairs.{name}"] = torch.tensor([[float(a), float(b)] for a, b in pairs], dtype=torch.float32)
    for source, randn in (("cpu", cpu_randn), ("cuda", cuda_randn)):
        interval._randn = randn
        for seed in SEEDS if source == "cpu" else SEEDS[1:3]:
            for shape in SHAPES if seed == 42 else SHAPES[1:2]:
                for name, (levels, pairs) in PATTERNS.items():
                    sampler = kd.BrownianTreeNoiseSampler(torch.zeros(shape), levels[levels > 0].min(), levels.max(), seed=seed)
                    drawn = torch.stack([sampler(a, b).flatten() for a, b in pairs])
                    tensors[f"{source}.{seed}.{'x'.join(map(str, shape))}.{name}"] = drawn
    what = (
        "levels.P: least and greatest level of the tree; pairs.P [q,2]: levels asked for, in this order; SOURCE.SEED.SHAPE.P [q,numel]: "
        "the noise for each, flat (NCHW), float32 as torchsde computes it"
    )
    save(GOLDEN / "brownian.safetensors", tensors, {**versions(), "torchsde": "0.2.6", "what": what})


if __name__ == "__main__":
    main()
