"""Makes the tiny random Flux.1, T5 encoder and CLIP L of this folder and what diffusers and transformers say of them: python make.py

Needs torch, diffusers, transformers and safetensors; the test needs none of them. Numbers are computed in float64, but for one: an angle of the sinusoids,
t f, is rounded to float32 as diffusers rounds it. Of t = 3500 that is 1e-4 rad, and more than all the rest together.
"""

import json
import sys
import tempfile
import unittest.mock as mock
from collections import Counter
from math import exp, log
from pathlib import Path

import diffusers.models.embeddings
import torch
from diffusers import FluxTransformer2DModel
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, PreTrainedTokenizerFast, T5Config, T5EncoderModel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "goldens"))
from in_float64 import in_float64  # noqa: E402

FLUX = dict(
    patch_size=1, in_channels=64, num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=20,
    pooled_projection_dim=12, guidance_embeds=True, axes_dims_rope=[4, 6, 6],
)
T5 = dict(
    d_model=20, d_kv=8, num_heads=3, d_ff=28, num_layers=2, vocab_size=160, relative_attention_num_buckets=8, relative_attention_max_distance=20,
    layer_norm_epsilon=1e-6, feed_forward_proj="gated-gelu", is_gated_act=True, dense_act_fn="gelu_new",
)
CLIP = dict(
    hidden_size=12, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=77, hidden_act="quick_gelu", projection_dim=12,
)
SCALE, SHIFT = 0.3611, 0.1159  # of Flux.1's latents
LENGTH = 256  # of T5's prompt: its padding is seen
TEXTS = (
    "a red circle over a blue square", "an owl reads the newspaper, seriously", "two foxes (and a hen) by the river at night",
    "the quick brown fox jumps over the lazy dog", "a small house in the snow; smoke rises from it", "Where did 12 green bottles go?",
)
PROMPT = {"l": "A red fox by the river, at night", "t5xxl": "An owl and 2 foxes by the river: smoke rises over the blue house\u2026 seriously?"}


def t5_tokenizer():
    """SentencePiece's unigram model as T5's tokenizer.json has it, with a small vocabulary."""
    text = "".join("\u2581" + text.replace(" ", "\u2581") for text in TEXTS)
    count = Counter(text[i : i + n] for n in range(1, 7) for i in range(len(text) - n + 1) if "\u2581" not in text[i + 1 : i + n])
    long = sorted((p for p in count if len(p) > 1), key=lambda p: (-count[p] * len(p), p))[: 140 - len(set(text))]
    pieces = [(p, log(count[p] / len(text))) for p in [*sorted(set(text)), *long]]
    t = Tokenizer(models.Unigram([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces], unk_id=2))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    t.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
    t.add_special_tokens(["<pad>", "</s>", "<unk>"])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    return t


def clip_files(folder):
    """vocab.json and merges.txt of a byte-pair encoding as CLIP's."""
    t = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=640, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False))
    model = json.loads(t.to_str())["model"]
    letters = sorted(alphabet)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    tokens = [*letters, *(f"{c}</w>" for c in letters), *(m.replace(" ", "") for m in merges), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(dict.fromkeys(tokens))}, ensure_ascii=False))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt")), len(dict.fromkeys(tokens))


def fill(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g, dtype=torch.float32)
        if p.dim() == 1:
            r = 1 + 0.2 * r if name.endswith("norm.weight") or ".norm_" in name or "layer_norm" in name else 0.1 * r
        elif "relative" in name:
            r = 0.5 * r
        elif "shared" not in name and "embedding" not in name:
            weaker = {"SelfAttention.q": 0.3, "SelfAttention.k": 0.6, "SelfAttention.o": 0.5, "DenseReluDense": 0.6}
            r = r * next((gain for part, gain in weaker.items() if part in name), 1.2) / r.shape[-1] ** 0.5
        p.data.copy_(r.bfloat16().float())
    weights = {name: p.detach().bfloat16().contiguous() for name, p in model.named_parameters()}
    return weights


def sinusoid(t, width, flip_sin_to_cos, downscale_freq_shift, scale=1, max_period=10000):
    f = torch.exp(-log(max_period) * torch.arange(width // 2, dtype=torch.float64) / (width // 2 - downscale_freq_shift))
    angle = (t.type(torch.float32)[:, None] * f.type(torch.float32)).double() * scale
    parts = [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts[::-1] if flip_sin_to_cos else parts, -1)


def pack(x):
    """[N,h,w,C] -> [N,T,4C], and back"""
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 5, 2, 4).reshape(n, h * w // 4, 4 * c)


def unpack(x, h, w):
    n = x.shape[0]
    return x.reshape(n, h // 2, w // 2, -1, 2, 2).permute(0, 1, 4, 2, 5, 3).reshape(n, h, w, -1)


def velocity(model, x, sigma, tokens, pooled, guidance):
    n, h, w, _ = x.shape
    ids = torch.zeros(h // 2, w // 2, 3)
    ids[..., 1], ids[..., 2] = torch.arange(h // 2)[:, None], torch.arange(w // 2)[None]
    many = lambda v: torch.full((n,), float(torch.tensor(v, dtype=torch.float32)), dtype=x.dtype)
    y = model(
        hidden_states=pack(x), encoder_hidden_states=tokens.expand(n, -1, -1), pooled_projections=pooled.expand(n, -1), timestep=many(sigma),
        img_ids=ids.reshape(-1, 3), txt_ids=torch.zeros(tokens.shape[1], 3), guidance=many(guidance), return_dict=False,
    )[0]
    return unpack(y, h, w)


def sample(model, shape, seed, steps, tokens, pooled, guidance):
    """KSampler's euler and simple, at cfg 1, of a thousand levels with the shift e^1.15"""
    n, h, w, c = shape
    level = lambda u: exp(1.15) * u / (1 + (exp(1.15) - 1) * u)
    table = [level((i + 1) / 1000) for i in range(1000)]
    sigmas = [float(torch.tensor(table[-(1 + int(i * 1000 / steps))], dtype=torch.float32)) for i in range(steps)] + [0.0]
    x = torch.randn(n, c, h, w, generator=torch.Generator().manual_seed(seed)).to(model.dtype).permute(0, 2, 3, 1)
    for sigma, after in zip(sigmas, sigmas[1:]):
        x = x + velocity(model, x, sigma, tokens, pooled, guidance) * (after - sigma)
    return x / SCALE + SHIFT


@torch.inference_mode()
def main():
    encoders = HERE / "models/text_encoders"
    with tempfile.TemporaryDirectory() as folder:
        clip_tokenizer, words = clip_files(Path(folder))
        files = {name: (Path(folder) / name).read_text() for name in ("vocab.json", "merges.txt")}
    tokenizer = t5_tokenizer()
    CLIP.update(vocab_size=words, bos_token_id=words - 2, eos_token_id=words - 1, pad_token_id=words - 1)
    assert tokenizer.get_vocab_size() <= T5["vocab_size"]
    flux, t5, clip = FluxTransformer2DModel(**FLUX).eval(), T5EncoderModel(T5Config(**T5)).eval(), CLIPTextModel(CLIPTextConfig(**CLIP)).eval()
    save_file(fill(flux, 3), HERE / "models/diffusion_models/flux.safetensors", {"format": "pt", "config": json.dumps(FLUX)})
    save_file(fill(t5, 4), encoders / "t5.safetensors", {"format": "pt", "config.json": json.dumps(T5), "tokenizer.json": tokenizer.to_str()})
    save_file(fill(clip, 5), encoders / "clip_l.safetensors", {"format": "pt", "config.json": json.dumps(CLIP), **files})
    goldens = {"empty": torch.zeros(1, 6, 10, 16), "two": torch.zeros(2, 4, 4, 16)}
    padded = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    t5_ids = padded(PROMPT["t5xxl"], padding="max_length", max_length=LENGTH, return_tensors="pt").input_ids
    l_ids = clip_tokenizer(PROMPT["l"], padding="max_length", max_length=77, return_tensors="pt").input_ids
    print("T5 reads", int((t5_ids[0] != 0).sum()), "tokens, CLIP L", int((l_ids[0] != words - 1).sum()) + 1)
    with in_float64(), mock.patch.object(diffusers.models.embeddings, "get_timestep_embedding", sinusoid):
        flux.double(), t5.double(), clip.double()
        tokens = t5(t5_ids).last_hidden_state
        goldens["golden.tokens"], goldens["golden.pooled"] = tokens, clip(l_ids).pooler_output
        pooled = goldens["golden.pooled"]
        goldens["golden.one"] = sample(flux, (1, 6, 10, 16), 5, 1, tokens, pooled, 3.5)
        goldens["golden.whole"] = sample(flux, (1, 6, 10, 16), 5, 6, tokens, pooled, 3.5)
        goldens["golden.weak"] = sample(flux, (1, 6, 10, 16), 5, 6, tokens, pooled, 1.0)
        goldens["golden.batch"] = sample(flux, (2, 4, 4, 16), 6, 4, tokens, pooled, 3.5)
    single = sample(flux.float(), (1, 6, 10, 16), 5, 1, tokens.float(), pooled.float(), 3.5)
    error = lambda x, name: float((x - goldens[name]).abs().max() / goldens[name].abs().max())
    print(f"transformers in float32: {error(t5.float()(t5_ids).last_hidden_state, 'golden.tokens'):.1e}")
    print(f"diffusers in float32: {error(single, 'golden.one'):.1e}; guidance matters by {error(goldens['golden.weak'], 'golden.whole'):.1e}")
    save_file({name: value.to(torch.float32).contiguous() for name, value in goldens.items()}, HERE / "goldens.safetensors")
    for path in HERE.rglob("*.safetensors"):
        path.chmod(0o644)
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
