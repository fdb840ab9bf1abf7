"""Writes plugins/tokenizer/unicode_tables.c: what the `tokenizers` library takes for a letter, a digit, a control character.

The library answers from several Unicode versions at once (its regular expressions from one, its normal forms from an older one). Ids depend
on all of them, so the tables are asked of the library itself, code point by code point, and do not depend on a system's Unicode version.

    python3 scripts/tokenizer_tables.py >plugins/tokenizer/unicode_tables.c      (wants tokenizers; libutf8proc for the normal forms)
"""
import ctypes
import ctypes.util
import sys

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
ALL = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def matching(pattern):
    split, out = pre_tokenizers.Split(Regex(pattern), "removed", invert=True), set()
    for i in range(0, len(ALL), 4096):
        for piece, _ in split.pre_tokenize_str("".join(map(chr, ALL[i:i + 4096]))):
            out.update(map(ord, piece))
    return out


def ranges(codes):
    out = []
    for c in sorted(codes):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, doc, rows):
    print(f"\n/* {doc} */\nconst uint32_t {name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 118:
            print(line)
            line = "   "
        line += f" {row},"
    print(line + f"\n}};\nconst size_t {name}_n = sizeof {name} / sizeof {name}[0];")


def pairs(codes):
    return [f"{v:#x}" for r in ranges(codes) for v in r]


def categories():
    kind = {}
    for index, name in enumerate(CATEGORIES):
        for c in matching(rf"\p{{{name}}}"):
            kind[c] = index + 1
    rows, last = [], 0
    for c in range(0x110001):
        k = kind.get(c, 0) if not 0xD800 <= c <= 0xDFFF else last
        if k != last:
            rows.append(f"{c << 5 | k:#x}")
            last = k
    return rows


def lower():
    n, rows = normalizers.Lowercase(), []
    for c in ALL:
        small = n.normalize_str(chr(c))
        if small == chr(c) or len(small) > 1:  # U+0130 becomes two, the code says which
            continue
        delta = ord(small) - c
        if rows and rows[-1][3] == delta and c - rows[-1][1] in (1, 2) and rows[-1][2] in (0, c - rows[-1][1]):
            rows[-1][2] = c - rows[-1][1]
            rows[-1][1] = c
        else:
            rows.append([c, c, 0, delta])
    return [f"{v:#x}" for a, b, step, delta in rows for v in (a, b, step or 1, delta & 0xFFFFFFFF)]


def inert():
    """Code points that the library's normal forms leave alone although utf8proc of some version would not."""
    lib = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
    forms = [normalizers.NFD(), normalizers.NFKD(), normalizers.NFC(), normalizers.NFKC()]
    flags = [(1 << 1) | (1 << 4), (1 << 1) | (1 << 2) | (1 << 4), (1 << 1) | (1 << 3), (1 << 1) | (1 << 2) | (1 << 3)]

    def mapped(text, flag):
        data, out = text.encode(), ctypes.POINTER(ctypes.c_uint8)()
        n = lib.utf8proc_map(data, ctypes.c_ssize_t(len(data)), ctypes.byref(out), flag)
        return bytes(out[:n]).decode()

    must, matters = set(), set()
    for c in ALL:
        texts = [chr(c), "a" + chr(c) + "\u0334", "a\u0301" + chr(c), "a\u0345" + chr(c)]
        theirs = [f.normalize_str(t) for f in forms for t in texts]
        ours = [mapped(t, flag) for flag in flags for t in texts]
        if theirs != ours:
            must.add(c)
            continue
        if ours[0] != chr(c) or ours[4] != chr(c) or ours[1] != texts[1] or ours[2] != texts[2] or ours[3] != texts[3]:
            matters.add(c)
        matters.update(map(ord, ours[0] + ours[4] if ours[4] != chr(c) else ""))  # what others are made of
    matters -= must
    known = matching(r"\p{^Cn}")
    out, run = [], None
    for c in range(0x110000):  # what has no form either way may be in a range or not: ranges grow over it
        if c in must or (c not in known and not 0xD800 <= c <= 0xDFFF):
            run = [run[0] if run else c, c]
        elif c in matters and run:
            out.append(run)
            run = None
    if run:
        out.append(run)
    print(f"inert: {len(must)} differ", file=sys.stderr)
    return [f"{v:#x}" for r in out for v in r]


def main():
    print(f"/* unicode_tables.c - made by scripts/tokenizer_tables.py of tokenizers {tokenizers.__version__}; see unicode_tables.h. */")
    print('/* clang-format off */\n#include "unicode_tables.h"')
    rows = categories()
    table("unicode_category_starts", "code << 5 | category: from this code point on", rows)
    table("unicode_lower_ranges", "first, last, step, what is added", lower())
    table("unicode_inert_ranges", "first, last: no decomposition, no combining class", inert())
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    table("unicode_bert_control_ranges", "first, last: removed by BERT's cleaning",
          pairs({c for c in ALL if clean.normalize_str("a" + chr(c) + "b") == "ab"}))
    strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    table("unicode_bert_accent_ranges", "first, last: removed by BERT's accent stripping",
          pairs({c for c in ALL if strip.normalize_str("a" + chr(c) + "b") == "ab"}))
    marks = normalizers.StripAccents()
    table("unicode_combining_ranges", "first, last: removed by StripAccents",
          pairs({c for c in ALL if marks.normalize_str("a" + chr(c) + "b") == "ab"}))
    punctuation = pre_tokenizers.Punctuation()
    table("unicode_bert_punctuation_ranges", "first, last: punctuation to BERT",
          pairs({c for c in ALL if len(punctuation.pre_tokenize_str("a" + chr(c) + "a")) == 3}))
    digits = pre_tokenizers.Digits(individual_digits=True)
    table("unicode_numeric_ranges", "first, last: numeric to the Digits pre-tokenizer",
          pairs({c for c in ALL if len(digits.pre_tokenize_str("a" + chr(c) + "a")) == 3}))
    words = pre_tokenizers.Whitespace()
    table("unicode_word_ranges", "first, last: a word character to the Whitespace pre-tokenizer and to single_word",
          pairs({c for c in ALL if len(words.pre_tokenize_str("a" + chr(c))) == 1 and words.pre_tokenize_str("a" + chr(c))[0][0] != "a"}))
    table("unicode_pattern_word_ranges", "first, last: what \\w matches in a pattern", pairs(matching(r"\w")))


main()
