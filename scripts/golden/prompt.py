"""prompt.safetensors / prompt.json: how a prompt becomes weighted segments and chunks of 77 tokens.

An implementation of ComfyUI's rules as they are described, not of its code:
  - parentheses group; `(x)` multiplies the weight by 1.1, `(x:1.2)` sets it; `\\(` and `\\)` are literal;
  - a group opens only at depth 0; a closing one without an opening one makes the depth negative, and until
    the depth is 0 again parentheses are text; a group never closed is text, its parenthesis included;
  - what follows the last `:` of a group is its weight if it reads as a number and something stands before;
  - each segment is tokenized by itself. One that does not fit into the 75 free places moves to the next
    chunk if it has fewer than 8 tokens and is cut otherwise; BOS, EOS and padding have weight 1.
`embedding:name` is not covered here.
"""

import torch

import strings
from common import GOLDEN, save, save_json, versions

CHUNK = 77
SHORT = 8
OPEN, CLOSE = "\ue000", "\ue001"


def top_level(text):
    """Split into plain runs and groups; a group is a run that starts with `(` and ends with `)`."""
    items, current, depth = [], "", 0
    for letter in text:
        if letter == "(":
            if depth == 0 and current:
                items.append(current)
                current = ""
            depth += 1
            current += letter
        elif letter == ")":
            depth -= 1
            current += letter
            if depth == 0:
                items.append(current)
                current = ""
        else:
            current += letter
    return items + [current] if current else items


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def weigh(text, weight):
    """Escapes already replaced -> list of (text, weight)."""
    segments = []
    for item in top_level(text):
        if not (len(item) >= 2 and item[0] == "(" and item[-1] == ")"):
            segments.append((item, weight))
            continue
        inner, inner_weight = item[1:-1], weight * 1.1
        colon = inner.rfind(":")
        if colon > 0 and number(inner[colon + 1 :]) is not None:
            inner, inner_weight = inner[:colon], number(inner[colon + 1 :])
        segments += weigh(inner, inner_weight)
    return segments


def segments(text):
    """Prompt -> list of (literal text, weight)."""
    hidden = text.replace("\\(", OPEN).replace("\\)", CLOSE)
    return [(part.replace(OPEN, "(").replace(CLOSE, ")"), weight) for part, weight in weigh(hidden, 1.0)]


def chunks(tokenizer, text, pad=None):
    """Prompt -> list of chunks, each a list of 77 pairs (id, weight). pad: the tokenizer's own by default."""
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    pad = tokenizer.pad_token_id if pad is None else pad
    done, chunk = [], [(bos, 1.0)]

    def close():
        full = chunk + [(eos, 1.0)]
        done.append(full + [(pad, 1.0)] * (CHUNK - len(full)))

    for part, weight in segments(text):
        tokens = [(token, weight) for token in tokenizer(part)["input_ids"][1:-1]]
        short = len(tokens) < SHORT
        while tokens:
            free = CHUNK - 1 - len(chunk)
            if len(tokens) <= free:
                chunk += tokens
                tokens = []
                continue
            if not short:
                chunk += tokens[:free]
                tokens = tokens[free:]
            close()
            chunk = [(bos, 1.0)]
    close()
    return done


PROMPTS = [
    "",
    " ",
    "a cat",
    "(a cat)",
    "((a cat))",
    "(((a cat)))",
    "(a cat:1.2)",
    "(a cat:0.5) and (a dog:-1)",
    "((a cat:1.2):1.5)",
    "((a cat:1.2) and a dog:0.7)",
    "(a (cat) and (dog:1.3))",
    "( (a:1.2) b )",
    "a (red (very:1.5) big (old:0.5)) house",
    "a cat \\(animal\\)",
    "(a cat \\(animal\\):1.3)",
    "\\(a:1.2\\)",
    "a \\ b",
    "(a cat",
    "a cat)",
    "a) (b) c",
    "a) ((b) c",
    ")(",
    "()",
    "(())",
    "(:1.5)",
    "(a:)",
    "(a: 1.5 )",
    "(a:b:1.5)",
    "(a:1.5:2)",
    "(a:x)",
    "(a:1.2.3)",
    "(a:1e-1)",
    "(a:+2)",
    "(a:.5)",
    "(a:0)",
    "[a] {b|c} AND BREAK",
    "a:1.5",
    "(a\n:1.5)",
    "(日本:1.2) 😀(🎉)",
    "(masterpiece:1.2), (best quality:1.1), 1girl, solo, (looking at viewer:0.9)",
    " ".join(["cat"] * 74),
    " ".join(["cat"] * 75),
    " ".join(["cat"] * 76),
    " ".join(["cat"] * 77),
    " ".join(["cat"] * 78),
    " ".join(["cat"] * 200),
    " ".join(["cat"] * 72) + "(" + " ".join(["dog"] * 7) + ":1.2)",
    " ".join(["cat"] * 72) + "(" + " ".join(["dog"] * 8) + ":1.2)",
    " ".join(["cat"] * 75) + "(" + " ".join(["dog"] * 8) + ":1.2)",
    " ".join(["cat"] * 150) + "(dog:1.2)",
]


def main():
    import tokenizer as official

    clip = official.load()
    rows, texts, parts, weights, part_first = [], [], [], [], [0]
    ids, scales, chunk_first = [], [], [0]
    for text in PROMPTS:
        pieces, pages = segments(text), chunks(clip, text)
        texts.append(text)
        parts += [part for part, _ in pieces]
        weights += [weight for _, weight in pieces]
        part_first.append(len(parts))
        ids += [[token for token, _ in page] for page in pages]
        scales += [[weight for _, weight in page] for page in pages]
        chunk_first.append(len(ids))
        rows.append({"prompt": text, "segments": pieces, "chunks": len(pages)})
    tensors = {
        **strings.pack("prompt", texts),
        **strings.pack("segment", parts),
        "segment_weight": torch.tensor(weights, dtype=torch.float32),
        "segment_first": torch.tensor(part_first),
        "ids": torch.tensor(ids),
        "weights": torch.tensor(scales),
        "chunk_first": torch.tensor(chunk_first),
    }
    what = (
        "prompt i has segments segment_first[i]..segment_first[i+1]-1 and chunks chunk_first[i]..chunk_first[i+1]-1 "
        "(ids, weights [chunks,77], tokenizer: clip-tokenizer). Strings: NAME_bytes is UTF-8, string i is bytes "
        "NAME_first[i]..NAME_first[i+1]-1"
    )
    save(GOLDEN / "prompt.safetensors", tensors, {**versions(), "what": what})
    save_json(GOLDEN / "prompt.json", rows)


if __name__ == "__main__":
    main()
