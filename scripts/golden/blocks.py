"""Writes tests/golden/blocks.safetensors: for each block type of ggml a few blocks of random bytes with what the gguf
package reads in them, and, where that package quantises, a few rows of floats with what it makes of them."""

from importlib.metadata import version

import gguf
import numpy as np
from common import GOLDEN, save
from gguf.quants import dequantize, quantize

TYPES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 NVFP4".split()
# Where a block's f16 scales are: random bytes there would be NaN or huge.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [], "NVFP4": []}
WRITTEN = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 MXFP4".split()


def main():
    rng = np.random.default_rng(17)
    rows = (rng.standard_normal((8, 256)) * np.exp(rng.standard_normal((8, 1)))).astype(np.float32)
    rows[2, :32] = 0
    rows[3, 32:64] = 0.25
    rows[4, 5] = -3e4
    out = {"rows": rows}
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (1024 // elements, size), dtype=np.uint8)
        for at in HALVES[name]:
            d = (rng.standard_normal(len(blocks)) * 0.01).astype(np.float16)
            d[0] = 5.9604645e-08  # the smallest there is
            blocks[:, at : at + 2] = d.view(np.uint8).reshape(-1, 2)
        if name == "MXFP4":
            blocks[:, 0] = rng.integers(0, 250, len(blocks))
            blocks[:3, 0] = [0, 1, 2]
        if name == "NVFP4":
            blocks[0, :4] = [0x7F, 0x00, 0x01, 0x7E]
        out[f"{name.lower()}.blocks"] = blocks.reshape(-1)
        out[f"{name.lower()}.f32"] = dequantize(blocks.reshape(1, -1), kind).reshape(-1)
        if name in WRITTEN:
            out[f"{name.lower()}.written"] = quantize(rows, kind).reshape(-1)
    save(GOLDEN / "blocks.safetensors", out, {"gguf": version("gguf")})


main()
