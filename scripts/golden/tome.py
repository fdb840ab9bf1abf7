"""tests/golden/tome.safetensors: self-attention with merged tokens (Bolya and Hoffman 2023, arXiv:2303.17604), written from the paper, token
by token in float64.

    python tome.py [COMFYUI]

Destinations are drawn as plugins/model_patch/token_merging.h says. With a ComfyUI checkout its node is given the same draws, and has to agree.
"""

import pathlib
import sys

import torch

from common import GOLDEN, randn, save, versions
from tome_draws import draws

PLACE, HEADS, WIDTH, PICTURES = "input.1.attn1", 2, 8, 2
CASES = {"even": (4, 6, 0.3), "odd": (5, 7, 0.5), "all": (4, 5, 1.0), "few": (2, 3, 0.2), "near": (6, 6, 0.4)}


def attention(q, k, v):
    q, k, v = (t.reshape(len(t), HEADS, -1).transpose(0, 1) for t in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape(q.shape[1], -1)


def groups(x, rows, columns, ratio):
    """Lists of tokens of one picture that become one."""
    corners = [y * columns + x for y in range(0, rows - 1, 2) for x in range(0, columns - 1, 2)]
    into = {corner + d // 2 * columns + d % 2: [] for corner, d in zip(corners, draws(PLACE, len(corners)))}
    best = {}
    for i in set(range(rows * columns)) - set(into):
        best[i] = max((torch.cosine_similarity(x[i], x[j], dim=0).item(), j) for j in into)
    order = sorted(best, key=lambda i: -best[i][0])
    merged = min(int(rows * columns * ratio), len(order))
    for i in order[:merged]:
        into[best[i][1]].append(i)
    return [[i] for i in order[merged:]] + [[j, *members] for j, members in into.items()]


def merged_attention(x, q, k, v, rows, columns, ratio):
    out = torch.empty_like(q)
    for n in range(len(x)):
        together = groups(x[n], rows, columns, ratio)
        h = attention(torch.stack([q[n, g].mean(0) for g in together]), k[n], v[n])
        for row, g in zip(h, together):
            out[n, g] = row
    return out


def comfyui(folder, x, to_q, k, v, rows, columns, ratio):
    from model_patch import functions, start

    if folder not in sys.path:
        start(folder)
    kept = functions("nodes_tomesd", "TomePatchModel", ratio=ratio)
    extra, randint = {"original_shape": [PICTURES, 4, rows, columns]}, torch.randint
    torch.randint = lambda high, size, device: torch.tensor(list(draws(PLACE, size[0] * size[1]))).reshape(size)
    try:
        merged, k, v = kept["attn1_patch"](x, k, v, extra)
    finally:
        torch.randint = randint
    h = torch.stack([attention(*t) for t in zip(merged @ to_q, k, v)])
    return kept["attn1_output_patch"](h, extra)


def main():
    out = {}
    for name, (rows, columns, ratio) in CASES.items():
        x, k, v = (randn(f"tome.{name}.{t}", PICTURES, rows * columns, WIDTH).double() for t in "xkv")
        to_q = randn(f"tome.{name}.to_q", WIDTH, WIDTH).double()
        if name == "near":  # cosines that are all the same in bf16, of tokens that attend differently
            common = torch.ones(WIDTH, dtype=x.dtype)
            x, to_q = common + 0.03 * x, 33 * (torch.eye(WIDTH) - 1 / WIDTH).to(x.dtype) @ to_q
        made = merged_attention(x, x @ to_q, k, v, rows, columns, ratio)
        plain = torch.stack([attention(*t) for t in zip(x @ to_q, k, v)])
        assert not torch.allclose(made, plain)
        if len(sys.argv) > 1:
            theirs = comfyui(str(pathlib.Path(sys.argv[1]).resolve()), x, to_q, k, v, rows, columns, ratio)
            print(name, "ComfyUI differs by at most", (theirs - made).abs().max().item())
            assert torch.allclose(theirs, made)
        out |= {f"{name}.{t}": value for t, value in (("x", x), ("q", x @ to_q), ("k", k), ("v", v), ("out", made))}
    save(GOLDEN / "tome.safetensors", out, versions())


if __name__ == "__main__":
    main()
