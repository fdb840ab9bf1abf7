"""Further prompts of `make parity-comfyui`: a batch that is evaluated in windows of pictures."""

from rows import both, drawn, empty, masked, model, no, row, section, shape, text, third, yes
from graph import n

section("Context windows")

SIX = empty(64, 64, batch=6)


def windowed(of=model, **changes):
    numbers = {"context_length": 4, "context_overlap": 1, "context_schedule": "standard_static", "context_stride": 1, "closed_loop": False,
               "fuse_method": "pyramid", "dim": 0, "freenoise": False, "cond_retain_index_list": "", "split_conds_to_windows": False,
               "latent_retain_index_list": "", "causal_window_fix": True}
    return n.ContextWindowsManual(model=of, **{**numbers, **changes})


def six(patched, **changes):
    return drawn(model=patched, latent_image=SIX, steps=3, **changes)


# Pictures do not see one another here, so what shows a window is a prompt for each, noise that is exchanged and latents that are kept.
three = both(both(yes, third), text("a blue ring"))
for schedule in ("standard_static", "standard_uniform", "looped_uniform", "batched"):
    row(f"windows_{schedule}", six(windowed(context_schedule=schedule, split_conds_to_windows=True), positive=three))
for fuse in ("relative", "flat", "overlap-linear"):
    row(f"windows_{fuse.replace('-', '_')}", six(windowed(fuse_method=fuse, context_overlap=2, split_conds_to_windows=True), positive=three))
row("windows_closed_loop", six(windowed(context_schedule="looped_uniform", closed_loop=True, split_conds_to_windows=True), positive=three,
                               sampler_name="heun"))
row("windows_stride", six(windowed(context_schedule="looped_uniform", context_length=3, context_stride=2, split_conds_to_windows=True), positive=three))
row("windows_freenoise", six(windowed(freenoise=True)), six(windowed(freenoise=True, context_length=3, context_overlap=0), sampler_name="dpm_2"))
row("windows_retained", six(windowed(latent_retain_index_list="0", cond_retain_index_list="0")), six(windowed(latent_retain_index_list="1, 0", causal_window_fix=False)))
row("windows_alone", drawn(model=windowed(causal_window_fix=False), latent_image=empty(64, 64, batch=4), steps=2))
row("windows_pag", six(windowed(n.PerturbedAttentionGuidance(model=model, scale=2.0), split_conds_to_windows=True), positive=three, negative=both(no, third)))

# Inputs that all checkouts have: the pictures are those without windows.
for schedule, fuse in (("standard_static", "pyramid"), ("standard_uniform", "relative"), ("looped_uniform", "flat"), ("batched", "overlap-linear")):
    row(f"windows_plain_{schedule}", six(windowed(context_schedule=schedule, fuse_method=fuse, context_overlap=2, causal_window_fix=False), positive=both(yes, masked(shape))))
