/* gemma_names.c - what DiffusionGemma's tensors are called in a GGUF file and in transformers' folders. */
#include "gemma.h"

#define BLOCK(from_, to_) KILN_RULE(.from = "blk.{}." from_, .to = "layers.{}." to_)

/* The vision tower is in no rule. */
static const kiln_weight_rule rules[] = {
    KILN_RULE(.from = "model.decoder.*", .to = "*"),
    KILN_RULE(.from = "model.encoder.language_model.layers.{}.layer_scalar", .to = "layers.{}.encoder_scalar"),
    KILN_RULE(.from = "lm_head.weight", .to = "output.weight"),

    KILN_RULE(.from = "token_embd.weight", .to = "embed_tokens.weight"),
    KILN_RULE(.from = "output.weight", .to = "output.weight"),
    KILN_RULE(.from = "output_norm.weight", .to = "norm.weight"),
    KILN_RULE(.from = "rope_freqs.weight", .to = "rope_freqs.weight"),
    KILN_RULE(.from = "self_cond_pre_norm.weight", .to = "self_conditioning.pre_norm.weight"),
    KILN_RULE(.from = "self_cond_gate.weight", .to = "self_conditioning.gate_proj.weight"),
    KILN_RULE(.from = "self_cond_up.weight", .to = "self_conditioning.up_proj.weight"),
    KILN_RULE(.from = "self_cond_down.weight", .to = "self_conditioning.down_proj.weight"),
    BLOCK("attn_norm.weight", "input_layernorm.weight"),
    BLOCK("attn_q.weight", "self_attn.q_proj.weight"),
    BLOCK("attn_k.weight", "self_attn.k_proj.weight"),
    BLOCK("attn_v.weight", "self_attn.v_proj.weight"),
    BLOCK("attn_output.weight", "self_attn.o_proj.weight"),
    BLOCK("attn_q_norm.weight", "self_attn.q_norm.weight"),
    BLOCK("attn_k_norm.weight", "self_attn.k_norm.weight"),
    BLOCK("post_attention_norm.weight", "post_attention_layernorm.weight"),
    BLOCK("ffn_norm.weight", "pre_feedforward_layernorm.weight"),
    BLOCK("ffn_gate.weight", "mlp.gate_proj.weight"),
    BLOCK("ffn_up.weight", "mlp.up_proj.weight"),
    BLOCK("ffn_down.weight", "mlp.down_proj.weight"),
    BLOCK("post_ffw_norm.weight", "post_feedforward_layernorm.weight"),
    BLOCK("ffn_post_norm.weight", "post_feedforward_layernorm.weight"),
    BLOCK("post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"),
    BLOCK("ffn_post_norm_1.weight", "post_feedforward_layernorm_1.weight"),
    BLOCK("pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"),
    BLOCK("ffn_pre_norm_2.weight", "pre_feedforward_layernorm_2.weight"),
    BLOCK("post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"),
    BLOCK("ffn_post_norm_2.weight", "post_feedforward_layernorm_2.weight"),
    BLOCK("ffn_gate_inp.weight", "router.proj.weight"),
    BLOCK("ffn_gate_inp.scale", "router.scale"),
    BLOCK("ffn_gate_inp.per_expert_scale", "router.per_expert_scale"),
    BLOCK("ffn_down_exps.scale", "router.per_expert_scale"),
    BLOCK("ffn_gate_up_exps.weight", "experts.gate_up_proj"),
    BLOCK("ffn_gate_exps.weight", "experts.gate_proj"),
    BLOCK("ffn_up_exps.weight", "experts.up_proj"),
    BLOCK("ffn_down_exps.weight", "experts.down_proj"),
    BLOCK("layer_output_scale.weight", "layer_scalar"),
    BLOCK("enc_layer_output_scale.weight", "encoder_scalar"),
};

kiln_weights *gemma_view(kiln_ctx *ctx, kiln_weights *set)
{
    return ((const kiln_weights_api *)td_host->ability(KILN_WEIGHTS_ABILITY))->view(ctx, set, rules, COUNT(rules));
}
