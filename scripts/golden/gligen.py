"""gligen/ and gligen.safetensors: a GLIGEN on a tiny UNet of SD1's kind, from diffusers.

gligen/models/ has the UNet (its attentions one head of 64 each), a GLIGEN under the original code's names. Texts of boxes are
the pooled vectors that transformers makes with the text encoder of tiny-sd1. A case samples with Euler's method and guidance: golden.CASE; both sides of
the guidance see the boxes, as in ComfyUI.
"""

import sys

import torch

from common import GOLDEN, ROOT, generator, nhwc, randn, randomise, save, save_json, versions

sys.path.insert(0, str(ROOT / "tests" / "strangers" / "control"))
import reference  # noqa: E402

FOLDER, TEXT, BOXES, SCALE, SIZE = GOLDEN / "gligen", 32, 30, 0.18215, (8, 12)
UNET = {
    "_class_name": "UNet2DConditionModel",
    "act_fn": "silu",
    "attention_head_dim": 1,
    "block_out_channels": [64],
    "cross_attention_dim": TEXT,
    "down_block_types": ["CrossAttnDownBlock2D"],
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 1,
    "norm_eps": 1e-05,
    "norm_num_groups": 8,
    "out_channels": 4,
    "up_block_types": ["CrossAttnUpBlock2D"],
}
# Names of diffusers' attentions in the original code's words.
BLOCKS = {"down_blocks.0.attentions.0": "input_blocks.1.1", "mid_block.attentions.0": "middle_block.1", "up_blocks.0.attentions.0": "output_blocks.0.1", "up_blocks.0.attentions.1": "output_blocks.1.1"}
LEVELS, STEP = [12.0, 2.0, 1.0, 0.3, 0.0], [5.0, 0.0]
# text, width, height, x, y in pixels
CAT, DOG = ("a red circle", 40, 24, 8, 16), ("a large blue square, on green", 16, 64, 64, 0)
CASES = {"one": ([CAT], STEP), "two": ([CAT, DOG], STEP), "way": ([CAT, DOG], LEVELS), "beyond": ([("a circle", 200, 16, 48, 40)], STEP), "none": ([], STEP)}


def is_gligen(name):
    return "position_net." in name or ".fuser." in name


def make_unet():
    from diffusers import UNet2DConditionModel

    unet = UNet2DConditionModel.from_config({**UNET, "attention_type": "gated"})
    randomise(unet, 20, torch.float16)
    with torch.no_grad():
        for name, p in unet.named_parameters():
            if name.endswith((".alpha_attn", ".alpha_dense")):
                p.copy_((0.4 + 0.8 * torch.rand((), generator=generator(name))).half())
            if name.endswith(("null_positive_feature", "null_position_feature")):
                p.copy_((0.5 * randn(name, *p.shape)).half())
    return unet


def renamed(name):
    for ours, theirs in BLOCKS.items():
        name = name.replace(ours, theirs)
    return name


def pooled(texts):
    from transformers import CLIPTextModel, CLIPTokenizer

    folder = GOLDEN / "tiny-sd1"
    tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer")
    encoder = CLIPTextModel.from_pretrained(folder / "text_encoder", dtype=torch.float32).double()
    ids = tokenizer(texts, padding="max_length", max_length=encoder.config.max_position_embeddings, truncation=True, return_tensors="pt").input_ids
    return encoder(ids).pooler_output


def grounding(boxes):
    """What diffusers' UNet takes of boxes in pixels, as ComfyUI counts them: cells of 8, shares of the latent."""
    h, w = SIZE
    corners, texts, masks = torch.zeros(1, BOXES, 4).double(), torch.zeros(1, BOXES, TEXT).double(), torch.zeros(1, BOXES).double()
    for i, (_, width, height, x, y) in enumerate(boxes):
        corners[0, i] = torch.tensor([x // 8 / w, y // 8 / h, (x // 8 + width // 8) / w, (y // 8 + height // 8) / h])
        masks[0, i] = 1
    if boxes:
        texts[0, : len(boxes)] = pooled([b[0] for b in boxes])
    return {"boxes": corners, "positive_embeddings": texts, "masks": masks}


def model(unet, boxes):
    extra = {"cross_attention_kwargs": {"gligen": grounding(boxes)}} if boxes else {}

    def guess(x, sigma, tokens):
        for part in unet.modules():
            if hasattr(part, "fuser"):
                part.fuser.enabled = bool(boxes)
        return unet(reference.scaled(x, sigma), reference.timestep(sigma), tokens, **extra).sample

    return guess


def main():
    unet = make_unet()
    state = {k: v.half() for k, v in unet.state_dict().items()}
    folder = FOLDER / "models" / "diffusion_models" / "tiny"
    save_json(folder / "config.json", UNET)
    save(folder / "diffusion_pytorch_model.safetensors", {k: v for k, v in state.items() if not is_gligen(k)})
    save(FOLDER / "models" / "gligen" / "tiny.safetensors", {renamed(k): v for k, v in state.items() if is_gligen(k)})
    unet = unet.double()
    tensors = {"x": 5 * randn("gligen.x", 1, *SIZE, 4) / SCALE, **{side: randn(f"gligen.{side}", 1, 6, TEXT) for side in ("positive", "negative")}}
    with torch.inference_mode():
        tensors["pooled"] = pooled([CAT[0], DOG[0]])
        for name, (boxes, levels) in CASES.items():
            x = tensors["x"].permute(0, 3, 1, 2).double() * SCALE
            out = reference.euler(model(unet, boxes), x, levels, [tensors[s].double() for s in ("positive", "negative")])
            tensors[f"golden.{name}"] = nhwc(out) / SCALE
    plain = tensors["golden.none"]
    for name in ("one", "two", "beyond"):
        assert (tensors[f"golden.{name}"] - plain).abs().max() / plain.abs().max() > 1e-3, (name, "a golden that the plain model would pass for")
    what = f"golden.CASE: Euler over {LEVELS} or {STEP} from x, cfg {reference.CFG}; scripts/golden/gligen.py has the cases"
    save(GOLDEN / "gligen.safetensors", tensors, {**versions(), "layout": "NHWC", "what": what})


if __name__ == "__main__":
    main()
