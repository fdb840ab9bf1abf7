"""Further prompts of `make parity-comfyui`: an unCLIP that is shown pictures, by the vision encoder of its own checkpoint."""

from graph import n
from rows import photo, resized, row, section, square
from rows_models import drawn, text
from vision_files import NAME

section("image prompts")
whole = n.unCLIPCheckpointLoader(ckpt_name=NAME)
parts = whole, whole[1], whole[2]
yes, no = text(whole[1], "a cat"), text(whole[1], "blurry")


def shown(image, strength=1.0, noise=0.0, crop="center", on=yes):
    seen = n.CLIPVisionEncode(clip_vision=whole[3], image=image, crop=crop)
    return n.unCLIPConditioning(conditioning=on, clip_vision_output=seen, strength=strength, noise_augmentation=noise)


row("unclip", drawn(parts, shown(photo), no), drawn(parts, shown(photo, 0.7, crop="none"), no))
row("unclip_noise", drawn(parts, shown(photo, noise=0.3), no), drawn(parts, shown(photo, noise=1.0), no))
row("unclip_two", drawn(parts, shown(square, 0.5, 0.1, on=shown(photo)), no))
row("unclip_several", drawn(parts, shown(n.ImageBatch(image1=square, image2=n.ImageInvert(image=square))), shown(square, -1.0, on=no)))
row("unclip_sizes", drawn(parts, shown(resized(photo, "area", 301, 97)), no), drawn(parts, shown(resized(photo, "bilinear", 224, 224)), no))
row("unclip_not_shown", drawn(parts, shown(photo, 0.0), no))
