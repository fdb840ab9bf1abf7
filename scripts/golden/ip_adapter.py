"""ip_adapter/ and ip_adapter.safetensors: IP-Adapters on tiny UNets of SD1 and SDXL, from diffusers.

ip_adapter/models/ has a UNet of SDXL's layers in miniature and adapters of each kind under the authors' names; tiny-sd1-l2 is the UNet of SD1, and the
vision encoder is that of tests/strangers/ip_adapter. A case samples with Euler's method and guidance: golden.CASE. What diffusers has (an adapter, two,
Plus, full, another weight) is made by diffusers itself; what only the nodes that people know have (types of weights, masks, combined pictures, other
scalings) by an attention of ours, which equals diffusers' where both can.
"""

import pathlib
import sys

import torch
import torch.nn.functional as F

from common import GOLDEN, ROOT, errors, generator, nhwc, randn, randomise, save, save_json, versions

sys.path.insert(0, str(ROOT / "tests" / "strangers" / "control"))
import reference  # noqa: E402

FOLDER, PROOF = GOLDEN / "ip_adapter", ROOT / "tests" / "strangers" / "ip_adapter"
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
XL = {
    "_class_name": "UNet2DConditionModel",
    "act_fn": "silu",
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "attention_head_dim": [1, 1, 2],
    "block_out_channels": [8, 8, 16],
    "cross_attention_dim": 24,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 2,
    "norm_eps": 1e-05,
    "norm_num_groups": 4,
    "out_channels": 4,
    "projection_class_embeddings_input_dim": 20 + 6 * 8,
    "transformer_layers_per_block": [1, 1, 2],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "use_linear_projection": True,
}
SIZES = {"sd1": (16, 24), "xl": (8, 12)}
SCALE = {"sd1": 0.18215, "xl": 0.13025}  # of latents; what is sampled is this times what is stored
LEVELS, STEP = [12.0, 2.0, 1.0, 0.3, 0.0], [5.0, 0.0]


# ---- models ----


def unet_of(base):
    from diffusers import UNet2DConditionModel

    if base == "sd1":
        return UNet2DConditionModel.from_pretrained(GOLDEN / "tiny-sd1-l2" / "unet", torch_dtype=torch.float32)
    return randomise(UNet2DConditionModel.from_config(XL), 3, torch.float16).float()


def vision():
    from transformers import CLIPVisionModelWithProjection

    return CLIPVisionModelWithProjection.from_pretrained(PROOF / "models" / "clip_vision" / "tiny", dtype=torch.float32).double()


def embeds_projection(name, width, features, tokens=4):
    return {
        "proj.weight": randn(f"{name}.proj", tokens * width, features) / features**0.5,
        "proj.bias": 0.1 * randn(f"{name}.bias", tokens * width),
        "norm.weight": 1 + 0.2 * randn(f"{name}.gamma", width),
        "norm.bias": 0.2 * randn(f"{name}.beta", width),
    }


def full_projection(name, width, features):
    return {
        "proj.0.weight": randn(f"{name}.0", features, features) / features**0.5,
        "proj.0.bias": 0.1 * randn(f"{name}.0b", features),
        "proj.2.weight": randn(f"{name}.2", width, features) / features**0.5,
        "proj.2.bias": 0.1 * randn(f"{name}.2b", width),
        "proj.3.weight": 1 + 0.2 * randn(f"{name}.3", width),
        "proj.3.bias": 0.2 * randn(f"{name}.3b", width),
    }


def plus_projection(name, width, features, dim=20, tokens=5, depth=4, inner=64, hidden=80):
    found = {
        "latents": randn(f"{name}.latents", 1, tokens, dim),
        "proj_in.weight": randn(f"{name}.in", dim, features) / features**0.5,
        "proj_in.bias": 0.1 * randn(f"{name}.inb", dim),
        "proj_out.weight": randn(f"{name}.out", width, dim) / dim**0.5,
        "proj_out.bias": 0.1 * randn(f"{name}.outb", width),
        "norm_out.weight": 1 + 0.2 * randn(f"{name}.norm", width),
        "norm_out.bias": 0.2 * randn(f"{name}.normb", width),
    }
    for i in range(depth):
        shapes = {"0.to_q": (inner, dim), "0.to_kv": (2 * inner, dim), "0.to_out": (dim, inner), "1.1": (hidden, dim), "1.3": (dim, hidden)}
        for part, shape in shapes.items():
            found[f"layers.{i}.{part}.weight"] = randn(f"{name}.{i}.{part}", *shape) / shape[1] ** 0.5
        for part in ("0.norm1", "0.norm2", "1.0"):
            found[f"layers.{i}.{part}.weight"] = 1 + 0.2 * randn(f"{name}.{i}.{part}g", dim)
            found[f"layers.{i}.{part}.bias"] = 0.2 * randn(f"{name}.{i}.{part}b", dim)
    return found


def cross_attentions(unet):
    """diffusers' order, which is that of the files: down, up, middle."""
    return [key.removesuffix(".processor") for key in unet.attn_processors if "attn2" in key]


def write_adapter(name, unet, projection):
    width, number, layers = unet.config.cross_attention_dim, 1, {}
    for key in cross_attentions(unet):
        inner = unet.get_submodule(key).to_q.weight.shape[0]
        for part in ("to_k_ip", "to_v_ip"):
            layers[f"{number}.{part}.weight"] = 1.5 * randn(f"{name}.{number}.{part}", inner, width) / width**0.5
        number += 2
    parts = {"image_proj": {k: v.half() for k, v in projection.items()}, "ip_adapter": {k: v.half() for k, v in layers.items()}}
    save(FOLDER / "models" / "ipadapter" / f"{name}.safetensors", {f"{p}.{k}": v for p in parts for k, v in parts[p].items()})
    return {p: {k: v.double() for k, v in parts[p].items()} for p in parts}


# ---- pictures ----


def picture(name):
    import numpy as np
    from PIL import Image

    return torch.from_numpy(np.asarray(Image.open(PROOF / "input" / name)).astype("float32") / 255)[None]


def prepared(x):
    x = x.permute(0, 3, 1, 2).double()
    h, w = x.shape[2:]
    if (h, w) != (32, 32):
        scale = 32 / min(h, w)
        x = F.interpolate(x, size=(round(scale * h), round(scale * w)), mode="bicubic", antialias=True)
        top, left = (x.shape[2] - 32) // 2, (x.shape[3] - 32) // 2
        x = x[:, :, top : top + 32, left : left + 32]
    x = (255 * x).clip(0, 255).round() / 255
    return (x - torch.tensor(MEAN).double().view(3, 1, 1)) / torch.tensor(STD).double().view(3, 1, 1)


class Adapter:
    """An adapter of a file: what it is shown of a picture, and its tokens by diffusers' own projection."""

    def __init__(self, unet, file):
        self.file, self.plus = file, "proj.weight" not in file["image_proj"]
        self.project = unet._convert_ip_adapter_image_proj_to_diffusers(file["image_proj"], low_cpu_mem_usage=False).double()

    def features(self, encoder, pictures):
        states = [encoder(prepared(p), output_hidden_states=True) for p in pictures]
        return torch.cat([s.hidden_states[-2] if self.plus else s.image_embeds for s in states])

    def nothing(self, encoder, like):
        return self.features(encoder, [torch.zeros(1, 32, 32, 3)]) if self.plus else torch.zeros_like(like[:1])

    def tokens(self, features):
        """[pictures, tokens, width] of features [pictures, ...]."""
        found = self.project(features)
        return found.reshape(features.shape[0], -1, found.shape[-1])


# ---- how the nodes that people know make weights and combine pictures ----


def shares(kind, layers, parts):
    """Of each layer in the order of evaluation: its share of the weight, and whether the sides are exchanged."""
    x = [i / layers for i in range(layers)]
    mid = [abs(i - layers / 2) / (layers / 2) for i in range(layers)]
    style = {"sd1": [0, 1, 2, 3, 9, 10, 11, 12, 13, 14, 15], "xl": [6]}["xl" if layers == 11 else "sd1"]
    composition = {"sd1": {4: 0.25, 5: 1.0}, "xl": {3: 1.0}}["xl" if layers == 11 else "sd1"]
    rest = [i for i in range(layers) if i not in composition]
    weak = lambda part: [0.2 if p == part else 1.0 for p in parts]  # noqa: E731
    chosen = lambda d: [d.get(i, 0.0) for i in range(layers)]  # noqa: E731
    table = {
        "linear": [1.0] * layers,
        "ease in": [0.05 + 0.95 * (1 - v) for v in x],
        "ease out": [0.05 + 0.95 * v for v in x],
        "ease in-out": [0.05 + 0.95 * (1 - v) for v in mid],
        "reverse in-out": [0.05 + 0.95 * v for v in mid],
        "weak input": weak("input"),
        "weak output": weak("output"),
        "weak middle": weak("middle"),
        "strong middle": [1.0 if p == "middle" else 0.2 for p in parts],
        "style transfer": chosen(dict.fromkeys(style, 1.0)),
        "composition": chosen(composition),
        "strong style transfer": chosen(dict.fromkeys(rest, 1.0)),
        "style and composition": chosen({**dict.fromkeys(style, 1.0), **composition}),
        "style transfer precise": chosen({**dict.fromkeys(style, 1.0), **composition}),
        "composition precise": chosen({**dict.fromkeys(rest, 0.1), **dict.fromkeys(style, 1.0), **composition}),
    }
    exchanged = {"style transfer precise": lambda i: i in composition, "composition precise": lambda i: i not in composition}
    return table[kind], [exchanged.get(kind, lambda i: False)(i) for i in range(layers)]


def combine(features, how):
    if how == "concat" or features.shape[0] == 1:
        return features
    return {
        "add": lambda f: f.sum(0),
        "subtract": lambda f: f[0] - f[1:].mean(0),
        "average": lambda f: f.mean(0),
        "norm average": lambda f: (f / f.norm(dim=0, keepdim=True)).mean(0),
    }[how](features)[None]


def attend(heads, q, k, v):
    n = q.shape[0]
    q, k, v = (t.reshape(n, -1, heads, t.shape[-1] // heads).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Seen:
    """Cross-attention with image tokens beside it: what is beside is a list of uses, each with the side's tokens."""

    def __init__(self, sampler, number, layer, grid):
        self.sampler, self.number, self.layer, self.grid = sampler, number, layer, grid

    def one(self, use, heads, q, width):
        share, exchanged = use["shares"][0][self.layer], use["shares"][1][self.layer]
        weight = use["weight"] * share
        if weight == 0 or not use["acts"]:
            return 0
        side = self.sampler.side
        tokens = use["tokens"][side != exchanged] if not exchanged else (use["tokens"][True] if not side else torch.zeros_like(use["tokens"][True]))
        n = q.shape[0]
        k, v = (tokens @ use["file"]["ip_adapter"][f"{self.number}.{part}.weight"].T for part in ("to_k_ip", "to_v_ip"))
        scaling = use.get("scaling", "V only")
        if scaling != "V only":
            weight = weight * (width / 1280 if "penalty" in scaling else 1)
            k, mean = k * weight, v.mean(1, keepdim=True)
            v = v - mean + mean * weight if "mean" in scaling else v * weight
        k, v = (t.reshape(1, -1, t.shape[-1]).expand(n, -1, -1) for t in (k, v))
        out = attend(heads, q, k, v) * (weight if scaling == "V only" else 1)
        mask = use.get("mask")
        if mask is not None:
            cells = self.grid[q.shape[1]]
            mask = F.interpolate(mask[:, None].double(), size=cells, mode="bilinear")[:, 0].flatten(1)[..., None]
            mask = torch.cat([mask, mask[-1:].expand(n, -1, -1)])[:n]
            out = out * mask
        return out

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None, **_):
        q, k, v = attn.to_q(hidden_states), attn.to_k(encoder_hidden_states), attn.to_v(encoder_hidden_states)
        out = attend(attn.heads, q, k, v)
        for use in self.sampler.uses:
            out = out + self.one(use, attn.heads, q, q.shape[-1])
        return attn.to_out[0](out)


def layer_of(unet, key):
    """Number in the order of evaluation of the block with cross-attention that this attention is in, and which part it is of."""
    blocks = []
    for name in sorted(cross_attentions(unet), key=lambda n: ("down", "mid_", "up_b").index(n.split("_blocks")[0][:4] if not n.startswith("up") else "up_b")):
        block = name.split(".transformer_blocks")[0]
        if block not in blocks:
            blocks.append(block)
    part = {"d": "input", "m": "middle", "u": "output"}
    mine = key.split(".transformer_blocks")[0]
    return blocks.index(mine), [part[b[0]] for b in blocks]


class Sampler:
    """A UNet with uses of adapters; a model for reference.euler()."""

    def __init__(self, base, encoder, adapters, uses):
        self.base, self.unet, self.uses, self.side = base, unet_of(base).double(), uses, True
        h, w = SIZES[base]
        grid = {(h >> i) * (w >> i): (h >> i, w >> i) for i in range(4)}
        keys = cross_attentions(self.unet)
        for i, key in enumerate(keys):
            layer, self.parts = layer_of(self.unet, key)
            self.unet.get_submodule(key).processor = Seen(self, 2 * i + 1, layer, grid)
        for use in uses:
            self.prepare(use, encoder, adapters)

    def prepare(self, use, encoder, adapters):
        adapter = adapters[use["name"]]
        positive = adapter.features(encoder, use["images"])
        negative = adapter.features(encoder, use["negative"]) if "negative" in use else adapter.nothing(encoder, positive)
        positive = combine(positive, use.get("combine", "concat"))
        negative = torch.cat([negative, negative[-1:].expand(len(positive), *negative.shape[1:])])[: len(positive)]
        use.update(file=adapter.file, tokens={True: adapter.tokens(positive), False: adapter.tokens(negative)}, acts=True)
        use["shares"] = shares(use.get("type", "linear"), len(self.parts), self.parts)

    def __call__(self, x, sigma, given):
        tokens, pooled, self.side = given
        for use in self.uses:
            start, end = use.get("range", (0, 1))
            use["acts"] = reference.sigma_at_percent(end) <= sigma and (start == 0 or sigma <= reference.sigma_at_percent(start)) if (start, end) != (0, 1) else True
        n, extra = x.shape[0], {}
        if self.base == "xl":
            h, w = (8 * s for s in SIZES["xl"])
            extra["added_cond_kwargs"] = {"text_embeds": pooled.expand(n, -1), "time_ids": torch.tensor([[h, w, 0, 0, h, w]]).double().expand(n, -1)}
        return self.unet(reference.scaled(x, sigma), reference.timestep(sigma), tokens.expand(n, -1, -1), **extra).sample


class Diffusers:
    """The same by diffusers alone: uses of one weight each."""

    def __init__(self, base, encoder, adapters, uses):
        self.base, self.unet, self.uses = base, unet_of(base).double(), uses
        self.unet._load_ip_adapter_weights([adapters[u["name"]].file for u in uses], low_cpu_mem_usage=False)
        self.unet = self.unet.double()
        self.embeds = {True: [], False: []}
        for use in uses:
            adapter = adapters[use["name"]]
            positive = adapter.features(encoder, use["images"])
            for side, found in ((True, positive), (False, adapter.nothing(encoder, positive))):
                self.embeds[side].append(found.expand(len(positive), *found.shape[1:])[None])
        for processor in self.unet.attn_processors.values():
            if hasattr(processor, "to_k_ip"):
                processor.scale = [u["weight"] for u in uses]

    def __call__(self, x, sigma, given):
        tokens, pooled, side = given
        n = x.shape[0]
        extra = {"image_embeds": [e.expand(n, *e.shape[1:]) for e in self.embeds[side]]}
        if self.base == "xl":
            h, w = (8 * s for s in SIZES["xl"])
            extra.update(text_embeds=pooled.expand(n, -1), time_ids=torch.tensor([[h, w, 0, 0, h, w]]).double().expand(n, -1))
        return self.unet(reference.scaled(x, sigma), reference.timestep(sigma), tokens.expand(n, -1, -1), added_cond_kwargs=extra).sample


# ---- cases ----


def cases(small, wide, mask, masks):
    """NAME: (base, uses, levels, pictures, made by diffusers)."""
    use = lambda name, weight=0.8, images=(small,), **more: dict(name=name, weight=weight, images=list(images), **more)  # noqa: E731
    found = {}
    for base in ("sd1", "xl"):
        found[f"{base}_none"] = (base, [], STEP, 1, False)
        for kind in ("", "_plus", "_full"):
            found[f"{base}{kind}_step"] = (base, [use(base + kind, images=(wide,))], STEP, 1, True)
        found[f"{base}_way"] = (base, [use(base)], LEVELS, 1, True)
        found[f"{base}_weaker"] = (base, [use(base, 0.3)], LEVELS, 1, True)
        found[f"{base}_stacked"] = (base, [use(base), use(f"{base}_plus", 0.5, (wide,))], LEVELS, 1, True)
        found[f"{base}_range"] = (base, [use(base, range=(0.2, 0.7))], LEVELS, 1, False)
        found[f"{base}_pair"] = (base, [use(base)], STEP, 2, True)
        found[f"{base}_concat"] = (base, [use(base, images=(small, 1 - small))], STEP, 1, True)
        found[f"{base}_plus_concat"] = (base, [use(f"{base}_plus", images=(small, 1 - small))], STEP, 1, True)
        found[f"{base}_mask"] = (base, [use(base, mask=mask)], STEP, 1, False)
        found[f"{base}_masks"] = (base, [use(base, mask=masks)], STEP, 2, False)
        found[f"{base}_negative"] = (base, [use(base, negative=[wide])], STEP, 1, False)
        found[f"{base}_plus_negative"] = (base, [use(f"{base}_plus", negative=[wide])], STEP, 1, False)
        kinds = ["ease in", "ease out", "ease in-out", "reverse in-out", "weak input", "weak output", "weak middle", "strong middle"]
        kinds += ["style transfer", "composition", "strong style transfer", "style and composition", "style transfer precise", "composition precise"]
        for kind in kinds:
            found[f"{base}_{kind.replace(' ', '_').replace('-', '_')}"] = (base, [use(base, type=kind)], STEP, 1, False)
    for how in ("add", "subtract", "average", "norm average"):
        found[f"sd1_{how.replace(' ', '_')}"] = ("sd1", [use("sd1", images=(small, 1 - small), combine=how)], STEP, 1, False)
        found[f"sd1_plus_{how.replace(' ', '_')}"] = ("sd1", [use("sd1_plus", images=(small, 1 - small), combine=how)], STEP, 1, False)
    for name, how in (("kv", "K+V"), ("kv_c", "K+V w/ C penalty"), ("mean", "K+mean(V) w/ C penalty")):
        found[f"sd1_{name}"] = ("sd1", [use("sd1", 1.5, (small, 1 - small), scaling=how)], STEP, 1, False)
    return found


def main():
    encoder, adapters, tensors = vision(), {}, {}
    for base in ("sd1", "xl"):
        unet = unet_of(base)
        width = unet.config.cross_attention_dim
        for kind, make in (("", embeds_projection), ("_plus", plus_projection), ("_full", full_projection)):
            name = base + kind
            adapters[name] = Adapter(unet, write_adapter(name, unet, make(name, width, 16 if kind else 12)))
        if base == "xl":
            folder = FOLDER / "models" / "diffusion_models" / "tiny-xl"
            save_json(folder / "config.json", XL)
            save(folder / "diffusion_pytorch_model.safetensors", {k: v.half() for k, v in unet.state_dict().items()})
        h, w = SIZES[base]
        for n in (1, 2):
            tensors[f"{base}.x{n}"] = 5 * randn(f"ip.{base}.x{n}", n, h, w, 4) / SCALE[base]
        for side in ("positive", "negative"):
            tensors[f"{base}.{side}"] = randn(f"ip.{base}.{side}", 1, 6, width)
            tensors[f"{base}.{side}.pooled"] = randn(f"ip.{base}.{side}.pooled", 1, 20)
    small, wide = picture("small.png"), picture("wide.png")
    tensors["mask"] = mask = torch.rand(1, 40, 64, generator=generator("ip.mask"))
    tensors["masks"] = masks = torch.rand(2, 40, 64, generator=generator("ip.masks"))
    with torch.inference_mode():
        for name, (base, uses, levels, n, by_diffusers) in cases(small, wide, mask, masks).items():
            x = tensors[f"{base}.x{n}"].permute(0, 3, 1, 2).double() * SCALE[base]
            sides = [(tensors[f"{base}.{s}"].double(), tensors[f"{base}.{s}.pooled"].double(), s == "positive") for s in ("positive", "negative")]
            out = reference.euler(Sampler(base, encoder, adapters, uses), x, levels, sides)
            if by_diffusers:
                ours, out = out, reference.euler(Diffusers(base, encoder, adapters, uses), x, levels, sides)
                assert errors(ours, out)["max"] < 1e-6, (name, errors(ours, out))
            tensors[f"golden.{name}"] = nhwc(out) / SCALE[base]
            plain = tensors[f"golden.{base}_none"]
            if uses and n == 1 and levels is STEP:
                assert (tensors[f"golden.{name}"] - plain).abs().max() / plain.abs().max() > 1e-3, (name, "a golden that the plain model would pass for")
    what = f"golden.CASE: Euler over {LEVELS} or {STEP} from x1 or x2, cfg {reference.CFG}; scripts/golden/ip_adapter.py has the cases"
    save(GOLDEN / "ip_adapter.safetensors", tensors, {**versions(), "layout": "NHWC", "what": what})


if __name__ == "__main__":
    main()
