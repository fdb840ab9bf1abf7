#!/usr/bin/env python3
"""A full-size SD1.5 diffusers folder with random weights of a realistic scale, for benchmarks and parity runs.

    make_random_sd15.py OUT_DIR [--dtype f16|bf16|f32] [--check]

The weights depend on their names and the seed alone, and are written one by one (the largest takes 60 MB), so
little memory is needed; f16 takes 2.1 GB of disk. The tokenizer is OpenAI CLIP's. --check runs the folder
through diffusers on a small latent and prints the spread of what comes out.
"""

import argparse
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))

import torch

import common
import tiny

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}

UNET = {
    **tiny.UNET,
    "attention_head_dim": 8,
    "block_out_channels": [320, 640, 1280, 1280],
    "cross_attention_dim": 768,
    "layers_per_block": 2,
    "norm_num_groups": 32,
    "sample_size": 64,
}
VAE = {
    **tiny.VAE,
    "block_out_channels": [128, 256, 512, 512],
    "layers_per_block": 2,
    "norm_num_groups": 32,
    "sample_size": 512,
}
TEXT = {
    "architectures": ["CLIPTextModel"],
    "attention_dropout": 0.0,
    "bos_token_id": 49406,
    "eos_token_id": 49407,
    "hidden_act": "quick_gelu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 77,
    "model_type": "clip_text_model",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 49407,
    "projection_dim": 768,
    "vocab_size": 49408,
}


def blank_modules(unet=UNET):
    """The three models without storage: they only tell names and shapes."""
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    plain = {key: value for key, value in TEXT.items() if key not in ("architectures", "model_type")}
    with torch.device("meta"):
        network = UNet2DConditionModel.from_config(dict(unet))
        vae = AutoencoderKL.from_config(dict(VAE))
        text = CLIPTextModel(CLIPTextConfig(**plain))
    return network, vae, text


def write_weights(path, module, seed, dtype, prefix=""):
    named = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    full = {name if name.startswith(prefix) else prefix + name: name for name in named}
    shapes = {long: (dtype, named[short]) for long, short in full.items()}

    def make(long):
        return common.random_weight(full[long], named[full[long]], seed).to(dtype)

    common.save_each(path, shapes, make, {"format": "pt", "seed": str(seed)})


def write(out, dtype, seed, unet=UNET):
    network, vae, text = blank_modules(unet)
    tiny.write_json(out / "model_index.json", tiny.INDEX)
    tiny.write_json(out / "scheduler/scheduler_config.json", tiny.SCHEDULER)
    for part, config in (("unet", unet), ("vae", VAE), ("text_encoder", TEXT)):
        tiny.write_json(out / part / "config.json", config)
    shutil.copytree(common.GOLDEN / "clip-tokenizer", out / "tokenizer", dirs_exist_ok=True)
    write_weights(out / "unet/diffusion_pytorch_model.safetensors", network, seed, dtype)
    write_weights(out / "vae/diffusion_pytorch_model.safetensors", vae, seed + 1, dtype)
    write_weights(out / "text_encoder/model.safetensors", text, seed + 2, dtype, "text_model.")


def make(out, dtype, seed):
    """write(), unless the folder is there already; one made otherwise is refused."""
    marker, wanted = out / "random.json", {"dtype": dtype, "seed": seed}
    if marker.exists():
        found = json.loads(marker.read_text())
        if found != wanted:
            raise SystemExit(f"{out} was made with {found}, not {wanted}: remove it or name another folder")
        return
    write(out, DTYPES[dtype], seed)
    marker.write_text(json.dumps(wanted) + "\n")


def spread(tensor):
    return f"std {float(tensor.double().std()):.3f} max {float(tensor.abs().max()):.3f}"


def check(folder, size=16):
    """One small run of each part in float32; anything but a spread about 1 is a fault of the scale."""
    import text
    import unet
    import vae

    with torch.inference_mode():
        tokenizer, encoder = text.load(folder)
        context, *_ = text.condition(tokenizer, encoder.float(), "a photo of a cute cat")
        print("text encoder:", spread(context))
        network = unet.load(folder, torch.float32)
        x = common.randn("check", 1, 4, size, size)
        print("unet:", spread(unet.run(network, x, [500.0], context)))
        del network
        coder = vae.load(folder, torch.float32)
        print("vae decode:", spread(vae.decode(coder, x * 5)))
        print("vae encode:", spread(vae.moments(coder, vae.picture("check", 8 * size, 8 * size))[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="f16")
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    make(options.out, options.dtype, options.seed)
    if options.check:
        check(options.out)


if __name__ == "__main__":
    main()
