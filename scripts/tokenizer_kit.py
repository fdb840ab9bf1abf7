"""What scripts/parity_tokenizers.py works with: texts of every script, small vocabularies trained on them, kiln's table, the libraries' answers.

Every kind of tokenizer is a row of KINDS: the folder with its files under tests/tokenizer/data, which of them kiln is given, and a function that
makes the library's encoder: text -> (ids, spans in bytes). Spans are None where a library has none, or has them otherwise.
"""
import base64
import ctypes
import json
import os
import random
import struct
import tempfile
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "tokenizer" / "data"

# ---- texts ------------------------------------------------------------------------------------------------------------------------


def by_script():
    """Code points by the first word of their name: near enough to scripts, and every one is drawn from."""
    out = {}
    for code in range(0x110000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        name = unicodedata.name(chr(code), "")
        key = name.split(" ")[0] if name else {"Cc": "CONTROL", "Co": "PRIVATE"}.get(unicodedata.category(chr(code)), "UNASSIGNED")
        if key.startswith("CJK"):
            key = "CJK"
        out.setdefault(key, []).append(code)
    return out


SCRIPTS = by_script()
NAMES = sorted(SCRIPTS)
LARGE = [n for n in NAMES if len(SCRIPTS[n]) >= 20]
MARKS = [c for c in range(0x110000) if unicodedata.category(chr(c))[0] == "M"]
DIGITS = [c for c in range(0x110000) if unicodedata.category(chr(c))[0] == "N"]
BLANKS = [c for c in range(0x110000) if chr(c).isspace()] + [0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x180E, 0x2581]
NEWER = [c for c in SCRIPTS["UNASSIGNED"] if c < 0x20000]  # what later versions of Unicode than Python's have is among these
EMOJI = [c for c in range(0x1F300, 0x1FAFF)] + [0x2764, 0x261D, 0x270C]
NORMAL = [c for c in range(0xA0, 0x30000) if unicodedata.normalize("NFKC", chr(c)) != chr(c) or unicodedata.normalize("NFD", chr(c)) != chr(c)]
WORDS = ("the of a photo cat dog painting in style by an old young woman man city street light dark red blue green house mountain river sky it's don't "
         "we're I'll they've you'd HE'S masterpiece best quality detailed 8k highres intricate sharp focus studio Portrait Landscape Straße naïve café "
         "coöperate über señor façade привет мир кошка картина город горы Αθήνα γάτα λόγος 你好 世界 猫 画 山水 東京 こんにちは ねこ カタカナ 한국어 고양이 그림 "
         "שלום חתול مرحبا قطة العربية हिन्दी बिल्ली ภาษาไทย แมว Tiếng Việt con mèo ქართული հայերեն தமிழ் తెలుగు বাংলা ગુજરાતી ਪੰਜਾਬੀ አማርኛ ខ្មែរ မြန်မာ "
         "ང་ཚོ ᠮᠣᠩᠭᠣᠯ ᏣᎳᎩ").split(" ")
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<|endoftext|>", "<|im_start|>", "<|IM_START|>", "<|startoftext|>", "<|begin_of_text|>", "[CLS]", "[SEP]", "[UNK]",
           "[MASK]", "<0x41>", "</w>", "##", "\u2581", "<user>", "<user2>", "<extra_id_0>", "[INST]"]


def chars(r, codes, low, high):
    return "".join(chr(r.choice(codes)) for _ in range(r.randint(low, high)))


def segment(r):
    kind = r.randrange(20)
    if kind < 5:
        return r.choice(WORDS) + r.choice(["", " ", ", ", ". ", "'s ", "'LL", "'\u017f", "-"])
    if kind < 8:
        return chars(r, SCRIPTS[r.choice(LARGE)], 1, 6) + r.choice(["", " "])
    if kind == 8:
        return chars(r, SCRIPTS[r.choice(NAMES)] if r.random() < 0.7 else NEWER, 1, 3)
    if kind == 9:
        return chars(r, BLANKS, 1, 4)
    if kind == 10:
        return chars(r, DIGITS, 1, 5) if r.random() < 0.5 else str(r.randrange(10**r.randint(1, 9)))
    if kind == 11:
        base = r.choice(WORDS)[-1:]
        return base + chars(r, MARKS, 1, r.choice([1, 2, 3, 12]))
    if kind == 12:
        return "\u200d".join(chr(r.choice(EMOJI)) + r.choice(["", "\ufe0f", chr(0x1F3FB + r.randrange(5))]) for _ in range(r.randint(1, 4)))
    if kind == 13:
        return chars(r, range(0, 0x80), 1, 6)
    if kind == 14:
        return "".join(chr(c) for c in (r.choice([0xFFFD, 0xFFFE, 0xE000, 0x10FFFF, 0, 0x7F, 0x85, 0xAD, 0x378, 0xFDD0, 0x1FFFE, r.randrange(0xE0000, 0xE0200)]) for _ in range(r.randint(1, 3))))
    if kind == 15:
        return chars(r, NORMAL, 1, 4)
    if kind == 16:
        return r.choice(SPECIAL) + r.choice(["", " ", "x"])
    if kind == 17:
        return r.choice([" ", "  ", "\n", "\r\n", "\t", "   \n\n  ", "...", "?!", "/*", "://"])
    if kind == 18:
        return chr(r.choice([0x1100, 0x1102, 0xAC00, 0xAC1C])) + chr(r.choice([0x1161, 0x1163, 0x11A8, 0x11C2])) + chr(r.choice([0x11A8, 0x11AA, 0x301]))
    while True:
        c = r.randrange(0x110000)
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


def text(r):
    if r.random() < 0.003:  # a very long word
        return chars(r, SCRIPTS[r.choice(LARGE)] if r.random() < 0.5 else range(0x61, 0x7B), 150, 600)
    return "".join(segment(r) for _ in range(r.choice([1, 2, 3, 5, 8, 13])))


def texts(seed, n):
    r = random.Random(seed)
    fixed = ["", " ", "  ", "\n", "a", "A", "\u0130", "\ufb03", "\u212b", "e\u0301", "\u0041\u030a", "a\u0327\u0301", "a\u0301\u0327", "\u1e9b\u0323", "\uac00\u11a8",
             "\u0958", "\U0001d15e", "\u3000a\u3000", "\ud7a3", "<s>", "a<s>b", " <s> ", "don't", "DON'T", "x" * 300, " " * 50 + "a", "a" + " " * 50, "\u2581a", "a\u0000b"]
    for i in range(n):
        yield fixed[i] if i < len(fixed) else text(r)


# ---- kiln's table, through the public contract -------------------------------------------------------------------------------------


P = ctypes.c_void_p


class File(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("name", ctypes.c_char_p), ("data", ctypes.c_char_p), ("bytes", ctypes.c_size_t)]


class Source(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("kind", ctypes.c_char_p), ("file", ctypes.POINTER(File)), ("n_file", ctypes.c_size_t)]


class Input(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("text", ctypes.c_char_p), ("n", ctypes.c_size_t), ("special", ctypes.c_uint32), ("ends", ctypes.c_uint32),
                ("weight", P)]


class Encoding(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("n", ctypes.c_size_t), ("id", ctypes.POINTER(ctypes.c_int32)), ("weight", ctypes.POINTER(ctypes.c_float)),
                ("begin", ctypes.POINTER(ctypes.c_uint32)), ("end", ctypes.POINTER(ctypes.c_uint32))]


Fail = ctypes.CFUNCTYPE(ctypes.c_int, P, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
Provide = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, P)


class Api(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("open", ctypes.CFUNCTYPE(P, P, ctypes.POINTER(Source))), ("ref", P), ("unref", ctypes.CFUNCTYPE(None, P)),
                ("encode", ctypes.CFUNCTYPE(ctypes.c_int, P, ctypes.POINTER(Input), ctypes.POINTER(Encoding), ctypes.c_char_p)),
                ("encoding_free", ctypes.CFUNCTYPE(None, ctypes.POINTER(Encoding))),
                ("decode", ctypes.CFUNCTYPE(ctypes.c_size_t, P, ctypes.POINTER(ctypes.c_int32), ctypes.c_size_t, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t))]


class Host(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("major", ctypes.c_uint16), ("minor", ctypes.c_uint16), ("name", ctypes.c_char_p), ("version", ctypes.c_char_p),
                ("log", P), ("ability", P), ("fail", Fail)] + [(f"f{i}", P) for i in range(8)] + [("provide", Provide)]


class Plugin(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_uint32), ("size", ctypes.c_uint32), ("major", ctypes.c_uint16), ("minor", ctypes.c_uint16), ("n_node", ctypes.c_uint32),
                ("id", ctypes.c_char_p), ("version", ctypes.c_char_p), ("license", ctypes.c_char_p), ("node", P), ("open", ctypes.CFUNCTYPE(ctypes.c_int, P))]


class Kiln:
    """The plugin's table. A host is made here: the plugin asks it for `provide` and `fail` only."""

    def __init__(self, build):
        self.table, self.why = None, b""

        def fail(_, status, fmt, why):
            self.why = why
            return status

        def provide(_, table):
            self.table = ctypes.cast(table, ctypes.POINTER(Api)).contents
            return 0

        self.host = Host(size=ctypes.sizeof(Host), major=1, fail=Fail(fail), provide=Provide(provide))
        self.library = ctypes.CDLL(str(Path(build) / "plugins" / "kiln-tokenizer.so"))
        plugin = Plugin.in_dll(self.library, "kiln_plugin_v1")
        assert plugin.open(ctypes.addressof(self.host)) == 0 and self.table

    def open(self, files, kind=None):
        data = [(n.encode(), Path(p).read_bytes()) for n, p in files]
        rows = (File * len(data))(*[File(ctypes.sizeof(File), n, d, len(d)) for n, d in data])
        t = self.table.open(None, Source(ctypes.sizeof(Source), kind and kind.encode(), rows, len(data)))
        if not t:
            raise SystemExit(f"kiln: {self.why.decode()}")
        return t

    def encode(self, t, s, special=0, ends=0):
        data, e, why = s.encode(), Encoding(size=ctypes.sizeof(Encoding)), ctypes.create_string_buffer(400)
        if self.table.encode(t, Input(ctypes.sizeof(Input), data, len(data), special, ends, None), e, why):
            return why.value.decode(), None
        out = e.id[:e.n], list(zip(e.begin[:e.n], e.end[:e.n]))
        self.table.encoding_free(e)
        return out

    def decode(self, t, ids, special=1):
        out = ctypes.create_string_buffer(1 << 16)
        n = self.table.decode(t, (ctypes.c_int32 * len(ids))(*ids), len(ids), special, out, len(out))
        return out.raw[:n].decode(errors="replace")


# ---- the libraries -----------------------------------------------------------------------------------------------------------------


def byte_places(s):
    places, at = [], 0
    for c in s:
        places.append(at)
        at += len(c.encode())
    return places + [at]


def hugging(tokenizer, special):
    """special 0: the texts of special tokens are text."""
    tokenizer.encode_special_tokens = not special

    def encode(s):
        e = tokenizer.encode(s, add_special_tokens=bool(special))
        at = byte_places(s)
        return e.ids, [(at[a], at[b]) for a, b in e.offsets]

    return encode, lambda ids: tokenizer.decode(ids, skip_special_tokens=False)


def piece(processor):
    """Byte pieces of a character: sentencepiece gives the last one the character, the others nothing; ours all have it."""
    def encode(s):
        pieces = [{n: v for n, v, _, _ in wire(value)} for number, value, _, _ in wire(processor.encode(s, return_type="serialized_proto")) if number == 2]
        ids = [p.get(2, 0) for p in pieces]
        spans = [(p.get(4, 0), p.get(5, 0)) for p in pieces]
        i = 0
        while i < len(ids):
            byte = int(processor.id_to_piece(ids[i])[3:5], 16) if processor.is_byte(ids[i]) else 0
            n = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            spans[i:i + n] = [spans[i + n - 1]] * n
            i += n
        return ids, spans

    return encode, processor.decode


def from_json(name):
    from tokenizers import Tokenizer
    return lambda special: hugging(Tokenizer.from_file(str(DATA / name / "tokenizer.json")), special)


def from_model(name):
    import sentencepiece
    return lambda special: piece(sentencepiece.SentencePieceProcessor(model_file=str(DATA / name / "tokenizer.model")))


def clip(special):
    """Not compared: decoding, which takes control characters at both ends for blanks and drops them."""
    from transformers import CLIPTokenizer
    return hugging(CLIPTokenizer.from_pretrained(ROOT / "tests" / "golden" / "clip-tokenizer")._tokenizer, special)[0], None


def tekken(special):
    """The same vocabulary as merges in the library; ids begin behind the special tokens."""
    encode, _ = from_json("tekken")(0)
    count = json.loads((DATA / "tekken" / "tekken.json").read_text())["config"]["default_num_special_tokens"]
    return (lambda s: ([i + count for i in encode(s)[0]], encode(s)[1])), None


def files(folder, *names):
    return [(Path(n).name, folder / n) for n in names]


CLIP = ROOT / "tests" / "golden" / "clip-tokenizer"
# name: (files, kind asked for, kind expected, special tokens of the text too, the library's encoder)
KINDS = {
    "clip": (files(CLIP, "vocab.json", "merges.txt"), "clip-bpe", 1, clip),
    "clip-merges": (files(CLIP, "merges.txt"), None, 1, clip),
    "gpt2": (files(DATA / "gpt2", "tokenizer.json"), None, 1, from_json("gpt2")),
    "gpt2-files": (files(DATA / "gpt2", "vocab.json", "merges.txt"), "byte-bpe", 1, from_json("gpt2")),
    "llama3": (files(DATA / "llama3", "tokenizer.json"), None, 1, from_json("llama3")),
    "qwen2": (files(DATA / "qwen2", "tokenizer.json"), None, 1, from_json("qwen2")),
    "qwen2-gguf": (files(DATA / "qwen2", "qwen2.gguf"), None, 1, from_json("qwen2")),
    "tekken": (files(DATA / "tekken", "tekken.json"), None, 0, tekken),
    "llama-bpe": (files(DATA / "llama", "tokenizer.model"), "sentencepiece", 0, from_model("llama")),
    "llama-gguf": (files(DATA / "llama", "llama.gguf"), "sentencepiece", 0, from_model("llama")),
    "nfkc-bpe": (files(DATA / "nfkc-bpe", "tokenizer.model"), "sentencepiece", 0, from_model("nfkc-bpe")),
    "llama-json": (files(DATA / "llama-json", "tokenizer.json"), None, 1, from_json("llama-json")),
    "gemma-json": (files(DATA / "gemma-json", "tokenizer.json"), None, 1, from_json("gemma-json")),
    "unigram": (files(DATA / "unigram", "tokenizer.model"), "sentencepiece", 0, from_model("unigram")),
    "t5": (files(DATA / "t5", "tokenizer.model"), "sentencepiece", 0, from_model("t5")),
    "t5-gguf": (files(DATA / "t5", "t5.gguf"), "sentencepiece", 0, from_model("t5")),
    "unigram-bytes": (files(DATA / "unigram-bytes", "tokenizer.model"), "sentencepiece", 0, from_model("unigram-bytes")),
    "t5-json": (files(DATA / "t5-json", "tokenizer.json"), None, 1, from_json("t5-json")),
    "wordpiece": (files(DATA / "bert", "tokenizer.json"), None, 1, from_json("bert")),
    "wordpiece-txt": (files(DATA / "bert", "vocab.txt"), "wordpiece", 1, from_json("bert")),
}

# Other files of the same tokenizer: one golden holds for all.
SAME = {"clip": ["clip-merges"], "gpt2": ["gpt2-files"], "qwen2": ["qwen2-gguf"], "llama-bpe": ["llama-gguf"], "t5": ["t5-gguf"], "wordpiece": ["wordpiece-txt"]}

# ---- small vocabularies ------------------------------------------------------------------------------------------------------------


def corpus(n=30000, rare=0.3):
    r = random.Random(7)
    for _ in range(n):
        yield " ".join(r.choice(WORDS) for _ in range(r.randint(3, 12))) if r.random() >= rare else text(r)


def no_nul(lines):
    return (s.replace("\0", " ").replace("\n", " ") for s in lines)


LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def save(tokenizer, name):
    (DATA / name).mkdir(parents=True, exist_ok=True)
    path = DATA / name / "tokenizer.json"
    path.write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")))
    return json.loads(path.read_text())


def byte_level(name, pattern, special, normalizer=None, ends=None, size=900, ignore_merges=False):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    byte = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=pattern is None)
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte]) if pattern else byte
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    t.add_tokens([AddedToken("<user>", normalized=False, lstrip=True, rstrip=True), AddedToken("photo cat", single_word=True, normalized=True)] if name == "llama3" else [])
    if ends:
        t.post_processor = processors.TemplateProcessing(single=f"{ends} $A", special_tokens=[(ends, t.token_to_id(ends))])
    return save(t, name)


def write_gguf(path, pairs):
    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def value(v):
        if isinstance(v, bool):
            return struct.pack("<IB", 7, v)
        if isinstance(v, int):
            return struct.pack("<II", 4, v)
        if isinstance(v, str):
            return struct.pack("<I", 8) + text(v)
        kind, items = v
        head = struct.pack("<IIQ", 9, {"string": 8, "f32": 6, "i32": 5, "u8": 0}[kind], len(items))
        if kind == "string":
            return head + b"".join(map(text, items))
        return head + struct.pack("<%d%s" % (len(items), {"f32": "f", "i32": "i", "u8": "B"}[kind]), *items)

    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(text(k) + value(v) for k, v in pairs.items()))


def wire(data):
    """The fields of a protocol buffer: (number, value, first byte, end)."""
    at = 0

    def varint():
        nonlocal at
        out, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            out |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return out

    while at < len(data):
        begin, key = at, varint()
        if key & 7 == 0:
            value = varint()
        else:
            n = varint() if key & 7 == 2 else 4 if key & 7 == 5 else 8
            value = data[at:at + n]
            at += n
        yield key >> 3, value, begin, at


class Model:
    """What of a SentencePiece model the other files are made from; `unused` pieces are marked as such in its bytes."""

    def __init__(self, data, unused):
        self.pieces, self.bytes, spec, count = [], b"", {}, 0
        for number, value, begin, end in wire(data):
            if number == 1:
                x = {n: v for n, v, _, _ in wire(value)}
                text, score, kind = x[1].decode(), struct.unpack("<f", x[2])[0], x.get(3, 1)
                if kind == 1 and len(text) > 2:
                    count += 1
                    if unused and 3 < count < 60 and count % 7 == 0:
                        kind, value = 5, value + b"\x18\x05"
                self.pieces.append((text, score, kind))
                self.bytes += b"\x0a" + bytes([len(value)] if len(value) < 128 else [len(value) & 127 | 128, len(value) >> 7]) + value
                continue
            if number == 3:
                spec = {n: v for n, v, _, _ in wire(value)}
            self.bytes += data[begin:end]
        self.charsmap, self.dummy, self.extra = spec.get(2, b""), bool(spec.get(3, 1)), bool(spec.get(4, 1))


def rules():
    """A part of NFKC, so that the map of a small model is small: what becomes of a text, in hexadecimal."""
    r, out = random.Random(5), {}
    for c in r.sample([c for c in NORMAL if c < 0xAC00 or c > 0xD7A3], 700) + [0xFB03, 0x212B, 0x3000, 0xFF21, 0x2002, 0xFDFA]:
        form = unicodedata.normalize("NFKC", chr(c))
        if form != chr(c):
            out[f"{c:X}"] = " ".join(f"{ord(x):X}" for x in form)
        parts = unicodedata.normalize("NFD", chr(c))
        if len(parts) > 1 and form == chr(c):
            out[" ".join(f"{ord(x):X}" for x in parts)] = f"{c:X}"
    out |= {"9": "20", "A": "20", "D": "20", "AD": "", "200B": "", "2026": "2E 2E 2E"}
    path = Path(tempfile.gettempdir()) / f"kiln-rules-{os.getpid()}.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in out.items()))
    return str(path)


def sentencepieces(name, gguf=None, **options):
    import io
    import sentencepiece
    out = io.BytesIO()
    if "normalization_rule_name" not in options:
        options["normalization_rule_tsv"] = rules()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=no_nul(corpus(rare=0.01)), model_writer=out, hard_vocab_limit=False, minloglevel=2,
                                             num_threads=1, **options)
    model = Model(out.getvalue(), name in ("nfkc-bpe", "unigram"))
    (DATA / name).mkdir(parents=True, exist_ok=True)
    (DATA / name / "tokenizer.model").write_bytes(model.bytes)
    if gguf:
        pairs = {"general.architecture": gguf, "tokenizer.ggml.model": gguf, "tokenizer.ggml.tokens": ("string", [p[0] for p in model.pieces]),
                 "tokenizer.ggml.scores": ("f32", [p[1] for p in model.pieces]), "tokenizer.ggml.token_type": ("i32", [p[2] for p in model.pieces]),
                 "tokenizer.ggml.add_space_prefix": model.dummy, "tokenizer.ggml.remove_extra_whitespaces": model.extra,
                 "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
        if model.charsmap:
            pairs["tokenizer.ggml.precompiled_charsmap"] = ("u8", list(model.charsmap))
        write_gguf(DATA / name / f"{'llama' if gguf == 'llama' else name}.gguf", pairs)
    return model


def train():
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    gpt2 = byte_level("gpt2", None, ["<|endoftext|>"])
    ids = gpt2["model"]["vocab"] | {t["content"]: t["id"] for t in gpt2["added_tokens"]}
    (DATA / "gpt2" / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False, separators=(",", ":")))
    (DATA / "gpt2" / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in gpt2["model"]["merges"]))
    byte_level("llama3", LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>"], ends="<|begin_of_text|>", ignore_merges=True)
    qwen2 = byte_level("qwen2", QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizer=normalizers.NFC())
    tokens = {i: t for t, i in qwen2["model"]["vocab"].items()} | {t["id"]: t["content"] for t in qwen2["added_tokens"]}
    write_gguf(DATA / "qwen2" / "qwen2.gguf",
               {"general.architecture": "qwen2", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2",
                "tokenizer.ggml.tokens": ("string", [tokens[i] for i in range(len(tokens))]),
                "tokenizer.ggml.token_type": ("i32", [3 if tokens[i].startswith("<|") and tokens[i].endswith("|>") else 1 for i in range(len(tokens))]),
                "tokenizer.ggml.merges": ("string", [" ".join(m) for m in qwen2["model"]["merges"]]),
                "tokenizer.chat_template": "{% for m in messages %}<|im_start|>{{ m.role }}..."})
    train_tekken()
    llama = sentencepieces("llama", gguf="llama", model_type="bpe", vocab_size=900, byte_fallback=True, normalization_rule_name="identity",
                           remove_extra_whitespaces=False, character_coverage=0.98, user_defined_symbols=["<user>", "\u65e5\u672c"], split_digits=True)
    sentencepieces("nfkc-bpe", model_type="bpe", vocab_size=800, character_coverage=0.98, user_defined_symbols=["<user>"])
    sentencepieces("unigram", model_type="unigram", vocab_size=700, normalization_rule_name="nmt_nfkc", character_coverage=0.98,
                   user_defined_symbols=["<extra_id_0>", "photo cat"])
    t5 = sentencepieces("t5", gguf="t5", model_type="unigram", vocab_size=700, character_coverage=0.98, pad_id=3)
    sentencepieces("unigram-bytes", model_type="unigram", vocab_size=800, byte_fallback=True, character_coverage=0.98, treat_whitespace_as_suffix=True)
    train_json(llama, t5)
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=1500, limit_alphabet=600, special_tokens=special, show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[(s, t.token_to_id(s)) for s in ("[CLS]", "[SEP]")])
    t.decoder = decoders.WordPiece()
    vocab = save(t, "bert")["model"]["vocab"]
    (DATA / "bert" / "vocab.txt").write_text("".join(w + "\n" for w, _ in sorted(vocab.items(), key=lambda x: x[1])))


def train_tekken():
    made = byte_level("tekken", TEKKEN, [])
    code = {chr(c): b for c, b in zip(bytes_to_codes(), range(256))}
    raw = {i: bytes(code[c] for c in t) for t, i in made["model"]["vocab"].items()}
    order = sorted(raw)
    (DATA / "tekken" / "tekken.json").write_text(json.dumps({
        "config": {"pattern": TEKKEN, "num_vocab_tokens": len(order), "default_vocab_size": len(order) + 10, "default_num_special_tokens": 10, "version": "v3"},
        "vocab": [{"rank": i, "token_bytes": base64.b64encode(raw[i]).decode(), "token_str": None} for i in order],
        "special_tokens": [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])]},
        separators=(",", ":")))


def bytes_to_codes():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 256 + 68))
    return [b if b in plain else next(other) for b in range(256)]


def train_json(llama, unigram):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    vocab = {p[0]: i for i, p in enumerate(llama.pieces)}
    pairs = sorted(((vocab[p[:k] + p[k:]], p[:k], p[k:]) for p in vocab if len(p) > 1 and llama.pieces[vocab[p]][2] == 1
                    for k in range(1, len(p)) if p[:k] in vocab and p[k:] in vocab), key=lambda x: x[0])
    merges = [(a, b) for _, a, b in pairs]

    def bpe(name, normalizer, pre, ends):
        t = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        t.normalizer = normalizer
        if pre:
            t.pre_tokenizer = pre
        t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in ("<unk>", "<s>", "</s>")])
        t.post_processor = processors.TemplateProcessing(single=ends, special_tokens=[("<s>", 1), ("</s>", 2)])
        save(t, name)

    bpe("llama-json", normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None, "<s> $A")
    bpe("gemma-json", normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous"), "<s> $A </s>")
    t = Tokenizer(models.Unigram([p[:2] for p in unigram.pieces if p[2] != 5], unk_id=0, byte_fallback=False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(unigram.charsmap), normalizers.Strip(left=False, right=True),
                                         normalizers.Replace(Regex(" {2,}"), "\u2581")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    t.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in ("<unk>", "</s>")])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    save(t, "t5-json")

