#!/usr/bin/env python3
"""Trains shapes-xl and its refiner, SDXL's structure in small, from shapes-sd1, and writes both as diffusers folders.

    python3 scripts/train_shapes_xl.py all --work build/shapes-xl --out workflows/models

Stages: text, pictures, base, refiner-pictures, refiner, export; `all` runs them in order. Each resumes from its checkpoint in --work,
so the command may be stopped and given again. Needs torch, diffusers, transformers, numpy and Pillow.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

STAGES = ("text", "pictures", "base", "refiner-pictures", "refiner", "export")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=(*STAGES, "all"))
    parser.add_argument("--work", default="build/shapes-xl", help="checkpoints and logs (build/shapes-xl)")
    parser.add_argument("--out", default="workflows/models", help="where shapes-xl and shapes-xl-refiner are written")
    parser.add_argument("--sd1", default="workflows/models/shapes-sd1", help="the trained model to start from")
    parser.add_argument("--scenes", type=int, default=6400, help="length of the base's training list (6400)")
    parser.add_argument("--refiner-scenes", type=int, default=5120, help="length of the refiner's training list (5120)")
    parser.add_argument("--text-minutes", type=float, default=6.0)
    parser.add_argument("--base-minutes", type=float, default=75.0)
    parser.add_argument("--refiner-minutes", type=float, default=25.0)
    parser.add_argument("--workers", type=int, default=2, help="training processes, one thread each (2)")
    args = parser.parse_args()

    import torch
    torch.set_num_threads(args.workers)
    os.makedirs(args.work, exist_ok=True)

    def chosen(stage):
        return args.stage in (stage, "all")

    from shapes import bpe, tune, xl_base, xl_pictures, xl_refiner, xl_text
    tokenizer = bpe.load(os.path.join(args.sd1, "tokenizer"))
    if chosen("text"):
        xl_text.teach_second(args.work, args.sd1, args.text_minutes)
    if chosen("pictures"):
        xl_pictures.make(args.work, args.sd1, args.scenes, tokenizer)
    if chosen("base"):
        xl_base.start(args.work, args.sd1)
        tune.train(xl_base.Task, (args.work, args.sd1), os.path.join(args.work, "base"), args.base_minutes, args.workers)
    if chosen("refiner-pictures"):
        xl_refiner.make(args.work, args.sd1, args.refiner_scenes, tokenizer)
    if chosen("refiner"):
        xl_refiner.start(args.work, args.sd1)
        tune.train(xl_refiner.Task, (args.work, args.sd1), os.path.join(args.work, "refiner"), args.refiner_minutes, args.workers)
    if chosen("export"):
        xl_base.write(args.work, args.sd1, os.path.join(args.out, "shapes-xl"))
        xl_refiner.write(args.work, args.sd1, os.path.join(args.out, "shapes-xl-refiner"))


if __name__ == "__main__":
    main()
