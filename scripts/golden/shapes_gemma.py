"""shapes_gemma.safetensors: whole generations of shapes-gemma by transformers in f32, with every number that chance drew.

For each case K (0, 1, ...): K.prompt ids; K.x0 the random canvas; per denoising step (rows) K.draw a number of [0,1) for each position, K.drawn the token that
it samples, K.random what replaces positions that are not accepted, K.accepted 0 or 1, K.argmax, K.entropy in nats at the step's temperature; K.tokens what is
committed, up to the first end. torch's own sampling of tokens is replaced by the inverse of the distribution: the first token, in the order of ids, whose sum of
probabilities reaches 1 - draw. Fed with prompt, x0, draw (or drawn) and random, an implementation gives the same accepted, argmax, number of steps and tokens.
Round-off decides where a number lies next to an edge: `margin` in the metadata is how near that was, for the entropy bound (nats), for the two
largest logits, and for draws (probability). Case 0 also has the logits of its first two steps; the second sees the first as its guess.
The metadata has the requests, captions and settings.
"""
import torch

from common import GOLDEN, ROOT, save, versions

MODEL = ROOT / "workflows" / "models" / "text_diffusion" / "shapes-gemma"
CASES = [  # (request, seed, bound)
    ("two shapes", 1, 0.1), ("something red on the left", 2, 0.1), ("a blue circle and something else", 3, 0.1), ("Draw a tiny violet star on grey!", 4, 0.1),
    ("two circles side by side on black", 5, 0.1), ("surprise me", 6, 0.1), ("an orange ring at the bottom and a square at the top", 7, 1.0),
]


class Recorder:
    """What generate() draws: torch's integers, and tokens by the inverse of their distribution."""

    def __init__(self):
        self.integers, self.draw, self.drawn, self.margin = [], [], [], 1.0
        self.randint, self.multinomial = torch.randint, torch.multinomial

    def __enter__(self):
        def randint(*args, **kwargs):
            self.integers.append(self.randint(*args, **kwargs))
            return self.integers[-1]

        def multinomial(chances, num_samples):
            draw = torch.rand(len(chances))
            sums = chances.double().cumsum(-1)
            reach = ((1 - draw.double()) * sums[:, -1])[:, None]
            self.margin = min(self.margin, float((sums - reach).abs().min()))
            self.draw.append(draw)
            self.drawn.append((sums >= reach).int().argmax(-1, keepdim=True))
            return self.drawn[-1]

        torch.randint, torch.multinomial = randint, multinomial
        return self

    def __exit__(self, *_):
        torch.randint, torch.multinomial = self.randint, self.multinomial


def run(model, tokenizer, request, seed, bound):
    """{name: tensor} of one case, its caption, margins, the first two logits."""
    from transformers.models.diffusion_gemma.generation_diffusion_gemma import EntropyBoundSampler, EntropyBoundSamplerConfig

    prompt = tokenizer.apply_chat_template([{"role": "user", "content": request}], add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
    accepted, processed, inner = [], [], EntropyBoundSampler.accept_canvas

    def accept(self, current, denoised, logits, step):
        out = inner(self, current, denoised, logits, step)
        accepted.append(self.accepted_token_mask[0].long())
        processed.append(logits[0].double())
        return out

    EntropyBoundSampler.accept_canvas = accept
    raw, forward = [], model.forward

    def heard(*args, **kwargs):
        out = forward(*args, **kwargs)
        raw.append(out.logits[0].clone())
        return out

    model.forward = heard
    torch.manual_seed(seed)
    with Recorder() as record:
        ids = model.generate(prompt, sampler_config=EntropyBoundSamplerConfig(entropy_bound=bound)).sequences[0, prompt.shape[1]:]
    EntropyBoundSampler.accept_canvas = inner
    model.forward = forward
    steps = len(record.drawn)
    assert len(record.integers) == steps + 1 and len(accepted) == steps
    chances = [torch.log_softmax(p, -1) for p in processed]
    entropy = torch.stack([-(c.exp() * c).sum(-1) for c in chances])
    ordered = entropy.sort(-1).values
    near = float((ordered.cumsum(-1) - ordered - bound).abs().min())
    top = torch.stack(processed).topk(2, -1).values
    ends = [i for i, t in enumerate(ids.tolist()) if t in model.generation_config.eos_token_id]
    tensors = {
        "prompt": prompt[0].long(), "x0": record.integers[0][0].long(), "draw": torch.stack(record.draw), "drawn": torch.stack([d.view(-1) for d in record.drawn]).long(),
        "random": torch.stack([r[0] for r in record.integers[1:]]).long(), "accepted": torch.stack(accepted), "entropy": entropy.float(),
        "argmax": torch.stack([p.argmax(-1) for p in processed]).long(), "tokens": ids[: ends[0] + 1 if ends else None].long(),
    }
    return tensors, tokenizer.decode(ids, skip_special_tokens=True), [near, float((top[..., 0] - top[..., 1]).min()), record.margin], raw[:2]


def main():
    from transformers import AutoTokenizer, DiffusionGemmaForBlockDiffusion

    torch.set_num_threads(1)
    model = DiffusionGemmaForBlockDiffusion.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tensors, cases = {}, []
    for k, (request, seed, bound) in enumerate(CASES):
        found, caption, margin, logits = run(model, tokenizer, request, seed, bound)
        tensors.update({f"{k}.{name}": value for name, value in found.items()})
        if k == 0:
            tensors.update({f"0.logits.{i}": value for i, value in enumerate(logits)})
        cases.append({"request": request, "caption": caption, "entropy_bound": bound, "steps": len(found["drawn"]), "margin": margin})
        print(cases[-1])
    settings = {k: getattr(model.generation_config, k) for k in ("max_denoising_steps", "t_min", "t_max", "stability_threshold", "confidence_threshold", "eos_token_id")}
    save(GOLDEN / "shapes_gemma.safetensors", tensors, {"cases": cases, "settings": settings, "versions": versions()})


if __name__ == "__main__":
    main()
