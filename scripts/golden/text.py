"""text_encoder.safetensors and clip_encode.safetensors: the tiny CLIP text model and ComfyUI's conditioning.

The conditioning (chunks, weights, skipped layers) is prompt.py's own implementation of the rules on top of
transformers' text model.
"""

import copy

import torch

import prompt
import tiny
from common import GOLDEN, errors, save, versions

PROMPTS = [
    "a photo of a cute cat",
    "",
    "a (cute:1.4) cat, ((oil)) painting, (blurry:-0.5) background",
    "x" * 130,
    ", ".join(["a red circle to the left of a blue square"] * 12),
    "(masterpiece:1.3), " + "a landscape with mountains, " * 14 + "(a small purple ring:0.6)",
]
SKIPPED = (0, 2, 5)


def load(folder):
    from transformers import CLIPTextModel, CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer")
    model = CLIPTextModel.from_pretrained(folder / "text_encoder", attn_implementation="eager")
    return tokenizer, model.eval().requires_grad_(False)


def layers(model, ids):
    """(embeddings and the residual stream after each layer, final norm of the last, pooled)."""
    out = model(input_ids=ids, output_hidden_states=True)
    return list(out.hidden_states), out.last_hidden_state, out.pooler_output


def final_norm(model, hidden):
    return getattr(model, "text_model", model).final_layer_norm(hidden)


def encode_rows(model, ids, skip):
    """Rows of 77 ids -> (final norm of the hidden state `skip` layers before the end, pooled of the last layer)."""
    hidden, last, pooled = layers(model, ids)
    return (last if skip == -1 else final_norm(model, hidden[skip])), pooled


def condition(tokenizer, model, text, skip=-1):
    """Prompt -> conditioning [1, 77*chunks, width] and pooled [1, width] of the first chunk."""
    chunks = prompt.chunks(tokenizer, text)
    empty = prompt.chunks(tokenizer, "")[0]
    ids = torch.tensor([[token for token, _ in chunk] for chunk in chunks + [empty]])
    scale = torch.tensor([[weight for _, weight in chunk] for chunk in chunks], dtype=model.dtype)
    out, pooled = encode_rows(model, ids, skip)
    z, z_empty = out[:-1], out[-1:]
    if bool((scale != 1).any()):
        z = (z - z_empty) * scale[..., None] + z_empty
    return z.reshape(1, -1, z.shape[-1]), pooled[:1], ids[:-1], scale


def write_text_encoder(tokenizer, model):
    ids = torch.tensor(
        [[token for token, _ in prompt.chunks(tokenizer, text)[0]] for text in (PROMPTS[0], PROMPTS[1], PROMPTS[4])]
    )
    hidden, last, pooled = layers(model.double(), ids)
    single = copy.deepcopy(model).float()
    half = copy.deepcopy(model).bfloat16()
    tensors = {"ids": ids, "last": last, "pooled": pooled}
    tensors.update({f"hidden.{index}": value for index, value in enumerate(hidden)})
    meta = {
        **versions(),
        "what": "transformers CLIPTextModel of tiny-sd1: ids [3,77] -> hidden.0 (embeddings), hidden.i (residual stream after "
        "layer i), last (final_layer_norm of the last), pooled (last at the first end token, unprojected)",
        "noise_f32": errors(layers(single, ids)[1], last),
        "noise_bf16": errors(layers(half, ids)[1], last),
    }
    save(GOLDEN / "text_encoder.safetensors", tensors, meta)


def write_clip_encode(tokenizer, model):
    tensors = {}
    for index, text in enumerate(PROMPTS):
        for skip in (-1, -2) if index in SKIPPED else (-1,):
            cond, pooled, ids, scale = condition(tokenizer, model.double(), text, skip)
            name = f"{index}.skip{-skip}"
            tensors.update({f"{name}.cond": cond[0], f"{name}.pooled": pooled[0]})
            tensors.update({f"{index}.ids": ids, f"{index}.weights": scale})
    meta = {
        **versions(),
        "what": "conditioning of tiny-sd1 per prompt i: i.ids and i.weights [chunks,77], i.skipN.cond [77*chunks,width] and "
        "i.skipN.pooled [width]; skip1 is the last layer, skip2 CLIPSetLastLayer(-2); final norm on both. Not every prompt has skip2",
        "prompts": PROMPTS,
    }
    save(GOLDEN / "clip_encode.safetensors", tensors, meta)


def main():
    tokenizer, model = load(tiny.FOLDER)
    write_text_encoder(tokenizer, model)
    write_clip_encode(tokenizer, model)


if __name__ == "__main__":
    main()
