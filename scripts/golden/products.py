"""Writes tests/golden/products.safetensors: attention and products of "kiln.ops/1" as torch makes them, in float64, and
T5's biases as transformers numbers their buckets.

NAME.0, NAME.1, ..: the operands; NAME.out, and NAME.more for the logarithm of the softmax's sum, where -2e30 stands for
minus infinity.
"""

import torch
from common import GOLDEN, randn, save, versions
from transformers.models.t5.modeling_t5 import T5Attention

INF = float("inf")
tensors = {}


def case(name, out, *operands, more=None):
    for i, x in enumerate(operands):
        tensors[f"{name}.{i}"] = x
    tensors[f"{name}.out"] = out
    if more is not None:
        tensors[f"{name}.more"] = torch.nan_to_num(more, neginf=-2e30)


def real(name, *shape):
    return randn(name, *shape).double().float().double()


def attend(q, k, v, heads, kv_heads, bias=None, seen=None, softcap=0, sinks=None):
    """Scores of all, then what hides, a sink's logit as one more column, softmax."""
    n, t, s = q.shape[0], q.shape[1], k.shape[1]
    q = q.view(n, t, heads, -1).transpose(1, 2)
    k = k.view(n, s, kv_heads, -1).transpose(1, 2).repeat_interleave(heads // kv_heads, 1)
    v = v.view(n, s, kv_heads, -1).transpose(1, 2).repeat_interleave(heads // kv_heads, 1)
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = scores.masked_fill(~seen, -INF)
    if sinks is not None:
        scores = torch.cat([scores, sinks.view(1, -1, 1, 1).expand(n, heads, t, 1)], -1)
    weights = torch.nan_to_num(torch.softmax(scores, -1))[..., :s]
    return (weights @ v).transpose(1, 2).reshape(n, t, -1), torch.logsumexp(scores, -1)


def attentions():
    q9 = (real("q", 2, 7, 4 * 12) * 9).float().double()
    q, k, v = real("q", 2, 7, 4 * 12), real("k", 2, 20, 2 * 12), real("v", 2, 20, 2 * 8)
    at, key = torch.arange(7)[:, None], torch.arange(20)[None]
    out, lse = attend(q, k, v, 4, 2)
    case("attention.grouped", out, q, k, v, more=lse)
    offset = torch.tensor([9, 3])
    own = at + offset[:, None, None, None]
    out, lse = attend(q9, k, v, 4, 2, seen=key <= own, softcap=2)
    case("attention.softcap", out, q9, k, v, offset, more=lse)
    out, lse = attend(q, k, v, 4, 2, seen=(key >= own - 4) & (key <= own + 1))
    case("attention.window", out, q, k, v, offset, more=lse)
    length = torch.tensor([13, 0])
    out, lse = attend(q, k, v, 4, 2, seen=(key < length[:, None, None, None]).expand(2, 1, 7, 20))
    case("attention.length", out, q, k, v, length, more=lse)
    a, b = torch.arange(14).view(2, 7) % 5 // 2, torch.arange(40).view(2, 20) // 7 % 4
    out, lse = attend(q, k, v, 4, 2, seen=(a[:, :, None] == b[:, None])[:, None])
    case("attention.segments", out, q, k, v, a, b, more=lse)
    ring = (torch.arange(40).view(2, 20) * 7) % 21 - 1
    out, lse = attend(q, k, v, 4, 2, seen=((ring >= 0)[:, None, None] & (ring[:, None, None] <= own)))
    case("attention.ring", out, q, k, v, offset, ring, more=lse)
    sinks = real("sinks", 4)
    out, lse = attend(q, k, v, 4, 2, sinks=sinks, seen=key <= at)
    case("attention.sinks", out, q, k, v, sinks, more=lse)
    pages = torch.tensor([[3, 0, 4], [1, 5, 2]])
    pool_k, pool_v = real("pool.k", 6, 5, 2 * 12), real("pool.v", 6, 5, 2 * 12)
    q2 = real("q2", 2, 7, 4 * 12)
    out, lse = attend(q2, pool_k[pages].flatten(1, 2), pool_v[pages].flatten(1, 2), 4, 2)
    case("attention.pages", out, q2, pool_k, pool_v, pages, more=lse)


def biases():
    """Every distance to 140 both ways, in the numbers of T5 and in others."""
    q, k, v = real("t5.q", 1, 3, 2 * 4), real("t5.k", 1, 281, 2 * 4), real("t5.v", 1, 281, 2 * 4)
    for name, two, buckets, most in (("t5", True, 32, 128), ("one", False, 32, 128), ("near", True, 12, 50)):
        table = real(name + ".table", buckets, 2)
        offset = torch.tensor([140])
        apart = torch.arange(281)[None] - (140 + torch.arange(3))[:, None]
        bucket = T5Attention._relative_position_bucket(apart, two, buckets, most)
        out, lse = attend(q, k, v, 2, 2, bias=table[bucket].permute(2, 0, 1)[None])
        case(f"attention.{name}", out, q, k, v, offset, table, more=lse)


def products():
    a, b = real("a", 2, 1, 5, 33), real("b", 3, 33, 20)
    case("matmul.plain", 0.5 * (a @ b), a, b)
    t = real("t", 3, 20, 33)
    case("matmul.turned", a @ t.transpose(1, 2), a, t)
    x, w, bias = real("x", 9, 40), real("w", 40, 24), real("bias", 24)
    case("linear_transposed", x @ w + bias, x, w, bias)
    rows, experts, gb = real("rows", 19, 24), real("experts", 4, 10, 24), real("gb", 4, 10)
    offsets = torch.tensor([1, 4, 4, 15, 17])
    out = torch.zeros(19, 10, dtype=torch.float64)
    for e in range(4):
        part = slice(offsets[e], offsets[e + 1])
        out[part] = rows[part] @ experts[e].T + gb[e]
    case("grouped_linear", out, rows, experts, gb, offsets)


def main():
    attentions()
    biases()
    products()
    out = {k: v.float() if v.is_floating_point() else v.to(torch.int64).float() for k, v in tensors.items()}
    save(GOLDEN / "products.safetensors", out, versions())


main()
