"""Makes the tiny random DeepSeek-V2 of this folder and what transformers says of it: python make_deepseek_v2.py

Needs torch, transformers and safetensors; the test needs none of them.
"""

from saying import fill, make
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM

CONFIG = dict(
    hidden_size=32, intermediate_size=44, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=4, vocab_size=61, q_lora_rank=24, kv_lora_rank=16,
    qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, first_k_dense_replace=1, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
    n_group=3, topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=2.5, rms_norm_eps=1e-6, hidden_act="silu", attention_bias=False,
    bos_token_id=0, eos_token_id=0,
)


def draw(name, r):
    if name.endswith("norm.weight"):
        return 1 + 0.2 * r
    return r if "embed_tokens" in name else r * (1.4 if "lm_head" in name else 0.9) / r.shape[-1] ** 0.5


def as_published(name, p):
    """The released files have each expert's three matrices under names of their own."""
    base, _, kind = name.rpartition(".")
    if kind not in ("gate_up_proj", "down_proj"):
        return {name: p}
    parts = {"gate_proj": p[:, : p.shape[1] // 2], "up_proj": p[:, p.shape[1] // 2 :]} if kind == "gate_up_proj" else {kind: p}
    return {f"{base}.{e}.{part}.weight": w[e] for part, w in parts.items() for e in range(len(w))}


model = DeepseekV2ForCausalLM(DeepseekV2Config(**CONFIG, attn_implementation="eager", experts_implementation="eager"))
fill(model, draw, 50)  # of the seeds from 0 to 119 one whose tokens choose their experts by more than bf16 rounds
make("deepseek_v2", model, CONFIG | {"model_type": "deepseek_v2", "rope_theta": 10000.0}, as_published)
