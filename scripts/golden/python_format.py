"""tests/golden/formats.txt: what Python's str.format makes of texts and values, as StringFormat has to.

A line each: TEXT, a, b, the result, with tabs between. A value has its type before it (`i:12`, `f:0.5`, `b:True`, `s:a text`); `!` in the place of the
result is an exception of Python's, `=` stands before a result. \\n, \\t, \\r and \\\\ are written so.
"""

import random
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden/formats.txt"
WHOLE = [0, 1, -1, 7, 42, -42, 255, 1000, 1234567, -987654321, 65, 0x20AC, 2**63 - 1, -(2**63)]
REAL = [0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 2.5, -2.5, 0.5, 1.5, 123456.789, -0.0004, 1e-5, 1e16, 1e15, 123456789012345680.0, 1e22, 1e300, 5e-324, 99.5, 0.05, 999999.5,
        float("inf"), float("-inf"), float("nan")]
TRUTH = [True, False]
TEXT = ["", "a", "hello", "it's", 'say "hi"', "both ' and \"", "naïve", "東京", "tab\tline\n", "back\\slash", "\u00a0\u200b", "\x01\x7f", "😀 x"]
FORMS = ["{a}", "{a}{b}", "{a} and {b}!", "{{{a}}}", "{{a}}", "no field", "", "{a!r}", "{a!s:>8}", "{a!a}", "{b!r:^20}", "{a[0]}", "{a[1]!r}", "{a[99]}", "{a[x]}", "{a[0", "{a:{b}}", "{a:>{b}}",
         "{a:{b}.{b}}", "{a:{b:{a}}}", "{", "}", "{a", "{a}}", "{a!}", "{a!x}", "{a!rr}", "{a!r:", "{:}", "{}", "{0}", "{c}", "{A}", "{aa}", "{a b}", "{a{b}}", "{a:{{}}}", "{a:}", "{a:}}", "{a.real}", "{a:.3f}{{}}{b:>5}",
         "{a: }", "{a!s}", "{a!s:.2}", "{a:é>9}", "{a:東^9}", "{a:<<9}", "{a:}<9}", "{a:1000000000000000000000}", "{a:.1000000000000000000000}", "{ a}", "{a }", "{a[-1]}", "{a[0]x}", "{a[0][0]}", "{a[1][1]}", "{a[]}", "{!r}", "{a!r }"]


def spec(r, a):
    """One of the mini-language, now and then with a part that does not belong."""
    text = ""
    if r.random() < 0.4:
        text += (r.choice("*0x_ é-") if r.random() < 0.6 else "") + r.choice("<>=^")
    if r.random() < 0.3:
        text += r.choice("+- ")
    if r.random() < 0.1:
        text += "z"
    if r.random() < 0.2:
        text += "#"
    if r.random() < 0.3:
        text += "0"
    if r.random() < 0.6:
        text += str(r.choice([1, 3, 5, 8, 10, 13, 20]))
    if r.random() < 0.3:
        text += r.choice(",_")
    if r.random() < 0.4:
        text += "." + str(r.choice([0, 1, 2, 3, 5, 10, 17, 20]))
    if r.random() < 0.7:
        own = "s" if isinstance(a, str) else "eEfFgG%n" if isinstance(a, float) else "bcdoxXneEfFgG%"
        text += r.choice(own if r.random() < 0.9 else "bcdoxXneEfFgG%srqyZ")
    return text


def of_type(value):
    return {bool: "b", int: "i", float: "f", str: "s"}[type(value)] + ":" + str(value)


def escaped(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def row(text, a, b):
    try:
        result = "=" + text.format(a=a, b=b)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, AttributeError, MemoryError):
        result = "!"
    return "\t".join(map(escaped, (text, of_type(a), of_type(b), result))) + "\n"


def main():
    r = random.Random(34)
    lines = [row(form, a, b) for form in FORMS for a, b in ((42, 5), (0.1, 7), ("hello", 9), (True, "x"), ("", ""), (-1.5, "it's"))]
    lines += [row("{a!r} {a!a} {a}", text, 0) for text in TEXT]
    lines += [row("{a} {a!r}", value, 0) for value in WHOLE + REAL + TRUTH]
    for _ in range(2000):
        kind = r.random()
        a = r.choice(WHOLE if kind < 0.35 else REAL if kind < 0.75 else TEXT if kind < 0.9 else TRUTH)
        lines.append(row("{a:" + spec(r, a) + "}", a, 0))
    # Attributes of numbers, and texts with a NUL, are Python's alone.
    GOLDEN.write_text("".join(line for line in dict.fromkeys(lines) if not line.startswith("{a.real}") and "\0" not in line))


if __name__ == "__main__":
    main()
