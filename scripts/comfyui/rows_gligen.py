"""Further prompts of `make parity-comfyui`: GLIGEN's boxes."""

from gligen_files import NAME
from graph import n
from rows import both, clip, drawn, empty, no, row, section, third, yes

section("GLIGEN")
gligen = n.GLIGENLoader(gligen_name=NAME)


def boxed(on, text, width, height, x, y):
    return n.GLIGENTextBoxApply(conditioning_to=on, clip=clip, gligen_textbox_model=gligen, text=text, width=width, height=height, x=x, y=y)


cat = boxed(yes, "a cat", 32, 40, 8, 16)
two = boxed(cat, "a (blue:1.3) house", 24, 16, 40, 0)
row("gligen", drawn(positive=cat), drawn(positive=two), drawn(positive=boxed(yes, "", 200, 8, 0, 56)))
row("gligen_sides", drawn(positive=two, negative=boxed(no, "a dog", 64, 64, 0, 0)), drawn(negative=boxed(no, "a dog", 64, 64, 0, 0)), drawn(positive=cat, cfg=1.0))
row("gligen_sizes", drawn(positive=two, latent_image=empty(96, 64, 2), steps=2))
row("gligen_combined", drawn(positive=both(two, third)), drawn(positive=both(cat, boxed(third, "a tree", 16, 64, 48, 0))))
part = n.ConditioningSetArea(conditioning=cat, width=64, height=64, x=32, y=0, strength=1.0)
row("gligen_area", drawn(positive=both(yes, part), latent_image=empty(128, 64), steps=2))
