"""tests/golden/model_patch.safetensors: what ComfyUI's own nodes make of small tensors, for guidance, FreeU, HyperTile, NAG and scaling.

    python model_patch.py COMFYUI [PART ...]      PART: renorm, say; the others stay as the file has them

A node is given a model that keeps the functions put on it; they are called with tensors as ComfyUI's sampling calls them, in float64 where
they let it be. Pictures and features are written as kiln has them, channels last.
"""

import importlib
import pathlib
import sys

import torch
from safetensors import safe_open

from common import GOLDEN, randn, save, versions


def start(comfyui):
    sys.path.insert(0, str(comfyui))
    sys.argv = ["model_patch", "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()


class Model:
    """Keeps what a node puts on it."""

    def __init__(self, **config):
        self.kept, self.model, self.model_config = {}, self, self
        self.unet_config = config

    def clone(self):
        return self

    def disable_model_cfg1_optimization(self):
        pass

    def __getattr__(self, name):
        if not name.startswith("set_model_"):
            raise AttributeError(name)
        return lambda fn, **_: self.kept.__setitem__(name.removeprefix("set_model_"), fn)


def functions(file, node, model=None, **numbers):
    model = model or Model()
    getattr(importlib.import_module(f"comfy_extras.{file}"), node).execute(model, **numbers)
    return model.kept


def numbers(name, *shape):
    return randn(f"model_patch.{name}", *shape).double()


def last(x):
    return x.movedim(1, -1)


CFG = 4.0


def guidance(out):
    x, c, u = (numbers(name, 2, 4, 5, 6) for name in ("x", "positive", "negative"))
    x, u = 3 * x, c + 0.6 * u
    combined = u + CFG * (c - u)
    out |= {"guidance.x": last(x), "guidance.positive": last(c), "guidance.negative": last(u), "guidance.x0": last(combined)}

    def before(node, file, at=(1.0,), **values):
        """The positive and negative of each of these levels in turn."""
        fn = functions(file, node, **values)["sampler_pre_cfg_function"]
        for sigma in at:
            args = {"conds": [1, 1], "conds_out": [c, u], "cond_scale": CFG, "sigma": torch.tensor([sigma]), "input": x}
            yield fn(args)

    def after(node, file, **values):
        fn = functions(file, node, **values)["sampler_post_cfg_function"]
        return fn({"denoised": combined, "cond_scale": CFG, "uncond_denoised": u, "cond_denoised": c, "input": x})

    for name, eta, threshold in (("apg", 0.3, 5.0), ("apg_any_length", -0.5, 0.0), ("apg_long", 0.3, 500.0)):
        out[f"guidance.{name}"] = last(next(before("APG", "nodes_apg", eta=eta, norm_threshold=threshold, momentum=0.0))[0])
    for i, made in enumerate(before("APG", "nodes_apg", (5.0, 3.0, 3.0, 4.0), eta=0.2, norm_threshold=6.0, momentum=-0.75)):
        out[f"guidance.apg_momentum.{i}"] = last(made[0])
    out["guidance.tcfg"] = last(next(before("TCFG", "nodes_tcfg"))[1])
    out["guidance.zero_star"] = last(after("CFGZeroStar", "nodes_cfg"))
    out["guidance.mahiro"] = last(after("Mahiro", "nodes_mahiro"))
    out["guidance.norm_after"] = last(after("CFGNorm", "nodes_cfg", strength=0.9, pre_cfg=False))
    for i, (low, high, cutoff) in enumerate(((0.8, 1.6, 2), (1.3, 0.5, 20))):  # the first does not reach the rim, the second does
        out[f"guidance.fresca.{i}"] = last(next(before("FreSca", "nodes_fresca", scale_low=low, scale_high=high, freq_cutoff=cutoff))[0])
    fn = functions("nodes_cfg", "CFGNorm", strength=0.4, pre_cfg=True)["sampler_cfg_function"]
    out["guidance.norm_instead"] = last(x - fn({"cond": x - c, "uncond": x - u, "cond_scale": CFG}))


def renorm(out):
    """One picture at a time, as the node is written; of the second setting only the first is shortened."""
    x, c, u = (numbers(name, 2, 4, 5, 6) for name in ("x", "positive", "negative"))
    x, u = 3 * x, c + 0.6 * u
    unet = Model()
    unet.diffusion_model = type("UNet", (), {"in_channels": 4})
    for i, (trunc, times) in enumerate(((100.0, 1.0), (100.0, 2.1), (1.0, 1.0))):
        fn = functions("nodes_lumina2", "RenormCFG", unet, cfg_trunc=trunc, renorm_cfg=times)["sampler_cfg_function"]
        each = (dict(zip(("input", "cond_denoised", "uncond_denoised"), (t[k : k + 1] for t in (x, c, u)))) for k in range(2))
        out[f"guidance.renorm.{i}"] = last(x - torch.cat([fn({**args, "cond_scale": CFG, "timestep": torch.tensor([1.0])}) for args in each]))


def free_u(out):
    """UNets 4 wide: 16 channels are the lowest resolution, 8 the next, 4 neither."""
    for stage, (width, h, w) in enumerate(((16, 5, 6), (8, 4, 7), (8, 1, 4), (16, 2, 1), (4, 3, 3))):
        x, skip = numbers(f"free_u.{stage}", 2, width, h, w), numbers(f"free_u.skip.{stage}", 2, 6, h, w)
        out |= {f"free_u.{stage}.x": last(x), f"free_u.{stage}.skip": last(skip)}
        for node, values in (("FreeU", (1.1, 1.2, 0.9, 0.2)), ("FreeU_V2", (1.3, 0.7, 0.8, 2.5))):
            b1, b2, s1, s2 = values
            fn = functions("nodes_freelunch", node, Model(model_channels=4), b1=b1, b2=b2, s1=s1, s2=s2)["output_block_patch"]
            made, beside = fn(x.clone(), skip.clone(), {})
            out |= {f"free_u.{stage}.{node}.x": last(made), f"free_u.{stage}.{node}.skip": last(beside)}


def attention(q, k, v, heads):
    """As ComfyUI's: the batch is that of q."""
    b, width = q.shape[0], q.shape[-1] // heads
    q, k, v = (t.reshape(b, -1, heads, width).transpose(1, 2) for t in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, -1, heads * width)


def hyper_tile(out):
    for name, (rows, columns), depth, tile in (("square", (8, 8), 0, 32), ("wide", (8, 12), 0, 32), ("deep", (16, 16), 1, 32), ("whole", (8, 8), 0, 64)):
        tokens = (rows >> depth) * (columns >> depth)
        q, k, v = (numbers(f"hyper_tile.{name}.{t}", 2, tokens, 8) for t in "qkv")
        kept = functions("nodes_hypertile", "HyperTile", tile_size=tile, swap_size=2, max_depth=depth, scale_depth=False)
        extra = {"original_shape": [2, 4, rows, columns]}
        tiled = kept["attn1_patch"](q, k, v, extra)
        out |= {f"hyper_tile.{name}.{t}": value for t, value in zip("qkv", (q, k, v))}
        out[f"hyper_tile.{name}.out"] = kept["attn1_output_patch"](attention(*tiled, 2), extra)
        plain = attention(q, k, v, 2)
        assert name == "whole" or not torch.allclose(out[f"hyper_tile.{name}.out"], plain)


def nag(out):
    z = numbers("nag", 4, 6, 8)
    out["nag.z"] = z
    for name, sides, values in (("negative_first", [1, 0], (5.0, 0.5, 1.5)), ("positive_first", [0, 1], (3.0, 1.0, 9.0)), ("one_side", [0, 0], (5.0, 0.5, 1.5))):
        scale, alpha, tau = values
        fn = functions("nodes_nag", "NAGuidance", nag_scale=scale, nag_alpha=alpha, nag_tau=tau)["attn1_output_patch"]
        out[f"nag.{name}"] = fn(z.clone(), {"cond_or_uncond": sides})


def scaling(out):
    import comfy.utils

    x = numbers("scaling", 2, 3, 5, 7)
    out["scaling.x"] = last(x)
    for method in ("nearest-exact", "bilinear", "area", "bicubic"):
        for h, w in ((3, 4), (9, 8)):
            out[f"scaling.{method}.{h}x{w}"] = last(comfy.utils.common_upscale(x, w, h, method, "disabled"))


def main():
    arguments = sys.argv[1:]
    start(pathlib.Path(arguments[0]).resolve())
    import comfyui_version

    out, path, only = {}, GOLDEN / "model_patch.safetensors", arguments[1:]
    made_by = {**versions(), "comfyui": comfyui_version.__version__}
    if only:
        with safe_open(path, "pt") as file:
            out = {name: file.get_tensor(name).clone() for name in file.keys()}
            made_by = file.metadata() | {f"comfyui {name}": comfyui_version.__version__ for name in only}
    for part in (guidance, renorm, free_u, hyper_tile, nag, scaling):
        if not only or part.__name__ in only:
            part(out)
    save(path, out, made_by)


if __name__ == "__main__":
    main()
