"""lora/kohya.safetensors, lora/peft.safetensors and lora.safetensors: LoRA files for tiny-sd1 and what diffusers makes of them.

kohya.safetensors is written here with the names that kohya's scripts use (alpha and rank differ; linears, 1x1 and 3x3
convolutions, the text encoder); peft.safetensors by diffusers itself, from adapters, with its metadata. diffusers loads
both, and its fused weights and outputs are the goldens, in float64.
"""

import json
import pathlib
import tempfile

import torch

import text
import tiny
import unet as unet_golden
from common import GOLDEN, errors, nhwc, randn, save, versions

FOLDER = GOLDEN / "lora"
RANK, ALPHA = 3, 2.0
UNET = [
    "down_blocks.0.attentions.0.proj_in",
    "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q",
    "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_k",
    "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_v",
    "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0",
    "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_q",
    "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k",
    "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_v",
    "down_blocks.1.attentions.0.transformer_blocks.0.ff.net.0.proj",
    "down_blocks.2.resnets.0.conv1",
    "down_blocks.2.resnets.0.conv_shortcut",
    "down_blocks.2.resnets.0.time_emb_proj",
    "down_blocks.0.downsamplers.0.conv",
    "mid_block.attentions.0.transformer_blocks.0.attn1.to_q",
    "mid_block.resnets.1.conv2",
    "up_blocks.0.upsamplers.0.conv",
    "up_blocks.1.attentions.1.proj_out",
    "up_blocks.3.attentions.1.transformer_blocks.0.ff.net.2",
]
TEXT = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2"]
PEFT_UNET = ["to_q", "to_k", "to_v", "to_out.0", "proj_in", "conv2", "ff.net.0.proj"]
PEFT_TEXT = ["q_proj", "v_proj", "fc1"]
STRENGTHS = {"kohya": (0.8, 0.5), "peft": (-0.6, 0.7)}  # on the UNet, on the text encoder
SHOWN = [UNET[i] for i in (0, 1, 4, 8, 9, 10, 12, 15)]


def factors(name, weight, rank):
    """Random up [O,r,(1,1)] and down [r,I,(kh,kw)] whose product is of the weight's own size, more or less."""
    out, rest = weight.shape[0], weight.shape[1:]
    ones = (1,) * (len(rest) - 1)
    size = float(weight.double().std()) * 1.5
    return randn(name + ".up", out, rank, *ones) * size, randn(name + ".down", rank, *rest) / rank**0.5


def write_kohya(unet, encoder):
    tensors = {}
    modules = [("lora_unet_", name, unet.get_submodule(name)) for name in UNET]
    layers = "text_model.encoder.layers"
    body = getattr(encoder, "text_model", encoder)
    modules += [("lora_te_", f"{layers}.{i}.{name}", body.get_submodule(f"encoder.layers.{i}.{name}")) for i in (0, 3) for name in TEXT]
    for prefix, name, module in modules:
        key = prefix + name.replace(".", "_")
        up, down = factors(key, module.weight, RANK)
        tensors.update({f"{key}.lora_up.weight": up, f"{key}.lora_down.weight": down.bfloat16(), f"{key}.alpha": torch.tensor(ALPHA)})
    save(FOLDER / "kohya.safetensors", tensors, {"what": "a LoRA for tiny-sd1 as kohya's scripts name it; rank 3, alpha 2"})


def with_adapter(module, targets, rank, alpha, seed):
    from peft import LoraConfig

    module.add_adapter(LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets, init_lora_weights=False))
    for name, parameter in sorted(module.named_parameters()):
        if "lora_" in name:
            parameter.data.copy_(randn(name, *parameter.shape, seed=seed) * (0.1 if "lora_B" in name else 0.5))


def write_peft():
    from diffusers import StableDiffusionPipeline
    from diffusers.training_utils import _collate_lora_metadata
    from peft import get_peft_model_state_dict

    unet, (_, encoder) = unet_golden.load(tiny.FOLDER, torch.float32), text.load(tiny.FOLDER)
    with_adapter(unet, PEFT_UNET, 2, 5, 1)
    with_adapter(encoder, PEFT_TEXT, 2, 3, 2)
    with tempfile.TemporaryDirectory() as folder:
        StableDiffusionPipeline.save_lora_weights(
            folder,
            unet_lora_layers=get_peft_model_state_dict(unet),
            text_encoder_lora_layers=get_peft_model_state_dict(encoder),
            **_collate_lora_metadata({"unet": unet, "text_encoder": encoder}),
        )
        rewrite(pathlib.Path(folder) / "pytorch_lora_weights.safetensors")


def rewrite(path, to=FOLDER / "peft.safetensors"):
    """The same file without what differs from run to run: a path, the order of a set."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        tensors, meta = {key: file.get_tensor(key) for key in file.keys()}, file.metadata()
    adapter = json.loads(meta["lora_adapter_metadata"])
    for key, value in adapter.items():
        if key.endswith("base_model_name_or_path"):
            adapter[key] = None
        if isinstance(value, list):
            adapter[key] = sorted(value)
    meta["lora_adapter_metadata"] = json.dumps(adapter, sort_keys=True)
    save(to, tensors, meta)


def pipeline(names):
    """tiny-sd1 in float64 with those files fused by diffusers at STRENGTHS."""
    from diffusers import StableDiffusionPipeline

    pipe = StableDiffusionPipeline.from_pretrained(tiny.FOLDER, safety_checker=None, feature_extractor=None).to(torch.float64)
    if not names:
        return pipe.unet, pipe.text_encoder, pipe.tokenizer
    for name in names:
        pipe.load_lora_weights(FOLDER / f"{name}.safetensors", adapter_name=name)
    pipe.to(torch.float64)
    pipe.set_adapters(list(names), [{"unet": STRENGTHS[n][0], "text_encoder": STRENGTHS[n][1]} for n in names])
    pipe.fuse_lora(adapter_names=list(names))
    pipe.unload_lora_weights()
    return pipe.unet.eval().requires_grad_(False), pipe.text_encoder.eval().requires_grad_(False), pipe.tokenizer


def outputs(case, names, x, context, tensors):
    unet, encoder, tokenizer = pipeline(names)
    body = getattr(encoder, "text_model", encoder)
    ids = torch.tensor(tokenizer("a red circle", padding="max_length", max_length=77)["input_ids"])[None]
    tensors["ids"] = ids[0]
    tensors[f"{case}.out"] = nhwc(unet_golden.run(unet, x, [321.5], context))
    tensors[f"{case}.text"] = body(input_ids=ids).last_hidden_state[0]
    if len(names) != 1:
        return
    for name in SHOWN:
        tensors[f"{case}.unet.{name}.weight"] = unet.get_submodule(name).weight
    for name in TEXT:
        tensors[f"{case}.text.text_model.encoder.layers.0.{name}.weight"] = body.get_submodule(f"encoder.layers.0.{name}").weight


def main():
    unet, (_, encoder) = unet_golden.load(tiny.FOLDER, torch.float32), text.load(tiny.FOLDER)
    write_kohya(unet, encoder)
    write_peft()
    x, context = unet_golden.inputs("lora", 8, 12, 1)
    context = context[:, :16]
    tensors = {"x": nhwc(x), "t": torch.tensor([321.5]), "context": context}
    for case, names in {"none": [], "kohya": ["kohya"], "peft": ["peft"], "both": ["kohya", "peft"]}.items():
        outputs(case, names, x, context, tensors)
    for case in ("kohya", "peft", "both"):
        assert errors(tensors[f"{case}.out"], tensors["none.out"])["rms"] > 0.05, case
        assert errors(tensors[f"{case}.text"], tensors["none.text"])["rms"] > 0.05, case
    what = (
        "tiny-sd1 with lora/kohya.safetensors, lora/peft.safetensors, both, or none, loaded and fused by diffusers (strengths in the metadata: "
        "UNet, text encoder). CASE.unet.NAME and CASE.text.NAME: weights; x [1,8,12,4], t, context -> CASE.out; ids [77] -> CASE.text, "
        "the last hidden state after the final norm"
    )
    save(GOLDEN / "lora.safetensors", tensors, {**versions(), "layout": "NHWC", "what": what, "strengths": STRENGTHS})


if __name__ == "__main__":
    main()
