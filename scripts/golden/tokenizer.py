"""tokenizer.safetensors, tokenizer_tiny.safetensors and clip-tokenizer/: CLIP's BPE ids by transformers.

clip-tokenizer/ holds OpenAI CLIP's vocabulary (49,408 entries, MIT) as vocab.json and merges.txt. It is made
from bpe_simple_vocab_16e6.txt.gz, which the packages open_clip_torch and clip-anytorch carry: give its path
with --bpe. Without --bpe the committed folder is used as it is.
"""

import argparse
import gzip
import pathlib
import random

import bpe
import strings
import tiny
from common import GOLDEN, save, versions

FOLDER = GOLDEN / "clip-tokenizer"
MERGES = 49152 - 256 - 2

TEXTS = [
    "", " ", "  \t\n ", "a", "cat", "cute", "A CAT", "a cat", "a  cat", " a cat ", "a\tcat\nsat", "a cute cat",
    "a photo of a cute cat", "it's", "IT'S", "they're we've I'm you'll he'd don't can't", "'s 's'm", "it ' s", "''", "'", "' t",
    "rock'n'roll", "it’s a typographic ’re", "o'clock", "1", "12", "123", "2024-08-22", "3.14159", "1girl", "4k 8K uhd", "x2x3",
    "①②③ ½ ² Ⅷ", "٣٤٥", "hello, world!", "hello,world!", "...", "…", "!?!?", "a.b.c", "(a)", "((a:1.2))", "[a|b]", "{x}", "<lora:x:1>",
    "#hashtag @user", "email@example.com", "https://example.com/a?b=c&d=e", "C++ and C#", "50% off $9.99", "a/b\\c", "under_score",
    "snake_case_name_2", "--flag", "*bold* _it_", "`code`", "~^|", "\"quoted\"", "“quoted”", "«guillemets»", "a—b–c-d",
    "naïve café", "nai\u0308ve cafe\u0301", "Ünïcödé", "STRASSE straße", "İstanbul", "ıI", "Ǆǅǆ", "ﬁ ﬂ", "Å Å Å", "Σίσυφος ΣΑΣ", "привет мир",
    "ПРИВЕТ", "שלום", "مرحبا بالعالم", "नमस्ते", "สวัสดี", "日本", "日本語の文章", "中文提示词，测试。", "한국어", "가", "ｆｕｌｌ　ｗｉｄｔｈ",
    "😀", "😀😀", "a 😀 b", "👨‍👩‍👧‍👦", "🇫🇷", "👍🏽", "❤️", "☃", "a\u200bb", "a\u00a0b", "a\u00adb", "a\u2028b", "\ufeffbom", "\u202eabc",
    "\u0001\u0002", "a\u007fb", "\x1b[31m", "a\x85b", "\ue000", "\U0001d54f", "𝒜 𝔸", "z̷a̷l̷g̷o̷", "\ufffd", "\U0010ffff",
    "<|startoftext|>", "<|endoftext|>", "a <|endoftext|> b", "a<|endoftext|>b", "<|ENDOFTEXT|>", "<|other|>", "<|endoftext|", "</w>", "a</w>", "w</w> x",
    "antidisestablishmentarianism", "pneumonoultramicroscopicsilicovolcanoconiosis", "supercalifragilisticexpialidocious",
    "xqzjvk", "qqqqqqqqqqqqqqqq", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "x" * 300, "ab" * 150, "!" * 200, "é" * 100, "日" * 60,
    "masterpiece, best quality, ultra-detailed, 8k", "trending on artstation, by greg rutkowski", "octane render, unreal engine 5",
    "a red circle to the left of a blue square", "small purple ring below a large orange heart", "DSLR photo, f/1.8, 85mm, ISO 100",
    "oil on canvas, 19th century", "blurry, lowres, bad anatomy, extra fingers, watermark", "a man's best friend", "women's 100m hurdles",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua.",
    "The quick brown fox jumps over the lazy dog", "SPHINX OF BLACK QUARTZ, JUDGE MY VOW", "aAaA bBbB", "CamelCaseWord", "iPhone15Pro",
    "über-cool", "coöperate", "façade", "smörgåsbord", "crème brûlée", "jalapeño", "El Niño", "Dvořák", "Łódź", "Đà Nẵng", "ﷺ", "™ ® ©", "°C", "µm", "€£¥",
    "½ cup", "x² + y² = z²", "∑ ∞ ≈ ≠", "→ ← ↑ ↓", "♠♥♦♣", "┌─┐", "▀▄█", "♪♫",
]  # fmt: skip


def counted(words):
    return [" ".join(["cat"] * words), " ".join(f"word{index}" for index in range(words))]


def random_texts(count):
    """Random mixes of scripts, digits, marks and blanks."""
    source = random.Random(20)
    alphabet = "abcdeXYZ019 .,'’-!\t\nßéñ日本한пр😀🎉א\u0301"
    return ["".join(source.choice(alphabet) for _ in range(source.randint(1, 40))) for _ in range(count)]


def all_texts():
    long = [text for words in (73, 74, 75, 76, 77, 78, 200) for text in counted(words)]
    return TEXTS + long + random_texts(40)


def write_official(path):
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")[1 : MERGES + 1]
    merges = [tuple(line.split()) for line in lines]
    bpe.write_folder(FOLDER, merges)


def load(folder=FOLDER):
    from transformers import CLIPTokenizer

    return CLIPTokenizer.from_pretrained(folder)


def write(name, clip, texts, what):
    rows = [clip(text)["input_ids"] for text in texts]
    tensors = {**strings.pack("text", texts), **strings.ragged("ids", rows)}
    save(GOLDEN / name, tensors, {**versions(), "what": what, "strings": len(texts)})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bpe", type=pathlib.Path, help="bpe_simple_vocab_16e6.txt.gz")
    arguments = parser.parse_args()
    if arguments.bpe:
        write_official(arguments.bpe)
    clip = load()
    for word, wanted in {"a": 320, "cat": 2368, "cute": 2242}.items():
        got = clip(word)["input_ids"]
        if got != [49406, wanted, 49407]:
            raise SystemExit(f"clip-tokenizer: '{word}' gives {got}, not {[49406, wanted, 49407]}")
    what = (
        "transformers CLIPTokenizer of {}: text i (UTF-8, text_bytes[text_first[i]..text_first[i+1]-1]) -> ids "
        "ids[ids_first[i]..ids_first[i+1]-1], BOS and EOS included, neither padded nor cut"
    )
    write("tokenizer.safetensors", clip, all_texts(), what.format("clip-tokenizer"))
    write("tokenizer_tiny.safetensors", load(tiny.FOLDER / "tokenizer"), TEXTS, what.format("tiny-sd1/tokenizer"))


if __name__ == "__main__":
    main()
