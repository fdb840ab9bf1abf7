"""Makes the tiny random Mamba-2 of this folder and what transformers says of it: python make_mamba2.py

Needs torch, transformers and safetensors; the test needs none of them. Numbers are computed in float64.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Mamba2Config, Mamba2ForCausalLM

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "goldens"))
from in_float64 import in_float64  # noqa: E402

PROMPT = [7, 33, 2, 58, 11, 40, 19, 3, 60, 27, 5]
ENDINGS = {"left": [14, 9], "right": [50, 22, 31]}
STEPS = 24

CONFIG = dict(
    hidden_size=32, expand=2, num_heads=4, head_dim=16, state_size=24, n_groups=2, conv_kernel=4, num_hidden_layers=3, vocab_size=61, chunk_size=8,
    bos_token_id=0, eos_token_id=0, pad_token_id=0, layer_norm_epsilon=1e-5, use_bias=False, use_conv_bias=True, hidden_act="silu", model_type="mamba2",
)


def fill(model):
    g = torch.Generator().manual_seed(77)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g, dtype=torch.float32)
        if name.endswith("A_log"):
            r = torch.rand(p.shape, generator=g) * 2 - 1
        elif name.endswith("dt_bias"):
            r = r - 1
        elif name.endswith((".D", "norm.weight", "norm_f.weight")):
            r = 1 + 0.2 * r
        elif name.endswith("bias"):
            r = 0.2 * r
        elif "embeddings" not in name:
            r = r * 1.3 / p[0].numel() ** 0.5
        p.data.copy_(r.bfloat16().float())  # as checkpoints of bf16 have them


def greedy(model, ids, steps):
    ids, margin = list(ids), 1e9
    for _ in range(steps):
        last = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        two = last.topk(2).values
        margin = min(margin, float(two[0] - two[1]))
        ids.append(int(last.argmax()))
    return ids[-steps:], margin


@torch.inference_mode()
def main():
    model = Mamba2ForCausalLM(Mamba2Config(**{k: v for k, v in CONFIG.items() if k != "model_type"})).eval()
    fill(model)
    weights = {name: p.detach().bfloat16().contiguous() for name, p in model.named_parameters()}
    save_file(weights, HERE / "models/language/mamba2.safetensors", {"format": "pt", "config": json.dumps(CONFIG)})
    with in_float64():
        goldens, lines = say(model.double())
    save_file({name: value.to(torch.float32).contiguous() for name, value in goldens.items()}, HERE / "mamba2.goldens.safetensors")
    (HERE / "mamba2.txt").write_text("\n".join(lines) + "\n")


def say(model):
    goldens, lines = {}, [f"prompt {' '.join(map(str, PROMPT))}"]
    goldens["golden.prompt"] = model(torch.tensor([PROMPT]), use_cache=False).logits
    text, margin = greedy(model, PROMPT, STEPS)
    lines.append(f"greedy {' '.join(map(str, text))}")
    goldens["golden.all"] = model(torch.tensor([PROMPT + text]), use_cache=False).logits
    for name, ending in ENDINGS.items():
        text, other = greedy(model, PROMPT + ending, 8)
        margin = min(margin, other)
        lines += [f"ending_{name} {' '.join(map(str, ending))}", f"greedy_{name} {' '.join(map(str, text))}"]
    print("\n".join(lines), f"margin {margin:.4f}", f"largest {goldens['golden.all'].abs().max():.1f}", sep="\n")
    assert margin > 1e-3, margin  # no token hangs on a rounding
    return goldens, lines


if __name__ == "__main__":
    main()
