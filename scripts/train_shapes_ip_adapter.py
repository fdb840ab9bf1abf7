#!/usr/bin/env python3
"""Trains shapes-vision, a small CLIP vision encoder, and shapes-ip-adapter, with which shapes-sd1 takes a picture for a prompt.

    python3 scripts/train_shapes_ip_adapter.py --out workflows/models

writes clip_vision/shapes-vision.safetensors and ipadapter/shapes-ip-adapter.safetensors. The encoder learns to say, with heads that are
thrown away, what is on a picture and where; then the adapter (Ye et al. 2023, "IP-Adapter") to say what noise is on a picture that the
encoder was shown. Captions are left out for most pictures. Needs torch, diffusers, transformers, numpy, Pillow and safetensors.
"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import torch
from safetensors.torch import save_file

from shapes.common import LATENT_SCALE, SEED, Average, alphas_cumulative, load_state, save_state
from shapes.scenes import BACKGROUNDS, COLOURS, SHAPES, paint, scene_at
from train_shapes_controls import noise_loss

FIRST = 110_000_000  # of scenes that the model itself was not trained on
BATCH, SEEN_AT_ONCE, EMPTY, BLIND, OFFSET = 16, 64, 0.8, 0.08, 0.15
TOKENS = 4
VISION = dict(
    hidden_size=96, intermediate_size=384, num_hidden_layers=3, num_attention_heads=4, image_size=64, patch_size=8, projection_dim=96,
    hidden_act="quick_gelu", layer_norm_eps=1e-5,
)
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # of CLIP (Radford et al. 2021)


def see(pictures):
    """[n, 3, 128, 128] in 0..1 -> what the encoder takes."""
    side = VISION["image_size"]
    small = torch.nn.functional.interpolate(pictures, (side, side), mode="bicubic", antialias=True).clamp(0, 1)
    small = (small * 255).round() / 255
    return (small - torch.tensor(MEAN)[:, None, None]) / torch.tensor(DEVIATION)[:, None, None]


class ImageProjection(torch.nn.Module):
    """An image's embedding -> TOKENS tokens of the text's width."""

    def __init__(self, width, context):
        super().__init__()
        self.proj, self.norm = torch.nn.Linear(width, TOKENS * context), torch.nn.LayerNorm(context)

    def forward(self, embeds):
        return self.norm(self.proj(embeds).reshape(len(embeds), TOKENS, -1))


def in_order(scene):
    """The things from left to right, or from above to below where that is how they lie: an order that the picture shows."""
    return sorted(scene.things, key=lambda t: t.x if scene.relation in ("left", "right") else t.y)


def answers(scene):
    """What is on a picture, as one class for each question; the second thing's are -100 (not asked) where there is one thing."""
    lie = 0 if not scene.relation else 1 if scene.relation in ("left", "right") else 2
    row = [list(BACKGROUNDS).index(scene.background), lie]
    things = in_order(scene)
    for k in range(2):
        row += [list(SHAPES).index(things[k].shape), list(COLOURS).index(things[k].colour)] if k < len(things) else [-100, -100]
    return row


CLASSES = (len(BACKGROUNDS), 3, len(SHAPES), len(COLOURS), len(SHAPES), len(COLOURS))


def places(scene):
    """x, y and radius of both things, of the picture's side; NaN where there is none."""
    rows = [[t.x / 128, t.y / 128, t.radius / 128] for t in in_order(scene)]
    return sum((rows + [[float("nan")] * 3])[:2], [])


class Vision(torch.nn.Module):
    """The encoder, and the heads that ask it."""

    def __init__(self):
        from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

        super().__init__()
        self.vision = CLIPVisionModelWithProjection(CLIPVisionConfig(**VISION))
        self.heads = torch.nn.Linear(VISION["projection_dim"], sum(CLASSES) + 6)

    def forward(self, seen, told, where):
        logits = self.heads(self.vision(seen).image_embeds)
        parts = torch.split(logits, (*CLASSES, 6), 1)
        named = sum(torch.nn.functional.cross_entropy(p, told[:, i], ignore_index=-100) for i, p in enumerate(parts[:-1])) / len(CLASSES)
        known = ~where.isnan()
        return named, (parts[-1][known] - where[known]).abs().mean()


class Adapter(torch.nn.Module):
    def __init__(self, unet):
        from diffusers.models.attention_processor import IPAdapterAttnProcessor2_0

        super().__init__()
        context = unet.config.cross_attention_dim
        self.image_proj = ImageProjection(VISION["projection_dim"], context)
        processors = dict(unet.attn_processors)
        for name in processors:
            if name.endswith("attn2.processor"):
                attention = unet.get_submodule(name[: -len(".processor")])
                own = IPAdapterAttnProcessor2_0(attention.to_q.out_features, context, num_tokens=(TOKENS,))
                own.to_k_ip[0].weight.data.copy_(attention.to_k.weight)
                own.to_v_ip[0].weight.data.copy_(attention.to_v.weight)
                processors[name] = own
        unet.set_attn_processor(processors)
        self.adapters = torch.nn.ModuleList(p for n, p in unet.attn_processors.items() if n.endswith("attn2.processor"))


@torch.no_grad()
def states_of(pipe, captions):
    ids = pipe.tokenizer(captions, padding="max_length", max_length=77, truncation=True, return_tensors="pt")["input_ids"]
    return pipe.text_encoder(ids).last_hidden_state


def make_views(count):
    """What the encoder sees of scenes (f16), answers, places."""
    seen, told, where = [], [], []
    for k in range(0, count, 64):
        some = [scene_at(SEED, FIRST + 1_000_000 + i) for i in range(k, min(k + 64, count))]
        seen.append(see(torch.from_numpy(np.stack([paint(s) for s in some])).permute(0, 3, 1, 2).float() / 255).half())
        told.append(torch.tensor([answers(s) for s in some]))
        where.append(torch.tensor([places(s) for s in some]))
    return [torch.cat(x) for x in (seen, told, where)]


@torch.no_grad()
def make_data(pipe, vision, count):
    """Latents, text states, the encoder's embeddings."""
    latents, states, embeds = [], [], []
    for k in range(0, count, 32):
        some = [scene_at(SEED, FIRST + i) for i in range(k, min(k + 32, count))]
        pictures = torch.from_numpy(np.stack([paint(s) for s in some])).permute(0, 3, 1, 2).float() / 255
        latents.append(pipe.vae.encode(pictures * 2 - 1).latent_dist.mean * LATENT_SCALE)
        states.append(states_of(pipe, [s.caption for s in some]).half())
        embeds.append(vision(see(pictures)).image_embeds)
    return [torch.cat(x) for x in (latents, states, embeds)]


def train(model, loss_of, path, minutes, rate):
    """loss_of(generator) -> (loss, what else is told). Goes on where an interrupted training stood; leaves the averaged weights."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99), weight_decay=1e-2)
    average, step, spent, mean = Average(model, 0.995), 0, 0.0, None
    if state := load_state(path):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average.weights, step, spent = state["average"], state["step"], state["spent"]
    began = time.monotonic() - spent
    while (done := (time.monotonic() - began) / (minutes * 60)) < 1:
        loss, *told = loss_of(torch.Generator().manual_seed(SEED + step))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 100) * (1 - done)
        optimizer.step()
        step += 1
        average.update(model, step)
        now = torch.tensor([loss.item(), *told])
        mean = now if mean is None else 0.97 * mean + 0.03 * now
        if step % 50 == 0:
            print(f"step {step}, {time.monotonic() - began:.0f} s,", *[f"{x:.4f}" for x in mean.tolist()], flush=True)
        if step % 200 == 0:
            save_state(path, model=model.state_dict(), optimizer=optimizer.state_dict(), average=average.weights, step=step, spent=time.monotonic() - began)
    model.load_state_dict(average.weights)
    model.eval()


def question_loss(model, data):
    seen, told, where = data

    def loss_of(g):
        pick = torch.randint(len(seen), (SEEN_AT_ONCE,), generator=g)
        named, placed = model(seen[pick].float(), told[pick], where[pick])
        return named + 5 * placed, named.item(), placed.item()

    return loss_of


def picture_loss(pipe, model, data):
    latents, states, embeds = data
    alphas, empty = alphas_cumulative(), states_of(pipe, [""])

    def loss_of(g):
        pick = torch.randint(len(latents), (BATCH,), generator=g)
        clean, context = latents[pick], states[pick].float()
        context[torch.rand(BATCH, generator=g) < EMPTY] = empty
        tokens = model.image_proj(embeds[pick] * (torch.rand(BATCH, 1, generator=g) >= BLIND))
        times = ((torch.arange(BATCH) + torch.rand(BATCH, generator=g)) * (len(alphas) / BATCH)).long()
        noise = torch.randn(clean.shape, generator=g) + OFFSET * torch.randn(BATCH, 4, 1, 1, generator=g)
        a = alphas[times][:, None, None, None]
        guess = pipe.unet(a.sqrt() * clean + (1 - a).sqrt() * noise, times, (context, [tokens])).sample
        return (noise_loss(guess, noise, a),)

    return loss_of


def write(vision_weights, weights, folder):
    """The encoder as transformers writes it; the adapter as IP-Adapter's authors do: their numbers count self-attentions too."""
    vision = {name: t.half().contiguous() for name, t in vision_weights.items() if t.is_floating_point()}
    adapter = {}
    for name, tensor in weights.items():
        part, rest = name.split(".", 1)
        number, matrix = rest.split(".")[:2]
        adapter[name if part == "image_proj" else f"ip_adapter.{2 * int(number) + 1}.{matrix}.weight"] = tensor.half().contiguous()
    for where, name, tensors, what in (
        ("clip_vision", "shapes-vision", vision, "a CLIP vision encoder for shapes-ip-adapter"),
        ("ipadapter", "shapes-ip-adapter", adapter, "an IP-Adapter for shapes-sd1, for shapes-vision's embeddings"),
    ):
        os.makedirs(os.path.join(folder, where), exist_ok=True)
        path = os.path.join(folder, where, name + ".safetensors")
        shown = {"num_attention_heads": str(VISION["num_attention_heads"]), "hidden_act": VISION["hidden_act"]} if tensors is vision else {}
        save_file(tensors, path, metadata={"format": "pt", "what": what, **shown})
        print(f"{path}: {os.path.getsize(path)} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="workflows/models/shapes-sd1")
    parser.add_argument("--work", default="build/shapes-controls")
    parser.add_argument("--out", default="workflows/models", help="folder of the models")
    parser.add_argument("--views", type=int, default=12000, help="pictures that the encoder learns from")
    parser.add_argument("--scenes", type=int, default=5000, help="pictures that the adapter learns from")
    parser.add_argument("--vision-minutes", type=float, default=9.0)
    parser.add_argument("--minutes", type=float, default=24.0, help="of the adapter's training")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    from diffusers import StableDiffusionPipeline

    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    os.makedirs(args.work, exist_ok=True)
    pipe = StableDiffusionPipeline.from_pretrained(args.model, safety_checker=None, feature_extractor=None).to(torch.float32)
    for part in (pipe.vae, pipe.text_encoder, pipe.unet):
        part.eval().requires_grad_(False)
    eyes = Vision().train()
    train(eyes, question_loss(eyes, make_views(args.views)), os.path.join(args.work, "vision.pt"), args.vision_minutes, 2e-3)
    data = make_data(pipe, eyes.vision, args.scenes)
    model = Adapter(pipe.unet).train()
    train(model, picture_loss(pipe, model, data), os.path.join(args.work, "ip-adapter.pt"), args.minutes, 1e-3)
    write(eyes.vision.state_dict(), model.state_dict(), args.out)


if __name__ == "__main__":
    main()
