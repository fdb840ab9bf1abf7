"""mutate_header.py IN OUT N: N variants of a .safetensors file, as OUT-000.safetensors and so on, whose headers are sound and whose tensors
are not those of the original: names with other digits, parts or lengths, tensors gone, doubled or of another shape or type, texts of
__metadata__ cut or replaced. All numbers are 0 and take no room on the disk. The same N variants each time.
"""
import json
import random
import struct
import sys

BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}


def read(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    notes = header.pop("__metadata__", {})
    return {k: (v["dtype"], v["shape"]) for k, v in header.items()}, notes


def other_name(rng, name):
    parts = name.split(".")
    i = rng.randrange(len(parts))
    way = rng.randrange(6)
    if way == 0:
        parts[i] = str(rng.choice([-1, 0, 1, 7, 99, 4294967296, 10**30]))
    elif way == 1:
        parts.insert(i, rng.choice(parts))
    elif way == 2 and len(parts) > 1:
        del parts[i]
    elif way == 3:
        parts[i] = parts[i][: rng.randrange(len(parts[i]) + 1)] + rng.choice(["", "x", "é", "%s%n", "{}", "*"])
    elif way == 4:
        parts[i] *= rng.choice([2, 40])
    else:
        return "".join(c if not c.isdigit() else rng.choice("0123456789") for c in name)
    return ".".join(parts) or "x"


def other_shape(rng, shape):
    shape = list(shape)
    way = rng.randrange(5)
    if way == 0:
        shape.append(rng.choice([1, 1, 2, 0]))
    elif shape and way == 1:
        shape.pop(rng.randrange(len(shape)))
    elif shape and way == 2:
        shape[rng.randrange(len(shape))] = rng.choice([0, 1, 2, 3, 1023, 65537])
    elif way == 3:
        rng.shuffle(shape)
    else:
        shape = [x + rng.choice([-1, 1]) if x > 1 else x for x in shape]
    while size_of("F32", shape) > 1 << 34:
        shape[shape.index(max(shape))] = 1
    return shape


def size_of(dtype, shape):
    n = BYTES.get(dtype, 1)
    for x in shape:
        n *= x
    return n


def mutate(rng, tensors, notes):
    tensors, notes = dict(tensors), dict(notes)
    for _ in range(rng.choice([1, 1, 1, 2, 5, 20])):
        name = rng.choice(sorted(tensors))
        dtype, shape = tensors[name]
        way = rng.randrange(6)
        if way == 0 and len(tensors) > 1:
            del tensors[name]
        elif way == 1:
            tensors[name] = (rng.choice(sorted(BYTES)), shape)
        elif way == 2:
            tensors[other_name(rng, name)[:400]] = tensors.pop(name)
        elif way == 3:
            tensors[other_name(rng, name)[:400]] = (dtype, shape)
        elif way == 4 and notes:
            key = rng.choice(sorted(notes))
            notes[key] = rng.choice([notes[key][: rng.randrange(len(notes[key]) + 1)], "", "{", "[[[[", "-1", "9" * 300, '{"a": null}', "null"])
        else:
            tensors[name] = (dtype, other_shape(rng, shape))
    return tensors, notes


def write(path, tensors, notes):
    header, at = {"__metadata__": notes} if notes else {}, 0
    for name, (dtype, shape) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size_of(dtype, shape)]}
        at += size_of(dtype, shape)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)


def main():
    tensors, notes = read(sys.argv[1])
    for i in range(int(sys.argv[3])):
        write(f"{sys.argv[2]}-{i:03}.safetensors", *mutate(random.Random(f"{sys.argv[1]} {i}"), tensors, notes))


if __name__ == "__main__":
    main()
