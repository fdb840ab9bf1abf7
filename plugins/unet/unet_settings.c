/* unet_settings.c - see unet_settings.h. A table lists entries that would change the computation but have only one
 * implemented value: each must be absent or have that value. Entries that the tensors show as well must agree. */
#include "unet_settings.h"

#include "kiln/checkpoint.h"
#include "kiln/config.h"
#include "kiln/kit.h"
#include "unet_shapes.h"

#include <stdio.h>
#include <string.h>

static const config_rule expected[] = {
    {"act_fn", "\"silu\""},
    {"attention_type", "\"default\""},
    {"center_input_sample", "false"},
    {"class_embeddings_concat", "false"},
    {"conv_in_kernel", "3"},
    {"conv_out_kernel", "3"},
    {"cross_attention_norm", "null"},
    {"downsample_padding", "1"},
    {"dual_cross_attention", "false"},
    {"encoder_hid_dim", "null"},
    {"encoder_hid_dim_type", "null"},
    {"mid_block_only_cross_attention", "false"},
    {"mid_block_scale_factor", "1"},
    {"resnet_out_scale_factor", "1"},
    {"resnet_skip_time_act", "false"},
    {"resnet_time_scale_shift", "\"default\""},
    {"time_embedding_act_fn", "null"},
    {"time_embedding_dim", "null"},
    {"time_embedding_type", "\"positional\""},
    {"timestep_post_act", "null"},
};

enum { SINUSOID = 256, HEAD = 64 }; /* what SDXL has for each number; a head's width in SD2 and SDXL */

/* ---- entries that the tensors show too ---- */

static void agree(config *c, const char *key, int64_t said, int64_t seen)
{
    if (said != seen)
        CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' says %lld, and the weights have %lld", c->path, key, (long long)said,
                    (long long)seen);
}

static void check_number(config *c, const char *key, int64_t seen)
{
    agree(c, key, config_int(c, key, seen, 0, 1 << 24), seen);
}

/* A list's item, or the value itself where one stands for all. */
static const json_t *item_of(const json_t *v, size_t i) { return json_is_array(v) ? json_array_get(v, i) : v; }

static void check_widths(config *c, const unet_config *u)
{
    int64_t width[UNET_LEVELS_MAX], layers[UNET_LEVELS_MAX];
    size_t n = config_ints(c, "block_out_channels", 0, 1, 1 << 16, 0, width, UNET_LEVELS_MAX);
    if (config_get(c, "block_out_channels")) agree(c, "block_out_channels", (int64_t)n, u->levels);
    for (size_t i = 0; i < n && i < u->levels; i++) agree(c, "block_out_channels", width[i], u->channels[i]);
    n = config_get(c, "layers_per_block")
            ? config_ints(c, "layers_per_block", 0, 1, UNET_LAYERS_MAX, u->levels, layers, UNET_LEVELS_MAX)
            : 0;
    for (size_t i = 0; i < n; i++) agree(c, "layers_per_block", layers[i], u->layers[i]);
}

/* Transformer blocks that config.json gives the attentions of a block. */
static void check_depths(config *c, const char *key, const json_t *of_block, const uint32_t *depth, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const json_t *item = item_of(of_block, i);
        if (depth[i] && item) agree(c, key, config_int_of(c, key, item, 0, 64), depth[i]);
    }
}

static void check_all_depths(config *c, const unet_config *u)
{
    static const char down_key[] = "transformer_layers_per_block", up_key[] = "reverse_transformer_layers_per_block";
    const json_t *down = config_get(c, down_key), *up = config_get(c, up_key), *last = item_of(down, u->levels - 1);
    for (uint32_t i = 0; i < u->levels; i++) {
        uint32_t level = u->levels - 1 - i;
        check_depths(c, down_key, item_of(down, i), u->down[i], u->layers[i]);
        check_depths(c, up ? up_key : down_key, up ? item_of(up, i) : item_of(down, level), u->up[i],
                     u->layers[level] + 1);
    }
    if (u->middle == 2) check_depths(c, down_key, item_of(last, 0), &u->middle_depth, 1);
}

/* One list of block types: `attends` is what such a block with attentions is called. */
static void check_types(config *c, const char *key, const char *attends, const char *plain,
                        uint32_t (*depth)[UNET_LAYERS_MAX + 1], uint32_t levels)
{
    const json_t *types = config_get(c, key);
    for (uint32_t i = 0; types && i < levels; i++) {
        const char *type = json_string_value(json_array_get(types, i)), *wanted = depth[i][0] ? attends : plain;
        if (json_array_size(types) == levels && type && strcmp(type, wanted) == 0) continue;
        int known = type && (strcmp(type, attends) == 0 || strcmp(type, plain) == 0);
        if (known)
            CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: entry %u of '%s' is %s, and the weights have those of %s", c->path, i,
                        key, type, wanted);
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: entry %u of '%s' is '%.60s'; %s and %s are supported", c->path, i,
                    key, type ? type : "missing", attends, plain);
    }
}

static void check_middle(config *c, const unet_config *u)
{
    static const char *const types[] = {NULL, "UNetMidBlock2D", "UNetMidBlock2DCrossAttn"};
    const char *type = config_text(c, "mid_block_type", NULL), *wanted = types[u->middle];
    if (!type || (wanted && strcmp(type, wanted) == 0)) return;
    CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: 'mid_block_type' is '%.60s', and the weights have %s", c->path, type,
                wanted ? wanted : "no middle block");
}

/* ---- what is embedded beside the time ---- */

static void check_beside(config *c, const unet_config *u)
{
    const char *addition = config_text(c, "addition_embed_type", NULL),
               *kind = config_text(c, "class_embed_type", NULL);
    int sizes = addition && strcmp(addition, "text_time") == 0, vector = kind && strcmp(kind, "projection") == 0;
    if (addition && !sizes)
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: 'addition_embed_type' is '%.40s'; only text_time is supported",
                    c->path, addition);
    if (kind && !vector)
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: 'class_embed_type' is '%.40s'; only projection is supported", c->path,
                    kind);
    agree(c, "addition_embed_type", sizes, u->beside == UNET_SIZES);
    agree(c, "class_embed_type", vector, u->beside == UNET_VECTOR);
    if (!kind) check_number(c, "num_class_embeds", u->beside == UNET_CLASS ? u->embedded : 0);
    if (sizes || vector) check_number(c, "projection_class_embeddings_input_dim", u->embedded);
    check_number(c, "time_cond_proj_dim", u->guidance);
}

/* How wide the pooled prompt of a single file's second text encoder is, which the size embedding holds first. */
static int64_t second_encoder_width(const kiln_weights_api *w, const kiln_weights *set)
{
    return unet_dim(w, set, "conditioner.embedders.1.model.ln_final.weight", 0);
}

/* Base and refiner: the refiner's tokens and its pooled prompt are of one encoder, so that what is left are the
 * sinusoids of five numbers. */
static void name_numbers(const kiln_weights_api *w, const unet_source *from, int configured, unet_config *u)
{
    static const char *const numbers[][UNET_NUMBERS_MAX] = {
        {"height", "width", "crop_h", "crop_w", "target_height", "target_width"},
        {"height", "width", "crop_h", "crop_w", "aesthetic_score", NULL}};
    int64_t pooled = configured ? 0 : second_encoder_width(w, from->set), left = u->embedded - u->context;
    int refiner = !pooled && left > 0 && left % 5 == 0 && (configured ? left == 5 * u->sinusoid : left / 5 % 2 == 0);
    if (!configured && refiner) u->sinusoid = left / 5;
    if (pooled) u->sinusoid = (u->embedded - pooled) / 6;
    memcpy(u->number, numbers[refiner], sizeof u->number);
    u->n_number = refiner ? 5 : 6;
}

/* ---- heads ---- */

static void read_heads(config *c, unet_config *u)
{
    /* SD1.x's "attention_head_dim" is the number of heads; the later "num_attention_heads" is what it says. */
    const char *key = config_get(c, "num_attention_heads") ? "num_attention_heads" : "attention_head_dim";
    config_ints(c, key, 8, 1, 1024, u->levels, u->heads, UNET_LEVELS_MAX);
}

void unet_guess_heads(unet_config *u)
{
    int eight = (!u->linear && u->context != 1024 && u->beside == UNET_ALONE) || u->beside == UNET_CLASS;
    for (uint32_t i = 0; i < u->levels; i++) u->heads[i] = eight ? 8 : u->channels[i] / HEAD;
}

static int attends(const unet_config *u, uint32_t level)
{
    return u->down[level][0] || u->up[u->levels - 1 - level][0] || (level + 1 == u->levels && u->middle == 2);
}

static void check_division(config *c, const unet_config *u)
{
    for (uint32_t i = 0; i < u->levels; i++) {
        if (u->groups < 1 || u->channels[i] % u->groups)
            CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: level %u has %lld channels, no multiple of its %lld groups", c->path,
                        i, (long long)u->channels[i], (long long)u->groups);
        if (!attends(u, i)) continue;
        if (!c->root && (u->heads[i] < 1 || u->channels[i] % u->heads[i]))
            CONFIG_FAIL(c, KILN_ERR_INVALID,
                        "%s: level %u has %lld channels, which heads as released models have them do not divide; give "
                        "the folder its config.json, or the file's metadata its text as \"unet_config\"",
                        c->path, i, (long long)u->channels[i]);
        if (u->heads[i] < 1 || u->channels[i] % u->heads[i])
            CONFIG_FAIL(c, KILN_ERR_INVALID,
                        "%s: level %u has %lld channels, no multiple of its %lld heads ('attention_head_dim')", c->path,
                        i, (long long)u->channels[i], (long long)u->heads[i]);
    }
    if (u->beside == UNET_SIZES && u->embedded <= u->n_number * u->sinusoid)
        CONFIG_FAIL(c, KILN_ERR_INVALID,
                    "%s: a size embedding of %lld numbers, %lld for each of %u sizes, leaves nothing for the prompt",
                    c->path, (long long)u->embedded, (long long)u->sinusoid, u->n_number);
}

/* ---- the whole ---- */

/* x4's upscaler: true for levels whose first attention sees the context. Where widths are equal only this tells. */
static void read_context_only(config *c, unet_config *u)
{
    const json_t *v = config_get(c, "only_cross_attention");
    for (uint32_t i = 0; v && i < u->levels; i++) {
        const json_t *item = item_of(v, i);
        if (!json_is_boolean(item) || (json_is_array(v) && json_array_size(v) != u->levels)) {
            CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: 'only_cross_attention' must be true or false, or one for each level",
                        c->path);
            return;
        }
        if (u->channels[i] != u->context && u->down[i][0])
            agree(c, "only_cross_attention", json_is_true(item), u->context_only[i]);
        u->context_only[i] = json_is_true(item);
    }
}

static void read_config(config *c, unet_config *u)
{
    config_expect(c, expected, COUNT(expected));
    check_widths(c, u);
    check_types(c, "down_block_types", "CrossAttnDownBlock2D", "DownBlock2D", u->down, u->levels);
    check_types(c, "up_block_types", "CrossAttnUpBlock2D", "UpBlock2D", u->up, u->levels);
    check_middle(c, u);
    check_all_depths(c, u);
    check_number(c, "in_channels", u->in_channels);
    check_number(c, "out_channels", u->out_channels);
    if (u->context) check_number(c, "cross_attention_dim", u->context);
    check_beside(c, u);
    read_context_only(c, u);
    read_heads(c, u);
    u->groups = config_int(c, "norm_num_groups", 32, 1, 1024);
    u->eps = (float)config_number(c, "norm_eps", 1e-5, 0, 1);
    u->cos_first = (uint32_t)config_bool(c, "flip_sin_to_cos", 1);
    u->freq_shift = config_number(c, "freq_shift", 0, 0, 1);
    if (u->beside == UNET_SIZES) u->sinusoid = config_int(c, "addition_time_embed_dim", SINUSOID, 2, 1 << 16);
}

kiln_status unet_settings_read(const kiln_host *host, kiln_ctx *ctx, const unet_source *from, unet_config *out)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    config c = {.host = host, .ctx = ctx, .path = "the checkpoint"};
    out->encoder = from->encoder;
    TRY(unet_shapes_read(host, ctx, from->view, out));
    if (out->beside == UNET_SIZES) out->sinusoid = SINUSOID;
    if (from->path) c = config_open(host, ctx, from->set, from->path);
    /* A single file of another size than those that were released. */
    if (!c.root && !c.failed) c = config_open(host, ctx, from->set, "__metadata__/unet_config");
    if (!c.root && !c.failed) c.path = "the checkpoint";
    if (c.root)
        read_config(&c, out);
    else
        unet_guess_heads(out);
    if (!c.failed && out->beside == UNET_SIZES) name_numbers(w, from, c.root != NULL, out);
    if (!c.failed) check_division(&c, out);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}
