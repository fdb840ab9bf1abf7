"""The tiny CLIP vision encoder, two IP-Adapters, and the goldens of this proof, from transformers and diffusers, around control/'s tiny UNet.

Everything is computed in float64 and rounded once. What diffusers has no class for (attention replaced, further keys and values, a block left out)
is its own UNet with a module's forward exchanged.
"""

import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "control"))

import reference  # noqa: E402
from reference import CONTEXT, SIGMAS, euler, nhwc, randn, sigma_at_percent  # noqa: E402

MODELS = FOLDER / "models"
VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
    "projection_dim": 12,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-05,
    "num_channels": 3,
    "architectures": ["CLIPVisionModelWithProjection"],
    "model_type": "clip_vision_model",
}
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
TOKENS = 4
HEIGHT, WIDTH = 8, 12
LEVELS = SIGMAS[:1] + SIGMAS[2:]  # four steps


# ---- the vision encoder ----


def write_vision():
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    config = CLIPVisionConfig(**{k: v for k, v in VISION.items() if k not in ("architectures", "model_type")})
    model = reference.randomise(CLIPVisionModelWithProjection(config), 5, torch.float16)
    folder = MODELS / "clip_vision" / "tiny"
    reference.save_config(folder / "config.json", VISION)
    reference.save_config(folder / "preprocessor_config.json", {"crop_size": 32, "image_mean": MEAN, "image_std": STD})
    tensors = {k: v.half() for k, v in model.state_dict().items() if "position_ids" not in k}
    reference.save(folder / "model.safetensors", tensors)
    return model.double()


def picture(name, height, width, colours):
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    for i, colour in enumerate(colours):
        y, x = (5 + 11 * i) % height, (3 + 17 * i) % width
        pixels[y : y + height // 2, x : x + width // 3] = colour
    (FOLDER / "input").mkdir(exist_ok=True)
    Image.fromarray(pixels).save(FOLDER / "input" / name, optimize=True)
    check_preprocessing(pixels)
    return torch.from_numpy(pixels.astype(np.float32) / 255).permute(2, 0, 1)[None].double()


def preprocessed(x):
    """CLIPImageProcessor's steps on numbers instead of bytes: the short side to 32 (bicubic, antialiased), the middle 32 x 32, normalised."""
    h, w = x.shape[2:]
    short = min(h, w)
    size = (32 * h // short, 32 * w // short)
    if size != (h, w):  # columns first; bytes cannot leave 0..1 in between either
        x = F.interpolate(x, size=(h, size[1]), mode="bicubic", antialias=True).clamp(0, 1)
        x = F.interpolate(x, size=size, mode="bicubic", antialias=True).clamp(0, 1)
    top, left = (size[0] - 32) // 2, (size[1] - 32) // 2
    x = x[:, :, top : top + 32, left : left + 32]
    return (x - torch.tensor(MEAN).view(3, 1, 1).double()) / torch.tensor(STD).view(3, 1, 1).double()


def check_preprocessing(pixels):
    """transformers' own processor rounds what it scales to bytes: within one and a half of them of ours."""
    from transformers import CLIPImageProcessor

    processor = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, image_mean=MEAN, image_std=STD)
    theirs = processor(Image.fromarray(pixels), return_tensors="pt")["pixel_values"].double()
    ours = preprocessed(torch.from_numpy(pixels.astype(np.float32) / 255).permute(2, 0, 1)[None].double())
    assert (theirs - ours).abs().max() < 1.5 / 255 / min(STD), (theirs - ours).abs().max()


# ---- IP-Adapters ----


def write_adapter(name, unet, seed):
    """A file as IP-Adapter's authors lay it out: image_proj.*, and ip_adapter.N.* for each cross-attention in diffusers' order (down, up, middle)."""
    proj = {
        "proj.weight": randn(f"{name}.proj", TOKENS * CONTEXT, VISION["projection_dim"], seed=seed) / VISION["projection_dim"] ** 0.5,
        "proj.bias": 0.1 * randn(f"{name}.bias", TOKENS * CONTEXT, seed=seed),
        "norm.weight": 1 + 0.2 * randn(f"{name}.gamma", CONTEXT, seed=seed),
        "norm.bias": 0.2 * randn(f"{name}.beta", CONTEXT, seed=seed),
    }
    attention, number = {}, 1
    for key in unet.attn_processors:
        if "attn2" not in key:
            continue
        width = unet.get_submodule(key.removesuffix(".processor")).to_q.weight.shape[0]
        for part in ("to_k_ip", "to_v_ip"):
            attention[f"{number}.{part}.weight"] = randn(f"{name}.{number}.{part}", width, CONTEXT, seed=seed) / CONTEXT**0.5
        number += 2
    parts = {"image_proj": {k: v.half() for k, v in proj.items()}, "ip_adapter": {k: v.half() for k, v in attention.items()}}
    reference.save(MODELS / "ipadapter" / f"{name}.safetensors", {f"{p}.{k}": v for p in parts for k, v in parts[p].items()})
    return {p: {k: v.double() for k, v in parts[p].items()} for p in parts}


class Adapted:
    """diffusers' UNet with IP-Adapters and the pictures' embeddings; the negative side has embeddings of zeros."""

    def __init__(self, adapters, embeds, scales, start=0, end=1):
        self.unet = reference.tiny_unet().double()
        self.unet._load_ip_adapter_weights(adapters)
        self.unet = self.unet.double()
        self.embeds, self.scales, self.range = embeds, scales, (start, end)

    def set_scales(self, sigma):
        start, end = self.range
        acts = sigma_at_percent(end) <= sigma and (start == 0 or sigma <= sigma_at_percent(start))
        for processor in self.unet.attn_processors.values():
            if hasattr(processor, "to_k_ip"):
                processor.scale = [s if acts else 0 for s in self.scales]

    def __call__(self, x, sigma, given):
        tokens, conditional = given
        self.set_scales(sigma)
        n = x.shape[0]
        embeds = [e if conditional else torch.zeros_like(e) for e in self.embeds]
        embeds = [e.repeat(n // e.shape[0], 1)[:, None] for e in embeds]
        return self.unet(
            reference.scaled(x, sigma), reference.timestep(sigma), tokens.expand(n, -1, -1), added_cond_kwargs={"image_embeds": embeds}
        ).sample


class Together(Adapted):
    """An IP-Adapter under control/'s ControlNet, over its LoRA."""

    def __init__(self, adapter, embeds, hint):
        from diffusers import ControlNetModel
        from safetensors.torch import load_file

        super().__init__([adapter], [embeds], [0.7])
        models = FOLDER.parent / "control" / "models"
        lora = load_file(models / "loras" / "tiny.safetensors")
        for key in lora:
            if "lora_A" in key:
                up, down = lora[key.replace("lora_A", "lora_B")].double(), lora[key].double()
                self.unet.get_submodule(key.removeprefix("unet.").removesuffix(".lora_A.weight")).weight.data += 0.5 * up @ down
        self.net, self.hint = ControlNetModel.from_pretrained(models / "controlnet" / "tiny").double(), hint

    def __call__(self, x, sigma, given):
        tokens, conditional = given
        self.set_scales(sigma)
        t, scaled = reference.timestep(sigma), reference.scaled(x, sigma)
        down, middle = self.net(scaled, t, tokens, self.hint, conditioning_scale=0.8, return_dict=False)
        embeds = [(e if conditional else torch.zeros_like(e))[:, None] for e in self.embeds]
        return self.unet(
            scaled,
            t,
            tokens,
            added_cond_kwargs={"image_embeds": embeds},
            down_block_additional_residuals=down,
            mid_block_additional_residual=middle,
        ).sample


# ---- other hooks: the plain UNet with something exchanged ----


class Changed:
    def __init__(self, change=None):
        self.unet = reference.tiny_unet().double()
        if change:
            change(self.unet)

    def __call__(self, x, sigma, given):
        context = given[0].expand(x.shape[0], -1, -1)
        return self.unet(reference.scaled(x, sigma), reference.timestep(sigma), context).sample


def attention_is_v(unet):
    """Perturbed attention (Ahn et al. 2024): the middle's self-attention is replaced by its values."""

    class Identity:
        def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None, **_):
            return attn.to_out[0](attn.to_v(hidden_states))

    unet.mid_block.attentions[0].transformer_blocks[0].attn1.processor = Identity()


def further_keys(keys, values):
    """Self-attention of the encoder's first level sees some keys and values more (prefix tuning; reference-only control)."""

    class Longer:
        def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None, **_):
            n = hidden_states.shape[0]
            q, k, v = attn.to_q(hidden_states), attn.to_k(hidden_states), attn.to_v(hidden_states)
            k, v = torch.cat([k, keys.expand(n, -1, -1)], 1), torch.cat([v, values.expand(n, -1, -1)], 1)
            q, k, v = (t.view(n, t.shape[1], attn.heads, -1).transpose(1, 2) for t in (q, k, v))
            out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            return attn.to_out[0](out)

    def change(unet):
        for transformer in unet.down_blocks[0].attentions:
            transformer.transformer_blocks[0].attn1.processor = Longer()

    return change


def left_out(unet):
    """Blocks input.2 (a resnet with attention) and output.1 (a resnet that takes a skip)."""
    unet.down_blocks[0].resnets[1].forward = lambda x, temb: x
    unet.down_blocks[0].attentions[1].forward = lambda x, **_: (x,)
    unet.up_blocks[0].resnets[1].forward = lambda x, temb: x[:, :12]


def stronger_backbone(unet):
    """FreeU's half that is no Fourier filter (Si et al. 2023): half of the channels that come up the decoder, times 1.3."""
    for block, skips in ((unet.up_blocks[0], (12, 12, 8)), (unet.up_blocks[1], (8, 8, 8))):
        for resnet, skip in zip(block.resnets, skips):

            def before(_, args, skip=skip):
                x, *rest = args
                half = (x.shape[1] - skip) // 2
                return (torch.cat([1.3 * x[:, :half], x[:, half:]], 1), *rest)

            resnet.register_forward_pre_hook(before)


def at_size(picture):
    """A hint of another size: kiln scales it to the latent's pixels, bilinear."""
    return F.interpolate(picture, size=(8 * HEIGHT, 8 * WIDTH), mode="bilinear")


def main():
    vision, unet = write_vision(), reference.tiny_unet()
    fox, owl = write_adapter("fox", unet, 1), write_adapter("owl", unet, 2)
    pictures = [picture("small.png", 32, 32, [(250, 40, 90), (30, 200, 70)]), picture("wide.png", 48, 80, [(20, 90, 240), (255, 255, 10), (0, 180, 180)])]
    yes, no = (randn(f"ip.{name}", 1, 5, CONTEXT).double() for name in ("positive", "negative"))
    keys, values = (randn(f"ip.{name}", 1, 3, 8).double() for name in ("keys", "values"))
    x, x2 = (SIGMAS[0] * randn(f"ip.x{n}", n, 4, HEIGHT, WIDTH).double() for n in (1, 2))
    with torch.inference_mode():
        small, wide = (vision(preprocessed(p)).image_embeds for p in pictures)
        sides, step = [(yes, True), (no, False)], [5.0, 0.0]
        cases = {
            "plain": (Changed(), x, LEVELS),
            "adapter_step": (Adapted([fox], [small], [0.7]), x, step),
            "adapter": (Adapted([fox], [small], [0.7]), x, LEVELS),
            "other_scale": (Adapted([fox], [small], [0.2]), x, LEVELS),
            "two_adapters": (Adapted([fox, owl], [small, wide], [0.7, 0.4]), x, LEVELS),
            "one_file_twice": (Adapted([fox, fox], [small, wide], [0.7, 0.4]), x, LEVELS),
            "range": (Adapted([fox], [small], [0.7], 0.2, 0.7), x, LEVELS),
            "pair": (Adapted([fox], [torch.cat([small, wide])], [0.7]), x2, LEVELS),
            "together": (Together(fox, small, at_size(pictures[1])), x, LEVELS),
            "attention_is_v": (Changed(attention_is_v), x, LEVELS),
            "further_keys": (Changed(further_keys(keys, values)), x, LEVELS),
            "left_out": (Changed(left_out), x, LEVELS),
            "stronger_backbone": (Changed(stronger_backbone), x, LEVELS),
        }
        tensors = {f"golden.{name}": nhwc(euler(model, start, levels, sides)) for name, (model, start, levels) in cases.items()}
    for name in cases:  # a golden that the plain model would pass for shows nothing
        if tensors[f"golden.{name}"].shape == tensors["golden.plain"].shape and name != "plain":
            far = (tensors[f"golden.{name}"] - tensors["golden.plain"]).abs().max() / tensors["golden.plain"].abs().max()
            assert far > 1e-3, (name, far)
    tensors.update({"golden.small": small, "golden.wide": wide, "keys": keys, "values": values, "x": nhwc(x), "x2": nhwc(x2)})
    tensors.update({"positive": yes, "negative": no})
    what = f"x: noisy latents [n,h,w,4]; golden.CASE: Euler over {LEVELS} (adapter_step: one step from 5 to 0), cfg {reference.CFG}; golden.small, .wide: image_embeds"
    reference.save(FOLDER / "goldens.safetensors", tensors, {**reference.versions(), "layout": "NHWC", "what": what})


if __name__ == "__main__":
    main()
