#!/usr/bin/env python3
"""Draws docs/images/controls.png: what each way of steering gets and what it draws, a row for each workflow, with the models that ship.

    python3 scripts/picture_controls.py [--kiln build/release/kiln] [--out docs/images/controls.png]       needs Pillow
"""
import argparse
import pathlib
import tempfile

from PIL import Image, ImageDraw, ImageFont

from gallery import FONT, GAP, LINE, draw, tile

SIDE = 128
PICTURES = "workflows/pictures"
# A row: pictures (a file, or a workflow with settings) with what is said below them.
ROWS = [
    [(f"{PICTURES}/shapes.png", "image"), *[(("controlnet.yaml", {"strength": s}), f"controlnet, strength {s}") for s in ("0", "0.5", "1.3")],
     (("controlnet.yaml", {"prompt": "a pink star above a cyan ring", "seed": "2"}), "another prompt")],
    [(f"{PICTURES}/shapes.png", "image"), *[(("sdxl-controlnet.yaml", {"strength": s}), f"sdxl-controlnet, {s}") for s in ("0", "0.5", "1.3")],
     (("sdxl-controlnet.yaml", {"prompt": "a pink star above a cyan ring", "seed": "2"}), "another prompt")],
    [(f"{PICTURES}/shapes.png", "image"), (f"{PICTURES}/colours.png", "colours"), (("two-controlnets.yaml", {}), "two-controlnets"),
     (("two-controlnets.yaml", {"edge_strength": "0"}), "the colours alone"), (("two-controlnets.yaml", {"colour_strength": "0"}), "the edges alone")],
    [(f"{PICTURES}/things.png", "image"), *[(("ip-adapter.yaml", {"seed": s}), f"ip-adapter, seed {s}") for s in ("1", "2", "3")],
     (("ip-adapter.yaml", {"image": f"{PICTURES}/shapes.png", "seed": "2"}), "of the first picture")],
    [(("txt2img.yaml", {}), "txt2img"), (("lora.yaml", {}), "lora"), (("lora.yaml", {"night.lora_name": "shapes-sand-lokr.safetensors"}), "a LoKr"),
     (("lora.yaml", {"night.lora_name": "shapes-fog-dora.safetensors"}), "a DoRA"), (("lora-stack.yaml", {}), "lora-stack")],
    [(("merge.yaml", {"ratio": r}), f"merge, ratio {r}") for r in ("0", "0.5", "1")] + [(("embedding.yaml", {}), "embedding"), (("upscale.yaml", {}), "upscale (half its size)")],
]


def picture(kiln, what, folder):
    if isinstance(what, str):
        return what
    settings = {k: str(pathlib.Path(v).resolve()) if v.endswith(".png") else v for k, v in what[1].items()}
    return draw(kiln, what[0], settings, {}, folder)[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", default="build/release/kiln")
    parser.add_argument("--out", default="docs/images/controls.png")
    args = parser.parse_args()
    sheet = Image.new("RGB", (5 * (SIDE + GAP) + GAP, len(ROWS) * (SIDE + LINE + GAP) + GAP), "#dddddd")
    pen, font = ImageDraw.Draw(sheet), ImageFont.truetype(FONT, 11)
    with tempfile.TemporaryDirectory() as folder:
        for r, row in enumerate(ROWS):
            for c, (what, said) in enumerate(row):
                x, y = GAP + c * (SIDE + GAP), GAP + r * (SIDE + LINE + GAP)
                sheet.paste(tile([picture(args.kiln, what, folder)]).resize((SIDE, SIDE), Image.LANCZOS), (x, y))
                pen.text((x, y + SIDE + 2), said, fill="black", font=font)
    sheet.save(args.out, optimize=True)


if __name__ == "__main__":
    main()
