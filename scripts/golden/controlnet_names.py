"""controlnets/released.txt.gz: the tensors of released ControlNets, under the names of the ControlNet source (cldm) and of diffusers, with
shapes; and controlnets/cldm_names.txt.gz: what the tensors of the small ones are called there.

As unet_names.py: the cldm network that a ComfyUI checkout (COMFYUI=FOLDER) builds, and diffusers', both without numbers. Lines: "model
NAME", then "cldm NAME DIMS" and "diffusers NAME DIMS"; and "kind NAME", then "DIFFUSERS-NAME CLDM-NAME".
"""

import os
import sys

import torch

import controlnet
import unet_names
from common import GOLDEN

SD15 = controlnet.of_unet(unet_names.SD1, conditioning_embedding_out_channels=[16, 32, 96, 256])
SDXL = controlnet.of_unet(unet_names.SDXL, conditioning_embedding_out_channels=[16, 32, 96, 256])
MODELS = {  # the row of unet_names.py, or none for what only diffusers has; diffusers' configuration
    "control_v11p_sd15_canny": ("SD1.5", SD15),
    "thibaud/controlnet-sd21": ("SD2.1", dict(SD15, cross_attention_dim=1024, attention_head_dim=[5, 10, 20, 20], use_linear_projection=True)),
    "controlnet-canny-sdxl-1.0": ("SDXL base", SDXL),
    "controlnet-canny-sdxl-1.0-small": (
        None, dict(SDXL, down_block_types=["DownBlock2D"] * 3, mid_block_type="UNetMidBlock2D", transformer_layers_per_block=1),
    ),
    "controlnet-union-sdxl-1.0": (None, dict(SDXL, num_control_type=6)),
    "controlnet-union-sdxl-1.0 promax": (None, dict(SDXL, num_control_type=8)),
}


def cldm(row):
    import comfy.cldm.cldm
    import comfy.ops

    depth, channels, width, multipliers, linear, context, sizes, _ = unet_names.MODELS[row]
    down, middle, _ = unet_names.DEPTHS[depth]
    more = dict(num_classes="sequential", adm_in_channels=sizes) if sizes else {}
    net = comfy.cldm.cldm.ControlNet(
        image_size=32, in_channels=channels, model_channels=width, hint_channels=3, channel_mult=multipliers,
        num_res_blocks=[len(down) // len(multipliers)] * len(multipliers), transformer_depth=list(down), transformer_depth_middle=middle,
        use_spatial_transformer=True, legacy=False, context_dim=context, use_linear_in_transformer=linear, num_head_channels=64,
        device="meta", operations=comfy.ops.disable_weight_init, **more,
    )
    return net.state_dict()


def diffusers(config):
    from diffusers import ControlNetModel, ControlNetUnionModel

    with torch.device("meta"):
        return (ControlNetUnionModel if "num_control_type" in config else ControlNetModel)(**config).state_dict()


def pairs(kind):
    import comfy.utils

    state = diffusers(controlnet.KINDS[kind])
    count = unet_names.count
    levels = count(state, "down_blocks.")
    layers = [count(state, f"down_blocks.{i}.resnets.") for i in range(levels)]
    down = [count(state, f"down_blocks.{i}.attentions.{k}.transformer_blocks.") for i in range(levels) for k in range(layers[i])]
    known = comfy.utils.unet_to_diffusers({
        "num_res_blocks": layers, "channel_mult": [1] * levels, "transformer_depth": down, "transformer_depth_output": [0] * 64,
        "transformer_depth_middle": count(state, "mid_block.attentions.0.transformer_blocks."),
    })
    blocks = count(state, "controlnet_cond_embedding.blocks.")
    for end in ("weight", "bias"):
        known[f"controlnet_mid_block.{end}"] = f"middle_block_out.0.{end}"
        known[f"controlnet_cond_embedding.conv_in.{end}"] = f"input_hint_block.0.{end}"
        known[f"controlnet_cond_embedding.conv_out.{end}"] = f"input_hint_block.{2 * blocks + 2}.{end}"
        for i in range(count(state, "controlnet_down_blocks.")):
            known[f"controlnet_down_blocks.{i}.{end}"] = f"zero_convs.{i}.0.{end}"
        for i in range(blocks):
            known[f"controlnet_cond_embedding.blocks.{i}.{end}"] = f"input_hint_block.{2 * i + 2}.{end}"
    return [[name, known[name]] for name in sorted(state)]


def main():
    sys.path.insert(0, os.environ["COMFYUI"])
    sys.argv = [sys.argv[0], "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    lines = []
    for model, (row, config) in MODELS.items():
        lines.append(f"model {model}")
        for kind, made in (("cldm", cldm(row) if row else {}), ("diffusers", diffusers(config))):
            lines += [f"{kind} {name} {' '.join(map(str, made[name].shape))}" for name in sorted(made)]
    unet_names.write(GOLDEN / "controlnets/released.txt.gz", lines)
    lines = []
    for kind in ("sd1", "sd2", "sdxl"):
        lines += [f"kind {kind}", *(" ".join(pair) for pair in pairs(kind))]
    unet_names.write(GOLDEN / "controlnets/cldm_names.txt.gz", lines)


if __name__ == "__main__":
    main()
