#!/usr/bin/env python3
"""A diffusers folder of SD1.x -> one .safetensors file with the key names of the original (LDM) checkpoints.

    to_single_file.py DIR OUT.safetensors
    to_single_file.py DIR --names            only prints `part/diffusers name <tab> checkpoint name`, sorted; DIR may
                                             hold a list of its tensors (tensors.txt, as tests/bench/sd15) instead of them

Tensors are copied bit by bit. The VAE's attention projections become 1x1 convolutions, as in those files. The
tokenizer and the configuration have no place there: who reads such a file has to know SD1.x's.
"""

import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))

import common

UNET_PLAIN = [
    ("time_embedding.linear_1.", "time_embed.0."),
    ("time_embedding.linear_2.", "time_embed.2."),
    ("conv_in.", "input_blocks.0.0."),
    ("conv_norm_out.", "out.0."),
    ("conv_out.", "out.2."),
    ("mid_block.resnets.0.", "middle_block.0."),
    ("mid_block.attentions.0.", "middle_block.1."),
    ("mid_block.resnets.1.", "middle_block.2."),
]
RESNET = [
    ("norm1.", "in_layers.0."),
    ("conv1.", "in_layers.2."),
    ("time_emb_proj.", "emb_layers.1."),
    ("norm2.", "out_layers.0."),
    ("conv2.", "out_layers.3."),
    ("conv_shortcut.", "skip_connection."),
]
VAE = [
    (r"mid_block\.attentions\.0\.group_norm\.", "mid.attn_1.norm."),
    (r"mid_block\.attentions\.0\.to_out\.0\.", "mid.attn_1.proj_out."),
    (r"mid_block\.attentions\.0\.to_([qkv])\.", r"mid.attn_1.\1."),
    (r"mid_block\.resnets\.0\.", "mid.block_1."),
    (r"mid_block\.resnets\.1\.", "mid.block_2."),
    (r"down_blocks\.(\d)\.resnets\.(\d)\.", r"down.\1.block.\2."),
    (r"down_blocks\.(\d)\.downsamplers\.0\.", r"down.\1.downsample."),
    (r"conv_norm_out\.", "norm_out."),
    (r"conv_shortcut\.", "nin_shortcut."),
]


def begin_with(pairs, name):
    for old, new in pairs:
        if name.startswith(old):
            return new + name[len(old) :]
    return name


def unet_block(name, config):
    """A name inside down_blocks or up_blocks -> its place among input_blocks or output_blocks."""
    side, level, kind, index, rest = re.fullmatch(r"(down|up)_blocks\.(\d)\.(\w+)\.(\d)\.(.*)", name).groups()
    level, index, layers = int(level), int(index), config["layers_per_block"]
    if side == "down":
        first, group = 1 + level * (layers + 1), "input_blocks"
    else:
        first, group = level * (layers + 1), "output_blocks"
    if kind == "resnets":
        return f"{group}.{first + index}.0.{begin_with(RESNET, rest)}"
    if kind == "attentions":
        return f"{group}.{first + index}.1.{rest}"
    if kind == "downsamplers":
        return f"{group}.{first + layers}.0.op.{rest.removeprefix('conv.')}"
    place = 2 if "CrossAttn" in config["up_block_types"][level] else 1
    return f"{group}.{first + layers}.{place}.{rest}"


def unet_name(name, config):
    if name.startswith(("down_blocks.", "up_blocks.")):
        return "model.diffusion_model." + unet_block(name, config)
    found = begin_with(UNET_PLAIN, name)
    if found.startswith(("middle_block.0.", "middle_block.2.")):
        found = found[:15] + begin_with(RESNET, found[15:])
    return "model.diffusion_model." + found


def vae_name(name, config):
    last = len(config["block_out_channels"]) - 1
    for old, new in VAE:
        name = re.sub(old, new, name)

    def up(match):
        inner = f"block.{match[3]}." if match[2] == "resnets" else "upsample."
        return f"up.{last - int(match[1])}.{inner}"

    return "first_stage_model." + re.sub(r"up_blocks\.(\d)\.(resnets|upsamplers)\.(\d)\.", up, name)


def text_name(name, _):
    return "cond_stage_model.transformer." + (name if name.startswith("text_model.") else "text_model." + name)


PARTS = {
    "unet": ("diffusion_pytorch_model.safetensors", unet_name),
    "vae": ("diffusion_pytorch_model.safetensors", vae_name),
    "text_encoder": ("model.safetensors", text_name),
}


def is_projection(name):
    return re.search(r"mid\.attn_1\.(q|k|v|proj_out)\.weight$", name) is not None


def listed(folder, part):
    """The names of a part's tensors by tensors.txt."""
    lines = [line.split() for line in (folder / "tensors.txt").read_text().splitlines()]
    return [name for file, name, _ in lines if file.startswith(part + "/")]


def name_pairs(folder):
    """[(part/name in the folder, checkpoint name)], sorted"""
    if not (folder / "tensors.txt").exists():
        return sorted((f"{part}/{name}", new) for new, (part, name, _) in collect(folder).items())
    pairs = []
    for part, (_, rename) in PARTS.items():
        config = json.loads((folder / part / "config.json").read_text())
        pairs += [(f"{part}/{name}", rename(name, config)) for name in listed(folder, part)]
    return sorted(pairs)


def collect(folder):
    """{checkpoint name: (part, name in the folder, open file)}"""
    from safetensors import safe_open

    found = {}
    for part, (file, rename) in PARTS.items():
        config = json.loads((folder / part / "config.json").read_text())
        source = safe_open(folder / part / file, "pt")
        for name in source.keys():
            new = rename(name, config)
            if new in found:
                raise SystemExit(f"{part}/{name} and {found[new][0]}/{found[new][1]} would both be {new}")
            found[new] = (part, name, source)
    return found


def write(folder, out):
    found = collect(folder)

    def make(new):
        _, name, source = found[new]
        tensor = source.get_tensor(name)
        return tensor[..., None, None] if is_projection(new) and tensor.dim() == 2 else tensor

    shapes = {new: (make(new).dtype, tuple(make(new).shape)) for new in found}
    common.save_each(out, shapes, make, {"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--names", action="store_true")
    options = parser.parse_args()
    if options.names == (options.out is not None):
        parser.error("give OUT or --names, and one of them only")
    if options.names:
        print("\n".join(f"{name}\t{new}" for name, new in name_pairs(options.folder)))
        return
    write(options.folder, options.out)


if __name__ == "__main__":
    main()
