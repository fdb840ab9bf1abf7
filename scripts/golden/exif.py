"""Writes tests/golden/exif.txt: small PNGs with an eXIf chunk, and what Pillow's ImageOps.exif_transpose makes of them.

One a line: NAME WIDTH HEIGHT CHANNELS PIXELS PNG, the last two in hexadecimal; size, channels and pixels are those of the result.
"""
import io
import struct
import zlib
from pathlib import Path

from PIL import Image, ImageOps

OUT = Path(__file__).resolve().parents[2] / "tests/golden/exif.txt"
WIDTH, HEIGHT = 5, 3


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def tiff(order, value, kind=3, tag=0x0112, more=()):
    """A TIFF block with one directory: `more` entries, then Orientation."""
    e = "<" if order == "II" else ">"
    entries = list(more) + [(tag, kind, value)]
    out = order.encode() + struct.pack(e + "HIH", 42, 8, len(entries))
    for t, k, v in entries:
        field = struct.pack(e + "HH", v, 0) if k == 3 else struct.pack(e + "I", v)
        out += struct.pack(e + "HHI", t, k, 1) + field
    return out + struct.pack(e + "I", 0)


def picture(channels, exif, behind=False):
    rows = b"".join(b"\0" + bytes((37 * (y * WIDTH + x) + 11 * c + 5) % 256 for x in range(WIDTH) for c in range(channels)) for y in range(HEIGHT))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 6 if channels == 4 else 2, 0, 0, 0))
    note, data = chunk(b"eXIf", exif), chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + head + (data + note if behind else note + data) + chunk(b"IEND", b"")


def cases():
    for order in ("II", "MM"):
        for value in range(1, 9):
            yield f"{order}-{value}", picture(3, tiff(order, value))
        yield f"{order}-6-alpha", picture(4, tiff(order, 6))
        yield f"{order}-8-behind", picture(3, tiff(order, 8), behind=True)
        yield f"{order}-5-second", picture(3, tiff(order, 5, more=[(0x0100, 4, 5), (0x010F, 3, 1)]))
        yield f"{order}-7-long", picture(3, tiff(order, 7, kind=4))
        for value in (0, 9, 65535):
            yield f"{order}-{value}-none", picture(3, tiff(order, value))
        yield f"{order}-other-tag", picture(3, tiff(order, 6, tag=0x0111))


def main():
    lines = []
    for name, png in cases():
        im = ImageOps.exif_transpose(Image.open(io.BytesIO(png)))
        lines.append(f"{name} {im.width} {im.height} {len(im.getbands())} {im.tobytes().hex()} {png.hex()}\n")
    OUT.write_text("".join(lines))


main()
