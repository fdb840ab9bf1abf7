/* deepseek_v2.h - what the two halves of the DeepSeek-V2 share. */
#ifndef DEEPSEEK_V2_H
#define DEEPSEEK_V2_H

#include "language.h"

typedef struct {
    int64_t width, heads, layers, dense_layers, hidden;     /* hidden: of the dense layers' MLP      */
    int64_t q_rank, kv_rank, nope, rope, value;             /* ranks and widths of latent attention  */
    int64_t experts, chosen, shared, expert_hidden, groups; /* groups: experts are grouped, or 1     */
    int64_t chosen_groups;
    double theta;
    float eps, routed_scale;
} deepseek;

/* down(silu(gate(x)) * up(x)), by the weights of that name */
kiln_t deepseek_mlp(const language_recording *r, kiln_t x, int64_t hidden, const char *name);
/* A mixture: the shared experts of all tokens, and each token's own. x [N,T,D]. Of a layer all experts' matrices are
 * one tensor: model.layers.{}.mlp.experts.gate_proj [experts,hidden,D], up_proj, down_proj. */
kiln_t deepseek_mixture(const language_recording *r, const deepseek *m, int64_t layer, kiln_t x);

#endif
