"""Further prompts of `make parity-comfyui`: nodes that write models into files. parity_comfyui.py compares the files tensor by tensor. And what kiln wrote, opened by ComfyUI:
it has to draw what kiln draws with the models that were saved."""

import rows_models
from rows import FILE, checkpoint, clip, drawn, model, otherwise, row, section, text, vae
from graph import n, prompt_of

section("Saved models")


def saved(name, model, clip, vae):
    return n.CheckpointSave(model=model, clip=clip, vae=vae, filename_prefix=name, dtype="fp32")


lora = n.LoraLoader(model=model, clip=clip, lora_name=FILE, strength_model=0.8, strength_clip=-0.5)
row("save_sd1", drawn(), also=[saved("save_sd1_whole", model, clip, vae), n.ModelSave(model=model, filename_prefix="save_sd1_unet", dtype="fp32"),
                               n.CLIPSave(clip=clip, filename_prefix="save_sd1_text", dtype="fp32"), n.VAESave(vae=vae, filename_prefix="save_sd1_vae", dtype="fp32")])
row("save_lora", drawn(model=lora), also=[saved("save_lora_whole", lora, lora[1], vae)])
for name in ("sd21", "sdxl", "refiner"):
    other = n.CheckpointLoaderSimple(ckpt_name=f"{name}.safetensors")
    row(f"save_{name}", n.VAEDecode(samples=n.EmptyLatentImage(width=64, height=64, batch_size=1), vae=vae),
        also=[saved(f"save_{name}_whole", other, other[1], vae), n.CLIPSave(clip=other[1], filename_prefix=f"save_{name}_text", dtype="fp32")])

section("Saved by kiln, drawn by ComfyUI")
written = {}  # {file below models/: the node of kiln's that writes it}


def keep(folder, name, kind, **inputs):
    """The name of the file by which loaders find it."""
    file = f"by_kiln_{name}.safetensors"
    written[f"{folder}/{file}"] = getattr(n, kind)(**inputs, filename_prefix=f"by_kiln_{name}")
    return file


def reloaded(name, again, first):
    """Pictures of a model that was saved, and of the one that it was made from."""
    row(f"reload_{name}", again)
    otherwise[f"reload_{name}"] = prompt_of(n.SaveImage(images=first, filename_prefix=f"reload_{name}_0")), "kiln with what was saved"


def pictured(parts):
    """parts: MODEL, CLIP, VAE"""
    return rows_models.drawn(parts, text("a (red:1.2) circle", parts[1]), text("blurry", parts[1]))


def opened(file):
    loader = n.CheckpointLoaderSimple(ckpt_name=file)
    return loader, loader[1], loader[2]


reloaded("lora", pictured(opened(keep("checkpoints", "lora", "CheckpointSave", model=lora, clip=lora[1], vae=vae, dtype="fp32"))), pictured((lora, lora[1], vae)))
second = n.LoraLoaderModelOnly(model=n.UNETLoader(unet_name=FILE, weight_dtype="default"), lora_name=FILE, strength_model=2.0)
merged = n.ModelMergeSimple(model1=model, model2=second, ratio=0.35)
parts = (n.UNETLoader(unet_name=keep("diffusion_models", "unet", "ModelSave", model=merged, dtype="fp32"), weight_dtype="default"),
         n.CLIPLoader(clip_name=keep("text_encoders", "text", "CLIPSave", clip=lora[1], dtype="fp32"), type="stable_diffusion", device="default"),
         n.VAELoader(vae_name=keep("vae", "vae", "VAESave", vae=vae, dtype="fp32")))
reloaded("parts", pictured(parts), pictured((merged, lora[1], vae)))
for name in ("sd21", "sdxl", "refiner"):
    other = opened(f"{name}.safetensors")
    reloaded(name, pictured(opened(keep("checkpoints", name, "CheckpointSave", model=other[0], clip=other[1], vae=other[2], dtype="fp16"))), pictured(other))
