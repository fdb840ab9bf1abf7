"""Prompts of `make parity-comfyui` with pictures, masks, latents and texts alone: geometry, filters, colour, compositing, and what texts decide, which shows
in the size or the way of a picture. rows.py imports this file when it has all that is used here."""

from graph import n
from rows import METHODS, decoded, encoded, photo, resized, row, section, shape, square

section("Pictures, masks, texts")

wide = resized(photo, "bilinear", 41, 23)
tall = resized(photo, "area", 30, 52)
mask = n.CropMask(mask=shape, x=0, y=0, width=41, height=23)
grey = n.MaskToImage(mask=mask)

for dither in ("none", "floyd-steinberg", "bayer-2", "bayer-4", "bayer-8", "bayer-16"):
    row(f"quantize_{dither}", *(n.ImageQuantize(image=photo, colors=colors, dither=dither) for colors in (2, 7, 16, 256)))
row("quantize_batch", n.ImageQuantize(image=n.ImageBatch(image1=wide, image2=n.ImageInvert(image=wide)), colors=5, dither="floyd-steinberg"))
row("add_noise", *(n.ImageAddNoise(image=wide, seed=seed, strength=strength) for seed, strength in ((0, 0.5), (7, 0.1), (2**63 + 5, 1.0))))
for method in (*METHODS, "lanczos"):
    row(f"max_dimension_{method}", *(n.ImageScaleToMaxDimension(image=image, upscale_method=method, largest_size=size) for image in (wide, tall, square)
                                     for size in (19, 64)))
    row(f"resize_and_pad_{method}", *(n.ResizeAndPadImage(image=image, target_width=48, target_height=31, padding_color=colour, interpolation=method)
                                      for image, colour in ((wide, "white"), (tall, "black"))))
for direction in ("right", "down", "left", "up"):
    row(f"stitch_{direction}", *(n.ImageStitch(image1=wide, direction=direction, match_image_size=match, spacing_width=gap, spacing_color=colour, image2=tall)
                                 for match in (True, False) for gap, colour in ((0, "white"), (6, "red"))))
row("stitch_alone", n.ImageStitch(image1=wide, direction="right", match_image_size=True, spacing_width=0, spacing_color="white"))
for operation in ("erode", "dilate", "open", "close", "gradient", "bottom_hat", "top_hat"):
    row(f"morphology_{operation}", *(n.Morphology(image=image, operation=operation, kernel_size=size) for image in (wide, grey) for size in (3, 4, 9)))
yuv = n.ImageRGBToYUV(image=wide)
row("yuv", yuv, yuv[1], yuv[2], n.ImageYUVToRGB(Y=yuv, U=yuv[1], V=yuv[2]))
for mode in "ADD CLEAR DARKEN DST DST_ATOP DST_IN DST_OUT DST_OVER LIGHTEN MULTIPLY OVERLAY SCREEN SRC SRC_ATOP SRC_IN SRC_OUT SRC_OVER XOR".split():
    over = n.PorterDuffImageComposite(source=wide, source_alpha=mask, destination=n.ImageInvert(image=wide), destination_alpha=n.InvertMask(mask=mask), mode=mode)
    row(f"porter_duff_{mode}", over, n.MaskToImage(mask=over[1]))

halves = n.LatentBatch(samples1=encoded(), samples2=encoded(n.ImageInvert(image=square)))
for name, operation in (("sharpen", n.LatentOperationSharpen(sharpen_radius=3, sigma=1.0, alpha=0.3)), ("tonemap", n.LatentOperationTonemapReinhard(multiplier=0.7))):
    row(f"latent_{name}", decoded(n.LatentApplyOperation(samples=halves, operation=operation)))
row("rebatch_latents", decoded(n.RebatchLatents(latents=halves, batch_size=1)))


def as_wide_as(text):
    """What a text is shows in a picture of its length."""
    return n.EmptyImage(width=n.StringLength(string=text), height=8, batch_size=1, color=255)


def way_of(truth):
    return n.ImageStitch(image1=wide, direction="right", match_image_size=truth, spacing_width=0, spacing_color="white", image2=tall)


WORDS = "  The Quick (brown) Fox: x=1, y=22; Größe 東京  "
row("text_parts", *(as_wide_as(n.StringSubstring(string=WORDS, start=a, end=b)) for a, b in ((0, 5), (-9, -1), (3, 900), (-900, 4))))
row("text_trim", *(as_wide_as(n.StringTrim(string=WORDS, mode=mode)) for mode in ("Both", "Left", "Right")))
row("text_case", *(as_wide_as(n.StringReplace(string=n.CaseConverter(string=WORDS, mode=mode), find=find, replace="")) for mode, find in
                   (("UPPERCASE", "QUICK"), ("lowercase", "quick"), ("Capitalize", "The"), ("Title Case", "Größe"))))
row("text_contains", *(way_of(n.StringContains(string=WORDS, substring=part, case_sensitive=case)) for part in ("quick", "Fox") for case in (True, False)))
row("text_compare", *(way_of(n.StringCompare(string_a="Foxes", string_b=b, mode=mode, case_sensitive=case)) for mode, b in
                      (("Starts With", "fox"), ("Ends With", "es"), ("Equal", "FOXES")) for case in (True, False)))
HOW = {"case_insensitive": True, "multiline": False, "dotall": False}
row("regex_match", *(way_of(n.RegexMatch(string=WORDS, regex_pattern=p, **{**HOW, **how})) for p, how in
                     ((r"quick", {}), (r"quick", {"case_insensitive": False}), (r"^\s*The\b", {}), (r"\bnone\b", {}))))
row("regex_extract", *(as_wide_as(n.RegexExtract(string=WORDS, regex_pattern=r"(\w)=(\d+)", mode=mode, group_index=g, **HOW)) for mode in
                       ("First Match", "All Matches", "First Group", "All Groups") for g in (1, 2)))
row("regex_replace", *(as_wide_as(n.RegexReplace(string=WORDS, regex_pattern=p, replace=r, count=c, **HOW)) for p, r, c in
                       ((r"\s+", "", 0), (r"(\w+)", r"<\1>", 2), (r"x*", "-", 0), (r"(?P<k>\w)=(?P<v>\d+)", r"\g<v>=\g<k>\n", 0))))
row("previews", n.EmptyImage(width=8, height=8, batch_size=1, color=1), also=[n.MaskPreview(mask=mask), n.PreviewAny(source=n.StringLength(string=WORDS))])

section("Pictures, masks, texts: nodes of later versions")
for way, more in (("scale dimensions", {"width": 33, "height": 0, "crop": "center"}), ("scale by multiplier", {"multiplier": 0.5}), ("scale longer dimension", {"longer_size": 37}),
                  ("scale shorter dimension", {"shorter_size": 37}), ("scale total pixels", {"megapixels": 0.01}), ("match size", {"match": tall, "crop": "center"}),
                  ("scale to multiple", {"multiple": 16})):
    given = {f"resize_type.{key}": value for key, value in more.items()}
    row("resize_" + way.replace(" ", "_"), n.ResizeImageMaskNode(input=wide, resize_type=way, scale_method="area", **given))
size = n.ResolutionSelector(aspect_ratio="16:9 (Widescreen)", megapixels=0.1, multiple=8)
row("resolution", n.EmptyImage(width=size, height=size[1], batch_size=1, color=255))
row("json_text", as_wide_as(n.JsonExtractString(json_string='{"a": [1, 2.5, null, "x"]}', key="a")))
row("tones", n.AdjustBrightness(images=wide, factor=1.3), n.AdjustContrast(images=wide, factor=0.7), n.NormalizeImages(images=wide, mean=0.4, std=0.3))
row("edges", n.ResizeImagesByLongerEdge(images=wide, longer_edge=20), n.ResizeImagesByShorterEdge(images=wide, shorter_edge=20),
    n.CenterCropImages(images=wide, width=20, height=10))
