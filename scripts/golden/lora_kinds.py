"""lora_kinds/*.safetensors and lora_kinds.safetensors: patches of every kind for tiny-sd1, and the weights that their trainers merge.

lycoris.safetensors has one kind on each module, as LyCORIS' own modules write and merge them (pip install --no-deps lycoris-lora toml);
over.safetensors goes on top of it; dora.safetensors and bias.safetensors are written by diffusers from peft's adapters, loha, lokr and ia3
by peft. Merged in float64, OFT and BOFT in float32. HALF: at a strength of 0.5, of a DoRA the middle between the base and the whole.
"""

import logging
import tempfile
import pathlib

import torch

import text
import tiny
import unet as unet_golden
from common import GOLDEN, randn, save

logging.disable(logging.WARNING)
from lycoris.modules.boft import ButterflyOFTModule  # noqa: E402
from lycoris.modules.diag_oft import DiagOFTModule  # noqa: E402
from lycoris.modules.full import FullModule  # noqa: E402
from lycoris.modules.glora import GLoRAModule  # noqa: E402
from lycoris.modules.ia3 import IA3Module  # noqa: E402
from lycoris.modules.locon import LoConModule  # noqa: E402
from lycoris.modules.loha import LohaModule  # noqa: E402
from lycoris.modules.lokr import LokrModule  # noqa: E402

FOLDER = GOLDEN / "lora_kinds"
BLOCK = "{}_blocks.{}.attentions.{}.transformer_blocks.0."
D0, D1, U1 = BLOCK.format("down", 0, 0), BLOCK.format("down", 1, 0), BLOCK.format("up", 1, 0)
LAYER = "text_model.encoder.layers.{}."
ROWS, COLUMNS = {"weight_decompose": True}, {"weight_decompose": True, "wd_on_out": False}
SINGLE = torch.float32

# module: class, its options, the type it is computed in
LYCORIS = {
    D0 + "attn1.to_q": (LoConModule, ROWS),
    D0 + "attn1.to_k": (LoConModule, COLUMNS),
    D0 + "attn1.to_v": (LohaModule, {}),
    D0 + "ff.net.0.proj": (LoConModule, COLUMNS),
    D0 + "ff.net.2": (LoConModule, ROWS),
    "down_blocks.0.resnets.0.conv1": (LoConModule, {"use_tucker": True}),
    "down_blocks.0.resnets.0.conv2": (LoConModule, COLUMNS),
    "down_blocks.0.downsamplers.0.conv": (LoConModule, {"use_tucker": True, **ROWS}),
    D1 + "attn2.to_k": (LohaModule, COLUMNS),
    "down_blocks.1.resnets.0.conv1": (LohaModule, {"use_tucker": True}),
    "down_blocks.1.resnets.0.conv2": (LohaModule, {}),
    "down_blocks.1.downsamplers.0.conv": (LohaModule, {"use_tucker": True, **ROWS}),
    D1 + "attn1.to_q": (LokrModule, {}),
    D1 + "attn1.to_k": (LokrModule, {"factor": 2, "decompose_both": True}),
    D1 + "ff.net.0.proj": (LokrModule, {"factor": 2, **COLUMNS}),
    "down_blocks.2.resnets.0.conv1": (LokrModule, {"factor": 2, "use_tucker": True}),
    "down_blocks.2.resnets.0.conv2": (LokrModule, {"factor": 4}),
    "down_blocks.2.resnets.0.conv_shortcut": (LokrModule, {"factor": 2}),
    "mid_block.attentions.0.transformer_blocks.0.attn1.to_q": (GLoRAModule, {}),
    "mid_block.attentions.0.transformer_blocks.0.ff.net.2": (GLoRAModule, {}),
    "mid_block.attentions.0.proj_in": (GLoRAModule, {}),
    "mid_block.resnets.0.conv1": (GLoRAModule, {}),
    "mid_block.resnets.1.conv1": (DiagOFTModule, {"rescaled": True}, SINGLE),
    "mid_block.attentions.0.proj_out": (DiagOFTModule, {"constraint": 1e-4}, SINGLE),
    U1 + "attn1.to_q": (DiagOFTModule, {}, SINGLE),
    U1 + "attn1.to_k": (ButterflyOFTModule, {}, SINGLE),
    "up_blocks.1.resnets.1.conv1": (ButterflyOFTModule, {"rescaled": True}, SINGLE),
    U1 + "attn2.to_q": (IA3Module, {}),
    U1 + "attn2.to_k": (IA3Module, {"train_on_input": True}),
    "up_blocks.1.resnets.0.conv1": (IA3Module, {"train_on_input": True}),
    "up_blocks.1.resnets.0.conv2": (IA3Module, {}),
    U1 + "ff.net.2": (FullModule, {}),
    "up_blocks.2.resnets.0.conv1": (FullModule, {}),
}
LYCORIS_TEXT = {
    LAYER.format(0) + "self_attn.q_proj": (LohaModule, {}),
    LAYER.format(0) + "mlp.fc1": (LokrModule, {"factor": 4, **ROWS}),
    LAYER.format(1) + "mlp.fc2": (LoConModule, COLUMNS),
    LAYER.format(1) + "self_attn.v_proj": (ButterflyOFTModule, {}, SINGLE),
}
# On top of those: a product on a rotation, a rotation on a product, norms on norms.
OVER = {
    U1 + "attn1.to_k": (LoConModule, {}),
    D0 + "attn1.to_v": (DiagOFTModule, {}, SINGLE),
    D0 + "attn1.to_k": (LoConModule, ROWS),
    "mid_block.resnets.0.conv1": (GLoRAModule, {}),
    "down_blocks.0.resnets.0.conv2": (LokrModule, {"factor": 2, **COLUMNS}),
}


def randomise(module, name):
    """Numbers that change the weight by about as much as it is, and norms near those it has."""
    for key, value in sorted(module.named_parameters()):
        noise = randn(f"{name}.{key}", *value.shape).to(value.dtype)
        if key == "dora_scale" or key == "rescale":
            value.data.mul_(1 + 0.2 * noise)
        else:
            value.data.copy_(noise * (0.3 if key.startswith("oft") or key in ("weight", "bias") else 0.25))


def merge(module, options, base, strength):
    """What the module's forward computes with. LoHa's and LoKr's get_merged_weight multiplies by alpha / rank twice."""
    if not isinstance(module, (LohaModule, LokrModule)):
        return module.get_merged_weight(strength, base.shape)[0]
    whole = base + module.get_weight(base.shape) * strength
    return module.apply_weight_decompose(whole) if options.get("weight_decompose") else whole


def lycoris(layer, row, name):
    """The module's tensors and what it merges, whole and at half its strength."""
    kind, options, *dtype = row
    layer = layer.to(dtype[0] if dtype else torch.float64)
    base = layer.weight.detach()
    module = kind("x", layer, 1.0, 2, 3.0, **options)
    module = module.to(torch.float32).to(base.dtype)
    with torch.no_grad():
        randomise(module, name)
        tensors = module.custom_state_dict() or module.state_dict()
        if kind is FullModule:
            tensors = {"diff": module.weight, **({} if module.bias is None else {"diff_b": module.bias})}
        whole = merge(module, options, base, 1)
        if options.get("weight_decompose"):
            half = (base + whole) / 2
        elif options.get("rescaled"):
            module.rescaled = False
            half = merge(module, options, base, 0.5) if kind is DiagOFTModule else base + boft_diff(module, base)
            half = half * (1 + module.rescale) / 2
        else:
            half = merge(module, options, base, 0.5)
        return {key: value.detach().float() if value.is_floating_point() else value for key, value in tensors.items()}, whole.double(), half.double()


def boft_diff(module, base):
    from lycoris.functional.boft import diff_weight

    return diff_weight(base, module.oft_blocks, None, constraint=0, scale=0.5)


def add(tensors, goldens, case, prefix, part, name, layer, row):
    found, whole, half = lycoris(layer, row, case + name)
    for key, value in found.items():
        tensors[f"{prefix}{name.replace('.', '_')}.{key}"] = value
    goldens[f"{case}.{part}.{name}.weight"] = whole
    if case == "lycoris":
        goldens[f"half.{part}.{name}.weight"] = half
    if "diff_b" in found and layer.bias is not None:
        goldens[f"{case}.{part}.{name}.bias"] = layer.bias.double() + found["diff_b"].double()
    return whole


def write_lycoris(goldens):
    unet, (_, encoder) = unet_golden.load(tiny.FOLDER, torch.float32), text.load(tiny.FOLDER)
    body, tensors, over = getattr(encoder, "text_model", encoder), {}, {}
    for name, row in LYCORIS.items():
        layer = unet.get_submodule(name)
        whole = add(tensors, goldens, "lycoris", "lora_unet_", "unet", name, layer, row)
        if name in OVER:
            layer.weight.data = whole
            add(over, goldens, "over", "lora_unet_", "unet", name, layer, OVER[name])
    for name, row in LYCORIS_TEXT.items():
        layer = body.get_submodule(name.removeprefix("text_model."))
        add(tensors, goldens, "lycoris", "lora_te_", "text", name, layer, row)
    norm = randn("w_norm", *unet.conv_norm_out.weight.shape)
    tensors["lora_unet_conv_norm_out.w_norm"], tensors["lora_unet_conv_norm_out.b_norm"] = norm, 2 * norm
    goldens["lycoris.unet.conv_norm_out.weight"] = unet.conv_norm_out.weight.double() + norm
    goldens["lycoris.unet.conv_norm_out.bias"] = unet.conv_norm_out.bias.double() + 2 * norm
    save(FOLDER / "lycoris.safetensors", tensors, {"what": "every kind of LyCORIS, one on each module of tiny-sd1"})
    save(FOLDER / "over.safetensors", over, {"what": "patches that go on top of lycoris.safetensors"})


def fill(module, case):
    for name, value in sorted(module.named_parameters()):
        if any(word in name for word in ("lora_", "hada_", "lokr_", "ia3_")):
            noise = randn(case + name, *value.shape)
            value.data = value.data * (1 + 0.2 * noise) if "magnitude" in name or "ia3_" in name else noise * 0.3


def merged(module, goldens, case, names):
    with torch.no_grad():
        module.double()
        whole = module.merge_and_unload() if hasattr(module, "merge_and_unload") else module
        for name in names:
            layer = whole.get_submodule(name)
            goldens[f"{case}.unet.{name}.weight"] = layer.weight
            if case == "bias":
                goldens[f"{case}.unet.{name}.bias"] = layer.bias


def write_diffusers(goldens, case, targets, names, **options):
    """By diffusers, of an adapter of its UNet."""
    from diffusers import StableDiffusionPipeline
    from diffusers.training_utils import _collate_lora_metadata
    from peft import LoraConfig, get_peft_model_state_dict

    import lora

    unet = unet_golden.load(tiny.FOLDER, torch.float32)
    unet.add_adapter(LoraConfig(r=2, lora_alpha=3, target_modules=targets, init_lora_weights=False, **options))
    fill(unet, case)
    with tempfile.TemporaryDirectory() as folder:
        meta = _collate_lora_metadata({"unet": unet})
        StableDiffusionPipeline.save_lora_weights(folder, unet_lora_layers=get_peft_model_state_dict(unet), **meta)
        lora.rewrite(pathlib.Path(folder) / "pytorch_lora_weights.safetensors", FOLDER / f"{case}.safetensors")
    unet.double()
    unet.fuse_lora()
    unet.unload_lora()
    merged(unet, goldens, case, names)


def write_peft(goldens, case, config, names):
    from peft import get_peft_model, get_peft_model_state_dict

    model = get_peft_model(unet_golden.load(tiny.FOLDER, torch.float32), config)
    fill(model, case)
    tensors = {key: value.contiguous() for key, value in get_peft_model_state_dict(model).items()}
    save(FOLDER / f"{case}.safetensors", tensors, {"what": f"{case} for tiny-sd1 as peft names it"})
    merged(model, goldens, case, names)


def main():
    from peft import IA3Config, LoHaConfig, LoKrConfig

    goldens = {}
    write_lycoris(goldens)
    conv, proj, query = "down_blocks.2.resnets.0.conv2", D0 + "ff.net.0.proj", D1 + "attn1.to_q"
    targets = [conv, proj, query]
    write_diffusers(goldens, "dora", targets, targets, use_dora=True)
    write_diffusers(goldens, "bias", [proj, D0 + "ff.net.2"], [proj, D0 + "ff.net.2"], lora_bias=True)
    write_peft(goldens, "loha", LoHaConfig(r=2, alpha=2, target_modules=targets, init_weights=False, use_effective_conv2d=True), targets)
    write_peft(goldens, "lokr", LoKrConfig(r=2, alpha=2, target_modules=targets, init_weights=False, use_effective_conv2d=True), targets)
    write_peft(goldens, "ia3", IA3Config(target_modules=[query, proj], feedforward_modules=[proj]), [query, proj])
    from importlib.metadata import version

    what = "tiny-sd1's weights with lora_kinds/CASE.safetensors on it (over: on top of lycoris; half: lycoris at 0.5): CASE.unet.NAME, CASE.text.NAME"
    save(GOLDEN / "lora_kinds.safetensors", goldens, {"what": what, "lycoris-lora": version("lycoris-lora"), "peft": version("peft")})


if __name__ == "__main__":
    main()
