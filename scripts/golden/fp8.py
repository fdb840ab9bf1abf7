"""Writes tests/golden/fp8.safetensors: all 256 bytes of both 8-bit floating-point types, and what torch reads in them."""

import json
import struct

import torch
from common import GOLDEN, raw_bytes

BYTES = torch.arange(256, dtype=torch.uint8)
TYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def main():
    header, data = {"__metadata__": {"what": "e4m3, e5m2: bytes 0 to 255; NAME.f32: what torch makes of them"}}, b""
    for name, dtype in TYPES.items():
        for key, stored, tensor in ((name, f"F8_{name.upper()}", BYTES), (f"{name}.f32", "F32", BYTES.view(dtype).float())):
            raw = raw_bytes(tensor)
            header[key] = {"dtype": stored, "shape": [256], "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (GOLDEN / "fp8.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


main()
