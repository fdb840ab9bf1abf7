"""shapes-xl and shapes-xl-refiner: sizes of their networks, and their diffusers folders in f16.

The structure is SDXL's: two text encoders read at their last layer but one, without its final norm; a pooled and projected
text vector; the picture's sizes as numbers beside it. The refiner has the second encoder alone, a fourth level, and an aesthetic
score in place of the target size.
"""
import json
import os
import shutil

import torch
from diffusers import (AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLImg2ImgPipeline, StableDiffusionXLPipeline,
                       UNet2DConditionModel)
from safetensors.torch import load_file, save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from . import bpe
from .common import LATENT_SCALE, SCHEDULE, TEXT, UNET, VAE

XL_LATENT_SCALE = 0.13025
PAD = "!"  # the second tokenizer pads with token 0, as SDXL's does; the first pads with the end token

TEXT_ONE = dict(TEXT, num_hidden_layers=3)
TEXT_TWO = dict(
    hidden_size=112, intermediate_size=336, num_hidden_layers=3, num_attention_heads=7, max_position_embeddings=77,
    hidden_act="gelu", projection_dim=112, layer_norm_eps=1e-5,
)
WIDE = TEXT_ONE["hidden_size"] + TEXT_TWO["hidden_size"]
POOLED = TEXT_TWO["projection_dim"]
NUMBER = 32  # sinus features of each number beside the pooled text

def sizes_of_unet(**own):
    return {**UNET, "use_linear_projection": True, "addition_embed_type": "text_time", "addition_time_embed_dim": NUMBER, **own}


BASE = sizes_of_unet(
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    block_out_channels=(48, 96, 144), transformer_layers_per_block=[1, 1, 2], attention_head_dim=[3, 3, 3],
    cross_attention_dim=WIDE, projection_class_embeddings_input_dim=POOLED + 6 * NUMBER,
)
REFINER = sizes_of_unet(
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    block_out_channels=(48, 96, 144, 144), transformer_layers_per_block=1, attention_head_dim=[3, 3, 3, 3],
    cross_attention_dim=TEXT_TWO["hidden_size"], projection_class_embeddings_input_dim=POOLED + 5 * NUMBER,
)


def text_config(tokenizer, pad, sizes):
    return CLIPTextConfig(vocab_size=len(tokenizer), bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=pad, **sizes)


def new_text_one(tokenizer):
    return CLIPTextModel(text_config(tokenizer, tokenizer.eos_token_id, TEXT_ONE))


def new_text_two(tokenizer):
    return CLIPTextModelWithProjection(text_config(tokenizer, 0, TEXT_TWO))


def rescaled_vae(folder):
    """The autoencoder of shapes-sd1 with latents of unit variance at SDXL's factor; pictures decode unchanged.

    Means grow by gain and log variances by 2 log gain; the convolution before the decoder takes it back.
    """
    old = AutoencoderKL.from_pretrained(folder, subfolder="vae", torch_dtype=torch.float32)
    vae = AutoencoderKL(**{**VAE, "scaling_factor": XL_LATENT_SCALE})
    vae.load_state_dict(old.state_dict())
    gain, n = LATENT_SCALE / XL_LATENT_SCALE, vae.config.latent_channels
    with torch.no_grad():
        vae.quant_conv.weight[:n] *= gain
        vae.quant_conv.bias[:n] *= gain
        vae.quant_conv.bias[n:] += 2 * torch.log(torch.tensor(gain))
        vae.post_quant_conv.weight /= gain
    return vae.eval()


def write_second_tokenizer(first, folder):
    """The same merges; what differs is the padding."""
    shutil.copytree(first, folder, dirs_exist_ok=True)
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        bpe.dump(folder, name, {**value, "pad_token": PAD})


def scheduler():
    keep = ("num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "prediction_type", "steps_offset")
    return EulerDiscreteScheduler(**{k: SCHEDULE[k] for k in keep}, timestep_spacing="leading")


def write_base(folder, tokenizer_folder, vae, texts, unet):
    one, two = texts
    save(folder, tokenizer_folder, StableDiffusionXLPipeline(
        vae=vae, text_encoder=one, text_encoder_2=two, tokenizer=bpe.load(tokenizer_folder), tokenizer_2=bpe.load(tokenizer_folder),
        unet=unet, scheduler=scheduler(), force_zeros_for_empty_prompt=False, add_watermarker=False,
    ))


def write_refiner(folder, tokenizer_folder, vae, two, unet):
    save(folder, tokenizer_folder, StableDiffusionXLImg2ImgPipeline(
        vae=vae, text_encoder=None, text_encoder_2=two, tokenizer=None, tokenizer_2=bpe.load(tokenizer_folder), unet=unet,
        scheduler=scheduler(), requires_aesthetics_score=True, force_zeros_for_empty_prompt=False, add_watermarker=False,
    ))


def save(folder, tokenizer_folder, pipeline):
    """Replaces folder as a whole: it is written beside it first."""
    part = folder.rstrip("/") + ".part"
    shutil.rmtree(part, ignore_errors=True)
    pipeline.to(dtype=torch.float16).save_pretrained(part, safe_serialization=True)
    for name in ("text_encoder", "text_encoder_2"):
        path = os.path.join(part, name, "model.safetensors")
        if os.path.exists(path):
            prefix_text_keys(path)
    # The tokenizers' own files, exactly as learnt: libraries rewrite them in forms of their own.
    for name in ("tokenizer", "tokenizer_2"):
        shutil.rmtree(os.path.join(part, name), ignore_errors=True)
    if pipeline.text_encoder is not None:
        shutil.copytree(tokenizer_folder, os.path.join(part, "tokenizer"))
    write_second_tokenizer(tokenizer_folder, os.path.join(part, "tokenizer_2"))
    for root, _, names in os.walk(part):
        for name in names:
            os.chmod(os.path.join(root, name), 0o644)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(part, folder)


def prefix_text_keys(path):
    """Names as in published folders: all but text_projection under `text_model.`, which transformers 5 leaves out."""
    outside = ("text_model.", "text_projection.")
    tensors = {k if k.startswith(outside) else "text_model." + k: v for k, v in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
