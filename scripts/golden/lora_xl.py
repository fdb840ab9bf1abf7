"""lora_xl/{ldm,kohya,diffusers}.safetensors and lora_xl.safetensors: one random LoRA for shapes-xl under three namings, and what diffusers fuses.

ldm has the names that kohya's scripts write for SDXL (input_blocks, te1, te2), kohya those with diffusers' blocks, diffusers what
StableDiffusionXLPipeline.save_lora_weights writes, with alpha multiplied into the first factor. Of each weight the golden has 4 rows.
"""

import pathlib
import tempfile

import torch

from common import GOLDEN, ROOT, errors, randn, save, versions

MODEL = ROOT / "workflows" / "models" / "shapes-xl"
FOLDER = GOLDEN / "lora_xl"
RANK, ALPHA, STRENGTH = 2, 3.0, 0.7
TEXT = [f"text_model.encoder.layers.{{}}.{part}" for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2")]
LAYERS = {1: (0,), 2: (1,)}


def pipeline():
    from diffusers import StableDiffusionXLPipeline

    return StableDiffusionXLPipeline.from_pretrained(MODEL, torch_dtype=torch.float32)


def places(unet):
    """The single file's names, by how many layers this model has in a block."""
    layers = len(unet.down_blocks[0].resnets)
    down = [1 + level * (layers + 1) for level in range(3)]
    up = [level * (layers + 1) for level in range(3)]
    block = lambda kind, at, i, sub, rest: f"{kind}_blocks.{at + i}.{sub}.{rest}"  # noqa: E731
    return {
        name: old
        for name, old in {
            "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q": block("input", down[1], 0, 1, "transformer_blocks.0.attn1.to_q"),
            "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k": block("input", down[1], 0, 1, "transformer_blocks.0.attn2.to_k"),
            "down_blocks.2.attentions.0.proj_in": block("input", down[2], 0, 1, "proj_in"),
            "mid_block.attentions.0.transformer_blocks.0.attn1.to_out.0": "middle_block.1.transformer_blocks.0.attn1.to_out.0",
            "up_blocks.0.attentions.1.transformer_blocks.0.ff.net.2": block("output", up[0], 1, 1, "transformer_blocks.0.ff.net.2"),
            "down_blocks.0.resnets.0.conv1": block("input", down[0], 0, 0, "in_layers.2"),
            "up_blocks.1.upsamplers.0.conv": block("output", up[1], layers, 2, "conv"),
            "conv_in": "input_blocks.0.0",
        }.items()
    }


def factors(name, weight):
    ones = (1,) * (weight.dim() - 2)
    up = randn(name + ".up", weight.shape[0], RANK, *ones) * 0.1
    return up.half(), (randn(name + ".down", RANK, *weight.shape[1:]) * 0.3).half()


def write(pipe):
    ldm, kohya, diffusers = {}, {}, {}
    names = places(pipe.unet)
    modules = [("unet", "lora_unet_", name, pipe.unet.get_submodule(name)) for name in names]
    for number, encoder in ((1, pipe.text_encoder), (2, pipe.text_encoder_2)):
        part = "text_encoder" + ("_2" if number == 2 else "")
        body = getattr(encoder, "text_model", encoder)
        for name in (text.format(layer) for layer in LAYERS[number] for text in TEXT):
            modules.append((part, f"lora_te{number}_", name, body.get_submodule(name.removeprefix("text_model."))))
    for part, prefix, name, module in modules:
        up, down = factors(part + name, module.weight)
        for tensors, spelled in ((ldm, names.get(name, name)), (kohya, name)):
            key = prefix + spelled.replace(".", "_")
            tensors.update({f"{key}.lora_up.weight": up, f"{key}.lora_down.weight": down, f"{key}.alpha": torch.tensor(ALPHA)})
        diffusers.update({f"{part}.{name}.lora_B.weight": (up.float() * (ALPHA / RANK)), f"{part}.{name}.lora_A.weight": down.float()})
    what = "a random LoRA for shapes-xl, rank 2, alpha 3"
    save(FOLDER / "ldm.safetensors", ldm, {"what": what + ", as kohya's scripts name SDXL's modules"})
    save(FOLDER / "kohya.safetensors", kohya, {"what": what + ", as they name modules of diffusers"})
    save(FOLDER / "diffusers.safetensors", diffusers, {"what": what + ", as diffusers names them"})
    return names


def fused(case):
    pipe = pipeline()
    with tempfile.TemporaryDirectory() as folder:  # diffusers wants the file's name to say nothing
        copy = pathlib.Path(folder) / "pytorch_lora_weights.safetensors"
        copy.write_bytes((FOLDER / f"{case}.safetensors").read_bytes())
        pipe.load_lora_weights(folder, weight_name=copy.name, adapter_name="a")
    pipe.set_adapters(["a"], [STRENGTH])
    pipe.fuse_lora(components=["unet", "text_encoder", "text_encoder_2"], adapter_names=["a"])
    pipe.unload_lora_weights()
    return pipe


def rows(pipe, names):
    tensors = {f"unet.{name}.weight": pipe.unet.get_submodule(name).weight[:4] for name in names}
    for number, encoder in ((1, pipe.text_encoder), (2, pipe.text_encoder_2)):
        body = getattr(encoder, "text_model", encoder)
        for name in (text.format(layer) for layer in LAYERS[number] for text in TEXT):
            tensors[f"text{number}.{name}.weight"] = body.get_submodule(name.removeprefix("text_model.")).weight[:4]
    return {key: value.detach().float() for key, value in tensors.items()}


def main():
    plain = pipeline()
    names = write(plain)
    before = rows(plain, names)
    cases = {case: rows(fused(case), names) for case in ("ldm", "kohya", "diffusers")}
    for case, tensors in cases.items():
        for key, value in tensors.items():
            assert not torch.equal(value, before[key]), f"{case}: diffusers leaves {key} as it was"
            assert errors(value, cases["ldm"][key])["rms"] < 1e-6, f"{case}: {key}"
    what = f"shapes-xl with lora_xl/ldm.safetensors at {STRENGTH}, fused by diffusers: 4 rows of each weight; unet.NAME, text1.NAME, text2.NAME"
    save(GOLDEN / "lora_xl.safetensors", cases["ldm"], {**versions(), "what": what})


if __name__ == "__main__":
    main()
