#!/usr/bin/env python3
"""Draws docs/images/gallery.png: a picture of each workflow that ships, with its command below.

    python3 scripts/gallery.py [--kiln build/release/kiln] [--out docs/images/gallery.png]       needs Pillow
"""
import argparse
import pathlib
import subprocess
import tempfile

from PIL import Image, ImageDraw, ImageFont

SIDE, GAP, LINE = 192, 12, 16
FONT = "DejaVuSans.ttf"  # fonts-dejavu-core
# name, workflow, settings; "@name" is the picture that `name` drew; names that begin with a dot are drawn and not shown
ROWS = [
    (".pair", "txt2img.yaml", {"prompt": "a red circle left of a blue square"}),
    ("txt2img", "txt2img.yaml", {}),
    ("img2img", "img2img.yaml", {"image": "@txt2img", "prompt": "a green star above a blue square", "denoise": "0.8"}),
    ("custom_sampling", "custom_sampling.yaml", {"sampler": "euler_ancestral"}),
    ("refined", "refined.yaml", {}),
    ("lora", "lora.yaml", {}),
    ("turbo", "turbo.yaml", {"seed": "2"}),
    ("story", "story.yaml", {}),
    ("lora-stack", "lora-stack.yaml", {}),
    ("merge", "merge.yaml", {}),
    ("embedding", "embedding.yaml", {}),
    ("controlnet", "controlnet.yaml", {}),
    ("two-controlnets", "two-controlnets.yaml", {}),
    ("ip-adapter", "ip-adapter.yaml", {}),
    ("batch", "batch.yaml", {}),
    ("several", "several.yaml", {"sheet": "true"}),
    ("regional", "regional.yaml", {}),
    ("hires-fix", "hires-fix.yaml", {}),
    ("upscale", "upscale.yaml", {}),
    ("inpaint", "inpaint.yaml", {"image": "@txt2img", "prompt": "a red circle above a yellow star", "x": "0", "y": "64", "width": "128", "height": "64"}),
    ("outpaint", "outpaint.yaml", {"image": "@.pair", "prompt": "a red circle left of a green star"}),
    ("sdxl", "sdxl.yaml", {}),
    ("sdxl-controlnet", "sdxl-controlnet.yaml", {}),
    ("sdxl-base-refiner", "sdxl-base-refiner.yaml", {}),
]


def draw(kiln, workflow, settings, drawn, folder):
    command = [kiln, "run", f"workflows/{workflow}", "--quiet", "--out", folder]
    for name, value in settings.items():
        command += ["--set", f"{name}={drawn[value[1:]][0] if value.startswith('@') else value}"]
    written = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return [path for path in written if path.endswith(".png")]


def tile(paths):
    """All pictures of a workflow in one square."""
    side = 1 if len(paths) == 1 else 2
    square = Image.new("RGB", (SIDE, SIDE), "#888")
    for i, path in enumerate(paths[: side * side]):
        picture = Image.open(path).convert("RGB")
        picture.thumbnail((SIDE // side, SIDE // side), Image.LANCZOS)
        if len(paths) == 1 and max(picture.size) < SIDE:
            scale = SIDE / max(picture.size)
            picture = picture.resize((round(picture.width * scale), round(picture.height * scale)), Image.LANCZOS)
        x, y = i % side * (SIDE // side), i // side * (SIDE // side)
        square.paste(picture, (x + (SIDE // side - picture.width) // 2, y + (SIDE // side - picture.height) // 2))
    return square


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", default="build/release/kiln")
    parser.add_argument("--out", default="docs/images/gallery.png")
    args = parser.parse_args()
    drawn = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, workflow, settings in ROWS:
            drawn[name] = [str(pathlib.Path(path).resolve()) for path in draw(args.kiln, workflow, settings, drawn, folder)]
        shown = [name for name, _, _ in ROWS if not name.startswith(".")]
        columns, rows = 5, (len(shown) + 4) // 5
        sheet = Image.new("RGB", (columns * (SIDE + GAP) + GAP, rows * (SIDE + LINE + GAP) + GAP), "#dddddd")
        pen, font = ImageDraw.Draw(sheet), ImageFont.truetype(FONT, 11)
        for i, name in enumerate(shown):
            x, y = GAP + i % columns * (SIDE + GAP), GAP + i // columns * (SIDE + LINE + GAP)
            sheet.paste(tile(drawn[name]), (x, y))
            pen.text((x, y + SIDE + 2), name, fill="black", font=font)
        sheet.save(args.out, optimize=True)


if __name__ == "__main__":
    main()
