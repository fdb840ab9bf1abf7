"""clip_vision/, clip_vision.safetensors and clip_vision_names.txt: CLIP's vision encoders, from transformers.

clip_vision/KIND/config.json is a configuration in miniature, clip_vision/names.txt its tensors' names and shapes; the weights are the formula's of
unet_kinds.py. The goldens are the features of two pictures: KIND.pixels -> KIND.last_hidden_state, .penultimate_hidden_states, .image_embeds,
.mm_projected; and what ComfyUI's preprocessing makes of pictures of several sizes: picture.NAME -> prepared.NAME.CROP. clip_vision_names.txt has
every tensor of the released sizes.
"""

import torch
import torch.nn.functional as F
from transformers import CLIPVisionConfig, CLIPVisionModel, CLIPVisionModelWithProjection

import unet_kinds
from common import GOLDEN, errors, generator, randn, save, save_json, versions

FOLDER = GOLDEN / "clip_vision"
TINY = dict(num_channels=3, model_type="clip_vision_model", layer_norm_eps=1e-5)
KINDS = {
    "quick": dict(TINY, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, image_size=24, patch_size=4, projection_dim=20, hidden_act="quick_gelu"),
    "gelu": dict(TINY, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=3, image_size=26, patch_size=8, projection_dim=24, hidden_act="gelu", layer_norm_eps=1e-3),
    "bare": dict(TINY, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8, hidden_act="gelu"),
    "wide": dict(TINY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=1, image_size=8, patch_size=4, projection_dim=20, hidden_act="quick_gelu"),
    "llava": dict(TINY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=12, patch_size=4, projection_dim=20, hidden_act="quick_gelu"),
}
PROJECTOR = 40
RELEASED = {
    "L": dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, image_size=224, patch_size=14, projection_dim=768),
    "H": dict(hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=16, image_size=224, patch_size=14, projection_dim=1024),
    "bigG": dict(hidden_size=1664, intermediate_size=8192, num_hidden_layers=48, num_attention_heads=16, image_size=224, patch_size=14, projection_dim=1280),
}
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
SIZE = 24
PICTURES = {"tall": (53, 37), "wide": (20, 67), "narrow": (3, 90), "square": (24, 24)}


class Projector(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_1, self.linear_2 = torch.nn.Linear(width, PROJECTOR), torch.nn.Linear(PROJECTOR, PROJECTOR)

    def forward(self, x):
        return self.linear_2(F.gelu(self.linear_1(x[:, 1:])))


def make(kind):
    config = CLIPVisionConfig(**{k: v for k, v in KINDS[kind].items() if k != "model_type"}, attn_implementation="eager")
    net = (CLIPVisionModelWithProjection if "projection_dim" in KINDS[kind] else CLIPVisionModel)(config)
    if kind == "llava":
        net.multi_modal_projector = Projector(config.hidden_size)
    names = {name: tensor for name, tensor in net.state_dict().items() if "position_ids" not in name}
    net.load_state_dict({name: unet_kinds.numbers(kind, name, tuple(tensor.shape)) for name, tensor in names.items()}, strict=False)
    return net.eval().requires_grad_(False), names


def features(kind, net, pixels):
    out = net(pixels, output_hidden_states=True)
    states = out.hidden_states
    found = {"last_hidden_state": states[-1], "penultimate_hidden_states": states[-2]}
    found["image_embeds"] = out.image_embeds if "projection_dim" in KINDS[kind] else out.pooler_output
    if kind == "llava":
        found["mm_projected"] = net.multi_modal_projector(states[-2])
    return found


def prepared(picture, crop):
    """The steps of a CLIP vision encoder's preprocessing on numbers; the sides are rounded as Python rounds."""
    x = picture.permute(2, 0, 1)[None].double()
    h, w = x.shape[2:]
    if (h, w) != (SIZE, SIZE):
        scale = SIZE / min(h, w)
        x = F.interpolate(x, size=(round(scale * h), round(scale * w)) if crop else (SIZE, SIZE), mode="bicubic", antialias=True)
        top, left = (x.shape[2] - SIZE) // 2, (x.shape[3] - SIZE) // 2
        x = x[:, :, top : top + SIZE, left : left + SIZE]
    x = (255 * x).clip(0, 255).round() / 255
    return ((x - torch.tensor(MEAN).double().view(3, 1, 1)) / torch.tensor(STD).double().view(3, 1, 1))[0].permute(1, 2, 0)


def released_lines():
    for name, config in RELEASED.items():
        with torch.device("meta"):
            net = CLIPVisionModelWithProjection(CLIPVisionConfig(**config))
        layers = config["num_hidden_layers"]
        for tensor, value in net.state_dict().items():
            if "position_ids" in tensor or (".layers." in tensor and ".layers.0." not in tensor):
                continue
            yield f"{name} {tensor.replace('.layers.0.', f'.layers.{{{layers}}}.')} {' '.join(map(str, value.shape))}"


def main():
    tensors, noise, lines = {}, {}, []
    for kind, config in KINDS.items():
        net, names = make(kind)
        pixels = randn(f"vision.{kind}", 2, 3, config["image_size"], config["image_size"])
        single, out = features(kind, net, pixels), features(kind, net.double(), pixels.double())
        noise[kind] = max((errors(single[k], out[k]) for k in out), key=lambda e: e["max"])
        tensors[f"{kind}.pixels"] = pixels.permute(0, 2, 3, 1).contiguous()
        tensors.update({f"{kind}.{k}": v for k, v in out.items()})
        lines += [f"kind {kind}", *(f"{name} {' '.join(map(str, tensor.shape))}" for name, tensor in names.items())]
        save_json(FOLDER / kind / "config.json", dict(config, architectures=[type(net).__name__]))
    for name, size in PICTURES.items():
        tensors[f"picture.{name}"] = picture = torch.rand(*size, 3, generator=generator(f"vision.picture.{name}"))
        tensors.update({f"prepared.{name}.{crop}": prepared(picture, crop == "center") for crop in ("center", "none")})
    (FOLDER / "names.txt").write_text("\n".join(lines) + "\n")
    head = "# CLIP's vision encoders as they were released: size, tensor, shape. {24}: 24 tensors, numbered from 0.\n"
    (GOLDEN / "clip_vision_names.txt").write_text(head + "\n".join(released_lines()) + "\n")
    what = "transformers' CLIP vision encoders of clip_vision/KIND: KIND.pixels -> KIND.FEATURES; picture.NAME -> prepared.NAME.CROP at size 24"
    save(GOLDEN / "clip_vision.safetensors", tensors, {**versions(), "layout": "NHWC", "what": what, "noise_f32": noise})


if __name__ == "__main__":
    main()
