"""Further prompts of `make parity-comfyui`: nodes that write models into files. parity_comfyui.py compares the files tensor by tensor."""

from rows import FILE, checkpoint, clip, drawn, model, row, section, vae
from graph import n

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
