"""Writes which node types a ComfyUI checkout has, as the table that `kiln nodes --coverage` counts against.

    list_nodes.py COMFYUI BASE > engine/cli/comfyui_nodes.h

BASE is an empty folder for the checkout to work in. Nodes of paid services are not loaded and not in the table.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reference

HEAD = """/* comfyui_nodes.h - the node types of ComfyUI {version}'s core, sorted, with the categories they are listed under there;
 * those of paid services are left out. scripts/comfyui/list_nodes.py writes this file. */
#ifndef KILN_CLI_COMFYUI_NODES_H
#define KILN_CLI_COMFYUI_NODES_H

#define COMFYUI_NODES_VERSION "{version}"

static const struct comfyui_node {{
    const char *type, *category;
    int deprecated;
}} comfyui_nodes[] = {{
"""


def main():
    comfyui, base = (pathlib.Path(arg).resolve() for arg in sys.argv[1:3])
    for folder in ("models", "input", "output", "user"):
        (base / folder).mkdir(parents=True, exist_ok=True)
    reference.start(comfyui, base, [])
    import comfyui_version
    import nodes

    print(HEAD.format(version=comfyui_version.__version__), end="")
    for name, kind in sorted(nodes.NODE_CLASS_MAPPINGS.items()):
        category = getattr(kind, "CATEGORY", "") or ""
        print(f'    {{"{name}", "{category}", {int(bool(getattr(kind, "DEPRECATED", False)))}}},')
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
