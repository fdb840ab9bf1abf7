"""Writes tests/golden/gguf/: blocks.gguf, in which the gguf package stores a tensor of every type and a value of every kind,
two files of a split model, and blocks.safetensors, what that package reads in the first."""

import gguf
import numpy as np
import torch
from common import GOLDEN, save
from gguf.quants import dequantize

OUT = GOLDEN / "gguf"
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}


def blocks(rng, name, rows, columns):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    data = rng.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    for at in HALVES[name]:
        d = (rng.standard_normal(len(data)) * 0.01).astype(np.float16)
        data[:, at : at + 2] = d.view(np.uint8).reshape(-1, 2)
    return data.reshape(rows, -1)


def whole():
    rng = np.random.default_rng(5)
    out = {}
    w = gguf.GGUFWriter(OUT / "blocks.gguf", "sd1")
    w.add_uint8("n.u8", 200), w.add_int8("n.i8", -100), w.add_uint16("n.u16", 60000), w.add_int16("n.i16", -30000)
    w.add_uint32("n.u32", 4000000000), w.add_int32("n.i32", -2000000000), w.add_float32("n.f32", 0.1)
    w.add_bool("n.bool", True), w.add_uint64("n.u64", 18000000000000000000), w.add_int64("n.i64", -9000000000000000000)
    w.add_float64("n.f64", 0.1), w.add_string("n.string", "Grüße")
    w.add_array("tokenizer.ggml.tokens", ["<s>", "ü", "", "▁the"]), w.add_array("tokenizer.ggml.scores", [0.5, -1.25, 3.0, 2.0])
    w.add_array("tokenizer.ggml.token_type", [3, 1, 1, 1])
    w.add_array("comfy.gguf.orig_shape.conv.weight", [16, 8, 2, 2])
    for name in HALVES:
        kind = gguf.GGMLQuantizationType[name]
        data = blocks(rng, name, 3, 512)
        out[f"{name.lower()}.weight"] = dequantize(data, kind)
        w.add_tensor(f"{name.lower()}.weight", data, raw_shape=data.shape, raw_dtype=kind)
    data = blocks(rng, "Q4_0", 2, 256)
    out["conv.weight"] = dequantize(data, gguf.GGMLQuantizationType.Q4_0).reshape(16, 8, 2, 2)
    w.add_tensor("conv.weight", data, raw_shape=data.shape, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    f = rng.standard_normal((2, 3, 5)).astype(np.float32)
    for name, value in {"plain.f32": f, "plain.f16": f.astype(np.float16), "plain.i32": np.arange(7, dtype=np.int32)}.items():
        w.add_tensor(name, value)
        out[name] = value.astype(np.float32)
    half = torch.from_numpy(f).bfloat16()
    raw = half.view(torch.uint8).numpy().reshape(2, 3, 10)
    w.add_tensor("plain.bf16", raw, raw_shape=raw.shape, raw_dtype=gguf.GGMLQuantizationType.BF16)
    out["plain.bf16"] = half.float().numpy()
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    save(OUT / "blocks.safetensors", out)


def split():
    for no, names in enumerate((("a", "b"), ("c",))):
        w = gguf.GGUFWriter(OUT / f"split-{no + 1:05d}-of-00002.gguf", "sd1")
        w.add_uint16("split.no", no), w.add_uint16("split.count", 2), w.add_int32("split.tensors.count", 3)
        for name in names:
            w.add_tensor(f"{name}.weight", np.full((2, 4), ord(name), dtype=np.float32))
        w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


OUT.mkdir(exist_ok=True)
whole()
split()
