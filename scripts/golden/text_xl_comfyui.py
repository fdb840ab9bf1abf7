"""Asks ComfyUI's own code for the conditioning of tiny-sdxl-text and tiny-sd2-text, and compares text_xl.safetensors with it.

    python text_xl_comfyui.py COMFYUI

Nothing is written. ComfyUI's classes are given the small sizes as options, and the ids of the small vocabulary in place
of 49406 and 49407; the tables are filled up to the 49,408 rows that they insist on.
"""

import pathlib
import sys

import torch

from common import relative_error
from text_xl import LENGTHS, LONG, SD2, SDXL, STRIDE, WEIGHTED, GOLDEN, letters

BOUND = 1e-5


def start(comfyui):
    sys.path.insert(0, str(comfyui))
    sys.argv = ["text_xl_comfyui", "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    import comfy.sd1_clip
    import comfy.sdxl_clip
    import comfy.text_encoders.sd2_clip

    return comfy


def config_of(folder):
    import json

    return json.loads((folder / "config.json").read_text())


def load(model, folder, vocabulary):
    """Weights of a folder into an SDClipModel."""
    from safetensors.torch import load_file

    state = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
    table = "text_model.embeddings.token_embedding.weight"
    rows = torch.zeros(49408 - vocabulary, state[table].shape[1])
    state[table] = torch.cat([state[table], rows])
    missing, unexpected = model.load_sd(state)
    assert not unexpected, unexpected
    wanted = [name for name in missing if "text_projection" not in name and "logit_scale" not in name]
    model.special_tokens = {**model.special_tokens, "start": vocabulary - 2, "end": vocabulary - 1}
    if model.special_tokens["pad"] == 49407:
        model.special_tokens["pad"] = vocabulary - 1
    return wanted


class SmallProjection(torch.nn.Linear):
    """ComfyUI's projection is square; that of the small G is not."""

    def __init__(self, weight):
        super().__init__(weight.shape[1], weight.shape[0], bias=False)
        self.weight.data.copy_(weight)


def sdxl_model(comfy):
    from safetensors.torch import load_file

    l, g = config_of(SDXL / "text_encoder"), config_of(SDXL / "text_encoder_2")
    options = {"clip_l_model_config": l, "clip_g_model_config": g}
    model = comfy.sdxl_clip.SDXLClipModel(device="cpu", dtype=torch.float32, model_options=options)
    projection = load_file(SDXL / "text_encoder_2/model.safetensors")["text_projection.weight"].float()
    model.clip_g.transformer.text_projection = SmallProjection(projection)
    assert not load(model.clip_l, SDXL / "text_encoder", l["vocab_size"])
    assert not load(model.clip_g, SDXL / "text_encoder_2", g["vocab_size"])
    return model


def sd2_model(comfy):
    h = config_of(SD2 / "text_encoder")
    whole = {**h, "num_hidden_layers": h["num_hidden_layers"] + 1}  # the folder leaves the last one out
    model = comfy.text_encoders.sd2_clip.SD2ClipModel(
        device="cpu", dtype=torch.float32, model_options={"clip_h_model_config": whole}
    )
    missing = load(model.clip_h, SD2 / "text_encoder", h["vocab_size"])
    assert all(f"layers.{h['num_hidden_layers']}." in name for name in missing), missing
    for name, value in model.clip_h.transformer.state_dict().items():
        if name.endswith(tuple(part.split("layers.", 1)[1] for part in missing)) or "text_projection" in name:
            value.zero_()  # the last layer, which nobody reads but pooled
    return model


def tokenizers(comfy):
    sdxl = comfy.sdxl_clip.SDXLTokenizer()
    make = comfy.sd1_clip.SDTokenizer
    sdxl.clip_l = make(str(SDXL / "tokenizer"), embedding_size=16)
    sdxl.clip_g = make(str(SDXL / "tokenizer_2"), pad_with_end=False, embedding_size=64)
    sd2 = comfy.text_encoders.sd2_clip.SD2Tokenizer()
    sd2.clip_h = make(str(SD2 / "tokenizer"), pad_with_end=False, embedding_size=32)
    return sdxl, sd2


def both(tokenizer, text_l, text_g):
    """As CLIPTextEncodeSDXL gives a prompt to each."""
    tokens = tokenizer.tokenize_with_weights(text_g)
    tokens["l"] = tokenizer.tokenize_with_weights(text_l)["l"]
    empty = tokenizer.tokenize_with_weights("")
    while len(tokens["l"]) != len(tokens["g"]):
        short = "l" if len(tokens["l"]) < len(tokens["g"]) else "g"
        tokens[short] += empty[short]
    return tokens


def cases(comfy):
    """name -> (tokens, pooled or None)."""
    sdxl, sd2 = sdxl_model(comfy), sd2_model(comfy)
    tokenizer, tokenizer_2 = tokenizers(comfy)
    for i, count in enumerate(LENGTHS):
        yield f"xl.{i}", sdxl.encode_token_weights(both(tokenizer, letters(count), letters(count)))
        yield f"h.{i}", sd2.encode_token_weights(tokenizer_2.tokenize_with_weights(letters(count)))[:1]
    yield "xl.weighted", sdxl.encode_token_weights(both(tokenizer, WEIGHTED, WEIGHTED))
    yield "h.weighted", sd2.encode_token_weights(tokenizer_2.tokenize_with_weights(WEIGHTED))[:1]
    yield "xl.long_l", sdxl.encode_token_weights(both(tokenizer, LONG, "a cat"))
    yield "xl.long_g", sdxl.encode_token_weights(both(tokenizer, "(a cat:1.3)", LONG))
    for skip in (1, 3):
        sdxl.set_clip_options({"layer": -skip})
        yield f"xl.skip{skip}", sdxl.encode_token_weights(both(tokenizer, WEIGHTED, WEIGHTED))
    for skip in (2, 3, 4):
        sd2.set_clip_options({"layer": -skip})
        yield f"h.skip{skip}", sd2.encode_token_weights(tokenizer_2.tokenize_with_weights(WEIGHTED))[:1]


def main():
    from safetensors.torch import load_file

    comfy = start(pathlib.Path(sys.argv[1]).resolve())
    golden, worst = load_file(GOLDEN / "text_xl.safetensors"), 0.0
    with torch.no_grad():
        for name, got in cases(comfy):
            errors = [relative_error(got[0][0][::STRIDE], golden[f"{name}.tokens"])]
            if len(got) > 1:
                errors.append(relative_error(got[1][0], golden[f"{name}.pooled"]))
            print(f"{name:12s} " + " ".join(f"{error:.1e}" for error in errors))
            worst = max(worst, *errors)
    print(f"worst {worst:.1e}, bound {BOUND:.0e}")
    return worst > BOUND


if __name__ == "__main__":
    sys.exit(main())
