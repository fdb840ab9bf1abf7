"""Further prompts of `make parity-comfyui`: guidance that differs along a batch, has an operation in it, or a length; a configuration; boxes as values."""

from graph import n
from rows import FILE, decoded, drawn, empty, model, photo, row, section, text

section("Guidance along a batch, with an operation, of a length")
sharp, tone = n.LatentOperationSharpen(sharpen_radius=3, sigma=1.0, alpha=0.2), n.LatentOperationTonemapReinhard(multiplier=1.0)
along = {"latent_image": empty(64, 64, 3), "steps": 2}
row("operation_cfg", *(drawn(model=n.LatentApplyOperationCFG(model=model, operation=o), **more) for o in (sharp, tone) for more in ({}, {"cfg": 1.0})))
row("operation_cfg_batch", drawn(model=n.LatentApplyOperationCFG(model=n.LatentApplyOperationCFG(model=model, operation=tone), operation=sharp), latent_image=empty(96, 64, 2)))
row("video_cfg", drawn(model=n.VideoLinearCFGGuidance(model=model, min_cfg=1.5), **along), drawn(model=n.VideoTriangleCFGGuidance(model=model, min_cfg=0.0), **along),
    drawn(model=n.VideoLinearCFGGuidance(model=model, min_cfg=1.0)), drawn(model=n.VideoTriangleCFGGuidance(model=model, min_cfg=2.0)))

section("A configuration beside the checkpoint; boxes and choices as values")


def configured(name):
    loaded = n.CheckpointLoader(config_name=f"{name}.yaml", ckpt_name=FILE)
    return decoded(n.KSampler(model=loaded, positive=text("a cat", loaded[1]), negative=text("", loaded[1]), latent_image=empty(), seed=11, steps=3, cfg=4.0,
                              sampler_name="euler", scheduler="simple", denoise=1.0), loaded[2])


row("checkpoint_config", configured("v"), configured("skip"))
row("crop_region", n.ImageCropV2(image=photo, crop_region=n.PrimitiveBoundingBox(x=5, y=3, width=24, height=16)))
row("custom_combo", n.EmptyImage(width=n.CustomCombo(choice="b", index=1, option1="a", option2="b")[1], height=16, batch_size=1, color=255))
