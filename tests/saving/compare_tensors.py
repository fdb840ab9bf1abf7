"""compare_tensors.py ONE OTHER: the two .safetensors files have the same tensors, bit by bit. What is only in one, or differs, is printed.

    --names ONE     prints names, types and shapes
    --metadata ONE  prints the keys of its metadata, without the workflow
"""

import json
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    notes = header.pop("__metadata__", {})
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]]) for k, v in header.items()}, notes


if sys.argv[1] == "--names":
    for name, (kind, shape, _) in sorted(read(sys.argv[2])[0].items()):
        print(name, kind, *shape)
elif sys.argv[1] == "--metadata":
    print(*sorted(set(read(sys.argv[2])[1]) - {"prompt", "kiln"}))
else:
    one, other = read(sys.argv[1])[0], read(sys.argv[2])[0]
    faults = [f"only in one: {k}" for k in sorted(set(one) ^ set(other))] + [f"differs: {k}" for k in sorted(set(one) & set(other)) if one[k] != other[k]]
    print(*faults[:6], sep="\n", file=sys.stderr)
    sys.exit(1 if faults or not one else 0)
