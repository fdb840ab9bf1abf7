"""Runs prompts through a ComfyUI checkout in this process, on the CPU, in f32; no server.

    reference.py COMFYUI BASE PROMPTS.json DONE.json MEMORY [ComfyUI's own options]

BASE has models/ and input/ and gets output/; PROMPTS is {name: prompt in API format}; DONE becomes {name: "" or why it failed}, written when
ComfyUI stands and after each. ComfyUI keeps models for prompts to come, so this ends early, with status 0, when it holds more than MEMORY bytes: the rest is for another process.
What ComfyUI says of tensors that are missing or left over in a file goes to standard error.
"""

import asyncio
import importlib.machinery
import importlib.util
import inspect
import json
import logging
import os
import pathlib
import sys
import textwrap
import time
import types


class NoServer:
    """What the executor and some nodes want of a server: somebody to tell, who does not listen."""

    client_id = last_node_id = last_prompt_id = None

    def send_sync(self, *_):
        pass

    def send_progress_text(self, *_):
        pass


def leave_out(*names):
    """Modules that nodes for sound import and no picture needs: empty ones where there are none."""
    if importlib.util.find_spec(names[0]):
        return
    for name in names:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        sys.modules[name] = module


def start(comfyui, base, more):
    """Imports the checkout as its main.py would; (its executor, its validate_prompt)."""
    sys.path.insert(0, str(comfyui))
    folders = ["--base-directory", str(base), "--user-directory", str(base)]
    sys.argv = ["main.py", "--cpu", "--force-fp32", "--disable-all-custom-nodes", "--disable-api-nodes", *folders, *more]
    import transformers  # before the stand-ins below, which it must not take for the real ones

    leave_out("torchaudio", "torchaudio.functional", "torchaudio.transforms")
    import comfy.options

    comfy.options.enable_args_parsing()
    import comfyui_version
    import utils.extra_config  # noqa: F401: as main.py does, before nodes puts a folder with another utils in front
    import execution
    import nodes
    import server
    import torch

    silent = server.PromptServer.instance = NoServer()
    logging.getLogger().setLevel(logging.WARNING)
    asyncio.run(nodes.init_extra_nodes(init_custom_nodes=False, init_api_nodes=False))
    print(f"ComfyUI {comfyui_version.__version__}, torch {torch.__version__}, transformers {transformers.__version__}", file=sys.stderr)
    import comfy.ldm.modules.attention

    count_seeds_on()
    cut_into_windows()
    give_draws(nodes.NODE_CLASS_MAPPINGS["TomePatchModel"], comfy.ldm.modules.attention)
    cache = {"lru": 60, "ram": 0, "ram_inactive": 0}
    if "cache_size" in inspect.signature(execution.PromptExecutor).parameters:  # up to ComfyUI 0.3.64, at least
        cache = cache["lru"]
    return execution.PromptExecutor(silent, execution.CacheType.LRU, cache), execution.validate_prompt


def give_draws(node, attention):
    """TomePatchModel draws destinations from torch's global generator; here it is given kiln's, which follow from the attention's place."""
    import torch

    spec = importlib.util.spec_from_file_location("tome_draws", pathlib.Path(__file__).parents[1] / "golden/tome_draws.py")
    kiln = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kiln)
    forward, place = attention.BasicTransformerBlock.forward, []

    def remembering(self, x, context=None, transformer_options={}):
        block, i = transformer_options.get("block", ("none", 0)), transformer_options.get("block_index", 0)
        place[:] = [f"{block[0]}.{block[1]}.{f't{i}.' if i else ''}attn1"]
        return forward(self, x, context=context, transformer_options=transformer_options)

    class Torch:
        def __getattr__(self, name):
            return getattr(torch, name)

        def randint(self, high, size, device):
            return torch.tensor(list(kiln.draws(place[0], size[0] * size[1])), device=device).reshape(size)

    attention.BasicTransformerBlock.forward = remembering
    sys.modules[node.__module__].torch = Torch()


def count_seeds_on():
    """A step's noise on the CPU is that of seed + 1 in later ComfyUIs, so that it is not the first noise again; in those up to 0.3.64, at least,
    it is that of the seed, which would hide all else that ancestral samplers do."""
    import comfy.k_diffusion.sampling as sampling

    plain = sampling.default_noise_sampler
    if "seed += 1" not in inspect.getsource(plain):
        sampling.default_noise_sampler = lambda x, seed=None: plain(x, seed=None if seed is None else seed + 1)


def cut_into_windows():
    """ContextWindowsManual over a batch, dim 0: up to 0.3.64, at least, the schedule's levels are compared with those of all pictures, and a window of
    the latent meets the whole batch's prompts; both end in an error. Later ones look at the first level and cut the prompts too."""
    import comfy.context_windows as windows

    source = inspect.getsource(windows.IndexListContextHandler.get_resized_cond)
    if "self.dim < cond_value.cond.ndim" in source:
        return
    for tensor in ("cond_value", "cond_value.cond"):
        source = source.replace(f"{tensor}.ndim < self.dim and", f"self.dim < {tensor}.ndim and")
    exec(textwrap.dedent(source), windows.__dict__)
    handler, set_step = windows.IndexListContextHandler, windows.IndexListContextHandler.set_step
    handler.get_resized_cond = windows.get_resized_cond
    handler.set_step = lambda self, timestep, options: set_step(self, timestep[:1], options)


def resident():
    """Bytes of memory that this process holds, but for mapped files."""
    fields = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


def keep(done, found):
    part = done.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1) + "\n")
    os.replace(part, done)


# What nodes do that do not have these inputs yet. ComfyUI passes over an input that a node does not have.
WITHOUT = {
    "CFGNorm": {"pre_cfg": False},
    "ContextWindowsManual": {"freenoise": False, "split_conds_to_windows": False, "cond_retain_index_list": "", "latent_retain_index_list": "", "causal_window_fix": False},
    "ImageScaleToTotalPixels": {"resolution_steps": 1},
}


def lacking(prompt):
    """"", or which node of this checkout cannot do what an input of the prompt asks for."""
    import nodes

    for node in prompt.values():
        kind = node["class_type"]
        declared = {name for part in nodes.NODE_CLASS_MAPPINGS[kind].INPUT_TYPES().values() for name in part} if kind in nodes.NODE_CLASS_MAPPINGS else set()
        for name, value in node["inputs"].items():
            if declared and name in WITHOUT.get(kind, ()) and name not in declared and value != WITHOUT[kind][name]:
                return f"Cannot execute because node {kind} has no input {name}"
    return ""


def draw(executor, validate, name, prompt):
    """"", or why there is no picture."""
    lacks = lacking(prompt)
    if lacks:
        return lacks
    valid, error, outputs, node_errors = asyncio.run(validate(name, prompt, None))
    reasons = [f"{e['message']}: {e['details']}" for n in node_errors.values() for e in n["errors"]]
    if not valid or reasons:
        return "; ".join(reasons) or error["message"]
    executor.execute(prompt, name, {}, outputs)
    if executor.success:
        return ""
    last = executor.status_messages[-1][1]
    return f"{last['node_type']}: {last['exception_message'].strip().splitlines()[0]}"


def main():
    comfyui, base, prompts, done = (pathlib.Path(arg).resolve() for arg in sys.argv[1:5])
    most = int(sys.argv[5])
    rows = json.loads(prompts.read_text())
    os.chdir(base)
    executor, validate = start(comfyui, base, sys.argv[6:])
    found = {}
    keep(done, found)
    for i, (name, prompt) in enumerate(rows.items()):
        begin = time.monotonic()
        found[name] = draw(executor, validate, name, prompt)
        held = resident()
        print(f"ComfyUI {i + 1}/{len(rows)} {name} {time.monotonic() - begin:.0f} s, {held / 2**30:.2f} GiB {found[name]}", file=sys.stderr, flush=True)
        keep(done, found)
        if held > most:
            break


if __name__ == "__main__":
    main()
