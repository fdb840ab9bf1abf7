"""Makes the tiny random Mamba-2 of this folder and what transformers says of it: python make_mamba2.py

Needs torch, transformers and safetensors; the test needs none of them.
"""

from saying import fill, make
from transformers import Mamba2Config, Mamba2ForCausalLM

CONFIG = dict(
    hidden_size=32, expand=2, num_heads=4, head_dim=16, state_size=24, n_groups=2, conv_kernel=4, num_hidden_layers=3, vocab_size=61, chunk_size=8,
    bos_token_id=0, eos_token_id=0, pad_token_id=0, layer_norm_epsilon=1e-5, use_bias=False, use_conv_bias=True, hidden_act="silu",
)


def draw(name, r):
    if name.endswith("A_log"):
        return r.sigmoid() * 2 - 1
    if name.endswith("dt_bias"):
        return r - 1
    if name.endswith((".D", "norm.weight", "norm_f.weight")):
        return 1 + 0.2 * r
    if name.endswith("bias"):
        return 0.2 * r
    return r if "embeddings" in name else r * 1.3 / r[0].numel() ** 0.5


model = Mamba2ForCausalLM(Mamba2Config(**CONFIG))
fill(model, draw, 77)
make("mamba2", model, CONFIG | {"model_type": "mamba2"})
