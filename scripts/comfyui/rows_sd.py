"""Further prompts of `make parity-comfyui`: the jobs of the Stable Diffusion family. rows.py imports this file when it has all that is used here."""

from rows import (
    FILE, METHODS, advanced, basic, both, cat, checkpoint, clip, custom, decoded, dog, drawn, empty, encoded, model, nearest, no, noise, otherwise, pair,
    patch, photo, prompt_of, resized, row, rows, section, several, shape, square, text, third, vae, wide, yes,
)
from graph import n

# ---- inpainting --------------------------------------------------------------------------------------------------------

section("Inpainting and outpainting")


def differential(strength=1.0):
    return n.DifferentialDiffusion(model=model, strength=strength)


soft = n.SetLatentNoiseMask(samples=cat, mask=n.FeatherMask(mask=n.SolidMask(value=1.0, width=64, height=64), left=40, top=16, right=0, bottom=0))
row("differential", drawn(model=differential(), latent_image=soft, steps=6), drawn(model=differential(), latent_image=soft, steps=6, denoise=0.6))
row("differential_strength", *(drawn(model=differential(s), latent_image=soft, steps=4) for s in (0.0, 0.35)))
row("differential_samplers", *(drawn(model=differential(), latent_image=soft, sampler_name=s) for s in ("heun", "dpmpp_2m", "euler_ancestral", "ddim")))
row("differential_normal", drawn(model=differential(), latent_image=soft, scheduler="normal"))
row("differential_karras", drawn(model=differential(), latent_image=soft, scheduler="karras", steps=5))
row("differential_part", decoded(advanced(model=differential(), latent_image=soft, start_at_step=1, end_at_step=4)))
row("differential_batch", drawn(model=differential(0.8), latent_image=n.SetLatentNoiseMask(samples=n.LatentBatch(samples1=cat, samples2=dog), mask=pair)))
row("differential_no_mask", drawn(model=differential(), latent_image=cat, denoise=0.5))


def inpainting(image=square, mask=patch, noise_mask=True):
    return n.InpaintModelConditioning(positive=yes, negative=no, vae=vae, pixels=image, mask=mask, noise_mask=noise_mask)


def with_three(conditioned, **changes):
    return drawn(positive=conditioned, negative=conditioned[1], latent_image=conditioned[2], **changes)


odd = resized(photo, "area", 77, 67)
row("inpaint_conditioning", with_three(inpainting()), with_three(inpainting(noise_mask=False), denoise=0.6))
row("inpaint_conditioning_odd", with_three(inpainting(odd, shape), denoise=0.8), decoded(inpainting(odd, shape)[2]))
row("inpaint_conditioning_batch", with_three(inpainting(n.ImageBatch(image1=square, image2=n.ImageInvert(image=square)), pair), steps=2))
row("instruct", with_three(n.InstructPixToPixConditioning(positive=yes, negative=no, vae=vae, pixels=odd)))
row("instruct_guider", decoded(n.SamplerCustomAdvanced(
    noise=noise, sampler=n.KSamplerSelect(sampler_name="euler"), sigmas=basic, latent_image=n.InstructPixToPixConditioning(positive=yes, negative=no, vae=vae, pixels=square)[2],
    guider=n.DualCFGGuider(model=model, cond1=yes, cond2=third, negative=no, cfg_conds=3.0, cfg_cond2_negative=1.5, style="regular"))))
row("upscale_conditioning", *(with_three(n.SD_4XUpscale_Conditioning(images=i, positive=yes, negative=no, scale_ratio=s, noise_augmentation=0.2), steps=2)
                              for i, s in ((photo, 1.0), (n.ImageCrop(image=photo, x=0, y=0, width=35, height=30), 1.1))))
outside = n.ImagePadForOutpaint(image=resized(photo, "area", 64, 56), left=0, top=8, right=32, bottom=0, feathering=16)
row("outpaint", drawn(latent_image=n.VAEEncodeForInpaint(pixels=outside, vae=vae, mask=outside[1], grow_mask_by=6)),
    drawn(latent_image=n.SetLatentNoiseMask(samples=encoded(outside), mask=outside[1]), denoise=0.8))
row("outpaint_differential", drawn(model=differential(), latent_image=n.SetLatentNoiseMask(samples=encoded(outside), mask=outside[1]), steps=5))
row("inpaint_grown", drawn(latent_image=n.SetLatentNoiseMask(samples=cat, mask=n.GrowMask(mask=patch, expand=6, tapered_corners=True))))

# ---- pasted latents ----------------------------------------------------------------------------------------------------


def pasted(source=cat, onto=wide, **changes):
    return n.LatentCompositeMasked(**{"destination": onto, "source": source, "x": 24, "y": 8, "resize_source": False, **changes})


row("latent_composite_masked", decoded(pasted()), decoded(pasted(mask=shape)), decoded(pasted(mask=shape, x=84, y=60)))
row("latent_composite_masked_resized", decoded(pasted(mask=shape, resize_source=True, x=0, y=0)), decoded(pasted(resize_source=True, x=16, y=0)))
row("latent_composite_masked_batch", decoded(pasted(source=n.LatentBatch(samples1=cat, samples2=dog), onto=several, mask=pair, x=13, y=15)))
row("latent_composite_masked_outside", decoded(pasted(x=120, y=0)), decoded(pasted(x=4000, y=4000)))

# ---- two passes ----------------------------------------------------------------------------------------------------------

section("Two passes: hires fix, base and refiner")
first = n.KSampler(model=model, positive=yes, negative=no, latent_image=empty(72, 56), seed=11, steps=3, cfg=4.0, sampler_name="euler", scheduler="simple", denoise=1.0)
for method in (*METHODS, "bislerp"):
    row(f"hires_latent_{method}", drawn(latent_image=n.LatentUpscaleBy(samples=first, upscale_method=method, scale_by=1.53), denoise=0.55))
for method in (*METHODS, "lanczos"):
    larger = n.ImageScaleBy(image=decoded(first), upscale_method=method, scale_by=1.4)
    row(f"hires_image_{method}", drawn(latent_image=encoded(larger), denoise=0.5))
row("hires_odd", drawn(latent_image=n.LatentUpscale(samples=first, upscale_method="bilinear", width=104, height=88, crop="center"), denoise=0.6))
# a model of its own: ComfyUI has the weights of one LoRA at a time in a model
other = n.LoraLoaderModelOnly(model=n.UNETLoader(unet_name=FILE, weight_dtype="default"), lora_name=FILE, strength_model=0.8)
row("refine_by_denoise", drawn(model=other, latent_image=first, denoise=0.4, positive=third))
begun = advanced(end_at_step=4, return_with_leftover_noise="enable")
row("refine_leftover", decoded(advanced(model=other, positive=third, latent_image=begun, add_noise="disable", start_at_step=4)))
for sampler in ("heun", "dpm_2", "ddim"):
    half = advanced(end_at_step=2, return_with_leftover_noise="enable", sampler_name=sampler)
    row(f"refine_leftover_{sampler}", decoded(advanced(model=other, positive=third, latent_image=half, add_noise="disable", start_at_step=2, sampler_name=sampler)))


def in_range(conditioning, name):
    return n.ConditioningSetModelRange(conditioning=conditioning, model_range=name)


# ComfyUI in two stages, kiln in one sampling of two models
levels = n.BasicScheduler(model=model, scheduler="simple", steps=6, denoise=1.0)
handed = custom(n.SplitSigmas(sigmas=levels, step=4))
for name, ranged in (("refine_at_step", n.ModelRangeAtStep(model=model, other=other, sigmas=levels, start_at_step=4, name="refiner")),
                     ("refine_at_percent", n.ModelRange(model=model, other=other, start_percent=0.6, name="refiner"))):
    row(name, decoded(custom(n.SplitSigmas(sigmas=levels, step=4)[1], model=other, positive=third, latent_image=handed, add_noise=False)))
    at_once = custom(levels, model=ranged, positive=both(in_range(yes, "base"), in_range(third, "refiner")))
    otherwise[name] = prompt_of(n.SaveImage(images=decoded(at_once), filename_prefix=f"{name}_0")), f"kiln with `{ranged.kind}`"

# ---- at the edges --------------------------------------------------------------------------------------------------------

section("At the edges")
row("one_step", *(drawn(steps=1, sampler_name=s) for s in ("euler", "heun", "dpmpp_2m", "uni_pc", "dpm_2", "lms")))
row("no_denoise", drawn(denoise=0.0, latent_image=cat), drawn(denoise=0.0, latent_image=wide, sampler_name="dpmpp_2m_sde"))
row("little_denoise", drawn(denoise=0.01, steps=2, latent_image=cat))
row("starts_after_the_end", decoded(advanced(latent_image=cat, start_at_step=6)), decoded(advanced(latent_image=cat, start_at_step=9999)))
row("ends_before_the_start", decoded(advanced(latent_image=cat, start_at_step=4, end_at_step=2)), decoded(advanced(latent_image=cat, end_at_step=0)))
row("last_step_alone", decoded(advanced(latent_image=cat, start_at_step=5)))
row("sizes", drawn(latent_image=empty(20, 67), steps=2), drawn(latent_image=empty(135, 41), steps=2))
row("turbo_steps", *(decoded(custom(n.SDTurboScheduler(model=model, steps=s, denoise=1.0), cfg=1.0)) for s in (1, 4)))

nearest("differential_karras", "little_denoise")

# ---- filters ---------------------------------------------------------------------------------------------------------------

section("Filters")
row("canny", n.Canny(image=photo, low_threshold=0.4, high_threshold=0.8), n.Canny(image=square, low_threshold=0.1, high_threshold=0.2))
row("image_blur", n.ImageBlur(image=photo, blur_radius=4, sigma=0.6), n.ImageBlur(image=square, blur_radius=1, sigma=1.0))
row("image_sharpen", n.ImageSharpen(image=photo, sharpen_radius=2, sigma=0.8, alpha=0.3))
