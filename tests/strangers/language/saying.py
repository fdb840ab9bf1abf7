"""What the models of this folder share: their numbers are rounded to bf16, and what transformers says of a few tokens is computed in float64."""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "goldens"))
from in_float64 import in_float64  # noqa: E402

PROMPT = [7, 33, 2, 58, 11, 40, 19, 3, 60, 27, 5]
ENDINGS = {"left": [14, 9], "right": [50, 22, 31]}
STEPS = 24


def fill(model, draw, seed):
    """draw(name, random): what a parameter of that name is made of numbers of a normal distribution"""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        p.data.copy_(draw(name, torch.randn(p.shape, generator=g, dtype=torch.float32)).bfloat16().float())


def greedy(model, ids, steps):
    ids, margin = list(ids), 1e9
    for _ in range(steps):
        last = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        two = last.topk(2).values
        margin = min(margin, float(two[0] - two[1]))
        ids.append(int(last.argmax()))
    return ids[-steps:], margin


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
    assert margin > 5e-5 * goldens["golden.all"].abs().max(), margin  # no token hangs on f32's rounding, which is near 1e-6
    return goldens, lines


@torch.inference_mode()
def make(name, model, config, stored=lambda key, p: {key: p}):
    """The files NAME.safetensors, NAME.goldens.safetensors and NAME.txt; stored(): a parameter under the names that the file has"""
    weights = {n: part.detach().bfloat16().contiguous() for key, p in model.named_parameters() for n, part in stored(key, p).items()}
    save_file(weights, HERE / f"models/language/{name}.safetensors", {"format": "pt", "config": json.dumps(config)})
    with in_float64():
        goldens, lines = say(model.eval().double())
    text = PROMPT + [int(x) for x in lines[1].split()[1:]]
    error = (model.bfloat16()(torch.tensor([text]), use_cache=False).logits - goldens["golden.all"]).abs().max() / goldens["golden.all"].abs().max()
    print(f"transformers in bf16: {error:.1e}")
    save_file({key: value.to(torch.float32).contiguous() for key, value in goldens.items()}, HERE / f"{name}.goldens.safetensors")
    (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")
    for path in HERE.rglob(f"{name}*.safetensors"):
        path.chmod(0o644)
        print(path.name, path.stat().st_size, "bytes")
