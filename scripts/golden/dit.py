"""tiny-dit.safetensors and dit.safetensors: a DiT (Peebles and Xie 2023) of random weights, and what diffusers computes of it.

The weights are made under the names of the authors' release, which plugins/examples/dit.c reads, and given to diffusers' model
under its names. Three things of it are not diffusers' own but the release's: the sinusoid's frequencies (diffusers divides by 127 where the
release has 128), the norms' eps, and pictures that are smaller. Everything runs in float64, but for the sinusoid's angles, on
weights that are exact in float16.
"""

import math

import diffusers
import torch

from common import GOLDEN, errors, nhwc, randn, random_weight, save, versions

diffusers.utils.logging.set_verbosity_error()

WIDTH, HEADS, DEPTH, PATCH, SIDE, CLASSES, CHANNELS = 24, 2, 2, 2, 4, 10, 4
CFG, STEPS, SEED, LABELS = 4.0, 5, 7, (3, 10)  # 10: no class
SCALE = 0.18215


def shapes():
    yield "x_embedder.proj", (WIDTH, CHANNELS, PATCH, PATCH)
    yield "t_embedder.mlp.0", (WIDTH, 256)
    yield "t_embedder.mlp.2", (WIDTH, WIDTH)
    for i in range(DEPTH):
        yield f"blocks.{i}.attn.qkv", (3 * WIDTH, WIDTH)
        yield f"blocks.{i}.attn.proj", (WIDTH, WIDTH)
        yield f"blocks.{i}.mlp.fc1", (4 * WIDTH, WIDTH)
        yield f"blocks.{i}.mlp.fc2", (WIDTH, 4 * WIDTH)
        yield f"blocks.{i}.adaLN_modulation.1", (6 * WIDTH, WIDTH)
    yield "final_layer.linear", (PATCH * PATCH * 2 * CHANNELS, WIDTH)
    yield "final_layer.adaLN_modulation.1", (2 * WIDTH, WIDTH)


def make_weights():
    from diffusers.models.embeddings import get_2d_sincos_pos_embed

    weights = {}
    for name, shape in shapes():
        weights[f"{name}.weight"] = random_weight(f"dit.{name}.weight", shape)
        weights[f"{name}.bias"] = random_weight(f"dit.{name}.bias", shape[:1])
    weights["y_embedder.embedding_table.weight"] = randn("dit.labels", CLASSES + 1, WIDTH)
    table = get_2d_sincos_pos_embed(WIDTH, SIDE, base_size=SIDE, output_type="pt")
    return {name: value.half() for name, value in weights.items()} | {"pos_embed": table[None].float()}


def diffusers_names(weights):
    """The release's names -> those of DiTTransformer2DModel, which has timestep and label embedders in each block."""
    out = {"pos_embed.pos_embed": weights["pos_embed"]}
    pairs = [("x_embedder.proj", "pos_embed.proj"), ("final_layer.linear", "proj_out_2")]
    pairs += [("final_layer.adaLN_modulation.1", "proj_out_1")]
    for i in range(DEPTH):
        of, to = f"blocks.{i}", f"transformer_blocks.{i}"
        pairs += [("t_embedder.mlp.0", f"{to}.norm1.emb.timestep_embedder.linear_1")]
        pairs += [("t_embedder.mlp.2", f"{to}.norm1.emb.timestep_embedder.linear_2")]
        pairs += [(f"{of}.adaLN_modulation.1", f"{to}.norm1.linear"), (f"{of}.attn.proj", f"{to}.attn1.to_out.0")]
        pairs += [(f"{of}.mlp.fc1", f"{to}.ff.net.0.proj"), (f"{of}.mlp.fc2", f"{to}.ff.net.2")]
        label = "class_embedder.embedding_table.weight"
        out[f"{to}.norm1.emb.{label}"] = weights["y_embedder.embedding_table.weight"]
        for kind in ("weight", "bias"):
            for which, part in zip("qkv", weights[f"{of}.attn.qkv.{kind}"].chunk(3)):
                out[f"{to}.attn1.to_{which}.{kind}"] = part
    for old, new in pairs:
        for kind in ("weight", "bias"):
            out[f"{new}.{kind}"] = weights[f"{old}.{kind}"]
    return out


class Sinusoid(torch.nn.Module):
    def forward(self, times):
        rate = torch.exp(-math.log(10000) * torch.arange(128, dtype=torch.float64) / 128).float()
        angle = (times.float()[:, None] * rate[None]).double()  # rounded, as everywhere
        return torch.cat([angle.cos(), angle.sin()], dim=1)


def load(weights, dtype):
    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=HEADS,
        attention_head_dim=WIDTH // HEADS,
        in_channels=CHANNELS,
        out_channels=2 * CHANNELS,
        num_layers=DEPTH,
        sample_size=SIDE * PATCH,
        patch_size=PATCH,
        num_embeds_ada_norm=CLASSES,
        norm_eps=1e-6,
    )
    state = diffusers_names(weights)
    model.pos_embed.pos_embed = state.pop("pos_embed.pos_embed").float()
    model.load_state_dict(state)
    for block in model.transformer_blocks:
        block.norm1.emb.time_proj = Sinusoid()
    return model.eval().requires_grad_(False).to(dtype)


def run(model, x, times, labels):
    kind = model.dtype
    out = model(x.to(kind), torch.tensor(times, dtype=kind), torch.tensor(labels)).sample
    return out[:, :CHANNELS]


def run_corner(model, x, times, labels):
    """The same of a part of the picture, or a smaller one, of any shape: the positions of the upper left corner."""
    kind, (n, _, height, width) = model.dtype, x.shape
    rows, columns = height // PATCH, width // PATCH
    table = model.pos_embed.pos_embed.reshape(1, SIDE, SIDE, WIDTH)[:, :rows, :columns].reshape(1, -1, WIDTH)
    tokens = model.pos_embed.proj(x.to(kind)).flatten(2).transpose(1, 2) + table
    given = {"timestep": torch.tensor(times, dtype=kind), "class_labels": torch.tensor(labels)}
    for block in model.transformer_blocks:
        tokens = block(tokens, **given)
    c = model.transformer_blocks[0].norm1.emb(*given.values(), hidden_dtype=kind)
    shift, scale = model.proj_out_1(torch.nn.functional.silu(c)).chunk(2, dim=1)
    tokens = model.proj_out_2(model.norm_out(tokens) * (1 + scale[:, None]) + shift[:, None])
    tokens = tokens.reshape(n, rows, columns, PATCH, PATCH, 2 * CHANNELS)
    return torch.einsum("nhwpqc->nchpwq", tokens).reshape(n, -1, height, width)[:, :CHANNELS]


def table():
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64), 0)
    return ((1 - alphas) / alphas) ** 0.5


def sample(model, shape, label, guided=True):
    """Euler over the "simple" schedule, from the noise that a seed draws, to a LATENT as kiln gives it."""
    sigmas = table()
    places = [999 - int(i * 1000 / STEPS) for i in range(STEPS)]
    levels = [float(sigmas[i]) for i in places] + [0.0]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(SEED)).double() * (1 + levels[0] ** 2) ** 0.5
    for i, place in enumerate(places):
        scaled, times = x / (1 + levels[i] ** 2) ** 0.5, [float(place)] * shape[0]
        eps = run(model, scaled, times, [label] * shape[0])
        if guided:
            none = run(model, scaled, times, [CLASSES] * shape[0])
            eps = none + CFG * (eps - none)
        x = x + eps.to(x.dtype) * (levels[i + 1] - levels[i])
    return x / SCALE


def main():
    weights = make_weights()
    save(GOLDEN / "tiny-dit.safetensors", weights, {"num_heads": str(HEADS), "what": "a DiT of random weights"})
    with torch.inference_mode():
        model, single = load(weights, torch.float64), load(weights, torch.float32)
        x = randn("dit.x", 2, CHANNELS, SIDE * PATCH, SIDE * PATCH)
        times = [999.0, 321.5]
        one = run(model, x, times, LABELS)
        assert torch.equal(run_corner(model, x, times, LABELS), one)
        corner = x[:, :, :4, :6]
        whole = sample(model, (2, CHANNELS, SIDE * PATCH, SIDE * PATCH), LABELS[0])
        less = load(weights, torch.float64)
        del less.transformer_blocks[1]
        tensors = {
            "x": nhwc(x),
            "t": torch.tensor(times),
            "labels": torch.tensor(LABELS),
            "one": nhwc(one),
            "corner.x": nhwc(corner),
            "corner": nhwc(run_corner(model, corner, times, LABELS)),
            "sampled": nhwc(whole),
            "left_out": nhwc(sample(less, (1, CHANNELS, SIDE * PATCH, SIDE * PATCH), LABELS[0])),
        }
        noise = {
            "one": errors(run(single, x, times, LABELS), one),
            "sampled": errors(sample(single, (2, CHANNELS, SIDE * PATCH, SIDE * PATCH), LABELS[0]), whole),
        }
    what = (
        "diffusers DiTTransformer2DModel of tiny-dit.safetensors: x [n,h,w,4], t [n], labels [n] -> one [n,h,w,4], the predicted "
        f"noise; corner.x -> corner: the same of a smaller picture; sampled: {STEPS} steps of euler on the schedule simple from seed {SEED}, cfg {CFG}, class {LABELS[0]}; left_out: the "
        "same, one picture, without block 1. noise: torch's own relative error in f32"
    )
    save(GOLDEN / "dit.safetensors", tensors, {**versions(), "layout": "NHWC", "what": what, "noise": noise})
    print(noise)


if __name__ == "__main__":
    main()
