#!/usr/bin/env python3
"""Trains shapes-sd1, the small latent-diffusion model that ships with kiln, and writes it as a diffusers folder.

    python3 scripts/train_shapes.py all --work build/shapes --out workflows/models/shapes-sd1

Stages: tokenizer, vae, latents, decoder, text, unet, export; `all` runs them in order. Each resumes from its checkpoint in
--work, so the command may be stopped and given again. Needs torch, diffusers, transformers, numpy and Pillow.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("tokenizer", "vae", "latents", "decoder", "text", "unet", "export", "all"))
    parser.add_argument("--work", default="build/shapes", help="checkpoints and logs (build/shapes)")
    parser.add_argument("--out", default="workflows/models/shapes-sd1", help="the diffusers folder to write")
    parser.add_argument("--latest", help="also write the folder here every few minutes of the last stage")
    parser.add_argument("--scenes", type=int, default=20000, help="length of the training list (20000)")
    parser.add_argument("--vae-minutes", type=float, default=27.0)
    parser.add_argument("--decoder-minutes", type=float, default=6.0)
    parser.add_argument("--text-minutes", type=float, default=4.0)
    parser.add_argument("--unet-minutes", type=float, default=110.0)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    import torch
    torch.set_num_threads(args.threads)
    os.makedirs(args.work, exist_ok=True)

    def chosen(stage):
        return args.stage in (stage, "all")

    from shapes import bpe, text, unet, vae
    if chosen("tokenizer"):
        bpe.write(os.path.join(args.work, "tokenizer"))
    if chosen("vae"):
        vae.train(args.work, args.vae_minutes)
    if chosen("latents"):
        text.make_latents(args.work, args.scenes)
    if chosen("decoder"):
        vae.sharpen(args.work, args.decoder_minutes)
    if chosen("text"):
        text.pretrain(args.work, args.text_minutes)
    if chosen("unet"):
        unet.train(args.work, args.unet_minutes, args.latest)
    if chosen("export"):
        unet.write(args.work, args.out)


if __name__ == "__main__":
    main()
