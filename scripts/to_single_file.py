#!/usr/bin/env python3
"""A diffusers folder of SD1.x, SD2.x, SDXL or its refiner -> one .safetensors file with the original (LDM) names.

    to_single_file.py DIR OUT.safetensors
    to_single_file.py DIR --names            only prints `part/diffusers name <tab> checkpoint name`, sorted; DIR may
                                             hold a list of its tensors (tensors.txt, as tests/bench/sd15) instead of them

Tensors are copied bit by bit. The VAE's attention projections become 1x1 convolutions, as in those files; an OpenCLIP
encoder's three projections become one, and its text projection is transposed. The tokenizer and the configuration have no
place there: who reads such a file has to know the architecture's.
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
    ("add_embedding.linear_1.", "label_emb.0.0."),
    ("add_embedding.linear_2.", "label_emb.0.2."),
    ("class_embedding.linear_1.", "label_emb.0.0."),
    ("class_embedding.linear_2.", "label_emb.0.2."),
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


OPEN_CLIP = [
    ("embeddings.token_embedding.", "token_embedding."),
    ("embeddings.position_embedding.weight", "positional_embedding"),
    ("final_layer_norm.", "ln_final."),
    ("text_projection.weight", "text_projection"),
]
OPEN_CLIP_LAYER = [
    (r"encoder\.layers\.(\d+)\.", r"transformer.resblocks.\1."),
    (r"\.layer_norm([12])\.", r".ln_\1."),
    (r"\.mlp\.fc1\.", ".mlp.c_fc."),
    (r"\.mlp\.fc2\.", ".mlp.c_proj."),
    (r"\.self_attn\.out_proj\.", ".attn.out_proj."),
    (r"\.self_attn\.[qkv]_proj\.(weight|bias)", r".attn.in_proj_\1"),
]


def clip_name(name):
    return "transformer." + (name if name.startswith("text_") else "text_model." + name)


def open_clip_name(name):
    name = begin_with(OPEN_CLIP, name.removeprefix("text_model."))
    for old, new in OPEN_CLIP_LAYER:
        name = re.sub(old, new, name)
    return "model." + name


def text_namers(configs):
    """{part: its renaming function}: CLIP-L keeps its names, OpenCLIP's encoders have their own; SDXL's are numbered."""
    sized = configs["unet"].get("addition_embed_type") is not None
    found = {}
    for index, part in enumerate(part for part in ("text_encoder", "text_encoder_2") if part in configs):
        prefix = f"conditioner.embedders.{index}." if sized else "cond_stage_model."
        rename = clip_name if configs[part]["hidden_size"] == 768 or configs[part]["hidden_act"] == "quick_gelu" else open_clip_name
        found[part] = lambda name, prefix=prefix, rename=rename: prefix + rename(name)
    return found


FILES = {
    "unet": "diffusion_pytorch_model.safetensors",
    "vae": "diffusion_pytorch_model.safetensors",
    "text_encoder": "model.safetensors",
    "text_encoder_2": "model.safetensors",
}


def is_projection(name):
    return re.search(r"mid\.attn_1\.(q|k|v|proj_out)\.weight$", name) is not None


def plan(configs, names):
    """{checkpoint name: (part, [names in that part])} of {part: config} and {part: names}; three names are q, k and v."""
    namers = {
        "unet": lambda name: unet_name(name, configs["unet"]),
        "vae": lambda name: vae_name(name, configs["vae"]),
        **text_namers(configs),
    }
    found = {}
    for part in names:
        for name in names[part]:
            new = namers[part](name)
            old = found.setdefault(new, (part, []))
            if old[1] and (old[0] != part or not new.endswith((".in_proj_weight", ".in_proj_bias"))):
                raise SystemExit(f"{part}/{name} and {old[0]}/{old[1][0]} would both be {new}")
            old[1].append(name)
    order = ["q_proj", "k_proj", "v_proj"]
    for _, sources in found.values():
        if len(sources) > 1:
            sources.sort(key=lambda name: order.index(name.split(".")[-2]))
    return found


def as_stored(new, tensors):
    """The checkpoint's tensor of the folder's one, or of q, k and v."""
    import torch

    if len(tensors) > 1:
        return torch.cat(tensors)
    tensor = tensors[0]
    if is_projection(new) and tensor.dim() == 2:
        return tensor[..., None, None]
    return tensor.T.contiguous() if new.endswith(".model.text_projection") else tensor


def configs_of(folder):
    return {part: json.loads((folder / part / "config.json").read_text()) for part in FILES if (folder / part / "config.json").exists()}


def listed(folder, part):
    """The names of a part's tensors by tensors.txt."""
    lines = [line.split() for line in (folder / "tensors.txt").read_text().splitlines()]
    return [name for file, name, _ in lines if file.startswith(part + "/")]


def opened(folder, configs):
    from safetensors import safe_open

    return {part: safe_open(folder / part / FILES[part], "pt") for part in configs}


def collect(folder):
    """({checkpoint name: (part, names in the folder)}, {part: open file})"""
    configs = configs_of(folder)
    files = opened(folder, configs)
    return plan(configs, {part: list(file.keys()) for part, file in files.items()}), files


def name_pairs(folder):
    """[(part/name in the folder, checkpoint name)], sorted"""
    if (folder / "tensors.txt").exists():
        configs = configs_of(folder)
        found = plan(configs, {part: listed(folder, part) for part in configs})
    else:
        found, _ = collect(folder)
    return sorted((f"{part}/{name}", new) for new, (part, names) in found.items() for name in names)


def write(folder, out):
    found, files = collect(folder)

    def make(new):
        part, names = found[new]
        return as_stored(new, [files[part].get_tensor(name) for name in names])

    shapes = {new: (made.dtype, tuple(made.shape)) for new in found for made in [make(new)]}
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
