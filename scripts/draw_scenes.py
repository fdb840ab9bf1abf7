#!/usr/bin/env python3
"""Draws the scenes that tests/judge/measure-scenes.sh steers by, and the pictures that workflows/controlnet.yaml and its neighbours begin with.

    python3 scripts/draw_scenes.py

Scenes are those of shapes-sd1 that nothing was trained on. Needs torch, numpy and Pillow.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from PIL import Image

from shapes.common import SEED
from shapes.scenes import Scene, Thing, paint, scene_at

FIRST = 190_000_000


def save(scene, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Image.fromarray(paint(scene)).save(path, optimize=True)


def main():
    lines = []
    for i in range(100):
        scene = scene_at(SEED, FIRST + i, want_held_out=True)
        save(scene, f"tests/judge/scenes/{i:03}.png")
        lines.append(f"{i:03}\t{scene.caption}\n")
    with open("tests/judge/scenes/captions.txt", "w") as f:
        f.writelines(lines)
    pictures = {
        "shapes": Scene([Thing("star", "yellow", 46, 35, 28), Thing("ring", "blue", 80, 91, 28)], "white"),
        "colours": Scene([Thing("star", "cyan", 46, 35, 28), Thing("ring", "yellow", 80, 91, 28)], "black"),
        "things": Scene([Thing("triangle", "green", 36, 64, 24), Thing("circle", "red", 92, 62, 22)], "beige"),
    }
    for name, scene in pictures.items():
        scene.noise = [(0, 0, 0)] * len(scene.things)
        save(scene, f"workflows/pictures/{name}.png")


if __name__ == "__main__":
    main()
