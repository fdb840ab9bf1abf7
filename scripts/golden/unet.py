"""timestep.safetensors, unet.safetensors, unet_l2.safetensors and unet_blocks.safetensors from diffusers.

Blocks are submodules of the two tiny UNets, recorded while a whole UNet runs: NAME.in.* is what a block was
given, NAME.out what it gave, NAME being its prefix in the weights file. Pictures are NHWC.
"""

import copy

import torch

import tiny
from common import GOLDEN, errors, nhwc, randn, save, versions

TIMES = [0, 1, 2, 0.5, 37.25, 250, 499.75, 500, 998.3, 999]

# file, latent height and width, batch, one timestep for each picture of the batch
WHOLE = {
    "even": (16, 24, [999.0, 37.25]),
    "square": (8, 8, [0.0]),
    "odd": (9, 13, [500.0]),
}
BLOCKS = [
    "time_embedding",
    "down_blocks.0",
    "down_blocks.0.resnets.0",
    "down_blocks.0.attentions.0",
    "down_blocks.0.attentions.0.transformer_blocks.0",
    "down_blocks.0.downsamplers.0",
    "down_blocks.2",
    "down_blocks.2.resnets.0",
    "down_blocks.3",
    "mid_block",
    "up_blocks.0",
    "up_blocks.0.upsamplers.0",
    "up_blocks.1",
    "up_blocks.2.resnets.0",
    "up_blocks.3",
    "up_blocks.3.attentions.1",
]
BLOCKS_L2 = ["down_blocks.1", "down_blocks.3", "mid_block", "up_blocks.0", "up_blocks.2"]


def load(folder, dtype=torch.float64):
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel.from_pretrained(folder / "unet").eval().requires_grad_(False).to(dtype)


def run(unet, x, times, context):
    kind = unet.dtype
    return unet(x.to(kind), torch.tensor(times).to(x.device), encoder_hidden_states=context.to(kind)).sample


def inputs(name, height, width, batch):
    x = randn(f"{name}.x", batch, 4, height, width)
    return x, randn(f"{name}.context", batch, 77, tiny.TEXT_WIDTH)


def noises(unet, x, times, context, want):
    single, half = copy.deepcopy(unet).float(), copy.deepcopy(unet).bfloat16()
    return {
        "f32": errors(run(single, x, times, context), want),
        "bf16": errors(run(half, x, times, context), want),
    }


def write_whole(unet, folder, name, cases):
    tensors, noise = {}, {}
    for case in cases:
        height, width, times = WHOLE[case]
        x, context = inputs(case, height, width, len(times))
        out = run(unet, x, times, context)
        noise[case] = noises(unet, x, times, context, out)
        tensors.update(
            {f"{case}.x": nhwc(x), f"{case}.context": context, f"{case}.t": torch.tensor(times), f"{case}.out": nhwc(out)}
        )
    what = (
        f"diffusers UNet2DConditionModel of {folder.name}: CASE.x [n,h,w,4], CASE.t [n], CASE.context [n,77,width] -> "
        "CASE.out [n,h,w,4]; no scaling of x. noise: torch's own relative error in f32 and bf16"
    )
    save(GOLDEN / name, tensors, {**versions(), "layout": "NHWC", "what": what, "noise": noise})


def flatten(prefix, value, into):
    """Tensors of nested arguments and results, named by argument or position."""
    if torch.is_tensor(value) and value.is_floating_point():
        into[prefix] = nhwc(value).clone()
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            flatten(f"{prefix}.{index}", item, into)
    elif isinstance(value, dict):
        for key, item in value.items():
            flatten(f"{prefix}.{key}", item, into)


ALIASES = {
    "args.0": "x",
    "args.1": "temb",
    "kwargs.hidden_states": "x",
    "kwargs.input_tensor": "x",
    "kwargs.temb": "temb",
    "kwargs.encoder_hidden_states": "context",
    "kwargs.res_hidden_states_tuple": "skip",
    "kwargs.norm_hidden_states": "x",
}


def alias(name):
    for long, short in ALIASES.items():
        if name == long or name.startswith(long + "."):
            return short + name[len(long) :]
    return name


def record(module, names, call):
    """Run call() and give {NAME.in.*: ..., NAME.out*: ...} of the submodules in names."""
    tensors, hooks = {}, []

    def hook(name):
        def keep(_, args, kwargs, output):
            given = {}
            flatten("args", args, given)
            flatten("kwargs", kwargs, given)
            tensors.update({f"{name}.in.{alias(key)}": value for key, value in given.items()})
            flatten(f"{name}.out", output, tensors)

        return keep

    for name in names:
        hooks.append(module.get_submodule(name).register_forward_hook(hook(name), with_kwargs=True))
    call()
    for handle in hooks:
        handle.remove()
    return tensors


def wide_mid_block(unet):
    """The middle block on 9x9 positions: inside the small run it would see a handful."""
    x = randn("mid_block.x", 1, unet.config.block_out_channels[-1], 9, 9).double()
    temb = randn("mid_block.temb", 1, 4 * unet.config.block_out_channels[0]).double()
    context = randn("mid_block.context", 1, 16, tiny.TEXT_WIDTH).double()
    return record(unet, ["mid_block"], lambda: unet.mid_block(x, temb, encoder_hidden_states=context))


def write_blocks(unet, folder, name, blocks, height, width):
    x, context = inputs(f"blocks.{folder.name}", height, width, 1)
    context = context[:, :16]
    tensors = record(unet, blocks, lambda: run(unet, x, [321.5], context))
    tensors.update(wide_mid_block(unet))
    single_unet = copy.deepcopy(unet).float()
    single = record(single_unet, blocks, lambda: run(single_unet, x, [321.5], context))
    noise = {
        key: errors(single[key], value)["max"] for key, value in tensors.items() if key.endswith(".out") and key != "mid_block.out"
    }
    what = (
        f"submodules of diffusers UNet2DConditionModel of {folder.name} inside one run: BLOCK.in.x, .in.temb (after the time "
        "MLP, before silu), .in.context, .in.skip.N (N rising as stored; the last is used first), BLOCK.out, and BLOCK.out.0 "
        "with BLOCK.out.1.N the skips that a down block hands over. transformer_blocks take and give [n, positions, channels]"
    )
    save(GOLDEN / name, tensors, {**versions(), "layout": "NHWC", "what": what, "noise_f32_accumulated": noise})


def write_timestep(unet):
    from diffusers.models.embeddings import get_timestep_embedding

    times, width = torch.tensor(TIMES, dtype=torch.float64), 320
    rate = torch.exp(-torch.log(torch.tensor(10000.0, dtype=torch.float64)) * torch.arange(width // 2) / (width // 2))
    angle = times[:, None] * rate[None]
    exact = torch.cat([angle.cos(), angle.sin()], dim=1)
    single = get_timestep_embedding(times.float(), width, flip_sin_to_cos=True, downscale_freq_shift=0)
    small = get_timestep_embedding(times.float(), tiny.UNET["block_out_channels"][0], flip_sin_to_cos=True, downscale_freq_shift=0)
    tensors = {
        "t": times,
        "embedding_exact": exact,
        "embedding_f32": single,
        "mlp.x": small,
        "mlp.out": unet.time_embedding(small.double()),
    }
    meta = {
        **versions(),
        "what": "t [n] -> [cos, sin] of t*10000^(-i/160), i=0..159: embedding_exact in float64, embedding_f32 as diffusers "
        "computes it (its angles are float32, hence the difference). mlp.x [n,8] -> mlp.out: time_embedding of tiny-sd1 "
        "(linear_1, silu, linear_2)",
        "noise_f32": errors(single, exact)["max"],
    }
    save(GOLDEN / "timestep.safetensors", tensors, meta)


def main():
    unet, deep = load(tiny.FOLDER), load(tiny.FOLDER_L2)
    write_timestep(unet)
    write_whole(unet, tiny.FOLDER, "unet.safetensors", ["even", "square", "odd"])
    write_whole(deep, tiny.FOLDER_L2, "unet_l2.safetensors", ["even"])
    write_blocks(unet, tiny.FOLDER, "unet_blocks.safetensors", BLOCKS, 10, 12)
    write_blocks(deep, tiny.FOLDER_L2, "unet_blocks_l2.safetensors", BLOCKS_L2, 8, 16)


if __name__ == "__main__":
    main()
