# weights.py - the weights that the archived plugin's workflow runs on, made from a rule.   python3 weights.py OUT.safetensors
import json
import math
import struct
import sys

SHAPES = {"net.in.conv": (4, 4, 3, 3), "net.bias.conv": (4,), "net.qkv": (12, 4), "net.turned": (4, 4), "net.left": (2, 2),
          "model.q": (4, 4), "model.k": (4, 3), "model.v": (4, 3)}
header, body = {}, b""
for k, (name, shape) in enumerate(sorted(SHAPES.items())):
    n = math.prod(shape)
    numbers = [((i * 29 + k * 17) % 64 - 32) / 64 for i in range(n)]  # exact in every type
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + 4 * n]}
    body += struct.pack(f"<{n}f", *numbers)
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + body)
