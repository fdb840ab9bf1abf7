"""tests/golden/context_windows.txt: which pictures ComfyUI's context windows have, what they weigh, and torch.randperm.

    python context_windows.py COMFYUI

A case is "case SCHEDULE FUSE LENGTH OVERLAP STRIDE CLOSED PICTURES STEP" with its windows behind it: "window INDEX:WEIGHT ...", or "refused" where
one would reach past the last picture. "noise LENGTH OVERLAP PICTURES SEED : INDEX ..." is FreeNoise.
"""

import itertools
import pathlib
import sys
import types

import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "context_windows.txt"
SCHEDULES = ["standard_static", "standard_uniform", "looped_uniform", "batched"]
FUSES = ["pyramid", "relative", "flat", "overlap-linear"]


def weights(by, fuse, handler, window, pictures):
    if fuse == "relative":  # as combine_context_window_results counts them
        middle, half = (window[0] + window[-1]) / 2, (window[-1] - window[0] + 1e-2) / 2
        return [max(1e-2, 1 - abs(i - middle) / half) for i in window]
    handler.fuse_method = by.get_matching_fuse_method(fuse)
    return [float(w) for w in by.get_context_weights(len(window), pictures, window, handler)]


def cases():
    for schedule, (length, overlap), pictures in itertools.product(range(4), ((4, 1), (3, 0), (5, 4), (16, 4)), (6, 17, 21)):
        strides = (1, 2, 3) if schedule in (1, 2) else (1,)
        for stride, closed, step in itertools.product(strides, (0, 1) if schedule == 2 else (0,), (0, 1, 5) if schedule in (1, 2) else (0,)):
            if pictures > length:
                yield schedule, length, overlap, stride, closed, pictures, step


def main():
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]).resolve()))
    sys.argv = ["context_windows", "--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    import comfy.context_windows as by

    lines = []
    for i, (schedule, length, overlap, stride, closed, pictures, step) in enumerate(cases()):
        fuse = i % 4 if overlap and schedule < 3 else i % 3
        handler = types.SimpleNamespace(context_length=length, context_overlap=overlap, context_stride=stride, closed_loop=bool(closed), _step=step)
        made = by.get_matching_context_schedule(SCHEDULES[schedule]).func(pictures, handler, {})
        lines.append(f"case {schedule} {fuse} {length} {overlap} {stride} {closed} {pictures} {step}")
        for window in made:
            if max(window) >= pictures:
                lines.append("refused")
                break
            each = dict(zip(window, weights(by, FUSES[fuse], handler, window, pictures)))  # of a picture that stands twice the last
            lines.append("window " + " ".join(f"{index}:{each[index]:.7g}" for index in each))
    for length, overlap, pictures, seed in ((4, 1, 6, 11), (3, 0, 20, 5), (16, 4, 100, 2**32 + 7), (8, 7, 9, 0)):
        taken = by.apply_freenoise(torch.arange(pictures).clone(), 0, length, overlap, seed).tolist()
        lines.append(f"noise {length} {overlap} {pictures} {seed} : " + " ".join(map(str, taken)))
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
