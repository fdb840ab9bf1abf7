"""Draws the loss curves of a training folder as one SVG: python3 -m shapes.plot WORK OUT.svg (standard library only)."""
import csv
import math
import os
import sys

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 240, 52, 36, 26
PANELS = (
    ("vae.csv", "autoencoder: L1", ("l1",)),
    ("text.csv", "text encoder, head start", ("loss",)),
    ("unet.csv", "UNet and text encoder", ("loss", "loss_high_noise", "loss_low_noise")),
)
INKS = ("#1f5fa8", "#b4521c", "#3d7d3a")
POINTS = 160


def column(rows, name):
    return [float(row[name]) for row in rows]


def smooth(values, count):
    """At most count means of neighbouring values."""
    size = max(1, math.ceil(len(values) / count))
    return [sum(values[i:i + size]) / len(values[i:i + size]) for i in range(0, len(values), size)]


def panel(x0, rows, title, names):
    minutes = smooth([s / 60 for s in column(rows, "seconds")], POINTS)
    curves = [smooth([math.log10(max(v, 1e-6)) for v in column(rows, n)], POINTS) for n in names]
    low, high = math.floor(min(map(min, curves)) * 4) / 4, math.ceil(max(map(max, curves)) * 4) / 4
    inner_w, inner_h = WIDTH - LEFT - 14, HEIGHT - TOP - BOTTOM
    right = max(minutes[-1], 1e-3)

    def at(minute, value):
        return f"{x0 + LEFT + minute / right * inner_w:.1f},{TOP + (high - value) / max(high - low, 1e-6) * inner_h:.1f}"

    out = [f'<text x="{x0 + LEFT}" y="16" font-weight="bold">{title}</text>']
    out.append(f'<rect x="{x0 + LEFT}" y="{TOP}" width="{inner_w}" height="{inner_h}" fill="none" stroke="#999"/>')
    for k in range(5):
        value = low + (high - low) * k / 4
        y = float(at(0, value).split(",")[1])
        out.append(f'<text x="{x0 + LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{10**value:.3g}</text>')
        out.append(f'<line x1="{x0 + LEFT}" x2="{x0 + LEFT + inner_w}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
    out.append(f'<text x="{x0 + LEFT}" y="{HEIGHT - 16}">0</text>')
    out.append(f'<text x="{x0 + LEFT + inner_w}" y="{HEIGHT - 16}" text-anchor="end">{right:.0f} min</text>')
    for k, (name, curve) in enumerate(zip(names, curves)):
        out.append(f'<polyline fill="none" stroke="{INKS[k]}" points="{" ".join(at(m, v) for m, v in zip(minutes, curve))}"/>')
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
