"""Strings and ragged rows as flat tensors, so that a test needs no JSON reader."""

import torch


def ragged(name, rows, dtype=torch.int64):
    """rows -> NAME (all of them one after the other) and NAME_first [rows+1]."""
    first = [0]
    for row in rows:
        first.append(first[-1] + len(row))
    flat = torch.tensor([value for row in rows for value in row], dtype=dtype)
    return {name: flat, f"{name.removesuffix('_bytes')}_first": torch.tensor(first)}


def pack(name, texts):
    """UTF-8 strings -> NAME_bytes (U8) and NAME_first [texts+1]."""
    return ragged(f"{name}_bytes", [list(text.encode()) for text in texts], torch.uint8)
