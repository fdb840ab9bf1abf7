"""lora_kinds/peft_*.safetensors and lora_peft_rotations.safetensors: OFT and BOFT for tiny-sd1 as peft trains and merges them.

The files are those of get_peft_model_state_dict; peft_oft_whole says in its metadata, as diffusers writes an adapter's, that its rotations are no
series. Merged by peft in f32.
"""

import json

import torch

import tiny
import unet as unet_golden
from common import GOLDEN, randn, save

FOLDER = GOLDEN / "lora_kinds"
BLOCK = "{}_blocks.{}.attentions.{}.transformer_blocks.0."
QUERY, FEED, CONV = BLOCK.format("down", 1, 0) + "attn1.to_q", BLOCK.format("down", 0, 0) + "ff.net.0.proj", "down_blocks.2.resnets.0.conv2"


def write(goldens, case, config, meta):
    from peft import get_peft_model, get_peft_model_state_dict

    model = get_peft_model(unet_golden.load(tiny.FOLDER, torch.float32), config)
    for name, value in sorted(model.named_parameters()):
        if "oft_R" in name or "boft_s" in name:
            noise = randn(f"{case}.{name}", *value.shape)
            value.data = 1 + 0.2 * noise if "boft_s" in name else 0.15 * noise
    tensors = {key: value.contiguous() for key, value in get_peft_model_state_dict(model).items()}
    save(FOLDER / f"{case}.safetensors", tensors, {"what": f"{case} for tiny-sd1 as peft names it", **meta})
    with torch.no_grad():
        merged = model.merge_and_unload()
        for name in config.target_modules:
            goldens[f"{case}.unet.{name}.weight"] = merged.get_submodule(name).weight


def main():
    from importlib.metadata import version

    from peft import BOFTConfig, OFTConfig

    targets, goldens = [QUERY, FEED, CONV], {}
    oft = {"r": 0, "oft_block_size": 4, "target_modules": targets, "init_weights": False}
    whole = {"lora_adapter_metadata": json.dumps({"unet.use_cayley_neumann": False})}
    eight = {"lora_adapter_metadata": json.dumps({"unet.num_cayley_neumann_terms": 8})}
    write(goldens, "peft_oft", OFTConfig(**oft), {})
    write(goldens, "peft_oft_shared", OFTConfig(**oft, block_share=True), {})
    write(goldens, "peft_oft_whole", OFTConfig(**oft, use_cayley_neumann=False), whole)
    write(goldens, "peft_oft_eight", OFTConfig(**oft, num_cayley_neumann_terms=8), eight)
    write(goldens, "peft_boft", BOFTConfig(boft_block_size=4, target_modules=targets, init_weights=False), {})
    what = "tiny-sd1's weights with lora_kinds/CASE.safetensors on it: CASE.unet.NAME"
    save(GOLDEN / "lora_peft_rotations.safetensors", goldens, {"what": what, "peft": version("peft")})


if __name__ == "__main__":
    main()
