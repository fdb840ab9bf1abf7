"""Control files for tests, made of others by the standard library alone.

    edit_controls.py difference CONTROL UNET OUT     CONTROL less the tensors that UNET has too, and the key that says so
    edit_controls.py lora CONTROL UNET OUT           CONTROL as a Control-LoRA over UNET: the whole difference as a product with ones
    edit_controls.py union CONTROL OUT               CONTROL with a Union's tensors for 6 kinds of hints, random
    edit_controls.py f32|bf16 CONTROL OUT            the same in another type
    edit_controls.py without NAME CONTROL OUT        the same without a tensor
    edit_controls.py with NAME CONTROL OUT           the same with a tensor that nothing asks for
"""

import array
import json
import math
import random
import re
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]) for name, t in header.items()}


def write(path, tensors, metadata=None):
    header, at, parts = {"__metadata__": metadata} if metadata else {}, 0, []
    for name, (dtype, shape, data) in sorted(tensors.items()):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def numbers(tensor):
    return struct.unpack(f"<{len(tensor[2]) // 2}e", tensor[2]) if tensor[0] == "F16" else array.array("f", tensor[2])


def less(tensor, base):
    return "F32", tensor[1], array.array("f", [a - b for a, b in zip(numbers(tensor), numbers(base))]).tobytes()


RESNET = {"norm1": "in_layers.0", "conv1": "in_layers.2", "time_emb_proj": "emb_layers.1", "norm2": "out_layers.0", "conv2": "out_layers.3", "conv_shortcut": "skip_connection"}
PLAIN = {
    "conv_in": "input_blocks.0.0", "time_embedding.linear_1": "time_embed.0", "time_embedding.linear_2": "time_embed.2",
    "mid_block.attentions.0": "middle_block.1", "controlnet_mid_block": "middle_block_out.0",
    "controlnet_cond_embedding.conv_in": "input_hint_block.0", "controlnet_cond_embedding.conv_out": "input_hint_block.14",
}


def released(name, layers=2):
    """The ControlNet source's name."""
    for old, new in PLAIN.items():
        if name.startswith(old + "."):
            return new + name[len(old) :]
    if found := re.fullmatch(r"controlnet_down_blocks\.(\d+)\.(.*)", name):
        return f"zero_convs.{found[1]}.0.{found[2]}"
    if found := re.fullmatch(r"controlnet_cond_embedding\.blocks\.(\d+)\.(.*)", name):
        return f"input_hint_block.{2 * int(found[1]) + 2}.{found[2]}"
    if found := re.fullmatch(r"mid_block\.resnets\.(\d)\.(\w+)\.(.*)", name):
        return f"middle_block.{2 * int(found[1])}.{RESNET[found[2]]}.{found[3]}"
    level, kind, index, rest = re.fullmatch(r"down_blocks\.(\d)\.(\w+)\.(\d)\.(.*)", name).groups()
    first = 1 + int(level) * (layers + 1)
    if kind == "downsamplers":
        return f"input_blocks.{first + layers}.0.op.{rest.removeprefix('conv.')}"
    if kind == "attentions":
        return f"input_blocks.{first + int(index)}.1.{rest}"
    part, end = rest.split(".")
    return f"input_blocks.{first + int(index)}.0.{RESNET[part]}.{end}"


def low_rank(name, tensor, base):
    """X.up and X.down: the difference, and the matrix of ones on its diagonal."""
    shape = tensor[1]
    rank = len(numbers(tensor)) // shape[0]
    ones = array.array("f", bytes(4 * rank * rank))
    ones[:: rank + 1] = array.array("f", [1.0] * rank)
    up = less(tensor, base)[2]
    stem = released(name).removesuffix(".weight")
    return {stem + ".up": ("F32", [shape[0], rank], up), stem + ".down": ("F32", [rank, *shape[1:]], ones.tobytes())}


def union(tensors, kinds=6, sinusoid=16):
    """What a Union has more, for a first level as wide as conv_in's."""
    width, draw = tensors["conv_in.weight"][1][0], random.Random(6)
    shapes = {
        "task_embedding": [kinds, width], "control_add_embedding.linear_1.weight": [4 * width, kinds * sinusoid],
        "control_add_embedding.linear_2.weight": [4 * width, 4 * width], "spatial_ch_projs.weight": [width, width],
        "transformer_layes.0.attn.in_proj_weight": [3 * width, width], "transformer_layes.0.attn.out_proj.weight": [width, width],
        "transformer_layes.0.mlp.c_fc.weight": [4 * width, width], "transformer_layes.0.mlp.c_proj.weight": [width, 4 * width],
        "transformer_layes.0.ln_1.weight": [width], "transformer_layes.0.ln_2.weight": [width],
    }
    for name, shape in list(shapes.items()):
        if name.endswith("weight"):
            shapes[name.removesuffix("weight") + "bias"] = shape[:1]
    made = {name: array.array("f", [draw.gauss(0, 0.7) for _ in range(math.prod(shape))]) for name, shape in shapes.items()}
    return {name: ("F32", shapes[name], made[name].tobytes()) for name in shapes}


def rounded(tensor, kind):
    single = array.array("f", numbers(tensor))
    if kind == "f32":
        return "F32", tensor[1], single.tobytes()
    bits = array.array("I", single.tobytes())
    return "BF16", tensor[1], array.array("H", [(b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits]).tobytes()


def main(what, *paths):
    metadata = None
    if what == "difference":
        control, unet = read(paths[0]), read(paths[1])
        found = {name: less(t, unet[name]) if name in unet else t for name, t in control.items()}
        found["difference"] = ("F32", [1], bytes(4))
    elif what == "union":
        found = read(paths[0])
        found.update(union(found))
    elif what in ("f32", "bf16"):
        found = {name: rounded(t, what) for name, t in read(paths[0]).items()}
    elif what == "lora":
        control, unet, found = read(paths[0]), read(paths[1]), {"lora_controlnet": ("F32", [1], bytes(4))}
        for name, t in control.items():
            changed = name in unet and len(t[1]) > 1
            found.update(low_rank(name, t, unet[name]) if changed else {released(name): ("F32", t[1], array.array("f", numbers(t)).tobytes())})
        metadata = {"unet_config": json.dumps({"attention_head_dim": 2, "norm_num_groups": 4})}
    else:
        found = read(paths[1])
        if what == "without":
            del found[paths[0]]
        else:
            found[paths[0]] = ("F32", [1], bytes(4))
    write(paths[-1], found, metadata)


main(*sys.argv[1:])
