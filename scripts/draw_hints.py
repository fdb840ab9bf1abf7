#!/usr/bin/env python3
"""Draws what tests/judge/controls.sh steers by, and the pictures that workflows/controlnet.yaml and its neighbours begin with.

    python3 scripts/draw_hints.py

Scenes are those of shapes-sd1 that nothing was trained on. Needs numpy and Pillow; torch and kornia for the edges, which are those of
ComfyUI's node Canny at thresholds of 0.1 and 0.2.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import torch
from PIL import Image

from shapes.common import SEED
from shapes.scenes import Scene, Thing, paint, scene_at
from train_shapes_controls import edges_of

FIRST = 190_000_000


def tensor(scene):
    return torch.from_numpy(paint(scene)).permute(2, 0, 1)[None].float() / 255


def save(picture, path, mode="RGB"):
    """picture [1, 3, h, w] in 0..1"""
    array = (picture[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    image = Image.fromarray(array)
    if mode == "1":
        image = image.convert("L").point(lambda v: 255 * (v > 127)).convert("1")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    image.save(path, optimize=True)


def main():
    lines = []
    for i in range(100):
        scene = scene_at(SEED, FIRST + i, want_held_out=True)
        save(edges_of(tensor(scene)), f"tests/judge/hints/edges-{i:03}.png", "1")
        save(tensor(scene), f"tests/judge/hints/scene-{i:03}.png")
        lines.append(f"{i:03}\t{scene.caption}\n")
    with open("tests/judge/hints/captions.txt", "w") as f:
        f.writelines(lines)
    pictures = {
        "shapes": Scene([Thing("star", "yellow", 40, 46, 30), Thing("ring", "blue", 88, 86, 28)], "white"),
        "colours": Scene([Thing("star", "cyan", 40, 46, 30), Thing("ring", "pink", 88, 86, 28)], "gray"),
        "things": Scene([Thing("triangle", "green", 36, 64, 24), Thing("circle", "orange", 92, 62, 22)], "beige"),
    }
    for name, scene in pictures.items():
        scene.noise = [(0, 0, 0)] * len(scene.things)
        save(tensor(scene), f"workflows/pictures/{name}.png")


if __name__ == "__main__":
    main()
