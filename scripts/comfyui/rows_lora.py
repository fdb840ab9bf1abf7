"""Further prompts of `make parity-comfyui`: patches of every kind, several of them in order, and a LoRA on SDXL's two text encoders."""

from graph import n
from lora_files import KINDS
from rows import alone, clip, drawn, model, row, section, text
from rows_models import checkpoint, drawn as drawn_by, xl_text

section("LoRA of every kind")


def patched(kind, strength=1.0, on=(model, clip)):
    return n.LoraLoader(model=on[0], clip=on[1], lora_name=f"{kind}.safetensors", strength_model=strength, strength_clip=strength)


def picture(loaded, **changes):
    return drawn(model=loaded, positive=text("a cat", loaded[1]), **changes)


# norms by inputs; of norms by outputs ComfyUI divides by those of W, kiln as LyCORIS and peft by those of W + the difference
for kind in KINDS:
    row(f"lora_kind_{kind}", picture(patched(kind)))
    alone[f"lora_kind_{kind}"] = "lora"
# half of it; of a rotation ComfyUI takes the strength twice
for kind in ("tucker", "dora", "loha", "lokr_factored", "glora", "diff"):
    row(f"lora_half_{kind}", picture(patched(kind, 0.5), steps=3))
    alone[f"lora_half_{kind}"] = "lora"
for first, second in (("loha", "dora"), ("dora", "loha"), ("oft", "lokr")):
    below = patched(first)
    row(f"lora_order_{first}_{second}", picture(patched(second, on=(below, below[1])), steps=3))
    alone[f"lora_order_{first}_{second}"] = "lora"

parts = checkpoint("sdxl.safetensors")
xl = n.LoraLoader(model=parts[0], clip=parts[1], lora_name="sdxl.safetensors", strength_model=0.8, strength_clip=0.6)
row("lora_xl", drawn_by((xl, xl[1], parts[2]), xl_text(xl[1], "a red circle"), xl_text(xl[1], "grey")))
alone["lora_xl"] = "lora_xl"
