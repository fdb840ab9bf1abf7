"""A small byte-complete BPE tokenizer in CLIP's file format, trained on a few sentences.

The layout of the vocabulary is CLIP's: 256 byte symbols, the same 256 with the word end `</w>`, one entry
for each merge, then <|startoftext|> and <|endoftext|>. Source: Radford et al. 2021, section 2.4, and
Sennrich et al. 2016 for the merges.
"""

import collections
import json
import re

WORD = re.compile(r"[^\W\d_]+|\d|[^\s\w]+")
BOS, EOS = "<|startoftext|>", "<|endoftext|>"

SENTENCES = """
a photo of a cat. a photo of a cute cat sitting on a red chair, highly detailed.
a red circle to the left of a blue square. a green triangle above a yellow star on a white background.
a small purple ring below a large orange heart. a picture of a black cross to the right of a pink diamond.
a painting of a landscape with mountains and a river at sunset, oil on canvas, masterpiece.
portrait of an old man with a beard, soft light, studio photograph. blurry, low quality, bad anatomy.
the quick brown fox jumps over the lazy dog. it's what they're doing; we've seen that you'll like it.
a dog and a cat in the garden, watercolor, in the style of a children's book.
"""


def byte_symbols():
    """Each byte as a printable character: Latin-1's visible ones as they are, the rest from U+0100 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    table = {byte: chr(byte) for byte in visible}
    table.update({byte: chr(256 + index) for index, byte in enumerate(hidden)})
    return table


def join_pair(word, pair):
    joined, index = [], 0
    while index < len(word):
        if word[index : index + 2] == list(pair):
            joined.append(pair[0] + pair[1])
            index += 2
        else:
            joined.append(word[index])
            index += 1
    return joined


def train(text, merges_wanted):
    """The `merges_wanted` most frequent merges, ties broken by the symbols themselves."""
    symbols = byte_symbols()
    counts = collections.Counter(WORD.findall(text.lower()))
    words = []
    for word, count in sorted(counts.items()):
        letters = [symbols[byte] for byte in word.encode()]
        letters[-1] += "</w>"
        words.append((letters, count))
    merges = []
    while len(merges) < merges_wanted:
        pairs = collections.Counter()
        for letters, count in words:
            for pair in zip(letters, letters[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = [(join_pair(letters, best), count) for letters, count in words]
    return merges


def vocabulary(merges):
    symbols = list(byte_symbols().values())
    entries = symbols + [symbol + "</w>" for symbol in symbols] + ["".join(pair) for pair in merges] + [BOS, EOS]
    return {entry: index for index, entry in enumerate(entries)}


def write_folder(folder, merges):
    """The four tokenizer files of a diffusers folder."""
    folder.mkdir(parents=True, exist_ok=True)
    vocab = vocabulary(merges)
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    lines = ["#version: 0.2"] + [" ".join(pair) for pair in merges]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    specials = {"bos_token": BOS, "eos_token": EOS, "unk_token": EOS, "pad_token": EOS}
    (folder / "special_tokens_map.json").write_text(json.dumps(specials, indent=2) + "\n")
    config = {
        **specials,
        "add_prefix_space": False,
        "do_lower_case": True,
        "model_max_length": 77,
        "tokenizer_class": "CLIPTokenizer",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    return vocab
