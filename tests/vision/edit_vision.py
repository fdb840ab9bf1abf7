"""Small .safetensors files for tests of the vision nodes, without libraries.

    edit_vision.py stack FILE A B NAME OUT     A's rows with B's below them, as NAME
    edit_vision.py without FILE NAME OUT       all but NAME
    edit_vision.py rename FILE FROM TO OUT     names that begin with FROM begin with TO
    edit_vision.py widen FILE N OUT              an IP-Adapter for a text N wide, of zeros
    edit_vision.py zeros NAME D,D,.. OUT       one f32 tensor of zeros
"""

import json
import math
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + length])
    head.pop("__metadata__", None)
    body = data[8 + length :]
    return {name: (x["dtype"], x["shape"], body[slice(*x["data_offsets"])]) for name, x in head.items()}


def write(path, tensors):
    head, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def stack(file, a, b, name, out):
    tensors = read(file)
    (dtype, shape, first), (_, other, second) = tensors[a], tensors[b]
    write(out, {name: (dtype, [shape[0] + other[0], *shape[1:]], first + second)})


def without(file, name, out):
    tensors = read(file)
    del tensors[name]
    write(out, tensors)


def rename(file, before, after, out):
    write(out, {after + name[len(before) :] if name.startswith(before) else name: x for name, x in read(file).items()})


def zeros(name, dims, out):
    shape = [int(d) for d in dims.split(",")]
    write(out, {name: ("F32", shape, bytes(4 * math.prod(shape)))})


def widen(file, n, out):
    n, found = int(n), {}
    width = read(file)["image_proj.norm.weight"][1][0]
    for name, (dtype, shape, _) in read(file).items():
        if name.startswith("image_proj.proj."):
            shape = [shape[0] // width * n, *shape[1:]]
        elif name.startswith("image_proj.norm."):
            shape = [n]
        else:
            shape = [shape[0], n]
        found[name] = (dtype, shape, bytes(2 * math.prod(shape)))
    write(out, found)


{"stack": stack, "without": without, "rename": rename, "zeros": zeros, "widen": widen}[sys.argv[1]](*sys.argv[2:])
