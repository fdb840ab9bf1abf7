#!/usr/bin/env python3
"""The same prompts through a ComfyUI checkout and through kiln: the numbers behind `make parity-comfyui`.

    parity_comfyui.py --comfyui FOLDER --kiln PROGRAM [--work DIR] [--only WORD] [--table FILE] [--keep]

Makes DIR/models and DIR/input (once, from a seed), lets ComfyUI draw every row of scripts/comfyui/rows.py in this Python, on the CPU, in
f32, lets `kiln run --precision f32 --device cpu` draw the same prompts, and compares the PNGs they wrote, in counts of 255.

A row holds when its pictures are as many and as large as ComfyUI's, differ by BOUND_MEAN at most on average and by BOUND_MAX at most in any
value. A picture that is grey or saturated shows nothing, so a drawn one that is so does not hold either. Where kiln is given a prompt of its own
the table says what is other in it. Exit status 1: a row does not hold, or kiln has a node that no row uses.
"""

import argparse
import datetime
import json
import pathlib
import shutil
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS / "comfyui"))

import numpy as np
from PIL import Image

import model
import rows

BOUND_MEAN, BOUND_MAX = 0.1, 1
EDGE_MOST = 0.6  # of a drawn picture's values may be 0 or 255
SPREAD_LEAST = 5  # its standard deviation
ROW_SECONDS = 120


def pictures(folder, name):
    return sorted(folder.glob(f"{name}_[0-9]_[0-9]*_.png"))


def load(path):
    return np.asarray(Image.open(path)).astype(np.int16)


def dull(prompt, picture):
    """A picture that a network drew and on which no difference would show."""
    if not any("KSampler" in node["class_type"] or "SamplerCustom" in node["class_type"] for node in prompt.values()):
        return ""
    if np.mean((picture == 0) | (picture == 255)) > EDGE_MOST:
        return "saturated"
    return "grey" if picture.std() < SPREAD_LEAST else ""


def compare(prompt, wanted, got, bound_mean):
    """(mean, max, what is wrong or "")"""
    if [path.name for path in wanted] != [path.name for path in got] or not wanted:
        return None, None, f"{len(got)} pictures, ComfyUI {len(wanted)}"
    total = count = worst = 0
    for one, other in zip(wanted, got):
        a, b = load(one), load(other)
        if a.shape != b.shape:
            return None, None, f"{one.name}: {b.shape}, ComfyUI {a.shape}"
        fault = dull(prompt, a)
        if fault:
            return None, None, f"{one.name} is {fault}"
        difference = np.abs(a - b)
        total, count, worst = total + int(difference.sum()), count + difference.size, max(worst, int(difference.max()))
    mean = total / count
    return mean, worst, "" if mean <= bound_mean and worst <= BOUND_MAX else "differs"


def run_comfyui(options, prompts):
    asked, done = options.work / "prompts.json", options.work / "done.json"
    asked.write_text(json.dumps(prompts))
    done.unlink(missing_ok=True)
    shutil.rmtree(options.work / "output", ignore_errors=True)
    (options.work / "output").mkdir()
    with open(options.work / "comfyui.log", "w") as log:
        command = [sys.executable, SCRIPTS / "comfyui" / "reference.py", options.comfyui, options.work, asked, done]
        status = subprocess.run(command, stderr=log).returncode
    if status or not done.exists():
        raise SystemExit(f"ComfyUI ended with status {status}; its words are in {options.work / 'comfyui.log'}")
    return json.loads(done.read_text())


def run_kiln(options, name, prompt):
    """"", or the last line of what it said."""
    file = options.work / "kiln" / f"{name}.json"
    file.write_text(json.dumps(prompt))
    folders = ["--models", options.work / "models", "--input", options.work / "input", "--out", file.parent]
    command = [options.kiln, "run", file, *folders, "--precision", "f32", "--device", "cpu", "--no-cache", "--quiet"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=ROW_SECONDS)
    except subprocess.TimeoutExpired:
        return f"not done in {ROW_SECONDS} s"
    lines = ran.stderr.strip().splitlines() or [f"status {ran.returncode}"]
    return lines[0] if ran.returncode else ""


def unused(options):
    """Nodes of kiln (all of them are ComfyUI's too) that no row uses."""
    have = {node["type"] for node in json.loads(subprocess.check_output([options.kiln, "nodes", "--json"]))}
    given = [rows.otherwise.get(name, (prompt,))[0] for name, prompt in rows.rows.items()]
    return sorted(have - {node["class_type"] for prompt in given for node in prompt.values()})


def judge(options, name, prompt, failed):
    """One row of the table: (name, mean, max, holds, words)"""
    if failed:
        return name, None, None, False, f"ComfyUI: {failed}"
    given, why = rows.otherwise.get(name, (prompt, ""))
    bound, why = rows.bounds.get(name, (BOUND_MEAN, why))
    said = run_kiln(options, name, given)
    if said:
        return name, None, None, False, f"kiln: {said}"
    mean, worst, fault = compare(prompt, pictures(options.work / "output", name), pictures(options.work / "kiln", name), bound)
    return name, mean, worst, not fault, fault or why


def table(found):
    lines = ["| row | mean | max | |", "|---|---|---|---|"]
    for name, mean, worst, holds, words in found:
        numbers = " | " if mean is None else f"{mean:.4f} | {worst}"
        lines.append(f"| {name} | {numbers} | {'ok' if holds else 'MISS'}{': ' if words else ''}{words} |")
    return "\n".join(lines)


def summary(found):
    """A line for each section of rows.py but for rows with a bound of their own, then all that were given something of their own."""
    lines, by_name = ["| rows | number | worst mean | worst max |", "|---|---|---|---|"], {entry[0]: entry for entry in found}
    for title, names in rows.sections:
        entries = [by_name[name] for name in names if name in by_name and by_name[name][1] is not None and name not in rows.bounds]
        if entries:
            lines.append(f"| {title} | {len(entries)} | {max(e[1] for e in entries):.4f} | {max(e[2] for e in entries)} |")
    special = [f"- {name}: {mean:.4f} and {worst}; {words}" for name, mean, worst, holds, words in found if holds and words]
    return "\n".join([*lines, "", *special])


def versions(options):
    import torch

    version = (options.comfyui / "comfyui_version.py").read_text().split('"')[1]
    program = subprocess.check_output([options.kiln, "--version"], text=True).strip()
    return f"{datetime.date.today()}, ComfyUI {version}, torch {torch.__version__}, {program}"


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comfyui", type=pathlib.Path, required=True)
    parser.add_argument("--kiln", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/parity-comfyui"))
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--table", type=pathlib.Path, help="write the table here too")
    parser.add_argument("--keep", action="store_true", help="compare with what ComfyUI drew last time")
    options = parser.parse_args()
    options.comfyui, options.kiln, options.work = (path.resolve() for path in (options.comfyui, options.kiln, options.work))
    return options


def main():
    options = parsed()
    prompts = {name: prompt for name, prompt in rows.rows.items() if options.only in name}
    model.make(options.work)
    drawn = json.loads((options.work / "done.json").read_text()) if options.keep else run_comfyui(options, prompts)
    shutil.rmtree(options.work / "kiln", ignore_errors=True)
    (options.work / "kiln").mkdir()
    found = []
    for name, prompt in prompts.items():
        found.append(judge(options, name, prompt, drawn.get(name, "was not asked")))
        print(table(found[-1:]).splitlines()[-1], flush=True)
    missing = [] if options.only else unused(options)
    agreed = [entry for entry in found if entry[3]]
    worst = max((entry[1] for entry in agreed if entry[0] not in rows.bounds), default=0)
    total = f"{versions(options)}: {len(agreed)} of {len(found)} rows agree, worst mean {worst:.4f}"
    if options.table:
        options.table.write_text(f"{total}\n\n{summary(found)}\n\n{table(found)}\n")
    print(summary(found), total, sep="\n\n")
    if missing:
        print("no row uses " + ", ".join(missing))
    sys.exit(0 if found and len(agreed) == len(found) and not missing else 1)


if __name__ == "__main__":
    main()
