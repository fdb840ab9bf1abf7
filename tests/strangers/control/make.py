"""The tiny models and the goldens of this proof, from diffusers: make.py writes models/, input/ and goldens.safetensors beside itself.

Everything is computed in float64 and rounded once. The networks are random; the loops around them are reference.py's.
"""

import torch
from diffusers import ControlNetModel, T2IAdapter
from PIL import Image
import numpy as np

import reference
from reference import CFG, FOLDER, SIGMAS, UNET, VAE, euler, nhwc, randn, sigma_at_percent

MODELS = FOLDER / "models"
CONTROLNET = {
    **{k: v for k, v in UNET.items() if k not in ("out_channels", "up_block_types")},
    "_class_name": "ControlNetModel",
    "conditioning_embedding_out_channels": [4, 4, 8, 8],
}
# Made for UNets of three levels: it has residuals for skips that the tiny UNet does not have.
DEEP = {
    **CONTROLNET,
    "block_out_channels": [4, 4, 4],
    "down_block_types": ["DownBlock2D"] * 3,
    "conditioning_embedding_out_channels": [4, 4, 4, 4],
}
ADAPTER = {
    "_class_name": "T2IAdapter",
    "adapter_type": "full_adapter",
    "channels": [8, 12],
    "downscale_factor": 8,
    "in_channels": 3,
    "num_res_blocks": 2,
}
HEIGHT, WIDTH = 8, 20


def picture(name, height, width, colours):
    """A hint of flat shapes, which a PNG holds in few bytes; [1,3,h,w] in 0..1."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    for i, colour in enumerate(colours):
        y, x = (7 + 13 * i) % height, (5 + 29 * i) % width
        pixels[y : y + height // 3, x : x + width // 4] = colour
        pixels[:, (11 * i + 3) % width] = colour[::-1]
    path = FOLDER / "input" / name
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(path, optimize=True)
    return torch.from_numpy(pixels.astype(np.float32) / 255).permute(2, 0, 1)[None].double()


def side(tokens, *controls, area=None):
    """One conditioning: tokens, a list of (network, hint, strength, start, end), and (y, x, h, w) in cells."""
    return {"tokens": tokens.double(), "controls": controls, "area": area}


def acts(control, sigma):
    _, _, strength, start, end = control
    return strength != 0 and sigma_at_percent(end) <= sigma <= (sigma_at_percent(start) if start > 0 else float("inf"))


def cropped(picture, area, factor):
    y, x, h, w = (factor * n for n in area)
    return picture[:, :, y : y + h, x : x + w]


class Model:
    """The UNet with its conditioning's controls, as diffusers' pipelines put them together."""

    def __init__(self, unet):
        self.unet = unet

    def one(self, x, sigma, given):
        kept = {"down": None, "middle": None, "intra": None}
        n, t = x.shape[0], reference.timestep(sigma)
        context, scaled = given["tokens"].expand(n, -1, -1), reference.scaled(x, sigma)
        for control in given["controls"]:
            network, hint, strength, *_ = control
            if not acts(control, sigma):
                continue
            if given["area"]:
                hint = cropped(hint, given["area"], 8)
            hint = hint.expand(n, -1, -1, -1)
            if isinstance(network, T2IAdapter):
                features = [strength * f for f in network(hint)]
                kept["intra"] = features if kept["intra"] is None else [a + b for a, b in zip(kept["intra"], features)]
                continue
            down, middle = network(scaled, t, context, hint, conditioning_scale=strength, return_dict=False)
            kept["down"] = down if kept["down"] is None else [a + b for a, b in zip(kept["down"], down)]
            kept["middle"] = middle if kept["middle"] is None else kept["middle"] + middle
        return self.unet(
            scaled,
            t,
            context,
            down_block_additional_residuals=kept["down"],
            mid_block_additional_residual=kept["middle"],
            down_intrablock_additional_residuals=kept["intra"],
        ).sample

    def __call__(self, x, sigma, given):
        if isinstance(given, dict):
            return self.one(x, sigma, given)
        return self.blended(x, sigma, given)

    def blended(self, x, sigma, entries):
        """Several conditionings, each for its area, weighed by how far from an inner edge a cell is."""
        total, sums = torch.zeros_like(x), torch.zeros_like(x)
        for given in entries:
            area = given["area"] or (0, 0, *x.shape[2:])
            y, x0, h, w = area
            weight = fading(area, *x.shape[2:]) if given["area"] else torch.ones(h, w).double()
            part = self.one(cropped(x, area, 1), sigma, given)
            sums[:, :, y : y + h, x0 : x0 + w] += weight * part
            total[:, :, y : y + h, x0 : x0 + w] += weight
        return sums / total


def fading(area, height, width):
    """ComfyUI's weights of an area without a mask: towards an edge inside the picture they fall over up to eight cells."""
    y, x, h, w = area
    weight = torch.ones(h, w).double()
    rows, columns = min(8, h // 4), min(8, w // 4)
    for t in range(rows):
        gain = np.float32((t + 1) / rows)
        if y != 0:
            weight[t] *= gain
        if y + h < height:
            weight[h - 1 - t] *= gain
    for t in range(columns):
        gain = np.float32((t + 1) / columns)
        if x != 0:
            weight[:, t] *= gain
        if x + w < width:
            weight[:, w - 1 - t] *= gain
    return weight


def write_lora(unet):
    """A LoRA of rank 2 on two linears, as peft names it; gives the UNet with it."""
    import copy

    names = ["down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_v", "mid_block.attentions.0.transformer_blocks.0.attn1.to_q"]
    changed, tensors = copy.deepcopy(unet), {}
    for name in names:
        weight = changed.get_submodule(name).weight
        down, up = randn(f"{name}.down", 2, weight.shape[1]).half(), randn(f"{name}.up", weight.shape[0], 2).half()
        tensors[f"unet.{name}.lora_A.weight"], tensors[f"unet.{name}.lora_B.weight"] = down, up
        weight.data += 0.5 * up.double() @ down.double()
    reference.save(MODELS / "loras" / "tiny.safetensors", tensors)
    return changed


def write_models():
    unet = reference.tiny_unet()
    controlnet = reference.random_model(ControlNetModel, CONTROLNET, 1)
    adapter = reference.random_model(T2IAdapter, ADAPTER, 2)
    deep = reference.random_model(ControlNetModel, DEEP, 3)
    for name, module, config in (
        ("diffusion_models/tiny/unet", unet, UNET),
        ("controlnet/tiny", controlnet, CONTROLNET),
        ("controlnet/deep", deep, DEEP),
        ("controlnet/adapter", adapter, ADAPTER),
    ):
        reference.save_weights(MODELS / name, module, config)
    reference.save_config(MODELS / "diffusion_models/tiny/vae/config.json", VAE)
    return [m.double() for m in (unet, controlnet, adapter)]


def cases(unet, controlnet, adapter, hints, tokens):
    """name -> (model, sides, levels, pictures, shape)."""
    yes, no = tokens
    dots, bars, odd = hints
    plain, net = Model(unet), (controlnet, dots, 0.8, 0, 1)
    both = lambda *controls: [side(yes, *controls), side(no, *controls)]
    step, all_steps = [5.0, 0.0], SIGMAS
    left, right = (0, 0, HEIGHT, 8), (0, 8, HEIGHT, 12)
    halves = [side(yes, (controlnet, dots, 0.8, 0, 1), area=left), side(no, (adapter, bars, 0.5, 0, 1), area=right)]
    unguided = [side(no), side(no, area=left), side(no, area=right)]
    pair = torch.cat([dots, bars])
    return {
        "plain": (plain, both(), all_steps),
        "net_step": (plain, both(net), step),
        "net": (plain, both(net), all_steps),
        "adapter_step": (plain, both((adapter, dots, 1, 0, 1)), step),
        "adapter": (plain, both((adapter, dots, 1, 0, 1)), all_steps),
        "both_kinds": (plain, both((controlnet, dots, 0.7, 0, 1), (adapter, bars, 0.4, 0, 1)), all_steps),
        "two_nets": (plain, both((controlnet, dots, 0.7, 0, 1), (controlnet, bars, 0.4, 0, 1)), all_steps),
        "range": (plain, both((controlnet, dots, 0.8, 0.2, 0.7)), all_steps),
        "weaker": (plain, both((controlnet, dots, 0.3, 0, 1)), all_steps),
        "positive_only": (plain, [side(yes, net), side(no)], all_steps),
        "pair_one_hint": (plain, both(net), all_steps, 2),
        "pair_two_hints": (plain, both((controlnet, pair, 0.8, 0, 1), (adapter, pair, 0.5, 0, 1)), all_steps, 2),
        "areas": (plain, [halves, unguided], all_steps),
        "odd": (plain, both((adapter, odd, 1, 0, 1), (controlnet, odd, 0.6, 0, 1)), step, 1, (7, 9)),
        "lora": (Model(write_lora(unet)), both(net), all_steps),
    }


def main():
    unet, controlnet, adapter = write_models()
    hints = [
        picture("dots.png", 8 * HEIGHT, 8 * WIDTH, [(250, 40, 90), (30, 200, 70), (120, 130, 255)]),
        picture("bars.png", 8 * HEIGHT, 8 * WIDTH, [(20, 90, 240), (255, 255, 10), (0, 180, 180), (200, 10, 60)]),
        picture("odd.png", 8 * 7, 8 * 9, [(90, 200, 10), (250, 250, 250)]),
    ]
    tokens = [randn(name, 1, 5, reference.CONTEXT) for name in ("positive", "negative")]
    tensors = {"positive": tokens[0], "negative": tokens[1]}
    for name in ("x", "x2", "x_odd"):
        shape = {"x": (1, 4, HEIGHT, WIDTH), "x2": (2, 4, HEIGHT, WIDTH), "x_odd": (1, 4, 7, 9)}[name]
        tensors[name] = nhwc(SIGMAS[0] * randn(name, *shape))
    with torch.inference_mode():
        for name, (model, sides, levels, *more) in cases(unet, controlnet, adapter, hints, tokens).items():
            x = tensors["x_odd" if name == "odd" else "x2" if more else "x"].permute(0, 3, 1, 2).double()
            tensors[f"golden.{name}"] = nhwc(euler(model, x, levels, sides))
    for name in ("net", "adapter", "both_kinds", "two_nets", "range", "weaker", "positive_only", "areas", "lora"):
        for other in ("plain", "net"):  # a golden that another one would pass for shows nothing
            far = (tensors[f"golden.{name}"] - tensors[f"golden.{other}"]).abs().max() / tensors[f"golden.{other}"].abs().max()
            assert name == other or far > 1e-2, (name, other, far)
    what = f"x: noisy latents [n,h,w,4]; positive, negative [1,5,16]; golden.CASE: Euler over {SIGMAS} (…_step, odd: one step from 5 to 0), cfg {CFG}"
    reference.save(FOLDER / "goldens.safetensors", tensors, {**reference.versions(), "layout": "NHWC", "what": what})


if __name__ == "__main__":
    main()
