"""t2i_adapters/ and t2i_adapters.safetensors: every kind of T2I-Adapter in miniature, from diffusers.

t2i_adapters/KIND/config.json is its configuration, t2i_adapters/names.txt its tensors' names and shapes; the weights are the formula's of
unet_kinds.py. The goldens are the features of two hints that all share, whose levels are of odd sizes too: hint -> KIND.out.I, pictures
NHWC.
"""

import torch

import unet_kinds
from common import GOLDEN, errors, generator, nhwc, save, save_json, versions

FOLDER = GOLDEN / "t2i_adapters"
KINDS = {
    "full": dict(adapter_type="full_adapter", channels=[8, 12, 12, 16], num_res_blocks=2, downscale_factor=8, in_channels=3),
    "xl": dict(adapter_type="full_adapter_xl", channels=[8, 12, 16, 16], num_res_blocks=2, downscale_factor=16, in_channels=3),
    "light": dict(adapter_type="light_adapter", channels=[16, 24, 32], num_res_blocks=4, downscale_factor=8, in_channels=3),
    "grey": dict(adapter_type="full_adapter", channels=[8, 8, 12, 12], num_res_blocks=2, downscale_factor=8, in_channels=1),
}


def make(kind):
    from diffusers import T2IAdapter

    net = T2IAdapter(**KINDS[kind])
    net.load_state_dict({name: unet_kinds.numbers(kind, name, tuple(tensor.shape)) for name, tensor in net.state_dict().items()})
    return net.eval().requires_grad_(False)


def main():
    hint = torch.rand(2, 3, 48, 80, generator=generator("t2i.hint"))
    tensors, noise, lines = {"hint": nhwc(hint)}, {}, []
    for kind, config in KINDS.items():
        net = make(kind)
        given = hint[:, :1] if config["in_channels"] == 1 else hint
        single, out = net(given), net.double()(given.double())
        noise[kind] = max((errors(a, b) for a, b in zip(single, out)), key=lambda e: e["max"])
        tensors.update({f"{kind}.out.{i}": nhwc(v) for i, v in enumerate(out)})
        lines += [f"kind {kind}", *(f"{name} {' '.join(map(str, tensor.shape))}" for name, tensor in net.state_dict().items())]
        save_json(FOLDER / kind / "config.json", dict(config, _class_name="T2IAdapter"))
    (FOLDER / "names.txt").write_text("\n".join(lines) + "\n")
    what = "diffusers T2IAdapter of t2i_adapters/KIND: hint -> KIND.out.I; grey sees the hint's first channel"
    save(GOLDEN / "t2i_adapters.safetensors", tensors, {**versions(), "layout": "NHWC", "what": what, "noise_f32": noise})


if __name__ == "__main__":
    main()
