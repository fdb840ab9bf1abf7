"""The base of shapes-xl: three levels of shapes-sd1's UNet, two of them deep, with both text encoders and six numbers.

shapes-sd1 itself says what noise it sees: its answer is the mean over all pictures that fit, which teaches more a step than the one noise
that was added. It knows no sizes; of a cut or blurred picture it is shown the whole one with the same noise, moved back where
the window moved it. From the noise alone the numbers were not learnt: they lower the error by too little.
"""
import os

import torch
from diffusers import UNet2DConditionModel

from . import warm, xl, xl_pictures, xl_text
from .common import SEED, alphas_cumulative, load_state, save_state
from .text import tokens_of
from .tune import noised, spread
from .unet import EMPTY, OFFSET

CHANGED = 0.5  # share of cut and blurred pictures
BLOCKS = {"up_blocks.0": "up_blocks.1", "up_blocks.1": "up_blocks.2", "up_blocks.2": "up_blocks.3"}


@torch.no_grad()
def reader_of(old, encoders, tokens, end):
    """How to read shapes-sd1's states out of the new context, from a few hundred captions."""
    states, _ = xl_text.states_of(*encoders, tokens, end)
    return warm.fit_reader(states.flatten(0, 1), old(tokens).last_hidden_state.flatten(0, 1))


def sample_tokens(work, tokenizer, count=512):
    empty = tokens_of(tokenizer, [""]).long().expand(count // 16, -1)
    return torch.cat([xl_pictures.load(work)["tokens"][:count].long(), empty])


def start(work, sd1):
    """base-warm.pt: the weights the base begins with."""
    path = os.path.join(work, "base-warm.pt")
    if os.path.exists(path):
        return
    torch.manual_seed(SEED + 12)
    tokenizer, one, two = xl_text.load(work, sd1)
    old, _ = xl_text.first_encoder(sd1, tokenizer)
    reader, left = reader_of(old, (one, two), sample_tokens(work, tokenizer), tokenizer.eos_token_id)
    unet = UNet2DConditionModel(**xl.BASE)
    fresh = warm.fill(unet, warm.sd1_unet(sd1), BLOCKS, reader)
    numbers = xl_pictures.any_numbers(8192, torch.Generator().manual_seed(SEED))
    warm.open_numbers(unet, numbers, xl_pictures.amounts_of(numbers))
    print(f"base: {len(fresh)} new tensors; {left:.2%} of shapes-sd1's states are lost in the new context", flush=True)
    save_state(path, unet=unet.state_dict())


class Task:
    batch, gamma, quick = 16, 15.0, ("add_embedding", "time_emb_proj")

    def __init__(self, work, sd1):
        self.unet = UNet2DConditionModel(**xl.BASE)
        self.unet.load_state_dict(load_state(os.path.join(work, "base-warm.pt"))["unet"])
        self.tokenizer, self.one, self.two = xl_text.load(work, sd1)
        self.teacher_text, _ = xl_text.first_encoder(sd1, self.tokenizer)
        self.teacher = warm.sd1_unet(sd1).to(memory_format=torch.channels_last)
        self.data, self.alphas = xl_pictures.load(work), alphas_cumulative()
        self.count = len(self.data["whole"])
        self.empty = tokens_of(self.tokenizer, [""])[0].long()

    @torch.no_grad()
    def step(self, pick, generator):
        rows, data = len(pick), self.data
        told = torch.rand(rows, generator=generator) < 0.5
        tokens = torch.where(told[:, None], data["tokens"][pick], data["retold"][pick]).long()
        tokens[torch.rand(rows, generator=generator) < EMPTY] = self.empty
        changed = torch.rand(rows, generator=generator) < CHANGED
        numbers = torch.where(changed[:, None], data["numbers"][pick], xl_pictures.larger(rows, generator))
        times, whole = spread(rows, generator, len(self.alphas)), data["whole"][pick]
        noisy, noise, a = noised(whole, times, self.alphas, OFFSET, generator)
        seen = self.teacher(noisy.contiguous(memory_format=torch.channels_last), times, self.teacher_text(tokens).last_hidden_state).sample
        noise = xl_pictures.shifted(noise, numbers)
        wanted = torch.where(xl_pictures.fresh(numbers), noise, xl_pictures.shifted(seen, numbers))
        clean = torch.where(changed[:, None, None, None], data["other"][pick], whole)
        noisy = a.sqrt()[:, None, None, None] * clean + (1 - a).sqrt()[:, None, None, None] * noise
        context, pooled = xl_text.states_of(self.one, self.two, tokens, self.tokenizer.eos_token_id)
        added = {"text_embeds": pooled, "time_ids": numbers.float()}
        sample = noisy.contiguous(memory_format=torch.channels_last)
        return {"sample": sample, "timestep": times, "encoder_hidden_states": context, "added_cond_kwargs": added}, wanted, a


def write(work, sd1, out):
    """Exports the averaged weights of the newest checkpoint, or the first weights when there is none."""
    tokenizer, one, two = xl_text.load(work, sd1)
    unet = UNet2DConditionModel(**xl.BASE)
    state = load_state(os.path.join(work, "base.pt"))
    unet.load_state_dict(state["average"] if state else load_state(os.path.join(work, "base-warm.pt"))["unet"])
    xl.write_base(out, os.path.join(sd1, "tokenizer"), xl.rescaled_vae(sd1), (one, two), unet)
