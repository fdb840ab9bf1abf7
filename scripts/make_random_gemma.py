#!/usr/bin/env python3
"""make_random_gemma.py OUT.gguf [--type q4_k_m|q8_0] [--layers N] [--experts N] - DiffusionGemma 26B-A4B with random weights.

Every tensor of the released files by name, shape and stored type (as "Q4_K_M": Q4_K, Q6_K, Q5_0 and Q8_0 by llama.cpp's rule), with numbers
of the size that keeps activations in range; 16.8 GB for q4_k_m, 26.9 GB for q8_0. It says nothing sensible: it is there to measure memory and time.
--layers and --experts make a smaller one of the same kind and width: --layers 2 --experts 8 is a file of 0.8 GB. Needs no packages.
"""
import argparse
import os
import struct
import sys

WIDTH, VOCABULARY, DENSE, EXPERT = 2816, 262144, 2112, 704
# name: number in the file, elements of a block, bytes of it
KINDS = {
    "f32": (0, 1, 4), "q5_0": (6, 32, 22), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144), "q6_k": (14, 256, 210),
}
PIECE = 8 << 20


def half(x):
    return struct.pack("<e", x)


def random_blocks(kind, std, n):
    """n blocks of that type whose numbers have about this standard deviation."""
    size = KINDS[kind][2]
    raw = bytearray(os.urandom(n * size))
    if kind == "q8_0":
        d = half(std / 73.9)
        for at in range(0, len(raw), size):
            raw[at:at + 2] = d
    elif kind == "q5_0":
        d = half(std / 9.2)
        for at in range(0, len(raw), size):
            raw[at:at + 2] = d
    elif kind == "q4_k":
        d, dmin = half(std / 258), half(std / 258 * 7.5)
        for at in range(0, len(raw), size):
            raw[at:at + 4] = d + dmin
    else:  # q6_k: its 16 scales are int8
        d = half(std / (18.5 * 73.9))
        for at in range(0, len(raw), size):
            raw[at + 208:at + 210] = d
    return bytes(raw)


def numbers(values):
    return struct.pack("<%df" % len(values), *values)


class Writer:
    """A .gguf file: header, then tensors in the order they were told."""

    def __init__(self):
        self.pairs, self.tensors, self.at = [], [], 0

    def pair(self, key, kind, value):
        self.pairs.append(string(key) + struct.pack("<I", kind) + value)

    def u32(self, key, value):
        self.pair(key, 4, struct.pack("<I", value))

    def f32(self, key, value):
        self.pair(key, 6, struct.pack("<f", value))

    def text(self, key, value):
        self.pair(key, 8, string(value))

    def array(self, key, kind, items):
        self.pair(key, 9, struct.pack("<IQ", kind, len(items)) + b"".join(items))

    def tensor(self, name, kind, shape, fill):
        number, block, size = KINDS[kind]
        count = 1
        for n in shape:
            count *= n
        assert shape[-1] % block == 0, name
        length = count // block * size
        self.tensors.append((name, number, shape, self.at, length, fill))
        self.at += (length + 31) // 32 * 32

    def write(self, path):
        with open(path, "wb") as f:
            f.write(b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.pairs)) + b"".join(self.pairs))
            for name, number, shape, at, _, _ in self.tensors:
                f.write(string(name) + struct.pack("<I", len(shape)) + struct.pack("<%dQ" % len(shape), *reversed(shape)))
                f.write(struct.pack("<IQ", number, at))
            f.write(bytes(-f.tell() % 32))
            start = f.tell()
            for name, _, _, at, length, fill in self.tensors:
                assert f.tell() == start + at, name
                fill(f, length)
                f.write(bytes(-(f.tell() - start) % 32))


def string(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def blocks(kind, std):
    """Fills a tensor with random blocks: 8 MB of them, again and again from another place."""
    def fill(f, length, cache={}):
        size = KINDS[kind][2]
        key = (kind, std)
        if key not in cache:
            cache[key] = random_blocks(kind, std, PIECE // size)
        piece, shift = cache[key], 0
        while length:
            part = piece[shift * size:][:length]
            f.write(part)
            length -= len(part)
            shift = (shift + 7919) % (len(piece) // size)
    return fill


def given(values):
    return lambda f, length: f.write(numbers(values))


def more_bits(i, n):
    """llama.cpp's rule of which layers of n have more bits."""
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def tokens():
    special = {0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>", 4: "<mask>", 46: "<|tool>", 47: "<tool|>", 48: "<|tool_call>", 49: "<tool_call|>",
               50: "<|tool_response>", 51: "<tool_response|>", 52: '<|"|>', 98: "<|think|>", 100: "<|channel>", 101: "<channel|>", 105: "<|turn>",
               106: "<turn|>", 107: "\n", 108: "\n\n", 109: "\n\n\n", 236743: "\u2581"}
    out, kinds = [], []
    for i in range(VOCABULARY):
        byte = 238 <= i < 494
        out.append(string(special.get(i) or ("<0x%02X>" % (i - 238) if byte else "w%d" % i if i > 500 else "<unused%d>" % i)))
        kinds.append(struct.pack("<i", 6 if byte else 1 if i > 500 or i in (107, 108, 109) else 3 if i in special else 5))
    return out, kinds


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("out")
    ask.add_argument("--type", choices=["q4_k_m", "q8_0"], default="q4_k_m")
    ask.add_argument("--layers", type=int, default=30, help="every sixth and the last one see the whole prompt")
    ask.add_argument("--experts", type=int, default=128)
    a = ask.parse_args()
    if a.layers < 1 or a.experts < 8:
        sys.exit("--layers: one or more; --experts: eight or more")
    w, q8 = Writer(), a.type == "q8_0"
    full = [i % 6 == 5 or i == a.layers - 1 for i in range(a.layers)]
    arch = "diffusion-gemma."
    w.text("general.architecture", "diffusion-gemma")
    w.text("general.name", "random weights")
    w.u32("general.quantization_version", 2)
    w.u32("general.file_type", 7 if q8 else 15)
    for key, value in {"block_count": a.layers, "context_length": 262144, "embedding_length": WIDTH, "feed_forward_length": DENSE, "attention.head_count": 16,
                       "attention.key_length": 512, "attention.value_length": 512, "attention.key_length_swa": 256, "attention.value_length_swa": 256,
                       "attention.sliding_window": 1024, "attention.shared_kv_layers": 0, "embedding_length_per_layer_input": 0, "rope.dimension_count": 512,
                       "rope.dimension_count_swa": 256, "expert_count": a.experts, "expert_used_count": 8, "expert_feed_forward_length": EXPERT}.items():
        w.u32(arch + key, value)
    w.array(arch + "attention.head_count_kv", 5, [struct.pack("<i", 2 if f else 8) for f in full])
    w.array(arch + "attention.sliding_window_pattern", 7, [struct.pack("<B", not f) for f in full])
    w.pair(arch + "attention.causal", 7, b"\0")
    for key, value in {"attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6, "rope.freq_base_swa": 1e4, "final_logit_softcapping": 30.0}.items():
        w.f32(arch + key, value)
    w.u32("diffusion.canvas_length", 256)
    w.text("tokenizer.ggml.model", "gemma4")
    texts, kinds = tokens()
    w.array("tokenizer.ggml.tokens", 8, texts)
    w.array("tokenizer.ggml.scores", 6, [struct.pack("<f", 0.0)] * VOCABULARY)
    w.array("tokenizer.ggml.token_type", 5, kinds)
    w.array("tokenizer.ggml.merges", 8, [string("\n \n"), string("\n\n \n")])  # of tokens that there are, into one that there is
    for key, value in {"bos": 2, "eos": 1, "unknown": 3, "padding": 0, "mask": 4}.items():
        w.u32("tokenizer.ggml.%s_token_id" % key, value)
    w.pair("tokenizer.ggml.add_space_prefix", 7, b"\0")
    w.pair("tokenizer.ggml.add_bos_token", 7, b"\1")

    def matrix(name, kind, shape):
        kind = "q8_0" if q8 else kind
        w.tensor(name, kind, shape, blocks(kind, shape[-1] ** -0.5))

    def ones(name, n, value=1.0):
        w.tensor(name, "f32", [n], given([value] * n))

    embedding = "q8_0" if q8 else "q6_k"
    w.tensor("token_embd.weight", embedding, [VOCABULARY, WIDTH], blocks(embedding, 0.05))
    ones("output_norm.weight", WIDTH)
    w.tensor("rope_freqs.weight", "f32", [256], given([1.0] * 64 + [1e30] * 192))
    ones("self_cond_pre_norm.weight", WIDTH)
    matrix("self_cond_gate.weight", "q4_k", [DENSE, WIDTH])
    matrix("self_cond_up.weight", "q4_k", [DENSE, WIDTH])
    matrix("self_cond_down.weight", "q5_0", [WIDTH, DENSE])
    sliding = [i for i in range(a.layers) if not full[i]]
    for i in range(a.layers):
        b, head = "blk.%d." % i, 512 if full[i] else 256
        down = "q8_0" if more_bits(i, a.layers) else "q5_0"
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"):
            ones(b + name + ".weight", WIDTH)
        for name in ("attn_q_norm", "attn_k_norm"):
            ones(b + name + ".weight", head)
        matrix(b + "attn_q.weight", "q4_k", [16 * head, WIDTH])
        matrix(b + "attn_k.weight", "q4_k", [(2 if full[i] else 8) * head, WIDTH])
        if not full[i]:
            matrix(b + "attn_v.weight", "q6_k" if more_bits(sliding.index(i), len(sliding)) else "q4_k", [8 * head, WIDTH])
        matrix(b + "attn_output.weight", "q4_k", [WIDTH, 16 * head])
        matrix(b + "ffn_gate.weight", "q4_k", [DENSE, WIDTH])
        matrix(b + "ffn_up.weight", "q4_k", [DENSE, WIDTH])
        matrix(b + "ffn_down.weight", down, [WIDTH, DENSE])
        w.tensor(b + "ffn_gate_inp.weight", "f32", [a.experts, WIDTH], lambda f, n: f.write(routers(n // 4)))
        ones(b + "ffn_gate_inp.scale", WIDTH)
        matrix(b + "ffn_gate_up_exps.weight", "q4_k", [a.experts, 2 * EXPERT, WIDTH])
        matrix(b + "ffn_down_exps.weight", down, [a.experts, WIDTH, EXPERT])
        ones(b + "ffn_down_exps.scale", a.experts)
        ones(b + "layer_output_scale.weight", 1, 0.2)
        ones(b + "enc_layer_output_scale.weight", 1, 0.2)
    w.write(a.out)
    print("%s: %d tensors, %.1f GB" % (a.out, len(w.tensors), os.path.getsize(a.out) / 1e9))


def routers(n):
    """Uniform numbers, large enough for choices that differ from token to token."""
    raw = os.urandom(2 * n)
    return numbers([x / 4096 - 8 for x in struct.unpack("<%dH" % n, raw)])


if __name__ == "__main__":
    main()
