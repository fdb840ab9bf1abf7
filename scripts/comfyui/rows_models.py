"""The prompts of whole models: SD2.1, SDXL, its refiner, SSD-1B, inpainting models and instruct-pix2pix.

Each row is drawn twice over: with a cut-down UNet always (model.py: CUT), and with the full-size model by `--full`. The same functions
make both; the full ones carry the family's file and a picture of 512x512 more. Their schedules keep to entries of the training table, for
between them ComfyUI tells the network the nearest entry (docs/numerics.md), which v-prediction shows: 0.4 of 255. `alone` says which rows share a process of ComfyUI, so
that not all models lie in memory at once; `full` is {group: (families whose files it needs, rows)}.
"""

from graph import n, prompt_of
from rows import alone, photo, resized, row, rows, section, shape, square

LONG = "a red circle to the left of a blue square, " * 8  # about 100 tokens
full = {}


def text(clip, words):
    return n.CLIPTextEncode(clip=clip, text=words)


def xl_text(clip, words, other=None, crop=(0, 0), size=(1024, 1024), target=(1024, 1024)):
    return n.CLIPTextEncodeSDXL(clip=clip, width=size[0], height=size[1], crop_w=crop[0], crop_h=crop[1], target_width=target[0],
                                target_height=target[1], text_g=words, text_l=words if other is None else other)


def refiner_text(clip, words, score=6.0, width=1024, height=1024):
    return n.CLIPTextEncodeSDXLRefiner(ascore=score, width=width, height=height, text=words, clip=clip)


def empty(width=128, height=64, batch=1):
    return n.EmptyLatentImage(width=width, height=height, batch_size=batch)


def drawn(parts, positive, negative, latent=None, **changes):
    model, _, vae = parts
    sampling = {"model": model, "positive": positive, "negative": negative, "latent_image": latent or empty(), "seed": 21, "steps": 3, "cfg": 4.0,
                "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0, **changes}
    return n.VAEDecode(samples=n.KSampler(**sampling), vae=vae)


def stage(parts, positive, negative, latent, **changes):
    """KSamplerAdvanced: a LATENT."""
    sampling = {"model": parts[0], "add_noise": "enable", "noise_seed": 22, "steps": 4, "cfg": 4.0, "sampler_name": "euler", "scheduler": "simple",
                "positive": positive, "negative": negative, "latent_image": latent, "start_at_step": 0, "end_at_step": 10000,
                "return_with_leftover_noise": "disable", **changes}
    return n.KSamplerAdvanced(**sampling)


def checkpoint(file):
    loader = n.CheckpointLoaderSimple(ckpt_name=file)
    return loader, loader[1], loader[2]


def with_unet(parts, file):
    """A UNet of its own beside another checkpoint's text encoders and VAE."""
    return n.UNETLoader(unet_name=file, weight_dtype="default"), parts[1], parts[2]


# ---- what is drawn with a model of each kind: {name: picture} -----------------------------------------------------------------


def plain(parts):
    _, clip, vae = parts
    skipped = n.CLIPSetLastLayer(clip=clip, stop_at_clip_layer=-3)
    first = n.CLIPSetLastLayer(clip=clip, stop_at_clip_layer=-1)
    no = text(clip, "blurry, grey")
    return {
        "text": drawn(parts, text(clip, "a (red:1.2) circle on the left"), no),
        "long": drawn(parts, text(clip, LONG), no),
        "skip_1": drawn(parts, text(first, "a cat"), text(first, "")),
        "skip_3": drawn(parts, text(skipped, "a cat (on a mat:1.3)"), no),
        "picture": drawn(parts, text(clip, "a cat"), no, n.VAEEncode(pixels=square, vae=vae), denoise=0.6, sampler_name="dpmpp_2m", scheduler="beta"),
        "batch": drawn(parts, text(clip, "a cat"), no, empty(64, 64, 2), sampler_name="euler_ancestral"),
    }


def sdxl(parts):
    clip = parts[1]
    no = xl_text(clip, "blurry, grey")
    return {
        **plain(parts),
        "sizes": drawn(parts, xl_text(clip, "a cat", "a dog", crop=(64, 128), size=(1344, 768), target=(640, 1536)), no),
        "sizes_zero": drawn(parts, xl_text(clip, "a cat", crop=(0, 8), size=(0, 4096), target=(0, 0)), no),
        "two_texts": drawn(parts, xl_text(clip, LONG, "a dog"), xl_text(clip, "", LONG)),
    }


def refiner(parts):
    clip, vae = parts[1:]
    latent = n.VAEEncode(pixels=square, vae=vae)
    no = refiner_text(clip, "blurry, grey", 2.5)
    return {
        "text": drawn(parts, text(clip, "a (red:1.2) circle on the left"), text(clip, "blurry")),
        "score": drawn(parts, refiner_text(clip, "a cat", 7.3, 832, 1216), no),
        "long": drawn(parts, refiner_text(clip, LONG, 6.0), no),
        "picture": drawn(parts, refiner_text(clip, "a cat"), no, latent, denoise=0.4, steps=2),
    }


def both(base, fine):
    """Base and refiner over one latent, handed over with its noise."""
    words, no = xl_text(base[1], "a red circle"), xl_text(base[1], "blurry")
    fine_words, fine_no = refiner_text(fine[1], "a red circle"), refiner_text(fine[1], "blurry", 2.5)

    def pair(split, **changes):
        first = stage(base, words, no, empty(), end_at_step=split, return_with_leftover_noise="enable", **changes)
        second = stage(fine, fine_words, fine_no, first, add_noise="disable", start_at_step=split, **changes)
        return n.VAEDecode(samples=second, vae=fine[2])

    return {"split": pair(3), "split_early": pair(1, sampler_name="dpmpp_2m", scheduler="beta")}


def inpaint(parts):
    _, clip, vae = parts
    yes, no = text(clip, "a red circle"), text(clip, "blurry")
    mask = n.SolidMask(value=1.0, width=32, height=24)
    patch = n.MaskComposite(destination=n.SolidMask(value=0.0, width=64, height=64), source=mask, x=16, y=24, operation="add")

    def conditioned(pixels, mask, noise_mask, **changes):
        made = n.InpaintModelConditioning(positive=yes, negative=no, vae=vae, pixels=pixels, mask=mask, noise_mask=noise_mask)
        return drawn(parts, made, made[1], made[2], **changes)

    return {
        "mask": conditioned(square, patch, True),
        "no_noise_mask": conditioned(square, patch, False),
        "soft": conditioned(resized(photo, "area", 77, 67), shape, True, denoise=0.8),
        "without": drawn(parts, yes, no),
        "hole": drawn(parts, yes, no, n.VAEEncodeForInpaint(pixels=square, vae=vae, mask=patch, grow_mask_by=6)),
    }


def ip2p(parts):
    _, clip, vae = parts

    def conditioned(pixels, **changes):
        made = n.InstructPixToPixConditioning(positive=text(clip, "make it red"), negative=text(clip, ""), vae=vae, pixels=pixels)
        return drawn(parts, made, made[1], made[2], **changes)

    return {"edit": conditioned(square), "odd": conditioned(resized(photo, "area", 77, 67), cfg=7.0)}


# ---- cut-down -------------------------------------------------------------------------------------------------------------------


def cut(group, name, pictures):
    for word, picture in pictures.items():
        row(f"{name}_{word}", picture)
        alone[f"{name}_{word}"] = group


SD15, SD21, SDXL, REFINER = (checkpoint(file + ".safetensors") for file in ("parity", "sd21", "sdxl", "refiner"))
section("SD2.1, cut down")
cut("sd21", "sd21", plain(SD21))
cut("sd21", "sd21_eps", {"text": drawn(with_unet(SD21, "sd21_eps.safetensors"), text(SD21[1], "a cat"), text(SD21[1], "blurry"))})
section("SDXL, SSD-1B and refiner, cut down")
cut("sdxl", "sdxl", sdxl(SDXL))
cut("sdxl", "ssd1b", {"sizes": drawn(with_unet(SDXL, "ssd1b.safetensors"), xl_text(SDXL[1], "a cat"), xl_text(SDXL[1], "blurry"))})
cut("refiner", "refiner", refiner(REFINER))
cut("sdxl and refiner", "sdxl_refiner", both(SDXL, REFINER))
section("Inpainting and pix2pix models, cut down")
cut("inpaint", "inpaint_model", inpaint(with_unet(SD15, "inpaint.safetensors")))
cut("inpaint", "ip2p", ip2p(with_unet(SD15, "ip2p.safetensors")))


# ---- full size ------------------------------------------------------------------------------------------------------------------


def prompts_of(name, pictures):
    return {f"full_{name}_{word}": prompt_of(n.SaveImage(images=picture, filename_prefix=f"full_{name}_{word}_0")) for word, picture in pictures.items()}


def whole(family, draw):
    """The rows of one full-size checkpoint, and one of 512x512."""
    parts = checkpoint(family + ".safetensors")
    clip = parts[1]
    large = drawn(parts, text(clip, "a red circle"), text(clip, "blurry"), empty(512, 512), steps=2)
    full[family] = [family], prompts_of(family, {**draw(parts), "512": large})


whole("sd15", plain)
whole("sd21", plain)
whole("sd21-eps", lambda parts: {"text": plain(parts)["text"]})
whole("sdxl", sdxl)
whole("ssd1b", lambda parts: {name: picture for name, picture in sdxl(parts).items() if name in ("text", "sizes")})
whole("refiner", refiner)
whole("sd15-inpaint", inpaint)
whole("ip2p", ip2p)


def controlled(parts, net, other=None):
    """With a ControlNet of the family, and with two of them in ranges of their own."""
    clip = parts[1]
    yes, no, hint = text(clip, "a red circle"), text(clip, "blurry"), resized(photo, "bilinear", 128, 64)

    def applied(positive, negative, name, **changes):
        numbers = {"strength": 0.9, "start_percent": 0.0, "end_percent": 1.0, **changes}
        return n.ControlNetApplyAdvanced(positive=positive, negative=negative, control_net=n.ControlNetLoader(control_net_name=name), image=hint, **numbers)

    one = applied(yes, no, net)
    found = {"control": drawn(parts, one, one[1])}
    if other:
        two = applied(one, one[1], other, strength=0.5, end_percent=0.6)
        found["two_controls"] = drawn(parts, two, two[1], steps=5)
        found["control_512"] = drawn(parts, one, one[1], empty(512, 512), steps=2)
    return found


full["sd15 with ControlNets"] = ["sd15"], prompts_of("sd15", controlled(checkpoint("sd15.safetensors"), "edges.safetensors", "lines.safetensors"))
full["sdxl with a ControlNet"] = ["sdxl"], prompts_of("sdxl", controlled(checkpoint("sdxl.safetensors"), "edges.safetensors"))
full["sdxl and refiner"] = ["sdxl", "refiner"], prompts_of("sdxl_refiner", both(checkpoint("sdxl.safetensors"), checkpoint("refiner.safetensors")))
