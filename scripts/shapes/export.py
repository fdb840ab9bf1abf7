"""Writes the trained parts as a diffusers folder in f16: what StableDiffusionPipeline.from_pretrained and kiln load."""
import os
import shutil

import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file, save_file
from transformers import CLIPTextConfig, CLIPTextModel

from . import bpe
from .common import SCHEDULE, TEXT, UNET


def new_text_encoder(tokenizer):
    start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    return CLIPTextModel(CLIPTextConfig(vocab_size=len(tokenizer), bos_token_id=start, eos_token_id=end, pad_token_id=end, **TEXT))


def new_unet():
    return UNet2DConditionModel(**UNET)


def write(folder, tokenizer_folder, vae, text_encoder, unet):
    save(folder, tokenizer_folder, StableDiffusionPipeline(
        vae=vae, text_encoder=text_encoder, tokenizer=bpe.load(tokenizer_folder), unet=unet,
        scheduler=DDIMScheduler(**SCHEDULE), safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    ))


def forget_paths(folder):
    """Takes out where the parts were read from: a path of the machine that trained."""
    for root, _, names in os.walk(folder):
        for name in names:
            if name == "config.json":
                path = os.path.join(root, name)
                with open(path) as file:
                    lines = [line for line in file if '"_name_or_path"' not in line]
                with open(path, "w") as file:
                    file.writelines(lines)


def save(folder, tokenizer_folder, pipeline):
    """Replaces folder as a whole: it is written beside it first."""
    part = folder.rstrip("/") + ".part"
    shutil.rmtree(part, ignore_errors=True)
    pipeline.to(dtype=torch.float16).save_pretrained(part, safe_serialization=True)
    prefix_text_keys(os.path.join(part, "text_encoder", "model.safetensors"))
    forget_paths(part)
    # The tokenizer's own files, exactly as learnt: libraries rewrite them in forms of their own.
    shutil.rmtree(os.path.join(part, "tokenizer"))
    shutil.copytree(tokenizer_folder, os.path.join(part, "tokenizer"))
    for root, _, names in os.walk(part):
        for name in names:
            os.chmod(os.path.join(root, name), 0o644)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(part, folder)


def prefix_text_keys(path):
    """Names the text encoder's tensors as published SD1.x folders do; transformers 5 leaves out `text_model.`."""
    prefix = "text_model."
    tensors = {k if k.startswith(prefix) else prefix + k: v for k, v in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
