"""regex.txt: what Python's `re` makes of patterns, as ComfyUI's nodes ask it: a line each with pattern, text, flags and replacement, then whether there is a
match, all matches, group 1 of each, and the text replaced; or `error`. Some are written here, the others drawn."""

import random
import re
import warnings

from common import GOLDEN

TEXTS = ["", "aaa", "The quick brown fox", "x=1, y=22; z=333", "Größe ÄÖÜ straße", "line one\nline two\n\nlast", "a\tb \x1c c", "foo.bar@example.com, x@y.de", "[tag:value] [x]", "日本 2024年", "abcabcabx"]
WRITTEN = r"""a|a+|a*|a*?|(a)(b)?|\d+|(\w+)=(\d+)|^\w+|\w+$|^.*$|\bquick\b|\s+|\S+|[\s\S]+|[^\w\s]|[a-f]+|[]a]+|[^]a]+|[[:alpha:]]|[\w.]+@[\w.]+|(?P<n>\w)(?P=n)|(\w)\1|(?i:QUICK)|(?=x)x|(?<=\=)\d+|(?<!\d)\d(?!\d)
x{2}|x{,2}|a{1,}|a{2,3}?|a{|a{x|{|}|]|\x41|\u00e4|\U000065e5|\101|[\101]|[\b]|\a|\v|\.|\-|\[(\w+)(?::(\w+))?\]|(?:a|b)+c|(a|ab)(c|bcd)|(?>a+)b|a++b|a*+a|(?(1)a|b)|(x)?(?(1)=|\w)|(?P<q>t)?(?(q)a|b)
\Z|\Aaaa|a\Z|$|^|\b|\B|(?#note)a|(?i)THE|(?m)^l|(?s).+|é|ß|[ä-ü]|[À-ÿ]+|\W|\D+|[\d\s]+|[^\d]|()|(|)|a||b|(?:)|.|.?|.+?x|(.)(.)|(\d)(\d)(\d)|\s|\S|[\s]
*a|a**|a+*|(|)|[a|[z-a]|\q|\2|(?P<1>a)|(?<n>a)|(?R)|a(?i)b|\x4|[\w-z]|(*ACCEPT)|a{2}{3}|^*|(?P>n)|(?|a|b)|\Qa\E|\z|\p{L}|[\q]|(?(2)a)|\g1|\K|\R|\h|\u12""".replace("\n", "|#|")
REPLACEMENTS = ["", "-", r"<\g<0>>", r"[\1]", r"\n", r"\\", "é"]
PIECES = ["a", "b", "x", ".", r"\d", r"\w", r"\s", r"\b", "[ab]", "[^a]", r"[\d=]", "(", "(?:", ")", "|", "*", "+", "?", "{2}", "{1,2}", "*?", "^", "$", "é", " ", r"\1", "(?=", "=", "ß", "o", "fox"]


def written():
    """The bars between the patterns above are those outside of ( ) and [ ]."""
    for line in WRITTEN.split("|#|"):
        part, depth = "", 0
        for i, c in enumerate(line):
            before = line[i - 1] if i else ""
            if c == "|" and depth <= 0:
                yield part
                part, depth = "", 0
                continue
            part += c
            if before != "\\":
                depth += {"(": 1, ")": -1}.get(c, 0)
        yield part


def drawn(r):
    while True:
        yield "".join(r.choice(PIECES) for _ in range(r.randint(1, 7)))


def text_of(match, group):
    return match.group(group) or ""


def result(pattern, text, flags, replacement):
    try:
        p = re.compile(pattern, sum(getattr(re, f) for f in flags))
    except (re.error, OverflowError):
        return ["error"]
    try:
        sub = p.sub(replacement, text)
    except (re.error, IndexError):
        sub = "error"
    matches = list(p.finditer(text))
    ones = [text_of(m, 1) for m in matches] if p.groups else []
    return [str(bool(p.search(text))), "\n".join(text_of(m, min(p.groups, 1)) for m in matches), "\n".join(ones), sub]


def escaped(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def main():
    warnings.simplefilter("ignore")
    r, lines = random.Random(7), []
    for pattern in dict.fromkeys(written()):
        for text in TEXTS:
            if pattern == r"\B" and not text:
                continue  # a mistake of Python's before 3.14: there is no such place in an empty text
            flags = r.choice(["", "I", "M", "S", "IM", "IMS"])
            row = [pattern, text, flags, r.choice(REPLACEMENTS)]
            made = result(*row)
            lines.append(row + made)
            if made == ["error"]:
                break
    wrong = 0
    for pattern in drawn(r):
        row = [pattern, r.choice(TEXTS), r.choice(["", "I", "M", "IM"]), r.choice(REPLACEMENTS)]
        made = result(*row)
        wrong += made == ["error"]
        if made == ["error"] and wrong > 250:
            continue
        lines.append(row + made)
        if len(lines) > 2600:
            break
    (GOLDEN / "regex.txt").write_text("".join("\t".join(map(escaped, row)) + "\n" for row in lines))


if __name__ == "__main__":
    main()
