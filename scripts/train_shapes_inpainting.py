#!/usr/bin/env python3
"""Trains shapes-sd1-inpainting from shapes-sd1 and writes it as a diffusers folder.

    python3 scripts/train_shapes_inpainting.py all --work build/shapes-inpainting --out workflows/models/shapes-sd1-inpainting

Stages: pictures, unet, export; `all` runs them in order. Each resumes from its checkpoint in --work, so the command may be
stopped and given again. Needs torch, diffusers, transformers, numpy and Pillow.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("pictures", "unet", "export", "all"))
    parser.add_argument("--work", default="build/shapes-inpainting", help="checkpoints and logs (build/shapes-inpainting)")
    parser.add_argument("--out", default="workflows/models/shapes-sd1-inpainting", help="the diffusers folder to write")
    parser.add_argument("--sd1", default="workflows/models/shapes-sd1", help="the trained model to start from")
    parser.add_argument("--scenes", type=int, default=5120, help="length of the training list (5120)")
    parser.add_argument("--minutes", type=float, default=20.0, help="of the training, on two idle cores (20)")
    parser.add_argument("--workers", type=int, default=2, help="training processes, one thread each (2)")
    args = parser.parse_args()

    import torch
    torch.set_num_threads(args.workers)
    os.makedirs(args.work, exist_ok=True)

    from shapes import bpe, inpaint, tune
    if args.stage in ("pictures", "all"):
        inpaint.make(args.work, args.sd1, args.scenes, bpe.load(os.path.join(args.sd1, "tokenizer")))
    if args.stage in ("unet", "all"):
        tune.train(inpaint.Task, (args.work, args.sd1), os.path.join(args.work, "inpaint"), args.minutes, args.workers)
    if args.stage in ("export", "all"):
        inpaint.write(args.work, args.sd1, args.out)


if __name__ == "__main__":
    main()
