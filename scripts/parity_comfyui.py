#!/usr/bin/env python3
"""The same prompts through a ComfyUI checkout and through kiln: the numbers behind `make parity-comfyui`.

    parity_comfyui.py --comfyui FOLDER --kiln PROGRAM [--work DIR] [--only WORD] [--full] [--table FILE] [--resume] [--memory GIB]

Makes DIR/models and DIR/input (once, from a seed), lets ComfyUI draw every row of scripts/comfyui/rows.py in this Python, on the CPU, in
f32, lets `kiln run --precision f32 --device cpu` draw the same prompts, and compares the PNGs they wrote, in counts of 255.

Rows are drawn section by section, by processes of ComfyUI that end when they hold more than --memory, and judged section by section. What
was drawn and judged is written down as it comes (drawn.json, judged.json), so a run of small models that was stopped goes on with --resume: a row is drawn again
if its prompt or ComfyUI's version is another, judged again if kiln is, and both if it failed.

A row holds when its pictures are as many and as large as ComfyUI's, differ by BOUND_MEAN at most on average and by BOUND_MAX at most in any
value. Rows with nodes or choices that the checkout does not have yet are named and not compared. --full draws the rows of full-size models instead (scripts/comfyui/rows_models.py): each model is made, drawn with and deleted
again, for SDXL alone is 7 GB; ComfyUI keeps their f16 weights as they are and computes in f32, and the mean may be BOUND_FULL. A picture that is grey or saturated shows nothing, so a drawn one that is so does not hold either. Where kiln is given a prompt of its own
the table says what is other in it. Exit status 1: a row does not hold, or kiln has a node that no row uses.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS / "comfyui"))

import numpy as np
from PIL import Image

import graph
import model
import rows
import rows_save

BOUND_MEAN, BOUND_MAX = 0.1, 1
BOUND_FULL = 0.5, 255  # mean and largest
EDGE_MOST = 0.6  # of a drawn picture's values may be 0 or 255
SPREAD_LEAST = 5  # its standard deviation
ROW_SECONDS = {False: 120, True: 900}  # of the processor, by whether the models are full-size
FULL_OPTIONS = ["--fp16-unet", "--fp16-text-enc"]


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


def compare(prompt, wanted, got, bound_mean, bound_max):
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
    return mean, worst, "" if mean <= bound_mean and worst <= bound_max else "differs"


# What ComfyUI's files have beyond what a network uses; CLIP L's projection is of this kind, those of the others are not.
BESIDE = ("embeddings.position_ids", "logit_scale")
HALF = 1e-3  # how far apart the same number may be where ComfyUI keeps a text encoder in f16


def tensors(path):
    from safetensors.torch import load_file

    beside = (*BESIDE, "text_projection.weight") if "_clip_l_" in path.name else BESIDE
    return {name: tensor for name, tensor in load_file(path).items() if not name.endswith(beside)}


def compare_files(wanted, got):
    """"", or the first thing in which the models that were saved differ."""
    if [path.name for path in wanted] != [path.name for path in got]:
        return f"files {[path.name for path in got]}, ComfyUI {[path.name for path in wanted]}"
    for one, other in zip(wanted, got):
        a, b = tensors(one), tensors(other)
        if set(a) != set(b):
            return f"{one.name}: only in one {sorted(set(a) ^ set(b))[:3]}"
        for name in a:
            rough = a[name].element_size() < 4
            if a[name].shape != b[name].shape or not np.allclose(a[name].float(), b[name].float(), rtol=HALF if rough else 1e-6, atol=1e-7):
                return f"{one.name}: {name} differs"
    return ""


def run_comfyui(options, base, prompts, more=()):
    """{name: "" or why there is no picture} of some of them, the first at least, drawn by one process."""
    asked, done = base / "prompts.json", base / "done.json"
    asked.write_text(json.dumps(prompts))
    done.unlink(missing_ok=True)
    with open(base / "comfyui.log", "a") as log:
        command = [sys.executable, SCRIPTS / "comfyui" / "reference.py", options.comfyui, base, asked, done, str(int(options.memory * 2**30)), *more]
        calm = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}  # threads that spin while they wait are slow where others work too
        status = subprocess.run(command, stderr=log, env=calm).returncode
    if not done.exists():
        raise SystemExit(f"ComfyUI ended with status {status}; its words are in {base / 'comfyui.log'}")
    found = json.loads(done.read_text())
    return found or {next(iter(prompts)): f"it ended with status {status}"}


# What ComfyUI says of a prompt that a later one of it takes.
ABSENT = ("Cannot execute because node", "Value not in list", "Value -1 smaller than min")


# ---- what was done already --------------------------------------------------------------------------------------------------------


def digest(*what):
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


class Record:
    """A file of {row: {"of": digest of what it was made of, "on": date, ...}}"""

    def __init__(self, path):
        self.path = path
        self.rows = json.loads(path.read_text()) if path.exists() else {}

    def has(self, name, of):
        """It is there, made of this, and nothing failed."""
        row = self.rows.get(name, {})
        return row.get("of") == of and (row["entry"][3] if "entry" in row else not row["said"] or row["said"].startswith(ABSENT))

    def add(self, name, of, **what):
        self.rows[name] = {"of": of, "on": str(datetime.date.today()), **what}
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.rows, indent=1) + "\n")
        os.replace(part, self.path)


def forget(base, folder, name):
    """Pictures and models of a row, so that none of an older prompt stays."""
    for path in [*pictures(base / folder, name), *(base / folder).glob(f"{name}_*.safetensors")]:
        path.unlink()


def forget_models(base, name):
    """The models that a row saved: several GB."""
    for folder in ("output", "kiln"):
        for path in (base / folder).glob(f"{name}_*.safetensors"):
            path.unlink()


def kiln_digest(program):
    files = [program, *sorted(program.parent.rglob("kiln-*.so"))]
    return digest(*(hashlib.sha256(path.read_bytes()).hexdigest() for path in files))


def opened(prompts):
    """Files below models/ that kiln writes and these prompts open."""
    named = {value for prompt in prompts.values() for node in prompt.values() for value in node["inputs"].values() if isinstance(value, str)}
    return [file for file in rows_save.written if pathlib.PurePath(file).name in named]


def write_models(options, base, prompts):
    """The models that kiln saves and ComfyUI is to open; again where this kiln did not write them."""
    record = Record(base / "written.json")
    for file in opened(prompts):
        path, prompt = base / "models" / file, graph.prompt_of(rows_save.written[file])
        of = digest(prompt, options.kiln_digest)
        if path.exists() and record.has(file, of):
            continue
        forget(base, "kiln", path.stem)
        model.make_cut(base, {file: prompt})
        said = run_kiln(options, base, path.stem, prompt)
        if said:
            raise SystemExit(f"kiln did not save {file}: {said}")
        os.replace(next((base / "kiln").glob(f"{path.stem}*.safetensors")), path)
        record.add(file, of, said="")


def saves(prompt):
    return any(node["class_type"].endswith("Save") for node in prompt.values())


def draw_all(options, base, prompts, more=()):
    """{name: "" or why there is no picture}, by as many processes as it takes; rows in rows.alone share one with their kind only."""
    version = (options.comfyui / "comfyui_version.py").read_text()
    of = {name: digest(prompt, version, more, *([options.kiln_digest] if opened({name: prompt}) or saves(prompt) else [])) for name, prompt in prompts.items()}
    drawn, groups = Record(base / "drawn.json"), {}
    for name, prompt in prompts.items():
        if not (options.resume and drawn.has(name, of[name])):
            forget(base, "output", name)
            groups.setdefault(rows.alone.get(name, ""), {})[name] = prompt
    for group in groups.values():
        while group:
            for name, said in run_comfyui(options, base, group, more).items():
                del group[name]
                drawn.add(name, of[name], said=said)
    return {name: drawn.rows[name]["said"] for name in prompts}


def run_kiln(options, base, name, prompt):
    """"", or the last line of what it said."""
    file, seconds = base / "kiln" / f"{name}.json", ROW_SECONDS[options.full]
    file.write_text(json.dumps(prompt))
    folders = ["--models", base / "models", "--input", base / "input", "--out", file.parent]
    command = [options.kiln, "run", file, *folders, "--precision", "f32", "--device", "cpu", "--no-cache", "--quiet"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=20 * seconds, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)))
    except subprocess.TimeoutExpired:
        return f"not done in {seconds} s"
    lines = ran.stderr.strip().splitlines() or [f"status {ran.returncode}"]
    return lines[0] if ran.returncode else ""


def unused(options):
    """Nodes of kiln (all of them are ComfyUI's too) that no row uses."""
    have = {node["type"] for node in json.loads(subprocess.check_output([options.kiln, "nodes", "--json"]))}
    given = [rows.otherwise.get(name, (prompt,))[0] for name, prompt in rows.rows.items()]
    return sorted(have - {node["class_type"] for prompt in given for node in prompt.values()})


def judge(options, base, name, prompt, failed):
    """One row of the table: (name, mean, max, holds, words)"""
    if failed:
        return name, None, None, False, f"ComfyUI: {failed}"
    given, why = rows.otherwise.get(name, (prompt, ""))
    bound, most = BOUND_FULL if options.full else (BOUND_MEAN, BOUND_MAX)
    bound, why, *largest = rows.bounds.get(name, (bound, why))
    most = largest[0] if largest else most
    said = run_kiln(options, base, name, given)
    if said:
        return name, None, None, False, f"kiln: {said}"
    mean, worst, fault = compare(prompt, pictures(base / "output", name), pictures(base / "kiln", name), bound, most)
    fault = fault or compare_files(*(sorted((base / folder).glob(f"{name}_*.safetensors")) for folder in ("output", "kiln")))
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
    for title, names in [*rows.sections, *((f"Full size: {group}", asked) for group, (_, asked) in rows.rows_models.full.items())]:
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
    parser.add_argument("--only", default="", help="rows whose name has this word, or one of several: a,b")
    parser.add_argument("--full", action="store_true", help="the rows of full-size models, one model after the other")
    parser.add_argument("--table", type=pathlib.Path, help="write the table here too")
    parser.add_argument("--resume", action="store_true", help="rows that were drawn and judged before are not drawn and judged again")
    parser.add_argument("--memory", type=float, default=2.0, help="GiB; a process of ComfyUI that holds more after a row is followed by a fresh one (2)")
    options = parser.parse_args()
    options.words = options.only.split(",")
    options.comfyui, options.kiln, options.work = (path.resolve() for path in (options.comfyui, options.kiln, options.work))
    options.kiln_digest = kiln_digest(options.kiln)
    return options


def judge_all(options, base, prompts, drawn):
    """Entries of the table, each printed as soon as it is known."""
    judged, found = Record(options.work / "judged.json"), []
    for name, prompt in prompts.items():
        if drawn[name].startswith(ABSENT):
            print(f"| {name} |  |  | not compared: {drawn[name]} |", flush=True)
            continue
        of = digest(prompt, rows.otherwise.get(name), rows.bounds.get(name), options.kiln_digest, drawn[name])
        if not (options.resume and judged.has(name, of)):
            forget(base, "kiln", name)
            judged.add(name, of, entry=judge(options, base, name, prompt, drawn[name]))
            if judged.rows[name]["entry"][3]:
                forget_models(base, name)
        found.append(tuple(judged.rows[name]["entry"]))
        print(table(found[-1:]).splitlines()[-1], flush=True)
    return found


def asked(options, names):
    return [name for name in names if any(word in name for word in options.words)]


def small(options):
    """One section after the other."""
    model.make(options.work)
    for folder in ("output", "kiln"):
        (options.work / folder).mkdir(exist_ok=True)
    found = []
    for _, names in rows.sections:
        prompts = {name: rows.rows[name] for name in asked(options, names)}
        if prompts:
            model.make_cut(options.work, prompts)
            write_models(options, options.work, prompts)
            found += judge_all(options, options.work, prompts, draw_all(options, options.work, prompts))
    return found


def full(options):
    """One group of models after the other: made, drawn with, compared, deleted."""
    found = []
    for families, prompts in rows.rows_models.full.values():
        prompts = {name: prompts[name] for name in asked(options, prompts)}
        if not prompts:
            continue
        base = model.make_full(options.work / "full", families, prompts)
        for folder in ("output", "kiln"):
            (base / folder).mkdir(exist_ok=True)
        drawn = draw_all(options, base, prompts, FULL_OPTIONS)
        found += judge_all(options, base, prompts, drawn)
        shutil.rmtree(base)
    return found


def main():
    options = parsed()
    found = full(options) if options.full else small(options)
    missing = [] if options.only or options.full else unused(options)
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
