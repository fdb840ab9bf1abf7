/* clip_config.c - see clip_config.h. */
#include "clip_config.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"

static const config_rule expected[] = {
    {"attention_dropout", "0.0"},
    {"add_cross_attention", "false"},
    {"is_decoder", "false"},
    {"tie_word_embeddings", "true"},
};

static const struct {
    const char *name;
    uint32_t act;
} acts[] = {{"quick_gelu", KILN_ACT_QUICK_GELU}, {"gelu", KILN_ACT_GELU}};

/* Where no config.json says it, the kind does; where one leaves it out, transformers' default holds. */
static uint32_t read_act(config *c, clip_kind kind)
{
    const char *name = config_text(c, "hidden_act", c->root || kind == CLIP_L ? "quick_gelu" : "gelu");
    for (size_t i = 0; i < COUNT(acts); i++)
        if (strcmp(name, acts[i].name) == 0) return acts[i].act;
    CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: 'hidden_act' is '%.40s'; quick_gelu and gelu are supported", c->path,
                name);
    return 0;
}

/* What shapes show; they do not show the number of heads. */
static kiln_status read_shapes(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *view, text_config *t)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const char *const names[] = {"embeddings.token_embedding.weight", "embeddings.position_embedding.weight",
                                 "encoder.layers.0.mlp.fc1.weight"};
    kiln_weight_info info[3];
    for (int i = 0; i < 3; i++)
        if (!checkpoint_has(w, view, "text_model.", &info[i], "%s", names[i]) || info[i].rank != 2)
            return host->fail(ctx, KILN_ERR_INVALID, "the text encoder has no two-dimensional tensor 'text_model.%s'",
                              names[i]);
    t->vocabulary = info[0].dim[0];
    t->width = info[0].dim[1];
    t->length = info[1].dim[0];
    t->inner = info[2].dim[0];
    t->layers = clip_layout_layers(w, view);
    return KILN_OK;
}

/* The projection of pooled: [projection, width] under its name here. OpenCLIP G cannot do without. */
static kiln_status read_projection(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *view,
                                   const clip_part *part, text_config *t)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info;
    if (part->kind == CLIP_L) return KILN_OK;
    if (!checkpoint_has(w, view, "", &info, "text_projection.weight")) {
        if (part->kind == CLIP_H) return KILN_OK;
        return host->fail(ctx, KILN_ERR_INVALID,
                          "there is no '%stext_projection', which SDXL's pooled vector is made with; take the encoder "
                          "with it (CLIPTextModelWithProjection)",
                          part->prefix);
    }
    if (info.rank != 2 || info.dim[1] != t->width)
        return host->fail(ctx, KILN_ERR_INVALID,
                          "'%stext_projection' leads from %lld numbers, and the text encoder is %lld wide; they do not "
                          "belong together",
                          part->prefix, (long long)(info.rank == 2 ? info.dim[1] : 0), (long long)t->width);
    t->projection = info.dim[0];
    return KILN_OK;
}

enum { LAYERS_H = 24, WIDTH_H = 1024 };

/* SD2 reads the layer before the last, and transformers' folders of it leave the last one out. Layers are counted as
 * if it were there, so that -2 is the same layer in every file of the model. */
static int32_t cut_layers(const clip_part *part, const text_config *t, int has_config)
{
    if (part->kind != CLIP_H) return 0;
    if (t->width == WIDTH_H) return t->layers == LAYERS_H - 1;
    return has_config && (part->names != NAMES_OPEN_CLIP || clip_layout_in_metadata(part));
}

kiln_status clip_config_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                             const clip_part *part, text_config *t)
{
    text_config seen = {0};
    TRY(read_shapes(host, ctx, view, &seen));
    config c = clip_layout_config(host, ctx, set, part);
    config_expect(&c, expected, COUNT(expected));
    *t = (text_config){
        .vocabulary = config_int(&c, "vocab_size", seen.vocabulary, 2, 1 << 20),
        .width = config_int(&c, "hidden_size", seen.width, 1, 1 << 16),
        .inner = config_int(&c, "intermediate_size", seen.inner, 1, 1 << 18),
        .length = config_int(&c, "max_position_embeddings", seen.length, 3, 1 << 14),
        .layers = (int32_t)config_int(&c, "num_hidden_layers", seen.layers, 1, 200),
        .heads = (int32_t)config_int(&c, "num_attention_heads", seen.width / 64, 1, 1024),
        .act = read_act(&c, part->kind),
        .eps = (float)config_number(&c, "layer_norm_eps", 1e-5, 0, 1),
    };
    if (!c.failed && (t->heads < 1 || t->width % t->heads))
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: the width %lld is no multiple of the number of heads, %d", c.path,
                    (long long)t->width, t->heads);
    int has_config = c.root != NULL;
    config_close(&c);
    if (c.failed) return KILN_ERR_INVALID;
    t->cut_layers = cut_layers(part, t, has_config);
    return read_projection(host, ctx, view, part, t);
}
