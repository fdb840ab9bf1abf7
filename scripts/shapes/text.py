"""Stages two and three: latents of the whole training list, and a head start for the text encoder.

The text encoder first learns to say what a caption holds (shapes, colours, relation, size, background, and which thing lies
where) from the state of the end token and of the padding after it: those are the states the UNet's cross-attention
reads most. The linear heads are thrown away; the UNet stage then trains encoder and UNet together.
"""
import os
import time

import torch
import torch.nn.functional as F

from . import bpe, vae
from .common import LATENT_SCALE, SEED, TEXT, Log, load_state, save_state
from .export import new_text_encoder
from .scenes import BACKGROUNDS, COLOURS, RELATIONS, SHAPES, SIZES, scene_at

FIELDS = (
    ("shape", SHAPES), ("colour", tuple(COLOURS)), ("shape2", ("", *SHAPES)), ("colour2", ("", *COLOURS)),
    ("relation", ("", *RELATIONS)), ("size", ("", *SIZES)), ("background", tuple(BACKGROUNDS)),
)


# The same, told by place: which thing is left or above, which right or below. A caption names them in either order, so
# this is the exclusive or of order and relation, which the UNet finds hard to learn from pictures alone.
PLACES = (
    ("axis", ("", "across", "down")), ("shape", SHAPES), ("colour", tuple(COLOURS)), ("shape2", ("", *SHAPES)), ("colour2", ("", *COLOURS)),
)


def tokens_of(tokenizer, captions):
    out = tokenizer(captions, padding="max_length", max_length=77, truncation=True, return_tensors="pt")
    return out["input_ids"].short()


def labels_of(scene):
    first = scene.things[0]
    second = scene.things[1] if len(scene.things) > 1 else None
    values = {
        "shape": first.shape, "colour": first.colour, "shape2": second.shape if second else "",
        "colour2": second.colour if second else "", "relation": scene.relation, "size": scene.size, "background": scene.background,
    }
    return [names.index(values[field]) for field, names in FIELDS]


def places_of(scene):
    things = scene.things[::-1] if scene.relation in ("right", "below") else scene.things
    first, second = things[0], things[1] if len(things) > 1 else None
    values = {
        "axis": {"": "", "left": "across", "right": "across", "above": "down", "below": "down"}[scene.relation],
        "shape": first.shape, "colour": first.colour,
        "shape2": second.shape if second else "", "colour2": second.colour if second else "",
    }
    return [names.index(values[field]) for field, names in PLACES]


@torch.no_grad()
def make_latents(folder, count):
    """latents.pt: unit-variance latents f32 [count, 4, 16, 16] and tokens [count, 77] of scenes 0 .. count-1."""
    path = os.path.join(folder, "latents.pt")
    if os.path.exists(path):
        return
    model = vae.standardise(vae.load(folder))
    save_state(os.path.join(folder, "vae-final.pt"), vae=model.state_dict())
    parts, batch, began = [], 32, time.monotonic()
    for i in range(0, count, batch):
        parts.append((model.encode(vae.pictures(i, batch)).latent_dist.mean * LATENT_SCALE).contiguous())
        if i % (batch * 100) == 0:
            print(f"latents {i}/{count} {time.monotonic() - began:.0f} s", flush=True)
    latents = torch.cat(parts)
    tokenizer = bpe.load(os.path.join(folder, "tokenizer"))
    tokens = tokens_of(tokenizer, [scene_at(SEED, i).caption for i in range(count)])
    print("latents: mean", latents.mean((0, 2, 3)).tolist(), "std", latents.std((0, 2, 3)).tolist(), flush=True)
    save_state(path, latents=latents, tokens=tokens)


def pretrain(folder, minutes, batch=128):
    path = os.path.join(folder, "text.pt")
    if os.path.exists(path):
        return
    torch.manual_seed(SEED + 1)
    tokenizer = bpe.load(os.path.join(folder, "tokenizer"))
    encoder = new_text_encoder(tokenizer)
    heads = torch.nn.ModuleList(torch.nn.Linear(TEXT["hidden_size"], len(names)) for _, names in FIELDS + PLACES)
    parameters = [*encoder.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, betas=(0.9, 0.98), weight_decay=1e-2)
    log = Log(os.path.join(folder, "text.csv"), ("step", "seconds", "loss", "right"))
    began, step, done = time.monotonic(), 0, 0.0
    while done < 1.0:
        scenes = [scene_at(SEED, step * batch + i) for i in range(batch)]
        tokens = tokens_of(tokenizer, [s.caption for s in scenes]).long()
        labels = torch.tensor([labels_of(s) + places_of(s) for s in scenes])
        length = (tokens != tokenizer.eos_token_id).sum(1).max().item() + 1
        length = min(77, max(length + 8, 77 if step % 8 == 0 else 0))
        states = encoder(tokens[:, :length]).last_hidden_state
        ends = (tokens == tokenizer.eos_token_id).int().argmax(1)
        later = (ends + (torch.rand(batch) * (length - ends)).long()).clamp(max=length - 1)
        rows = torch.arange(batch)
        loss, right = 0.0, torch.ones(batch, dtype=torch.bool)
        for where in (ends, later):
            seen = states[rows, where]
            for k, head in enumerate(heads):
                guess = head(seen)
                loss = loss + F.cross_entropy(guess, labels[:, k])
                right &= guess.argmax(1) == labels[:, k]
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (step + 1) / 50) * (1 - 0.95 * done)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        done = (time.monotonic() - began) / (minutes * 60)
        if step % 20 == 0:
            log.row(step, time.monotonic() - began, loss.item(), right.float().mean().item())
    save_state(path, encoder=encoder.state_dict())
