"""Holds kiln's reading of editor files to the order of widgets that a ComfyUI checkout declares.

    editor_files.py COMFYUI KILN [--golden FILE]

Each prompt of rows.py, which together use every node that kiln has, is written as the editor saves it, its values in the order of
ComfyUI's INPUT_TYPES, with the words and buttons that the editor adds; `kiln convert` has to give the prompt back. --golden writes the
order of every node type of the checkout, which `make test` holds kiln's rows to.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import reference
import rows

WIDGETS = """INT FLOAT STRING BOOLEAN COMBO COMFY_DYNAMICCOMBO_V3 COLOR COLORS CURVE RANGE BOUNDING_BOX BOUNDING_BOXES MARKDOWN TEXTAREA PAINTER
    COMPOSITOR VIDEO_EDIT CHART GALLERIA IMAGECOMPARE""".split()


def declared(kind):
    """(sockets, widgets) of a node class: lists of (name, type, options), required ones first."""
    sockets, widgets = [], []
    inputs = kind.GET_NODE_INFO_V1()["input"] if hasattr(kind, "GET_NODE_INFO_V1") else kind.INPUT_TYPES()
    for section in ("required", "optional"):
        for name, spec in inputs.get(section, {}).items():
            options = spec[1] if len(spec) > 1 and isinstance(spec[1], dict) else {}
            type_ = options.get("widgetType", "COMBO" if isinstance(spec[0], list) else str(spec[0]))
            only_socket = options.get("forceInput") or (options.get("defaultInput") and section == "optional")
            (sockets if type_ not in WIDGETS or only_socket else widgets).append((name, type_, options))
    return sockets, widgets


def has_control(name, type_, options):
    return bool(options.get("control_after_generate", type_ == "INT" and name in ("seed", "noise_seed")))


def order(name, kind):
    """ "KSampler: model positive | seed ~ steps": sockets, widgets, ~ for an entry of the editor's own; None: not a list of values."""
    sockets, widgets = declared(kind)
    if any(type_ in ("COMFY_DYNAMICCOMBO_V3", "BOUNDING_BOX", "IMAGECOMPARE") for _, type_, _ in widgets):
        return None
    words = [word for w in widgets for word in (w[0], *(["~"] if has_control(*w) else []))]
    return f"{name}: {' '.join([s[0] for s in sockets] + ['|'] + words)}"


def values(kind, inputs):
    """widgets_values; a linked widget keeps an entry, which means nothing."""
    entries, buttons = [], []
    for name, type_, options in declared(kind)[1]:
        value = inputs.get(name, options.get("default", 0 if type_ in ("INT", "FLOAT") else ""))
        entries.append("never read" if isinstance(value, list) else value)
        if has_control(name, type_, options):
            entries.append("randomize")
        if any(key.endswith("_upload") and set_ for key, set_ in options.items()):
            buttons.append("image")
    return entries + buttons


def saved(prompt, kinds):
    """The prompt as the editor saves it: sockets of all links, in an order that means nothing."""
    nodes, links = [], []
    for key, node in prompt.items():
        kind, slots = kinds[node["class_type"]], []
        widgets = {name for name, _, _ in declared(kind)[1]}
        for name, value in reversed(node["inputs"].items()):
            if isinstance(value, list):
                links.append([len(links) + 1, int(key), 0, int(key), len(slots), "*"])
                links[-1][1:3] = [int(value[0]), value[1]]
                slots.append({"name": name, "type": "*", "link": len(links), **({"widget": {"name": name}} if name in widgets else {})})
        nodes.append({"id": int(key), "type": node["class_type"], "mode": 0, "inputs": slots, "outputs": [],
                      "widgets_values": values(kind, node["inputs"])})
    return {"nodes": nodes, "links": links, "groups": [], "version": 0.4}


def differences(prompt, back):
    for key, node in prompt.items():
        other = back.get(key, {"class_type": None, "inputs": {}})
        if node["class_type"] != other["class_type"]:
            yield f"{key}: {node['class_type']} came back as {other['class_type']}"
        for name, value in node["inputs"].items():
            if name not in other["inputs"] or other["inputs"][name] != value:
                yield f"{key} ({node['class_type']}): {name} is {value!r}, came back as {other['inputs'].get(name)!r}"
    for key in back.keys() - prompt.keys():
        yield f"{key}: came from nowhere"


def convert(kiln, prompt, kinds, folder):
    at, to = folder / "saved.json", folder / "back.json"
    at.write_text(json.dumps(saved(prompt, kinds)))
    done = subprocess.run([kiln, "convert", at, "-o", to], capture_output=True, text=True)
    return list(differences(prompt, json.loads(to.read_text()))) if done.returncode == 0 else [done.stderr.strip()]


def main():
    comfyui, kiln = (pathlib.Path(arg).resolve() for arg in sys.argv[1:3])
    golden = pathlib.Path(sys.argv[4]).resolve() if sys.argv[3:4] == ["--golden"] else None
    folder = pathlib.Path(tempfile.mkdtemp())
    for name in ("models", "input", "output", "user"):
        (folder / name).mkdir()
    reference.start(comfyui, folder, [])
    import comfyui_version
    import nodes

    kinds, wrong = nodes.NODE_CLASS_MAPPINGS, 0
    if golden:
        lines = [line for name, kind in sorted(kinds.items()) if (line := order(name, kind))]
        head = f"# What a node of ComfyUI {comfyui_version.__version__} takes: sockets | values in the editor's order; ~ is an entry that is no parameter.\n"
        golden.write_text(head + "# Written by scripts/comfyui/editor_files.py --golden.\n" + "\n".join(lines) + "\n")
    for name, prompt in rows.rows.items():
        for line in convert(kiln, prompt, kinds, folder):
            print(f"{name}: {line}")
            wrong += 1
    used = {node["class_type"] for prompt in rows.rows.values() for node in prompt.values()}
    print(f"{len(rows.rows)} prompts with {len(used)} node types, {wrong} differences")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
