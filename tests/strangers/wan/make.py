"""Makes the tiny random Wan 2.1 of this folder and what diffusers and transformers say of it: python make.py

Needs torch, diffusers, transformers, sentencepiece and safetensors; the test needs none of them. Numbers are computed in float64, but for one: an angle of
the sinusoids, t f, is rounded to float32 as diffusers rounds it.

Files have the names of what was released: the text-to-video model those of the original single file, the image-to-video model those of diffusers, the
autoencoder both, the text encoder transformers' with its SentencePiece model beside the weights.
"""

import io
import json
import re
import sys
import unittest.mock as mock
from math import log
from pathlib import Path

import diffusers.models.embeddings
import sentencepiece
import torch
from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanTransformer3DModel
from safetensors.torch import save_file
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection, UMT5Config, UMT5EncoderModel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "goldens"))
from in_float64 import in_float64  # noqa: E402

WAN = dict(
    patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=20, in_channels=16, out_channels=16, text_dim=20, freq_dim=64, ffn_dim=44, num_layers=2,
    cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6, rope_max_seq_len=64,
)
I2V = WAN | dict(in_channels=36, image_dim=24, added_kv_proj_dim=40)
VAE = dict(base_dim=8, z_dim=16, dim_mult=[1, 1, 1, 2], num_res_blocks=1, temperal_downsample=[False, True, True])
UMT5 = dict(
    d_model=20, d_kv=8, num_heads=3, d_ff=28, num_layers=2, relative_attention_num_buckets=32, relative_attention_max_distance=128, layer_norm_epsilon=1e-6,
    feed_forward_proj="gated-gelu", dropout_rate=0.0,
)
VISION = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14, projection_dim=8, hidden_act="gelu")
YES = "a small red fox runs through deep snow under the old pine trees, and the low sun is behind it"
NO = "blurred,  still\n picture"
TEXT_LENGTH, SHIFT = 512, 8.0


# ---- weights


def fill(model, seed):
    """Random numbers that bf16 has; biases and norms too."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g, dtype=torch.float32)
        if "gamma" in name or (p.dim() == 1 and "norm" in name and name.endswith("weight")) or "ff.norm" in name:
            r = 1 + 0.2 * r
        elif p.dim() == 1 or "bias" in name.split(".")[-1]:
            r = 0.2 * r
        elif name.endswith("scale_shift_table"):
            r = 0.4 * r
        elif "relative" not in name and "shared" not in name and "embed_tokens" not in name:
            r = r * (0.5 if "SelfAttention.q" in name else 0.7) / (p.numel() / p.shape[0]) ** 0.5
        p.data.copy_(r.bfloat16().float())


def stored(model):
    return {name: p.detach().bfloat16().contiguous() for name, p in model.named_parameters()}


def original_transformer(w):
    """diffusers' names -> those of Wan 2.1's release"""
    ways = [
        (r"^condition_embedder\.time_embedder\.linear_1", "time_embedding.0"), (r"^condition_embedder\.time_embedder\.linear_2", "time_embedding.2"),
        (r"^condition_embedder\.time_proj", "time_projection.1"), (r"^condition_embedder\.text_embedder\.linear_1", "text_embedding.0"),
        (r"^condition_embedder\.text_embedder\.linear_2", "text_embedding.2"), (r"^scale_shift_table", "head.modulation"), (r"^proj_out", "head.head"),
        (r"\.scale_shift_table", ".modulation"), (r"\.attn1\.", ".self_attn."), (r"\.attn2\.", ".cross_attn."), (r"\.to_out\.0\.", ".o."), (r"\.to_(.)\.", r".\1."),
        (r"\.ffn\.net\.0\.proj", ".ffn.0"), (r"\.ffn\.net\.2", ".ffn.2"), (r"(blocks\.\d+)\.norm2", r"\1.norm3"),
    ]
    out = {}
    for name, value in w.items():
        for old, new in ways:
            name = re.sub(old, new, name)
        out[name] = value
    return out


def original_vae(w, blocks):
    """diffusers' names -> those of Wan2.1_VAE.pth"""
    ways = [
        (r"^quant_conv", "conv1"), (r"^post_quant_conv", "conv2"), (r"\.conv_in\.", ".conv1."), (r"\.conv_out\.", ".head.2."), (r"\.norm_out\.", ".head.0."),
        (r"\.mid_block\.resnets\.0\.", ".middle.0."), (r"\.mid_block\.attentions\.0\.", ".middle.1."), (r"\.mid_block\.resnets\.1\.", ".middle.2."),
        (r"\.down_blocks\.", ".downsamples."), (r"\.up_blocks\.(\d+)\.resnets\.(\d+)\.", lambda m: f".upsamples.{int(m[1]) * (blocks + 2) + int(m[2])}."),
        (r"\.up_blocks\.(\d+)\.upsamplers\.0\.", lambda m: f".upsamples.{int(m[1]) * (blocks + 2) + blocks + 1}."),
        (r"\.norm1\.", ".residual.0."), (r"\.conv1\.(?=[^.]*$)", ".residual.2."), (r"\.norm2\.", ".residual.3."), (r"\.conv2\.", ".residual.6."), (r"\.conv_shortcut\.", ".shortcut."),
    ]
    out = {}
    for name, value in w.items():
        top = name.startswith(("quant_conv", "post_quant_conv"))
        for old, new in ways[:2] if top else ways[2:]:
            if old.startswith(r"\.conv1") and not re.search(r"(samples|middle)\.", name):
                continue
            name = re.sub(old, new, name)
        out[name] = value
    return out


def lora_of(model):
    """A LoRA under the release's names, as trainers write it, and what it makes of diffusers' weights."""
    g = torch.Generator().manual_seed(60)
    ways = {"blocks.0.self_attn.q": "blocks.0.attn1.to_q", "blocks.1.cross_attn.o": "blocks.1.attn2.to_out.0", "blocks.1.ffn.0": "blocks.1.ffn.net.0.proj"}
    lora, made = {}, {}
    for original, name in ways.items():
        w = model.get_parameter(f"{name}.weight")
        down, up = (torch.randn(*shape, generator=g).bfloat16() for shape in ((2, w.shape[1]), (w.shape[0], 2)))
        lora |= {f"diffusion_model.{original}.lora_A.weight": down, f"diffusion_model.{original}.lora_B.weight": up, f"diffusion_model.{original}.alpha": torch.tensor(0.5)}
        made[f"{name}.weight"] = w.double() + 0.8 * 0.25 * up.double() @ down.double()  # strength, alpha / rank
    return lora, made


def sentences():
    made = io.BytesIO()
    text = [YES, NO, "the fox", "snow and sun", "an old tree is deep under the snow", "red picture, blurred", "it runs behind the pine"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=made, vocab_size=70, model_type="unigram", normalization_rule_name="identity", pad_id=0, eos_id=1, bos_id=2, unk_id=3,
        pad_piece="<pad>", hard_vocab_limit=False, minloglevel=2,
    )
    return made.getvalue()


# ---- what is computed


def sinusoid(t, width, flip_sin_to_cos, downscale_freq_shift, scale=1, max_period=10000):
    f = torch.exp(-log(max_period) * torch.arange(width // 2, dtype=torch.float64) / (width // 2 - downscale_freq_shift))
    angle = (t.type(torch.float32)[:, None] * f.type(torch.float32)).double() * scale
    parts = [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts[::-1] if flip_sin_to_cos else parts, -1)


first = lambda x: x.permute(0, 4, 1, 2, 3)  # [N,T,H,W,C] -> [N,C,T,H,W]
last = lambda x: x.permute(0, 2, 3, 4, 1)


def encode_text(model, sp, text):
    """Wan's: cut at 512 tokens, and behind them rows of zeros."""
    ids = sp.encode(re.sub(r"\s+", " ", text).strip())[: TEXT_LENGTH - 1] + [sp.eos_id()]
    mask = torch.zeros(1, TEXT_LENGTH, dtype=torch.long)
    mask[:, : len(ids)] = 1
    tokens = model(torch.tensor([ids + [0] * (TEXT_LENGTH - len(ids))]), attention_mask=mask).last_hidden_state
    return tokens * mask[..., None]


def levels(steps, shift):
    """KSampler's `simple` of a thousand levels."""
    table = [(lambda u: shift * u / (1 + (shift - 1) * u))((i + 1) / 1000) for i in range(1000)]
    return [float(torch.tensor(table[-(1 + int(i * 1000 / steps))], dtype=torch.float32)) for i in range(steps)] + [0.0]


def sample(model, stats, shape, seed, steps, cfg, prompts, shift=SHIFT, beside=None, vision=None):
    n, t, h, w, c = shape
    mean, std = stats
    sigmas = levels(steps, shift)
    x = torch.randn(n, c, t, h, w, generator=torch.Generator().manual_seed(seed)).to(mean.dtype)
    there = FlowMatchEulerDiscreteScheduler()
    there.set_timesteps(sigmas=sigmas[:-1])
    theirs = x.float()

    def velocity(x, sigma, tokens):
        at = torch.full((n,), float(torch.tensor(1000 * sigma, dtype=torch.float32)), dtype=mean.dtype)
        more = {} if vision is None else {"encoder_hidden_states_image": vision.expand(n, -1, -1)}
        seen = x if beside is None else torch.cat([x, beside.expand(n, -1, -1, -1, -1)], 1)
        return model(hidden_states=seen.to(model.dtype), timestep=at, encoder_hidden_states=tokens.expand(n, -1, -1), return_dict=False, **more)[0].to(mean.dtype)

    for i, (sigma, after) in enumerate(zip(sigmas, sigmas[1:])):
        v = velocity(x, sigma, prompts[0])
        if cfg != 1:
            no = velocity(x, sigma, prompts[1])
            v = no + cfg * (v - no)
        x = x + v * (after - sigma)
        theirs = there.step(v.float(), there.timesteps[i], theirs, return_dict=False)[0].float()
    assert (theirs - x.float()).abs().max() < 1e-4 * x.abs().max()  # diffusers' scheduler makes the same of these levels, in float32
    return last(x * std + mean)


def smooth(frames, height, width):
    t, y, x = torch.meshgrid(torch.linspace(0, 1, frames), torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    return (torch.stack([torch.sin(5 * y + 2 * x + 3 * t), torch.cos(7 * x - 4 * t) * y, torch.sin(9 * y * x + t)], -1) * 0.4 + 0.5).float()


def pixels(small):
    return small.repeat_interleave(4, 1).repeat_interleave(4, 2)


def images(x):
    """[N,C,T,H,W] of -1..1 -> a few pixels of each frame, as the test takes them"""
    return (last(x) / 2 + 0.5).clamp(0, 1).flatten(0, 1)[:, 2::4, 2::4]


def image_condition(vae, stats, start, frames):
    """[1,4+16,T,h,w]: which frames are given, and the first one encoded before grey ones, as WanImageToVideoPipeline has them"""
    mean, std = stats
    video = torch.zeros(1, 3, frames, *start.shape[1:3], dtype=vae.dtype)
    video[:, :, :1] = first(start[None].to(vae.dtype)) * 2 - 1
    latent = (vae.encode(video).latent_dist.mode() - mean) / std
    mask = torch.zeros(1, 4, latent.shape[2], *latent.shape[3:], dtype=vae.dtype)
    mask[:, :, 0] = 1
    return torch.cat([mask, latent], 1)


@torch.inference_mode()
def main():
    piece = sentences()
    sp = sentencepiece.SentencePieceProcessor(model_proto=piece)
    with in_float64():  # tables of angles are made here
        wan, i2v, vae = (kind(**config).eval() for kind, config in ((WanTransformer3DModel, WAN), (WanTransformer3DModel, I2V), (AutoencoderKLWan, VAE)))
    umt5 = UMT5EncoderModel(UMT5Config(vocab_size=sp.get_piece_size(), **UMT5)).eval()
    vision = CLIPVisionModelWithProjection(CLIPVisionConfig(**VISION)).eval()
    for seed, model in enumerate((wan, i2v, vae, umt5, vision)):
        fill(model, 30 + seed)
    for folder in ("diffusion_models", "vae", "text_encoders", "clip_vision/tiny", "loras"):
        (HERE / "models" / folder).mkdir(parents=True, exist_ok=True)
    heads = {"format": "pt", "config": json.dumps({"num_heads": 2})}
    save_file(original_transformer(stored(wan)), HERE / "models/diffusion_models/wan.safetensors", heads)
    save_file(stored(i2v), HERE / "models/diffusion_models/wan_i2v.safetensors", {"format": "pt", "config": json.dumps({"num_attention_heads": 2})})
    save_file(original_vae(stored(vae), VAE["num_res_blocks"]), HERE / "models/vae/wan.safetensors", {"format": "pt"})
    save_file(stored(vae), HERE / "models/vae/wan_diffusers.safetensors", {"format": "pt"})
    text = {name: value for name, value in stored(umt5).items() if name != "encoder.embed_tokens.weight"}
    save_file(text | {"spiece_model": torch.frombuffer(bytearray(piece), dtype=torch.uint8)}, HERE / "models/text_encoders/umt5.safetensors", {"format": "pt"})
    save_file(stored(vision), HERE / "models/clip_vision/tiny/model.safetensors", {"format": "pt"})
    (HERE / "models/clip_vision/tiny/config.json").write_text(json.dumps(VISION) + "\n")

    lora, made = lora_of(wan)
    save_file(lora, HERE / "models/loras/wan.safetensors", {"format": "pt"})

    small = smooth(13, 8, 12)
    face = (smooth(1, 28, 28) * 255).round() / 255
    g = {"pixels": small, "face": face}
    with in_float64(), mock.patch.object(diffusers.models.embeddings, "get_timestep_embedding", sinusoid):
        for model in (wan, i2v, vae, umt5, vision):
            model.double()
        stats = tuple(torch.tensor(vae.config[name], dtype=torch.float64).reshape(1, -1, 1, 1, 1) for name in ("latents_mean", "latents_std"))
        yes, no = (encode_text(umt5, sp, text) for text in (YES, NO))
        g["golden.tokens"], g["golden.long"] = yes, encode_text(umt5, sp, "fox snow " * 300)
        g["golden.one"] = sample(wan, stats, (1, 3, 4, 6, 16), 5, 1, 1, (yes, no))
        g["golden.whole"] = sample(wan, stats, (1, 3, 4, 6, 16), 5, 4, 5, (yes, no))
        g["golden.shifted"] = sample(wan, stats, (1, 3, 4, 6, 16), 5, 4, 5, (yes, no), shift=3.0)
        g["golden.batch"] = sample(wan, stats, (2, 2, 4, 4, 16), 6, 3, 5, (yes, no))
        encoded = vae.encode(first(pixels(small)[None].double()) * 2 - 1).latent_dist
        g["golden.encoded"] = last(encoded.mode())
        g["golden.decoded"] = images(vae.decode(encoded.mode()).sample)
        g["golden.video"] = images(vae.decode(first(g["golden.whole"])).sample)
        mean, std = torch.tensor([0.48145466, 0.4578275, 0.40821073]), torch.tensor([0.26862954, 0.26130258, 0.27577711])
        seen = vision(((face.double() - mean.double()) / std.double()).permute(0, 3, 1, 2), output_hidden_states=True).hidden_states[-2]
        beside = image_condition(vae, stats, pixels(small)[:1], 9)
        g["golden.i2v"] = sample(i2v, stats, (1, 3, 4, 6, 16), 7, 4, 5, (yes, no), beside=beside, vision=seen)
        g["golden.i2v_two"] = sample(i2v, stats, (2, 3, 4, 6, 16), 8, 2, 1, (yes, no), beside=beside, vision=seen)
        other = sample(i2v, stats, (1, 3, 4, 6, 16), 7, 4, 5, (yes, no), beside=beside, vision=torch.randn(seen.shape, generator=torch.Generator().manual_seed(1), dtype=seen.dtype))
        plain = {name: p.clone() for name, p in wan.state_dict().items()}
        wan.load_state_dict(made, strict=False)
        g["golden.lora"] = sample(wan, stats, (1, 3, 4, 6, 16), 5, 1, 1, (yes, no))
        wan.load_state_dict(plain)
    error = lambda x, name: float((x - g[name]).abs().max() / g[name].abs().max())
    alone = sample(wan.float(), [s.float() for s in stats], (1, 3, 4, 6, 16), 5, 4, 5, (yes.float(), no.float()))
    coarse = sample(wan.bfloat16(), [s.float() for s in stats], (1, 3, 4, 6, 16), 5, 4, 5, (yes.bfloat16(), no.bfloat16()))
    print(f"diffusers in float32: {error(alone, 'golden.whole'):.1e}, in bfloat16: {error(coarse.double(), 'golden.whole'):.1e}")
    print(f"the shift matters by {error(g['golden.shifted'], 'golden.whole'):.1e}, vision by {error(other, 'golden.i2v'):.1e}, the LoRA by {error(g['golden.lora'], 'golden.one'):.1e}; ids of the prompt: {len(sp.encode(YES)) + 1}")
    print({name: (round(float(v.abs().max()), 3), round(float(v.std()), 3)) for name, v in g.items()})
    save_file({name: value.to(torch.float32).contiguous() for name, value in g.items()}, HERE / "goldens.safetensors")
    for path in HERE.rglob("*.safetensors"):
        path.chmod(0o644)
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
