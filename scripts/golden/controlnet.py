"""controlnets/ and controlnets.safetensors: every kind of ControlNet of the Stable Diffusion family in miniature, from diffusers.

controlnets/KIND/config.json is its configuration, controlnets/names.txt.gz its tensors' names and shapes; the weights are the
formula's of unet_kinds.py. The goldens are one evaluation of two pictures: KIND.x, .t, .context, .pooled, .numbers and the hint that
all share -> KIND.out.I, the result for skip I, and KIND.middle, pictures NHWC.
"""

import gzip
import sys

import torch

import unet_kinds
from common import GOLDEN, ROOT, errors, generator, nhwc, randn, save, save_json, versions

sys.path.insert(0, str(ROOT / "scripts"))

import to_single_file  # noqa: E402

FOLDER = GOLDEN / "controlnets"
HINT = [8, 8, 12, 16]


def of_unet(unet, **changes):
    """The part of a UNet's configuration that a ControlNet has."""
    dropped = ("out_channels", "up_block_types", "reverse_transformer_layers_per_block")
    return {**{k: v for k, v in unet.items() if k not in dropped}, "conditioning_embedding_out_channels": HINT, **changes}


SDXL = of_unet(unet_kinds.SDXL)
KINDS = {
    "sd1": of_unet(unet_kinds.SD1),
    "sd2": of_unet(unet_kinds.SD2),
    "sdxl": SDXL,
    "small": dict(SDXL, down_block_types=["DownBlock2D"] * 3, mid_block_type="UNetMidBlock2D", transformer_layers_per_block=1),
    "shuffle": of_unet(unet_kinds.SD1, controlnet_conditioning_channel_order="bgr", global_pool_conditions=True),
    "union": dict(SDXL, num_control_type=6, num_trans_channel=64, num_trans_head=4, num_trans_layer=2, num_proj_channel=64),
}
# Small, as the timesteps are: diffusers' sinusoids are f32 in a run in f64 too, and those of numbers near 1000 are off by 6e-5.
SIZES = [[104.0, 152.0, 4.0, 8.0, 80.0, 64.0], [128.0, 128.0, 0.0, 0.0, 128.0, 128.0]]
TYPE, RANK = 3, 4  # canny; of the Control-LoRA


def make(kind):
    from diffusers import ControlNetModel, ControlNetUnionModel

    net = (ControlNetUnionModel if kind == "union" else ControlNetModel)(**KINDS[kind])
    net.load_state_dict({name: unet_kinds.numbers(kind, name, tuple(tensor.shape)) for name, tensor in net.state_dict().items()})
    return net.eval().requires_grad_(False)


def untyped(union):
    """The Union as ComfyUI runs it when nobody has said what the hint is: an ordinary ControlNet that is told of no kind."""
    from diffusers import ControlNetModel

    net = ControlNetModel(**SDXL)
    net.load_state_dict({name: tensor for name, tensor in union.state_dict().items() if name in net.state_dict()})
    net = net.to(union.dtype).eval().requires_grad_(False)

    def add(_module, _inputs, out):
        none = union.control_type_proj(torch.zeros(6)).to(out.dtype).reshape(1, -1)
        return out + union.to(out.dtype).control_add_embedding(none)

    net.time_embedding.register_forward_hook(add)
    return net


def cldm_name(name):
    """The ControlNet source's name of a tensor of SDXL."""
    layers = 2 * len(HINT) - 2
    for old, new in (
        ("controlnet_mid_block.", "middle_block_out.0."),
        ("controlnet_cond_embedding.conv_in.", "input_hint_block.0."),
        ("controlnet_cond_embedding.conv_out.", f"input_hint_block.{2 * layers + 2}."),
    ):
        if name.startswith(old):
            return new + name[len(old) :]
    if name.startswith("controlnet_cond_embedding.blocks."):
        _, _, number, end = name.split(".")
        return f"input_hint_block.{2 * int(number) + 2}.{end}"
    if name.startswith("controlnet_down_blocks."):
        _, number, end = name.split(".")
        return f"zero_convs.{number}.0.{end}"
    return to_single_file.unet_name(name, unet_kinds.SDXL).removeprefix("model.diffusion_model.")


def control_lora():
    """A Control-LoRA over the "base" of unet_kinds.py: what it is as a ControlNet, and the lines of its file. Its numbers are the formula's
    of its own names."""
    from diffusers import ControlNetModel

    net, state, file = ControlNetModel(**SDXL).eval().requires_grad_(False), {}, {"lora_controlnet": (1,)}
    for name, tensor in net.state_dict().items():
        shape, own = tuple(tensor.shape), cldm_name(name)
        if name.startswith("controlnet_") or len(shape) == 1:
            file[own], state[name] = shape, unet_kinds.numbers("lora", own, shape)
            continue
        stem, ones = own.removesuffix(".weight"), (1,) * (len(shape) - 2)
        up, down = (shape[0], RANK, *ones), (RANK, *shape[1:])
        file[stem + ".up"], file[stem + ".down"] = up, down
        product = unet_kinds.numbers("lora", stem + ".up", up).double().flatten(1) @ unet_kinds.numbers("lora", stem + ".down", down).double().flatten(1)
        state[name] = unet_kinds.numbers("base", name, shape) + product.reshape(shape)
    net.double().load_state_dict(state)
    return net, ["kind lora", *(f"{name} {' '.join(map(str, shape))}" for name, shape in sorted(file.items()))]


def inputs(kind, net):
    context = net.config.cross_attention_dim
    kept = {"x": randn(f"{kind}.x", 2, 4, 3, 5), "t": torch.tensor([199.0, 37.25]), "context": randn(f"{kind}.context", 2, 4, context)}
    if net.config.addition_embed_type:
        kept["numbers"] = torch.tensor(SIZES)
        kept["pooled"] = randn(f"{kind}.pooled", 2, net.config.projection_class_embeddings_input_dim - 6 * 256)
    return kept


def run(net, given, hint):
    kind = net.dtype
    more = {"conditioning_scale": 1.0, "return_dict": False}
    if "pooled" in given:
        more["added_cond_kwargs"] = {"text_embeds": given["pooled"].to(kind), "time_ids": given["numbers"].to(kind)}
    if hasattr(net, "task_embedding"):
        kinds = torch.zeros(2, 6, dtype=kind)
        kinds[:, TYPE] = 1
        more.update(control_type=kinds, control_type_idx=[TYPE])
        hint = [hint]
    hint = [h.to(kind) for h in hint] if isinstance(hint, list) else hint.to(kind)
    down, middle = net(given["x"].to(kind), given["t"].to(kind), given["context"].to(kind), hint, **more)
    return [*down, middle]


def goldens(kind, net, hint, given):
    # all pictures of a Union have one hint: diffusers lets the tokens of a batch attend to one another
    hint = hint[:1].repeat(2, 1, 1, 1) if kind.startswith("union") else hint
    out = run(net.double(), given, hint)
    single = run(net.float(), given, hint)
    tensors = {f"{kind}.out.{i}": nhwc(v) for i, v in enumerate(out[:-1])}
    return {**tensors, f"{kind}.middle": nhwc(out[-1])}, max((errors(a, b) for a, b in zip(single, out)), key=lambda e: e["max"])


def main():
    hint = torch.rand(2, 3, 24, 40, generator=generator("controlnets.hint"))
    tensors, noise, lines = {"hint": nhwc(hint)}, {}, []
    for kind, config in KINDS.items():
        net = make(kind)
        given = inputs(kind, net)
        made, noise[kind] = goldens(kind, net, hint, given)
        tensors.update(made)
        tensors.update({f"{kind}.{name}": nhwc(v) if v.dim() == 4 else v for name, v in given.items()})
        lines += [f"kind {kind}", *(f"{name} {' '.join(map(str, tensor.shape))}" for name, tensor in net.state_dict().items())]
        save_json(FOLDER / kind / "config.json", dict(config, _class_name=type(net).__name__))
        if kind == "union":
            made, noise["untyped"] = goldens("union.untyped", untyped(net), hint, given)
            tensors.update(made)
    net, more = control_lora()
    given = inputs("sdxl", net)
    made, noise["lora"] = goldens("lora", net, hint, given)
    tensors.update(made)
    lines += more
    with gzip.GzipFile(FOLDER / "names.txt.gz", "wb", mtime=0) as out:
        out.write(("\n".join(lines) + "\n").encode())
    what = "diffusers ControlNetModel and ControlNetUnionModel of controlnets/KIND; see scripts/golden/controlnet.py; no scaling of x"
    save(GOLDEN / "controlnets.safetensors", tensors, {**versions(), "layout": "NHWC", "what": what, "noise_f32": noise})


if __name__ == "__main__":
    main()
