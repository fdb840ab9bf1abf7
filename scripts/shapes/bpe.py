"""A byte-pair tokenizer in CLIP's file format, learnt from the captions of the scenes.

vocab.json holds the 256 byte symbols, the same with </w> (the end of a word), one entry per merge and the two specials,
in this order; merges.txt holds the merges, first learnt first. Every text tokenises, since every byte has a symbol.
"""
import json
import os
import re
from collections import Counter

from .common import SEED
from .scenes import BACKGROUNDS, COLOURS, SHAPES, SIZES, scene_at

START, END = "<|startoftext|>", "<|endoftext|>"
CAPTIONS = 20000
MAX_MERGES = 400


def byte_symbols():
    """The printable stand-in for each byte that GPT-2's and CLIP's files use (Radford et al. 2019)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    symbols = {b: chr(b) for b in plain}
    for b in range(256):
        if b not in symbols:
            symbols[b] = chr(256 + len(symbols) - len(plain))
    return symbols


def corpus():
    words = Counter()
    for i in range(CAPTIONS):
        words.update(re.findall(r"[a-z]+", scene_at(SEED, i).caption))
    for name in (*SHAPES, *COLOURS, *BACKGROUNDS, *SIZES):
        words[name] += 1
    return words


def merge_word(parts, pair):
    out, i = [], 0
    while i < len(parts):
        if tuple(parts[i:i + 2]) == pair:
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return out


def learn(words):
    """Merges until every word of the corpus is one token; ties go to the pair that sorts first."""
    split = {w: [*w[:-1], w[-1] + "</w>"] for w in words}
    merges = []
    while len(merges) < MAX_MERGES:
        pairs = Counter()
        for word, parts in split.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        split = {w: merge_word(parts, best) for w, parts in split.items()}
    return merges


def write(folder):
    os.makedirs(folder, exist_ok=True)
    symbols = byte_symbols()
    ordered = sorted(symbols.values())
    merges = learn(corpus())
    entries = [*ordered, *(s + "</w>" for s in ordered), *("".join(m) for m in merges), START, END]
    assert len(set(entries)) == len(entries)
    dump(folder, "vocab.json", {token: i for i, token in enumerate(entries)})
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8", newline="\n") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    special = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}
    dump(folder, "special_tokens_map.json", special)
    dump(folder, "tokenizer_config.json", {
        **special, "tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "do_lower_case": True,
        "add_prefix_space": False, "errors": "replace",
    })


def dump(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")


def load(folder):
    from transformers import CLIPTokenizer
    return CLIPTokenizer.from_pretrained(folder)
