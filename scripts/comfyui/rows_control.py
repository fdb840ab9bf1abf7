"""Prompts of `make parity-comfyui` with ControlNets. rows.py imports this file when it has all that is used here."""

from graph import n
from rows import FILE, both, decoded, drawn, empty, model, no, noise, photo, resized, row, section, square, third, yes

section("ControlNet")
edges = n.ControlNetLoader(control_net_name="edges.safetensors")
lines = n.ControlNetLoader(control_net_name="lines.safetensors")


def applied(positive=yes, negative=no, net=edges, image=square, strength=1.0, start=0.0, end=1.0):
    return n.ControlNetApplyAdvanced(positive=positive, negative=negative, control_net=net, image=image, strength=strength, start_percent=start, end_percent=end)


def with_two(on, **changes):
    return drawn(positive=on, negative=on[1], **changes)


row("controlnet", with_two(applied()), with_two(applied(strength=0.35)), with_two(applied(strength=0.0)))
row("controlnet_range", with_two(applied(start=0.3, end=0.7), steps=6), with_two(applied(end=0.5)), with_two(applied(start=0.6)))
first = applied()
row("controlnet_two", with_two(applied(first, first[1], lines, n.ImageInvert(image=square), 0.6)))
row("controlnet_two_ranges", with_two(applied(applied(end=0.5), applied(end=0.5)[1], lines, square, 0.8, 0.4), steps=6))
row("controlnet_one_side", drawn(positive=applied(), negative=no))
old = n.ControlNetApply(conditioning=yes, control_net=edges, image=square, strength=0.9)
row("controlnet_old", drawn(positive=old), drawn(positive=old, negative=n.ControlNetApply(conditioning=no, control_net=lines, image=photo, strength=0.5)))
row("controlnet_old_combined", drawn(positive=both(old, third)), drawn(positive=both(old, n.ControlNetApply(conditioning=third, control_net=lines, image=square, strength=0.5))))
row("controlnet_hint_sizes", with_two(applied(image=photo), latent_image=empty(96, 64), steps=2), with_two(applied(image=photo), latent_image=empty(64, 104), steps=2),
    with_two(applied(image=resized(photo, "area", 201, 77)), steps=2))
row("controlnet_batch", with_two(applied(image=n.ImageBatch(image1=square, image2=n.ImageInvert(image=square))), latent_image=empty(64, 64, 2), steps=2))
row("controlnet_shuffle", with_two(applied(net=n.ControlNetLoader(control_net_name="lines_shuffle.safetensors"))))
difference = n.DiffControlNetLoader(model=model, control_net_name="difference.safetensors")
row("controlnet_difference", with_two(applied(net=difference)), with_two(applied(net=n.DiffControlNetLoader(model=model, control_net_name="edges.safetensors"))))
row("controlnet_lora", with_two(applied(net=n.ControlNetLoader(control_net_name="control_lora.safetensors"))),
    with_two(applied(net=n.ControlNetLoader(control_net_name="control_lora.safetensors"), strength=0.5), model=n.LoraLoaderModelOnly(model=model, lora_name=FILE, strength_model=0.7)))
row("controlnet_type_auto", with_two(applied(net=n.SetUnionControlNetType(control_net=edges, type="auto")), steps=2))
row("controlnet_guider", decoded(n.SamplerCustomAdvanced(
    noise=noise, sampler=n.KSamplerSelect(sampler_name="heun"), sigmas=n.BasicScheduler(model=model, scheduler="simple", steps=3, denoise=1.0), latent_image=empty(),
    guider=n.DualCFGGuider(model=model, cond1=applied(), cond2=third, negative=applied()[1], cfg_conds=3.0, cfg_cond2_negative=1.5, style="regular"))))
