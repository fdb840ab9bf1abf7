#!/usr/bin/env python3
"""Trains the controls of shapes-sd1: `edges`, a ControlNet that follows white edges on black, and `colours`, a T2I-Adapter that follows
a grid of colours; and of shapes-xl `edges-xl`, a Control-LoRA that begins with what `edges` learnt.

    python3 scripts/train_shapes_controls.py edges --out workflows/models/controlnet/shapes-edges
    python3 scripts/train_shapes_controls.py colours --out workflows/models/controlnet/shapes-colours.safetensors
    python3 scripts/train_shapes_controls.py edges-xl --out workflows/models/controlnet/shapes-xl-edges.safetensors

The hints are what the nodes Canny and ColorBlocks make of a scene. The UNet stays as it is (Zhang et al. 2023, "Adding conditional
control"; Mou et al. 2023, "T2I-Adapter"). Captions are left out for a part of the pictures, so that the hint alone decides there.
Needs torch, diffusers, transformers, kornia, numpy, Pillow and safetensors.
"""
import argparse
import json
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import torch
from safetensors.torch import save_file

from shapes import control_lora, xl_pictures
from shapes.common import SEED, UNET, Average, alphas_cumulative, load_state, save_state
from shapes.scenes import SIZE, paint, retell, scene_at

FIRST = 70_000_000  # of scenes that the model itself was not trained on
BATCH, OFFSET, WEIGHT_MOST = 12, 0.15, 6.0
EMPTY = {"edges": 0.33, "colours": 0.6, "edges-xl": 0.33}
MINUTES = {"edges": 46.0, "colours": 17.0, "edges-xl": 30.0}
RATE = {"edges": 1e-3, "colours": 2e-3, "edges-xl": 5e-4}
BLOCK = 16
LARGER = (17.0, 29.0)  # radius of a pair's things that are moved


def edges_of(pictures):
    """[n, 3, 128, 128] in 0..1 -> white edges on black, as ComfyUI's node Canny draws them with these thresholds."""
    from kornia.filters import canny

    return canny(pictures, 0.1, 0.2)[1].expand(-1, 3, -1, -1)


def blocks_of(pictures):
    """Each block of 16x16 pixels in its mean colour, as the node ColorBlocks draws it."""
    small = torch.nn.functional.avg_pool2d(pictures, BLOCK)
    return torch.nn.functional.interpolate(small, scale_factor=BLOCK, mode="nearest")


HINTS = {"edges": edges_of, "colours": blocks_of, "edges-xl": edges_of}


def make_control(kind, unet, first):
    """first: of edges-xl, folders of shapes-edges and shapes-sd1 to begin with."""
    from diffusers import ControlNetModel, T2IAdapter, UNet2DConditionModel

    if kind != "colours":
        control = ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(8, 16, 32, 64), conditioning_channels=3)
        last = control.controlnet_cond_embedding.conv_out  # from zero it takes thousands of steps to begin
        torch.nn.init.normal_(last.weight, std=0.5 / (9 * last.in_channels) ** 0.5)
        if kind == "edges-xl":
            control_lora.narrow(control, ControlNetModel.from_pretrained(first[0]), UNet2DConditionModel.from_pretrained(first[1], subfolder="unet"))
        return control
    # a light adapter has a level more than channels, of the last width
    return T2IAdapter(in_channels=3, channels=list(unet.config.block_out_channels[:-1]), num_res_blocks=1, downscale_factor=8, adapter_type="light_adapter")


def guess_noise(kind, control, unet, x, times, context, hints, more):
    if kind == "colours":
        return unet(x, times, context, down_intrablock_additional_residuals=[f.clone() for f in control(hints)]).sample
    down, middle = control(x, times, context, hints, return_dict=False, **more)
    return unet(x, times, context, down_block_additional_residuals=down, mid_block_additional_residual=middle, **more).sample


@torch.no_grad()
def states_of(pipe, captions):
    """What the UNet attends to [n, 77, width], and SDXL's pooled text [n, width]."""
    if hasattr(pipe, "text_encoder_2"):
        states, _, pooled, _ = pipe.encode_prompt(captions, device="cpu", do_classifier_free_guidance=False)
        return states, pooled
    ids = pipe.tokenizer(captions, padding="max_length", max_length=77, truncation=True, return_tensors="pt")["input_ids"]
    return pipe.text_encoder(ids).last_hidden_state, torch.zeros(len(captions), 0)


def moved(scene, rng):
    """The scene with its things anywhere and pairs up to a quarter larger, as long as what the caption says stays true."""
    along, across = ("x", "y") if scene.relation in ("left", "right") else ("y", "x")
    while True:
        for thing in scene.things:
            if scene.relation:
                thing.radius = rng.uniform(*LARGER)
            thing.x, thing.y = (rng.uniform(thing.radius + 3, SIZE - 3 - thing.radius) for _ in range(2))
        if not scene.relation:
            return scene
        a, b = scene.things
        apart, aside = (getattr(b, axis) - getattr(a, axis) for axis in (along, across))
        apart = apart if scene.relation in ("left", "above") else -apart
        if apart > a.radius + b.radius + 2 and abs(aside) < 0.7 * apart:
            return scene


def scene_number(i, free):
    """free: the share of scenes whose things are moved."""
    scene, rng = scene_at(SEED, FIRST + i), random.Random(f"moved/{i}")
    return moved(scene, rng) if rng.random() < free else scene


@torch.no_grad()
def make_data(pipe, kind, count, free, work):
    """Once: latents [count, 4, 16, 16], text states [count, 2, 77, width] of two captions each, pooled [count, 2, width], and hints as bytes [count, 3, 128, 128]."""
    path = os.path.join(work, f"{kind}-{count}-{free:g}.pt")
    if state := load_state(path):
        return state["data"]
    latents, states, pooled, hints = [], [], [], []
    for k in range(0, count, 32):
        some = [scene_number(i, free) for i in range(k, min(k + 32, count))]
        pictures = torch.from_numpy(np.stack([paint(s) for s in some])).permute(0, 3, 1, 2).float() / 255
        hints.append((HINTS[kind](pictures) * 255).round().to(torch.uint8))
        latents.append(pipe.vae.encode(pictures * 2 - 1).latent_dist.mean * pipe.vae.config.scaling_factor)
        told = [states_of(pipe, [retell(s, random.Random(k + t)) if t else s.caption for s in some]) for t in range(2)]
        states.append(torch.stack([one for one, _ in told], 1).half())
        pooled.append(torch.stack([one for _, one in told], 1))
    data = [torch.cat(part) for part in (latents, states, pooled, hints)]
    save_state(path, data=data)
    return data


def noise_loss(guess, noise, a):
    """Weighted as if the network said v (Salimans and Ho 2022): by snr + 1 for an error of the picture, at most WEIGHT_MOST. Weighted by
    its noise alone, a network has little to gain from a hint where it decides what goes where."""
    snr = (a / (1 - a)).flatten()
    return ((guess - noise).square().mean((1, 2, 3)) * (snr + 1).clamp(max=WEIGHT_MOST) / snr).mean()


def train(pipe, kind, control, data, work, minutes, rate):
    """Goes on where an interrupted training stood; returns the averaged weights."""
    latents, states, pooled, hints = data
    path = os.path.join(work, f"{kind}.pt")
    trained = [p for p in control.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=1e-3)
    alphas, (empty, empty_pooled) = alphas_cumulative(), states_of(pipe, [""])
    average, step, spent, mean = Average(control, 0.99), 0, 0.0, None
    if state := load_state(path):
        control.load_state_dict(state["control"])
        optimizer.load_state_dict(state["optimizer"])
        average.weights, step, spent = state["average"], state["step"], state["spent"]
    began = time.monotonic() - spent
    while (done := (time.monotonic() - began) / (minutes * 60)) < 1:
        g = torch.Generator().manual_seed(SEED + step)
        pick = torch.randint(len(latents), (BATCH,), generator=g)
        clean, context, text = latents[pick], states[pick, step % 2].float(), pooled[pick, step % 2]
        silent = torch.rand(BATCH, generator=g) < EMPTY[kind]
        context[silent], text[silent] = empty, empty_pooled
        more = {"added_cond_kwargs": {"text_embeds": text, "time_ids": xl_pictures.larger(BATCH, g).float()}} if kind == "edges-xl" else {}
        times = ((torch.arange(BATCH) + torch.rand(BATCH, generator=g)) * (len(alphas) / BATCH)).long()
        noise = torch.randn(clean.shape, generator=g) + OFFSET * torch.randn(BATCH, 4, 1, 1, generator=g)
        a = alphas[times][:, None, None, None]
        guess = guess_noise(kind, control, pipe.unet, a.sqrt() * clean + (1 - a).sqrt() * noise, times, context, hints[pick].float() / 255, more)
        loss = noise_loss(guess, noise, a)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 50) * (1 - done)
        optimizer.step()
        step += 1
        average.update(control, step)
        mean = loss.item() if mean is None else 0.97 * mean + 0.03 * loss.item()
        if step % 50 == 0:
            print(f"step {step}, {time.monotonic() - began:.0f} s, loss {mean:.4f}", flush=True)
        if step % 200 == 0:
            save_state(path, control=control.state_dict(), optimizer=optimizer.state_dict(), average=average.weights, step=step, spent=time.monotonic() - began)
    return average.weights


def write(kind, control, weights, out):
    """A ControlNet is a folder, since its tensors do not show how many heads it has; the others are one file."""
    if kind == "edges-xl":
        control_lora.write(control, weights, out, "a Control-LoRA for shapes-xl: white edges on black")
        return
    if kind == "edges":
        control.load_state_dict(weights)
        control.half().save_pretrained(out)
        return
    os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
    what = "a T2I-Adapter for shapes-sd1: blocks of 16x16 pixels in their mean colours"
    save_file({k: v.half().contiguous() for k, v in weights.items()}, out, metadata={"format": "pt", "what": what, "unet_config": json.dumps({"layers_per_block": UNET["layers_per_block"]})})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=HINTS)
    parser.add_argument("--model", help="workflows/models/shapes-xl for edges-xl, else shapes-sd1")
    parser.add_argument("--first", nargs=2, default=["workflows/models/controlnet/shapes-edges", "workflows/models/shapes-sd1"], help="what edges-xl begins with")
    parser.add_argument("--go-on", metavar="FILE", help="a Control-LoRA that edges-xl begins with")
    parser.add_argument("--work", default="build/shapes-controls")
    parser.add_argument("--out", required=True)
    parser.add_argument("--scenes", type=int, help="1200 for edges-xl, 3000 for the others, when not given")
    parser.add_argument("--free", type=float, default=0.0, metavar="SHARE", help="of scenes whose things stand anywhere and not beside or above one another (0)")
    parser.add_argument("--minutes", type=float, help=f"{MINUTES} when not given")
    parser.add_argument("--rate", type=float, help=f"{RATE} when not given")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    args.scenes = args.scenes or (1200 if args.kind == "edges-xl" else 3000)
    args.minutes, args.rate = args.minutes or MINUTES[args.kind], args.rate or RATE[args.kind]
    args.model = args.model or ("workflows/models/shapes-xl" if args.kind == "edges-xl" else "workflows/models/shapes-sd1")

    from diffusers import DiffusionPipeline

    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    os.makedirs(args.work, exist_ok=True)
    pipe = DiffusionPipeline.from_pretrained(args.model).to(torch.float32)
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            part.eval().requires_grad_(False)
    data = make_data(pipe, args.kind, args.scenes, args.free, args.work)
    print(f"{len(data[0])} scenes, mean of the hints {data[3].float().mean():.1f}", flush=True)
    control = make_control(args.kind, pipe.unet, args.first).train()
    if args.go_on:
        control_lora.read(control, args.go_on)
    write(args.kind, control, train(pipe, args.kind, control, data, args.work, args.minutes, args.rate), args.out)


if __name__ == "__main__":
    main()
