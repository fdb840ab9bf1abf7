"""Further prompts of `make parity-comfyui`: hooks of conditionings with keyframes, on denoiser and text encoder, and default conditionings."""

from graph import n
from rows import FILE, alone, clip, drawn, model, no, row, section, shape, text, third, yes

section("Hooks of conditionings")
lora = n.CreateHookLora(lora_name=FILE, strength_model=1.0, strength_clip=0.8)
lokr = n.CreateHookLoraModelOnly(lora_name="lokr.safetensors", strength_model=0.7)
half = n.CreateHookKeyframe(strength_mult=1.0, start_percent=0.5, prev_hook_kf=n.CreateHookKeyframe(strength_mult=0.0, start_percent=0.0))


def hook_row(name, **changes):
    row(f"hook_{name}", drawn(**changes))
    alone[f"hook_{name}"] = "hooks"


def keyed(hooks, keyframes):
    return n.SetHookKeyframes(hooks=hooks, hook_kf=keyframes)


def props(cond, **more):
    return n.ConditioningSetProperties(**{"cond_NEW": cond, "strength": 1.0, "set_cond_area": "default", **more})


def pair(hooks, **more):
    return n.PairConditioningSetProperties(**{"positive_NEW": yes, "negative_NEW": no, "strength": 1.0, "set_cond_area": "default", "hooks": hooks, **more})


def both(pair_of, **changes):
    return {"positive": pair_of, "negative": pair_of[1], **changes}


def frames(how, first, last, count=4, **more):
    return n.CreateHookKeyframesInterpolated(**{"strength_start": first, "strength_end": last, "interpolation": how, "start_percent": 0.0,
                                                "end_percent": 1.0, "keyframes_count": count, "print_keyframes": False, **more})


hook_row("on_both", **both(pair(lora)))
hook_row("on_positive", positive=props(yes, hooks=lora))
hook_row("on_one_of_two_masks", positive=n.ConditioningSetPropertiesAndCombine(
    cond=props(yes, mask=n.InvertMask(mask=shape)), cond_NEW=third, strength=0.9, set_cond_area="default", mask=shape, hooks=lora))
hook_row("mask_bounds", positive=n.ConditioningSetPropertiesAndCombine(
    cond=yes, cond_NEW=third, strength=1.0, set_cond_area="mask bounds", mask=shape, hooks=lora))
hook_row("keyframes_at_half", steps=6, **both(pair(keyed(lora, half))))
hook_row("keyframes_heun", steps=4, sampler_name="heun", **both(pair(keyed(lora, half))))
hook_row("keyframes_late", steps=6, positive=props(yes, hooks=keyed(lora, n.CreateHookKeyframe(strength_mult=0.5, start_percent=0.4))))
for how in ("linear", "ease_in", "ease_out", "ease_in_out"):
    hook_row(f"interpolated_{how}", steps=6, **both(pair(keyed(lora, frames(how, 0.0, 1.0)))))
hook_row("interpolated_down", steps=7, scheduler="karras", **both(pair(keyed(lora, frames("linear", 1.5, 0.0, 9, start_percent=0.1, end_percent=0.8)))))
crowd = n.CreateHookKeyframe(strength_mult=0.9, start_percent=0.3)
for strength, start in ((0.2, 0.31), (0.7, 0.32), (-0.4, 0.33)):
    crowd = n.CreateHookKeyframe(strength_mult=strength, start_percent=start, prev_hook_kf=crowd)
hook_row("keyframes_that_stay", steps=8, **both(pair(keyed(lora, crowd))))
hook_row("keyframes_part_of_the_way", steps=4, denoise=0.6, **both(pair(keyed(lora, frames("linear", 0.0, 1.0, 6)))))
hook_row("two", **both(pair(n.CombineHooks2(hooks_A=lora, hooks_B=lokr))))
hook_row("two_behind_another", **both(pair(n.CreateHookLoraModelOnly(lora_name="loha.safetensors", strength_model=-0.6, prev_hooks=keyed(lokr, half)))))
hook_row("two_schedules", steps=5, positive=props(yes, hooks=keyed(lora, half)), negative=props(no, hooks=keyed(lokr, frames("linear", 1.0, 0.2, 3))))
hook_row("on_a_patched_model", model=n.LoraLoaderModelOnly(model=model, lora_name="loha.safetensors", strength_model=0.5), **both(pair(keyed(lora, half))))
other = n.CreateHookModelAsLora(ckpt_name="hooked.safetensors", strength_model=0.6, strength_clip=0.5)
hook_row("model_as_lora", **both(pair(other)))
hook_row("model_as_lora_model_only", **both(pair(keyed(n.CreateHookModelAsLoraModelOnly(ckpt_name="hooked.safetensors", strength_model=1.0), half))))
hook_row("model_as_lora_after_lora", **both(pair(n.CombineHooks4(hooks_B=lora, hooks_D=other))))
for apply, schedule in ((True, False), (False, False), (True, True), (False, True)):
    hooked = n.SetClipHooks(clip=clip, apply_to_conds=apply, schedule_clip=schedule, hooks=keyed(lora, frames("linear", 0.0, 1.0, 3)))
    hook_row(f"clip{'_apply' * apply}{'_schedule' * schedule}", steps=6, positive=text("a (red:1.2) circle on the left", hooked), negative=text("blurry, grey", hooked))
hooked = n.CLIPSetLastLayer(clip=n.SetClipHooks(clip=clip, apply_to_conds=True, schedule_clip=True, hooks=n.CombineHooks2(hooks_A=keyed(lora, half), hooks_B=other)),
                            stop_at_clip_layer=-2)
hook_row("clip_two", steps=5, positive=text("a cat", hooked), negative=text("", hooked))
hook_row("default", positive=n.ConditioningSetDefaultCombine(cond=props(yes, mask=shape, strength=0.8), cond_DEFAULT=third, hooks=lora))
hook_row("default_alone", positive=n.ConditioningSetDefaultCombine(cond=yes, cond_DEFAULT=third))
default = n.PairConditioningSetDefaultCombine(positive=props(yes, mask=shape), negative=props(no, mask=shape), positive_DEFAULT=third, negative_DEFAULT=text("dark"),
                                              hooks=keyed(lora, half))
hook_row("default_pair", steps=5, **both(default))
parts = n.ConditioningTimestepsRange(start_percent=0.3, end_percent=0.7)
begun = pair(lora, timesteps=parts[1])
middle = n.PairConditioningSetPropertiesAndCombine(positive=begun, negative=begun[1], positive_NEW=third, negative_NEW=no, strength=1.0,
                                                   set_cond_area="default", timesteps=parts)
ended = pair(keyed(lokr, half), timesteps=parts[2])
hook_row("ranges", steps=7, **both(n.PairConditioningCombine(positive_A=middle, negative_A=middle[1], positive_B=ended, negative_B=ended[1])))
