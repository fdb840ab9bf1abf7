"""Writes tests/golden/pictures.txt: small JPEG, WebP, AVIF and PNG files by Pillow, and what Pillow reads from them as ComfyUI's LoadImage does.

One a line: NAME FRAMES WIDTH HEIGHT CHANNELS DEPTH PIXELS FILE, the last two in hexadecimal; size, channels and pixels are those of the frames after
ImageOps.exif_transpose. PNGs of 16 bits have 16-bit samples, native order (numpy reads those; Pillow has no RGB of 16 bits).
"""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, ImageSequence

OUT = Path(__file__).resolve().parents[2] / "tests/golden/pictures.txt"


def picture(width, height, channels, phase=0):
    y, x = np.mgrid[:height, :width]
    planes = [(127 + 120 * np.sin(x / (2 + c) + phase) * np.cos(y / (3 + c) - c)) for c in range(channels)]
    return np.stack(planes, -1).astype(np.uint8)


def image(width, height, mode, phase=0):
    array = picture(width, height, {"L": 1, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode], phase)
    return Image.frombytes(mode, (width, height), array.tobytes())


def saved(im, kind, **how):
    out = io.BytesIO()
    im.save(out, kind, **how)
    return out.getvalue()


def exif(value):
    e = Image.Exif()
    e[0x0112] = value
    return e.tobytes()


def png16(array):
    """A PNG with 16-bit samples."""
    height, width, channels = array.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
    head = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def ycck():
    """A CMYK file of Pillow whose Adobe marker says that it is YCCK: other colours, and libjpeg's other conversion."""
    data = bytearray(saved(image(21, 13, "CMYK"), "JPEG", quality=90))
    at = data.find(b"Adobe")
    assert at > 0
    data[at + 11] = 2
    return bytes(data)


def files():
    for quality in (35, 90):
        for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
            yield f"jpeg-{name}-{quality}", saved(image(37, 23, "RGB"), "JPEG", quality=quality, subsampling=subsampling)
    yield "jpeg-progressive", saved(image(37, 23, "RGB"), "JPEG", quality=70, progressive=True)
    yield "jpeg-progressive-420", saved(image(50, 41, "RGB"), "JPEG", quality=50, progressive=True, subsampling=2)
    yield "jpeg-grey", saved(image(33, 17, "L"), "JPEG", quality=80)
    yield "jpeg-grey-progressive", saved(image(33, 17, "L"), "JPEG", quality=80, progressive=True)
    yield "jpeg-cmyk", saved(image(21, 13, "CMYK"), "JPEG", quality=90)
    yield "jpeg-ycck", ycck()
    yield "jpeg-1x1", saved(image(1, 1, "RGB"), "JPEG")
    yield "jpeg-restart", saved(image(40, 40, "RGB"), "JPEG", restart_marker_blocks=2)
    for value in range(1, 9):
        yield f"jpeg-exif-{value}", saved(image(9, 5, "RGB"), "JPEG", exif=exif(value))
    for value in (3, 6):
        yield f"webp-exif-{value}", saved(image(9, 5, "RGBA"), "WEBP", lossless=True, exif=exif(value))
    yield "webp-lossy", saved(image(37, 23, "RGB"), "WEBP", quality=60)
    yield "webp-lossy-alpha", saved(image(37, 23, "RGBA"), "WEBP", quality=60)
    yield "webp-lossless", saved(image(19, 11, "RGB"), "WEBP", lossless=True)
    yield "webp-lossless-alpha", saved(image(19, 11, "RGBA"), "WEBP", lossless=True)
    yield "webp-1x1", saved(image(1, 1, "RGB"), "WEBP")
    more = [image(17, 9, "RGB", p) for p in (1, 2)]
    yield "webp-animated", saved(image(17, 9, "RGB"), "WEBP", lossless=True, save_all=True, append_images=more, duration=100)
    more = [image(17, 9, "RGBA", p) for p in (1, 2)]
    yield "webp-animated-alpha", saved(image(17, 9, "RGBA"), "WEBP", lossless=True, save_all=True, append_images=more)
    for mode in ("RGB", "RGBA"):
        more = [image(17, 9, mode, p) for p in (1, 2)]
        yield f"png-animated-{mode}", saved(image(17, 9, mode), "PNG", save_all=True, append_images=more, duration=100)
        part = image(17, 9, mode)
        part.paste(image(5, 4, mode, 2), (8, 3))
        other = part.copy()
        other.paste(image(4, 6, mode, 3), (1, 2))
        for disposal in (0, 1, 2):
            yield f"png-animated-parts-{mode}-{disposal}", saved(image(17, 9, mode), "PNG", save_all=True, append_images=[part, other, part], disposal=disposal, blend=0)
        yield f"png-animated-beside-{mode}", saved(image(17, 9, mode), "PNG", save_all=True, append_images=more, default_image=True)
    yield "png-animated-over", saved(image(17, 9, "RGB"), "PNG", save_all=True, append_images=[part.convert("RGB")], blend=1)
    for name, how in (("444", {"subsampling": "4:4:4"}), ("420", {"subsampling": "4:2:0"}), ("grey", {"subsampling": "4:0:0"})):
        yield f"avif-{name}", saved(image(37, 23, "RGB"), "AVIF", quality=80, **how)
    yield "avif-alpha", saved(image(37, 23, "RGBA"), "AVIF", quality=90)
    more = [image(17, 9, "RGB", p) for p in (1, 2)]
    yield "avif-animated", saved(image(17, 9, "RGB"), "AVIF", save_all=True, append_images=more, duration=100)
    for value in range(2, 9):
        yield f"avif-exif-{value}", saved(image(9, 5, "RGB"), "AVIF", exif=exif(value))
    for channels in (1, 3, 4):
        wide = picture(7, 5, channels).astype(np.uint16) * 257 + np.arange(7, dtype=np.uint16)[:, None] * 31
        yield f"png-16-{channels}", png16(wide)


def frames(name, data):
    if name.startswith("png-16"):
        channels = int(name[-1])
        wide = picture(7, 5, channels).astype(np.uint16) * 257 + np.arange(7, dtype=np.uint16)[:, None] * 31
        return [wide.repeat(3, -1) if channels == 1 else wide]
    out = []
    for frame in ImageSequence.Iterator(Image.open(io.BytesIO(data))):
        frame = ImageOps.exif_transpose(frame)
        alpha = frame.mode in ("RGBA", "LA") or "A" in frame.getbands()
        out.append(np.asarray(frame.convert("RGBA" if alpha else "RGB")))
    return out


def main():
    lines = []
    for name, data in files():
        all_frames = frames(name, data)
        a = np.stack(all_frames)
        n, height, width, channels = a.shape
        lines.append(f"{name} {n} {width} {height} {channels} {a.itemsize * 8} {a.tobytes().hex()} {data.hex()}\n")
    OUT.write_text("".join(lines))


if __name__ == "__main__":
    main()
