"""A small tokenizer of Gemma's kind: byte-pair merges over letters, "▁" for a blank, bytes for everything else, turns as tokens.

Learnt from requests and captions (wishes.py): words of the captions first, so that each of them is one token. tokenizer.json,
tokenizer_config.json and chat_template.jinja are what transformers' AutoTokenizer and others read.
"""
import json
import os
import re
from collections import Counter

from .bpe import merge_word
from .common import SEED
from .scenes import BACKGROUNDS, COLOURS, SHAPES, SIZES
from .wishes import example_at

SIZE = 512
EXAMPLES = 20000
CAPTION_WEIGHT = 1000  # words of captions are merged before those of requests
PAD, EOS, BOS, UNK, MASK = range(5)
SPECIALS = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|tool_response>", "<tool_response|>", "<|think|>", "<|channel>", "<channel|>", "<|turn>", "<turn|>",
            "<|image>", "<|image|>", "<image|>")
CONTROL = {name: i for i, name in enumerate(SPECIALS)}
SPACE = "\u2581"
LETTERS = SPACE + "abcdefghijklmnopqrstuvwxyz,."
TEMPLATE = """{{ bos_token }}{% for m in messages %}<|turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}
{{ m['content'] | trim }}<turn|>
{% endfor %}{% if add_generation_prompt %}<|turn>model
{% endif %}"""


def corpus():
    """How often each word occurs, with its blank before it."""
    words = Counter({w: CAPTION_WEIGHT * 100 for w in ("user", "model", "system", "a", "an")})
    for name in (*SHAPES, *COLOURS, *BACKGROUNDS, *SIZES):
        words[SPACE + name] += CAPTION_WEIGHT
    for i in range(EXAMPLES):
        request, _, caption = example_at(SEED, i)
        words.update(re.findall(rf"{SPACE}?[a-z]+", request.replace(" ", SPACE)))
        for w in re.findall(rf"{SPACE}?[a-z]+", caption.replace(" ", SPACE)):
            words[w] += CAPTION_WEIGHT
    return words


def learn(words, room):
    """Merges that add at most `room` tokens; ties go to the pair that sorts first."""
    split = {w: list(w) for w in words}
    merges, tokens = [("\n", "\n")], ["\n\n"]
    while len(tokens) < room:
        pairs = Counter()
        for word, parts in split.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        if "".join(best) not in tokens:
            tokens.append("".join(best))
        split = {w: merge_word(p, best) for w, p in split.items()}
    return merges, tokens


def write(folder):
    names = [*SPECIALS, *(f"<0x{b:02X}>" for b in range(256)), "\n", *LETTERS]
    merges, tokens = learn(corpus(), SIZE - len(names))
    names += tokens
    names += [f"<unused{i}>" for i in range(SIZE - len(names))]
    added = [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, s in enumerate(SPECIALS)]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                    {"SpecialToken": {"id": "<bos>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"<bos>": {"id": "<bos>", "ids": [BOS], "tokens": ["<bos>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
                  "byte_fallback": True, "ignore_merges": False, "vocab": {n: i for i, n in enumerate(names)}, "merges": [list(m) for m in merges]},
    }
    config = {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>",
              "add_bos_token": True, "add_eos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": 512, "padding_side": "left"}
    os.makedirs(folder, exist_ok=True)
    for name, what in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(what, f, ensure_ascii=False, indent=1)
            f.write("\n")
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write(TEMPLATE)


def chat(request, system=""):
    """The prompt as the template writes it."""
    before = f"<|turn>system\n{system}<turn|>\n" if system else ""
    return f"<bos>{before}<|turn>user\n{request}<turn|>\n<|turn>model\n"
