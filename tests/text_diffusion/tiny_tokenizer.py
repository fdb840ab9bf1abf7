"""dg-tiny's tokenizer: 512 entries as Gemma 4 has them, in tokenizer.json, and what the tokenizers library makes of some texts with it."""

import json

from tokenizers import Tokenizer

# the text of an id that stands elsewhere than in its row
SPECIAL = {46: "<|tool>", 47: "<tool|>", 48: "<|tool_call>", 49: "<tool_call|>", 50: "<|tool_response>", 51: "<tool_response|>", 52: '<|"|>', 98: "<|think|>",
           100: "<|channel>", 101: "<channel|>", 105: "<|turn>", 106: "<turn|>"}
NEWLINES = {107: "\n", 108: "\n\n", 109: "\n\n\n"}
WORDS = ["a", "red", "circle", "blue", "square", "green", "the", "he", "model", "user", "system", "left", "of", "and", "on", "er", "in"]
MERGES = ["t h", "th e", "h e", "e r", "r e", "re d", "e d", "i n", "o n", "o f", "▁ a", "▁ the", "▁ red", "b l", "bl u", "blu e", "▁ blue", "\n \n", "\n\n \n", "▁ ▁",
          "▁▁ ▁▁", "s q", "sq u", "squ a", "squa re", "▁ square", "c i", "ci r", "cir c", "circ l", "circl e", "▁ circle", "a n", "an d", "▁ and", "m o", "mo d", "mod e",
          "mode l", "u s", "us er"]
TEXTS = ["a red circle", " a red circle and the blue square", "the the\n\nred", "\n\n\n\n\nx", "Zürich 漢字 🙂", "", "a  b   c    d", "<turn|> is no token here", "line\nline\n\nline",
         "tab\tand\r\nreturn", "ered the here he", "\n", "x\n\n\ny", "squared circles"]


def texts():
    """The text of each of 512 ids."""
    row = {0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>", 4: "<mask>"} | SPECIAL | NEWLINES
    row |= {238 + b: f"<0x{b:02X}>" for b in range(256)}
    seen = set(row.values())
    wanted = ["▁"] + [chr(c) for c in range(33, 127)] + [m.replace(" ", "") for m in MERGES]
    free = [i for i in range(5, 509) if i not in row]
    for text in dict.fromkeys(wanted):
        if text not in seen:
            row[free.pop(0)] = text
    for i in range(512):
        row.setdefault(i, f"<unused{i}>")
    return [row[i] for i in range(512)]


def kinds(row):
    """GGUF's token types: 1 normal, 2 unknown, 3 control, 5 unused, 6 byte. As in the files that are around, <|tool_response> is called normal."""
    kind = lambda i, t: 2 if i == 3 else 3 if i < 5 or (i in SPECIAL and i != 50) else 6 if t.startswith("<0x") else 5 if t.startswith("<unused") else 1
    return [kind(i, t) for i, t in enumerate(row)]


def write_tokenizer(here):
    row = texts()
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, t in enumerate(row) if i < 5 or i in SPECIAL]
    whole = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[^\\n]+|[\\n]+"}, "behavior": "Isolated", "invert": False},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                           "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
                  "ignore_merges": False, "vocab": {t: i for i, t in enumerate(row)}, "merges": [m.split(" ") if not m.startswith("\n") else m.rsplit(" ", 1) for m in MERGES]},
    }
    (here / "dg-tiny/tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n")
    t = Tokenizer.from_file(str(here / "dg-tiny/tokenizer.json"))
    said = [{"text": text, "ids": t.encode(text, add_special_tokens=False).ids} for text in TEXTS]
    said = [s | {"decoded": t.decode(s["ids"])} for s in said]
    (here / "tokens.json").write_text(json.dumps({"kinds": kinds(row), "texts": said}, ensure_ascii=False, indent=None) + "\n")
