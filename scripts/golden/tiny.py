"""tests/golden/tiny-sd1 and tiny-sd1-l2: SD1.x in miniature as diffusers folders, with random weights.

tiny-sd1 is complete and in float32. tiny-sd1-l2 is a UNet alone, with two layers a block as in SD1.5 and
stored in float16 (its values are exactly those that a float32 reader sees). attention_head_dim counts
heads, as in SD1.5.
"""

import json

import torch

import bpe
from common import GOLDEN, randn, randomise, save

FOLDER = GOLDEN / "tiny-sd1"
FOLDER_L2 = GOLDEN / "tiny-sd1-l2"
MERGES = 200
TEXT_WIDTH = 32

UNET = {
    "_class_name": "UNet2DConditionModel",
    "act_fn": "silu",
    "attention_head_dim": 2,
    "block_out_channels": [8, 12, 16, 24],
    "center_input_sample": False,
    "cross_attention_dim": TEXT_WIDTH,
    "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
    "downsample_padding": 1,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 1,
    "mid_block_scale_factor": 1,
    "norm_eps": 1e-05,
    "norm_num_groups": 4,
    "out_channels": 4,
    "sample_size": 8,
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
}
UNET_L2 = {
    **UNET,
    "attention_head_dim": 4,
    "block_out_channels": [8, 8, 16, 16],
    "layers_per_block": 2,
    "norm_num_groups": 8,
}
VAE = {
    "_class_name": "AutoencoderKL",
    "act_fn": "silu",
    "block_out_channels": [8, 16, 16, 16],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "in_channels": 3,
    "latent_channels": 4,
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "out_channels": 3,
    "sample_size": 64,
    "scaling_factor": 0.18215,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
}
SCHEDULER = {
    "_class_name": "PNDMScheduler",
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "num_train_timesteps": 1000,
    "prediction_type": "epsilon",
    "set_alpha_to_one": False,
    "skip_prk_steps": True,
    "steps_offset": 1,
}
INDEX = {
    "_class_name": "StableDiffusionPipeline",
    "feature_extractor": [None, None],
    "requires_safety_checker": False,
    "safety_checker": [None, None],
    "scheduler": ["diffusers", "PNDMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}


def text_config(vocab):
    return {
        "architectures": ["CLIPTextModel"],
        "attention_dropout": 0.0,
        "bos_token_id": vocab[bpe.BOS],
        "eos_token_id": vocab[bpe.EOS],
        "hidden_act": "quick_gelu",
        "hidden_size": TEXT_WIDTH,
        "intermediate_size": 2 * TEXT_WIDTH,
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 77,
        "model_type": "clip_text_model",
        "num_attention_heads": 2,
        "num_hidden_layers": 4,
        "pad_token_id": vocab[bpe.EOS],
        "projection_dim": TEXT_WIDTH,
        "vocab_size": len(vocab),
    }


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def weights(module, dtype=torch.float32):
    return {name: tensor.to(dtype) for name, tensor in module.state_dict().items()}


def text_weights(module):
    """Key names as in published SD1.x folders: with the prefix and the position_ids buffer."""
    tensors = {
        name if name.startswith("text_model.") else "text_model." + name: tensor
        for name, tensor in weights(module).items()
    }
    tensors["text_model.embeddings.position_ids"] = torch.arange(77)[None]
    return tensors


def write_unet(folder, config, seed, dtype):
    from diffusers import UNet2DConditionModel

    unet = randomise(UNet2DConditionModel.from_config(dict(config)), seed, dtype)
    write_json(folder / "unet/config.json", config)
    save(folder / "unet/diffusion_pytorch_model.safetensors", weights(unet, dtype), {"format": "pt"})


def write_vae(folder):
    from diffusers import AutoencoderKL

    vae = randomise(AutoencoderKL.from_config(dict(VAE)), 3)
    vae.decoder.conv_out.weight.mul_(0.7)
    vae.decoder.conv_out.bias.copy_(0.1 * randn("decoder.conv_out.bias", 3))
    write_json(folder / "vae/config.json", VAE)
    save(folder / "vae/diffusion_pytorch_model.safetensors", weights(vae), {"format": "pt"})


def write_text(folder):
    from transformers import CLIPTextConfig, CLIPTextModel

    vocab = bpe.write_folder(folder / "tokenizer", bpe.train(bpe.SENTENCES, MERGES))
    config = text_config(vocab)
    plain = {key: value for key, value in config.items() if key not in ("architectures", "model_type")}
    text = randomise(CLIPTextModel(CLIPTextConfig(**plain)), 4)
    write_json(folder / "text_encoder/config.json", config)
    save(folder / "text_encoder/model.safetensors", text_weights(text), {"format": "pt"})


def main():
    write_json(FOLDER / "model_index.json", INDEX)
    write_json(FOLDER / "scheduler/scheduler_config.json", SCHEDULER)
    write_unet(FOLDER, UNET, 1, torch.float32)
    write_unet(FOLDER_L2, UNET_L2, 2, torch.float16)
    write_vae(FOLDER)
    write_text(FOLDER)


if __name__ == "__main__":
    main()
