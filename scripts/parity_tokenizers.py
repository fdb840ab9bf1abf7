"""kiln's tokenizers against the libraries that made their files, on strings of every script.

    python3 scripts/parity_tokenizers.py --build build/release                     100,000 strings for each kind (make parity-tokenizers)
    python3 scripts/parity_tokenizers.py --build build/release --n 2000 gpt2       fewer, of some kinds
    python3 scripts/parity_tokenizers.py --build build/release --goldens           writes tests/tokenizer/data/*.golden
    python3 scripts/parity_tokenizers.py --train                                   trains the small vocabularies anew

Ids must be equal, spans in bytes too, and what the ids decode to. Wants tokenizers, sentencepiece and transformers. Exit 1 when anything differs.
"""
import argparse
import sys

import tokenizer_kit as kit


def compare(kiln, name, n, seed):
    files, kind, special, library = kit.KINDS[name]
    encode, decode = library(special)
    t = kiln.open(files, kind)
    wrong = {"ids": 0, "spans": 0, "decoded": 0}
    shown = 0
    for s in kit.texts(seed, n):
        ids, spans = encode(s)
        got, at = kiln.encode(t, s, special, special)
        what = "ids" if got != ids else "spans" if spans is not None and [x for x in at] != inside(spans, got, at) else None
        if not what and decode and kiln.decode(t, ids) != decode(ids):
            what = "decoded"
        if what:
            wrong[what] += 1
            shown += 1
            if shown <= 3:
                print(f"  {name}: {what} of {s[:200]!r}")
                if what == "decoded":
                    print(f"    kiln {kiln.decode(t, ids)[:200]!r}\n    want {decode(ids)[:200]!r}")
                elif what == "ids":
                    print(f"    kiln {got[:60]}\n    want {ids[:60]}")
                else:
                    print(f"    kiln {at[:40]}\n    want {spans[:40]}\n    ids {ids[:40]}")
    print(f"{name}: {n} strings, {wrong['ids']} differ in ids, {wrong['spans']} in spans, {wrong['decoded']} when decoded", flush=True)
    return sum(wrong.values())


def inside(spans, ids, at):
    """Begin and end tokens stand for nothing of the text: the libraries write 0..0, kiln the place."""
    return [b if a == (0, 0) and b[0] == b[1] else a for a, b in zip(spans, at)]


def golden(kiln, name):
    """A line for each source of the same ids: kind and files. Then a line a string: its UTF-8 in hexadecimal, and id:from:to of each token."""
    _, _, special, library = kit.KINDS[name]
    encode, _ = library(special)
    lines = []
    for other, (files, kind, _, _) in kit.KINDS.items():
        if other == name or other in kit.SAME.get(name, []):
            lines.append(f"# {kind or '-'} {special} {' '.join(f'{p.relative_to(kit.ROOT)}={n}' for n, p in files)}")
    t = kiln.open(*kit.KINDS[name][:2])
    for s in kit.texts(99, 260):
        if len(s) > 250:
            continue
        ids, spans = encode(s)
        got, at = kiln.encode(t, s, special, special)
        spans = inside(spans, ids, at) if len(got) == len(ids) else spans
        lines.append(f"{s.encode().hex() or '-'} {' '.join(f'{i}:{a}:{b}' for i, (a, b) in zip(ids, spans))}")
    (kit.DATA / f"{name}.golden").write_text("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build/release")
    p.add_argument("--n", type=int, default=100000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--goldens", action="store_true")
    p.add_argument("--train", action="store_true")
    p.add_argument("kinds", nargs="*")
    a = p.parse_args()
    if a.train:
        return kit.train()
    kiln, names = kit.Kiln(kit.ROOT / a.build), a.kinds or list(kit.KINDS)
    if a.goldens:
        for name in names:
            if not any(name in same for same in kit.SAME.values()):
                golden(kiln, name)
        return 0
    return 1 if sum(compare(kiln, name, a.n, a.seed) for name in names) else 0


sys.exit(main())
