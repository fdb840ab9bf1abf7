"""Everything that a model of transformers or diffusers does on purpose in float32 it does in float64 inside: with in_float64(): ..."""

import contextlib
import unittest.mock as mock

import torch


@contextlib.contextmanager
def in_float64():
    to, softmax, arange = torch.Tensor.to, torch.nn.functional.softmax, torch.arange
    wide = lambda x: torch.float64 if x is torch.float32 else x
    patches = (
        mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
        mock.patch.object(torch.Tensor, "to", lambda self, *a, **k: to(self, *map(wide, a), **{n: wide(x) for n, x in k.items()})),
        mock.patch.object(torch, "arange", lambda *a, **k: arange(*a, **{n: wide(x) for n, x in k.items()})),
        mock.patch.object(torch.nn.functional, "softmax", lambda *a, dtype=None, **k: softmax(*a, dtype=wide(dtype), **k)),
    )
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield
