"""edit_tensors.py IN OUT [drop PREFIX]... [f8 TYPE | of-f8 TYPE] [ema | averaged] [also NAME:TYPE]: a .safetensors file made of another.

drop      without the tensors whose names begin so
f8        F32 and F16 tensors in 8 bits, each number the nearest there is (TYPE: E4M3, E5M2, or both: by turns)
of-f8     the same numbers as F32
ema       beside each "model.X" an average as the original trainers name it, with all signs turned, and its two counters
averaged  each "model.X" with all signs turned
also      one more tensor of two bytes (F16, or two numbers of F8_...)
"""
import array
import bisect
import json
import math
import struct
import sys


def read(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    header.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[v["data_offsets"][0] : v["data_offsets"][1]]) for k, v in header.items()}


def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.writelines(raw for _, _, raw in tensors.values())


def numbers(dtype, raw):
    if dtype == "F16":
        return [x[0] for x in struct.iter_unpack("<e", raw)]
    return array.array("f", raw)


def floats(dtype, values):
    return struct.pack(f"<{len(values)}e", *values) if dtype == "F16" else array.array("f", values).tobytes()


def table(kind):
    """(value, byte), ascending: OCP FP8 1.0."""
    bits, bias = (3, 7) if kind == "E4M3" else (2, 15)
    rows = []
    for byte in range(256):
        fraction, exponent = byte & ((1 << bits) - 1), (byte & 0x7F) >> bits
        if (kind == "E4M3" and byte & 0x7F == 0x7F) or (kind == "E5M2" and exponent == 31) or byte == 0x80:
            continue
        value = math.ldexp((exponent > 0) + fraction / (1 << bits), max(exponent, 1) - bias)
        rows.append((-value if byte & 0x80 else value, byte))
    return sorted(rows)


def nearest(values, kind):
    rows = table(kind)
    keys = [v for v, _ in rows]
    for v in values:
        i = min(max(bisect.bisect(keys, v), 1), len(rows) - 1)
        yield min(rows[i - 1], rows[i], key=lambda row: abs(row[0] - v))


def in_f8(tensors, kind, keep):
    for i, (name, (dtype, shape, raw)) in enumerate(sorted(tensors.items())):
        if dtype not in ("F32", "F16"):
            continue
        one = kind if kind != "both" else ("E4M3", "E5M2")[i % 2]
        rows = list(nearest(numbers(dtype, raw), one))
        if keep:
            tensors[name] = (f"F8_{one}", shape, bytes(byte for _, byte in rows))
        else:
            tensors[name] = ("F32", shape, floats("F32", [value for value, _ in rows]))


def negated(tensors, name_of):
    signs = bytes(b ^ 0x80 for b in range(256))
    for name, (dtype, shape, raw) in list(tensors.items()):
        if name.startswith("model."):
            other, width = bytearray(raw), 2 if dtype == "F16" else 4
            other[width - 1 :: width] = other[width - 1 :: width].translate(signs)
            tensors[name_of(name)] = (dtype, shape, bytes(other))


tensors, args = read(sys.argv[1]), iter(sys.argv[3:])
for command in args:
    if command == "drop":
        prefix = next(args)
        tensors = {k: v for k, v in tensors.items() if not k.startswith(prefix)}
    elif command in ("f8", "of-f8"):
        in_f8(tensors, next(args), command == "f8")
    elif command == "ema":
        negated(tensors, lambda name: "model_ema." + name[len("model.") :].replace(".", ""))
        tensors["model_ema.decay"] = ("F32", [], struct.pack("<f", 0.9999))
        tensors["model_ema.num_updates"] = ("I32", [], struct.pack("<i", 470000))
    elif command == "averaged":
        negated(tensors, lambda name: name)
    elif command == "also":
        name, dtype = next(args).split(":")
        tensors[name] = (dtype, [2 if dtype.startswith("F8") else 1], bytes(2))
    else:
        sys.exit(f"edit_tensors.py: {command}?")
write(sys.argv[2], tensors)
