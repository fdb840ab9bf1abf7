"""tiny-sdxl-text, tiny-sd2-text and text_xl.safetensors: the text encoders of SDXL and SD2 in miniature.

tiny-sdxl-text is what an SDXL folder has of text: CLIP L (quick_gelu), OpenCLIP G (gelu, a projection that is not
square), two tokenizers that pad differently. tiny-sd2-text is SD2's: OpenCLIP H without its last layer. Weights are
float16 and exact in it.

The conditioning is made here with transformers' models in float64, by these rules: chunks as in prompt.py, padded with
the end token (L) or id 0 (G, H); SDXL takes both encoders' hidden states before the last layer without the final norm,
side by side, and G's projected vector at the first end token of chunk 0; SD2 takes the layer before the last with the
final norm, which is the last of this folder. Where a weight is not 1, z = (z - z_empty) * weight + z_empty, for each
encoder with its own empty prompt. When the prompts of L and G differ in chunks, the shorter has empty ones added.

Of tokens every fifth row is kept; 5 and 77 have no common divisor, so that over the chunks every place comes up.
"""

import json

import torch

import bpe
import prompt
import tiny
from common import GOLDEN, randomise, save, versions

SDXL = GOLDEN / "tiny-sdxl-text"
SD2 = GOLDEN / "tiny-sd2-text"
MERGES = 40
STRIDE = 5
LENGTHS = (1, 75, 76, 77, 150, 300)
WEIGHTED = "a (cute:1.4) cat, ((oil)) painting, (blurry:-0.5) background"
LONG = "(a landscape:1.2) with mountains, " * 9 + "a (small:0.7) ring"


def config(vocab, **more):
    common = {
        "architectures": ["CLIPTextModel"],
        "attention_dropout": 0.0,
        "bos_token_id": vocab[bpe.BOS],
        "eos_token_id": vocab[bpe.EOS],
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 77,
        "model_type": "clip_text_model",
        "pad_token_id": 1,
        "vocab_size": len(vocab),
    }
    return {**common, **more}


def l_config(vocab):
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 4}
    return config(vocab, hidden_act="quick_gelu", projection_dim=16, **sizes)


def g_config(vocab):
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 1, "num_hidden_layers": 3}
    more = {"architectures": ["CLIPTextModelWithProjection"], "hidden_act": "gelu", "projection_dim": 48}
    return config(vocab, **more, **sizes)


def h_config(vocab):
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 3}
    return config(vocab, hidden_act="gelu", projection_dim=32, **sizes)


def build(kind, values, seed):
    from transformers import CLIPTextConfig

    plain = {key: value for key, value in values.items() if key not in ("architectures", "model_type")}
    return randomise(kind(CLIPTextConfig(attn_implementation="eager", **plain)), seed, torch.float16)


def write_model(folder, model, values):
    named = {}
    for name, tensor in tiny.weights(model, torch.float16).items():
        named[name if name.startswith("text_") else "text_model." + name] = tensor
    tiny.write_json(folder / "config.json", values)
    save(folder / "model.safetensors", named, {"format": "pt"})


def write_tokenizer(folder, merges, pad_map, pad_config):
    """Either file may say what padding is, as a string or as a map."""
    vocab = bpe.write_folder(folder, merges)
    for name, pad in (("special_tokens_map.json", pad_map), ("tokenizer_config.json", pad_config)):
        values = json.loads((folder / name).read_text())
        values.pop("pad_token")
        if pad is not None:
            values["pad_token"] = pad
        tiny.write_json(folder / name, values)
    return vocab


def letters(count):
    """A prompt of `count` tokens: a letter is one."""
    return " ".join("abcdefghijklmnopqrstuvwxyz"[(7 * i + i * i) % 26] for i in range(count))


class Encoder:
    def __init__(self, tokenizer, model, pad, norm):
        self.tokenizer, self.model, self.pad, self.norm = tokenizer, model.double(), pad, norm

    def chunks(self, text):
        return prompt.chunks(self.tokenizer, text, self.pad)

    def rows(self, ids, skip):
        out = self.model(input_ids=ids, output_hidden_states=True)
        hidden = out.hidden_states[skip]
        if self.norm:
            hidden = getattr(self.model, "text_model", self.model).final_layer_norm(hidden)
        return hidden, out.text_embeds if hasattr(out, "text_embeds") else out.pooler_output

    def encode(self, text, skip, at_least=0):
        """Tokens [77*chunks, width] and pooled [width]."""
        chunks, empty = self.chunks(text), self.chunks("")[0]
        chunks += [empty] * (at_least - len(chunks))
        ids = torch.tensor([[token for token, _ in chunk] for chunk in chunks + [empty]])
        scale = torch.tensor([[weight for _, weight in chunk] for chunk in chunks], dtype=torch.float64)
        out, pooled = self.rows(ids, skip)
        z, z_empty = out[:-1], out[-1:]
        if bool((scale != 1).any()):
            z = (z - z_empty) * scale[..., None] + z_empty
        return z.reshape(-1, z.shape[-1]), pooled[0]


def sdxl(l, g, text_l, text_g, skip=-2):
    count = max(len(l.chunks(text_l)), len(g.chunks(text_g)))
    tokens_l, _ = l.encode(text_l, skip, count)
    tokens_g, pooled = g.encode(text_g, skip, count)
    return torch.cat([tokens_l, tokens_g], dim=-1), pooled


def load(folder, name, kind, tokenizer):
    from transformers import CLIPTokenizer

    model = kind.from_pretrained(folder / name, attn_implementation="eager", dtype=torch.float32)
    return CLIPTokenizer.from_pretrained(folder / tokenizer), model.eval().requires_grad_(False)


def encoders():
    from transformers import CLIPTextModel, CLIPTextModelWithProjection

    tokenizer_l, model_l = load(SDXL, "text_encoder", CLIPTextModel, "tokenizer")
    tokenizer_g, model_g = load(SDXL, "text_encoder_2", CLIPTextModelWithProjection, "tokenizer_2")
    tokenizer_h, model_h = load(SD2, "text_encoder", CLIPTextModel, "tokenizer")
    end = tokenizer_l.eos_token_id
    return (
        Encoder(tokenizer_l, model_l, end, False),
        Encoder(tokenizer_g, model_g, 0, False),
        Encoder(tokenizer_h, model_h, 0, True),
    )


def cases(l, g, h):
    """name -> (tokens, pooled)."""
    for i, count in enumerate(LENGTHS):
        yield f"xl.{i}", sdxl(l, g, letters(count), letters(count))
        yield f"h.{i}", h.encode(letters(count), -1)
    for skip in (1, 3):  # 2 is what SDXL takes when nothing is said
        yield f"xl.skip{skip}", sdxl(l, g, WEIGHTED, WEIGHTED, -skip)
    for skip in (2, 3, 4):  # counted with the layer that the folder lacks
        yield f"h.skip{skip}", h.encode(WEIGHTED, 1 - skip)
    yield "xl.weighted", sdxl(l, g, WEIGHTED, WEIGHTED)
    yield "h.weighted", h.encode(WEIGHTED, -1)
    yield "xl.long_l", sdxl(l, g, LONG, "a cat")
    yield "xl.long_g", sdxl(l, g, "(a cat:1.3)", LONG)


def write_folders():
    from transformers import CLIPTextModel, CLIPTextModelWithProjection

    merges = bpe.train(bpe.SENTENCES, MERGES)
    vocab = write_tokenizer(SDXL / "tokenizer", merges, bpe.EOS, None)
    write_tokenizer(SDXL / "tokenizer_2", merges, "!", None)
    write_tokenizer(SD2 / "tokenizer", merges, None, {"__type": "AddedToken", "content": "!"})
    for folder, name, kind, values, seed in (
        (SDXL, "text_encoder", CLIPTextModel, l_config(vocab), 21),
        (SDXL, "text_encoder_2", CLIPTextModelWithProjection, g_config(vocab), 22),
        (SD2, "text_encoder", CLIPTextModel, h_config(vocab), 23),
    ):
        write_model(folder / name, build(kind, values, seed), values)
    clip, tokenizer = ["transformers", "CLIPTextModel"], ["transformers", "CLIPTokenizer"]
    tiny.write_json(
        SDXL / "model_index.json",
        {
            "_class_name": "StableDiffusionXLPipeline",
            "text_encoder": clip,
            "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
            "tokenizer": tokenizer,
            "tokenizer_2": tokenizer,
        },
    )
    tiny.write_json(
        SD2 / "model_index.json",
        {"_class_name": "StableDiffusionPipeline", "text_encoder": clip, "tokenizer": tokenizer},
    )


def main():
    write_folders()
    tensors = {}
    for name, (tokens, pooled) in cases(*encoders()):
        tensors[f"{name}.tokens"] = tokens[::STRIDE]
        tensors[f"{name}.pooled"] = pooled
    meta = {
        **versions(),
        "what": "conditioning of tiny-sdxl-text (xl) and tiny-sd2-text (h): tokens, every fifth row, and pooled. A number "
        "is a prompt of that many letters: " + ", ".join(map(str, LENGTHS)),
        "weighted": WEIGHTED,
        "long": LONG,
    }
    save(GOLDEN / "text_xl.safetensors", tensors, meta)


if __name__ == "__main__":
    main()
