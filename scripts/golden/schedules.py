"""sigmas.safetensors: the nine schedules of ComfyUI over SD1.x's table of 1000 training sigmas, in float64.

The formulas are those of the published schedules (Karras et al. 2022 eq. 5; Mochi's linear_quadratic; Beta
sampling, Lee et al. 2024; AYS's kl_optimal, Sabour et al. 2024) with ComfyUI's constants. Each is held against
printed values for eight steps before anything is written.
"""

import math

import numpy as np
import scipy.stats
import torch

from common import GOLDEN, save, versions

TRAIN = 1000
STEPS = (1, 2, 3, 7, 8, 20, 30)
DENOISE = (0.3, 0.5, 0.75)
DENOISE_STEPS = (1, 7, 20)

REFERENCE_8 = {
    "normal": "14.61464 6.67800 3.52206 2.06064 1.27683 0.79126 0.43967 0.02917 0",
    "sgm_uniform": "14.61464 7.30198 4.08608 2.49597 1.61558 1.07116 0.69515 0.39970 0",
    "simple": "14.61464 7.29735 4.08173 2.49253 1.61289 1.06895 0.69320 0.39775 0",
    "ddim_uniform": "7.37184 4.11670 2.51092 1.62369 1.07603 0.69840 0.40222 0.04131 0",
    "karras": "14.61464 7.90294 4.02774 1.91036 0.82887 0.32112 0.10720 0.02917 0",
    "exponential": "14.61464 6.01297 2.47394 1.01787 0.41879 0.17230 0.07089 0.02917 0",
    "kl_optimal": "14.61464 3.49348 1.87812 1.18787 0.77704 0.48319 0.24433 0.02917 0",
    "linear_quadratic": "14.61464 14.52330 14.43196 14.34062 14.24928 13.29019 10.59561 6.16555 0",
    "beta": "14.61464 10.48347 5.68659 2.96361 1.61828 0.91983 0.51539 0.24327 0",
}


def training_sigmas():
    """sqrt((1-abar)/abar), ascending; betas are linear in their square roots from .00085 to .012."""
    betas = np.linspace(0.00085**0.5, 0.012**0.5, TRAIN) ** 2
    kept = np.cumprod(1 - betas)
    return np.sqrt((1 - kept) / kept)


TABLE = training_sigmas()
LOG_TABLE = np.log(TABLE)
LOW, HIGH = float(TABLE[0]), float(TABLE[-1])


def sigma_at(t):
    """Fractional timestep -> sigma, linear in log sigma between the table's entries."""
    return np.exp(np.interp(t, np.arange(TRAIN), LOG_TABLE))


def t_interpolated(sigma):
    """The inverse of sigma_at."""
    return np.interp(np.log(sigma), LOG_TABLE, np.arange(TRAIN))


def t_nearest(sigma):
    """The entry of the table whose log is nearest: the timestep that ComfyUI gives to the UNet."""
    return np.abs(np.log(np.asarray(sigma))[..., None] - LOG_TABLE).argmin(axis=-1).astype(np.float64)


def zero_ended(values):
    return np.append(np.asarray(values, dtype=np.float64), 0.0)


def normal(n):
    return zero_ended(sigma_at(np.linspace(TRAIN - 1, 0, n)))


def sgm_uniform(n):
    return zero_ended(sigma_at(np.linspace(TRAIN - 1, 0, n + 1)[:-1]))


def simple(n):
    return zero_ended([TABLE[-(1 + int(i * (TRAIN / n)))] for i in range(n)])


def ddim_uniform(n):
    return zero_ended(TABLE[1 :: max(TRAIN // n, 1)][::-1])


def karras(n, rho=7.0):
    ramp = np.linspace(0, 1, n)
    return zero_ended((HIGH ** (1 / rho) + ramp * (LOW ** (1 / rho) - HIGH ** (1 / rho))) ** rho)


def exponential(n):
    return zero_ended(np.exp(np.linspace(math.log(HIGH), math.log(LOW), n)))


def kl_optimal(n):
    """One step is sigma max and zero: the formula itself is 0/0 there."""
    ramp = np.arange(n) / max(n - 1, 1)
    return zero_ended(np.tan(ramp * math.atan(LOW) + (1 - ramp) * math.atan(HIGH)))


def linear_quadratic(n, threshold=0.025):
    """1 - s falls linearly to 1 - threshold in n//2 steps, then with a quadratic that meets it smoothly."""
    if n == 1:
        return zero_ended([HIGH])
    linear = n // 2
    rest = n - linear
    gap = linear - threshold * n
    square = gap / (linear * rest**2)
    slope = threshold / linear - 2 * gap / rest**2
    offset = square * linear**2
    steps = [threshold * i / linear if i < linear else square * i * i + slope * i + offset for i in range(n)]
    return zero_ended(HIGH * (1 - np.array(steps)))


def beta(n, a=0.6, b=0.6):
    """Consecutive equal timesteps are dropped, so that many steps may give fewer."""
    wanted = np.rint(scipy.stats.beta.ppf(1 - np.linspace(0, 1, n, endpoint=False), a, b) * (TRAIN - 1)).astype(int)
    kept = [t for index, t in enumerate(wanted) if index == 0 or t != wanted[index - 1]]
    return zero_ended(TABLE[kept])


SCHEDULES = {
    "simple": simple,
    "sgm_uniform": sgm_uniform,
    "karras": karras,
    "exponential": exponential,
    "ddim_uniform": ddim_uniform,
    "beta": beta,
    "normal": normal,
    "linear_quadratic": linear_quadratic,
    "kl_optimal": kl_optimal,
}


def sigmas(schedule, steps, denoise=1.0):
    """What a sampler is given: for denoise < 1 the last steps+1 of int(steps/denoise) steps."""
    if denoise > 0.9999:
        return SCHEDULES[schedule](steps)
    return SCHEDULES[schedule](int(steps / denoise))[-(steps + 1) :]


def check_reference():
    for name, text in REFERENCE_8.items():
        want = [float(word) for word in text.split()]
        got = SCHEDULES[name](8)
        if len(got) != len(want) or np.abs(got - want).max() > 0.6e-5:
            raise SystemExit(f"schedule {name} of 8 steps: got {got}, published {want}")


def main():
    check_reference()
    tensors = {"table": torch.tensor(TABLE)}
    for name in SCHEDULES:
        for steps in STEPS:
            tensors[f"{name}.{steps}"] = torch.tensor(sigmas(name, steps))
        for steps in DENOISE_STEPS:
            for denoise in DENOISE:
                tensors[f"{name}.{steps}.denoise{denoise}"] = torch.tensor(sigmas(name, steps, denoise))
    probe = np.concatenate([karras(20)[:-1], TABLE[[0, 1, 500, 998, 999]], [LOW / 2, HIGH * 2]])
    tensors["sigma"] = torch.tensor(probe)
    tensors["sigma.t_interpolated"] = torch.tensor(t_interpolated(probe))
    tensors["sigma.t_nearest"] = torch.tensor(t_nearest(probe))
    times = np.array([0, 0.25, 1, 10.5, 499.75, 500, 998.9, 999])
    tensors["t"] = torch.tensor(times)
    tensors["t.sigma"] = torch.tensor(sigma_at(times))
    what = (
        "table [1000]: SD1.x training sigmas ascending. SCHEDULE.STEPS[.denoiseD]: sigmas as a sampler gets them, last one 0. "
        "sigma -> sigma.t_interpolated (log-linear, clamped) and sigma.t_nearest (nearest log, as ComfyUI); t -> t.sigma. "
        "Computed in float64 and rounded. kl_optimal.1 is [sigma max, 0]"
    )
    save(GOLDEN / "sigmas.safetensors", tensors, {**versions(), "scipy": scipy.__version__, "what": what})


if __name__ == "__main__":
    main()
