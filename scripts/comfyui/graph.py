"""Prompts in API format, written as expressions: `n.VAEDecode(samples=latent, vae=checkpoint[2])`."""


class Node:
    def __init__(self, kind, inputs, slot=0):
        self.kind, self.inputs, self.slot = kind, inputs, slot

    def __getitem__(self, slot):
        return Node(self.kind, self.inputs, slot)


class Kinds:
    """n.Kind(input=value, ...) is a node of that kind; a value that is a node is a link to its first output, node[k] to another."""

    def __getattr__(self, kind):
        return lambda **inputs: Node(kind, inputs)


n = Kinds()


def place(node, prompt):
    """The id of a node in the prompt, which gains it and what it needs; equal nodes are one."""
    inputs = {}
    for name, value in node.inputs.items():
        inputs[name] = [place(value, prompt), value.slot] if isinstance(value, Node) else value
    entry = {"class_type": node.kind, "inputs": inputs}
    for key, other in prompt.items():
        if other == entry:
            return key
    key = str(len(prompt) + 1)
    prompt[key] = entry
    return key


def prompt_of(*outputs):
    prompt = {}
    for node in outputs:
        place(node, prompt)
    return prompt
