"""Cuts ComfyUI's templates down to kiln's own models, for tests/workflow/templates/cut.

    cut_templates.py FOLDER OUT      FOLDER as scripts/test-templates takes it

What makes a template hard to read stays as it is: subgraphs, promoted widgets and their lists, ids that collide, bypassed and muted
nodes, reroutes, primitives, switches, groups. What changes: loaders of other families become CheckpointLoaderSimple with their
links on its outputs, an empty latent of another family the plain one, a node that kiln has no row for (UNKNOWN) is bypassed or muted, model
and picture names are those that ship, pictures are small, steps few; notes are gone.
"""

import json
import pathlib
import sys

NAMES = """utility_interpolation_image_upscale flux_fill_inpaint_example image_netayume_lumina_t2i basic_switch_node image_qwen_image
    flux_canny_model_example image_flux2_klein_text_to_image sd3.5_large_blur hidream_e1_1 image_flux.1_fill_dev_OneReward
    basic_mask_operations_and_compositing image_sdxl_simple""".split()
CHECKPOINT = {"UNETLoader": 0, "CLIPLoader": 1, "DualCLIPLoader": 1, "QuadrupleCLIPLoader": 1, "VAELoader": 2}
MODEL_WIDGETS = "unet_name clip_name clip_name1 clip_name2 clip_name3 clip_name4 vae_name".split()
EMPTY = {"EmptySD3LatentImage", "EmptyFlux2LatentImage"}
BYPASSED = {"FluxGuidance", "CFGNorm", "ModelSamplingAuraFlow"}  # pass their first input on; of the other families' sampling
MUTED = {"ImageCompare", "MaskPreview"}  # show, and give nothing
OUTPUTS = [("MODEL", 0), ("CLIP", 1), ("VAE", 2)]


def small(value):
    return 64 if isinstance(value, int) and not isinstance(value, bool) and 256 <= value <= 4096 else value


def renamed(value):
    if not isinstance(value, str) or "\n" in value:
        return value
    if value.endswith((".safetensors", ".sft")):
        lora, control = any(w in value.lower() for w in ("lora", "lightning", "removal", "style")), "controlnet" in value
        return "shapes-night.safetensors" if lora else "shapes-edges" if control else "shapes-sd1"
    return "colours.png" if value.endswith((".png", ".jpg", ".jpeg", ".webp")) else value


def moved(graph, ids):
    """The links of loaders go to the checkpoint loader's outputs."""
    for link in graph.get("links") or []:
        origin = link[1] if isinstance(link, list) else link["origin_id"]
        if origin in ids:
            if isinstance(link, list):
                link[2] = ids[origin]
            else:
                link["origin_slot"] = ids[origin]


def cut_node(node, ids):
    kind, values = node["type"], node.get("widgets_values")
    if isinstance(values, list):
        node["widgets_values"] = values = [renamed(small(v)) for v in values]
    if kind in CHECKPOINT:
        ids[node["id"]] = slot = CHECKPOINT[kind]
        links = node["outputs"][0].get("links")
        node.update(type="CheckpointLoaderSimple", widgets_values=["shapes-sd1"])
        node["outputs"] = [{"name": n, "type": n, "links": links if i == slot else None} for n, i in OUTPUTS]
        for one in node.get("inputs") or []:
            if one["name"] in MODEL_WIDGETS[:3] + ["vae_name"]:
                one["name"] = one["widget"]["name"] = "ckpt_name"
    elif kind in EMPTY:
        node["type"] = "EmptyLatentImage"
    elif kind in BYPASSED:
        node["mode"] = 4
    elif kind in MUTED:
        node["mode"] = 2
    elif kind == "KSampler":
        node["widgets_values"][2:6] = [2, 2.0, "euler", "normal"]
    elif kind == "BasicScheduler":
        node["widgets_values"][1] = 2
    elif kind == "ImageScaleToTotalPixels":
        node["widgets_values"][1] = 0.01
    elif kind == "Flux2Scheduler":  # a schedule that needs no model; its sizes are not linked any more
        node.update(type="KarrasScheduler", widgets_values=[2, 14.6146, 0.0291675, 7.0], inputs=[])


def cut_graph(graph):
    ids = {}
    graph["nodes"] = [n for n in graph["nodes"] if n["type"] not in ("Note", "MarkdownNote")]
    for node in graph["nodes"]:
        cut_node(node, ids)
        for key in ("pos", "size", "flags", "order", "color", "bgcolor", "showAdvanced"):
            node.pop(key, None)
        properties = node.get("properties", {})
        node["properties"] = {k: v for k, v in properties.items() if k in ("proxyWidgets", "Node name for S&R", "proxyWidgetErrorQuarantine")}
    moved(graph, ids)
    return ids


def cut(workflow):
    cut_graph(workflow)
    loaders = {}
    for inner in workflow.get("definitions", {}).get("subgraphs", []):
        loaders.update({str(i): 1 for i in cut_graph(inner)})
    everything = workflow["nodes"] + [n for s in workflow.get("definitions", {}).get("subgraphs", []) for n in s["nodes"]]
    for node in everything:
        for entry in node["properties"].get("proxyWidgets") or []:
            if entry[0] in loaders and entry[1] in MODEL_WIDGETS:
                entry[1] = "ckpt_name"
    workflow.pop("extra", None)
    return workflow


def main():
    folder, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        workflow = cut(json.loads((folder / f"{name}.json").read_text()))
        (out / f"{name}.json").write_text(json.dumps(workflow, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
