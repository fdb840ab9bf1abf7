#!/usr/bin/env python3
"""How long SD1.5, SDXL and its refiner take elsewhere on this machine: diffusers on torch, and (SD1.5) stable-diffusion.cpp.

    bench_peers.py --model DIR [--out FILE.json] [--variants torch-f32,torch-bf16,...] [--steps 3] [--latent 64]
                   [--threads N] [--device cpu|cuda] [--sdcpp-python VENV/bin/python]

DIR is a folder by scripts/bench or make_random_sd.py. Each variant runs in a process of its own, so that its peak memory is its
own. Printed as a table and written as JSON:
    load_s    opening the folder into memory          text_s    both prompts of CFG, 77 tokens each
    step_s    one CFG step: the UNet on a batch of 2 (stable-diffusion.cpp runs it twice), median of --steps
    decode_s  VAE decode of one latent                peak_mb   the process's largest resident size
    run_mb    the same without loading (torch)        first_s   the first step, compilation included; not in step_s
A variant that cannot run is listed with its reason. torch variants: -nhwc is channels_last, -compiled is
torch.compile. stable-diffusion.cpp comes from its Python package in an interpreter of its own (--sdcpp-python);
-direct switches its flash attention and direct convolutions on, and its times are those it logs. sdcpp-fast is its best
build for this processor with bf16 weights, in another interpreter (--sdcpp-fast-python), installed with
    CMAKE_ARGS="-DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DGGML_AVX512=ON -DGGML_AVX512_BF16=ON" pip install --no-binary :all: stable-diffusion-cpp-python
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

TORCH = [
    f"torch-{kind}{layout}{compiled}"
    for kind in ("f32", "bf16")
    for layout in ("", "-nhwc")
    for compiled in ("", "-compiled")
]
SDCPP = ["sdcpp", "sdcpp-direct", "sdcpp-fast"]
COLUMNS = ["step_s", "decode_s", "text_s", "load_s", "first_s", "peak_mb", "run_mb"]
TIMEOUT_S = 3600


def timed(call):
    begin = time.perf_counter()
    value = call()
    return value, time.perf_counter() - begin


def peak_mb():
    """Largest resident size since the process began or forget_peak()."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")


def forget_peak():
    """Starts the count of peak_mb() anew (proc(5), clear_refs) and returns the peak until now."""
    peak = peak_mb()
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return peak


def torch_load(options):
    import torch
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextModel, CLIPTextModelWithProjection

    kind = torch.bfloat16 if "bf16" in options.worker else torch.float32
    layout = torch.channels_last if "-nhwc" in options.worker else torch.contiguous_format
    parts = [
        UNet2DConditionModel.from_pretrained(options.model / "unet", torch_dtype=kind),
        AutoencoderKL.from_pretrained(options.model / "vae", torch_dtype=kind),
    ]
    for folder, text in (("text_encoder", CLIPTextModel), ("text_encoder_2", CLIPTextModelWithProjection)):
        if (options.model / folder).is_dir():
            parts.append(text.from_pretrained(options.model / folder, dtype=kind))
    return kind, layout, [part.eval().requires_grad_(False).to(memory_format=layout, device=options.device) for part in parts]


def torch_worker(options):
    """Times one torch variant; returns the row."""
    import torch

    def done(call):  # a GPU goes on working when a call has returned
        value = call()
        if options.device == "cuda":
            torch.cuda.synchronize()
        return value

    torch.set_num_threads(options.threads)
    (kind, layout, (unet, vae, *texts)), load_s = timed(lambda: torch_load(options))
    load_mb = forget_peak()
    if options.worker.endswith("-compiled"):
        unet, vae.decode = torch.compile(unet), torch.compile(vae.decode)
    ids = torch.randint(0, texts[0].config.vocab_size, (2, 77), generator=torch.Generator().manual_seed(1)).to(options.device)
    x = torch.randn(1, 4, options.latent, options.latent, generator=torch.Generator().manual_seed(2)).to(options.device, kind)

    def encode():
        """What conditions the UNet: SD1.5's last layer, SDXL's last but one of each encoder side by side."""
        if not unet.config.projection_class_embeddings_input_dim:
            return texts[0](input_ids=ids).last_hidden_state
        return torch.cat([text(input_ids=ids, output_hidden_states=True).hidden_states[-2] for text in texts], dim=-1)

    added = {}
    if unet.config.projection_class_embeddings_input_dim:
        numbers = (unet.config.projection_class_embeddings_input_dim - 1280) // unet.config.addition_time_embed_dim
        added = {"text_embeds": torch.randn(2, 1280).to(options.device, kind), "time_ids": torch.ones(2, numbers).to(options.device, kind)}

    def step(context):
        both = torch.cat([x, x]).to(memory_format=layout)
        one, other = unet(both, 500.0, encoder_hidden_states=context, added_cond_kwargs=added, return_dict=False)[0].chunk(2)
        return one + (other - one) * 7.0

    with torch.inference_mode():
        encode()
        context, text_s = timed(lambda: done(encode))
        _, first_s = timed(lambda: done(lambda: step(context)))
        steps = [timed(lambda: done(lambda: step(context)))[1] for _ in range(options.steps)]
        latent = (x * 5).to(memory_format=layout)
        if options.worker.endswith("-compiled") or options.device == "cuda":
            done(lambda: vae.decode(latent, return_dict=False))
        decodes = 5 if options.device == "cuda" else 1
        decode_s = statistics.median(timed(lambda: done(lambda: vae.decode(latent, return_dict=False)))[1] for _ in range(decodes))
    return {
        "load_s": load_s,
        "text_s": text_s,
        "first_s": first_s,
        "step_s": statistics.median(steps),
        "decode_s": decode_s,
        "peak_mb": max(load_mb, peak_mb()),
        "run_mb": peak_mb(),
        "torch": torch.__version__,
    }


def sdcpp_worker(options):
    """Runs in --sdcpp-python. Its own log lines go to stderr, where the parent reads the times."""
    import stable_diffusion_cpp

    direct = options.worker.endswith("-direct")
    model, load_s = timed(
        lambda: stable_diffusion_cpp.StableDiffusion(
            model_path=f"{options.model}/",
            n_threads=options.threads,
            diffusion_flash_attn=direct,
            diffusion_conv_direct=direct,
            vae_conv_direct=direct,
            wtype="bf16" if options.worker.endswith("-fast") else "default",
        )
    )
    moments = []
    model.generate_image(
        prompt="a photo of a cute cat",
        negative_prompt="blurry",
        width=8 * options.latent,
        height=8 * options.latent,
        cfg_scale=7.0,
        sample_method="euler",
        sample_steps=options.steps + 1,
        seed=42,
        progress_callback=lambda step, steps, seconds: moments.append((step, steps, time.perf_counter())),
    )
    done = [moment for step, steps, moment in moments if steps == options.steps + 1 and step > 0]
    gaps = [after - before for before, after in zip(done, done[1:])]
    return {
        "load_s": load_s,
        "step_s": statistics.median(gaps) if gaps else None,
        "peak_mb": peak_mb(),
        "stable_diffusion_cpp": stable_diffusion_cpp.__version__,
    }


LOGGED = {
    "load_s": r"loading tensors completed, taking ([0-9.]+)s",
    "text_s": r"get_learned_condition completed, taking ([0-9.]+)\s*(m?s)",
    "decode_s": r"computing vae decode graph completed, taking ([0-9.]+)s",
}


def read_log(text):
    """Times in seconds that stable-diffusion.cpp prints; loading goes on while it generates, so it is summed."""
    row = {}
    for key, pattern in LOGGED.items():
        found = re.findall(pattern, text)
        values = [float(item[0]) / (1000 if item[1] == "ms" else 1) if isinstance(item, tuple) else float(item) for item in found]
        if values:
            row[key] = sum(values)
    return row


def run_variant(name, options):
    """One variant in its own process -> row, or {"failed": reason}."""
    python = sys.executable
    if name in SDCPP:
        fast = name.endswith("-fast")
        python = options.sdcpp_fast_python if fast else options.sdcpp_python
        if not python:
            return {"failed": f"no --sdcpp{'-fast' * fast}-python: an interpreter with stable-diffusion-cpp-python"}
    command = [python, __file__, "--worker", name, "--model", str(options.model)]
    command += ["--steps", str(options.steps), "--latent", str(options.latent), "--threads", str(options.threads), "--device", options.device]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"no result within {TIMEOUT_S} s"}
    rows = [line[4:] for line in done.stdout.splitlines() if line.startswith("ROW ")]
    if done.returncode or not rows:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        return {"failed": f"exit status {done.returncode}: {said[-1] if said else 'said nothing'}"}
    row = json.loads(rows[-1])
    return {**row, **read_log(done.stderr + done.stdout)} if name in SDCPP else row


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def table(results):
    lines = ["| variant | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, row in results.items():
        if "failed" in row:
            lines.append(f"| {name} | {row['failed']} |" + " |" * (len(COLUMNS) - 1))
            continue
        cells = ["-" if row.get(key) is None else f"{row[key]:.0f}" if key.endswith("_mb") else f"{row[key]:.4g}" for key in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--variants", default=",".join(TORCH + SDCPP))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--latent", type=int, default=64, help="height and width of the latent")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="torch's")
    parser.add_argument("--sdcpp-python")
    parser.add_argument("--sdcpp-fast-python")
    parser.add_argument("--worker", choices=TORCH + SDCPP, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.variants.split(",")) - set(TORCH + SDCPP)
    if unknown:
        parser.error(f"--variants: {', '.join(sorted(unknown))} is not one of {', '.join(TORCH + SDCPP)}")
    if not (options.model / "model_index.json").is_file():
        parser.error(f"--model: {options.model} has no model_index.json; make_random_sd.py makes such a folder")
    if options.steps < 1 or options.latent < 8 or options.threads < 1:
        parser.error("--steps and --threads are at least 1, --latent at least 8")
    return options


def main():
    options = parse()
    if options.worker:
        row = sdcpp_worker(options) if options.worker in SDCPP else torch_worker(options)
        print("ROW " + json.dumps(row), flush=True)
        return 0
    results = {}
    for name in options.variants.split(","):
        results[name] = run_variant(name, options)
        print(f"{name}: {json.dumps(results[name])}", file=sys.stderr, flush=True)
    report = {
        "cpu": cpu_name(),
        "threads": options.threads,
        "steps": options.steps,
        "latent": options.latent,
        "model": options.model.name,
        "results": results,
    }
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(table(results))
    return 0 if any("failed" not in row for row in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
