#!/usr/bin/env python3
"""make_goldens.py - what diffusers and transformers compute with the weights of random_weights.c: writes models/ (the
configurations), shapes.txt (what random_weights reads) and goldens/ (f32, as SdxlDump writes them).

Needs numpy, torch, diffusers and transformers. The test does not run this.
"""
import json
import math
import pathlib

import numpy as np
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

torch.set_grad_enabled(False)
torch.manual_seed(0)
here = pathlib.Path(__file__).resolve().parent
VOCABULARY, LENGTH, SCALE = 320, 77, 0.13025

# ---- weights: as random_weights.c makes them


def numbers(file, name, shape):
    h = 14695981039346656037
    for byte in (file + name).encode():
        h = ((h ^ byte) * 1099511628211) & (2**64 - 1)
    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.uint64(h) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    u = ((z >> np.uint64(40)).astype(np.float64) - 8388608.0) / 8388608.0
    if len(shape) == 1:
        u = 1 + 0.2 * u if name.endswith(".weight") else 0.1 * u
    else:
        u = u * math.sqrt(3.0 / (n // shape[0]))
    return torch.from_numpy(u.astype(np.float32).reshape(shape))


shapes = []


def fill(module, file, prefix=""):
    shapes.append(f"file {file}")
    state = module.state_dict()
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            continue
        full = name if name.startswith(("text_model.", "text_projection.")) or not prefix else prefix + name
        state[name] = numbers(file, full, tuple(tensor.shape))
        shapes.append(f"{full} {' '.join(map(str, tensor.shape))}")
    module.load_state_dict(state)
    return module.eval()


def configure(path, config):
    path = here / "models" / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


# ---- the models

COMMON = dict(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, num_hidden_layers=3, bos_token_id=VOCABULARY - 2,
              eos_token_id=VOCABULARY - 1)
L = dict(COMMON, hidden_size=32, intermediate_size=64, num_attention_heads=2, hidden_act="quick_gelu", projection_dim=32)
G = dict(COMMON, hidden_size=64, intermediate_size=128, num_attention_heads=4, hidden_act="gelu", projection_dim=64)
UNET = dict(act_fn="silu", addition_embed_type="text_time", addition_time_embed_dim=16, in_channels=4, out_channels=4,
            layers_per_block=1, norm_num_groups=16, sample_size=16, use_linear_projection=True)
BASE = dict(UNET, block_out_channels=[32, 64], attention_head_dim=[2, 4], transformer_layers_per_block=[1, 2],
            cross_attention_dim=96, projection_class_embeddings_input_dim=64 + 6 * 16,
            down_block_types=["CrossAttnDownBlock2D"] * 2, up_block_types=["CrossAttnUpBlock2D"] * 2)
REFINER = dict(UNET, block_out_channels=[32, 48, 64], attention_head_dim=[2, 3, 4],
               transformer_layers_per_block=[1, 2, 3], cross_attention_dim=64,
               projection_class_embeddings_input_dim=64 + 5 * 16,
               down_block_types=["DownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
               up_block_types=["UpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"])
VAE = dict(act_fn="silu", block_out_channels=[8, 16, 16, 16], down_block_types=["DownEncoderBlock2D"] * 4,
           in_channels=3, latent_channels=4, layers_per_block=1, norm_num_groups=4, out_channels=3, sample_size=128,
           scaling_factor=SCALE, up_block_types=["UpDecoderBlock2D"] * 4)

text_l = fill(CLIPTextModel(CLIPTextConfig(**L)), "base/text_encoder/model.safetensors", "text_model.")
text_g = fill(CLIPTextModelWithProjection(CLIPTextConfig(**G)), "base/text_encoder_2/model.safetensors", "text_model.")
base = fill(UNet2DConditionModel(**BASE), "base/unet/diffusion_pytorch_model.safetensors")
refiner = fill(UNet2DConditionModel(**REFINER), "refiner/unet/diffusion_pytorch_model.safetensors")
fill(AutoencoderKL(**VAE), "base/vae/diffusion_pytorch_model.safetensors")
configure("base/model_index.json", {"_class_name": "StableDiffusionXLPipeline"})
configure("base/text_encoder/config.json", dict(L, _class_name="CLIPTextModel"))
configure("base/text_encoder_2/config.json", dict(G, _class_name="CLIPTextModelWithProjection"))
configure("base/unet/config.json", dict(BASE, _class_name="UNet2DConditionModel"))
configure("base/vae/config.json", dict(VAE, _class_name="AutoencoderKL"))
configure("refiner/model_index.json", {"_class_name": "StableDiffusionXLImg2ImgPipeline"})
configure("refiner/unet/config.json", dict(REFINER, _class_name="UNet2DConditionModel"))
(here / "shapes.txt").write_text("\n".join(shapes) + "\n")

# ---- text


def chunks(text, pad):
    """Ids and weights: text.c's rules."""
    out, words = [], []
    for word in text.split():
        if word == "BREAK" or len(words) == LENGTH - 2:
            out, words = out + [words], []
            if word == "BREAK":
                continue
        weight = 1.0
        if word[0] == "(" and word[-1] == ")" and ":" in word:
            word, weight = word[1:-1].split(":")
        h = 2166136261
        for byte in word.encode():
            h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
        words = words + [(1 + h % (VOCABULARY - 3), float(weight))]
    both = []
    for words in out + [words]:
        ids = [VOCABULARY - 2] + [w[0] for w in words] + [VOCABULARY - 1]
        both.append((ids + [pad] * (LENGTH - len(ids)), [1.0] + [w[1] for w in words] + [1.0] * (LENGTH - 1 - len(words))))
    return both


def hidden(model, ids):
    """The states before the last layer, without the final norm; the pooled vector."""
    out = model(torch.tensor([ids]), output_hidden_states=True)
    return out.hidden_states[-2], out.text_embeds if hasattr(out, "text_embeds") else out.pooler_output


def features(model, text, pad, least=1):
    empty = hidden(model, chunks("", pad)[0][0])[0]
    parts, pooled = [], None
    cut = chunks(text, pad)
    for ids, weights in cut + chunks("", pad) * (least - len(cut)):
        z, p = hidden(model, ids)
        parts.append(empty + (z - empty) * torch.tensor(weights)[None, :, None])
        pooled = p if pooled is None else pooled
    return torch.cat(parts, 1), pooled


def encode(g, l=None):
    """l None: g alone, as the refiner has it."""
    if l is None:
        return features(text_g, g, 0)
    n = max(len(chunks(g, 0)), len(chunks(l, 0)))
    (zl, _), (zg, pooled) = features(text_l, l, VOCABULARY - 1, n), features(text_g, g, 0, n)
    return torch.cat([zl, zg], 2), pooled


# ---- sampling

betas = np.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=np.float64) ** 2
table = ((1 - np.cumprod(1 - betas)) / np.cumprod(1 - betas)) ** 0.5


def sigma_to_t(sigma):
    return float(np.interp(math.log(sigma), np.log(table), np.arange(1000)))


def percent_to_sigma(p):
    if p < 0:
        return math.inf
    return float(np.exp(np.interp((1 - p) * 999, np.arange(1000), np.log(table))))


def karras(n):
    low, high = table[0] ** (1 / 7), table[-1] ** (1 / 7)
    return np.append((high + np.linspace(0, 1, n) * (low - high)) ** 7, 0.0)


def guess(unet, x, sigma, condition):
    """x0 under a condition (tokens, pooled, numbers); x [N,C,H,W]."""
    n = x.shape[0]
    tokens, pooled, sizes = condition
    extra = {"text_embeds": pooled.expand(n, -1).to(x), "time_ids": torch.tensor([sizes] * n).to(x)}
    eps = unet(x / math.sqrt(sigma**2 + 1), torch.tensor(sigma_to_t(sigma)), tokens.expand(n, -1, -1).to(x),
               added_cond_kwargs=extra).sample
    return x - sigma * eps


def fade(h, w, y, x, height, width):
    """ComfyUI's weights of an area: towards an inner edge they fall over a quarter of it, 8 cells at most."""
    weight = torch.ones(h, w)
    for t in range(min(h // 4, 8)):
        if y:
            weight[t] *= (t + 1) / min(h // 4, 8)
        if y + h < height:
            weight[h - 1 - t] *= (t + 1) / min(h // 4, 8)
    for t in range(min(w // 4, 8)):
        if x:
            weight[:, t] *= (t + 1) / min(w // 4, 8)
        if x + w < width:
            weight[:, w - 1 - t] *= (t + 1) / min(w // 4, 8)
    return weight


def mixed(unet, x, sigma, whole, area=None, part=None):
    """The guess under `whole`, and under `part` within area (h, w, y, x)."""
    g = guess(unet, x, sigma, whole)
    if not area:
        return g
    h, w, top, left = area
    weight = fade(h, w, top, left, *x.shape[2:]).to(x)
    total = torch.ones(x.shape[2:]).to(x)
    inside = (slice(None), slice(None), slice(top, top + h), slice(left, left + w))
    g[inside] += weight * guess(unet, x[inside], sigma, part)
    total[top:top + h, left:left + w] += weight
    return g / total


def places(tile, whole, overlap):
    """Where tiles begin; the last one ends where the picture does."""
    at = [0]
    while at[-1] + tile < whole:
        at.append(min(at[-1] + tile - overlap, whole - tile))
    return at


def edge_weights(tile, whole, overlap):
    from_edge = torch.minimum(torch.arange(tile), tile - 1 - torch.arange(tile))
    return torch.ones(tile) if tile == whole else torch.clamp((from_edge + 1) / (overlap + 1), max=1)


def tiled(whole_guess, x, tile, overlap):
    """plugins/examples/sampling.c: guesses of overlapping tiles, blended."""
    height, width = x.shape[2:]
    weight = (edge_weights(tile, height, overlap)[:, None] * edge_weights(tile, width, overlap)[None]).to(x)
    out, total = torch.zeros_like(x), torch.zeros(height, width).to(x)
    for top in places(tile, height, overlap):
        for left in places(tile, width, overlap):
            inside = (slice(None), slice(None), slice(top, top + tile), slice(left, left + tile))
            out[inside] += weight * whole_guess(x[inside])
            total[top:top + tile, left:left + tile] += weight
    return out / total


def sample(steps, positive, negative, *, cfg=4.0, seed=7, batch=1, size=(16, 16), refine=None, area=None, part=None,
           tile=None):
    """k-diffusion's Euler. refine: (share, positive, negative[, area, part]) of the refiner; tile: (side, overlap).
    -> [N,H,W,C], a LATENT's numbers."""
    sigmas = karras(steps)
    noise = torch.randn(batch, 4, *size, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)
    x = noise.to(next(base.parameters()).dtype) * math.sqrt(1 + sigmas[0] ** 2)
    below = percent_to_sigma(refine[0]) if refine else 0
    for sigma, following in zip(sigmas[:-1], sigmas[1:]):

        def guided(x):
            if sigma < below:
                one = mixed(refiner, x, sigma, refine[1], *refine[3:])
                other = mixed(refiner, x, sigma, refine[2], refine[3] if refine[3:] else None, refine[2])
            else:
                one = mixed(base, x, sigma, positive, area, part)
                other = mixed(base, x, sigma, negative, area, negative)
            return other + cfg * (one - other)

        x0 = tiled(guided, x, *tile) if tile else guided(x)
        x = x + (x - x0) / sigma * (following - sigma)
    return x.permute(0, 2, 3, 1).contiguous() / SCALE


# ---- goldens: the prompts and numbers are those of test_sdxl.sh

YES_G, YES_L = "a red circle above (one:1.3) square", "(blue:0.7) sky over hills"
LONG = " ".join(f"word{i}" for i in range(100))
SIZES = dict(yes=(832.0, 1216.0, 4.0, 8.0, 832.0, 1216.0), long=(832.0, 1216.0, 4.0, 8.0, 640.0, 512.0),
             no=(1024.0, 1024.0, 0.0, 0.0, 1024.0, 1024.0))


def made():
    out = {}
    yes, no = encode(YES_G, YES_L), encode("", "")
    out["yes_tokens"], out["yes_pooled"] = yes
    long = encode("short one", LONG)
    out["long_tokens"], out["long_pooled"] = long
    yes, no, long = (*yes, SIZES["yes"]), (*no, SIZES["no"]), (*long, SIZES["long"])
    fine, poor = (*encode(YES_G), (1024.0, 1024.0, 0.0, 0.0, 6.0)), (*encode(""), (1024.0, 1024.0, 0.0, 0.0, 2.5))
    refine = (0.5, fine, poor)
    out["base"] = sample(1, yes, no, cfg=1.0)
    out["refiner"] = sample(1, yes, no, cfg=1.0, refine=(-1, fine, poor))
    out["both"] = sample(6, yes, no, refine=refine)
    out["long"] = sample(4, long, no, size=(16, 24))
    corner = ((8, 8, 0, 0), (*encode("a red corner"), fine[2]))
    out["batch"] = sample(4, yes, no, batch=2, refine=(*refine, *corner), area=(8, 12, 8, 4),
                          part=(*encode("a green field", "a green field"), SIZES["no"]))
    out["tiles"] = sample(4, yes, no, refine=refine, tile=(8, 4))
    fine_long = (*encode(LONG), fine[2])
    out["apart"] = sample(2, yes, no, refine=(-1, fine_long, poor))
    # No numbers in the entry: the fallbacks.
    plain = encode("a red circle", "a red circle")
    out["plain"] = sample(2, (*plain, (1024.0, 1024.0, 0.0, 0.0, 1024.0, 1024.0)), no)
    return out


single = made()
for module in (text_l, text_g, base, refiner):
    module.double()
double = made()
(here / "goldens").mkdir(exist_ok=True)
for name, tensor in single.items():
    far = float((tensor.double() - double[name]).abs().max() / double[name].abs().max())
    print(f"{name}: {list(tensor.shape)}, the same in double differs by {far:.1e}")
    (here / "goldens" / f"{name}.f32").write_bytes(tensor.numpy().astype("<f4").tobytes())
