"""tests/golden/expressions.txt and tests/golden/texts.txt: what Python makes of expressions and texts, as the nodes for them have to.

An expression a line: EXPRESSION, a, b, float(result), int(result), bool(result), with tabs between; `!` in the place of results is an exception of Python's.
A text a line: NODE, its settings, the result, with tabs between; \\n, \\t and \\\\ are written so.
"""

import json
import math
import random
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"
FUNCTIONS = {"abs": abs, "min": min, "max": max, "round": round, "sqrt": math.sqrt, "ceil": math.ceil, "floor": math.floor, "int": int, "float": float,
             "pow": pow, "log2": math.log2, "sum": lambda *v: sum(v)}
TEXTS = ["", "a", "Hello World", "  two  blanks ", "\tx\n", "naïve ÉCOLE", "it's o'clock", "3rd ÄÖÜ-test_case", "東京 TOKYO", "\u00a0nbsp\u2003", "a.b.a.b", "straße ŉ ﬁn ΐ ß", "İstanbul ǆ"]


def expression(r, depth=0):
    """Of numbers, a and b."""
    if depth > 3 or r.random() < 0.25:
        return r.choice(["a", "b", "2", "3", "7", "0.5", "1.25", "10", "1e2"])
    one, two = expression(r, depth + 1), expression(r, depth + 1)
    kind = r.random()
    if kind < 0.6:
        return f"{one} {r.choice(['+', '-', '*', '/', '//', '%'])} {two}"
    if kind < 0.7:
        return f"({one} {r.choice(['+', '-', '*'])} {two})"
    if kind < 0.74:
        return f"-{one} ** 2"
    if kind < 0.80:
        return f"({one} {r.choice(['<', '>', '<=', '>=', '==', '!='])} {two})"
    if kind < 0.85:
        return f"({one} if {expression(r, depth + 1)} > {two} else {two})"
    if kind < 0.89:
        return f"({one} {r.choice(['and', 'or'])} not {two})"
    name = r.choice(list(FUNCTIONS))
    if name in ("min", "max", "sum"):
        return f"{name}({one}, {two}, {expression(r, depth + 1)})"
    if name == "pow":
        return f"pow({one}, 2)"
    if name == "log2":
        return f"log2(abs({one}) + 1)"
    return f"{name}({f'abs({one})' if name == 'sqrt' else one})"


def evaluated(text, a, b):
    try:
        result = eval(text, {"__builtins__": {}, **FUNCTIONS}, {"a": a, "b": b})
        if isinstance(result, complex) or abs(result) > 2**62:
            return None
        return f"{float(result)!r}\t{int(result)}\t{bool(result)}"
    except (ArithmeticError, ValueError):
        return "!\t!\t!"


def escaped(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def texts():
    for t in TEXTS:
        for start, end in ((0, 3), (1, -1), (-4, 100), (5, 2), (-100, -2), (2, 2)):
            yield "StringSubstring", f"string={t};start={start};end={end}", t[start:end]
        for mode, f in (("Both", t.strip), ("Left", t.lstrip), ("Right", t.rstrip)):
            yield "StringTrim", f"string={t};mode={mode}", f()
        for mode, f in (("UPPERCASE", t.upper), ("lowercase", t.lower), ("Capitalize", t.capitalize), ("Title Case", t.title)):
            yield "CaseConverter", f"string={t};mode={mode}", f()
        yield "StringLength", f"string={t}", str(len(t))
        yield "TextToLowercase", f"texts={t}", t.lower()
        yield "TextToUppercase", f"texts={t}", t.upper()
        yield "StripWhitespace", f"texts={t}", t.strip()
        yield "TruncateText", f"texts={t};max_length=4", t[:4]
        yield "AddTextPrefix", f"texts={t};prefix=<", "<" + t
        yield "AddTextSuffix", f"texts={t};suffix=>", t + ">"
        yield "ReplaceText", f"texts={t};find=a;replace=ä", t.replace("a", "ä")
        yield "JsonExtractString", f"json_string={json.dumps({'k': t})};key=k", t
        for part in ("a", "É", "world", "zz"):
            yield "StringContains", f"string={t};substring={part};case_sensitive=true", str(part in t)
            yield "StringContains", f"string={t};substring={part};case_sensitive=false", str(part.lower() in t.lower())
            for mode, f in (("Starts With", str.startswith), ("Ends With", str.endswith), ("Equal", str.__eq__)):
                yield "StringCompare", f"string_a={t};string_b={part};mode={mode};case_sensitive=true", str(f(t, part))
                yield "StringCompare", f"string_a={t};string_b={part};mode={mode};case_sensitive=false", str(f(t.lower(), part.lower()))


def selected():
    """ResolutionSelector: sides in proportion, rounded to a multiple."""
    for name, (w, h) in (("1:1 (Square)", (1, 1)), ("2:3 (Portrait Photo)", (2, 3)), ("16:9 (Widescreen)", (16, 9)), ("21:9 (Ultrawide)", (21, 9))):
        for megapixels, multiple in ((0.1, 8), (1.0, 8), (1.0, 64), (3.7, 12)):
            scale = math.sqrt(megapixels * 1024 * 1024 / (w * h))
            sides = (round(side * scale / multiple) * multiple for side in (w, h))
            yield "ResolutionSelector", f"aspect_ratio={name};megapixels={megapixels};multiple={multiple}", "x".join(map(str, sides))


def from_json():
    value = {"s": "a 'b'", "i": 12, "f": 0.1, "e": 1e20, "t": True, "n": None, "l": [1, "x", 2.5, None, [], {}], "d": {"k": "it's", "q": 'say "hi"', "u": "Größe\n"}}
    for key in (*value, "absent"):
        text = "" if value.get(key) is None else str(value[key])
        yield "JsonExtractString", f"json_string={json.dumps(value)};key={key}", text
    for text in ("", "[1]", "{", "3", "nothing"):
        yield "JsonExtractString", f"json_string={text};key=k", ""


def main():
    r = random.Random(5)
    lines = []
    while len(lines) < 500:
        text, a, b = expression(r), r.choice([3, 16, 1024, -7, 1.5, 0.1]), r.choice([1, 2, 5, -3, 2.5])
        result = evaluated(text, a, b)
        if result and len(text) < 200:
            lines.append(f"{text}\t{a}\t{b}\t{result}\n")
    (GOLDEN / "expressions.txt").write_text("".join(lines))
    (GOLDEN / "texts.txt").write_text("".join("\t".join(map(escaped, row)) + "\n" for row in (*texts(), *selected(), *from_json())))


if __name__ == "__main__":
    main()
