"""The two text encoders of shapes-xl: the first is shapes-sd1's, the second learns here; both stay as they are afterwards.

The second learns the head start of text.py (what a caption holds and what lies where, from its states and from the pooled
vector) and to hold what shapes-sd1's own states hold: a linear map of its states has to give those. All heads are thrown away.
"""
import os
import time

import torch
import torch.nn.functional as F
from transformers import CLIPTextModel

from . import bpe, xl
from .common import SEED, TEXT, Log, load_state, save_state
from .scenes import scene_at
from .text import FIELDS, PLACES, labels_of, places_of, tokens_of

RATE = 2e-3


def first_encoder(folder, tokenizer):
    """shapes-sd1's two layers and a third that adds nothing, so that the last state but one is what shapes-sd1 norms and uses."""
    old = CLIPTextModel.from_pretrained(folder, subfolder="text_encoder", torch_dtype=torch.float32)
    new = xl.new_text_one(tokenizer)
    weights = new.state_dict()
    for name, value in old.state_dict().items():
        weights[name] = value
        if ".layers.1." in name:
            silent = "out_proj" in name or "fc2" in name
            weights[name.replace(".layers.1.", ".layers.2.")] = torch.zeros_like(value) if silent else value
    new.load_state_dict(weights)
    return old.eval().requires_grad_(False), new.eval().requires_grad_(False)


def second_tokens(tokens, end):
    """The same tokens padded with 0 after the first end token."""
    after = (tokens == end).int().cumsum(1) - (tokens == end).int() > 0
    return torch.where(after, torch.zeros_like(tokens), tokens)


def states_of(one, two, tokens, end):
    """Context [n, 77, WIDE] and pooled text [n, POOLED]; one may be None for the refiner, which has the second encoder alone."""
    second = two(second_tokens(tokens, end), output_hidden_states=True)
    parts = [second.hidden_states[-2]]
    if one is not None:
        parts.insert(0, one(tokens, output_hidden_states=True).hidden_states[-2])
    return torch.cat(parts, 2), second.text_embeds


def teach_second(work, sd1, minutes, batch=128):
    path = os.path.join(work, "text-two.pt")
    if os.path.exists(path):
        return
    torch.manual_seed(SEED + 11)
    tokenizer = bpe.load(os.path.join(sd1, "tokenizer"))
    end = tokenizer.eos_token_id
    old, _ = first_encoder(sd1, tokenizer)
    model, names = xl.new_text_two(tokenizer), [n for _, n in FIELDS + PLACES]
    width = xl.TEXT_TWO["hidden_size"]
    heads = torch.nn.ModuleList(torch.nn.Linear(width, len(n)) for n in names)
    pooled_heads = torch.nn.ModuleList(torch.nn.Linear(xl.POOLED, len(n)) for n in names)
    match = torch.nn.Linear(width, TEXT["hidden_size"])
    parameters = [p for m in (model, heads, pooled_heads, match) for p in m.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.98), weight_decay=1e-2)
    log = Log(os.path.join(work, "text-two.csv"), ("step", "seconds", "loss", "match", "right"))
    began, step, done = time.monotonic(), 0, 0.0
    while done < 1.0:
        scenes = [scene_at(SEED, step * batch + i) for i in range(batch)]
        tokens = tokens_of(tokenizer, [s.caption for s in scenes]).long()
        labels = torch.tensor([labels_of(s) + places_of(s) for s in scenes])
        length = 77 if step % 8 == 0 else min(77, (tokens != end).sum(1).max().item() + 9)
        tokens = tokens[:, :length]
        seen = model(second_tokens(tokens, end), output_hidden_states=True)
        states, rows = seen.hidden_states[-2], torch.arange(batch)
        ends = (tokens == end).int().argmax(1)
        later = (ends + (torch.rand(batch) * (length - ends)).long()).clamp(max=length - 1)
        loss, right = 0.0, torch.ones(batch, dtype=torch.bool)
        for tellers, told in ((heads, states[rows, ends]), (heads, states[rows, later]), (pooled_heads, seen.text_embeds)):
            for k, head in enumerate(tellers):
                guess = head(told)
                loss = loss + F.cross_entropy(guess, labels[:, k])
                right &= guess.argmax(1) == labels[:, k]
        gap = F.mse_loss(match(states), old(tokens).last_hidden_state)
        loss = loss + gap
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 50) * (1 - 0.95 * done)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        done = (time.monotonic() - began) / (minutes * 60)
        if step % 20 == 0:
            log.row(step, time.monotonic() - began, loss.item(), gap.item(), right.float().mean().item())
    save_state(path, encoder=model.state_dict())


def load(work, sd1):
    """Tokenizer, first and second encoder as they ship (rounded to f16), frozen."""
    tokenizer = bpe.load(os.path.join(sd1, "tokenizer"))
    _, one = first_encoder(sd1, tokenizer)
    two = xl.new_text_two(tokenizer)
    two.load_state_dict({k: v.half().float() if v.is_floating_point() else v for k, v in load_state(os.path.join(work, "text-two.pt"))["encoder"].items()})
    return tokenizer, one, two.eval().requires_grad_(False)
