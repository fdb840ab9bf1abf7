"""The language of shapes-sd1's captions as a grammar, and whether a caption keeps what a wish asks for.

    CAPTION  = [OPENING] THING [on a GROUND background] | [OPENING] PLAIN RELATION PLAIN [on a GROUND background]
    THING    = a|an [SIZE] COLOUR SHAPE          PLAIN = a|an COLOUR SHAPE

Words stand in scenes.py. Stricter than what the picture model bears: lower case, the right article, one blank between words, no
two things of the same colour and shape.

A wish is a dict: "count" (1, 2 or None for any), "things" (dicts of colour, shape, size; what is missing is free), "relations"
(the places that things[0] may have seen from things[1]; empty: any), "ground" ("" : any).
"""
import re

from .scenes import BACKGROUNDS, COLOURS, MIRROR, OPENINGS, RELATIONS, SHAPES, SIZES, article

WORDS = {phrase: place for place, phrases in RELATIONS.items() for phrase in phrases}


def either(words):
    return "|".join(sorted(words, key=len, reverse=True))


THING = rf"(an?) (?:({either(SIZES)}) )?({either(COLOURS)}) ({either(SHAPES)})"
CAPTION = re.compile(rf"(?:{either(o for o in set(OPENINGS) if o)})?{THING}(?: ({either(WORDS)}) {THING})?(?: on (an?) ({either(BACKGROUNDS)}) background)?")


def read_thing(says, size, colour, shape):
    return {"colour": colour, "shape": shape, "size": size or ""} if says == article(size or colour) else None


def read_caption(text):
    """{"things", "relation", "ground"} of a caption of the language, else None."""
    found = CAPTION.fullmatch(text)
    if not found:
        return None
    a = found.groups()
    things = [read_thing(*a[0:4])] + ([read_thing(*a[5:9])] if a[4] else [])
    if None in things or (a[10] and a[9] != article(a[10])):
        return None
    if len(things) == 2 and (things[0] == things[1] or any(t["size"] for t in things)):
        return None
    return {"things": things, "relation": WORDS[a[4]] if a[4] else "", "ground": a[10] or ""}


def fits(asked, thing):
    return all(thing[k] == v for k, v in asked.items())


def keeps(wish, caption):
    """True when the caption (as read_caption gives it) shows everything the wish names, and as many things as it asks for."""
    things, relation = caption["things"], caption["relation"]
    if wish["count"] not in (None, len(things)) or len(wish["things"]) > len(things):
        return False
    if wish["ground"] and wish["ground"] != caption["ground"]:
        return False
    asked = wish["things"] + [{}] * (len(things) - len(wish["things"]))
    orders = {(0, 1): relation, (1, 0): MIRROR[relation]} if len(things) == 2 else {(0,): ""}
    for order, place in orders.items():
        if all(fits(a, things[k]) for a, k in zip(asked, order)) and (not wish["relations"] or place in wish["relations"]):
            return True
    return False
