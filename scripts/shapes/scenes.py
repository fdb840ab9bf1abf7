"""The world of shapes-sd1: what a scene may hold, how it is drawn and how a caption names it.

A scene is one or two flat shapes on a flat background, drawn with anti-aliasing at 128x128. Every random
choice comes from the random.Random given, so a scene is a function of its seed alone.
"""
import math
import random
import zlib
from dataclasses import dataclass, field, replace

import numpy as np
from PIL import Image, ImageDraw

SIZE = 128
SUPERSAMPLE = 4

SHAPES = ("circle", "square", "triangle", "star", "cross", "ring")
COLOURS = {
    "red": (222, 32, 38),
    "orange": (248, 138, 22),
    "yellow": (252, 222, 40),
    "green": (36, 156, 60),
    "cyan": (48, 204, 220),
    "blue": (38, 76, 214),
    "purple": (126, 46, 168),
    "pink": (248, 134, 186),
}
BACKGROUNDS = {
    "white": (255, 255, 255),
    "gray": (150, 150, 150),
    "black": (16, 16, 16),
    "beige": (236, 218, 184),
}
# Radius in pixels: half the side of the square a shape is drawn into.
SIZES = {"small": (15.0, 19.0), "medium": (24.0, 30.0), "large": (37.0, 46.0)}
PAIR_RADIUS = (17.0, 24.0)
RELATIONS = {
    "left": ("to the left of", "left of"),
    "right": ("to the right of", "right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
}
MIRROR = {"left": "right", "right": "left", "above": "below", "below": "above"}
OPENINGS = ("", "", "", "", "a picture of ", "a drawing of ", "an image of ")
JITTER = 5  # each channel of a thing's colour moves by at most this much
HELD_OUT_PERCENT = 12


@dataclass
class Thing:
    shape: str
    colour: str
    x: float = 0.0
    y: float = 0.0
    radius: float = 0.0


@dataclass
class Scene:
    things: list
    background: str
    size: str = ""  # named size of a single thing, "" when the caption is silent
    relation: str = ""  # where things[0] lies seen from things[1]
    caption: str = ""
    noise: list = field(default_factory=list)  # colour offset of each thing


def article(word):
    return "an" if word[0] in "aeiou" else "a"


def name_thing(thing, size=""):
    words = [w for w in (size, thing.colour, thing.shape) if w]
    return f"{article(words[0])} {' '.join(words)}"


def held_out(*attributes):
    """True for the share of attribute combinations that training never sees."""
    return zlib.crc32("|".join(attributes).encode()) % 100 < HELD_OUT_PERCENT


def one_key(shape, colour, size, background):
    return ("one", shape, colour, size, background)


def pair_is_held_out(first, relation, second):
    """A pair and its mirror image ("a left of b", "b right of a") are the same scene."""
    here = (*first, relation, *second)
    there = (*second, MIRROR[relation], *first)
    return held_out("two", *min(here, there))


def draw_one(rng, want_held_out):
    while True:
        thing = Thing(rng.choice(SHAPES), rng.choice(list(COLOURS)))
        size = rng.choice(("", "", *SIZES))
        said = rng.choice(("", "", *BACKGROUNDS))
        if held_out(*one_key(thing.shape, thing.colour, size, said)) == want_held_out:
            break
    low, high = SIZES[size or rng.choice(list(SIZES))]
    thing.radius = rng.uniform(low, high)
    reach = min(12.0, SIZE / 2 - thing.radius - 6.0)
    thing.x = SIZE / 2 + rng.uniform(-reach, reach)
    thing.y = SIZE / 2 + rng.uniform(-reach, reach)
    return Scene([thing], said or "white", size=size, caption=name_thing(thing, size) + on(said))


def draw_two(rng, want_held_out):
    while True:
        a = Thing(rng.choice(SHAPES), rng.choice(list(COLOURS)))
        b = Thing(rng.choice(SHAPES), rng.choice(list(COLOURS)))
        relation = rng.choice(list(RELATIONS))
        same = (a.shape, a.colour) == (b.shape, b.colour)
        if not same and pair_is_held_out((a.shape, a.colour), relation, (b.shape, b.colour)) == want_held_out:
            break
    a.radius, b.radius = rng.uniform(*PAIR_RADIUS), rng.uniform(*PAIR_RADIUS)
    near, far = [SIZE * 0.27 + rng.uniform(-4, 4), SIZE * 0.73 + rng.uniform(-4, 4)]
    if relation in ("right", "below"):
        near, far = far, near
    a_off, b_off = SIZE / 2 + rng.uniform(-8, 8), SIZE / 2 + rng.uniform(-8, 8)
    if relation in ("left", "right"):
        (a.x, a.y), (b.x, b.y) = (near, a_off), (far, b_off)
    else:
        (a.x, a.y), (b.x, b.y) = (a_off, near), (b_off, far)
    said = rng.choice(("", "", *BACKGROUNDS))
    caption = f"{name_thing(a)} {rng.choice(RELATIONS[relation])} {name_thing(b)}{on(said)}"
    return Scene([a, b], said or "white", relation=relation, caption=caption)


def on(background):
    return f" on {article(background)} {background} background" if background else ""


def draw_scene(rng, two=None, want_held_out=False):
    """A random captioned scene; two=None leaves the number of things to chance."""
    if two is None:
        two = rng.random() < 0.6
    scene = (draw_two if two else draw_one)(rng, want_held_out)
    scene.caption = rng.choice(OPENINGS) + scene.caption
    scene.noise = [tuple(rng.randint(-JITTER, JITTER) for _ in range(3)) for _ in scene.things]
    return scene


def outline(shape, r):
    """Corners of a polygon shape of radius r round the origin, y downwards."""
    if shape == "square":
        s = 0.86 * r
        return [(-s, -s), (s, -s), (s, s), (-s, s)]
    if shape == "triangle":
        return [(0, -0.95 * r), (r, 0.8 * r), (-r, 0.8 * r)]
    if shape == "cross":
        w = 0.34 * r
        return [(-w, -r), (w, -r), (w, -w), (r, -w), (r, w), (w, w), (w, r), (-w, r), (-w, w), (-r, w), (-r, -w), (-w, -w)]
    if shape == "star":
        points = []
        for k in range(10):
            length = 1.08 * r if k % 2 == 0 else 0.44 * r
            angle = math.pi * k / 5 - math.pi / 2
            points.append((length * math.cos(angle), length * math.sin(angle) + 0.08 * r))
        return points
    raise ValueError(shape)


def coverage(thing):
    """The share of each pixel that the thing covers, with the top left corner of that window."""
    s = SUPERSAMPLE
    reach = int(thing.radius * 1.2) + 2
    left, top = int(thing.x) - reach, int(thing.y) - reach
    side = 2 * reach + 1
    big = Image.new("L", (side * s, side * s))
    pen = ImageDraw.Draw(big)
    cx, cy, r = (thing.x - left) * s, (thing.y - top) * s, thing.radius * s
    if thing.shape in ("circle", "ring"):
        pen.ellipse((cx - r, cy - r, cx + r, cy + r), fill=255)
        if thing.shape == "ring":
            h = 0.52 * r
            pen.ellipse((cx - h, cy - h, cx + h, cy + h), fill=0)
    else:
        pen.polygon([(cx + x, cy + y) for x, y in outline(thing.shape, r)], fill=255)
    return np.asarray(big.reduce(s), dtype=np.float32) / 255.0, left, top


def tint(rgb, offset):
    return np.clip(np.array(rgb, np.float32) + np.array(offset, np.float32), 0, 255)


def paint(scene, scale=1):
    """The scene as uint8 [128 * scale, 128 * scale, 3], RGB."""
    side = SIZE * scale
    canvas = np.empty((side, side, 3), np.float32)
    canvas[:] = BACKGROUNDS[scene.background]
    for thing, offset in zip(scene.things, scene.noise):
        mask, left, top = coverage(replace(thing, x=thing.x * scale, y=thing.y * scale, radius=thing.radius * scale))
        y0, x0 = max(0, -top), max(0, -left)
        y1, x1 = min(mask.shape[0], side - top), min(mask.shape[1], side - left)
        mask = mask[y0:y1, x0:x1, None]
        window = canvas[top + y0:top + y1, left + x0:left + x1]
        window += mask * (tint(COLOURS[thing.colour], offset) - window)
    return np.rint(canvas).astype(np.uint8)


def retell(scene, rng):
    """Another true caption of a scene: a pair is told from the other thing's side, one thing gets another opening."""
    told = scene.caption
    ground = told[told.index(" on a"):] if " on a" in told else ""
    if scene.relation:
        a, b = scene.things
        text = f"{name_thing(b)} {rng.choice(RELATIONS[MIRROR[scene.relation]])} {name_thing(a)}"
    else:
        text = name_thing(scene.things[0], scene.size)
    return rng.choice(OPENINGS) + text + ground


def scene_at(seed, index, **kind):
    """Scene number index of the endless list that seed names."""
    return draw_scene(random.Random(f"{seed}/{index}"), **kind)
