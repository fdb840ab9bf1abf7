"""noise.safetensors: what torch's CPU generator draws, flat in torch's (NCHW) order.

Before writing, each draw is held against mt19937 (numpy) and the formulas as this file states them, in
float64: what a C implementation has to do, and how far torch's vectorised float32 maths is from it.
"""

import numpy as np
import torch

from common import GOLDEN, save, significant, versions

# numel: <16, 16, not a multiple of 16, latents of 64x64 pixels and 512x512
SHAPES = [(1,), (3,), (15,), (16,), (17,), (1, 4, 3, 2), (33,), (1, 4, 8, 8), (2, 4, 9, 13), (2, 4, 8, 8)]
SEEDS = [0, 1, 42, 8566257, 2**32 - 1, 2**32, 2**32 + 42, 2**63 + 5, 2**64 - 1]
BIG = [(1, 4, 64, 64), (2, 4, 96, 61)]
SEQUENCE = [(3,), (3,), (16,), (5,), (2,), (1, 4, 3, 2), (1, 4, 8, 8), (1,), (1,), (20,)]


class Twister:
    """torch.Generator('cpu') by its definition."""

    def __init__(self, seed):
        self.state = np.random.RandomState(seed & 0xFFFFFFFF)
        self.spare = None

    def words(self, count):
        return self.state.randint(0, 2**32, size=count, dtype=np.uint32).astype(np.uint64)

    def uniforms(self, count):
        return (self.words(count) & 0xFFFFFF).astype(np.float64) / 2**24

    def scalar(self):
        """One of a pair in float64: 53-bit uniforms u, v -> sqrt(-2 log(1-v)) * (cos, sin)(2 pi u)."""
        if self.spare is not None:
            value, self.spare = self.spare, None
            return value
        words = self.words(4)
        u, v = (int((high << np.uint64(32) | low) & np.uint64(2**53 - 1)) / 2**53 for high, low in (words[:2], words[2:]))
        radius = np.sqrt(-2 * np.log1p(-v))
        self.spare = radius * np.sin(2 * np.pi * u)
        return radius * np.cos(2 * np.pi * u)

    @staticmethod
    def pairs(block):
        radius, angle = np.sqrt(-2 * np.log(1 - block[:8])), 2 * np.pi * block[8:]
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])

    def randn(self, count):
        if count < 16:
            return np.array([self.scalar() for _ in range(count)])
        data = self.uniforms(count)
        for start in range(0, count - 15, 16):
            data[start : start + 16] = self.pairs(data[start : start + 16])
        if count % 16:
            data[-16:] = self.pairs(self.uniforms(16))
        return data


def difference(drawn, exact):
    return float(np.abs(drawn.flatten().double().numpy() - exact).max())


def main():
    tensors, worst = {}, 0.0
    for seed in SEEDS:
        shapes = SHAPES if seed in (0, 42) else SHAPES[5:6] + SHAPES[2:3]
        for shape in shapes:
            torch.manual_seed(seed)
            drawn = torch.randn(shape)
            worst = max(worst, difference(drawn, Twister(seed).randn(drawn.numel())))
            tensors[f"{seed}.{'x'.join(map(str, shape))}"] = drawn.flatten()
    for shape in BIG:
        torch.manual_seed(42)
        drawn = torch.randn(shape)
        worst = max(worst, difference(drawn, Twister(42).randn(drawn.numel())))
        flat, name = drawn.flatten(), f"42.{'x'.join(map(str, shape))}"
        tensors.update({f"{name}.first": flat[:48], f"{name}.last": flat[-48:], f"{name}.every997": flat[::997]})
        tensors[f"{name}.sum"] = flat.double().sum()[None]
    generator, twister = torch.Generator().manual_seed(43), Twister(43)
    for index, shape in enumerate(SEQUENCE):
        drawn = torch.randn(shape, generator=generator)
        worst = max(worst, difference(drawn, twister.randn(drawn.numel())))
        tensors[f"sequence.{index}"] = drawn.flatten()
    if worst > 2e-6:
        raise SystemExit(f"torch's noise differs from its definition by {worst}")
    what = (
        "SEED.SHAPE = torch.manual_seed(SEED); torch.randn(SHAPE), flat, last axis fastest (NCHW). Large ones: .first, .last (48 "
        "each), .every997 (flat[::997]), .sum. sequence.I: draw I of one torch.Generator seeded 43, shapes in `sequence`. "
        "noise_f32: the largest absolute difference between these and the definition in float64"
    )
    meta = {**versions(), "what": what, "sequence": SEQUENCE, "noise_f32": significant(worst)}
    save(GOLDEN / "noise.safetensors", tensors, meta)


if __name__ == "__main__":
    main()
