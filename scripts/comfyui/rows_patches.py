"""Further prompts of `make parity-comfyui`: nodes that patch a model. rows.py imports this file when it has all that is used here."""

from rows import FILE, both, clip, drawn, empty, masked, model, row, section, shape, text, yes
from graph import n

section("Model patches: guidance")


def with_each(name, patched, **changes):
    """Guidance as samplers of several kinds meet it, on one picture, a batch, at cfg 1 and with another patch."""
    row(name, drawn(model=patched, **changes), drawn(model=patched, sampler_name="dpmpp_2m", scheduler="sgm_uniform", cfg=7.0, **changes))
    row(f"{name}_batch", drawn(model=patched, latent_image=empty(batch=2), steps=3, **changes))


with_each("apg", n.APG(model=model, eta=1.0, norm_threshold=5.0, momentum=0.0))
row("apg_eta", *(drawn(model=n.APG(model=model, eta=e, norm_threshold=t, momentum=0.0)) for e, t in ((0.0, 5.0), (-0.5, 12.0), (0.3, 0.0))))
for name in ("euler", "heun", "dpm_2", "euler_ancestral"):
    row(f"apg_momentum_{name}", drawn(model=n.APG(model=model, eta=0.2, norm_threshold=15.0, momentum=-0.5), sampler_name=name))
row("apg_momentum_batch", drawn(model=n.APG(model=model, eta=0.5, norm_threshold=0.0, momentum=0.25), latent_image=empty(batch=2), cfg=2.0))
with_each("cfg_zero_star", n.CFGZeroStar(model=model))
with_each("tcfg", n.TCFG(model=model))
with_each("mahiro", n.Mahiro(model=model))
row("mahiro_cfg_1", drawn(model=n.Mahiro(model=model), cfg=1.0))
with_each("cfg_norm", n.CFGNorm(model=model, strength=1.0, pre_cfg=False))
row("cfg_norm_strength", drawn(model=n.CFGNorm(model=model, strength=0.9, pre_cfg=False), cfg=1.0), drawn(model=n.CFGNorm(model=model, strength=1.1, pre_cfg=False)))
row("cfg_norm_pre", *(drawn(model=n.CFGNorm(model=model, strength=s, pre_cfg=True)) for s in (1.0, 0.4)))
# ComfyUI's takes one picture at a time
row("renorm_cfg", *(drawn(model=n.RenormCFG(model=model, cfg_trunc=100.0, renorm_cfg=1.0), **by) for by in ({}, {"sampler_name": "dpmpp_2m", "scheduler": "sgm_uniform", "cfg": 7.0})))
row("renorm_cfg_short", *(drawn(model=n.RenormCFG(model=model, cfg_trunc=t, renorm_cfg=r), cfg=c) for t, r, c in ((100.0, 0.9, 4.0), (100.0, 0.95, 1.0), (2.0, 0.0, 4.0), (5.0, 1.1, 9.0))))
row("guidance_stacked", drawn(model=n.Mahiro(model=n.CFGZeroStar(model=n.TCFG(model=n.APG(model=model, eta=0.5, norm_threshold=10.0, momentum=0.0))))),
    drawn(model=n.CFGNorm(model=n.RescaleCFG(model=n.TCFG(model=model), multiplier=0.7), strength=1.0, pre_cfg=False)))
row("guidance_cfg_pp", *(drawn(model=patched, sampler_name="euler_cfg_pp", cfg=1.5) for patched in (n.TCFG(model=model), n.CFGZeroStar(model=model))))
row("guidance_masked", drawn(model=n.CFGZeroStar(model=n.TCFG(model=model)), positive=both(yes, masked(shape)), latent_image=empty(128, 128), steps=2))
row("score_rescaling", *(drawn(model=n.TemporalScoreRescaling(model=model, tsr_k=k, tsr_sigma=s)) for k, s in ((0.95, 1.0), (1.0, 2.0), (3.0, 0.3))))
row("score_rescaling_flow", drawn(model=n.TemporalScoreRescaling(model=n.ModelSamplingSD3(model=model, shift=3.0), tsr_k=0.8, tsr_sigma=1.5), cfg=1.5))
row("fresca", *(drawn(model=n.FreSca(model=model, scale_low=a, scale_high=b, freq_cutoff=f), latent_image=l) for a, b, f, l in
                ((1.0, 1.25, 20, empty()), (0.8, 1.6, 2, empty()), (1.2, 0.7, 3, empty(72, 104, 2)), (1.3, 0.5, 20, empty(72, 104)))))
with_each("pag", n.PerturbedAttentionGuidance(model=model, scale=3.0))
row("pag_cfg_1", drawn(model=n.PerturbedAttentionGuidance(model=model, scale=2.0), cfg=1.0))
row("pag_twice", drawn(model=n.PerturbedAttentionGuidance(model=n.PerturbedAttentionGuidance(model=model, scale=1.0), scale=0.5)))
row("pag_none", drawn(model=n.PerturbedAttentionGuidance(model=model, scale=0.0)))
row("pag_free_u", drawn(model=n.PerturbedAttentionGuidance(model=n.FreeU(model=model, b1=1.1, b2=1.2, s1=0.9, s2=0.2), scale=1.5)))
row("pag_apg", drawn(model=n.PerturbedAttentionGuidance(model=n.TCFG(model=model), scale=1.5)))
row("pag_masked", drawn(model=n.PerturbedAttentionGuidance(model=model, scale=1.5), positive=both(yes, masked(shape)), latent_image=empty(128, 128), steps=2))
with_each("nag", n.NAGuidance(model=model, nag_scale=5.0, nag_alpha=0.5, nag_tau=1.5))
row("nag_cfg_1", drawn(model=n.NAGuidance(model=model, nag_scale=8.0, nag_alpha=1.0, nag_tau=2.5), cfg=1.0))

section("Model patches: the network")
FREE_U = (("free_u", n.FreeU, dict(b1=1.1, b2=1.2, s1=0.9, s2=0.2)), ("free_u_v2", n.FreeU_V2, dict(b1=1.3, b2=1.4, s1=0.9, s2=0.2)))
for name, node, numbers in FREE_U:
    row(name, drawn(model=node(model=model, **numbers)), drawn(model=node(model=model, **{**numbers, "b2": 0.8, "s2": 2.5}), latent_image=empty(72, 104)))
    row(f"{name}_small", drawn(model=node(model=model, **numbers), latent_image=empty(32, 56)))
    row(f"{name}_batch", drawn(model=node(model=model, **numbers), latent_image=empty(batch=2), steps=3))
row("free_u_neutral", drawn(model=n.FreeU(model=model, b1=1.0, b2=1.0, s1=1.0, s2=1.0)))
row("free_u_twice", drawn(model=n.FreeU_V2(model=n.FreeU(model=model, b1=1.1, b2=1.2, s1=0.9, s2=0.2), b1=1.3, b2=1.4, s1=0.9, s2=0.2)))


def tiled(**changes):
    return n.HyperTile(**{"model": model, "tile_size": 32, "swap_size": 2, "max_depth": 0, "scale_depth": False, **changes})


row("hyper_tile", drawn(model=tiled()), drawn(model=tiled(), latent_image=empty(128, 64)), drawn(model=tiled(), latent_image=empty(64, 96, 2), steps=3))
row("hyper_tile_depth", drawn(model=tiled(max_depth=2), latent_image=empty(128, 128), steps=2), drawn(model=tiled(max_depth=2, scale_depth=True), latent_image=empty(128, 128), steps=2))
row("hyper_tile_one", drawn(model=tiled(tile_size=256, swap_size=1)))
row("hyper_tile_pag", drawn(model=n.PerturbedAttentionGuidance(model=tiled(max_depth=1), scale=1.5)))

for ratio in (0.3, 0.75, 0.0):
    row(f"tome_{ratio}", *(drawn(model=n.TomePatchModel(model=model, ratio=ratio), latent_image=latent, steps=3) for latent in (empty(), empty(72, 104, 2))))
row("tome_pag", drawn(model=n.PerturbedAttentionGuidance(model=n.TomePatchModel(model=model, ratio=0.5), scale=1.5)))


def shrunk(**changes):
    return n.PatchModelAddDownscale(**{"model": model, "block_number": 3, "downscale_factor": 2.0, "start_percent": 0.0, "end_percent": 0.35,
                                       "downscale_after_skip": True, "downscale_method": "bicubic", "upscale_method": "bicubic", **changes})


larger = empty(96, 128)
row("deep_shrink", drawn(model=shrunk(), latent_image=larger), drawn(model=shrunk(downscale_after_skip=False), latent_image=larger))
for block in (1, 2, 4):
    row(f"deep_shrink_block_{block}", *(drawn(model=shrunk(block_number=block, end_percent=1.0, downscale_after_skip=a), latent_image=larger, steps=3) for a in (True, False)))
for method in ("bilinear", "area", "nearest-exact"):
    row(f"deep_shrink_{method}", drawn(model=shrunk(downscale_factor=1.7, end_percent=0.8, downscale_method=method, upscale_method=method), latent_image=larger))
row("deep_shrink_larger", drawn(model=shrunk(downscale_factor=0.7, block_number=2, end_percent=0.6), latent_image=empty(64, 72)))
row("deep_shrink_range", drawn(model=shrunk(start_percent=0.3, end_percent=0.7), latent_image=larger, steps=6), drawn(model=shrunk(end_percent=0.0), latent_image=larger))
row("deep_shrink_free_u", drawn(model=n.FreeU_V2(model=shrunk(), b1=1.3, b2=1.4, s1=0.9, s2=0.2), latent_image=larger))

section("Model patches: attention multiplied")
FACTORS = {"q": 1.3, "k": 0.9, "v": 1.2, "out": 0.7}
row("multiply_self", drawn(model=n.UNetSelfAttentionMultiply(model=model, **FACTORS)), drawn(model=n.UNetSelfAttentionMultiply(model=model, q=1.0, k=1.0, v=1.0, out=0.0)))
row("multiply_cross", drawn(model=n.UNetCrossAttentionMultiply(model=model, **FACTORS)))
row("multiply_both", drawn(model=n.UNetCrossAttentionMultiply(model=n.UNetSelfAttentionMultiply(model=model, **FACTORS), **FACTORS)))
row("multiply_temporal", drawn(model=n.UNetTemporalAttentionMultiply(model=model, self_structural=1.2, self_temporal=1.0, cross_structural=0.6, cross_temporal=1.0)))
row("multiply_clip", drawn(positive=text("a (red:1.2) circle", n.CLIPAttentionMultiply(clip=clip, **FACTORS))))

section("Model patches: merged weights")
# a model of its own: ComfyUI has the weights of one LoRA at a time in a model
second = n.LoraLoaderModelOnly(model=n.UNETLoader(unet_name=FILE, weight_dtype="default"), lora_name=FILE, strength_model=2.0)
row("merge_simple", *(drawn(model=n.ModelMergeSimple(model1=model, model2=second, ratio=r)) for r in (1.0, 0.35, 0.0)))
row("merge_blocks", drawn(model=n.ModelMergeBlocks(model1=model, model2=second, input=0.2, middle=0.7, out=0.9)))
difference = n.ModelMergeSubtract(model1=second, model2=model, multiplier=0.7)
row("merge_add", drawn(model=n.ModelMergeAdd(model1=model, model2=difference)))
other_clip = n.LoraLoader(model=model, clip=n.CLIPLoader(clip_name=FILE, type="stable_diffusion", device="default"), lora_name=FILE, strength_model=0.0, strength_clip=2.0)[1]
row("merge_clip", drawn(positive=text("a cat", n.CLIPMergeSimple(clip1=clip, clip2=other_clip, ratio=0.4))))
clip_difference = n.CLIPMergeSubtract(clip1=other_clip, clip2=clip, multiplier=0.6)
row("merge_clip_add", drawn(positive=text("a cat", n.CLIPMergeAdd(clip1=clip, clip2=clip_difference))))
