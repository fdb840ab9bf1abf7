"""Where the marks of an axis stand: round numbers, and what is said beside them (standard library only)."""
import math


def linear_ticks(low, high, most=6):
    """At most `most` multiples of 1, 2, 2.5 or 5 times a power of ten within low..high."""
    least = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= least * (1 - 1e-9))
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low, high):
    """Powers of ten, with 2 and 5 times them where there are few, or 1 to 9 times them."""
    for parts in ((1,), (1, 2, 5), range(1, 10)):
        powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        found = [m * 10.0**p for p in powers for m in parts if low * (1 - 1e-9) <= m * 10.0**p <= high * (1 + 1e-9)]
        if len(found) >= 4:
            break
    return found


def spoken(value):
    """Without an exponent: 0.002, 5, 2.5."""
    return f"{value:.10f}".rstrip("0").rstrip(".") or "0"
