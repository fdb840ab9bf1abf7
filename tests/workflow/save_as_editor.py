"""Writes a workflow in the API form as ComfyUI's editor would save it, in one of several ways.

    save_as_editor.py API.json NODES.json WAY       NODES.json: of `kiln nodes --json`; WAY: plain, reroutes, setget, subgraph, nested

The order of values is that of editor/widget_order.txt, which ComfyUI's own declarations gave; a node that is not in it (kiln's own) has
its values by name. What the prompt leaves out has its default. Nodes get numbers for ids and keep their names as titles.
"""

import json
import pathlib
import sys

ORDER, DEFAULT = {}, {}
for line in (pathlib.Path(__file__).parent / "editor/widget_order.txt").read_text().splitlines():
    if not line.startswith("#"):
        kind, _, rest = line.partition(": ")
        sockets, _, widgets = rest.partition("|")
        ORDER[kind] = (sockets.split(), widgets.split())


def is_wire(value):
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int)


def wires_of(inputs):
    """(name of the socket, wire), several for a list of wires."""
    for name, value in inputs.items():
        if is_wire(value):
            yield name, value
        elif isinstance(value, list) and value and all(is_wire(v) for v in value):
            yield from ((f"{name}.{name}{i}", v) for i, v in enumerate(value))


def values_of(kind, inputs):
    if kind not in ORDER:
        return {name: value for name, value in inputs.items() if not isinstance(value, list)}
    values, before = [], None
    for word in ORDER[kind][1]:
        value = "randomize" if word == "~" else inputs.get(word, DEFAULT[kind].get(word))
        values.append("linked" if isinstance(value, list) else value)
    return values


class Graph:
    """Nodes and links of one level."""

    def __init__(self, first):
        self.nodes, self.links, self.next = [], [], first

    def node(self, kind, values=None, title=None, outputs=1, **more):
        self.nodes.append({"id": self.next, "type": kind, "mode": 0, "inputs": [], "outputs": [{"name": f"o{i}", "type": "*", "links": []} for i in range(outputs)],
                           "widgets_values": values if values is not None else [], "properties": {}, **({"title": title} if title else {}), **more})
        self.next += 1
        return self.nodes[-1]

    def link(self, origin, slot, target, name, widget=False):
        number = len(self.links) + 1
        self.links.append([number, origin, slot, target["id"] if target else -20, 99, "*"])  # where it goes is read from the node
        if target:
            target["inputs"].insert(0, {"name": name, "type": "*", "link": number, **({"widget": {"name": name}} if widget else {})})
        return number


def build(graph, prompt, way):
    """Every node of the prompt into one graph."""
    made = {}
    for name, node in prompt.items():
        title = node.get("_meta", {}).get("title", name)
        made[name] = graph.node(node["class_type"], values_of(node["class_type"], node["inputs"]), title, 10)
    through = {}
    for name, node in prompt.items():
        for socket, (origin, slot) in wires_of(node["inputs"]):
            widget = node["class_type"] in ORDER and socket in ORDER[node["class_type"]][1]
            start, out = made[origin]["id"], slot
            if way == "reroutes":
                for _ in range(2):
                    reroute = graph.node("Reroute")
                    graph.link(start, out, reroute, "")
                    start, out = reroute["id"], 0
            if way == "setget":
                key = f"{origin} {slot}"
                if key not in through:
                    through[key] = graph.node("SetNode", [key])
                    graph.link(start, out, through[key], "value")
                start, out = graph.node("GetNode", [key])["id"], 0
            graph.link(start, out, made[name], socket, widget)
    return made


def objects(links):
    return [dict(zip(("id", "origin_id", "origin_slot", "target_id", "target_slot", "type"), link)) for link in links]


def definition(number, name, graph, outputs):
    """outputs: (node id, slot) of each."""
    ports = []
    for i, (origin, slot) in enumerate(outputs):
        ports.append({"id": f"p{i}", "name": f"out{i}", "type": "*", "linkIds": [graph.link(origin, slot, None, None)]})
    return {"id": f"{number:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "name": name, "inputNode": {"id": -10}, "outputNode": {"id": -20}, "inputs": [], "outputs": ports,
            "nodes": graph.nodes, "links": objects(graph.links)}


def in_subgraph(prompt, depth):
    """All but what nothing depends on goes into a subgraph, which goes into another."""
    used = {wire[0] for node in prompt.values() for _, wire in wires_of(node["inputs"])}
    inner = {name: node for name, node in prompt.items() if name in used}
    graph, definitions = Graph(1000), []
    made = build(graph, inner, "plain")
    wanted = sorted({(wire[0], wire[1]) for name, node in prompt.items() if name not in inner for _, wire in wires_of(node["inputs"])})
    definitions.append(definition(1, "Inside", graph, [(made[n]["id"], slot) for n, slot in wanted]))
    for level in range(1, depth):
        around = Graph(2000 * level)
        instance = around.node(definitions[-1]["id"], outputs=0)
        instance["outputs"] = [{"name": f"out{i}", "type": "*", "links": []} for i in range(len(wanted))]
        definitions.append(definition(1 + level, f"Around {level}", around, [(instance["id"], i) for i in range(len(wanted))]))
    root = Graph(1)
    instance = root.node(definitions[-1]["id"], title="All of it", outputs=0)
    instance["outputs"] = [{"name": f"out{i}", "type": "*", "links": []} for i in range(len(wanted))]
    for name, node in prompt.items():
        if name in inner:
            continue
        kind = node["class_type"]
        end = root.node(kind, values_of(kind, node["inputs"]), name)
        for socket, (origin, slot) in wires_of(node["inputs"]):
            root.link(instance["id"], wanted.index((origin, slot)), end, socket, kind in ORDER and socket in ORDER[kind][1])
    return root, definitions


def main():
    prompt, way = json.loads(pathlib.Path(sys.argv[1]).read_text()), sys.argv[3]
    for row in json.loads(pathlib.Path(sys.argv[2]).read_text()):
        DEFAULT[row["type"]] = {p["name"]: p.get("default") for p in row["parameters"]}
    definitions = []
    if way in ("subgraph", "nested"):
        graph, definitions = in_subgraph(prompt, 3 if way == "nested" else 1)
    else:
        graph = Graph(1)
        build(graph, prompt, way)
    groups = [{"title": "All", "bounding": [0, 0, 100, 100], "color": "#3f789e"}]
    version1 = way == "reroutes"
    json.dump({"id": "0", "revision": 0, "nodes": graph.nodes, "links": objects(graph.links) if version1 else graph.links, "groups": groups,
               "definitions": {"subgraphs": definitions}, "config": {}, "extra": {}, "version": 1 if version1 else 0.4}, sys.stdout)


main()
