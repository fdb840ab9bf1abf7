#!/usr/bin/env python3
"""IP-Adapter and IP-Adapter Plus at full size (SD1.5's UNet, ViT-H, random weights) against diffusers and transformers: whole pictures.

    scripts/parity_ip_adapter.py --model FOLDER [--work build/parity/ip-adapter] [--build build/release] [--size 256] [--rows none,plain,plus] [--f32] [--torch bf16] [--memory 2G]

FOLDER is SD1.5 as diffusers stores it (scripts/bench leaves one of random weights at build/bench/models/sd15). A row samples with Euler's method
and guidance over two levels, decodes, and holds kiln's picture against that of diffusers: mean difference <= 0.5 of 255. So that this says
something, a row fails too where the adapter changes diffusers' own picture by less than 5 times that. kiln computes in bf16, with --f32 in f32, which the bound is for. --torch bf16
lets diffusers and transformers compute in bf16, too: beside --f32 that says how far bf16 is off by itself. The row `none` has no adapter.
Needs torch, diffusers, transformers, safetensors, numpy and Pillow, 2 GB of disk and 6 GB of memory (with --torch bf16 3). Exit status 1: out of bounds.
"""
import argparse
import gc
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
BOUND, CFG, WEIGHT = 0.5, 3.0, 0.8
TIMES = [950, 500]
ALPHAS = (1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2).cumprod(0)
SIGMAS = [float(((1 - ALPHAS[t]) / ALPHAS[t]).sqrt()) for t in TIMES] + [0.0]
WIDTH, FEATURES, HIDDEN = 768, 1024, 1280
VISION = {"hidden_size": HIDDEN, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 16, "patch_size": 14, "image_size": 224,
          "projection_dim": FEATURES, "hidden_act": "gelu"}


def make_vision(path, dtype):
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    if not path.exists():
        torch.manual_seed(1)
        save_file({k: v for k, v in CLIPVisionModelWithProjection(CLIPVisionConfig(**VISION)).half().state_dict().items() if "position_ids" not in k}, path)
    torch.set_default_dtype(dtype)
    model = CLIPVisionModelWithProjection(CLIPVisionConfig(**VISION)).eval()
    torch.set_default_dtype(torch.float32)
    model.load_state_dict(load_file(path), strict=False)
    return model


def linear(out, width):
    return torch.randn(out, width) / width**0.5


def projection(plus):
    if not plus:
        return {"proj.weight": linear(4 * WIDTH, FEATURES), "proj.bias": torch.zeros(4 * WIDTH), "norm.weight": torch.ones(WIDTH), "norm.bias": torch.zeros(WIDTH)}
    found = {"latents": torch.randn(1, 16, WIDTH) / WIDTH**0.5, "proj_in.weight": linear(WIDTH, HIDDEN), "proj_in.bias": torch.zeros(WIDTH),
             "proj_out.weight": linear(WIDTH, WIDTH), "proj_out.bias": torch.zeros(WIDTH), "norm_out.weight": torch.ones(WIDTH), "norm_out.bias": torch.zeros(WIDTH)}
    for i in range(4):
        for part, shape in {"0.to_q": (WIDTH, WIDTH), "0.to_kv": (2 * WIDTH, WIDTH), "0.to_out": (WIDTH, WIDTH), "1.1": (4 * WIDTH, WIDTH), "1.3": (WIDTH, 4 * WIDTH)}.items():
            found[f"layers.{i}.{part}.weight"] = linear(*shape)
        for part in ("0.norm1", "0.norm2", "1.0"):
            found[f"layers.{i}.{part}.weight"], found[f"layers.{i}.{part}.bias"] = torch.ones(WIDTH), torch.zeros(WIDTH)
    return found


def cross_attentions(unet):
    """diffusers' order, which is that of the files: down, up, middle."""
    return [key.removesuffix(".processor") for key in unet.attn_processors if "attn2" in key]


def make_adapter(path, unet, plus):
    """The file, as the authors name its tensors, and what diffusers reads of it."""
    torch.manual_seed(2 + plus)
    if not path.exists():
        parts = {f"image_proj.{k}": v for k, v in projection(plus).items()}
        for i, key in enumerate(cross_attentions(unet)):
            inner = unet.get_submodule(key).to_q.weight.shape[0]
            for part in ("to_k_ip", "to_v_ip"):
                parts[f"ip_adapter.{2 * i + 1}.{part}.weight"] = linear(inner, WIDTH)
        save_file({k: v.half().contiguous() for k, v in parts.items()}, path)
    found = {"image_proj": {}, "ip_adapter": {}}
    for key, value in load_file(path).items():
        part, name = key.split(".", 1)
        found[part][name] = value.float()
    return found


def embeds_of(vision, picture, plus):
    """What the adapter is given of the picture, and of nothing."""
    def features(x):
        x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
        said = vision(x.to(vision.dtype), output_hidden_states=True)
        return said.hidden_states[-2] if plus else said.image_embeds

    one = features(torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 255)
    return {True: one, False: features(torch.zeros(1, 3, 224, 224)) if plus else torch.zeros_like(one)}


def draw(pipe, size, embeds):
    """diffusers' picture, bytes [h, w, 3]."""
    def states(text):
        ids = pipe["tokenizer"](text, padding="max_length", max_length=77, truncation=True, return_tensors="pt")["input_ids"]
        return pipe["text"](ids).last_hidden_state

    def noise_in(x, sigma, time, tokens, side):
        more = {"added_cond_kwargs": {"image_embeds": [embeds[side][None]]}} if embeds else {}
        return pipe["unet"]((x / (1 + sigma**2) ** 0.5).to(pipe["unet"].dtype), float(time), tokens, **more).sample.float()

    positive, negative = states("a cat"), states("blurry")
    x = torch.randn(1, 4, size // 8, size // 8, generator=torch.Generator().manual_seed(1)) * SIGMAS[0]
    for time, sigma, following in zip(TIMES, SIGMAS, SIGMAS[1:]):
        one, no = noise_in(x, sigma, time, positive, True), noise_in(x, sigma, time, negative, False)
        x = x + (no + CFG * (one - no)) * (following - sigma)
    decoded = pipe["vae"].decode((x / pipe["vae"].config.scaling_factor).to(pipe["vae"].dtype)).sample.float()
    return ((decoded[0].permute(1, 2, 0) / 2 + 0.5).clamp(0, 1).numpy() * 255).astype(np.uint8)  # cut off, as ComfyUI does


def kiln_picture(args, row):
    path, out, model, adapter = args.work / f"{row}.yaml", args.work / row, "model", ""
    if row != "none":
        model, adapter = "seen", f"""  vision: {{class_type: CLIPVisionLoader, inputs: {{clip_name: vit-h.safetensors}}}}
  adapter: {{class_type: IPAdapterModelLoader, inputs: {{ipadapter_file: {row}.safetensors}}}}
  picture: {{class_type: LoadImage, inputs: {{image: {args.work.resolve()}/picture.png}}}}
  seen: {{class_type: IPAdapterAdvanced, inputs: {{model: [model, 0], ipadapter: [adapter, 0], image: [picture, 0], clip_vision: [vision, 0], weight: {WEIGHT}}}}}
"""
    path.write_text(f"""kiln: 1
nodes:
  model: {{class_type: CheckpointLoaderSimple, inputs: {{ckpt_name: {args.model.name}}}}}
  positive: {{class_type: CLIPTextEncode, inputs: {{clip: [model, 1], text: a cat}}}}
  negative: {{class_type: CLIPTextEncode, inputs: {{clip: [model, 1], text: blurry}}}}
{adapter}  empty: {{class_type: EmptyLatentImage, inputs: {{width: {args.size}, height: {args.size}}}}}
  levels: {{class_type: ManualSigmas, inputs: {{sigmas: "{', '.join(map(str, SIGMAS))}"}}}}
  euler: {{class_type: KSamplerSelect, inputs: {{sampler_name: euler}}}}
  sample: {{class_type: SamplerCustom, inputs: {{model: [{model}, 0], positive: [positive, 0], negative: [negative, 0], sampler: [euler, 0], sigmas: [levels, 0], latent_image: [empty, 0], noise_seed: 1, cfg: {CFG}}}}}
  decode: {{class_type: VAEDecode, inputs: {{samples: [sample, 0], vae: [model, 2]}}}}
  save: {{class_type: SaveImage, inputs: {{images: [decode, 0], filename_prefix: picture}}}}
""")
    command = [args.build / "kiln", "run", path, "--models", f"{args.model.parent}:{args.work / 'models'}", "--precision", "f32" if args.f32 else "bf16", *(["--memory", args.memory] if args.memory else []), "--no-cache", "-q", "--out", out]
    said = subprocess.run([str(c) for c in command], check=True, text=True, stdout=subprocess.PIPE).stdout
    return np.asarray(Image.open(said.split("\n")[0]).convert("RGB"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/parity/ip-adapter")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / os.environ.get("KILN_BUILD", "build/release"))
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--rows", default="plain,plus")
    parser.add_argument("--f32", action="store_true")
    parser.add_argument("--memory", help="of kiln")
    parser.add_argument("--torch", choices=("f32", "bf16"), default="f32")
    args = parser.parse_args()
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.torch]
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextModel, CLIPTokenizer

    for folder in ("clip_vision", "ipadapter"):
        (args.work / "models" / folder).mkdir(parents=True, exist_ok=True)
    picture = (np.indices((224, 224)).sum(0)[..., None] * [1, 3, 2] % 256).astype(np.uint8)
    Image.fromarray(picture).save(args.work / "picture.png")
    worst = 0
    with torch.inference_mode():
        vision = make_vision(args.work / "models/clip_vision/vit-h.safetensors", dtype)
        embeds = {row: embeds_of(vision, picture, row == "plus") for row in args.rows.split(",") if row != "none"}
        del vision
        pipe = {"tokenizer": CLIPTokenizer.from_pretrained(args.model / "tokenizer"), "text": CLIPTextModel.from_pretrained(args.model / "text_encoder", dtype=dtype).eval(),
                "unet": UNet2DConditionModel.from_pretrained(args.model / "unet", torch_dtype=dtype).eval(),
                "vae": AutoencoderKL.from_pretrained(args.model / "vae", torch_dtype=dtype).eval()}
        adapters = {row: make_adapter(args.work / f"models/ipadapter/{row}.safetensors", pipe["unet"], row == "plus") for row in embeds}
        without = draw(pipe, args.size, None)
        theirs = {"none": without.astype(float)} if "none" in args.rows.split(",") else {}
        for row in embeds:
            pipe["unet"]._load_ip_adapter_weights([adapters.pop(row)], low_cpu_mem_usage=False)
            for processor in pipe["unet"].attn_processors.values():
                if hasattr(processor, "to_k_ip"):
                    processor.scale = [WEIGHT]
            pipe["unet"].to(dtype)
            theirs[row] = draw(pipe, args.size, embeds[row]).astype(float)
        del processor
        pipe.clear()
        gc.collect()  # kiln gets the memory
        for row, picture in theirs.items():
            Image.fromarray(picture.astype(np.uint8)).save(args.work / f"{row}-torch-{args.torch}.png")
        for row, picture in theirs.items():
            ours = kiln_picture(args, row).astype(float)
            mean, most, moved = np.abs(picture - ours).mean(), np.abs(picture - ours).max(), np.abs(picture - without).mean()
            good = mean <= BOUND and (moved >= 5 * BOUND or row == "none")
            worst |= not good
            print(f"{row}: {'ok' if good else 'FAIL'}, mean {mean:.4f} of 255, most {most:.0f}; the adapter moves diffusers' picture by {moved:.2f}", flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
