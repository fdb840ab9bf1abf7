/* clip_vision_names.c - see clip_vision_names.h. OpenCLIP has q, k and v in one tensor and the projection the other way
 * round. */
#include "clip_vision_names.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"

#include <stdio.h>

enum { RULES_MAX = 24, TEXT = 120 };

typedef struct {
    kiln_weight_rule rule[RULES_MAX];
    char from[RULES_MAX][TEXT];
    size_t n;
    const char *prefix;
} rules;

static kiln_weight_rule *add(rules *r, const char *from, const char *to)
{
    size_t i = r->n++;
    snprintf(r->from[i], TEXT, "%.60s%.50s", r->prefix, from);
    r->rule[i] = (kiln_weight_rule)KILN_RULE(.from = r->from[i], .to = to);
    return &r->rule[i];
}

static void add_transformers(rules *r)
{
    static const char *const parts[] = {"vision_model.*", "visual_projection.*", "multi_modal_projector.*"};
    for (size_t i = 0; i < COUNT(parts); i++) add(r, parts[i], parts[i]);
}

static void add_bare(rules *r)
{
    static const char *const parts[][2] = {{"embeddings.*", "vision_model.embeddings.*"},
                                           {"pre_layrnorm.*", "vision_model.pre_layrnorm.*"},
                                           {"encoder.*", "vision_model.encoder.*"},
                                           {"post_layernorm.*", "vision_model.post_layernorm.*"}};
    for (size_t i = 0; i < COUNT(parts); i++) add(r, parts[i][0], parts[i][1]);
}

static void add_product(rules *r, const char *from, const char *const to[3], int64_t width)
{
    for (int i = 0; i < 3; i++) {
        kiln_weight_rule *rule = add(r, from, to[i]);
        rule->row = i * width, rule->rows = width, rule->more = i < 2;
    }
}

#define LAYER "vision_model.encoder.layers.{}."

static void add_open_clip(rules *r, int64_t width)
{
    static const char *const plain[][2] = {
        {"class_embedding", "vision_model.embeddings.class_embedding"},
        {"conv1.weight", "vision_model.embeddings.patch_embedding.weight"},
        {"positional_embedding", "vision_model.embeddings.position_embedding.weight"},
        {"ln_pre.{}", "vision_model.pre_layrnorm.{}"},
        {"ln_post.{}", "vision_model.post_layernorm.{}"},
        {"transformer.resblocks.{}.ln_1.{}", LAYER "layer_norm1.{}"},
        {"transformer.resblocks.{}.ln_2.{}", LAYER "layer_norm2.{}"},
        {"transformer.resblocks.{}.mlp.c_fc.{}", LAYER "mlp.fc1.{}"},
        {"transformer.resblocks.{}.mlp.c_proj.{}", LAYER "mlp.fc2.{}"},
        {"transformer.resblocks.{}.attn.out_proj.{}", LAYER "self_attn.out_proj.{}"},
    };
    static const char *const weight[3] = {LAYER "self_attn.q_proj.weight", LAYER "self_attn.k_proj.weight",
                                          LAYER "self_attn.v_proj.weight"};
    static const char *const bias[3] = {LAYER "self_attn.q_proj.bias", LAYER "self_attn.k_proj.bias",
                                        LAYER "self_attn.v_proj.bias"};
    for (size_t i = 0; i < COUNT(plain); i++) add(r, plain[i][0], plain[i][1]);
    add(r, "proj", "visual_projection.weight")->transpose = 1;
    add_product(r, "transformer.resblocks.{}.attn.in_proj_weight", weight, width);
    add_product(r, "transformer.resblocks.{}.attn.in_proj_bias", bias, width);
}

kiln_weights *clip_vision_view(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const char *prefix,
                               clip_vision_names names)
{
    rules r = {.prefix = prefix};
    kiln_weight_info info;
    if (names == CLIP_VISION_TRANSFORMERS)
        add_transformers(&r);
    else if (names == CLIP_VISION_BARE)
        add_bare(&r);
    else
        add_open_clip(&r, checkpoint_has(w, set, prefix, &info, "conv1.weight") ? info.dim[0] : 0);
    return w->view(ctx, set, r.rule, r.n);
}
