"""The files of patches that `make parity-comfyui` draws with: one for each kind, for the cut-down SD1.5, and a LoRA for the cut-down SDXL.

    models/loras/{KIND}.safetensors   KIND of KINDS: every module of MODULES changed by about half its size, as LyCORIS names it
    models/loras/sdxl.safetensors     kohya's names of SDXL: single-file blocks, te1 and te2
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))

import torch

import common

RANK, ALPHA = 3, 2.0
SD15 = "checkpoints/parity.safetensors"
UNET = "model.diffusion_model."
MODULES = [
    "input_blocks.1.1.transformer_blocks.0.attn1.to_q",
    "input_blocks.1.1.transformer_blocks.0.ff.net.2",
    "middle_block.1.transformer_blocks.0.attn2.to_v",
    "middle_block.1.proj_out",
    "input_blocks.1.0.in_layers.2",
    "output_blocks.1.0.out_layers.3",
]
TEXT = ["text_model.encoder.layers.0.self_attn.q_proj", "text_model.encoder.layers.7.mlp.fc1"]
XL_UNET = ["input_blocks.4.1.transformer_blocks.0.attn1.to_q", "middle_block.1.transformer_blocks.0.attn2.to_k", "input_blocks.1.0.in_layers.2", "label_emb.0.0"]
XL_TEXT = {"lora_te1_": (768, 3072), "lora_te2_": (1280, 5120)}


def randn(key, *shape):
    return common.randn("lora." + key, *shape)


def kernel(weight):
    return tuple(weight.shape[2:])


def plain(key, w, size):
    ones = (1,) * len(kernel(w))
    up, down = randn(key + "up", w.shape[0], RANK, *ones), randn(key + "down", RANK, *w.shape[1:])
    return {"lora_up.weight": up * size / RANK**0.5, "lora_down.weight": down, "alpha": torch.tensor(ALPHA)}


def tucker(key, w, size):
    if not kernel(w):
        return plain(key, w, size)
    ones = (1,) * len(kernel(w))
    return {"lora_up.weight": randn(key + "up", w.shape[0], RANK, *ones) * size / RANK, "lora_down.weight": randn(key + "down", RANK, w.shape[1], *ones),
            "lora_mid.weight": randn(key + "mid", RANK, RANK, *kernel(w)), "alpha": torch.tensor(ALPHA)}


def dora(key, w, size):
    pair = plain(key, w, size)
    whole = w + ALPHA / RANK * (pair["lora_up.weight"].flatten(1) @ pair["lora_down.weight"].flatten(1)).reshape(w.shape)
    norm = whole.double().pow(2).sum([i for i in range(w.dim()) if i != 1], keepdim=True).sqrt().float()
    return {**pair, "dora_scale": norm * (1 + 0.2 * randn(key + "dora", *norm.shape))}


def loha(key, w, size):
    rest = w[0].numel()
    sides = {f"hada_w{i}_a": randn(f"{key}a{i}", w.shape[0], RANK) / RANK**0.5 for i in (1, 2)}
    sides.update({f"hada_w{i}_b": randn(f"{key}b{i}", RANK, rest) for i in (1, 2)})
    sides["hada_w1_a"] *= size
    return {**sides, "alpha": torch.tensor(ALPHA)}


def loha_tucker(key, w, size):
    if not kernel(w):
        return loha(key, w, size)
    tensors = {"alpha": torch.tensor(ALPHA)}
    for i in (1, 2):
        tensors[f"hada_w{i}_a"] = randn(f"{key}a{i}", RANK, w.shape[0]) / RANK * (size if i == 1 else 1)
        tensors[f"hada_w{i}_b"] = randn(f"{key}b{i}", RANK, w.shape[1])
        tensors[f"hada_t{i}"] = randn(f"{key}t{i}", RANK, RANK, *kernel(w))
    return tensors


def lokr(key, w, size):
    return {"lokr_w1": randn(key + "w1", 4, 4), "lokr_w2": randn(key + "w2", w.shape[0] // 4, w.shape[1] // 4, *kernel(w)) * size, "alpha": torch.tensor(1e10)}


def lokr_factored(key, w, size):
    rows, columns = w.shape[0] // 8, w[0].numel() // 8
    return {"lokr_w1_a": randn(key + "1a", 8, 2), "lokr_w1_b": randn(key + "1b", 2, 8) * size / 2, "lokr_w2_a": randn(key + "2a", rows, RANK),
            "lokr_w2_b": randn(key + "2b", RANK, columns) / RANK**0.5, "alpha": torch.tensor(ALPHA)}


def glora(key, w, size):
    ones = (1,) * len(kernel(w))
    return {"a1.weight": randn(key + "a1", w.shape[1], RANK, *ones) * 0.5 / w.shape[1] ** 0.5, "a2.weight": randn(key + "a2", RANK, w.shape[1], *ones) / RANK**0.5,
            "b1.weight": randn(key + "b1", w.shape[0], RANK, *ones) * size / RANK**0.5, "b2.weight": randn(key + "b2", RANK, *w.shape[1:]), "alpha": torch.tensor(ALPHA)}


def oft(key, w, size):
    return {"oft_blocks": randn(key + "oft", w.shape[0] // 16, 16, 16) * 0.1, "alpha": torch.tensor(0.0)}


def boft(key, w, size):
    return {"oft_blocks": randn(key + "boft", 3, w.shape[0] // 8, 8, 8) * 0.15, "rescale": 1 + 0.1 * randn(key + "by", w.shape[0], *(1,) * (w.dim() - 1)), "alpha": torch.tensor(0.0)}


def diff(key, w, size):
    return {"diff": randn(key + "diff", *w.shape) * size}


def replaced(key, w, size):
    return {"set_weight": randn(key + "set", *w.shape) * 2 * size}


KINDS = {
    "tucker": tucker,
    "dora": dora,
    "loha": loha,
    "loha_tucker": loha_tucker,
    "lokr": lokr,
    "lokr_factored": lokr_factored,
    "glora": glora,
    "oft": oft,
    "boft": boft,
    "diff": diff,
    "replaced": replaced,
}


def write_kind(models, kind):
    from safetensors import safe_open

    base, tensors = safe_open(models / SD15, "pt"), {}
    prefixes = [("lora_unet_", UNET, MODULES), ("lora_te_", "cond_stage_model.transformer.", TEXT)]
    for prefix, inside, modules in prefixes:
        for name in modules:
            weight = base.get_tensor(f"{inside}{name}.weight").float()
            for part, value in KINDS[kind](kind + name, weight, 0.5 * weight.std()).items():
                tensors[f"{prefix}{name.replace('.', '_')}.{part}"] = value
    if kind == "diff":
        norm = randn("norm", *base.get_tensor(UNET + "out.0.weight").shape)
        tensors.update({"lora_unet_out_0.w_norm": 0.1 * norm, "lora_unet_out_0.b_norm": 0.2 * norm, "lora_unet_middle_block_1_proj_out.diff_b": 0.1 * randn("b", 640)})
    common.save(models / "loras" / f"{kind}.safetensors", tensors, {"what": f"{kind} for the cut-down SD1.5"})


def write_xl(models):
    from safetensors import safe_open

    base, tensors = safe_open(models / "checkpoints" / "sdxl.safetensors", "pt"), {}

    def add(key, w, size):
        tensors.update({f"{key}.{part}": value for part, value in plain("xl" + key, w, size).items()})

    for name in XL_UNET:
        weight = base.get_tensor(f"{UNET}{name}.weight").float()
        add("lora_unet_" + name.replace(".", "_"), weight, 0.5 * weight.std())
    for prefix, (width, inner) in XL_TEXT.items():
        for layer, part, shape in ((0, "self_attn_q_proj", (width, width)), (5, "mlp_fc1", (inner, width))):
            add(f"{prefix}text_model_encoder_layers_{layer}_{part}", torch.empty(shape), 0.5 / width**0.5)
    common.save(models / "loras" / "sdxl.safetensors", tensors, {"what": "a LoRA for the cut-down SDXL"})


def make(models, prompts):
    """The files that these prompts want, each unless it is there."""
    wanted = {node["inputs"].get("lora_name") for prompt in prompts.values() for node in prompt.values()}
    for kind in [*KINDS, "sdxl"]:
        if f"{kind}.safetensors" in wanted and not (models / "loras" / f"{kind}.safetensors").exists():
            write_xl(models) if kind == "sdxl" else write_kind(models, kind)
