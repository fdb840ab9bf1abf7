"""Makes llada-tiny, a LLaDA of random numbers, and what it writes: python make_llada_tiny.py

Needs torch, transformers, tokenizers and safetensors; the tests need none of them. llada-tiny/ has the names and keys of GSAI-ML/LLaDA-8B-Instruct. LLaDA's own code is no
part of transformers; the network is transformers' Llama without a causal mask, as the paper (arXiv:2502.09992, section 2) has it, and the loop below is the paper's
algorithm 4 in blocks (appendix B.4): the steps of a block unmask as many tokens each, the surest first, one more in the first steps where they do not come out even.
llada.safetensors has what comes of it in float64. Tokens are drawn by the inverse of the cumulative sum, with given numbers.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaModel

HERE = Path(__file__).parent
MASK, EOT, CANVAS, VOCABULARY = 290, 262, 16, 300
CONFIG = {"model_type": "llada", "architectures": ["LLaDAModelLM"], "activation_type": "silu", "alibi": False, "attention_dropout": 0.0, "attention_layer_norm": False,
          "block_group_size": 1, "block_type": "llama", "d_model": 64, "embedding_size": VOCABULARY, "eos_token_id": 257, "flash_attention": False, "include_bias": False,
          "include_qkv_bias": False, "input_emb_norm": False, "layer_norm_type": "rms", "layer_norm_with_affine": True, "mask_token_id": MASK, "max_sequence_length": 256,
          "mlp_hidden_size": 96, "mlp_ratio": 4, "n_heads": 4, "n_kv_heads": 2, "n_layers": 3, "pad_token_id": 257, "rms_norm_eps": 1e-05, "rope": True,
          "rope_full_precision": True, "rope_theta": 500000.0, "scale_logits": False, "vocab_size": VOCABULARY, "weight_tying": False, "use_cache": False}
SPECIAL = {256: "<|startoftext|>", 257: "<|endoftext|>", 260: "<|start_header_id|>", 261: "<|end_header_id|>", EOT: "<|eot_id|>", MASK: "<|mdm_mask|>"}
OF_LAYER = {"self_attn.q_proj": "q_proj", "self_attn.k_proj": "k_proj", "self_attn.v_proj": "v_proj", "self_attn.o_proj": "attn_out", "mlp.gate_proj": "ff_proj",
            "mlp.up_proj": "up_proj", "mlp.down_proj": "ff_out", "input_layernorm": "attn_norm", "post_attention_layernorm": "ff_norm"}


def stored_name(name):
    if not name.startswith("layers."):
        return {"embed_tokens.weight": "wte.weight", "norm.weight": "ln_f.weight"}[name]
    _, layer, rest = name.split(".", 2)
    return f"blocks.{layer}.{OF_LAYER[rest.removesuffix('.weight')]}.weight"


def the_model():
    c = CONFIG
    model = LlamaModel._from_config(
        LlamaConfig(vocab_size=VOCABULARY, hidden_size=c["d_model"], intermediate_size=c["mlp_hidden_size"], num_hidden_layers=c["n_layers"], num_attention_heads=c["n_heads"],
                    num_key_value_heads=c["n_kv_heads"], rms_norm_eps=c["rms_norm_eps"], rope_theta=c["rope_theta"], max_position_embeddings=256,
                    rope_parameters={"rope_type": "default", "rope_theta": c["rope_theta"]}), attn_implementation="eager").eval().float()
    g, stored = torch.Generator().manual_seed(3), {}
    for name, t in model.named_parameters():
        r = torch.randn(t.shape, generator=g)
        r = 1 + 0.3 * r if "norm" in name else 0.5 * r if "embed" in name else 1.4 * r / t.shape[-1] ** 0.5
        t.data.copy_(r.bfloat16().float())
        stored["model.transformer." + stored_name(name)] = t.data.bfloat16()
    head = (3 * torch.randn(VOCABULARY, c["d_model"], generator=g) / c["d_model"] ** 0.5).bfloat16()
    stored["model.transformer.ff_out.weight"] = head
    return model, head.float(), stored


class Network:
    def __init__(self, model, head):
        self.model, self.head = model, head

    def __call__(self, ids):
        """Logits [T,V] and hidden states of each layer; every token sees every other one."""
        n = len(ids)
        everything = torch.zeros(1, 1, n, n, dtype=self.head.dtype)
        out = self.model(input_ids=torch.tensor([ids]), attention_mask=everything, use_cache=False, output_hidden_states=True)
        return out.last_hidden_state[0] @ self.head.T, out.hidden_states[1:]


def generate(network, prompt, blocks, steps, temperature, draw, sure):
    """The tokens of each step's block, what is written, and the gaps that decided anything, in parts of what f32 can tell apart."""
    ids, trace = prompt + [MASK] * (blocks * CANVAS), []
    for block in range(blocks):
        begin = len(prompt) + block * CANVAS
        for step in range(steps):
            z = network(ids)[0][begin:begin + CANVAS]
            masked = torch.tensor([ids[begin + i] == MASK for i in range(CANVAS)])
            p = torch.softmax(z / temperature if temperature else z, -1)
            sums, two = p.double().cumsum(-1), z.topk(2, -1).values
            at = (1 - draw[block, step].double()[:, None]) * sums[:, -1:]
            word = (sums >= at).to(torch.int32).argmax(-1) if temperature else z.argmax(-1)
            sure.append((sums - at).abs().min(-1).values[masked].min() / 5e-6 if temperature else (two[:, 0] - two[:, 1])[masked].min() / 1e-3)
            surest = torch.softmax(z, -1).gather(-1, word[:, None])[:, 0].masked_fill(~masked, -1)
            n = CANVAS // steps + (step < CANVAS % steps)
            order = surest.sort(descending=True)
            if n < int(masked.sum()):
                sure.append((order.values[n - 1] - order.values[n]) / 1e-5)
            for i in order.indices[:n].tolist():
                assert word[i] != MASK
                ids[begin + i] = int(word[i])
            trace.append(list(ids[begin:begin + CANVAS]))
    return torch.tensor(trace), ids[len(prompt):]


KINDS = {"greedy": (3, 6, 0.0), "drawn": (2, 8, 0.8), "few": (2, 3, 0.5)}


def say_generations(narrow, wide, prompt, g):
    for kind, (blocks, steps, temperature) in KINDS.items():
        for seed in range(400):
            r = torch.Generator().manual_seed(seed)
            draw = (torch.randint(0, 1 << 24, (blocks, steps, CANVAS), generator=r).double() / (1 << 24)).float()
            start = prompt if kind != "greedy" else prompt[: len(prompt) - seed % 10]  # greedy draws nothing: other prompts
            sure = []
            try:
                trace, ids = generate(wide, start, blocks, steps, temperature, draw, sure)
                other, _ = generate(narrow, start, blocks, steps, temperature, draw, [])
            except AssertionError:
                continue
            if min(sure) > 1 and torch.equal(trace, other) and EOT not in ids and 257 not in ids:
                break
        else:
            sys.exit(f"no seed for {kind}")
        print(kind, "seed", seed, "least gap, of what is enough", float(min(sure)), "ids", ids)
        g |= {f"{kind}.prompt": torch.tensor(start), f"{kind}.x": trace, f"{kind}.ids": torch.tensor(ids), f"{kind}.draw": draw}


def write_tokenizer():
    letters = sorted(ByteLevel.alphabet())
    vocabulary = {t: i for i, t in enumerate(letters)} | {f"<unused{i}>": i for i in range(256, VOCABULARY) if i not in SPECIAL} | {t: i for i, t in SPECIAL.items()}
    whole = {"version": "1.0", "truncation": None, "padding": None,
             "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, t in SPECIAL.items()],
             "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, "post_processor": None,
             "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
             "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                       "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary, "merges": []}}
    path = HERE / "llada-tiny/tokenizer.json"
    path.write_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n")
    return Tokenizer.from_file(str(path))


@torch.inference_mode()
def main():
    torch.set_num_threads(1)
    (HERE / "llada-tiny").mkdir(exist_ok=True)
    model, head, stored = the_model()
    save_file(stored, HERE / "llada-tiny/model.safetensors", {"format": "pt"})
    (HERE / "llada-tiny/config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    t = write_tokenizer()
    # the chat template of LLaDA-8B-Instruct, written out
    text = "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\na cat<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    prompt = t.encode(text, add_special_tokens=False).ids
    g = {"chat": torch.tensor(prompt)}
    narrow = Network(model, head)
    seen = prompt + list(range(40, 40 + CANVAS)) + [MASK] * CANVAS
    said = narrow(seen)[0]
    wide = Network(the_model()[0].double(), head.double())
    logits, hidden = wide(seen)
    print("f32 is off by", float((said - logits).abs().max() / logits.abs().max()), "logits", float(logits.std()))
    g |= {"logits": logits[len(prompt):len(prompt) + CANVAS]} | {f"{i}.hidden": h[0] for i, h in enumerate(hidden[:-1])}
    say_generations(narrow, wide, prompt, g)
    save_file({k: v.to(torch.float32).contiguous() for k, v in g.items()}, HERE / "llada.safetensors")


if __name__ == "__main__":
    main()
