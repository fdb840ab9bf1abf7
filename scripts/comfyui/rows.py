"""The prompts of `make parity-comfyui`: together they use every node that kiln has, at small sizes and with few steps.

A row is a name and a prompt. Where kiln needs one word more to do what ComfyUI does on a CPU, or ComfyUI cannot do it at all, `otherwise`
has the prompt that kiln is given instead, and why; the pictures have to agree all the same. `bounds` has the mean difference that a row may
have beyond the usual, why, and where it is more than 1 the largest one.
"""

import copy

from graph import n, prompt_of

FILE = "parity.safetensors"
METHODS = ["nearest-exact", "bilinear", "area", "bicubic"]
SAMPLERS = """euler euler_cfg_pp euler_ancestral euler_ancestral_cfg_pp heun heunpp2 exp_heun_2_x0 exp_heun_2_x0_sde dpm_2 dpm_2_ancestral lms dpm_fast
    dpm_adaptive dpmpp_2s_ancestral dpmpp_2s_ancestral_cfg_pp dpmpp_sde dpmpp_sde_gpu dpmpp_2m dpmpp_2m_cfg_pp dpmpp_2m_sde dpmpp_2m_sde_gpu
    dpmpp_2m_sde_heun dpmpp_2m_sde_heun_gpu dpmpp_3m_sde dpmpp_3m_sde_gpu ddpm lcm ipndm ipndm_v deis res_multistep res_multistep_cfg_pp
    res_multistep_ancestral res_multistep_ancestral_cfg_pp gradient_estimation gradient_estimation_cfg_pp er_sde seeds_2 seeds_3 sa_solver
    sa_solver_pece ddim uni_pc uni_pc_bh2""".split()
SCHEDULERS = "simple sgm_uniform karras exponential ddim_uniform beta normal linear_quadratic kl_optimal".split()

rows, otherwise, bounds, sections = {}, {}, {}, []
alone = {}  # {row: the process of ComfyUI it is drawn in}; the others share one


def section(title):
    sections.append((title, []))


def row(name, *images, also=()):
    """A prompt that saves these images."""
    assert name not in rows, name
    sections[-1][1].append(name)
    saved = [n.SaveImage(images=image, filename_prefix=f"{name}_{i}") for i, image in enumerate(images)]
    rows[name] = prompt_of(*saved, *also)


def nearest(*names):
    """These rows meet noise levels between the entries of the training table."""
    for name in names:
        prompt = copy.deepcopy(rows[name])
        at = next(key for key, node in prompt.items() if node["class_type"] == "CheckpointLoaderSimple")
        for node in prompt.values():
            node["inputs"] = {key: ["near", 0] if value == [at, 0] else value for key, value in node["inputs"].items()}
        prompt["near"] = {"class_type": "ModelSamplingDiscrete", "inputs": {"model": [at, 0], "sampling": "eps", "zsnr": False, "timestep": "nearest"}}
        otherwise[name] = prompt, "kiln with `timestep: nearest`"


def noise_of_the_cpu(*names):
    """A sampler named _gpu draws in kiln what a CUDA device draws, and ComfyUI has none here."""
    for name in names:
        prompt = copy.deepcopy(rows[name])
        for node in prompt.values():
            if node["class_type"] in ("KSampler", "SamplerCustom"):
                node["inputs"]["noise_source"] = "cpu"
        otherwise[name] = prompt, "kiln with `noise_source: cpu`"


# ---- what most rows begin with ------------------------------------------------------------------------------------------

checkpoint = n.CheckpointLoaderSimple(ckpt_name=FILE)
model, clip, vae = checkpoint, checkpoint[1], checkpoint[2]
photo = n.LoadImage(image="colour.png")
square = n.ImageScale(image=photo, upscale_method="bilinear", width=64, height=64, crop="center")
shape = n.LoadImageMask(image="alpha.png", channel="alpha")


def text(words, by=clip):
    return n.CLIPTextEncode(clip=by, text=words)


yes, no = text("a (red:1.2) circle on the left"), text("blurry, grey")
third = text("a green square")


def empty(width=64, height=64, batch=1):
    return n.EmptyLatentImage(width=width, height=height, batch_size=batch)


def encoded(image=square):
    return n.VAEEncode(pixels=image, vae=vae)


def decoded(latent, by=vae):
    return n.VAEDecode(samples=latent, vae=by)


def drawn(**changes):
    sampling = {"model": model, "positive": yes, "negative": no, "latent_image": empty(), "seed": 11, "steps": 4, "cfg": 4.0,
                "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0, **changes}
    return decoded(n.KSampler(**sampling))


def resized(image, method, width, height, crop="disabled"):
    return n.ImageScale(image=image, upscale_method=method, width=width, height=height, crop=crop)


# ---- loaders, text, model patches ---------------------------------------------------------------------------------------

section("Loaders, prompts, LoRA, model patches")
row("text_weights", drawn(positive=text(r"a ((cat)), (dog:0.6) \(not a bird\), ((very:1.4) old) house")))
row("text_long", drawn(positive=text("one two three four five six seven eight nine ten, " * 12)))
row("text_long_and_short", drawn(positive=text("a (red:1.3) house by the sea, " * 20), negative=text("")))
row("text_unicode", drawn(positive=text("Größe naïve 東京 \U0001f431 it's 3.14 don't")))
row("text_embedding_of_spaces", drawn(positive=text("  a   cat\n\n, on a\tmat  ")))
row("clip_skip", drawn(positive=text("a cat", n.CLIPSetLastLayer(clip=clip, stop_at_clip_layer=-2))))
row("clip_skip_weights", drawn(positive=text("a (cat:1.3)", n.CLIPSetLastLayer(clip=clip, stop_at_clip_layer=-4))))
row("parts", decoded(n.KSampler(model=n.UNETLoader(unet_name=FILE, weight_dtype="default"), seed=3, steps=3, cfg=3.0, sampler_name="euler",
                                scheduler="normal", denoise=1.0, latent_image=empty(),
                                positive=text("a cat", n.CLIPLoader(clip_name=FILE, type="stable_diffusion", device="default")),
                                negative=text("", n.CLIPLoader(clip_name=FILE, type="stable_diffusion", device="default"))),
                     n.VAELoader(vae_name=FILE)))


def by_folder(loader):
    return decoded(n.KSampler(model=loader, positive=text("a cat", loader[1]), negative=text("", loader[1]), latent_image=empty(), seed=3, steps=3,
                              cfg=3.0, sampler_name="euler", scheduler="normal", denoise=1.0), loader[2])


row("diffusers", by_folder(checkpoint))  # it knows the names of a folder's tensors in full-size networks only
otherwise["diffusers"] = (prompt_of(n.SaveImage(images=by_folder(n.DiffusersLoader(model_path="parity")), filename_prefix="diffusers_0")),
                          "kiln from the folder, ComfyUI from the file")
lora = n.LoraLoader(model=model, clip=clip, lora_name=FILE, strength_model=0.8, strength_clip=0.5)
row("lora", drawn(model=lora, positive=text("a cat", lora[1])))
row("lora_negative", drawn(model=n.LoraLoaderModelOnly(model=model, lora_name=FILE, strength_model=-0.6)))
row("lora_twice", drawn(model=n.LoraLoaderModelOnly(model=lora, lora_name=FILE, strength_model=0.4)))
for sampling in ("eps", "v_prediction", "lcm", "x0", "img_to_img"):
    changed = n.ModelSamplingDiscrete(model=model, sampling=sampling, zsnr=False)
    row(f"discrete_{sampling}", drawn(model=changed, sampler_name="lcm" if sampling == "lcm" else "euler", cfg=1.5))
for sampler in ("euler", "lcm", "dpmpp_2m"):
    changed = n.ModelSamplingDiscrete(model=model, sampling="img_to_img_flow", zsnr=False)
    row(f"discrete_img_to_img_flow_{sampler}", drawn(model=changed, sampler_name=sampler, cfg=1.5, latent_image=encoded()))
row("discrete_zsnr", drawn(model=n.ModelSamplingDiscrete(model=model, sampling="v_prediction", zsnr=True), cfg=1.5))
for sampling in ("v_prediction", "edm", "edm_playground_v2.5", "eps", "cosmos_rflow"):
    changed = n.ModelSamplingContinuousEDM(model=model, sampling=sampling, sigma_max=80.0, sigma_min=0.02)
    row(f"edm_{sampling}", drawn(model=changed, scheduler="karras", cfg=1.5))
row("continuous_v", drawn(model=n.ModelSamplingContinuousV(model=model, sampling="v_prediction", sigma_max=300.0, sigma_min=0.03), cfg=1.5))
row("sd3_shift", drawn(model=n.ModelSamplingSD3(model=model, shift=3.0), cfg=1.5))
row("sd3_ancestral", drawn(model=n.ModelSamplingSD3(model=model, shift=2.0), cfg=1.5, sampler_name="euler_ancestral"))
row("aura_shift", drawn(model=n.ModelSamplingAuraFlow(model=model, shift=1.73), cfg=1.5, sampler_name="dpmpp_2m", scheduler="beta"))
row("flux_shift", drawn(model=n.ModelSamplingFlux(model=model, max_shift=1.15, base_shift=0.5, width=64, height=64), cfg=1.5))
row("rescale_cfg", drawn(model=n.RescaleCFG(model=model, multiplier=0.7), cfg=6.0))
row("rescale_cfg_v", drawn(model=n.RescaleCFG(model=n.ModelSamplingDiscrete(model=model, sampling="v_prediction", zsnr=False), multiplier=0.5)))
row("perp_neg_model", drawn(model=n.PerpNeg(model=model, empty_conditioning=text(""), neg_scale=0.8)))

# ---- samplers and schedules --------------------------------------------------------------------------------------------

section("Samplers, schedules, guiders")
for name in SAMPLERS:
    row(f"sampler_{name}", drawn(sampler_name=name))
for name in SCHEDULERS:
    row(f"schedule_{name}", drawn(scheduler=name, steps=5))
row("schedule_ddim_uniform_30", drawn(scheduler="ddim_uniform", steps=12))
row("cfg_1", drawn(cfg=1.0))
row("cfg_0", drawn(cfg=0.0))
row("image_to_image", drawn(latent_image=encoded(), denoise=0.6, steps=5))
row("image_to_image_karras", drawn(latent_image=encoded(), denoise=0.37, steps=3, scheduler="karras"))
row("image_to_image_uni_pc", drawn(latent_image=encoded(), denoise=0.5, steps=4, sampler_name="uni_pc"))
row("batch", drawn(latent_image=empty(batch=2), sampler_name="euler_ancestral"))
row("size_odd", drawn(latent_image=empty(72, 104)))
row("size_wide", drawn(latent_image=empty(128, 64), sampler_name="dpmpp_2m", scheduler="karras"))
row("seed_large", drawn(seed=2**64 - 2, sampler_name="ddpm"))


def advanced(**changes):
    sampling = {"model": model, "positive": yes, "negative": no, "latent_image": empty(), "noise_seed": 5, "steps": 6, "cfg": 4.0,
                "sampler_name": "euler", "scheduler": "simple", "add_noise": "enable", "start_at_step": 0, "end_at_step": 10000,
                "return_with_leftover_noise": "disable", **changes}
    return n.KSamplerAdvanced(**sampling)


begun = advanced(end_at_step=3, return_with_leftover_noise="enable")
row("advanced", decoded(advanced()))
row("advanced_begun", decoded(begun))
row("advanced_stopped", decoded(advanced(end_at_step=3)))
row("advanced_two_stages", decoded(advanced(latent_image=begun, add_noise="disable", start_at_step=3, noise_seed=6)))
row("advanced_image", decoded(advanced(latent_image=encoded(), start_at_step=3, sampler_name="dpmpp_2m_sde")))


def custom(sigmas, sampler="euler", **changes):
    sampler = n.KSamplerSelect(sampler_name=sampler) if isinstance(sampler, str) else sampler
    sampling = {"model": model, "positive": yes, "negative": no, "latent_image": empty(), "noise_seed": 21, "cfg": 4.0, "add_noise": True,
                "sampler": sampler, "sigmas": sigmas, **changes}
    return n.SamplerCustom(**sampling)


basic = n.BasicScheduler(model=model, scheduler="simple", steps=5, denoise=1.0)
row("custom", decoded(custom(basic)), decoded(custom(basic)[1]))
row("basic_denoise", decoded(custom(n.BasicScheduler(model=model, scheduler="karras", steps=3, denoise=0.7), latent_image=encoded())))
row("align_sd1", decoded(custom(n.AlignYourStepsScheduler(model_type="SD1", steps=10, denoise=1.0))))
row("align_sdxl_denoise", decoded(custom(n.AlignYourStepsScheduler(model_type="SDXL", steps=7, denoise=0.5))))
row("beta_nodes", decoded(custom(n.BetaSamplingScheduler(model=model, steps=5, alpha=0.5, beta=0.8))))
row("exponential", decoded(custom(n.ExponentialScheduler(steps=4, sigma_max=14.614642, sigma_min=0.0291675))))
row("karras", decoded(custom(n.KarrasScheduler(steps=4, sigma_max=14.614642, sigma_min=0.0291675, rho=7.0))))
row("polyexponential", decoded(custom(n.PolyexponentialScheduler(steps=4, sigma_max=14.614642, sigma_min=0.0291675, rho=1.3))))
row("laplace", decoded(custom(n.LaplaceScheduler(steps=5, sigma_max=14.614642, sigma_min=0.0291675, mu=0.1, beta=0.6))))
row("vp", decoded(custom(n.VPScheduler(steps=4, beta_d=19.9, beta_min=0.1, eps_s=0.001))))
row("gits", decoded(custom(n.GITSScheduler(coeff=1.2, steps=6, denoise=1.0))))
row("gits_denoise", decoded(custom(n.GITSScheduler(coeff=0.85, steps=9, denoise=0.5))))
row("manual", decoded(custom(n.ManualSigmas(sigmas="14.6, 7.3, 2.49, 0.69, 0.0"))))
row("optimal_steps", decoded(custom(n.OptimalStepsScheduler(model_type="FLUX", steps=5, denoise=1.0), cfg=1.5,
                                    model=n.ModelSamplingSD3(model=model, shift=1.0))))
row("optimal_steps_chroma", decoded(custom(n.OptimalStepsScheduler(model_type="Chroma", steps=7, denoise=0.6), latent_image=encoded())))
row("turbo", decoded(custom(n.SDTurboScheduler(model=model, steps=2, denoise=1.0))))
row("turbo_denoise", decoded(custom(n.SDTurboScheduler(model=model, steps=3, denoise=0.55), latent_image=encoded())))
for spacing in ("linear", "cosine", "sine"):
    longer = n.ExtendIntermediateSigmas(sigmas=basic, steps=2, start_at_sigma=-1.0, end_at_sigma=3.0, spacing=spacing)
    row(f"extend_{spacing}", decoded(custom(longer)))
row("first_sigma", decoded(custom(n.SetFirstSigma(sigmas=basic, sigma=10.0))))
halves = n.SplitSigmas(sigmas=basic, step=2)
first_half = custom(halves)
row("split", decoded(first_half), decoded(custom(halves[1], latent_image=first_half, add_noise=False)))
denoise_halves = n.SplitSigmasDenoise(sigmas=basic, denoise=0.5)
row("split_denoise", decoded(custom(denoise_halves)), decoded(custom(denoise_halves[1], latent_image=encoded())))
row("flip", decoded(custom(n.FlipSigmas(sigmas=n.BasicScheduler(model=model, scheduler="simple", steps=4, denoise=0.3)), add_noise=False,
                           latent_image=encoded(), cfg=1.0)))
percent = n.SamplingPercentToSigma(model=model, sampling_percent=0.3, return_actual_sigma=False)
row("percent", decoded(custom(n.KarrasScheduler(steps=4, sigma_max=percent, sigma_min=0.03, rho=7.0), latent_image=encoded())))
actual = n.SamplingPercentToSigma(model=model, sampling_percent=0.0, return_actual_sigma=True)
row("percent_actual", decoded(custom(n.SetFirstSigma(sigmas=basic, sigma=actual))))

SAMPLER_NODES = {
    "dpm_adaptative": n.SamplerDPMAdaptative(order=2, rtol=0.05, atol=0.0078, h_init=0.05, pcoeff=0.0, icoeff=1.0, dcoeff=0.0, accept_safety=0.81,
                                             eta=0.0, s_noise=1.0),
    "dpmpp_2m_sde": n.SamplerDPMPP_2M_SDE(solver_type="heun", eta=0.7, s_noise=1.1, noise_device="cpu"),
    "dpmpp_2s_ancestral": n.SamplerDPMPP_2S_Ancestral(eta=0.6, s_noise=0.9),
    "dpmpp_3m_sde": n.SamplerDPMPP_3M_SDE(eta=0.8, s_noise=1.0, noise_device="cpu"),
    "dpmpp_sde": n.SamplerDPMPP_SDE(eta=0.8, s_noise=1.0, r=0.4, noise_device="cpu"),
    "dpmpp_sde_gpu": n.SamplerDPMPP_SDE(eta=1.0, s_noise=1.0, r=0.5, noise_device="gpu"),
    "er_sde": n.SamplerER_SDE(solver_type="ER-SDE", max_stage=3, eta=1.0, s_noise=1.0),
    "er_sde_reverse": n.SamplerER_SDE(solver_type="Reverse-time SDE", max_stage=2, eta=0.8, s_noise=0.9),
    "er_sde_ode": n.SamplerER_SDE(solver_type="ODE", max_stage=3, eta=1.0, s_noise=1.0),
    "euler_ancestral": n.SamplerEulerAncestral(eta=0.5, s_noise=1.1),
    "euler_ancestral_cfg_pp": n.SamplerEulerAncestralCFGPP(eta=0.5, s_noise=1.0),
    "euler_cfg_pp": n.SamplerEulerCFGpp(version="regular"),
    "euler_cfg_pp_alternative": n.SamplerEulerCFGpp(version="alternative"),
    "lcm": n.SamplerLCM(s_noise=0.9, s_noise_end=0.5, noise_clip_std=2.0),
    "lcm_upscale": n.SamplerLCMUpscale(scale_ratio=1.5, scale_steps=2, upscale_method="bislerp"),
    "lcm_upscale_nearest": n.SamplerLCMUpscale(scale_ratio=2.0, scale_steps=-1, upscale_method="nearest-exact"),
    "lms": n.SamplerLMS(order=3),
    "sa_solver": n.SamplerSASolver(model=model, eta=0.9, sde_start_percent=0.1, sde_end_percent=0.7, s_noise=1.0, predictor_order=3, corrector_order=4,
                                   use_pece=False, simple_order_2=False),
    "sa_solver_pece": n.SamplerSASolver(model=model, eta=1.0, sde_start_percent=0.2, sde_end_percent=0.8, s_noise=1.0, predictor_order=2,
                                        corrector_order=2, use_pece=True, simple_order_2=True),
    "seeds_2": n.SamplerSEEDS2(solver_type="phi_2", eta=0.9, s_noise=1.0, r=0.4),
}
for name, node in SAMPLER_NODES.items():
    row(f"node_{name}", decoded(custom(basic, node)))

noise = n.RandomNoise(noise_seed=31)


def guided(guider, sigmas=basic, by=noise, latent=None, slot=0):
    latent = latent or empty()
    return decoded(n.SamplerCustomAdvanced(noise=by, guider=guider, sampler=n.KSamplerSelect(sampler_name="euler"), sigmas=sigmas, latent_image=latent)[slot])


cfg_guider = n.CFGGuider(model=model, positive=yes, negative=no, cfg=4.0)
row("guider_cfg", guided(cfg_guider), guided(cfg_guider, slot=1))
row("guider_basic", guided(n.BasicGuider(model=model, conditioning=yes)))
for style in ("regular", "nested"):
    row(f"guider_dual_{style}", guided(n.DualCFGGuider(model=model, cond1=yes, cond2=third, negative=no, cfg_conds=3.0, cfg_cond2_negative=4.0, style=style)))
# a model of its own: ComfyUI has the weights of one LoRA at a time in a model
other = n.LoraLoaderModelOnly(model=n.UNETLoader(unet_name=FILE, weight_dtype="default"), lora_name=FILE, strength_model=0.8)
row("guider_dual_model", guided(n.DualModelGuider(model=model, positive=yes, model_negative=other, negative=no, cfg=3.0)))
row("guider_dual_model_one", guided(n.DualModelGuider(model=model, positive=yes, negative=no, cfg=3.0)))
row("guider_perp_neg", guided(n.PerpNegGuider(model=model, positive=yes, negative=no, empty_conditioning=text(""), cfg=4.0, neg_scale=0.7)))
row("guider_no_noise", guided(cfg_guider, by=n.DisableNoise(), latent=n.AddNoise(model=model, noise=noise, sigmas=basic, latent_image=encoded())))
row("guider_split", guided(cfg_guider, sigmas=halves))

# ---- conditionings -------------------------------------------------------------------------------------------------------

section("Conditionings: areas, masks, ranges")
HALF = {"x": 0, "y": 0, "width": 64, "height": 128}
big = empty(128, 128)


def area(conditioning=third, strength=1.0, **box):
    return n.ConditioningSetArea(conditioning=conditioning, strength=strength, **{**HALF, **box})


def both(one, other):
    return n.ConditioningCombine(conditioning_1=one, conditioning_2=other)


def share(width, height, x, y, strength=1.0):
    return n.ConditioningSetAreaPercentage(conditioning=third, width=width, height=height, x=x, y=y, strength=strength)


def masked(mask, strength=1.0, bounds="default", conditioning=third):
    return n.ConditioningSetMask(conditioning=conditioning, mask=mask, strength=strength, set_cond_area=bounds)


row("average", drawn(positive=n.ConditioningAverage(conditioning_to=yes, conditioning_from=third, conditioning_to_strength=0.35)))
row("average_lengths", drawn(positive=n.ConditioningAverage(conditioning_to=text("long " * 90), conditioning_from=third, conditioning_to_strength=0.6)))
row("combine", drawn(positive=both(yes, third)))
row("combine_lengths", drawn(positive=both(yes, text("long " * 90))))
row("concat", drawn(positive=n.ConditioningConcat(conditioning_to=yes, conditioning_from=third)))
row("multiply", drawn(positive=n.ConditioningMultiply(conditioning=yes, multiplier=1.4)))
row("zero_out", drawn(negative=n.ConditioningZeroOut(conditioning=yes)))
row("timestep_range", drawn(positive=both(n.ConditioningSetTimestepRange(conditioning=yes, start=0.0, end=0.5),
                                          n.ConditioningSetTimestepRange(conditioning=third, start=0.5, end=1.0)), steps=6))
row("area", drawn(positive=both(yes, area()), latent_image=big))
row("area_small", drawn(positive=both(yes, area(x=32, y=40, width=72, height=64)), latent_image=big))
row("area_tiny", drawn(positive=both(yes, area(x=40, y=40, width=64, height=64, strength=1.7)), latent_image=empty(192, 128)))
row("area_edge", drawn(positive=both(yes, area(x=64, y=96, width=128, height=128, strength=0.5)), latent_image=big))
row("area_large", drawn(positive=both(yes, area(x=32, y=0, width=272, height=264)), latent_image=empty(320, 320), steps=2))
row("area_both_sides", drawn(positive=both(yes, area()), negative=both(no, area(x=64, conditioning=yes)), latent_image=big))
row("area_alone", drawn(positive=both(area(), area(x=64, conditioning=yes)), latent_image=big))
row("area_strength", drawn(positive=both(yes, n.ConditioningSetAreaStrength(conditioning=area(), strength=2.2)), latent_image=big))
row("area_share", drawn(positive=both(yes, share(0.5, 0.4, 0.3, 0.2)), latent_image=big))
row("area_share_halves", drawn(positive=both(yes, share(0.5, 0.5, 0.25, 0.5)), latent_image=empty(136, 104)))
row("area_share_thin", drawn(positive=both(yes, share(0.01, 1.0, 0.5, 0.0)), latent_image=big))
disc = n.ThresholdMask(mask=shape, value=0.4)
patch = n.MaskComposite(destination=n.SolidMask(value=0.0, width=64, height=64), source=n.SolidMask(value=1.0, width=28, height=20),
                        x=12, y=30, operation="add")
row("mask", drawn(positive=both(yes, masked(patch))))
row("mask_soft", drawn(positive=both(yes, masked(shape, 0.6)), latent_image=big))
row("mask_bounds", drawn(positive=both(yes, masked(patch, 1.0, "mask bounds")), latent_image=big))
row("mask_bounds_empty", drawn(positive=both(yes, masked(n.SolidMask(value=0.0, width=64, height=64), 1.0, "mask bounds")), latent_image=big))
row("mask_both", drawn(positive=both(masked(patch, conditioning=yes), masked(n.InvertMask(mask=patch)))))


def mask_batch(*masks):
    """Several masks as one: there is a node for images only."""
    images = [n.MaskToImage(mask=mask) for mask in masks]
    while len(images) > 1:
        images = [n.ImageBatch(image1=images[0], image2=images[1]), *images[2:]]
    return n.ImageToMask(image=images[0], channel="red")


pair = mask_batch(patch, n.InvertMask(mask=patch))
corner = n.CropMask(mask=shape, x=0, y=0, width=32, height=32)
row("mask_batch", drawn(positive=both(yes, masked(pair)), latent_image=empty(batch=2)))
row("mask_batch_more", drawn(positive=both(yes, masked(mask_batch(patch, corner, shape))), latent_image=empty(batch=2)))
row("mask_batch_repeated", drawn(positive=both(yes, masked(pair)), latent_image=empty(batch=4), steps=2))
row("mask_batch_one", drawn(positive=both(yes, masked(pair))))
row("mask_batch_bounds", drawn(positive=both(yes, masked(mask_batch(patch, n.SolidMask(value=0.0, width=64, height=64)), 1.3, "mask bounds")),
    latent_image=empty(128, 128, 2), steps=2))
row("mask_batch_alone", drawn(positive=masked(pair), latent_image=empty(batch=2)))
row("mask_batch_twice", drawn(positive=both(masked(pair), masked(patch, 0.7, conditioning=yes)), negative=masked(shape, conditioning=no),
    latent_image=empty(batch=2)))

# ---- latents -----------------------------------------------------------------------------------------------------------

section("Latents, inpainting")
cat = encoded()
dog = encoded(n.ImageFlip(image=n.ImageInvert(image=square), flip_method="x-axis: vertically"))
wide = encoded(resized(photo, "bicubic", 120, 72))
row("vae", decoded(cat), decoded(wide))
row("vae_odd", decoded(encoded(resized(photo, "area", 77, 67))))
row("tiled_decode", n.VAEDecodeTiled(samples=wide, vae=vae, tile_size=64, overlap=32, temporal_size=64, temporal_overlap=8),
    n.VAEDecodeTiled(samples=wide, vae=vae, tile_size=96, overlap=0, temporal_size=64, temporal_overlap=8))
row("tiled_encode", decoded(n.VAEEncodeTiled(pixels=resized(photo, "bicubic", 200, 136), vae=vae, tile_size=128, overlap=32, temporal_size=64, temporal_overlap=8)))
row("latent_add", decoded(n.LatentAdd(samples1=cat, samples2=dog)))
row("latent_subtract", decoded(n.LatentSubtract(samples1=cat, samples2=dog)))
row("latent_multiply", decoded(n.LatentMultiply(samples=cat, multiplier=0.7)))
row("latent_interpolate", decoded(n.LatentInterpolate(samples1=cat, samples2=dog, ratio=0.3)))
row("latent_blend", decoded(n.LatentBlend(samples1=cat, samples2=dog, blend_factor=0.3)))
row("latent_batch", decoded(n.LatentBatch(samples1=cat, samples2=dog)))
row("latent_composite", decoded(n.LatentComposite(samples_to=cat, samples_from=dog, x=16, y=24, feather=0)))
row("latent_composite_feather", decoded(n.LatentComposite(samples_to=wide, samples_from=cat, x=24, y=8, feather=16)))
row("latent_crop", decoded(n.LatentCrop(samples=wide, width=72, height=64, x=32, y=8)))
row("latent_crop_outside", decoded(n.LatentCrop(samples=wide, width=64, height=64, x=104, y=56)))
for method in ("x-axis: vertically", "y-axis: horizontally"):
    row(f"latent_flip_{method[0]}", decoded(n.LatentFlip(samples=wide, flip_method=method)))
for angle in ("none", "90 degrees", "180 degrees", "270 degrees"):
    row(f"latent_rotate_{angle.split()[0]}", decoded(n.LatentRotate(samples=wide, rotation=angle)))
for dim in ("x", "-x", "y", "-y"):
    row(f"latent_concat_{dim}", decoded(n.LatentConcat(samples1=cat, samples2=dog, dim=dim)))
row("latent_cut", decoded(n.LatentCut(samples=wide, dim="x", index=2, amount=9)), decoded(n.LatentCut(samples=wide, dim="y", index=-8, amount=20)))
several = n.LatentBatch(samples1=n.RepeatLatentBatch(samples=cat, amount=2), samples2=dog)
row("latent_from_batch", decoded(n.LatentFromBatch(samples=several, batch_index=1, length=5)))
row("latent_repeat", decoded(several))
row("batch_one_of", drawn(latent_image=n.LatentFromBatch(samples=empty(batch=3), batch_index=2, length=1)))
row("batch_repeated", drawn(latent_image=n.RepeatLatentBatch(samples=empty(batch=2), amount=2), steps=2))
for behaviour in ("random", "fixed"):
    row(f"seed_{behaviour}", drawn(latent_image=n.LatentBatchSeedBehavior(samples=empty(batch=2), seed_behavior=behaviour)))
for method in (*METHODS, "bislerp"):
    row(f"latent_upscale_{method}", decoded(n.LatentUpscale(samples=wide, upscale_method=method, width=96, height=88, crop="disabled")),
        decoded(n.LatentUpscale(samples=wide, upscale_method=method, width=72, height=96, crop="center")))
    row(f"latent_upscale_by_{method}", decoded(n.LatentUpscaleBy(samples=wide, upscale_method=method, scale_by=1.5)),
        decoded(n.LatentUpscaleBy(samples=wide, upscale_method=method, scale_by=0.7)))
row("latent_upscale_width", decoded(n.LatentUpscale(samples=wide, upscale_method="bilinear", width=104, height=0, crop="disabled")))
row("latent_upscale_height", decoded(n.LatentUpscale(samples=wide, upscale_method="bilinear", width=0, height=88, crop="disabled")))
row("latent_upscale_tiny", decoded(n.LatentUpscale(samples=wide, upscale_method="area", width=32, height=0, crop="disabled")),
    decoded(n.LatentUpscale(samples=wide, upscale_method="area", width=16, height=96, crop="disabled")))
row("latent_upscale_neither", decoded(n.LatentUpscale(samples=wide, upscale_method="area", width=0, height=0, crop="disabled")))
row("upscale_and_sample", drawn(latent_image=n.LatentUpscaleBy(samples=cat, upscale_method="bislerp", scale_by=1.5), denoise=0.5))
row("inpaint", drawn(latent_image=n.SetLatentNoiseMask(samples=cat, mask=patch)))
row("inpaint_hole", drawn(latent_image=n.VAEEncodeForInpaint(pixels=square, vae=vae, mask=patch, grow_mask_by=6)),
    decoded(n.VAEEncodeForInpaint(pixels=resized(photo, "area", 77, 67), vae=vae, mask=shape, grow_mask_by=0)))
row("inpaint_soft", drawn(latent_image=n.SetLatentNoiseMask(samples=cat, mask=shape), denoise=0.7, sampler_name="dpmpp_2m"))
row("inpaint_batch", drawn(latent_image=n.SetLatentNoiseMask(samples=n.LatentBatch(samples1=cat, samples2=dog), mask=pair), sampler_name="euler_ancestral"))
row("inpaint_batch_fewer", drawn(latent_image=n.SetLatentNoiseMask(samples=several, mask=pair), steps=2))
row("inpaint_ddim", drawn(latent_image=n.SetLatentNoiseMask(samples=cat, mask=patch), sampler_name="ddim"))
row("inpaint_uni_pc", drawn(latent_image=n.SetLatentNoiseMask(samples=cat, mask=patch), sampler_name="uni_pc"))
row("inpaint_flow", drawn(latent_image=n.SetLatentNoiseMask(samples=cat, mask=patch), model=n.ModelSamplingSD3(model=model, shift=3.0), cfg=1.5))
row("inpaint_composite", decoded(n.LatentComposite(samples_to=n.SetLatentNoiseMask(samples=cat, mask=patch), samples_from=dog, x=8, y=8, feather=8)))

# ---- pictures and masks ---------------------------------------------------------------------------------------------------

section("Pictures and masks")
grey = n.LoadImage(image="grey.png")
clear = n.LoadImage(image="alpha.png")
row("load", photo, clear, also=[n.PreviewImage(images=photo)])
row("load_grey", grey)
bounds["load_grey"] = 1.0, "ComfyUI reads it through ffmpeg, which makes it a count darker; kiln writes the file's own values"
row("load_masks", *(n.MaskToImage(mask=n.LoadImageMask(image="alpha.png", channel=c)) for c in ("alpha", "red", "green", "blue")))
row("load_mask_of", n.MaskToImage(mask=clear[1]), n.MaskToImage(mask=photo[1]), n.MaskToImage(mask=n.LoadImageMask(image="colour.png", channel="alpha")))
row("empty_image", n.EmptyImage(width=24, height=16, batch_size=2, color=0x3A7FC1))
for method in (*METHODS, "lanczos"):
    row(f"scale_{method}", resized(photo, method, 67, 91), resized(photo, method, 21, 17), resized(photo, method, 30, 90, "center"),
        resized(photo, method, 101, 33, "center"))
    row(f"scale_by_{method}", n.ImageScaleBy(image=photo, upscale_method=method, scale_by=1.53),
        n.ImageScaleBy(image=photo, upscale_method=method, scale_by=0.47))
row("scale_width", resized(photo, "bilinear", 75, 0), resized(photo, "bilinear", 27, 0), resized(photo, "bilinear", 0, 0))
row("scale_height", resized(photo, "bilinear", 0, 35), resized(photo, "bilinear", 0, 1))
odd = n.ImageCrop(image=photo, x=3, y=2, width=15, height=13)
row("scale_nearest_ties", resized(photo, "nearest-exact", 37, 108), resized(photo, "nearest-exact", 74, 55))
row("scale_by_halves", n.ImageScaleBy(image=odd, upscale_method="bilinear", scale_by=1.5), n.ImageScaleBy(image=odd, upscale_method="bilinear", scale_by=2.5))
row("total_pixels", n.ImageScaleToTotalPixels(image=photo, upscale_method="bilinear", megapixels=0.02, resolution_steps=1),
    n.ImageScaleToTotalPixels(image=odd, upscale_method="bicubic", megapixels=0.01, resolution_steps=8))
row("batch_images", n.ImageBatch(image1=photo, image2=resized(photo, "area", 30, 30)))
pictures = n.ImageBatch(image1=photo, image2=n.ImageInvert(image=photo))
row("from_batch", n.ImageFromBatch(image=pictures, batch_index=1, length=1), n.ImageFromBatch(image=pictures, batch_index=-1, length=2))
row("repeat", n.RepeatImageBatch(image=photo, amount=3))
row("crop", odd, n.ImageCrop(image=photo, x=40, y=30, width=64, height=64))
for mode in ("normal", "multiply", "screen", "overlay", "soft_light", "difference"):
    row(f"blend_{mode}", n.ImageBlend(image1=photo, image2=n.ImageRotate(image=n.ImageInvert(image=photo), rotation="180 degrees"),
        blend_factor=0.6, blend_mode=mode))
row("blend_sizes", n.ImageBlend(image1=photo, image2=odd, blend_factor=0.5, blend_mode="normal"))
row("flip_image", n.ImageFlip(image=photo, flip_method="x-axis: vertically"), n.ImageFlip(image=photo, flip_method="y-axis: horizontally"))
row("rotate_image", *(n.ImageRotate(image=photo, rotation=r) for r in ("none", "90 degrees", "180 degrees", "270 degrees")))
row("invert", n.ImageInvert(image=photo))
padded = n.ImagePadForOutpaint(image=photo, left=8, top=16, right=24, bottom=0, feathering=12)
row("pad", padded, n.MaskToImage(mask=padded[1]))
row("pad_plain", *(n.MaskToImage(mask=n.ImagePadForOutpaint(image=photo, left=0, top=0, right=16, bottom=8, feathering=f)[1]) for f in (0, 40)))
row("composite", n.ImageCompositeMasked(destination=photo, source=odd, x=20, y=25, resize_source=False),
    n.ImageCompositeMasked(destination=photo, source=odd, x=40, y=35, resize_source=False, mask=shape),
    n.ImageCompositeMasked(destination=photo, source=odd, x=0, y=0, resize_source=True, mask=n.InvertMask(mask=shape)))
row("composite_batch", n.ImageCompositeMasked(destination=pictures, source=odd, x=5, y=5, resize_source=False, mask=pair))
alpha = n.SplitImageWithAlpha(image=n.JoinImageWithAlpha(image=photo, alpha=shape))
row("alpha", n.JoinImageWithAlpha(image=photo, alpha=shape), alpha, n.MaskToImage(mask=alpha[1]))
row("channels", *(n.MaskToImage(mask=n.ImageToMask(image=photo, channel=c)) for c in ("red", "green", "blue")),
    n.MaskToImage(mask=n.ImageToMask(image=n.JoinImageWithAlpha(image=photo, alpha=shape), channel="alpha")))
row("colour_mask", n.MaskToImage(mask=n.ImageColorToMask(image=n.EmptyImage(width=8, height=8, batch_size=1, color=0x102030), color=0x102030)))
row("solid", n.MaskToImage(mask=n.SolidMask(value=0.37, width=20, height=12)))
row("crop_mask", n.MaskToImage(mask=n.CropMask(mask=shape, x=5, y=6, width=20, height=13)),
    n.MaskToImage(mask=n.CropMask(mask=shape, x=30, y=30, width=50, height=50)))
for operation in ("multiply", "add", "subtract", "and", "or", "xor"):
    row(f"mask_{operation}", n.MaskToImage(mask=n.MaskComposite(destination=shape, source=corner, x=10, y=4, operation=operation)))
row("feather", n.MaskToImage(mask=n.FeatherMask(mask=n.SolidMask(value=1.0, width=40, height=30), left=10, top=4, right=0, bottom=17)))
row("grow", *(n.MaskToImage(mask=n.GrowMask(mask=disc, expand=e, tapered_corners=t)) for e in (3, -2) for t in (True, False)))
row("threshold", n.MaskToImage(mask=disc))

# ---- numbers and words ---------------------------------------------------------------------------------------------------

section("Numbers and words")
size = n.GetImageSize(image=photo)
row("size_of", n.EmptyImage(width=size, height=size[1], batch_size=size[2], color=0x808080))
words = n.StringConcatenate(string_a="a red", string_b="circle", delimiter=" ")
row("words", drawn(positive=text(n.StringReplace(string=words, find="red", replace="blue"))))
row("primitives", drawn(steps=n.PrimitiveInt(value=3), cfg=n.PrimitiveFloat(value=2.5), positive=text(n.PrimitiveString(value="a cat")),
                        negative=text(n.PrimitiveStringMultiline(value="two\nlines"))))
row("primitive_boolean", decoded(custom(basic, add_noise=n.PrimitiveBoolean(value=True))))

# ---- lists and switches --------------------------------------------------------------------------------------------------

section("Lists and switches")


def listed(*items):
    return n.CreateList(**{f"inputs.input{i}": item for i, item in enumerate(items)})


def numbers(*values):
    return listed(*(n.PrimitiveInt(value=v) for v in values))


def scaled(image, by):
    return n.ImageScaleBy(image=image, upscale_method="nearest-exact", scale_by=by)


def switched(on, on_false, on_true):
    return n.ComfySwitchNode(**{"switch": on, "on_false": on_false, "on_true": on_true})


colours = numbers(0xFF0000, 0x00FF00, 0x0000FF, 0x808080)
row("list_equal", n.EmptyImage(width=numbers(8, 16, 24, 32), height=12, batch_size=1, color=colours))
row("list_shorter_repeats", n.EmptyImage(width=numbers(8, 16), height=numbers(8, 12, 20), batch_size=1, color=colours))
row("list_of_lists", n.ImageInvert(image=listed(photo, listed(odd, listed(square, photo)), odd)))
row("list_written_backwards", n.ImageInvert(image=n.CreateList(**{"inputs.input1": odd, "inputs.input0": photo, "inputs.input2": square})))
row("list_of_ten", n.EmptyImage(width=numbers(*range(8, 18)), height=8, batch_size=1, color=255))
row("list_and_batch", n.ImageScale(image=listed(n.RepeatImageBatch(image=photo, amount=2), odd), upscale_method="area", width=numbers(16, 32, 48), height=16,
                                   crop="disabled"))
five = listed(n.RepeatImageBatch(image=square, amount=2), n.ImageInvert(image=square), n.RepeatImageBatch(image=square, amount=2))
row("list_taken_whole", *(n.RebatchImages(images=five, batch_size=b) for b in (1, 2, 3, 9)))
singles = n.RebatchImages(images=n.ImageBatch(image1=square, image2=n.ImageInvert(image=square)), batch_size=1)
row("list_of_a_batch", scaled(singles, listed(n.PrimitiveFloat(value=0.5), n.PrimitiveFloat(value=2.0), n.PrimitiveFloat(value=0.25))))
row("list_there_and_back", n.RebatchImages(images=n.ImageInvert(image=singles), batch_size=4))
row("list_two_outputs", n.EmptyImage(width=n.GetImageSize(image=listed(photo, odd)), height=n.GetImageSize(image=listed(odd, photo, square))[1], batch_size=1,
                                     color=255))
prompts = listed(n.PrimitiveString(value="a red circle"), n.PrimitiveString(value="a green square"), n.PrimitiveString(value="a dog"))
row("list_of_prompts", drawn(positive=text(prompts), seed=numbers(1, 2)))
row("switch", *(switched(on, photo, odd) for on in (True, False)))
row("switch_wired", switched(n.PrimitiveBoolean(value=True), scaled(photo, 0.5), scaled(photo, 2.0)))
row("switch_of_switches", switched(False, switched(True, odd, square), switched(False, photo, odd)))
row("switch_of_lists", switched(listed(n.PrimitiveBoolean(value=True), n.PrimitiveBoolean(value=False), n.PrimitiveBoolean(value=True)),
                                listed(photo, odd), square))
row("switch_of_a_list_and_one", switched(True, listed(photo, odd), square), switched(False, listed(photo, odd), square))

nearest("sampler_dpm_fast", "basic_denoise", "align_sdxl_denoise", "gits_denoise", "optimal_steps_chroma", "first_sigma", "percent", "node_dpm_adaptative",
        "node_seeds_2")
noise_of_the_cpu("sampler_dpmpp_sde_gpu", "sampler_dpmpp_2m_sde_gpu", "sampler_dpmpp_2m_sde_heun_gpu", "sampler_dpmpp_3m_sde_gpu", "node_dpmpp_sde_gpu")

import rows_models  # noqa: E402,F401: whole models
import rows_control  # noqa: E402,F401: ControlNets
import rows_sd  # noqa: E402,F401: further rows, made of what is above
import rows_lora  # noqa: E402,F401: patches of every kind
import rows_patches  # noqa: E402,F401
import rows_upscale  # noqa: E402,F401: upscalers
import rows_save  # noqa: E402,F401
import rows_attention  # noqa: E402,F401
import rows_windows  # noqa: E402,F401
import rows_hooks  # noqa: E402,F401: hooks of conditionings
import rows_gligen  # noqa: E402,F401: boxes with texts
import rows_guidance  # noqa: E402,F401: guidance along a batch, with an operation, of a length
import rows_vision  # noqa: E402,F401: pictures that are shown to a model
import rows_image  # noqa: E402,F401: pictures, masks and texts alone
