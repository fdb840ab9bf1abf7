#!/usr/bin/env python3
"""Full-size models of the Stable Diffusion family with random weights of a realistic scale, for parity runs.

    make_random_sd.py FAMILY OUT [--single] [--cut] [--parts unet,vae] [--dtype f16|bf16|f32] [--seed N]
    make_random_sd.py FAMILY OUT --list    the folder's configurations and tensors.txt, from which tests/bench/random_model makes the
                                           same sizes without Python (tests/bench/sdxl)

FAMILY is one of sd15, sd15-inpaint, ip2p, sd21, sd21-eps, sdxl, refiner, ssd1b. OUT becomes a diffusers folder, or with --single one
.safetensors file with the names of the original (LDM) checkpoints. --cut keeps the structure, the text encoders and the
autoencoder, and makes the UNet narrow. The weights depend on their names and the seed alone and are written one by one, so little
memory is needed; SDXL in f16 takes 6.9 GB of disk, the refiner 6.1 GB. The tokenizers are OpenAI CLIP's.
"""

import argparse
import json
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))

import torch

import common
import make_random_sd15 as sd15
import tiny
import to_single_file

DTYPES = sd15.DTYPES
CROSS, PLAIN = "CrossAttn", ""


def levels(*kinds):
    """The types of a UNet's levels, top to bottom."""
    return {
        "down_block_types": [f"{kind}DownBlock2D" for kind in kinds],
        "up_block_types": [f"{kind}UpBlock2D" for kind in reversed(kinds)],
    }


def sized(width, **more):
    """A UNet that takes a pooled text and sizes beside the time; heads are 64 wide."""
    return {
        **sd15.UNET,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": width,
        "sample_size": 128,
        "use_linear_projection": True,
        **more,
    }


SD21 = {
    **sd15.UNET,
    "attention_head_dim": [5, 10, 20, 20],
    "cross_attention_dim": 1024,
    "sample_size": 96,
    "use_linear_projection": True,
}
SDXL = sized(
    2816,
    attention_head_dim=[5, 10, 20],
    block_out_channels=[320, 640, 1280],
    cross_attention_dim=2048,
    transformer_layers_per_block=[1, 2, 10],
    **levels(PLAIN, CROSS, CROSS),
)
REFINER = sized(
    2560,
    attention_head_dim=[6, 12, 24, 24],
    block_out_channels=[384, 768, 1536, 1536],
    cross_attention_dim=1280,
    transformer_layers_per_block=4,
    **levels(PLAIN, CROSS, CROSS, PLAIN),
)
SSD1B = {
    **SDXL,
    "mid_block_type": "UNetMidBlock2D",
    "transformer_layers_per_block": [1, [2, 2], [4, 4]],
    "reverse_transformer_layers_per_block": [[4, 4, 10], [2, 1, 1], 1],
}
VAE_XL = {**sd15.VAE, "force_upcast": True, "sample_size": 1024, "scaling_factor": 0.13025}


def open_clip(width, layers, heads, projection):
    """An OpenCLIP text encoder as transformers describes it."""
    return {
        **sd15.TEXT,
        "architectures": ["CLIPTextModelWithProjection"],
        "hidden_act": "gelu",
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "pad_token_id": 1,
        "projection_dim": projection,
    }


# The folder of SD2.1 has no last layer, for nobody uses it; its single file has all 24, and a projection.
TEXT_H = open_clip(1024, 24, 16, 1024)
TEXT_H_FOLDER = {**open_clip(1024, 23, 16, 512), "architectures": ["CLIPTextModel"]}
TEXT_G = open_clip(1280, 32, 20, 1280)
V_PREDICTION = {**tiny.SCHEDULER, "_class_name": "DDIMScheduler", "prediction_type": "v_prediction"}
EULER = {**tiny.SCHEDULER, "_class_name": "EulerDiscreteScheduler"}
FAMILIES = {
    "sd15": {"unet": sd15.UNET, "vae": sd15.VAE, "text_encoder": sd15.TEXT},
    "sd15-inpaint": {"unet": {**sd15.UNET, "in_channels": 9}, "vae": sd15.VAE, "text_encoder": sd15.TEXT},
    "ip2p": {"unet": {**sd15.UNET, "in_channels": 8}, "vae": sd15.VAE, "text_encoder": sd15.TEXT},
    "sd21": {"unet": SD21, "vae": {**sd15.VAE, "sample_size": 768}, "text_encoder": TEXT_H},
    "sd21-eps": {"unet": SD21, "vae": {**sd15.VAE, "sample_size": 768}, "text_encoder": TEXT_H},
    "unclip-l": {
        "unet": {**SD21, "class_embed_type": "projection", "projection_class_embeddings_input_dim": 1536},
        "vae": {**sd15.VAE, "sample_size": 768},
        "text_encoder": TEXT_H,
    },
    "sdxl": {"unet": SDXL, "vae": VAE_XL, "text_encoder": sd15.TEXT, "text_encoder_2": TEXT_G},
    "refiner": {"unet": REFINER, "vae": VAE_XL, "text_encoder_2": TEXT_G},
    "ssd1b": {"unet": SSD1B, "vae": VAE_XL, "text_encoder": sd15.TEXT, "text_encoder_2": TEXT_G},
}
PIPELINES = {
    "sd15-inpaint": "StableDiffusionInpaintPipeline",
    "ip2p": "StableDiffusionInstructPix2PixPipeline",
    "sdxl": "StableDiffusionXLPipeline",
    "refiner": "StableDiffusionXLImg2ImgPipeline",
    "ssd1b": "StableDiffusionXLPipeline",
}
# The cut-down ones: each level as many blocks as it has, but of these widths.
CUT = {320: [320, 640, 320, 320], 384: [384, 768, 384, 384]}


def configs_of(family, cut=False, folder=False):
    """{part: config}"""
    configs = dict(FAMILIES[family])
    if folder and configs.get("text_encoder") is TEXT_H:
        configs["text_encoder"] = TEXT_H_FOLDER
    if cut:
        unet = configs["unet"]
        widths = CUT[unet["block_out_channels"][0]][: len(unet["block_out_channels"])]
        heads = unet["attention_head_dim"]
        heads = heads if isinstance(heads, int) else [width // 64 for width in widths]
        configs["unet"] = {**unet, "block_out_channels": widths, "attention_head_dim": heads}
    return configs


def blank(part, config):
    """The model without storage: it only tells names and shapes."""
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    plain = {key: value for key, value in config.items() if key not in ("architectures", "model_type")}
    with torch.device("meta"):
        if part == "unet":
            return UNet2DConditionModel.from_config(dict(config))
        if part == "vae":
            return AutoencoderKL.from_config(dict(config))
        kinds = {"CLIPTextModel": CLIPTextModel, "CLIPTextModelWithProjection": CLIPTextModelWithProjection}
        return kinds[config["architectures"][0]](CLIPTextConfig(**plain))


def long_name(part, name):
    return "text_model." + name if part.startswith("text") and not name.startswith("text_") else name


def shapes_of(part, config):
    """{name as published folders have it: shape}"""
    return {long_name(part, name): tuple(parameter.shape) for name, parameter in blank(part, config).named_parameters()}


# ComfyUI tells SD2's two predictions apart by how far this bias spreads: below 0.09 it is eps.
TELLS_V = "up_blocks.3.attentions.2.transformer_blocks.0.norm1.bias"


def maker(family, seed):
    """make(part, name, shape): one weight in f32."""
    offset = {part: index for index, part in enumerate(to_single_file.FILES)}

    def make(part, name, shape):
        weight = common.random_weight(name.removeprefix("text_model."), shape, seed + offset[part])
        return weight * 0.1 if family == "sd21-eps" and name == TELLS_V else weight

    return make


def index_of(family, configs, scheduler):
    """model_index.json"""
    index = {"_class_name": PIPELINES.get(family, "StableDiffusionPipeline"), "scheduler": ["diffusers", scheduler["_class_name"]]}
    if family == "refiner":
        index.update({"requires_aesthetics_score": True, "text_encoder": [None, None], "tokenizer": [None, None]})
    for part, config in configs.items():
        if part.startswith("text"):
            index[part] = ["transformers", config["architectures"][0]]
            index[part.replace("text_encoder", "tokenizer")] = ["transformers", "CLIPTokenizer"]
        else:
            index[part] = ["diffusers", config["_class_name"]]
    return index


def write_folder(out, family, dtype, seed, parts=None, cut=False):
    configs, make = configs_of(family, cut, folder=True), maker(family, seed)
    scheduler = V_PREDICTION if family == "sd21" else EULER if "addition_embed_type" in configs["unet"] else tiny.SCHEDULER
    tiny.write_json(out / "model_index.json", index_of(family, configs, scheduler))
    tiny.write_json(out / "scheduler/scheduler_config.json", scheduler)
    for part, config in configs.items():
        tiny.write_json(out / part / "config.json", config)
        if part.startswith("text"):
            write_tokenizer(out / part.replace("text_encoder", "tokenizer"), config)
        if parts and part not in parts:
            continue
        shapes = shapes_of(part, config)
        typed = {name: (dtype, shape) for name, shape in shapes.items()}
        common.save_each(out / part / to_single_file.FILES[part], typed, lambda name: make(part, name, shapes[name]).to(dtype), {"format": "pt"})


def make_folder(out, family, dtype, seed):
    """write_folder(), unless the folder is there already; one made otherwise is refused."""
    marker, wanted = out / "random.json", {"family": family, "dtype": dtype, "seed": seed}
    if marker.exists():
        found = json.loads(marker.read_text())
        if found != wanted:
            raise SystemExit(f"{out} was made with {found}, not {wanted}: remove it or name another folder")
        return
    write_folder(out, family, DTYPES[dtype], seed)
    marker.write_text(json.dumps(wanted) + "\n")


def write_tokenizer(folder, config):
    """OpenAI CLIP's tables; OpenCLIP's encoders are given 0 ("!") where a prompt is short."""
    shutil.copytree(common.GOLDEN / "clip-tokenizer", folder, dirs_exist_ok=True)
    pad = "<|endoftext|>" if config["hidden_act"] == "quick_gelu" else "!"
    special = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": pad, "unk_token": "<|endoftext|>"}
    tiny.write_json(folder / "special_tokens_map.json", special)


def extras(names, dtype):
    """What published files hold beside the weights: {name: tensor}"""
    found = {}
    for name in names:
        if name.endswith("transformer.text_model.embeddings.token_embedding.weight"):
            found[name.replace("token_embedding.weight", "position_ids")] = torch.arange(77)[None]
        if name.endswith("model.text_projection"):
            found[name.replace("text_projection", "logit_scale")] = torch.tensor(4.6055).to(dtype)
    return found


def write_single(out, family, dtype, seed, parts=None, cut=False):
    """One file by the original names. With `parts` the rest is left out."""
    configs, make = configs_of(family, cut), maker(family, seed)
    shapes = {part: shapes_of(part, config) for part, config in configs.items() if not parts or part in parts}
    found = to_single_file.plan(configs, {part: list(names) for part, names in shapes.items()})
    more = extras(found, dtype)

    def shape_of(new):
        part, names = found[new]
        blanks = [torch.empty(shapes[part][name], device="meta") for name in names]
        return tuple(to_single_file.as_stored(new, blanks).shape)

    def made(new):
        if new in more:
            return more[new]
        part, names = found[new]
        return to_single_file.as_stored(new, [make(part, name, shapes[part][name]) for name in names]).to(dtype)

    typed = {new: (dtype, shape_of(new)) for new in found}
    typed.update({name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in more.items()})
    common.save_each(out, typed, made, {"format": "pt"})


def ranged(shapes, pattern):
    """{name: shape} with names that differ in one number only as one: "layers.{0-11}.fc1.bias"."""
    groups, found = {}, {}
    for name, shape in shapes.items():
        place = re.search(pattern, name)
        if place:
            groups.setdefault((name[: place.start(1)], name[place.end(1) :], shape), []).append(int(place[1]))
        else:
            found[name] = shape
    for (before, after, shape), numbers in groups.items():
        if sorted(numbers) == list(range(len(numbers))):
            found[f"{before}{{0-{len(numbers) - 1}}}{after}" if len(numbers) > 1 else f"{before}0{after}"] = shape
        else:
            found.update({f"{before}{number}{after}": shape for number in numbers})
    return found


def listing(family):
    """Lines for tests/bench/random_model.c"""
    lines = []
    for part, config in configs_of(family, folder=True).items():
        shapes = ranged(shapes_of(part, config), r"(?:transformer_blocks|layers)\.(\d+)\.")
        lines += [f"{part}/{to_single_file.FILES[part]} {name} {'x'.join(map(str, shape))}" for name, shape in sorted(shapes.items())]
    return lines


def write_configs(out, family):
    """What stands beside such a list: the folder without weights and tokenizers."""
    write_folder(out, family, None, 0, parts=["none"])
    for tokenizer in out.glob("tokenizer*"):
        shutil.rmtree(tokenizer)
    (out / "tensors.txt").write_text("\n".join(listing(family)) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--parts", type=lambda text: text.split(","))
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="f16")
    parser.add_argument("--seed", type=int, default=15)
    options = parser.parse_args()
    if options.list:
        write_configs(options.out, options.family)
        return
    write = write_single if options.single else write_folder
    write(options.out, options.family, DTYPES[options.dtype], options.seed, options.parts, options.cut)


if __name__ == "__main__":
    main()
