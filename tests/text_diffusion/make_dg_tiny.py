"""Makes dg-tiny, a DiffusionGemma of random numbers, and what transformers says of it: python make_dg_tiny.py

Needs torch, transformers (5.11 or newer), tokenizers and safetensors; the tests need none of them.
dg-tiny/ is a folder as transformers saves it, its numbers exact in bf16. goldens.safetensors has what the model makes in float64: keys and values, hidden
states, routers' choices, logits; and whole generations whose random numbers are given: tokens are drawn by the inverse of the cumulative sum.
"""

import json
import sys
import unittest.mock as mock
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_tokenizer import write_tokenizer
from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, DynamicCache
from transformers.models.diffusion_gemma import modeling_diffusion_gemma as code
from transformers.models.diffusion_gemma.generation_diffusion_gemma import DiffusionGemmaGenerationConfig, EntropyBoundSamplerConfig

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "strangers/goldens"))
from in_float64 import in_float64  # noqa: E402

CANVAS, VOCABULARY, WINDOW = 16, 512, 8
CONFIG = json.loads("""{"model_type":"diffusion_gemma","architectures":["DiffusionGemmaForBlockDiffusion"],"canvas_length":16,"tie_word_embeddings":true,
 "boi_token_id":509,"image_token_id":510,"eoi_token_id":511,
 "text_config":{"model_type":"diffusion_gemma_text","vocab_size":512,"hidden_size":256,"num_hidden_layers":4,
  "layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],
  "num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"global_head_dim":32,"num_global_key_value_heads":1,
  "sliding_window":8,"intermediate_size":64,"num_experts":6,"top_k_experts":2,"moe_intermediate_size":32,
  "hidden_activation":"gelu_pytorch_tanh","rms_norm_eps":1e-6,"final_logit_softcapping":30.0,"max_position_embeddings":512,
  "attention_bias":false,"attention_dropout":0.0,"use_bidirectional_attention":"vision","tie_word_embeddings":true,
  "pad_token_id":0,"eos_token_id":1,"bos_token_id":2,
  "rope_parameters":{"sliding_attention":{"rope_type":"default","rope_theta":10000.0},
                     "full_attention":{"rope_type":"proportional","rope_theta":1000000.0,"partial_rotary_factor":0.25}}}}""")
VISION = {"model_type": "gemma4_vision", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 2, "head_dim": 16, "patch_size": 8, "pooling_kernel_size": 2, "position_embedding_size": 64}
SAMPLING = {"max_new_tokens": 16, "max_denoising_steps": 12, "t_min": 0.4, "t_max": 0.8, "stability_threshold": 1, "confidence_threshold": 0.005,
            "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.1}, "eos_token_id": [1, 106, 50], "pad_token_id": 0, "bos_token_id": 2}


def draw(name, shape, g):
    r = torch.randn(shape, generator=g)
    if name.endswith("layer_scalar"):
        layer = int(name.split("layers.")[1].split(".")[0])
        return torch.full(shape, 0.9 - 0.15 * layer if "encoder" in name else 0.5 + 0.1 * layer)
    if name.endswith("per_expert_scale"):
        return 0.5 + torch.rand(shape, generator=g)
    if name.endswith("router.scale") or "norm" in name:
        return (0.6 if "q_norm" in name or "k_norm" in name else 1) * (1 + 0.3 * r)
    if "embed_tokens" in name:
        return 0.3 * r
    if "router.proj" in name:
        return 8 * r / shape[-1] ** 0.5
    return r * (0.5 if "self_conditioning.down" in name else 1) / shape[-1] ** 0.5


def the_model():
    config = DiffusionGemmaConfig(**(CONFIG | {"vision_config": VISION}))
    config._attn_implementation = "eager"
    model = DiffusionGemmaForBlockDiffusion._from_config(config, attn_implementation="eager", experts_implementation="eager").eval().float()
    g, stored = torch.Generator().manual_seed(5), {}
    shared = set()
    for name, t in [*model.named_parameters(), *((n, b) for n, b in model.named_buffers() if n.endswith("layer_scalar"))]:
        if "vision" in name or t.data_ptr() in shared:
            continue
        shared.add(t.data_ptr())
        t.data.copy_(draw(name, t.shape, g).bfloat16().float())
    for name, t in model.state_dict().items():
        text = name.startswith("model.decoder.") or ("encoder.language_model" in name and name.endswith("layer_scalar"))
        if text:
            stored[name] = t.detach().bfloat16().contiguous()
    return model, stored


# ---- one pass ----


class Seen:
    """Hidden states behind each layer, routers' logits and choices, by forward hooks."""

    def __init__(self, part):
        self.hidden, self.router, self.chosen, self.hooks = [], [], [], []
        for layer in part.layers:
            self.hooks.append(layer.register_forward_hook(lambda m, i, o: self.hidden.append(o[0].clone())))
            self.hooks.append(layer.router.proj.register_forward_hook(lambda m, i, o: self.router.append(o.clone())))
            self.hooks.append(layer.router.register_forward_hook(lambda m, i, o: self.chosen.append(o[2].clone())))

    def end(self):
        for h in self.hooks:
            h.remove()
        return {"hidden": torch.stack(self.hidden), "router": torch.stack(self.router), "chosen": torch.stack(self.chosen).to(torch.int32)}


def encode(model, cache, ids, see=False):
    at = cache.get_seq_length()
    seen = Seen(model.model.encoder.language_model) if see else None
    model.model.encoder(input_ids=torch.tensor([ids]), past_key_values=cache, position_ids=torch.arange(at, at + len(ids))[None])
    return seen.end() if see else None


def rows(cache):
    """Keys and values of each layer as kiln has them, [places, heads * D]"""
    flat = lambda t: t[0].transpose(0, 1).flatten(1)
    return {f"{i}.{n}": flat(t) for i, layer in enumerate(cache.layers) for n, t in (("keys", layer.keys), ("values", layer.values))}


def canvas_pass(model, cache, canvas, before=None, see=False):
    seen = Seen(model.model.decoder) if see else None
    out = model(past_key_values=cache, decoder_input_ids=torch.tensor([canvas]), self_conditioning_logits=before).logits
    return (out, seen.end()) if see else out


def gaps(seen):
    """How far the last chosen expert is from the first that is not."""
    top = seen["router"].sort(-1, descending=True).values
    return float((top[..., 1] - top[..., 2]).min())


def say_passes(model, g, prompts, canvases):
    fresh = lambda: DynamicCache(config=model.config.text_config)
    for n, prompt in prompts.items():
        cache, see = fresh(), n == 21
        seen = encode(model, cache, prompt, see)
        out = canvas_pass(model, cache, canvases[0], None, see)
        if see:
            g |= {f"prefill.{k}": v for k, v in seen.items()} | {f"prefill.{k}": v for k, v in rows(cache).items()}
            g |= {f"canvas.{k}": v for k, v in out[1].items()}
            print("routers' gaps", gaps(seen), gaps(out[1]))
            out = out[0]
        g[f"logits.{n}"] = out[0]
        if n == 21:
            g["soft"] = ((out / 0.8).softmax(-1) @ model.model.decoder.embed_tokens.weight * 16)[0]
            g["conditioned.21"] = canvas_pass(model, cache, canvases[1], out / 0.8)[0]
        if not see:
            continue
        encode(model, cache, canvases[0])
        g |= {f"commit.{k}": v for k, v in rows(cache).items()}
        g["logits.committed"] = canvas_pass(model, cache, canvases[1])[0]
        encode(model, cache, canvases[1])
        g["logits.committed_twice"] = canvas_pass(model, cache, canvases[2])[0]
        parts = fresh()
        for part in (prompt[:9], prompt[9:10], prompt[10:]):
            encode(model, parts, part)
        print("in pieces", float((canvas_pass(model, parts, canvases[0])[0] - g["logits.21"]).abs().max()))


# ---- whole generations ----


class Given:
    """Random numbers that are recorded: the first canvas of each block, tokens in place of those not accepted, and one number for each drawn token."""

    def __init__(self, seed, blocks, steps):
        r = torch.Generator().manual_seed(seed)
        self.start = torch.randint(0, VOCABULARY, (blocks, CANVAS), generator=r)
        self.renoise = torch.randint(0, VOCABULARY, (blocks, steps, CANVAS), generator=r)
        self.draw = (torch.randint(0, 1 << 24, (blocks, steps, CANVAS), generator=r).double() / (1 << 24)).float()
        self.block, self.step, self.margin, self.inside = -1, 0, {}, False

    def least(self, what, x):
        self.margin[what] = min(self.margin.get(what, 9.0), float(x))

    def sure(self):
        return all(self.margin[what] > most for what, most in (("bound", 1e-4), ("argmax", 1e-4), ("draw", 1e-4), ("confident", 1e-4)))

    def canvas(self):
        """What the sampler's initialize_canvas() gives: a block's first canvas, or the tokens of a step"""
        if self.inside:
            return self.renoise[self.block, self.step][None]
        self.block, self.step = self.block + 1, 0
        return self.start[self.block][None]

    def multinomial(self, p, num_samples):
        u = self.draw[self.block, self.step].double()[:, None]
        sums = p.double().cumsum(-1)
        at = (1 - u) * sums[:, -1:]
        self.near = (sums - at).abs().min(-1).values
        return (sums >= at).to(torch.int32).argmax(-1, keepdim=True)


def generate(model, prompt, seed, blocks, **settings):
    from transformers.models.diffusion_gemma import generation_diffusion_gemma as gen

    steps = settings["max_denoising_steps"]
    noise = Given(seed, blocks, steps)
    trace = []
    keep = model._denoising_step

    def step(*a, **k):
        noise.inside = True
        before = k["current_canvas"]
        with mock.patch.object(torch, "multinomial", noise.multinomial):
            out = keep(*a, **k)
        noise.inside = False
        trace.append((noise.block, noise.step, before[0], out[0][0], out[1][0]))
        noise.step += 1
        return out

    entropies, accepted = [], []
    accept = gen.EntropyBoundSampler.accept_canvas

    def accept_canvas(self, current, drawn, logits, cur):
        out = accept(self, current, drawn, logits, cur)
        h = torch.distributions.Categorical(logits=logits).entropy()[0]
        s = h.sort().values
        two = logits[0].topk(2, -1).values
        noise.least("bound", (s.cumsum(0) - s - self.entropy_bound).abs().min())
        noise.least("argmax", (two[:, 0] - two[:, 1]).min())
        noise.least("draw", noise.near[self.accepted_token_mask[0]].min())
        noise.least("confident", (h.mean() - settings["confidence_threshold"]).abs())
        entropies.append(h)
        accepted.append(self.accepted_token_mask[0].to(torch.int32))
        return out

    bound = settings.pop("entropy_bound")
    config = DiffusionGemmaGenerationConfig(max_new_tokens=blocks * CANVAS, sampler_config=EntropyBoundSamplerConfig(entropy_bound=bound), eos_token_id=[1, 106, 50],
                                            pad_token_id=0, bos_token_id=2, return_dict_in_generate=True, **settings)
    model.generation_config = config
    with mock.patch.object(gen.EntropyBoundSampler, "initialize_canvas", lambda *a, **k: noise.canvas()), mock.patch.object(gen.EntropyBoundSampler, "accept_canvas", accept_canvas), \
            mock.patch.object(model, "_denoising_step", step):
        out = model.generate(torch.tensor([prompt]), generation_config=config)
    ids = out.sequences[0, len(prompt):]
    ran = [sum(1 for t in trace if t[0] == b) for b in range(noise.block + 1)]
    return {"ids": ids, "steps": ran, "x": torch.stack([t[3] for t in trace]), "argmax": torch.stack([t[4] for t in trace]), "entropy": torch.stack(entropies),
            "accepted": torch.stack(accepted), "noise": noise}


KINDS = {
    "plain": dict(max_denoising_steps=8, t_min=0.4, t_max=0.8, stability_threshold=1, confidence_threshold=0.005, entropy_bound=0.1),
    # confident enough to stop before the last step
    "stops": dict(max_denoising_steps=12, t_min=0.1, t_max=0.8, stability_threshold=0, confidence_threshold=0.7, entropy_bound=0.5),
    # a stop token stands in the second canvas
    "ends": dict(max_denoising_steps=4, t_min=0.4, t_max=0.8, stability_threshold=1, confidence_threshold=0.005, entropy_bound=0.1),
}


def wanted(kind, said):
    ends = [i for i, x in enumerate(said["ids"].tolist()) if x in (1, 106, 50)]
    if kind == "plain":
        return not ends
    if kind == "stops":
        return not ends and len(said["steps"]) == 2 and min(said["steps"]) > 2 and max(said["steps"]) < 12
    return len(said["steps"]) == 2 and ends and CANVAS + 2 < ends[0] < 2 * CANVAS - 2


def say_generations(model, wide, g, prompt):
    for kind, settings in KINDS.items():
        for seed in range(150):
            with torch.inference_mode():
                said = generate(model, prompt, seed, 3 if kind == "ends" else 2, **settings)
                if seed < 4 or seed % 50 == 0:
                    print(kind, seed, said["steps"], said["noise"].margin, flush=True)
                if not wanted(kind, said) or not said["noise"].sure():
                    continue
                with in_float64():
                    sure = generate(wide, prompt, seed, 3 if kind == "ends" else 2, **settings)
            if said["steps"] == sure["steps"] and torch.equal(said["ids"], sure["ids"]) and all(torch.equal(said[k], sure[k]) for k in ("x", "argmax", "accepted")):
                break
        else:
            sys.exit(f"no seed for {kind}")
        print(kind, "seed", seed, "steps", said["steps"], "margin", said["noise"].margin, "ids", said["ids"].tolist())
        print(kind, "entropies in f32 are off by", float((said["entropy"].double() - sure["entropy"].double()).abs().max()))
        noise = said["noise"]
        g |= {f"{kind}.ids": said["ids"], f"{kind}.steps": torch.tensor(said["steps"]), f"{kind}.x": said["x"], f"{kind}.argmax": said["argmax"],
              f"{kind}.entropy": sure["entropy"], f"{kind}.accepted": said["accepted"]}
        save_file({"start": noise.start.to(torch.int32), "renoise": noise.renoise.to(torch.int32), "draw": noise.draw}, HERE / f"{kind}.noise.safetensors")


@torch.inference_mode()
def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, stored = the_model()
    save_file(stored, HERE / "dg-tiny/model.safetensors", {"format": "pt"})
    (HERE / "dg-tiny/config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    (HERE / "dg-tiny/generation_config.json").write_text(json.dumps(SAMPLING, indent=1) + "\n")
    write_tokenizer(HERE)
    r = torch.Generator().manual_seed(9)
    prompts = {n: [2] + torch.randint(5, 500, (n - 1,), generator=r).tolist() for n in (1, 7, 8, 9, 21, 40)}
    canvases = torch.randint(0, VOCABULARY, (3, CANVAS), generator=r).tolist()
    wide, _ = the_model()
    wide = wide.double()
    g = {}
    with in_float64():
        say_passes(wide, g, prompts, canvases)
    narrow = {}
    say_passes(model, narrow, prompts, canvases)
    for name in ("logits.21", "conditioned.21", "logits.40", "logits.committed_twice"):
        print(name, "f32 is off by", float((narrow[name] - g[name]).abs().max() / g[name].abs().max()))
    for name in ("prefill.chosen", "canvas.chosen"):
        assert torch.equal(narrow[name], g[name])
    say_generations(model, wide, g, prompts[21])
    short, cache = model.bfloat16(), DynamicCache(config=model.config.text_config)
    encode(short, cache, prompts[21])
    g["off_in_bf16"] = ((canvas_pass(short, cache, canvases[0])[0] - g["logits.21"]).norm() / g["logits.21"].norm())[None]
    print("transformers in bf16 is off by", float(g["off_in_bf16"]))
    g |= {f"prompt.{n}": torch.tensor(p) for n, p in prompts.items()} | {"canvases": torch.tensor(canvases)}
    save_file({k: v.to(torch.float32).contiguous() for k, v in g.items()}, HERE / "goldens.safetensors")
    for path in sorted(HERE.rglob("*.safetensors")):
        path.chmod(0o644)
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
