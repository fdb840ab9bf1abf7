"""unet_names.txt.gz: the tensors of released UNets, under the names of single files and of folders, with shapes; and
unet_kinds/ldm_names.txt.gz: what the tensors of some of the small ones are called in single files.

Lists of two sources: the network that a ComfyUI checkout (COMFYUI=FOLDER) builds for single files, and diffusers', both
without numbers. Lines: "model NAME", then "ldm NAME DIMS" and "diffusers NAME DIMS"; and "kind NAME", then
"DIFFUSERS-NAME LDM-NAME", paired by ComfyUI.
"""

import gzip
import os
import sys

import torch

from common import GOLDEN

DEPTHS = {  # of each resnet on the way down, in the middle, and on the way up as ComfyUI counts it (from the outside)
    "SD1.5": ([1, 1, 1, 1, 1, 1, 0, 0], 1, [1] * 9 + [0] * 3),
    "SDXL base": ([0, 0, 2, 2, 10, 10], 10, [0, 0, 0, 2, 2, 2, 10, 10, 10]),
    "SDXL refiner": ([0, 0, 4, 4, 4, 4, 0, 0], 4, [0] * 3 + [4] * 6 + [0] * 3),
    "SSD-1B": ([0, 0, 2, 2, 4, 4], -1, [0, 0, 0, 1, 1, 2, 10, 4, 4]),
    "Segmind Vega": ([0, 0, 1, 1, 2, 2], -1, [0, 0, 0, 1, 1, 1, 2, 2, 2]),
    "KOALA-700M": ([0, 2, 5], -2, [0, 0, 2, 2, 5, 5]),
    "SD x4 upscaler": ([0, 0, 1, 1, 1, 1, 1, 1], 1, [0] * 3 + [1] * 9),
}
FOUR, THREE = [1, 2, 4, 4], [1, 2, 4]


def blocks(attends):
    return {
        "down_block_types": ["CrossAttnDownBlock2D" if a else "DownBlock2D" for a in attends],
        "up_block_types": ["CrossAttnUpBlock2D" if a else "UpBlock2D" for a in reversed(attends)],
    }


SD1 = dict(cross_attention_dim=768, attention_head_dim=8, **blocks([1, 1, 1, 0]))
SD2 = dict(SD1, cross_attention_dim=1024, attention_head_dim=[5, 10, 20, 20], use_linear_projection=True)
SDXL = dict(
    block_out_channels=[320, 640, 1280], cross_attention_dim=2048, attention_head_dim=[5, 10, 20], use_linear_projection=True,
    addition_embed_type="text_time", addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816,
    transformer_layers_per_block=[1, 2, 10], **blocks([0, 1, 1]),
)
# name: depths, in channels, model channels, multipliers, linear, context, sizes embedded; diffusers' configuration
MODELS = {
    "SD1.5": ("SD1.5", 4, 320, FOUR, False, 768, None, SD1),
    "SD1.5 inpainting": ("SD1.5", 9, 320, FOUR, False, 768, None, dict(SD1, in_channels=9)),
    "SD1.5 instruct-pix2pix": ("SD1.5", 8, 320, FOUR, False, 768, None, dict(SD1, in_channels=8)),
    "SD2.1": ("SD1.5", 4, 320, FOUR, True, 1024, None, SD2),
    "SD2.1 unCLIP-H": (
        "SD1.5", 4, 320, FOUR, True, 1024, 2048,
        dict(SD2, class_embed_type="projection", projection_class_embeddings_input_dim=2048),
    ),
    "SDXL base": ("SDXL base", 4, 320, THREE, True, 2048, 2816, SDXL),
    "SDXL base inpainting": ("SDXL base", 9, 320, THREE, True, 2048, 2816, dict(SDXL, in_channels=9)),
    "SDXL refiner": (
        "SDXL refiner", 4, 384, FOUR, True, 1280, 2560,
        dict(
            SDXL, block_out_channels=[384, 768, 1536, 1536], attention_head_dim=[6, 12, 24, 24], cross_attention_dim=1280,
            projection_class_embeddings_input_dim=2560, transformer_layers_per_block=4, **blocks([0, 1, 1, 0]),
        ),
    ),
    "SSD-1B": (
        "SSD-1B", 4, 320, THREE, True, 2048, 2816,
        dict(
            SDXL, mid_block_type="UNetMidBlock2D", transformer_layers_per_block=[1, [2, 2], [4, 4]],
            reverse_transformer_layers_per_block=[[4, 4, 10], [2, 1, 1], 1],
        ),
    ),
    "Segmind Vega": (
        "Segmind Vega", 4, 320, THREE, True, 2048, 2816,
        dict(SDXL, mid_block_type="UNetMidBlock2D", transformer_layers_per_block=[1, 1, 2]),
    ),
    "KOALA-700M": (
        "KOALA-700M", 4, 320, THREE, True, 2048, 2816,
        dict(SDXL, mid_block_type=None, layers_per_block=1, transformer_layers_per_block=[1, 2, 5]),
    ),
    "SD x4 upscaler": (
        "SD x4 upscaler", 7, 256, [1, 2, 2, 4], True, 1024, None,
        dict(
            block_out_channels=[256, 512, 512, 1024], cross_attention_dim=1024, attention_head_dim=8, in_channels=7,
            num_class_embeds=1000, only_cross_attention=[True, True, True, False], use_linear_projection=True,
            **blocks([0, 1, 1, 1]),
        ),
    ),
}


def ldm(model):
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel
    import comfy.ops

    depth, channels_in, width, multipliers, linear, context, sizes, _ = MODELS[model]
    down, middle, up = DEPTHS[depth]
    more = {"num_head_channels": 64}
    if sizes:
        more.update(num_classes="sequential", adm_in_channels=sizes)
    if model == "SD x4 upscaler":
        more = {"num_heads": 8, "num_classes": 1000, "disable_self_attentions": [True, True, True, False]}
    unet = UNetModel(
        image_size=32, in_channels=channels_in, model_channels=width, out_channels=4, channel_mult=multipliers,
        num_res_blocks=[len(down) // len(multipliers)] * len(multipliers), transformer_depth=list(down),
        transformer_depth_middle=middle, transformer_depth_output=list(up), use_spatial_transformer=True, legacy=False,
        context_dim=context, use_linear_in_transformer=linear, device="meta", operations=comfy.ops.disable_weight_init, **more,
    )
    return unet.state_dict()


def diffusers(model):
    from diffusers import UNet2DConditionModel

    with torch.device("meta"):
        return UNet2DConditionModel(**MODELS[model][-1]).state_dict()


def count(state, prefix):
    """1 + the highest number behind a prefix."""
    found = [int(name[len(prefix):].split(".")[0]) for name in state if name.startswith(prefix)]
    return 1 + max(found, default=-1)


def pairs(kind):
    """[diffusers' name, ldm's name] of a small UNet."""
    import comfy.utils
    from diffusers import UNet2DConditionModel

    import unet_kinds

    with torch.device("meta"):
        state = UNet2DConditionModel(**unet_kinds.KINDS[kind]).state_dict()
    levels = count(state, "down_blocks.")
    layers = [count(state, f"down_blocks.{i}.resnets.") for i in range(levels)]
    depth = lambda side, b, n: [count(state, f"{side}_blocks.{b}.attentions.{i}.transformer_blocks.") for i in range(n)]
    down = [d for i in range(levels) for d in depth("down", i, layers[i])]
    up = [d for i in range(levels) for d in depth("up", i, layers[levels - 1 - i] + 1)]
    known = comfy.utils.unet_to_diffusers({
        "num_res_blocks": layers, "channel_mult": [1] * levels, "transformer_depth": down,
        "transformer_depth_output": up[::-1], "transformer_depth_middle": count(state, "mid_block.attentions.0.transformer_blocks."),
    })
    known["class_embedding.weight"] = "label_emb.weight"
    return [[name, known[name]] for name in sorted(state)]


def write(path, lines):
    with gzip.GzipFile(path, "wb", compresslevel=9, mtime=0) as out:
        out.write(("\n".join(lines) + "\n").encode())


def main():
    sys.path.insert(0, os.environ["COMFYUI"])
    sys.argv = [sys.argv[0], "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    lines = []
    for model in MODELS:
        lines.append(f"model {model}")
        for kind, made in (("ldm", ldm(model)), ("diffusers", diffusers(model))):
            lines += [f"{kind} {name} {' '.join(map(str, made[name].shape))}" for name in sorted(made)]
    write(GOLDEN / "unet_names.txt.gz", lines)
    lines = []
    for kind in ("sd2", "base", "refiner", "ssd", "inpaint", "edit", "unclip", "upscaler"):
        lines += [f"kind {kind}", *(" ".join(pair) for pair in pairs(kind))]
    write(GOLDEN / "unet_kinds/ldm_names.txt.gz", lines)


if __name__ == "__main__":
    main()
