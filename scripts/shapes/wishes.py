"""Short requests as people type them, what each asks for, and a caption of shapes-sd1's language that grants it.

Every random choice comes from the random.Random given. One request in twenty (`never_trained`) is kept away from training, whatever
its capitals and punctuation; the 200 requests of tests/judge/requests-200.jsonl are made of those.
"""
import random
import re
import zlib
from dataclasses import dataclass, field

from .scenes import BACKGROUNDS, COLOURS, RELATIONS, SHAPES, SIZES, article

HELD_OUT_PERCENT = 5
ALWAYS_HELD_OUT = ("two shapes", "something red on the left", "a blue circle and something else", "three things")
OTHER_WORDS = {"purple": ("violet",), "cyan": ("turquoise",), "circle": ("disc",), "square": ("box",), "ring": ("hoop",), "gray": ("grey", "grey")}
SIZE_WORDS = {"small": ("small", "small", "tiny", "little"), "medium": ("medium", "medium sized"), "large": ("large", "big", "huge")}
BESIDE = {
    "left": ("left of", "to the left of", "on the left of"),
    "right": ("right of", "to the right of", "on the right of"),
    "above": ("above", "over", "on top of"),
    "below": ("below", "under", "beneath", "underneath"),
}
PLACES = {
    "left": ("on the left", "to the left", "at the left"),
    "right": ("on the right", "to the right", "at the right"),
    "above": ("at the top", "on top"),
    "below": ("at the bottom", "on the bottom"),
}
PLAIN = {"left": "left of", "right": "right of", "above": "above", "below": "below"}  # the words the captions use here
OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}
SIDEWAYS, UPRIGHT = ("left", "right"), ("above", "below")
ASKING = ("draw {}", "please draw {}", "show me {}", "i want {}", "paint {}", "a picture of {}", "a drawing of {}", "can you draw {}", "{} please", "give me {}", "make {}", "i would like {}")


@dataclass
class Wish:
    """What a request asks for; see caption_grammar.py. names: the request, without the words about the ground."""

    names: str
    count: int = None
    things: list = field(default_factory=list)
    relations: tuple = ()
    ground: str = ""
    asking: bool = True  # "draw ..." may stand before it

    def asked(self):
        return {"count": self.count, "things": self.things, "relations": list(self.relations), "ground": self.ground}


def word(rng, name):
    """The name itself, or now and then another word for it."""
    return rng.choice(OTHER_WORDS[name]) if name in OTHER_WORDS and rng.random() < 0.2 else name


def with_article(phrase):
    return f"{article(phrase)} {phrase}"


def some_thing(rng, sized):
    """(words, asked) of one thing of which much, little or nothing is said."""
    asked = {}
    said = rng.choice(("both", "both", "both", "both", "colour", "colour", "shape", "shape", "none"))
    if said in ("both", "colour"):
        asked["colour"] = rng.choice(list(COLOURS))
    if said in ("both", "shape"):
        asked["shape"] = rng.choice(SHAPES)
    if sized and rng.random() < 0.35:
        asked["size"] = rng.choice(list(SIZES))
    size = rng.choice(SIZE_WORDS[asked["size"]]) if "size" in asked else ""
    colour = word(rng, asked["colour"]) if "colour" in asked else ""
    if "shape" in asked:
        return with_article(" ".join(w for w in (size, colour, word(rng, asked["shape"])) if w)), asked
    if rng.random() < 0.5:
        return "something " + (" and " if size and colour and rng.random() < 0.5 else " ").join(w for w in (size, colour) if w) if size or colour else "something", asked
    return with_article(" ".join(w for w in (size, colour, rng.choice(("thing", "shape"))) if w)), asked


def one(rng):
    names, asked = some_thing(rng, sized=True)
    kind = rng.random()
    if kind < 0.15:
        names = rng.choice(("just {}", "only {}", "{} alone", "{} and nothing else")).format(names)
    elif kind < 0.25 and names.split()[0] in ("a", "an"):
        names = "one " + names.split(" ", 1)[1]
    return Wish(names, 1, [asked])


def alike(a, b):
    """Both things are told so fully that they would be the same."""
    return a == b and "colour" in a and "shape" in a


def two_named(rng):
    """Two things are told apart: with a place, beside each other, or just both."""
    while True:
        (a, asked_a), (b, asked_b) = some_thing(rng, False), some_thing(rng, False)
        if not alike(asked_a, asked_b):
            break
    if rng.random() < 0.25:
        b, asked_b = rng.choice(("something else", "another thing", "another shape", "something")), {}
    kind, relation = rng.random(), rng.choice(list(RELATIONS))
    things = [asked_a, asked_b]
    if kind < 0.4:
        return Wish(f"{a} {rng.choice(BESIDE[relation])} {b}", 2, things, (relation,))
    if kind < 0.6:
        here, there = rng.choice(PLACES[relation]), rng.choice(PLACES[OPPOSITE[relation]])
        text = rng.choice(("{0} {1} and {2} {3}", "{0} {1}, {2} {3}", "{1} {0}, {3} {2}", "{1} {0} and {3} {2}"))
        return Wish(text.format(a, here, b, there), 2, things, (relation,))
    if kind < 0.7:
        return Wish(f"{a} {rng.choice(('next to', 'beside', 'by the side of'))} {b}", 2, things, SIDEWAYS)
    if kind < 0.78:
        return Wish(f"{a} and {b} side by side", 2, things, SIDEWAYS)
    if kind < 0.84:
        return Wish(f"{a} and {b}, one above the other", 2, things, UPRIGHT)
    return Wish(f"{a} {rng.choice(('and', 'and', 'and', 'with', 'plus', 'together with'))} {b}", 2, things)


def one_placed(rng):
    """Something at a place: the other thing is left to the model."""
    names, asked = some_thing(rng, False)
    relation = rng.choice(list(RELATIONS))
    place = rng.choice(PLACES[relation])
    text = rng.choice(("{0} {1}", "{0} {1}", "{1} {0}", "{0} {1} and something else", "two shapes, {0} {1}"))
    return Wish(text.format(names, place), 2, [asked], (relation,))


def two_of_a_kind(rng):
    """"two red shapes", "two circles", "a red and a blue star", "red and blue"."""
    kind = rng.random()
    two = rng.choice(("two", "two", "2", "a pair of", "a couple of"))
    if kind < 0.3:
        colour = rng.choice(list(COLOURS))
        wish = Wish(f"{two} {word(rng, colour)} {rng.choice(('shapes', 'things'))}", 2, [{"colour": colour}] * 2)
    elif kind < 0.6:
        shape = rng.choice(SHAPES)
        said = word(rng, shape)
        wish = Wish(f"{two} {said}{'es' if said[-1] in 'sx' else 's'}", 2, [{"shape": shape}] * 2)
    else:
        colours, shape = rng.sample(list(COLOURS), 2), rng.choice(SHAPES)
        a, b = (word(rng, c) for c in colours)
        if kind < 0.85:
            wish = Wish(f"{with_article(a)} and {with_article(b)} {word(rng, shape)}", 2, [{"colour": c, "shape": shape} for c in colours])
        else:
            wish = Wish(rng.choice((f"{a} and {b}", f"{a} and {b} shapes", f"something {a} and something {b}")), 2, [{"colour": c} for c in colours])
    return arranged(rng, wish)


def arranged(rng, wish):
    """Now and then says how the two lie."""
    kind = rng.random()
    if kind < 0.12:
        wish.names, wish.relations = wish.names + " side by side", SIDEWAYS
    elif kind < 0.22:
        wish.names, wish.relations = wish.names + rng.choice((" one above the other", ", one over the other")), UPRIGHT
    return wish


def bare_two(rng):
    two = rng.choice(("two", "two", "2", "a pair of", "a couple of", "some"))
    return arranged(rng, Wish(f"{two} {rng.choice(('different ', '', ''))}{rng.choice(('shapes', 'things', 'shapes'))}", 2))


def anything(rng):
    return Wish(rng.choice(("anything", "surprise me", "a picture", "draw something nice", "whatever you like", "draw a picture")), asking=False)


def too_many(rng):
    """More than the picture model can show: it gets two."""
    kind = rng.choice(("shapes", "things", *(s + "s" for s in SHAPES if s != "cross")))
    asked = {} if kind in ("shapes", "things") else {"shape": kind[:-1]}
    return Wish(f"{rng.choice(('three', '3', 'four', 'many', 'lots of', 'several'))} {kind}", 2, [asked] * 2 if asked else [])


KINDS = ((one, 26), (two_named, 36), (one_placed, 13), (two_of_a_kind, 12), (bare_two, 7), (anything, 3), (too_many, 3))


def say_ground(rng, wish):
    ground = rng.choice(list(BACKGROUNDS))
    said = word(rng, ground)
    where = rng.choice(("on {}", "on {}", "on {a} background", "on {a} background", "on {a} ground", "with {a} background", "in front of {a} background"))
    where = where.format(said, a=with_article(said))
    wish.ground = ground
    wish.names = f"{where}, {wish.names}" if rng.random() < 0.12 else f"{wish.names} {where}"
    return wish


def draw_wish(rng):
    """(request, Wish)"""
    make = rng.choices([k for k, _ in KINDS], [n for _, n in KINDS])[0]
    wish = make(rng)
    if rng.random() < 0.3:
        wish = say_ground(rng, wish)
    text = wish.names
    if wish.asking and rng.random() < 0.3:
        text = rng.choice(ASKING).format(text)
    if rng.random() < 0.2:
        text = text[0].upper() + text[1:]
    if rng.random() < 0.12:
        text += rng.choice((".", ".", "!"))
    return text, wish


def plain(text):
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def never_trained(text):
    text = plain(text)
    return text in ALWAYS_HELD_OUT or zlib.crc32(text.encode()) % 100 < HELD_OUT_PERCENT


def other_than(rng, names, *taken):
    return rng.choice([n for n in names if n not in taken])


def grant(rng, wish):
    """A caption with everything that the wish names, in the order of the request and in canonical words.

    What a caption has to name is chosen by chance, other than the other thing has it; now and then a ground; never a size."""
    count = wish.count or rng.choice((1, 2))
    asked = [dict(a) for a in wish.things] + [{} for _ in range(count - len(wish.things))]
    for name, names in (("colour", list(COLOURS)), ("shape", SHAPES)):
        for k, thing in enumerate(asked):
            thing.setdefault(name, other_than(rng, names, *(t.get(name) for t in asked if t is not thing)))
    if count == 2 and asked[0] == asked[1]:  # both shapes or both colours were named, and nothing else keeps the two apart
        raise ValueError(f"two things alike: {wish.names}")
    parts = [with_article(" ".join(t[k] for k in ("size", "colour", "shape") if k in t)) for t in asked]
    ground = wish.ground or (rng.choice(list(BACKGROUNDS)) if rng.random() < 0.3 else "")
    if count == 2:
        parts.insert(1, PLAIN[rng.choice(wish.relations or tuple(RELATIONS))])
    return " ".join(parts) + (f" on a {ground} background" if ground else "")


def example_at(seed, index, held_out=False):
    """(request, wish, caption) number index of the endless list that seed names."""
    rng = random.Random(f"{seed}/{index}")
    while True:
        text, wish = draw_wish(rng)
        if never_trained(text) == held_out:
            return text, wish, grant(rng, wish)
