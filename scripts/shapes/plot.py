"""Draws the loss curves of a training folder as one SVG: python3 -m shapes.plot WORK OUT.svg (standard library only)."""
import csv
import math
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from plot_ticks import linear_ticks, log_ticks, spoken  # noqa: E402

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 250, 56, 42, 26
PANELS = (
    ("vae.csv", "autoencoder: L1", ("l1",)),
    ("text.csv", "text encoder, head start", ("loss",)),
    ("unet.csv", "UNet and text encoder", ("loss", "loss_high_noise", "loss_low_noise")),
)
INKS = ("#333333", "#d1602a", "#2f7fc1")
POINTS = 160


def column(rows, name):
    return [float(row[name]) for row in rows]


def smooth(values, count):
    """At most count means of neighbouring values."""
    size = max(1, math.ceil(len(values) / count))
    return [sum(values[i:i + size]) / len(values[i:i + size]) for i in range(0, len(values), size)]


def time_of(rows):
    """Seconds of training at each row, and where it was begun anew: a training that goes on, or starts again, counts from less."""
    times, starts, offset, before = [], [], 0.0, 0.0
    for seconds in column(rows, "seconds"):
        if seconds < before:
            offset += before
            if seconds < before / 2:
                starts.append(offset)
            else:
                offset -= seconds
        times.append(offset + seconds)
        before = seconds
    return times, starts


def panel(x0, rows, title, names):
    times, starts = time_of(rows)
    minutes = smooth([s / 60 for s in times], POINTS)
    curves = [smooth([math.log10(max(v, 1e-6)) for v in column(rows, n)], POINTS) for n in names]
    low, high = min(map(min, curves)), max(map(max, curves))
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    inner_w, inner_h = WIDTH - LEFT - 14, HEIGHT - TOP - BOTTOM
    right = max(times[-1] / 60, 1e-3)

    def at(minute, value):
        return x0 + LEFT + minute / right * inner_w, TOP + (high - value) / max(high - low, 1e-6) * inner_h

    out = [f'<text x="{x0 + LEFT}" y="16" font-weight="bold">{title}</text>']
    for value in log_ticks(10**low, 10**high):
        y = at(0, math.log10(value))[1]
        out.append(f'<text x="{x0 + LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{spoken(value)}</text>')
        out.append(f'<line x1="{x0 + LEFT}" x2="{x0 + LEFT + inner_w}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
    for minute in linear_ticks(0, right):
        x = at(minute, low)[0]
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP + inner_h}" y2="{TOP + inner_h + 4}" stroke="#999"/>')
        out.append(f'<text x="{x:.1f}" y="{TOP + inner_h + 16}" text-anchor="middle">{spoken(minute)}</text>')
    out.append(f'<text x="{x0 + LEFT + inner_w / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle" fill="#555">minutes</text>')
    out.append(f'<rect x="{x0 + LEFT}" y="{TOP}" width="{inner_w}" height="{inner_h}" fill="none" stroke="#999"/>')
    for start in starts:
        x = at(start / 60, low)[0]
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + inner_h}" stroke="#999" stroke-dasharray="3 3"/>')
        out.append(f'<text x="{x + 4:.1f}" y="{TOP + 14}" fill="#555">begun anew</text>')
    for k, (name, curve) in enumerate(zip(names, curves)):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, minutes, curve))
        out.append(f'<polyline fill="none" stroke="{INKS[k]}" stroke-width="1.4" points="{points}"/>')
        if len(names) > 1:
            out.append(f'<text x="{x0 + LEFT + inner_w - 6}" y="{TOP + 14 + 14 * k}" text-anchor="end" fill="{INKS[k]}">{name.replace("_", " ")}</text>')
    return out


def main():
    folder, out = sys.argv[1:3]
    body, x = [], 0
    for name, title, columns in PANELS:
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if rows:
            body += panel(x, rows, title, columns)
            x += WIDTH
    with open(out, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {x} {HEIGHT}" font-family="sans-serif" font-size="11">\n')
        file.write('<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")


if __name__ == "__main__":
    main()
