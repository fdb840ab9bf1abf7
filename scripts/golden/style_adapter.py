"""style_adapter/ and style_adapter.safetensors: T2I-Adapter's style adapter in miniature, and attention to a reference, on tiny-sd1-l2.

style_adapter/models/style_models/tiny.safetensors has the release's names; what it makes is torch's own MultiheadAttention's. The picture is small.png of
tests/strangers/ip_adapter, by the encoder there; prompts and latents are those of ip_adapter.safetensors. golden.style.STRENGTH: one Euler step with the
style behind the positive prompt; golden.reference: one step of two pictures of which the second sees the first too, and the first itself.
"""

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import ip_adapter
import reference
from common import GOLDEN, nhwc, randn, save, versions

WIDTH, TOKENS, CONTEXT, HEADS, LAYERS = 16, 8, 32, 8, 3


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = torch.nn.MultiheadAttention(WIDTH, HEADS)
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.mlp = torch.nn.ModuleDict({"c_fc": torch.nn.Linear(WIDTH, 4 * WIDTH), "c_proj": torch.nn.Linear(4 * WIDTH, WIDTH)})

    def forward(self, x):
        h = self.ln_1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        h = self.mlp["c_fc"](self.ln_2(x))
        return x + self.mlp["c_proj"](h * torch.sigmoid(1.702 * h))


class Style(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer_layes = torch.nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.style_embedding = torch.nn.Parameter(torch.zeros(1, TOKENS, WIDTH))
        self.ln_pre, self.ln_post = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.proj = torch.nn.Parameter(torch.zeros(WIDTH, CONTEXT))

    def forward(self, x):
        x = self.ln_pre(torch.cat([x, self.style_embedding.expand(x.shape[0], -1, -1)], 1)).permute(1, 0, 2)
        for layer in self.transformer_layes:
            x = layer(x)
        return self.ln_post(x.permute(1, 0, 2)[:, -TOKENS:]) @ self.proj


def random_style():
    net = Style()
    for name, parameter in net.named_parameters():
        value = randn(f"style.{name}", *parameter.shape)
        norm = ".ln_" in "." + name and name.endswith("weight")
        value = 1 + 0.2 * value if norm else value * (0.1 if value.dim() == 1 else 1 if name == "style_embedding" else value.shape[-1] ** -0.5)
        parameter.data = value.half().float()
    save(GOLDEN / "style_adapter" / "models" / "style_models" / "tiny.safetensors", {k: v.half() for k, v in net.state_dict().items()})
    return net.double().requires_grad_(False)


class Beside:
    """Self-attention that sees the first picture's tokens too."""

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None, **_):
        seen = torch.cat([hidden_states, hidden_states[:1].expand_as(hidden_states)], 1)
        q, k, v = attn.to_q(hidden_states), attn.to_k(seen), attn.to_v(seen)
        return attn.to_out[0](ip_adapter.attend(attn.heads, q, k, v))


class Plain:
    def __init__(self, beside=False):
        self.unet = ip_adapter.unet_of("sd1").double()
        for key in self.unet.attn_processors if beside else ():
            if "attn1" in key:
                self.unet.get_submodule(key.removesuffix(".processor")).processor = Beside()

    def __call__(self, x, sigma, tokens):
        return self.unet(reference.scaled(x, sigma), reference.timestep(sigma), tokens.expand(x.shape[0], -1, -1)).sample


def main():
    net, encoder, given = random_style(), ip_adapter.vision(), load_file(GOLDEN / "ip_adapter.safetensors")
    scale = ip_adapter.SCALE["sd1"]
    yes, no = given["sd1.positive"].double(), given["sd1.negative"].double()
    tensors = {}
    with torch.inference_mode():
        states = encoder(ip_adapter.prepared(ip_adapter.picture("small.png")), output_hidden_states=True).hidden_states
        style = net(states[-1])
        x = [given[f"sd1.x{n}"].permute(0, 3, 1, 2).double() * scale for n in (1, 2)]
        for strength in (1.0, 0.4):
            out = reference.euler(Plain(), x[0], ip_adapter.STEP, [torch.cat([yes, strength * style], 1), no])
            tensors[f"golden.style.{strength}"] = nhwc(out) / scale
        tensors["golden.reference"] = nhwc(reference.euler(Plain(True), x[1], ip_adapter.STEP, [yes, no])) / scale
        plain = nhwc(reference.euler(Plain(), x[1], ip_adapter.STEP, [yes, no])) / scale
        assert (plain[0] - tensors["golden.reference"][0]).abs().max() < 1e-9 < 1e-3 < (plain[1] - tensors["golden.reference"][1]).abs().max()
    save(GOLDEN / "style_adapter.safetensors", tensors, {**versions(), "layout": "NHWC", "what": "scripts/golden/style_adapter.py has the cases"})


if __name__ == "__main__":
    main()
