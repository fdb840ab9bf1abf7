"""Writes tests/sampler/denoise_tables.h: what the nodes round the samplers give, computed in PyTorch in float64.

Levels: scheduler nodes' formulas, tables of ModelSampling nodes, timesteps, percents. Runs: 4 Euler steps of a network small
enough to be written down in both places,

    p = tanh(x / 2 + c + [cos t, cos(t/100), sin t, sin(t/100)])        per cell of 4 channels

with c the first token of the conditioning, t the timestep (angles rounded to float32, as everyone rounds them), a latent of
2 pictures of 2x2 cells, latent format scale 1/2, shift 1/10 (Playground's: one for each channel). A table small enough to sit in the test's own source.
"""

import math
import pathlib

import numpy as np
import scipy.stats
import torch

torch.set_default_dtype(torch.float64)
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "sampler" / "denoise_tables.h"
SCALE, SHIFT, STEPS, CFG = 0.5, 0.1, 4, 3.0
SHAPE = (2, 2, 2, 4)  # pictures, height, width, channels

alphas = torch.cumprod(1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2, 0)
TABLE = ((1 - alphas) / alphas) ** 0.5


def pattern(frequency, phase):
    n = math.prod(SHAPE)
    return torch.sin(frequency * torch.arange(n) + phase).to(torch.float32).double().reshape(SHAPE)


NOISE, LATENT = pattern(1.7, 0.3), pattern(0.9, 1.1)
TOKENS = {
    "positive": torch.tensor([0.5, -0.25, 0.75, 0.125]),
    "negative": torch.tensor([-0.5, 0.25, 0.25, -0.625]),
    "third": torch.tensor([0.0, 0.5, -0.5, 0.25]),
}


def network(x, timestep, which):
    t = np.float32(timestep)
    angle = [float(np.float32(t)), float(np.float32(t * np.float32(0.01)))]
    embedding = torch.tensor([math.cos(angle[0]), math.cos(angle[1]), math.sin(angle[0]), math.sin(angle[1])])
    return torch.tanh(x / 2 + TOKENS[which] + embedding)


# ---- ways to count --------------------------------------------------------------------------------------------


class Discrete:
    sigma_data = 1.0
    latent_scale, latent_shift = SCALE, SHIFT

    def __init__(self, sigmas=TABLE, kind="eps", nearest=False, skip=1):
        self.sigmas, self.kind, self.nearest, self.skip = sigmas, kind, nearest, skip

    def place(self, sigma):
        logs, n = self.sigmas.log(), len(self.sigmas)
        if self.nearest:
            return int((math.log(sigma) - logs).abs().argmin())
        return float(np.interp(math.log(sigma), logs.numpy(), np.arange(n)))

    def timestep(self, sigma):
        return self.place(sigma) * self.skip + self.skip - 1

    def sigma(self, t):
        n = len(self.sigmas)
        return math.exp(np.interp((t - (self.skip - 1)) / self.skip, np.arange(n), self.sigmas.log().numpy()))

    def percent(self, p):
        return self.sigma((1 - p) * 999)

    def input(self, sigma):
        return 1 if self.kind in ("image", "image_flow") else 1 / math.sqrt(sigma**2 + self.sigma_data**2)

    def denoised(self, sigma, p, x):
        d = self.sigma_data
        if self.kind == "v":
            return x * d**2 / (sigma**2 + d**2) - p * sigma * d / math.sqrt(sigma**2 + d**2)
        if self.kind == "edm":
            return x * d**2 / (sigma**2 + d**2) + p * sigma * d / math.sqrt(sigma**2 + d**2)
        if self.kind in ("x0", "image", "image_flow"):
            return p
        if self.kind == "lcm":
            u = self.timestep(sigma) * 10.0
            return u / math.sqrt(u**2 + 0.25) * (x - p * sigma) + 0.25 / (u**2 + 0.25) * x
        return x - p * sigma

    def start(self, sigma, noise, latent):
        if self.kind == "image_flow":
            return latent
        top = float(self.sigmas[-1])
        most = math.isclose(top, sigma, rel_tol=1e-5) or sigma > top
        return noise * (math.sqrt(1 + sigma**2) if most else sigma) + latent

    def end(self, sigma, x):
        return 1 - x if self.kind == "image_flow" else x


class Continuous(Discrete):
    def __init__(self, low, high, kind, sigma_data=1.0, angle=False):
        super().__init__(torch.linspace(math.log(low), math.log(high), 1000).exp(), kind)
        self.sigma_data, self.angle = sigma_data, angle

    def timestep(self, sigma):
        return math.atan(sigma) / math.pi * 2 if self.angle else 0.25 * math.log(sigma)

    def sigma(self, t):
        return math.tan(t * math.pi / 2) if self.angle else math.exp(t / 0.25)

    def percent(self, p):
        low, high = math.log(self.sigmas[0]), math.log(self.sigmas[-1])
        return math.exp((high - low) * (1 - p) + low)


class Playground(Continuous):
    latent_scale = 0.5 / torch.tensor([8.4927, 5.9022, 6.5498, 5.2299])
    latent_shift = torch.tensor([-1.6574, 1.886, -1.383, 2.5155])


class Cosmos(Continuous):
    """A rectified flow x = (1 - t) x0 + t noise, velocity noise - x0, seen through sigma = t / (1 - t) and x / (1 - t)."""

    def timestep(self, sigma):
        return sigma / (1 + sigma)

    def sigma(self, t):
        top = float(self.sigmas[-1])
        return top if t >= top / (1 + top) else t / (1 - t)

    def input(self, sigma):
        return 1 - self.timestep(sigma)

    def denoised(self, sigma, p, x):
        t = self.timestep(sigma)
        return (1 - t) * x - t * p

    def start(self, sigma, noise, latent):
        return sigma * noise + latent


class Flow(Discrete):
    def __init__(self, shift, multiplier, n=1000):
        self.shift, self.multiplier, self.kind = shift, multiplier, "flow"
        self.sigmas = torch.tensor([self.shifted((i + 1) / n) for i in range(n)])

    def shifted(self, u):
        return self.shift * u / (1 + (self.shift - 1) * u)

    def timestep(self, sigma):
        return sigma * self.multiplier

    def sigma(self, t):
        return self.shifted(t / self.multiplier)

    def percent(self, p):
        return self.shifted(1 - p)

    def input(self, sigma):
        return 1

    def start(self, sigma, noise, latent):
        return sigma * noise + (1 - sigma) * latent

    def end(self, sigma, x):
        return x / (1 - sigma)


def zero_terminal(sigmas):
    root = (1 / (sigmas**2 + 1)).sqrt()
    first, last = root[0].clone(), root[-1].clone()
    bar = ((root - last) * first / (first - last)) ** 2
    bar[-1] = 4.8973451890853435e-08
    return ((1 - bar) / bar).sqrt()


def flux_shift(width, height, most=1.15, base=0.5):
    slope = (most - base) / (4096 - 256)
    return math.exp(width * height / 256 * slope + base - slope * 256)


COUNTS = {
    "eps": Discrete(),
    "nearest": Discrete(nearest=True),
    "v": Discrete(kind="v"),
    "x0": Discrete(kind="x0"),
    "zsnr": Discrete(zero_terminal(TABLE), "v"),
    "lcm": Discrete(TABLE[19::20], "lcm", True, 20),
    "edm": Continuous(0.002, 120, "edm", 0.5),
    "edm_v": Continuous(0.002, 120, "v"),
    "edm_eps": Continuous(0.01, 80, "eps"),
    "playground": Playground(0.002, 120, "edm", 0.5),
    "cosmos": Cosmos(0.01, 80, "rflow"),
    "image": Discrete(kind="image"),
    "image_flow": Discrete(kind="image_flow"),
    "angle": Continuous(0.03, 500, "v", angle=True),
    "sd3": Flow(3.0, 1000),
    "aura": Flow(1.73, 1),
    "flux": Flow(flux_shift(512, 768), 1, 10000),
}

# ---- schedules ------------------------------------------------------------------------------------------------


def single(sigmas):
    return [float(np.float32(s)) for s in sigmas]


def normal(count, steps):
    t = torch.linspace(count.timestep(float(count.sigmas[-1])), count.timestep(float(count.sigmas[0])), steps)
    return single([count.sigma(float(v)) for v in t] + [0])


def sgm_uniform(count, steps):
    t = torch.linspace(count.timestep(float(count.sigmas[-1])), count.timestep(float(count.sigmas[0])), steps + 1)[:-1]
    return single([count.sigma(float(v)) for v in t] + [0])


def simple(count, steps):
    n = len(count.sigmas)
    return single([float(count.sigmas[-(1 + int(i * n / steps))]) for i in range(steps)] + [0])


def beta(count, steps, a, b):
    n, out, last = len(count.sigmas) - 1, [], -1
    for p in 1 - np.linspace(0, 1, steps, endpoint=False):
        place = np.rint(scipy.stats.beta.ppf(p, a, b) * n)
        if place != last:
            out.append(float(count.sigmas[int(place)]))
        last = place
    return single(out + [0])


def karras(n, low, high, rho):
    r = torch.linspace(0, 1, n)
    return single(((high ** (1 / rho) + r * (low ** (1 / rho) - high ** (1 / rho))) ** rho).tolist() + [0])


def polyexponential(n, low, high, rho):
    r = torch.linspace(1, 0, n) ** rho
    return single((r * (math.log(high) - math.log(low)) + math.log(low)).exp().tolist() + [0])


def laplace(n, low, high, mu, b):
    x = torch.linspace(0, 1, n)
    return single((mu - b * torch.sign(0.5 - x) * torch.log(1 - 2 * (0.5 - x).abs() + 1e-5)).exp().clamp(low, high).tolist())


def vp(n, beta_d, beta_min, eps):
    t = torch.linspace(1, eps, n)
    return single((torch.expm1(beta_d * t**2 / 2 + beta_min * t)).sqrt().tolist() + [0])


AYS = [14.6146412293, 6.4745760956, 3.8636745985, 2.6946151520, 1.8841921177, 1.3943805092, 0.9642583904, 0.6523686016, 0.3977456272, 0.1515232662, 0.0291671582]


# Of GITS coefficient 1.50, 20 steps; of coefficient 1.20 and 0.80.
GITS_20 = [14.61464119, 2.45070267, 1.41535246, 0.95350921, 0.72133851, 0.57119018, 0.4783645, 0.43325692, 0.38853383, 0.36617002, 0.34370604, 0.32104823, 0.29807833, 0.27464288, 0.25053367, 0.22545385, 0.19894916, 0.17026083, 0.13792117, 0.09824532, 0.02916753]
GITS_10 = [14.61464119, 5.85520077, 2.84484982, 1.67050016, 1.08895338, 0.74807048, 0.50118381, 0.32104823, 0.19894916, 0.09824532, 0.02916753]
GITS_2 = [14.61464119, 7.49001646, 0.02916753]
GITS_6 = [14.61464119, 7.49001646, 4.86714602, 2.95596409, 1.56271636, 0.64427125, 0.02916753]  # coefficient 0.95
FLUX = [0.9968, 0.9886, 0.9819, 0.975, 0.966, 0.9471, 0.9158, 0.8287, 0.5512, 0.2808, 0.001]
WAN = [1.0, 0.997, 0.995, 0.993, 0.991, 0.989, 0.987, 0.985, 0.98, 0.975, 0.973, 0.968, 0.96, 0.946, 0.927, 0.902, 0.864, 0.776, 0.539, 0.208, 0.001]
CHROMA = [0.992, 0.99, 0.988, 0.985, 0.982, 0.978, 0.973, 0.968, 0.961, 0.953, 0.943, 0.931, 0.917, 0.9, 0.881, 0.858, 0.832, 0.802, 0.769, 0.731, 0.69, 0.646, 0.599, 0.55, 0.501, 0.451, 0.402, 0.355, 0.311, 0.27, 0.232, 0.199, 0.169, 0.143, 0.12, 0.101, 0.084, 0.07, 0.058, 0.048, 0.001]


def align(steps, table=AYS):
    y = np.interp(np.linspace(0, 1, steps + 1), np.linspace(0, 1, len(table)), np.log(table[::-1]))
    return single(np.exp(y)[::-1][:-1].tolist() + [0])


# ---- guidance -------------------------------------------------------------------------------------------------


def plain(pos, neg, cfg, **_):
    return neg + cfg * (pos - neg)


def rescale(multiplier):
    def combine(pos, neg, cfg, x, sigma, flow):
        def spread(v):
            return v.reshape(len(v), -1).std(1).reshape(-1, 1, 1, 1)

        if flow:
            guided = plain(pos, neg, cfg)
            return guided * (multiplier * spread(pos) / spread(guided) + 1 - multiplier)
        to_v = lambda x0: (x / (sigma**2 + 1) - x0) * math.sqrt(sigma**2 + 1) / sigma
        v = to_v(neg) + cfg * (to_v(pos) - to_v(neg))
        v = multiplier * v * spread(to_v(pos)) / spread(v) + (1 - multiplier) * v
        return x / (sigma**2 + 1) - v * sigma / math.sqrt(sigma**2 + 1)

    return combine


def perpendicular(pos, neg, empty, cfg, scale):
    out = []
    for a, b, e in zip(pos, neg, empty):
        p, q = a - e, b - e
        out.append(e + cfg * (p - scale * (q - (q * p).sum() / (p * p).sum() * p)))
    return torch.stack(out)


def run(count, guider, sigmas, latent=None, cfg=CFG):
    empty = latent is None
    x = count.start(sigmas[0], NOISE, torch.zeros(SHAPE) if empty else (latent - count.latent_shift) * count.latent_scale)
    for sigma, after in zip(sigmas, sigmas[1:]):
        guess = lambda which: count.denoised(sigma, network(x * count.input(sigma), count.timestep(sigma), which), x)
        x0 = guider(guess, x, sigma, count, cfg)
        x = x + (x - x0) / sigma * (after - sigma)
    return count.end(sigmas[-1], x) / count.latent_scale + count.latent_shift, x0 / count.latent_scale + count.latent_shift


def with_cfg(combine=plain):
    return lambda guess, x, sigma, count, cfg: combine(guess("positive"), guess("negative"), cfg, x=x, sigma=sigma, flow=count.kind == "flow")


GUIDERS = {
    "basic": lambda guess, x, sigma, count, cfg: guess("positive"),
    "dual": lambda guess, x, sigma, count, cfg: plain(guess("third"), guess("negative"), 2.0) + (guess("positive") - guess("third")) * cfg,
    "nested": lambda guess, x, sigma, count, cfg: plain(plain(guess("positive"), guess("third"), cfg), guess("negative"), 2.0),
    "perp": lambda guess, x, sigma, count, cfg: perpendicular(guess("positive"), guess("negative"), guess("third"), cfg, 1.5),
}

# The negative evaluated by a model that predicts v and is told other timesteps.
def two_models(guess, x, sigma, count, cfg):
    other = COUNTS["edm_v"]
    negative = other.denoised(sigma, network(x * other.input(sigma), other.timestep(sigma), "negative"), x)
    return plain(guess("positive"), negative, cfg)


GUIDERS["two_models"] = two_models

# ---- areas ----------------------------------------------------------------------------------------------------
# An entry: tokens' name, area (h, w, y, x) in cells or None, strength. Each area gets an opposite on the other side: the tokens of the
# smallest entry there that holds it. Edges inside the picture fade over n = min(8, side / 4) cells: (1 + distance) / n.

POSITIVE = [("positive", None, 1.0), ("third", (1, 1, 1, 0), 0.8)]
NEGATIVE = [("negative", None, 1.0), ("third", (1, 2, 1, 0), 0.5)]


def holds(a, c):
    return a is None or (c[2] >= a[2] and c[3] >= a[3] and a[0] + a[2] >= c[0] + c[2] and a[1] + a[3] >= c[1] + c[3])


def opposed(one, other):
    """`other` with an opposite for each area of `one`."""
    out = list(other)
    for _, area, strength in one:
        if area is None:
            continue
        round_it = [e for e in out if holds(e[1], area)]
        sized = sorted((e for e in round_it if e[1]), key=lambda e: e[1][0] * e[1][1])
        best = sized[0] if sized else round_it[0]
        if best[1] != area:
            out.append((best[0], area, strength))
    return out


def weight(area, strength):
    w = torch.zeros(SHAPE[1:3])
    if area is None:
        return w + strength
    h, wide, y, x = area
    part = torch.full((h, wide), strength)
    for t in range(min(8, h // 4)):
        gain = (t + 1) / min(8, h // 4)
        if y:
            part[t] *= gain
        if y + h < SHAPE[1]:
            part[h - 1 - t] *= gain
    for t in range(min(8, wide // 4)):
        gain = (t + 1) / min(8, wide // 4)
        if x:
            part[:, t] *= gain
        if x + wide < SHAPE[2]:
            part[:, wide - 1 - t] *= gain
    w[y : y + h, x : x + wide] = part
    return w


def by_area(entries, guess):
    total = sum(weight(area, strength) for _, area, strength in entries)
    return sum(guess(name) * weight(area, strength)[..., None] for name, area, strength in entries) / total[..., None]


def areas(guess, x, sigma, count, cfg):
    negative = opposed(POSITIVE, NEGATIVE)
    positive = opposed(negative, POSITIVE)
    return plain(by_area(positive, guess), by_area(negative, guess), cfg)


# ---- a size that changes ----------------------------------------------------------------------------------------
# Latent consistency sampling whose guess is scaled on the way; noise of the steps from torch's generator, in its order.


def turned(a, b, r):
    """Between two vectors: direction and length change evenly. A vector of no length has no direction, at right angles to all."""
    la, lb = np.linalg.norm(a), np.linalg.norm(b)
    a_way, b_way = (v / l if l > 0 else v for v, l in ((a, la), (b, lb)))
    dot = float(a_way @ b_way)
    if dot > 1 - 1e-5:
        return a
    if dot < 1e-5 - 1:
        return (1 - r) * a + r * b
    angle = math.acos(dot)
    direction = (math.sin((1 - r) * angle) * a_way + math.sin(r * angle) * b_way) / math.sin(angle)
    return direction * ((1 - r) * la + r * lb)


def along(x, axis, count):
    n, x = x.shape[axis], np.moveaxis(x, axis, 0)
    out = np.empty((count, *x.shape[1:]))
    for i in range(count):
        place = min(max((i + 0.5) * n / count - 0.5, 0), n - 1)
        low = int(place)
        high = min(low + 1, n - 1)
        for cell in np.ndindex(x.shape[1:-1]):
            out[(i, *cell)] = turned(x[(low, *cell)], x[(high, *cell)], place - low)
    return np.moveaxis(out, 0, axis)


def scaled(x, h, w, method):
    if method == "bislerp":
        return torch.from_numpy(along(along(x.numpy(), 2, w), 1, h))
    return torch.nn.functional.interpolate(x.movedim(-1, 1), size=(h, w), mode=method).movedim(1, -1)


def growing_run(count, sigmas, ratio, steps, method):
    generator = torch.Generator().manual_seed(5)
    x = count.start(sigmas[0], NOISE, torch.zeros(SHAPE))
    for i, (sigma, after) in enumerate(zip(sigmas, sigmas[1:])):
        guess = lambda which: count.denoised(sigma, network(x * count.input(sigma), count.timestep(sigma), which), x)
        x = plain(guess("positive"), guess("negative"), CFG)
        if i < steps:
            by = 1 + (ratio - 1) * (i + 1) / steps
            x = scaled(x, round(SHAPE[1] * by), round(SHAPE[2] * by), method)
        if after > 0:
            drawn = torch.randn(x.movedim(-1, 1).shape, generator=generator, dtype=torch.float32).double().movedim(1, -1)
            x = (1 - after if count.kind == "flow" else 1) * x + after * drawn
    return x / count.latent_scale + count.latent_shift


# ---- the file -------------------------------------------------------------------------------------------------


def rows(values):
    text = [f"{float(np.float32(v)):.9g}" for v in values]
    return ",\n    ".join(", ".join(text[i : i + 8]) for i in range(0, len(text), 8))


def array(name, values):
    values = list(values)
    return f"static const double {name}[{len(values)}] = {{\n    {rows(values)}}};\n"


def main():
    out = ["/* denoise_tables.h - written by scripts/golden/denoise.py, which says what is in it. */\n"]
    out.append(array("karras_5", karras(6, 0.05, 12, 5)))
    out.append(array("polyexponential_2", polyexponential(6, 0.05, 12, 2)))
    out.append(array("laplace_6", laplace(6, 0.03, 14, 0.3, 0.7)))
    out.append(array("vp_6", vp(6, 19.9, 0.1, 0.001)))
    out.append(array("align_10", align(10)))
    out.append(array("align_7", align(7)))
    out.append(array("gits_2", align(2, GITS_2)))
    out.append(array("gits_6", align(6, GITS_6)))
    out.append(array("gits_10", align(10, GITS_10)))
    out.append(array("gits_20", align(20, GITS_20)))
    out.append(array("gits_33", align(33, GITS_20)))
    out.append(array("optimal_flux_10", align(10, FLUX)))
    out.append(array("optimal_flux_7", align(7, FLUX)))
    out.append(array("optimal_wan_20", align(20, WAN)))
    out.append(array("optimal_chroma_50", align(50, CHROMA)))
    out.append(array("beta_8", beta(COUNTS["eps"], 8, 0.8, 1.5)))
    out.append(array("zsnr_places", [COUNTS["zsnr"].sigmas[i] for i in (0, 1, 250, 500, 750, 998, 999)]))
    for name, count in COUNTS.items():
        low, high = math.log(count.sigmas[0]), math.log(count.sigmas[-1])
        probe = [float(np.float32(math.exp(low + (high - low) * u))) for u in (0.03, 0.31, 0.77)]
        out.append(array(f"{name}_normal", normal(count, 5)))
        out.append(array(f"{name}_sgm", sgm_uniform(count, 5)))
        out.append(array(f"{name}_simple", simple(count, 5)))
        out.append(array(f"{name}_probe", probe))
        out.append(array(f"{name}_timestep", [count.timestep(s) for s in probe]))
        out.append(array(f"{name}_percent", [count.percent(p) for p in (0.1, 0.5, 0.9)]))
        out.append(array(f"{name}_run", run(count, with_cfg(), normal(count, STEPS))[0].reshape(-1)))
    for name, guider in GUIDERS.items():
        out.append(array(f"{name}_run", run(COUNTS["eps"], guider, normal(COUNTS["eps"], STEPS))[0].reshape(-1)))
    out.append(array("areas_run", run(COUNTS["eps"], areas, normal(COUNTS["eps"], STEPS))[0].reshape(-1)))
    for name in ("eps", "v", "sd3"):
        out.append(array(f"rescale_{name}_run", run(COUNTS[name], with_cfg(rescale(0.7)), normal(COUNTS[name], STEPS))[0].reshape(-1)))
    for name in ("eps", "sd3", "playground", "cosmos", "image_flow"):  # from a latent, part of the way, stopped before the end
        part = normal(COUNTS[name], 6)[2:5]
        latent, denoised = run(COUNTS[name], with_cfg(), part, LATENT)
        out.append(array(f"part_{name}_run", latent.reshape(-1)))
        out.append(array(f"part_{name}_denoised", denoised.reshape(-1)))
    for method in ("bislerp", "nearest-exact", "bilinear", "area", "bicubic"):
        x = growing_run(COUNTS["eps"], normal(COUNTS["eps"], STEPS), 2.0, 2, method)
        out.append(array(f"growing_{method.split('-')[0]}_run", x.reshape(-1)))
    out.append(array("growing_flow_run", growing_run(COUNTS["sd3"], normal(COUNTS["sd3"], STEPS), 1.5, 1, "bislerp").reshape(-1)))
    out.append(array("shrinking_run", growing_run(COUNTS["eps"], normal(COUNTS["eps"], STEPS), 0.5, 3, "bilinear").reshape(-1)))
    x = pattern(0.9, 1.1)
    out.append(array("bislerp_3x5", scaled(x, 3, 5, "bislerp").reshape(-1)))
    opposite = torch.stack([x[:1, :, :1], -x[:1, :, :1]], 2).reshape(1, 2, 2, 4)  # neighbours in a row point away from each other
    out.append(array("bislerp_opposite", scaled(opposite, 2, 5, "bislerp").reshape(-1)))
    OUT.write_text("\n".join(out))


if __name__ == "__main__":
    main()
