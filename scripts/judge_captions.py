#!/usr/bin/env python3
"""Judges captions made from requests: is each a caption of shapes-sd1's language, and does it keep what was asked for?

    python3 scripts/judge_captions.py tests/judge/requests-200.txt CAPTIONS [--at-least 190]
    python3 scripts/judge_captions.py --make tests/judge/requests-200.txt

CAPTIONS: one caption a line, in the order of the requests. The list has lines of seed<tab>request<tab>wish; the wish is what
scripts/shapes/caption_grammar.py calls one, as JSON. --make writes the list anew: 200 requests that training never sees.
Needs numpy and Pillow (for scenes.py, whose words the grammar uses).
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from shapes.caption_grammar import keeps, read_caption
from shapes.wishes import ALWAYS_HELD_OUT, example_at, plain

MADE_FROM, FIRST_SEED, COUNT = "requests to judge", 1, 200


def read_list(path):
    """[(seed, request, wish)]"""
    with open(path, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]
    return [(int(seed), request, json.loads(wish)) for seed, request, wish in rows]


def make(path):
    """The four always held out, then others in the order in which they are drawn; no two alike."""
    found, index = {}, 0
    while not all(text in found for text in ALWAYS_HELD_OUT) or len(found) < 20 * COUNT:
        request, wish, _ = example_at(MADE_FROM, index, held_out=True)
        found.setdefault(plain(request), (request, wish))
        index += 1
    chosen = list(ALWAYS_HELD_OUT) + [text for text in found if text not in ALWAYS_HELD_OUT][: COUNT - len(ALWAYS_HELD_OUT)]
    with open(path, "w", encoding="utf-8") as f:
        f.write("# seed<tab>request<tab>what it asks for. Made by scripts/judge_captions.py --make of requests that training leaves out.\n")
        for k, text in enumerate(chosen):
            request, wish = found[text]
            f.write(f"{FIRST_SEED + k}\t{request}\t{json.dumps(wish.asked())}\n")


def judge(rows, captions):
    """[(verdict, request, caption)]: "right", "no caption" or "not kept"."""
    out = []
    for (_, request, wish), caption in zip(rows, captions):
        read = read_caption(caption)
        out.append(("no caption" if read is None else "right" if keeps(wish, read) else "not kept", request, caption))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("requests")
    parser.add_argument("captions", nargs="?")
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--at-least", type=int, default=0)
    args = parser.parse_args()
    if args.make:
        return make(args.requests)
    if not args.captions:
        parser.error("CAPTIONS is missing: a file with a caption for each request")
    rows = read_list(args.requests)
    with open(args.captions, encoding="utf-8") as f:
        captions = f.read().splitlines()
    if len(captions) != len(rows):
        sys.exit(f"{args.captions}: {len(captions)} lines for {len(rows)} requests of {args.requests}")
    verdicts = judge(rows, captions)
    for verdict, request, caption in verdicts:
        if verdict != "right":
            print(f"{verdict}: {request!r} -> {caption!r}")
    right = sum(v == "right" for v, _, _ in verdicts)
    language = sum(v != "no caption" for v, _, _ in verdicts)
    print(f"{right} of {len(rows)} are captions that keep what was asked for; {language} are captions of the language")
    sys.exit(right < args.at_least)


if __name__ == "__main__":
    main()
