"""What every golden script shares: a deterministic safetensors writer, random weights, and layout.

Reference results are computed in float64 and rounded once to float32, so that the difference kiln shows
is kiln's own. `noise` gives the same run in plain float32 and bf16 as a yardstick: the relative error
torch itself makes, from which tolerances may be set.
"""

import json
import math
import os
import pathlib
import struct
import zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import numpy as np
import torch

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"

DTYPES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.uint8: "U8",
}


def versions():
    import diffusers
    import transformers

    return {
        "torch": torch.__version__.split("+")[0],
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
    }


def raw_bytes(tensor):
    """The little-endian bytes of a tensor, of any dtype that safetensors knows."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def metadata(meta):
    """Safetensors allows strings only: other values become JSON."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for key, value in sorted(meta.items())
    }


def save_each(path, shapes, make, meta=None):
    """Write a safetensors file one tensor at a time: shapes is {name: (dtype, shape)}, make(name) gives the tensor.

    The bytes depend on the contents alone: names and metadata are sorted.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    header, offset = {}, 0
    if meta is not None:
        header["__metadata__"] = metadata(meta)
    for name, (dtype, shape) in sorted(shapes.items()):
        end = offset + math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)))
        out.write(text)
        for name, (dtype, shape) in sorted(shapes.items()):
            tensor = make(name)
            if tensor.dtype != dtype or tuple(tensor.shape) != tuple(shape):
                raise ValueError(f"{path}: tensor {name} is {tensor.dtype} {tuple(tensor.shape)}")
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"{path}: tensor {name} holds a value that is not finite")
            out.write(raw_bytes(tensor))
    print(f"{path.stat().st_size:9d}  {os.path.relpath(path)}")


def stored(value):
    """float64 becomes float32 and int32 becomes int64, the types that golden files have."""
    value = torch.as_tensor(value)
    return value.to({torch.float64: torch.float32, torch.int32: torch.int64}.get(value.dtype, value.dtype))


def save(path, tensors, meta=None):
    values = {name: stored(value) for name, value in tensors.items()}
    shapes = {name: (value.dtype, tuple(value.shape)) for name, value in values.items()}
    save_each(path, shapes, values.__getitem__, meta)


def save_json(path, value):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=True, sort_keys=True) + "\n")
    print(f"{path.stat().st_size:9d}  {os.path.relpath(path)}")


def generator(name, seed=0):
    """A generator of its own for each name, so that adding one tensor does not change the others."""
    return torch.Generator().manual_seed(zlib.crc32(name.encode()) ^ seed)


def randn(name, *shape, seed=0):
    return torch.randn(shape, generator=generator(name, seed))


def is_norm(name):
    parts = name.split(".")
    return any("norm" in part for part in parts[-2:-1])


# By the end of a weight's name: sharper attention, and branches that add to the residual stream in moderation,
# without which torch's own bf16 run of these narrow models is 5 % off.
GAINS = {
    "to_q.weight": 1.3,
    "to_k.weight": 1.3,
    "q_proj.weight": 1.3,
    "k_proj.weight": 1.3,
    "conv2.weight": 0.5,
    "to_out.0.weight": 0.5,
    "ff.net.2.weight": 0.5,
    "out_proj.weight": 0.5,
    "fc2.weight": 0.5,
}


def gain_of(name):
    return next((gain for end, gain in GAINS.items() if name.endswith("." + end)), 1.0)


def random_weight(name, shape, seed=0):
    """One weight of a sane scale; norms and biases are random too, so that nothing hides."""
    noise = randn(name, *shape, seed=seed)
    if is_norm(name):
        return 1 + 0.2 * noise if name.endswith("weight") else 0.2 * noise
    if name.endswith("bias"):
        return 0.1 * noise
    if name.endswith(("token_embedding.weight", "position_embedding.weight")):
        return 0.5 * noise
    return gain_of(name) * noise / math.prod(shape[1:]) ** 0.5


def randomise(module, seed=0, dtype=torch.float32):
    """Fill a module with random weights that are exact in dtype."""
    for name, parameter in sorted(module.named_parameters()):
        parameter.data.copy_(random_weight(name, parameter.shape, seed).to(dtype).to(parameter.dtype))
    return module.eval().requires_grad_(False)


def nhwc(tensor):
    """NCHW -> NHWC; anything that has no four axes passes as it is."""
    return tensor.permute(0, 2, 3, 1).contiguous() if tensor.dim() == 4 else tensor


def nchw(tensor):
    return tensor.permute(0, 3, 1, 2).contiguous() if tensor.dim() == 4 else tensor


def relative_error(got, want):
    """Largest absolute difference over the largest absolute value: the measure of f32 parity."""
    got, want = got.double(), want.double()
    return float((got - want).abs().max() / want.abs().max().clamp_min(1e-30))


def rms_error(got, want):
    """Root of the mean squared difference over that of the values: how bf16 runs are judged."""
    got, want = got.double(), want.double()
    return float((got - want).norm() / want.norm().clamp_min(1e-30))


def errors(got, want):
    return {"max": significant(relative_error(got, want)), "rms": significant(rms_error(got, want))}


def significant(value):
    return float(f"{value:.2e}")
