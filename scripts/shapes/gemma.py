"""shapes-gemma: a DiffusionGemma of transformers' own classes, only narrower, and how it is trained and saved."""
import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, DynamicCache

from .gemma_tokenizer import CONTROL, EOS, SIZE

CANVAS = 16  # the longest caption has 12 tokens, and the end of the turn is one
HIDDEN, LAYERS, EXPERTS = 128, 4, 8
END = CONTROL["<turn|>"]
TEXT = dict(
    model_type="diffusion_gemma_text", vocab_size=SIZE, hidden_size=HIDDEN, num_hidden_layers=LAYERS,
    layer_types=["sliding_attention", "full_attention"] * (LAYERS // 2),
    num_attention_heads=4, num_key_value_heads=2, head_dim=32, global_head_dim=64, num_global_key_value_heads=1, sliding_window=16,
    intermediate_size=192, num_experts=EXPERTS, top_k_experts=2, moe_intermediate_size=64, hidden_activation="gelu_pytorch_tanh",
    rms_norm_eps=1e-6, final_logit_softcapping=30.0, max_position_embeddings=512, attention_bias=False, attention_dropout=0.0,
    use_bidirectional_attention="vision", tie_word_embeddings=True, pad_token_id=0, eos_token_id=EOS, bos_token_id=2,
    rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                     "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}},
)
# There are no pictures in its prompts, but the class always has the tower; the smallest one that it takes.
VISION = dict(
    model_type="gemma4_vision", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1, head_dim=16,
    patch_size=4, pooling_kernel_size=2, position_embedding_size=8,
)
GENERATION = dict(
    max_new_tokens=CANVAS, max_denoising_steps=16, t_min=0.4, t_max=0.8, stability_threshold=1, confidence_threshold=0.005,
    sampler_config={"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.05}, eos_token_id=[EOS, END, CONTROL["<|tool_response>"]], pad_token_id=0, bos_token_id=2,
)


def config():
    return DiffusionGemmaConfig(
        text_config=dict(TEXT), vision_config=dict(VISION), canvas_length=CANVAS, tie_word_embeddings=True,
        boi_token_id=CONTROL["<|image>"], image_token_id=CONTROL["<|image|>"], eoi_token_id=CONTROL["<image|>"],
    )


@torch.no_grad()
def fresh(seed):
    """A model to be trained. The residual stream begins as the embeddings: rows of unit length, branches added at a third."""
    torch.manual_seed(seed)
    model = DiffusionGemmaForBlockDiffusion(config())
    decoder = model.model.decoder
    decoder.embed_tokens.weight.normal_(0, HIDDEN**-0.5)
    for name, p in decoder.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            p.fill_(p.numel() ** -0.25)  # attention has no 1/sqrt(d) of its own
        elif "post_attention_layernorm" in name or name.endswith("post_feedforward_layernorm.weight"):
            p.fill_(0.35)
        elif p.dim() >= 2 and "embed_tokens" not in name:
            p.normal_(0, p.shape[-1] ** -0.5)
    for n, (a, b) in enumerate(zip(decoder.layers, model.model.encoder.language_model.layers)):
        a.layer_scalar.fill_(round(0.95 - 0.03 * n, 4))  # constants, as the released model's are not one either
        b.layer_scalar.fill_(round(0.9 - 0.02 * n, 4))
    for p in list(model.model.encoder.vision_tower.parameters()) + list(model.model.encoder.embed_vision.parameters()):
        p.zero_().requires_grad_(False)
    return model


class Balance:
    """Collects what the routers say, for the loss that keeps experts in use (Fedus et al. 2021, Switch Transformers)."""

    def __init__(self, model):
        self.terms, self.used = [], []
        for name, module in model.named_modules():
            if name.endswith(".router"):
                module.register_forward_hook(self.hear)

    def hear(self, router, _, result):
        if torch.is_grad_enabled():
            chosen = F.one_hot(result[2], EXPERTS).float().sum(1).mean(0)
            self.terms.append((result[0].float().mean(0) * chosen).sum() * EXPERTS / 2)
            self.used.append(chosen.detach())

    def take(self):
        loss = torch.stack(self.terms).mean()
        least = min(float(u.min()) for u in self.used)
        self.terms, self.used = [], []
        return loss, least


def noised(clean, level, generator):
    """The canvas with each token replaced by a random one with probability `level` (one per row), and where that is so."""
    at = torch.rand(clean.shape, generator=generator) < level[:, None]
    return torch.where(at, torch.randint(0, SIZE, clean.shape, generator=generator), clean), at


def encode(model, prompts):
    return model.model.encoder(input_ids=prompts, past_key_values=DynamicCache(config=model.config.get_text_config())).past_key_values


def decode(model, cache, canvas, guess=None):
    """Logits [n, CANVAS, SIZE] in f32."""
    positions = torch.arange(CANVAS)[None] + cache.get_seq_length()
    return model(decoder_input_ids=canvas, past_key_values=cache, self_conditioning_logits=guess, decoder_position_ids=positions).logits.float()


def loss_of(model, prompts, clean, generator):
    """Cross-entropy of every token of the clean canvas given a noisy one; half of the time after a first guess.

    The guess is made as sampling makes it: from a noisier canvas, at a temperature, without a gradient."""
    cache = encode(model, prompts)
    n = len(clean)
    level = torch.rand(n, generator=generator).sqrt()  # noisy canvases teach to read the prompt, clean ones little
    level[torch.rand(n, generator=generator) < 0.15] = 1.0
    canvas, at = noised(clean, level, generator)
    guess = None
    if torch.rand((), generator=generator) < 0.5:
        with torch.no_grad():
            more = (level + (1 - level) * torch.rand(n, generator=generator)).clamp(max=1)
            earlier, _ = noised(clean, more, generator)
            earlier = torch.where(at, torch.randint(0, SIZE, clean.shape, generator=generator), earlier)
            heat = 0.4 + 0.4 * torch.rand((n, 1, 1), generator=generator)
            guess = decode(model, cache, earlier) / heat
    logits = decode(model, cache, canvas, guess)
    return F.cross_entropy(logits.reshape(-1, SIZE), clean.reshape(-1))


def config_as_released(model):
    """The sizes of the full layers by the names that the released config.json has; transformers reads these and writes others."""
    fields = model.config.to_diff_dict()
    text = fields["text_config"]
    text.pop("per_layer_config", None)
    fields["text_config"] = {**text, "global_head_dim": TEXT["global_head_dim"], "num_global_key_value_heads": TEXT["num_global_key_value_heads"]}
    return json.loads(json.dumps(fields, default=str))


def save(model, folder, dtype=torch.bfloat16):
    """config.json, generation_config.json and model.safetensors with the names of the released model (tied tensors once)."""
    os.makedirs(folder, exist_ok=True)
    model.config.dtype = dtype
    model.config.architectures = ["DiffusionGemmaForBlockDiffusion"]
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config_as_released(model), f, indent=2)
        f.write("\n")
    with open(os.path.join(folder, "generation_config.json"), "w") as f:
        json.dump(GENERATION, f, indent=2)
        f.write("\n")
    keep = {}
    for name, value in model.state_dict().items():
        tied = name.startswith(("lm_head.", "model.encoder.language_model.")) and not name.endswith("layer_scalar")
        if not tied and "inv_freq" not in name and "embed_scale" not in name:
            keep[name] = value.to(dtype).contiguous().clone()
    save_file(keep, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    return keep
