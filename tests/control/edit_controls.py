"""Control files for tests, made of others by the standard library alone.

    edit_controls.py difference CONTROL UNET OUT     CONTROL less the tensors that UNET has too, and the key that says so
    edit_controls.py f32|bf16 CONTROL OUT            the same in another type
    edit_controls.py without NAME CONTROL OUT        the same without a tensor
    edit_controls.py with NAME CONTROL OUT           the same with a tensor that nothing asks for
"""

import array
import json
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]) for name, t in header.items()}


def write(path, tensors):
    header, at, parts = {}, 0, []
    for name, (dtype, shape, data) in sorted(tensors.items()):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def numbers(tensor):
    return struct.unpack(f"<{len(tensor[2]) // 2}e", tensor[2]) if tensor[0] == "F16" else array.array("f", tensor[2])


def less(tensor, base):
    return "F32", tensor[1], array.array("f", [a - b for a, b in zip(numbers(tensor), numbers(base))]).tobytes()


def rounded(tensor, kind):
    single = array.array("f", numbers(tensor))
    if kind == "f32":
        return "F32", tensor[1], single.tobytes()
    bits = array.array("I", single.tobytes())
    return "BF16", tensor[1], array.array("H", [(b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits]).tobytes()


def main(what, *paths):
    if what == "difference":
        control, unet = read(paths[0]), read(paths[1])
        found = {name: less(t, unet[name]) if name in unet else t for name, t in control.items()}
        found["difference"] = ("F32", [1], bytes(4))
    elif what in ("f32", "bf16"):
        found = {name: rounded(t, what) for name, t in read(paths[0]).items()}
    else:
        found = read(paths[1])
        if what == "without":
            del found[paths[0]]
        else:
            found[paths[0]] = ("F32", [1], bytes(4))
    write(paths[-1], found)


main(*sys.argv[1:])
