"""tests/golden/perturbed_guidance.safetensors: what the sd-perturbed-attention nodes make of guidance when they rescale it.

    python perturbed_guidance.py FOLDER     FOLDER: a checkout of github.com/pamparamm/sd-perturbed-attention

Its functions are called with small tensors in float64, as SmoothedEnergyGuidanceAdvanced calls them. Latents are written as kiln has them,
channels last.
"""

import pathlib
import sys

from common import GOLDEN, randn, save, versions

CFG, SCALE = 4.0, 3.0


def last(x):
    return x.movedim(1, -1)


def guidance(utils, out):
    x, c, u, p = (randn(f"perturbed.{name}", 2, 4, 5, 6).double() for name in ("x", "positive", "negative", "perturbed"))
    u, p = c + 0.6 * u, c + 0.4 * p
    combined, d = u + CFG * (c - u), SCALE * (c - p)
    for name, value in (("x", 3 * x), ("positive", c), ("negative", u), ("perturbed", p), ("x0", combined)):
        out[f"guidance.{name}"] = last(value)
    for mode in ("full", "partial"):
        for rescale in (0.3, 1.0):
            out[f"guidance.{mode}.{rescale}"] = last(combined + utils.rescale_guidance(d, c, combined, rescale, mode))
    out["guidance.snf"] = last(u + utils.snf_guidance(combined - u, d))


def main():
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]).resolve()))
    import guidance_utils

    out = {}
    guidance(guidance_utils, out)
    save(GOLDEN / "perturbed_guidance.safetensors", {name: value.float() for name, value in out.items()}, versions())


if __name__ == "__main__":
    main()
