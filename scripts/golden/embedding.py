"""embeddings.safetensors: prompts with textual inversion, as ComfyUI (COMFYUI=FOLDER) tokenises them and transformers encodes them.

Prompts i has chunks chunk_first[i]..chunk_first[i+1]-1 of ids [chunks,77], made by ComfyUI's SDTokenizer: row r of the embedding e of EMBEDDINGS
is -(1000 e + r + 1). last [1,77,width]: tiny-sd1's text encoder on ENCODED, whose ids [1,77] with vectors [1,77,width] in the place of the
embedding, by_id [1,77,1] 0 there, and end [1] are beside it.
"""

import os
import sys
import tempfile

import torch
from safetensors.torch import save_file

import strings
from common import GOLDEN, randn, save, versions

EMBEDDINGS = {"foo": (2, 4), "long-7": (9, 4), "one": (4,), "huge": (80, 4)}
PROMPTS = [
    "embedding:foo",
    "a photo of embedding:foo in the park",
    "a photo, embedding:foo, in the park",
    "embedding:foo, embedding:one, embedding:foo",
    "(embedding:foo:1.3) and (a embedding:one)",
    "((embedding:long-7)) cat",
    "embedding:foo<lora:x:1> cat",
    "embedding:foo[cat] dog",
    "embedding:  foo cat",
    "a\nembedding:foo\nb",
    "noembedding:foo embedding",
    "embedding:foo.safetensors cat",
    "embedding:huge",
    "cat " * 70 + "embedding:long-7 dog",
    "cat " * 73 + "embedding:foo dog",
    "cat " * 74 + "embedding:foo dog",
    "cat " * 60 + "embedding:huge dog",
]
ENCODED = "a embedding:foo cat"


def tokenised(folder):
    from comfy.sd1_clip import SDTokenizer

    tokenizer = SDTokenizer(tokenizer_path=str(GOLDEN / "clip-tokenizer"), embedding_directory=folder, embedding_size=4)
    ids, weights, first = [], [], [0]
    for text in PROMPTS:
        for chunk in tokenizer.tokenize_with_weights(text):
            ids.append([-int(t[0]) - 1 if torch.is_tensor(t) else t for t, _ in chunk])
            weights.append([w for _, w in chunk])
        first.append(len(ids))
    return {"ids": torch.tensor(ids), "weights": torch.tensor(weights, dtype=torch.float32), "chunk_first": torch.tensor(first)}


def encoded():
    """The encoder with rows added to its table, as diffusers' load_textual_inversion does it."""
    from transformers import CLIPTextModel, CLIPTokenizer

    model = CLIPTextModel.from_pretrained(GOLDEN / "tiny-sd1" / "text_encoder").float().eval()
    tokenizer = CLIPTokenizer.from_pretrained(GOLDEN / "tiny-sd1" / "tokenizer")
    table = model.get_input_embeddings().weight.data
    vectors = randn("embedding.vectors", 2, table.shape[1]) * table.std()
    model.resize_token_embeddings(table.shape[0] + 2)
    model.get_input_embeddings().weight.data[-2:] = vectors
    ids = [tokenizer(text)["input_ids"][1:-1] for text in ("a", "cat")]
    row = [tokenizer.bos_token_id, *ids[0], table.shape[0], table.shape[0] + 1, *ids[1]]
    row += [tokenizer.eos_token_id] * (77 - len(row))
    with torch.no_grad():
        last = model(torch.tensor([row])).last_hidden_state
    place, by_id = torch.zeros(1, 77, table.shape[1]), torch.ones(1, 77, 1)
    place[0, 2:4], by_id[0, 2:4] = vectors, 0
    row[2] = row[3] = 0
    end = torch.tensor([row.index(tokenizer.eos_token_id)])
    return {"encoded.ids": torch.tensor([row]), "encoded.vectors": place, "encoded.by_id": by_id, "encoded.end": end, "encoded.last": last}


def main():
    sys.path.insert(0, os.environ["COMFYUI"])
    sys.argv = [sys.argv[0], "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    with tempfile.TemporaryDirectory() as folder:
        for e, (name, shape) in enumerate(EMBEDDINGS.items()):
            rows = torch.arange(shape[0] if len(shape) == 2 else 1).float()[:, None] + 1000 * e
            save_file({"emb_params": rows.expand(-1, 4).reshape(shape).contiguous()}, f"{folder}/{name}.safetensors")
        tensors = {**strings.pack("prompt", PROMPTS), **tokenised(folder), **encoded()}
    save(GOLDEN / "embeddings.safetensors", tensors, {**versions(), "what": __doc__.split("\n\n")[1].strip()})


if __name__ == "__main__":
    main()
