#!/usr/bin/env python3
"""Full-size models of the Stable Diffusion family against diffusers and transformers: the numbers behind `make parity-full`.

    parity_full.py reference --cache DIR [--family sd15|sd21|sdxl|refiner|ssd1b] [--dtype f16] [--latent 64] [--device cpu|cuda] [--model FOLDER]
        makes DIR/model (random weights, once; or takes FOLDER) and DIR/reference.safetensors: inputs and what diffusers
        makes of them, computed in f32 on that device (TensorFloat-32 off: its products have ten bits)
    parity_full.py compare REFERENCE GOT --precision f32|bf16
        reads what kiln computed for the same inputs and prints errors beside their bounds
    parity_full.py all --cache DIR --tool COMMAND [--precision f32,bf16] [--forget]
        reference (unless it is there), COMMAND MODEL REFERENCE GOT PRECISION, compare; --forget deletes DIR/model at the end

Names, in REFERENCE and GOT alike; pictures and latents are NHWC, GOT may hold any float type:
    text.ENCODER.ids [n,77] -> text.ENCODER.tokens, text.ENCODER.pooled: ENCODER is l, g or h; tokens are those of the layer that
        conditions the family's UNet, pooled is there where that UNet or SD1.x's users take it
    unet.x [2,h,w,4], unet.t [2], unet.context [2,77,width], and of SDXL and its refiner unet.pooled [2,1280] and numbers [2] by
        name -> unet.out
    vae.latent -> vae.decode.out; vae.image -> vae.encode.mean (kiln encodes to the mean, as ComfyUI; nothing here wants the variance)
    PART.BLOCK.in.x, .in.temb, .in.context, .in.skip.N -> PART.BLOCK.out: submodules, PART is unet or vae; a block
    that hands over skips gives .out.0 (the result) and .out.1.N
The submodules are written with --blocks alone, for tools that run them by themselves; kiln's runs whole networks, and its blocks are
held against goldens at their own widths by `make test`.

Bounds in f32: 1e-5 for a block, 1e-4 for a whole model (largest difference over largest value); torch's own f32
noise is about 1e-6. In bf16: 2e-2 (norm of the difference over norm of the values). The mean difference over the mean value is printed too.
A tensor that kiln did not write fails, unless --allow-missing. Exit status 1: out of bounds or missing.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it torch's deterministic mode refuses products on CUDA

import torch

import common
import make_random_sd as random_sd

# Which encoders a family has, in which folders, which hidden state of transformers' list conditions the UNet, and whether with the
# final norm; POOLED: what is compared of them. SD2.1's folder has no last layer, so the last there is its single file's last but one.
ENCODERS = {
    "sd15": {"l": ("text_encoder", -1, True)},
    "sd21": {"h": ("text_encoder", -1, True)},
    "sdxl": {"l": ("text_encoder", -2, False), "g": ("text_encoder_2", -2, False)},
    "refiner": {"g": ("text_encoder_2", -2, False)},
}
ENCODERS["ssd1b"] = ENCODERS["sdxl"]
POOLED = {"sd15": ["l"], "sd21": [], "sdxl": ["g"], "refiner": ["g"], "ssd1b": ["g"]}
# What SDXL's UNets are told beside the text, two pictures each, in diffusers' order.
SIZES = {"height": [1024.0, 640.0], "width": [1024.0, 1536.0], "crop_h": [0.0, 96.0], "crop_w": [0.0, 8.0]}
NUMBERS = {
    2816: {**SIZES, "target_height": [1024.0, 832.0], "target_width": [1024.0, 1216.0]},
    2560: {**SIZES, "aesthetic_score": [6.0, 2.5]},
}
WHOLE = ["unet.out", "vae.decode.out", "vae.encode.mean"]
BOUNDS = {"f32": {"block": 1e-5, "whole": 1e-4}, "bf16": {"block": 2e-2, "whole": 2e-2}}
UNET_BLOCKS = [
    "down_blocks.0.resnets.0",
    "down_blocks.0.attentions.0",
    *(f"down_blocks.{level}" for level in range(4)),
    "mid_block",
    *(f"up_blocks.{level}" for level in range(4)),
]
VAE_BLOCKS = [
    "encoder.down_blocks.1",
    "encoder.mid_block",
    "decoder.mid_block",
    "decoder.up_blocks.0",
    "decoder.up_blocks.2",
]
TIMES = [999.0, 37.25]


def text_encoder(folder, part):
    """transformers' model, with or without its projection."""
    import json

    import transformers

    kind = json.loads((folder / part / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, kind).from_pretrained(folder / part, attn_implementation="eager")
    return model.eval().requires_grad_(False).float()


def text_reference(folder, family, device):
    import text
    from transformers import CLIPTokenizer

    tensors = {}
    for name, (part, layer, normed) in ENCODERS[family].items():
        tokenizer = CLIPTokenizer.from_pretrained(folder / part.replace("text_encoder", "tokenizer"))
        encoder = text_encoder(folder, part).to(device)
        pad = 49407 if name == "l" else 0
        ids = torch.tensor([padded(page, pad) for page in text.prompt.chunks(tokenizer, text.PROMPTS[5])])
        out = encoder(input_ids=ids.to(device), output_hidden_states=True)
        hidden = out.hidden_states[layer]
        tensors[f"text.{name}.ids"] = ids
        tensors[f"text.{name}.tokens"] = out.last_hidden_state if normed and layer == -1 else text.final_norm(encoder, hidden) if normed else hidden
        if name in POOLED[family]:
            tensors[f"text.{name}.pooled"] = out.text_embeds if name == "g" else out.pooler_output
    return tensors


def padded(page, pad):
    """The ids of a page, those after its first end token being `pad`."""
    ids = [token for token, _ in page]
    end = ids.index(49407)
    return ids[: end + 1] + [pad] * (len(ids) - end - 1)


def unet_reference(folder, latent, with_blocks, device):
    import unet

    network = unet.load(folder, torch.float32).to(device)
    count, width = len(TIMES), network.config.projection_class_embeddings_input_dim
    x = common.randn("parity.x", count, network.config.in_channels, latent, latent).to(device)
    context = common.randn("parity.context", count, 77, network.config.cross_attention_dim).to(device)
    tensors = {"unet.x": common.nhwc(x), "unet.t": torch.tensor(TIMES), "unet.context": context}
    added = {}
    if width:
        numbers = {name: torch.tensor(values) for name, values in NUMBERS[width].items()}
        pooled = common.randn("parity.pooled", count, 1280).to(device)
        added = {"text_embeds": pooled, "time_ids": torch.stack([*numbers.values()], dim=1).to(device)}
        tensors.update({"unet.pooled": pooled, **{f"unet.{name}": values for name, values in numbers.items()}})

    def call():
        out = network(x, torch.tensor(TIMES).to(device), encoder_hidden_states=context, added_cond_kwargs=added).sample
        tensors["unet.out"] = common.nhwc(out)

    blocks = recorded(network, UNET_BLOCKS, call, with_blocks)
    return {**tensors, **{f"unet.{name}": value for name, value in blocks.items()}}


def recorded(network, names, call, with_blocks):
    """Inputs and outputs of submodules while `call` runs; nothing but the run when they are not wanted."""
    import unet

    if with_blocks:
        return unet.record(network, names, call)
    call()
    return {}


def vae_reference(folder, latent, with_blocks, device):
    import unet
    import vae

    coder = vae.load(folder, torch.float32).to(device)
    image = vae.picture("parity.image", 8 * latent, 8 * latent).to(device)
    code = 5 * common.randn("parity.latent", 1, 4, latent, latent).to(device)
    tensors = {"vae.image": image, "vae.latent": code}

    def call():
        tensors["vae.encode.mean"], _ = vae.moments(coder, image)
        tensors["vae.decode.out"] = vae.decode(coder, code)

    blocks = recorded(coder, VAE_BLOCKS, call, with_blocks)
    tensors = {name: common.nhwc(value) for name, value in tensors.items()}
    return {**tensors, **{f"vae.{name}": value for name, value in blocks.items()}}


def description(options):
    """What a reference was made for; another one is made anew."""
    made = {"family": options.family, "latent": str(options.latent), "dtype": options.dtype, "seed": str(options.seed), "blocks": str(options.blocks)}
    return {**made, "device": options.device, "model": str(options.model or "random")}


def described(path):
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        meta = file.metadata() or {}
    return {key: meta.get(key) for key in ("family", "latent", "dtype", "seed", "blocks", "device", "model")}


def model_folder(options):
    return options.model or options.cache / "model"


def reference(options):
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    model, device = model_folder(options), torch.device(options.device)
    if not options.model:
        random_sd.make_folder(model, options.family, options.dtype, options.seed)
    options.cache.mkdir(parents=True, exist_ok=True)
    target = options.cache / "reference.safetensors"
    with torch.inference_mode():
        tensors = text_reference(model, options.family, device)
        tensors.update(unet_reference(model, options.latent, options.blocks, device))
        tensors.update(vae_reference(model, options.latent, options.blocks, device))
    meta = {**common.versions(), "layout": "NHWC", **description(options)}
    part = target.with_suffix(".part")
    common.save(part, {name: value.cpu() for name, value in tensors.items()}, meta)
    part.rename(target)
    return model, target


def is_whole(name):
    return name in WHOLE or name.startswith("text.") and name.endswith((".tokens", ".pooled"))


def is_output(name):
    return is_whole(name) or ".out" in name


def mean_error(got, want):
    """The mean absolute difference over the mean absolute value."""
    got, want = got.double(), want.double()
    return float((got - want).abs().mean() / want.abs().mean().clamp_min(1e-30))


def judge(name, got, want, precision):
    """(line to print, whether it holds)"""
    bound = BOUNDS[precision]["whole" if is_whole(name) else "block"]
    if tuple(got.shape) != tuple(want.shape):
        return f"FAIL {name}: shape {tuple(got.shape)}, reference {tuple(want.shape)}", False
    if not bool(torch.isfinite(got.float()).all()):
        return f"FAIL {name}: holds a value that is not finite", False
    found = common.errors(got, want)
    error = found["max" if precision == "f32" else "rms"]
    word = "ok  " if error <= bound else "FAIL"
    return f"{word} {name}: max {found['max']:.2e} mean {mean_error(got, want):.2e} rms {found['rms']:.2e} bound {bound:.0e}", error <= bound


def compare(wanted, got, precision, allow_missing):
    from safetensors import safe_open

    bad = missing = count = 0
    with safe_open(wanted, "pt") as want_file, safe_open(got, "pt") as got_file:
        have = set(got_file.keys())
        for name in sorted(filter(is_output, want_file.keys())):
            if name not in have:
                missing += 1
                print(f"MISSING {name}")
                continue
            line, holds = judge(name, got_file.get_tensor(name), want_file.get_tensor(name), precision)
            count += 1
            bad += not holds
            print(line)
        for name in sorted(have - set(want_file.keys())):
            print(f"UNKNOWN {name}")
    print(f"{precision}: {count - bad} of {count} within bounds, {missing} missing")
    return bad == 0 and count > 0 and (missing == 0 or allow_missing)


def everything(options):
    model, target = model_folder(options), options.cache / "reference.safetensors"
    if not (target.exists() and described(target) == description(options)):
        reference(options)
    good = True
    for precision in options.precision.split(","):
        got = options.cache / f"got-{precision}.safetensors"
        got.unlink(missing_ok=True)
        subprocess.run([*shlex.split(options.tool), str(model), str(target), str(got), precision], check=True)
        print(f"{options.family}, {precision}:")
        good &= compare(target, got, precision, options.allow_missing)
    if options.forget and not options.model:
        shutil.rmtree(model)
    return good


def add_reference_options(parser):
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--family", choices=ENCODERS, default="sd15")
    parser.add_argument("--dtype", choices=sorted(random_sd.DTYPES), default="f16", help="of the stored weights")
    parser.add_argument("--latent", type=int, default=64, help="height and width of the latent")
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="torch's")
    parser.add_argument("--model", type=pathlib.Path, help="a diffusers folder instead of one of random weights")
    parser.add_argument("--blocks", action="store_true", help="also write what goes into and comes out of submodules")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    add_reference_options(commands.add_parser("reference"))
    one = commands.add_parser("compare")
    one.add_argument("reference", type=pathlib.Path)
    one.add_argument("got", type=pathlib.Path)
    one.add_argument("--precision", choices=sorted(BOUNDS), required=True)
    whole = commands.add_parser("all")
    add_reference_options(whole)
    whole.add_argument("--tool", required=True)
    whole.add_argument("--precision", default="f32,bf16")
    whole.add_argument("--forget", action="store_true", help="delete the random weights at the end")
    for command in (one, whole):
        command.add_argument("--allow-missing", action="store_true")
    options = parser.parse_args()
    unknown = set(getattr(options, "precision", "f32").split(",")) - set(BOUNDS)
    if unknown:
        parser.error(f"--precision: {', '.join(sorted(unknown))} is not one of {', '.join(BOUNDS)}")
    if getattr(options, "device", "cpu") == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no CUDA device")
    return options


def main():
    options = parse()
    if options.command == "reference":
        reference(options)
        return 0
    if options.command == "compare":
        return 0 if compare(options.reference, options.got, options.precision, options.allow_missing) else 1
    return 0 if everything(options) else 1


if __name__ == "__main__":
    sys.exit(main())
