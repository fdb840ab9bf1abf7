"""Writes tests/golden/ops.safetensors: what torch makes of the ops of "kiln.ops/1", in float64.

NAME.0, NAME.1, ..: the operands; NAME.out, and NAME.more where there are two results. A safetensors file here holds
finite numbers only, so 1e30 stands for NaN, 2e30 for infinity and -2e30 for minus infinity.
"""

import torch
import torch.nn.functional as F
from common import GOLDEN, randn, save, versions

NAN, INF = float("nan"), float("inf")
tensors = {}


def hide(value):
    value = torch.as_tensor(value)
    return torch.nan_to_num(value, nan=1e30, posinf=2e30, neginf=-2e30) if value.is_floating_point() else value


def case(name, out, *operands, more=None):
    for i, x in enumerate(operands):
        tensors[f"{name}.{i}"] = hide(x)
    tensors[f"{name}.out"] = hide(out)
    if more is not None:
        tensors[f"{name}.more"] = more


def real(name, *shape):
    return randn(name, *shape).double().float().double()


def norms():
    x, g, b = real("norm.x", 2, 5, 24), real("norm.g", 24), real("norm.b", 24)
    s, t = real("norm.s", 2, 1, 24), real("norm.t", 2, 1, 24)
    case("norm.rms", F.rms_norm(x, (24,), g, 1e-5), x, g)
    case("norm.gemma", F.rms_norm(x, (24,), 1 + g, 1e-5), x, g)
    case("norm.adaln", F.layer_norm(x, (24,), g, b, 1e-5) * (1 + s) + t, x, g, b, s, t)
    heads = F.rms_norm(x.view(2, 5, 3, 8), (8,), g[:8], 1e-5).reshape(2, 5, 24)
    case("norm.heads", heads, x, g[:8])
    case("norm.l2", F.normalize(x, dim=-1, eps=1e-5), x)


def ropes():
    x, angle = real("rope.x", 2, 5, 3 * 12), real("rope.angle", 1, 5, 1, 4)
    c, s = angle.cos().float().double(), angle.sin().float().double()
    h = x.view(2, 5, 3, 12)
    a, b, rest = h[..., :4], h[..., 4:8], h[..., 8:]
    case("rope.halves", torch.cat([a * c - b * s, b * c + a * s, rest], -1).reshape(x.shape), x, c, s)
    pairs = torch.view_as_complex(h[..., :8].reshape(2, 5, 3, 4, 2)) * torch.complex(c, s)
    case("rope.pairs", torch.cat([torch.view_as_real(pairs).flatten(-2), rest], -1).reshape(x.shape), x, c, s)


def softmaxes():
    x = real("softmax.x", 4, 21) * 5
    x[1, 3] = -INF
    y = x.clone()
    y[2] = -INF
    case("softmax.plain", F.softmax(x, -1), x)
    case("softmax.log", F.log_softmax(x, -1), x)
    case("softmax.nothing", torch.nan_to_num(F.softmax(y, -1)), y)
    length = torch.tensor([0, 1, 9, 21])
    seen = torch.arange(21) < length[:, None]
    z = real("softmax.z", 4, 21)
    masked = z.masked_fill(~seen, -INF)
    case("softmax.length", torch.nan_to_num(F.softmax(masked, -1)), z, length)
    log = F.log_softmax(masked, -1)
    log[0] = -INF
    case("softmax.log_length", log, z, length)


def reductions():
    x = real("reduce.x", 3, 4, 5, 7)
    y = x.clone()
    y[1, 2, 3, 4] = NAN
    case("reduce.sum", x.sum((1, 3)), x)
    case("reduce.mean", x.mean((0, 2)), x)
    case("reduce.max", y.amax((1, 3), keepdim=True), y)
    case("reduce.min", y.amin((0, 1)), y)
    case("reduce.prod", x[..., :3].prod(-1), x[..., :3])
    case("reduce.l2", x.square().sum((1, 2)).sqrt(), x)
    z = x.clone()
    z[0, 0, 0] = -INF
    z[1, 1, 1, 1] = INF
    case("reduce.logsumexp", torch.logsumexp(z, -1), z)
    w = torch.tensor([[1.0, 3, 3, 2], [5, NAN, 7, NAN], [-INF, -INF, -INF, -INF], [0, -0.0, 0, -1]]).double()
    case("reduce.argmax", w.argmax(-1), w)
    case("reduce.argmin", w.argmin(-1), w)
    case("reduce.argmax_first", w.argmax(0), w)
    whole = (real("reduce.i", 3, 6) * 1e6).round().long()
    case("reduce.whole", whole.sum(1), whole)


def orders():
    x = torch.tensor([[1.0, 3, 3, NAN, -0.0, 0, 2, INF, NAN, 3], [5, 4, 3, 2, 1, 0, -1, -2, -3, -INF]]).double()
    for name, k, descending in (("sort.down", 10, True), ("sort.up", 10, False), ("sort.top", 4, True)):
        values, places = torch.sort(x, dim=-1, descending=descending, stable=True)
        case(name, values[:, :k], x, more=places[:, :k])
    wide = real("sort.wide", 1, 3000).round(decimals=2)
    values, places = torch.sort(wide, dim=-1, descending=True, stable=True)
    case("sort.few", values[:, :40], wide, more=places[:, :40])
    whole = (real("sort.i", 2, 50) * 9).round().long()
    values, places = torch.sort(whole, dim=-1, stable=True)
    case("sort.whole", values, whole, more=places)


def sums():
    x = real("cumsum.x", 2, 9, 5)
    case("cumsum.last", x.cumsum(-1), x)
    case("cumsum.middle_exclusive", x.cumsum(1) - x, x)
    case("cumsum.reverse", x.flip(1).cumsum(1).flip(1), x)


def places():
    x, i = real("take.x", 3, 6, 4), torch.tensor([[5, 0, 0], [2, 3, 1]])
    case("take", x[:, i], x, i)
    j = torch.tensor([[3, 0, 1, 1, 2], [0, 0, 0, 3, 2], [1, 2, 3, 0, 1]])
    case("take_along", torch.gather(x[:, 0], -1, j), x[:, 0], j)
    n, source = torch.tensor([2, 0, 2, 4]), real("scatter.s", 3, 4, 4)
    case("scatter.add", x.index_add(1, n, source), x, n, source)
    once = torch.tensor([2, 0, 5, 4])
    case("scatter.set", x.index_copy(1, once, source), x, once, source)
    case("bincount", torch.bincount(n, minlength=7), n)


# Random123's kat_vectors, philox4x32 with 10 rounds: counter, key, result
PHILOX = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return tuple(c)


def randoms():
    """curand_init(seed, i, offset), then the first of curand_uniform4 and curand_normal4."""
    for counter, key, result in PHILOX:
        assert philox(counter, key) == result
    seed, offset = (1234567, 89), (6, 1)
    word = torch.tensor(
        [philox(((offset[0] >> 2) | (offset[1] << 30) & 0xFFFFFFFF, offset[1] >> 2, i, 0), seed) for i in range(500)]
    )
    x, y = word[:, offset[0] & 3].float(), word[:, (offset[0] & 3) + 1].float()
    u = x * 2.0**-32 + 2.0**-33
    v = y * (2.0**-32 * 6.2831855) + 2.0**-33 * 6.2831855
    operand = torch.tensor([*seed, *offset])
    case("random.uniform", u, operand)
    case("random.normal", (-2 * u.double().log()).sqrt() * v.double().sin(), operand)
    case("random.gumbel", -(-u.double().log()).float().double().log(), operand)


def nhwc(x):
    return x.movedim(1, -1)


def convolutions():
    x1, x2, x3 = real("conv.x1", 2, 6, 11), real("conv.x2", 1, 8, 7, 6), real("conv.x3", 1, 4, 3, 5, 4)
    w1, b1 = real("conv.w1", 5, 6, 3), real("conv.b1", 5)
    case("conv.causal", nhwc(F.conv1d(F.pad(x1, (4, 0)), w1, b1, dilation=2)), nhwc(x1), w1, b1)
    w = real("conv.w2", 12, 2, 3, 3)
    reflected = F.pad(x2, (1, 1, 1, 1), mode="reflect")
    case("conv.groups", nhwc(F.conv2d(reflected, w, stride=(2, 1), groups=4)), nhwc(x2), w)
    w = real("conv.w4", 8, 1, 5, 3)
    case("conv.depthwise", nhwc(F.conv2d(x2, w, padding=(2, 1), groups=8)), nhwc(x2), w)
    w, b = real("conv.w3", 7, 4, 3, 3, 3), real("conv.b3", 7)
    case("conv.rank3", nhwc(F.conv3d(F.pad(x3, (1, 1, 1, 1, 2, 0)), w, b)), nhwc(x3), w, b)
    w, b = real("conv.t2", 8, 3, 4, 3), real("conv.tb2", 6)
    out = F.conv_transpose2d(x2, w, b, stride=(2, 3), padding=1, output_padding=(1, 2), groups=2, dilation=(1, 2))
    case("conv.transposed", nhwc(out), nhwc(x2), w, b)
    w = real("conv.t3", 4, 5, 2, 3, 2)
    case("conv.transposed3", nhwc(F.conv_transpose3d(x3, w, stride=(1, 2, 2))), nhwc(x3), w)


def pictures():
    x = real("picture.x", 2, 3, 9, 7)
    sizes = {"up": (14, 15), "down": (4, 3)}
    for size in sizes:
        for mode in ("nearest", "nearest-exact", "area"):
            case(f"resize.{mode}.{size}", nhwc(F.interpolate(x, sizes[size], mode=mode)), nhwc(x))
        for mode in ("bilinear", "bicubic"):
            for corners in (False, True):
                for antialias in (False, True):
                    out = F.interpolate(x, sizes[size], mode=mode, align_corners=corners, antialias=antialias)
                    case(f"resize.{mode}.{size}.{corners:d}{antialias:d}", nhwc(out), nhwc(x))
    case("pool.average", nhwc(F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)), nhwc(x))
    case("pool.average_all", nhwc(F.avg_pool2d(x, (3, 2), (2, 2), (1, 1))), nhwc(x))
    holes = x.clone()
    holes[0, 1, 4, 3] = NAN
    case("pool.max", nhwc(F.max_pool2d(holes, 3, 2, 1)), nhwc(holes))
    case("pool.max1", nhwc(F.max_pool1d(x[:, :, 0], 2)), nhwc(x[:, :, 0]))
    for mode in ("constant", "reflect", "replicate", "circular"):
        more = {"value": 1.5} if mode == "constant" else {}
        case(f"pad.{mode}", nhwc(F.pad(x, (2, 1, 0, 3), mode=mode, **more)), nhwc(x))
    grid = real("picture.grid", 2, 5, 6, 2) * 1.3
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (False, True):
                out = F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)
                case(f"grid.{mode}.{padding}.{corners:d}", nhwc(out), nhwc(x), grid)


def main():
    for make in (norms, ropes, softmaxes, reductions, orders, sums, places, randoms, convolutions, pictures):
        make()
    save(GOLDEN / "ops.safetensors", tensors, {**versions(), "what": __doc__})


if __name__ == "__main__":
    main()
