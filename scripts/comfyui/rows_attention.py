"""Further prompts of `make parity-comfyui`: guidance that looks at attention, and its neighbours."""

from rows import both, drawn, empty, masked, model, row, section, shape, yes
from rows_patches import with_each
from graph import n

section("Model patches: SAG, Epsilon Scaling")


def sag(**changes):
    return n.SelfAttentionGuidance(**{"model": model, "scale": 0.5, "blur_sigma": 2.0, **changes})


with_each("sag", sag())
row("sag_numbers", drawn(model=sag(scale=-1.0, blur_sigma=0.7)), drawn(model=sag(scale=2.0, blur_sigma=10.0), latent_image=empty(72, 104)))
row("sag_cfg_1", drawn(model=sag(scale=1.0), cfg=1.0))
row("sag_small", drawn(model=sag(), latent_image=empty(32, 56)))
row("sag_free_u", drawn(model=sag(model=n.FreeU(model=model, b1=1.1, b2=1.2, s1=0.9, s2=0.2))))
row("sag_masked", drawn(model=sag(), positive=both(yes, masked(shape)), latent_image=empty(128, 128), steps=2))


def scaled(factor, of=model):
    return getattr(n, "Epsilon Scaling")(model=of, scaling_factor=factor)


with_each("epsilon_scaling", scaled(1.005))
row("epsilon_scaling_numbers", *(drawn(model=scaled(factor)) for factor in (0.97, 1.05, 1.0)), drawn(model=sag(model=scaled(1.02))))
