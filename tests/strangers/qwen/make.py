"""Makes the tiny random Qwen-Image-Edit of this folder and what diffusers and transformers say of it: python make.py

Needs torch, diffusers, transformers, tokenizers and safetensors; the test needs none of them. Numbers are computed in float64, but for one: an angle of the
sinusoid, 1000 t f, is rounded to float32 after 1000 t was, as kiln rounds it. diffusers rounds t f and takes that a thousand times.

Each part is written twice: as a diffusers folder has it, and as the single files have it that ComfyUI reads.
"""

import json
import shutil
import sys
import unittest.mock as mock
from math import exp, log, sqrt
from pathlib import Path

import diffusers.models.embeddings
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel
from diffusers.pipelines.qwenimage.pipeline_qwenimage import QwenImagePipeline
from diffusers.pipelines.qwenimage.pipeline_qwenimage_edit import QwenImageEditPipeline, calculate_dimensions
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor, smart_resize

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "goldens"))
from in_float64 import in_float64  # noqa: E402

TRANSFORMER = dict(
    patch_size=2, in_channels=64, out_channels=16, num_layers=2, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=48, axes_dims_rope=(4, 6, 6),
)
VAE = dict(base_dim=4, z_dim=16, dim_mult=[1, 2, 2, 2], num_res_blocks=2, attn_scales=[], temperal_downsample=[False, True, True])
VISION = dict(
    depth=3, hidden_size=24, intermediate_size=40, num_heads=2, out_hidden_size=48, patch_size=14, temporal_patch_size=2, spatial_merge_size=2, window_size=112,
    fullatt_block_indexes=[1], hidden_act="silu", in_channels=3,
)
TEXT = dict(
    hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6, hidden_act="silu",
    max_position_embeddings=4096, rope_parameters={"rope_type": "default", "mrope_section": [2, 2, 2], "rope_theta": 1000000.0},
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
SIDE = 96  # what ExampleTextEncodeQwenImageEdit is asked for in place of 1024
TEXT_PROMPT, OTHER_PROMPT, NO_PROMPT, EDIT_PROMPT = "a red square on grass", "a whole sentence about two blue circles", " ", "make it blue"


def templates():
    """Of diffusers' pipelines, whose __init__ alone says them"""
    found = []
    for pipeline in (QwenImagePipeline, QwenImageEditPipeline):
        consts = pipeline.__init__.__code__.co_consts
        found.append(next(c for c in consts if isinstance(c, str) and c.startswith("<|im_start|>system")))
    return found


def tokenizer(texts):
    t = Tokenizer(models.BPE())
    t.normalizer, t.decoder = normalizers.NFC(), decoders.ByteLevel()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=360, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in SPECIAL])
    return t


def fill(model, seed, bias=0.1):
    """Random weights, which are bf16's numbers. The autoencoder's biases are large: a cell of four channels that are all nearly 0 is normalised too, and with
    small ones diffusers in bf16 is 0.18 away from itself."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g, dtype=torch.float32)
        if "gamma" in name or (p.dim() == 1 and name.endswith("weight")):
            r = 1 + 0.2 * r
        elif p.dim() == 1:
            r = bias * r
        elif "embed_tokens" not in name:
            r = r / p[0].numel() ** 0.5
        p.data.copy_(r.bfloat16().float())
    return {name: p.detach().bfloat16().contiguous() for name, p in model.named_parameters()}


def sinusoid(t, width, flip_sin_to_cos, downscale_freq_shift, scale=1, max_period=10000):
    f = torch.exp(-log(max_period) * torch.arange(width // 2, dtype=torch.float64) / (width // 2 - downscale_freq_shift))
    angle = ((t.double() * scale).type(torch.float32)[:, None] * f.type(torch.float32)).double()
    parts = [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts[::-1] if flip_sin_to_cos else parts, -1)


# ---- the picture


def seen(model, picture):
    """picture [1,h,w,3] -> the vision tower's rows, and its patches down and across"""
    h, w = smart_resize(*picture.shape[1:3], 28, 56 * 56, 28 * 28 * 1280)
    x = F.interpolate(picture.permute(0, 3, 1, 2), size=(h, w), mode="bicubic", antialias=True).clamp(0, 1)
    x = (x - torch.tensor(MEAN).double()[:, None, None]) / torch.tensor(STD).double()[:, None, None]
    patches, rows, columns = Qwen2VLImageProcessor.patchify(None, x, 14, 2, 2)
    grid = torch.tensor([[1, rows, columns]])
    return patches[0], grid, model.model.visual(patches[0], grid).pooler_output


def encode(model, tokens, template, prompt, picture=None, layer=-1):
    """Token features as diffusers' pipelines cut them: without the template's system text"""
    text, prefix = template.format(prompt), template[: template.index("<|im_start|>user\n") + len("<|im_start|>user\n")]
    extra = {}
    if picture is not None:
        pixels, grid, rows = seen(model, picture)
        text = text.replace("<|image_pad|>", "<|image_pad|>" * rows.shape[0])
        extra = dict(pixel_values=pixels, image_grid_thw=grid)
    ids = torch.tensor([tokens.encode(text).ids])
    if picture is not None:
        extra["mm_token_type_ids"] = (ids == tokens.token_to_id("<|image_pad|>")).int()
    out = model.model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True, **extra)
    assert torch.equal(out.hidden_states[-1], out.last_hidden_state)
    return out.hidden_states[layer][:, len(tokens.encode(prefix).ids) :]


def scaled(picture, side):
    """To as many pixels as a square of that side, by diffusers' rule: sides are multiples of 32"""
    h, w = picture.shape[1:3]
    width, height, _ = calculate_dimensions(side * side, w / h)
    return F.interpolate(picture.permute(0, 3, 1, 2), size=(height, width), mode="area").permute(0, 2, 3, 1)


# ---- latents: [n,h,w,16]


def statistics(vae):
    return torch.tensor(vae.config.latents_mean).double(), torch.tensor(vae.config.latents_std).double()


def to_latent(vae, picture):
    return vae.encode(picture.permute(0, 3, 1, 2)[:, :, None] * 2 - 1).latent_dist.mode()[:, :, 0].permute(0, 2, 3, 1)


def to_picture(vae, latent):
    return ((vae.decode(latent.permute(0, 3, 1, 2)[:, :, None]).sample[:, :, 0] + 1) / 2).clamp(0, 1).permute(0, 2, 3, 1)


def pack(x):
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 5, 2, 4).reshape(n, h * w // 4, 4 * c)


def unpack(x, h, w):
    n = x.shape[0]
    return x.reshape(n, h // 2, w // 2, -1, 2, 2).permute(0, 1, 4, 2, 5, 3).reshape(n, h, w, -1)


def velocity(model, x, sigma, tokens, references=()):
    n, h, w, _ = x.shape
    packed = torch.cat([pack(x), *(pack(r).expand(n, -1, -1) for r in references)], 1)
    shapes = [[(1, y.shape[1] // 2, y.shape[2] // 2) for y in (x, *references)]] * n
    out = model(
        hidden_states=packed, encoder_hidden_states=tokens.expand(n, -1, -1), timestep=torch.full((n,), sigma, dtype=x.dtype), img_shapes=shapes,
        return_dict=False,
    )[0]
    return unpack(out[:, : h * w // 4], h, w)


def plain_cfg(positive, negative, cfg):
    return negative + cfg * (positive - negative)


def true_cfg(positive, negative, cfg):
    """QwenImageEditPipeline's: each patch's velocity keeps the length that it has under the prompt"""
    h, w = positive.shape[1:3]
    both, alone = pack(plain_cfg(positive, negative, cfg)), pack(positive)
    return unpack(both * (alone.norm(dim=-1, keepdim=True) / both.norm(dim=-1, keepdim=True)), h, w)


def sample(model, vae, shape, seed, steps, positive, negative=None, cfg=1.0, references=((), ()), combine=plain_cfg):
    """KSampler's euler and simple, of ten thousand levels with the shift e^1.15; each prompt is evaluated by itself"""
    n, h, w, c = shape
    level = lambda u: exp(1.15) * u / (1 + (exp(1.15) - 1) * u)
    sigmas = [float(torch.tensor(level((10000 - int(i * 10000 / steps)) / 10000), dtype=torch.float32)) for i in range(steps)] + [0.0]
    mean, std = statistics(vae)
    into = lambda r: ((r - mean) / std).to(model.dtype)
    x = torch.randn(n, c, h, w, generator=torch.Generator().manual_seed(seed)).to(model.dtype).permute(0, 2, 3, 1)
    for sigma, after in zip(sigmas, sigmas[1:]):
        v = velocity(model, x, sigma, positive, [into(r) for r in references[0]])
        if negative is not None:
            v = combine(v, velocity(model, x, sigma, negative, [into(r) for r in references[1]]), cfg)
        x = x + v * (after - sigma)
    return x * std.to(x.dtype) + mean.to(x.dtype)


# ---- files


def wan_names(weights):
    """The autoencoder's tensors as Wan's release and ComfyUI's file of Qwen-Image's have them"""
    out = {}
    for name, value in weights.items():
        n = name.replace("post_quant_conv.", "conv2.").replace("quant_conv.", "conv1.")
        n = n.replace("coder.conv_in.", "coder.conv1.").replace("norm_out.", "head.0.").replace("conv_out.", "head.2.")
        n = n.replace("mid_block.resnets.0.", "middle.0.").replace("mid_block.attentions.0.", "middle.1.").replace("mid_block.resnets.1.", "middle.2.")
        n = n.replace("down_blocks.", "downsamples.")
        if "up_blocks." in n:
            parts = n.split(".")
            at = 4 * int(parts[2]) + (int(parts[4]) if parts[3] == "resnets" else 3)
            n = ".".join(["decoder.upsamples", str(at), *parts[5:]])
        for a, b in (("norm1.", "residual.0."), ("conv1.", "residual.2."), ("norm2.", "residual.3."), ("conv2.", "residual.6."), ("conv_shortcut.", "shortcut.")):
            if "middle." in n or "samples." in n:
                n = n.replace(a, b)
        out[n] = value
    return out


def write(folder, names, config, single, single_names):
    """A diffusers folder, and a single file with the configuration in its metadata"""
    path = HERE / "models" / folder
    path.mkdir(parents=True, exist_ok=True)
    stem = "model" if folder.endswith("text_encoder") else "diffusion_pytorch_model"
    save_file(names, path / f"{stem}.safetensors", {"format": "pt"})
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(single_names, HERE / "models" / single, {"format": "pt", **({"config": json.dumps(config)} if config else {})})


def write_models(text, vae, transformer, tokens):
    shutil.rmtree(HERE / "models", ignore_errors=True)
    weights = fill(transformer, 3)
    config = {"_class_name": "QwenImageTransformer2DModel", **TRANSFORMER}
    # the same network as a file of 2511's, whose references have modulations of t = 0
    single = {"model.diffusion_model." + n: t for n, t in weights.items()} | {"model.diffusion_model.__index_timestep_zero__": torch.tensor([])}
    write("diffusion_models/qwen/transformer", weights, config, "diffusion_models/qwen.safetensors", single)
    weights = fill(vae, 4, bias=0.5)
    write("vae/qwen/vae", weights, {"_class_name": "AutoencoderKLQwenImage", **VAE}, "vae/qwen.safetensors", wan_names(weights))
    weights = {n: t for n, t in fill(text, 5).items() if not n.startswith("lm_head.")}
    config = {
        "model_type": "qwen2_5_vl", "vision_config": VISION, **{n: v for n, v in TEXT.items() if n != "rope_parameters"}, "rope_theta": 1000000.0,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 2, 2]},
    }
    released = {n.replace("model.language_model.", "model.").replace("model.visual.", "visual."): t for n, t in weights.items()}
    write("text_encoders/qwen/text_encoder", weights, config, "text_encoders/qwen.safetensors", released)
    folder = HERE / "models/text_encoders/qwen/tokenizer"
    folder.mkdir()
    tokens.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + "\n")
    metadata = {"format": "pt", "config": json.dumps(config), "tokenizer.json": tokens.to_str()}
    save_file(released, HERE / "models/text_encoders/qwen.safetensors", metadata)


@torch.inference_mode()
def main():
    simple, edit = templates()
    tokens = tokenizer([simple, edit, TEXT_PROMPT, OTHER_PROMPT])
    with in_float64():
        transformer, vae = QwenImageTransformer2DModel(**TRANSFORMER).eval(), AutoencoderKLQwenImage(**VAE).eval()
        config = Qwen2_5_VLConfig(
            text_config={**TEXT, "vocab_size": tokens.get_vocab_size()}, vision_config=VISION, image_token_id=tokens.token_to_id("<|image_pad|>"),
            video_token_id=tokens.token_to_id("<|video_pad|>"), vision_start_token_id=tokens.token_to_id("<|vision_start|>"),
            vision_end_token_id=tokens.token_to_id("<|vision_end|>"), attn_implementation="eager",
        )
        text = Qwen2_5_VLForConditionalGeneration(config).eval()
    write_models(text, vae, transformer, tokens)
    g = torch.Generator().manual_seed(8)
    # not square, smooth but for where it is black or white: there scaling goes beyond, and is cut
    picture = F.interpolate(torch.rand(1, 3, 4, 5, generator=g), size=(28, 40), mode="bilinear")
    picture = (3 * picture - 1).clamp(0, 1).permute(0, 2, 3, 1).contiguous()
    goldens = {"picture": picture, "empty": torch.zeros(1, 6, 10, 16), "two": torch.zeros(2, 4, 6, 16), "latent": torch.randn(1, 4, 6, 16, generator=g)}
    picture, latent = picture.double(), goldens["latent"].double()
    with in_float64(), mock.patch.object(diffusers.models.embeddings, "get_timestep_embedding", sinusoid):
        transformer.double(), vae.double(), text.double()
        large = scaled(picture, SIDE)
        yes, no, other = (encode(text, tokens, simple, p) for p in (TEXT_PROMPT, NO_PROMPT, OTHER_PROMPT))
        change, keep = (encode(text, tokens, edit, p, large) for p in (EDIT_PROMPT, NO_PROMPT))
        reference = to_latent(vae, large)
        second = to_latent(vae, scaled(picture, 64))
        goldens |= {"golden.seen": seen(text, large)[2], "golden.text": yes, "golden.edit_text": change, "golden.encoded": reference}
        goldens |= {"golden.seen_small": seen(text, picture)[2], "golden.skipped": encode(text, tokens, simple, TEXT_PROMPT, layer=-2)}
        goldens["golden.decoded"] = to_picture(vae, latent)
        shape = (1, 6, 10, 16)
        goldens["golden.one"] = sample(transformer, vae, shape, 5, 1, yes)
        goldens["golden.whole"] = sample(transformer, vae, shape, 5, 5, yes, no, 3.0)
        goldens["golden.longer"] = sample(transformer, vae, shape, 5, 5, other, no, 3.0)
        goldens["golden.batch"] = sample(transformer, vae, (2, 4, 6, 16), 6, 4, yes, no, 3.0)
        goldens["golden.edited"] = sample(transformer, vae, shape, 7, 5, change, keep, 3.0, ([reference], [reference]))
        goldens["golden.apart"] = sample(transformer, vae, shape, 7, 3, change, no, 3.0, ([reference], []))
        goldens["golden.references"] = sample(transformer, vae, shape, 7, 3, change, None, 1.0, ([reference, second], []))
        goldens["golden.true_cfg"] = sample(transformer, vae, shape, 7, 5, change, keep, 3.0, ([reference], [reference]), true_cfg)
        transformer.zero_cond_t = True
        for block in transformer.transformer_blocks:
            block.zero_cond_t = True
        goldens["golden.edited_clean"] = sample(transformer, vae, shape, 7, 5, change, keep, 3.0, ([reference], [reference]))
        transformer.zero_cond_t = False
        for block in transformer.transformer_blocks:
            block.zero_cond_t = False
        goldens["golden.result"] = to_picture(vae, goldens["golden.edited"])
    error = lambda x, name: float((x - goldens[name]).abs().max() / goldens[name].abs().max())
    single = sample(transformer.float(), vae, shape, 5, 1, yes.float())
    print(f"diffusers in float32: {error(single, 'golden.one'):.1e}")
    half = sample(transformer.bfloat16(), vae, shape, 5, 5, yes.bfloat16(), no.bfloat16(), 3.0)
    print(f"diffusers in bfloat16: {error(half, 'golden.whole'):.1e}")
    narrow = encode(text.bfloat16(), tokens, simple, TEXT_PROMPT)
    print(f"transformers in bfloat16: {error(narrow, 'golden.text'):.1e}")
    print(f"the longer prompt matters by {error(goldens['golden.longer'], 'golden.whole'):.1e}, a second reference and a guidance by "
          f"{error(goldens['golden.references'], 'golden.edited'):.1e}")
    print("tokens:", {n: tuple(goldens[n].shape) for n in ("golden.text", "golden.edit_text", "golden.seen", "golden.encoded")})
    print(f"references of t = 0 matter by {error(goldens['golden.edited_clean'], 'golden.edited'):.1e}")
    check_processor(goldens["picture"])
    write_sizes(g)
    save_file({name: value.to(torch.float32).contiguous() for name, value in goldens.items()}, HERE / "goldens.safetensors")
    for path in [*HERE.rglob("*.safetensors"), *HERE.rglob("*.json")]:
        path.chmod(0o644)
        print(path.name, path.stat().st_size, "bytes")


def write_sizes(g):
    """Pictures' heights and widths, and what smart_resize makes of them"""
    sizes = [(1, 1), (14, 14), (42, 70), (56, 56), (28, 5600), (10, 2000), (1000, 1010), (1024, 1024), (1036, 952), (3000, 17), (4096, 4096), (9999, 50)]
    sizes += [tuple(int(x) for x in (2 ** (12 * torch.rand(2, generator=g))).round()) for _ in range(60)]
    lines = [f"{h} {w} " + " ".join(str(x) for x in smart_resize(h, w, 28, 56 * 56, 28 * 28 * 1280)) for h, w in sizes if max(h, w) <= 200 * min(h, w)]
    (HERE / "sizes.txt").write_text("\n".join(lines) + "\n")


def check_processor(picture):
    """transformers' own processor resizes as seen() does; of bytes it cuts what goes beyond, of these floats it does not"""
    processor = Qwen2VLImageProcessor(do_rescale=False)
    large = scaled(picture.double(), SIDE).float()
    theirs = processor(images=[large[0].permute(2, 0, 1)], return_tensors="pt")
    h, w = smart_resize(*large.shape[1:3], 28, 56 * 56, 28 * 28 * 1280)
    x = F.interpolate(large.permute(0, 3, 1, 2), size=(h, w), mode="bicubic", antialias=True)
    x = (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    ours, rows, columns = Qwen2VLImageProcessor.patchify(None, x, 14, 2, 2)
    assert theirs["image_grid_thw"].tolist() == [[1, rows, columns]]
    print(f"the processor's patches differ by {(theirs['pixel_values'] - ours[0]).abs().max():.1e}")


if __name__ == "__main__":
    main()
