/* clip_layout.c - see clip_layout.h. */
#include "clip_layout.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"

#include <stdio.h>

/* ---- where encoders lie ---- */

enum { FOLDER_1, FOLDER_2, LDM_CLIP, LDM_OPEN_CLIP, SGM_CLIP, SGM_OPEN_CLIP, SGM_ONLY, ALONE, PLACES };

/* What a single file of an encoder that was not released has in its metadata. */
#define METADATA "__metadata__/"
#define IN_METADATA(folder) METADATA folder "config.json", METADATA folder

static const struct {
    const char *prefix, *config, *tokenizer;
    int open_clip; /* 1: names are open_clip's, 0: transformers', -1: either */
} places[PLACES] = {
    [FOLDER_1] = {"text_encoder/", "text_encoder/config.json", "tokenizer/", 0},
    [FOLDER_2] = {"text_encoder_2/", "text_encoder_2/config.json", "tokenizer_2/", 0},
    [LDM_CLIP] = {"cond_stage_model.transformer.", IN_METADATA("clip_l/"), 0},
    [LDM_OPEN_CLIP] = {"cond_stage_model.model.", IN_METADATA("clip_h/"), 1},
    [SGM_CLIP] = {"conditioner.embedders.0.transformer.", IN_METADATA("clip_l/"), 0},
    [SGM_OPEN_CLIP] = {"conditioner.embedders.1.model.", IN_METADATA("clip_g/"), 1},
    [SGM_ONLY] = {"conditioner.embedders.0.model.", IN_METADATA("clip_g/"), 1},
    [ALONE] = {"", "config.json", "", -1},
};

static const char *const tables[] = {
    [NAMES_TRANSFORMERS] = "text_model.embeddings.token_embedding.weight",
    [NAMES_BARE] = "embeddings.token_embedding.weight",
    [NAMES_OPEN_CLIP] = "token_embedding.weight",
};

/* 1: there is an encoder at the place; *part says where and with which names, not yet of what kind. */
static int look(const kiln_weights_api *w, const kiln_weights *set, int place, clip_part *part)
{
    kiln_weight_info info;
    *part = (clip_part){
        .prefix = places[place].prefix, .config = places[place].config, .tokenizer = places[place].tokenizer};
    if (place == ALONE && w->text(set, METADATA "config.json", NULL))
        part->config = METADATA "config.json", part->tokenizer = METADATA;
    for (int names = NAMES_TRANSFORMERS; names <= NAMES_OPEN_CLIP; names++) {
        if (places[place].open_clip >= 0 && places[place].open_clip != (names == NAMES_OPEN_CLIP)) continue;
        part->names = (clip_names)names;
        if (!checkpoint_has(w, set, part->prefix, &info, "%s", tables[names])) continue;
        if (names != NAMES_OPEN_CLIP ||
            checkpoint_has(w, set, part->prefix, &info, "transformer.resblocks.0.ln_1.weight"))
            return 1;
    }
    return 0;
}

int clip_layout_any(const kiln_weights_api *w, const kiln_weights *set)
{
    clip_part part;
    for (int i = 0; i < PLACES; i++)
        if (look(w, set, i, &part)) return 1;
    return 0;
}

/* ---- of what kind one is ---- */

enum { WIDTH_H = 1024, WIDTH_G = 1280 };

int clip_layout_in_metadata(const clip_part *part)
{
    return part->config && strncmp(part->config, METADATA, sizeof METADATA - 1) == 0;
}

config clip_layout_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part)
{
    config c = {.host = host, .ctx = ctx, .path = "the checkpoint"};
    if (part->config) c = config_open(host, ctx, set, part->config);
    if (!c.root && !c.failed && clip_layout_in_metadata(part)) c.path = "the checkpoint";
    json_t *text = json_object_get(c.root, "text_config");
    if (!json_is_object(text)) return c;
    json_incref(text);
    json_decref(c.root);
    c.root = text;
    return c;
}

static kiln_status read_act(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part,
                            char act[20])
{
    config c = clip_layout_config(host, ctx, set, part);
    snprintf(act, 20, "%s", c.root ? config_text(&c, "hidden_act", "quick_gelu") : "");
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

/* An encoder that its place says nothing of. CLIP L has another activation than OpenCLIP's two, and of these G comes
 * with its projection; the released ones are known by their widths. */
static kiln_status find_kind(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, clip_part *part)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info table, info;
    char act[20];
    TRY(read_act(host, ctx, set, part, act));
    int found = checkpoint_has(w, set, part->prefix, &table, "%s", tables[part->names]);
    int64_t width = found && table.rank == 2 ? table.dim[1] : 0;
    int projected = checkpoint_has(w, set, part->prefix, &info, "text_projection.weight") ||
                    checkpoint_has(w, set, part->prefix, &info, "text_projection");
    int gelu = part->names == NAMES_OPEN_CLIP || strcmp(act, "gelu") == 0 ||
               (!act[0] && (width == WIDTH_H || width == WIDTH_G));
    if (!gelu)
        part->kind = CLIP_L;
    else if (width == WIDTH_H || width == WIDTH_G)
        part->kind = width == WIDTH_H ? CLIP_H : CLIP_G;
    else
        part->kind = projected ? CLIP_G : CLIP_H;
    return KILN_OK;
}

/* ---- the encoders of a checkpoint ---- */

/* Fails when model_index.json names an encoder that was not found: its file is missing, or it is of another kind. */
static kiln_status check_index(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const int has[3])
{
    static const char *const names[] = {"text_encoder", "text_encoder_2", "text_encoder_3"};
    config c = config_open(host, ctx, set, "model_index.json");
    for (int i = 0; i < 3 && !c.failed; i++) {
        const json_t *entry = has[i] ? NULL : config_get(&c, names[i]);
        const char *class = json_string_value(json_array_get(entry, 1));
        if (class && strncmp(class, "CLIPText", 8) == 0)
            CONFIG_FAIL(&c, KILN_ERR_INVALID,
                        "model_index.json names %s (%.60s), and the folder has no tensors of it; add "
                        "%s/model.safetensors",
                        names[i], class, names[i]);
        else if (class)
            CONFIG_FAIL(&c, KILN_ERR_UNSUPPORTED,
                        "model_index.json names %s, a %.60s; of text encoders kiln reads CLIP L, OpenCLIP H and bigG",
                        names[i], class);
    }
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static kiln_status find_in_folder(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set,
                                  clip_part part[CLIP_PARTS], size_t *n)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    int has[3] = {0};
    *n = 0;
    if ((has[0] = look(w, set, FOLDER_1, &part[*n]))) part[(*n)++].kind = CLIP_L;
    if ((has[1] = look(w, set, FOLDER_2, &part[*n]))) part[(*n)++].kind = CLIP_G;
    if (!*n) return KILN_OK;
    TRY(check_index(host, ctx, set, has));
    return has[1] ? KILN_OK : find_kind(host, ctx, set, &part[0]);
}

/* SDXL's two in a single file. */
static kiln_status find_pair(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, clip_part part[CLIP_PARTS],
                             size_t *n)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    int l = look(w, set, SGM_CLIP, &part[0]), g = look(w, set, SGM_OPEN_CLIP, &part[1]);
    part[0].kind = CLIP_L, part[1].kind = CLIP_G;
    *n = l && g ? 2 : 0;
    if (l == g) return KILN_OK;
    return host->fail(
        ctx, KILN_ERR_INVALID,
        "of SDXL's two text encoders the checkpoint has %s (%s*) alone, %s (%s*) is missing; take a whole "
        "checkpoint, or load the two from files of their own with DualCLIPLoader",
        l ? "CLIP L" : "OpenCLIP bigG", places[l ? SGM_CLIP : SGM_OPEN_CLIP].prefix, l ? "OpenCLIP bigG" : "CLIP L",
        places[l ? SGM_OPEN_CLIP : SGM_CLIP].prefix);
}

static kiln_status find_single(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, clip_part *part,
                               size_t *n)
{
    static const int order[] = {LDM_CLIP, LDM_OPEN_CLIP, SGM_ONLY, ALONE};
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    for (size_t i = 0; i < COUNT(order); i++) {
        if (!look(w, set, order[i], part)) continue;
        *n = 1;
        if (order[i] == LDM_CLIP || order[i] == LDM_OPEN_CLIP) {
            part->kind = order[i] == LDM_CLIP ? CLIP_L : CLIP_H;
            return KILN_OK;
        }
        return find_kind(host, ctx, set, part);
    }
    return host->fail(ctx, KILN_ERR_UNSUPPORTED, "the checkpoint has no text encoder of CLIP's kind");
}

kiln_status clip_layout_find(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, clip_part part[CLIP_PARTS],
                             size_t *n)
{
    TRY(find_in_folder(host, ctx, set, part, n));
    if (!*n) TRY(find_pair(host, ctx, set, part, n));
    return *n ? KILN_OK : find_single(host, ctx, set, part, n);
}

/* ---- other names for the tensors ---- */

typedef struct {
    kiln_weight_rule rule[16];
    char text[16][2][120];
    size_t n;
} rule_list;

static kiln_weight_rule *add_rule(rule_list *l, const char *prefix, const char *from, const char *to)
{
    size_t i = l->n++;
    snprintf(l->text[i][0], sizeof l->text[i][0], "%s%s", prefix, from);
    snprintf(l->text[i][1], sizeof l->text[i][1], "%s", to);
    l->rule[i] = (kiln_weight_rule)KILN_RULE(.from = l->text[i][0], .to = l->text[i][1]);
    return &l->rule[i];
}

/* transformers has it [out,in]; open_clip keeps a matrix [in,out] and calls it nobody's weight. */
static void add_projection(rule_list *l, const char *prefix)
{
    add_rule(l, prefix, "text_projection.weight", "text_projection.weight");
    add_rule(l, prefix, "text_projection", "text_projection.weight")->transpose = 1;
}

#define OPEN_CLIP_LAYER "transformer.resblocks.{}."
#define LAYER "text_model.encoder.layers.{}."

static void add_open_clip(rule_list *l, const char *prefix, int64_t width)
{
    static const char *const fused[] = {"q", "k", "v"};
    static const char *const pairs[][2] = {
        {"token_embedding.weight", "text_model.embeddings.token_embedding.weight"},
        {"positional_embedding", "text_model.embeddings.position_embedding.weight"},
        {"ln_final.{}", "text_model.final_layer_norm.{}"},
        {OPEN_CLIP_LAYER "attn.out_proj.{}", LAYER "self_attn.out_proj.{}"},
        {OPEN_CLIP_LAYER "mlp.c_fc.{}", LAYER "mlp.fc1.{}"},
        {OPEN_CLIP_LAYER "mlp.c_proj.{}", LAYER "mlp.fc2.{}"},
        {OPEN_CLIP_LAYER "ln_1.{}", LAYER "layer_norm1.{}"},
        {OPEN_CLIP_LAYER "ln_2.{}", LAYER "layer_norm2.{}"},
    };
    for (size_t i = 0; i < COUNT(pairs); i++) add_rule(l, prefix, pairs[i][0], pairs[i][1]);
    for (size_t i = 0; i < COUNT(fused); i++) {
        char to[80];
        snprintf(to, sizeof to, LAYER "self_attn.%s_proj.{}", fused[i]);
        kiln_weight_rule *r = add_rule(l, prefix, OPEN_CLIP_LAYER "attn.in_proj_{}", to);
        r->row = (int64_t)i * width, r->rows = width, r->more = i + 1 < COUNT(fused);
    }
    add_projection(l, prefix);
}

/* A fused q, k, v is cut at thirds; what is no three times as wide as the encoder would be cut elsewhere. */
static kiln_status check_fused(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part,
                               int64_t width)
{
    static const char *const ends[] = {"weight", "bias"};
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info;
    for (int i = 0; i < 200; i++)
        for (size_t k = 0; k < COUNT(ends); k++) {
            if (!checkpoint_has(w, set, part->prefix, &info, "transformer.resblocks.%d.attn.in_proj_%s", i, ends[k]))
                continue;
            if (info.dim[0] != 3 * width)
                return host->fail(ctx, KILN_ERR_INVALID,
                                  "tensor '%s' has %lld rows; q, k and v of a text encoder of width %lld have %lld",
                                  info.name, (long long)info.dim[0], (long long)width, (long long)(3 * width));
        }
    return KILN_OK;
}

kiln_weights *clip_layout_view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const clip_part *part)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info table;
    rule_list l = {.n = 0};
    if (part->names == NAMES_OPEN_CLIP) {
        if (!checkpoint_has(w, set, part->prefix, &table, "%s", tables[part->names]) || table.rank != 2) {
            host->fail(ctx, KILN_ERR_INVALID, "tensor '%s%s' is no table of two dimensions", part->prefix,
                       tables[part->names]);
            return NULL;
        }
        if (check_fused(host, ctx, set, part, table.dim[1]) != KILN_OK) return NULL;
        add_open_clip(&l, part->prefix, table.dim[1]);
    } else {
        if (part->kind != CLIP_L) add_projection(&l, part->prefix); /* CLIP L's pooled is not projected */
        add_rule(&l, part->prefix, part->names == NAMES_BARE ? "*" : "text_model.*", "text_model.*");
    }
    return w->view(ctx, set, l.rule, l.n);
}

int32_t clip_layout_layers(const kiln_weights_api *w, const kiln_weights *view)
{
    kiln_weight_info info;
    int32_t n = 0;
    while (n < 200 && checkpoint_has(w, view, "", &info, "text_model.encoder.layers.%d.layer_norm1.weight", n)) n++;
    return n;
}
