#!/usr/bin/env python3
"""Lets transformers answer the requests of a list with shapes-gemma and writes the captions, one a line.

    python3 scripts/shapes/measure_gemma.py workflows/models/text_diffusion/shapes-gemma tests/judge/requests-200.txt CAPTIONS --dtype bf16

Prints how many denoising steps were needed. scripts/judge_captions.py judges what it writes.
"""
import argparse
import os
import sys
import time
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch
from transformers import AutoTokenizer, DiffusionGemmaForBlockDiffusion

from judge_captions import read_list


class Steps:
    """A streamer that counts drafts; there is one for each denoising step."""

    def __init__(self):
        self.drafts = []

    def put(self, value):
        pass

    def end(self):
        pass

    def put_draft(self, value):
        self.drafts.append(value[0].tolist())


def answer(model, tokenizer, request, seed, **settings):
    """(caption, drafts of the canvas after each step)"""
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": request}], add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
    steps = Steps()
    torch.manual_seed(seed)
    ids = model.generate(prompt, streamer=steps, **settings).sequences[0, prompt.shape[1]:]
    return tokenizer.decode(ids, skip_special_tokens=True), steps.drafts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("requests")
    parser.add_argument("captions")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--steps", type=int, help="max_denoising_steps (the model's)")
    parser.add_argument("--seeds-from", type=int, default=0, help="added to each seed of the list")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.dtype]
    model = DiffusionGemmaForBlockDiffusion.from_pretrained(args.model, dtype=dtype).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    settings = {"max_denoising_steps": args.steps} if args.steps else {}
    used, start = Counter(), time.time()
    rows = read_list(args.requests)
    with open(args.captions, "w", encoding="utf-8") as f:
        for seed, request, _ in rows:
            caption, drafts = answer(model, tokenizer, request, seed + args.seeds_from, **settings)
            used[len(drafts)] += 1
            f.write(caption.replace("\n", " ") + "\n")
    mean = sum(k * n for k, n in used.items()) / len(rows)
    print(f"steps: {mean:.2f} on average; " + ", ".join(f"{k}: {n}" for k, n in sorted(used.items())) + f"; {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
