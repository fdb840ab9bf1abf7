/* controlnet.c - ControlNet as diffusers' ControlNetModel stores it: a copy of the UNet's encoder that sees the hint's
 * embedding beside x, with a 1x1 convolution behind each block.
 *
 *   h = conv_in(x) + embedding(hint)
 *   residual 0: h; then one for each resnet (with attention) and each downsample; the middle's last
 *
 * Residual i belongs to skip i of n, which the UNet's block output.(n-1-i) takes: the first skip is taken last.
 */
#include "control.h"
#include "kiln/checkpoint.h"
#include "kiln/config.h"

#include <stdio.h>
#include <stdlib.h>

enum { RESIDUALS_MAX = 64 };

typedef struct {
    kiln_network network;
    controlnet_config config;
    kiln_input_spec input[2];
    char family[300];
} controlnet;

/* ---- recording ---- */

static kiln_t embed_hint(const controlnet_recorder *r, kiln_t hint)
{
    const controlnet_config *c = r->config;
    char name[80];
    kiln_t h = controlnet_conv(r, "controlnet_cond_embedding.conv_in", hint, c->hint_widths[0], 3, 1);
    for (size_t i = 0; i + 1 < c->n_hint_width; i++)
        for (size_t half = 0; half < 2; half++) { /* the second of a pair halves the picture */
            snprintf(name, sizeof name, "controlnet_cond_embedding.blocks.%zu", 2 * i + half);
            h = r->ops->act(r->p, h, KILN_ACT_SILU);
            h = controlnet_conv(r, name, h, c->hint_widths[i + half], 3, half ? 2 : 1);
        }
    h = r->ops->act(r->p, h, KILN_ACT_SILU);
    return controlnet_conv(r, "controlnet_cond_embedding.conv_out", h, c->channels[0], 3, 1);
}

/* What each residual is made of. */
typedef struct {
    kiln_t at[RESIDUALS_MAX];
    size_t n;
} residuals;

static kiln_t keep(residuals *all, kiln_t h)
{
    if (all->n < RESIDUALS_MAX) all->at[all->n++] = h;
    return h;
}

static kiln_t level_down(const controlnet_recorder *r, kiln_t h, size_t level, residuals *all)
{
    const controlnet_config *c = r->config;
    char name[80];
    for (size_t i = 0; i < c->layers; i++) {
        snprintf(name, sizeof name, "down_blocks.%zu.resnets.%zu", level, i);
        h = controlnet_resnet(r, name, h, c->channels[level]);
        snprintf(name, sizeof name, "down_blocks.%zu.attentions.%zu", level, i);
        if (c->attends[level]) h = controlnet_attention(r, name, h, c->heads[level]);
        keep(all, h);
    }
    if (level + 1 == c->levels) return h;
    snprintf(name, sizeof name, "down_blocks.%zu.downsamplers.0.conv", level);
    return keep(all, controlnet_conv(r, name, h, c->channels[level], 3, 2));
}

static kiln_t middle(const controlnet_recorder *r, kiln_t h)
{
    const controlnet_config *c = r->config;
    int64_t channels = c->channels[c->levels - 1];
    h = controlnet_resnet(r, "mid_block.resnets.0", h, channels);
    h = controlnet_attention(r, "mid_block.attentions.0", h, c->heads[c->levels - 1]);
    return controlnet_resnet(r, "mid_block.resnets.1", h, channels);
}

/* The 1x1 convolution that training began with zeros in, and the place its result is added at. */
static void add_residual(const controlnet_recorder *r, const kiln_outputs *out, const char *name, const char *place,
                         kiln_t h)
{
    out->add(out, place, controlnet_conv(r, name, h, control_dim(r->ops, r->p, h, 3), 1, 1));
}

static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    const controlnet_config *c = &((const controlnet *)n->self)->config;
    controlnet_recorder r = {.config = c, .ops = ops, .p = p, .w = w};
    residuals all = {.n = 0};
    char name[80], place[80];
    control_say_recorded("ControlNet", ops, p, kiln_input(in, n_in, "hint"));
    r.context = kiln_input(in, n_in, "context");
    r.temb = ops->act(p, controlnet_time(&r, kiln_input(in, n_in, "timestep")), KILN_ACT_SILU);
    kiln_t h = controlnet_conv(&r, "conv_in", kiln_input(in, n_in, "x"), c->channels[0], 3, 1);
    h = keep(&all, ops->add(p, h, embed_hint(&r, kiln_input(in, n_in, "hint"))));
    for (size_t level = 0; level < c->levels; level++) h = level_down(&r, h, level, &all);
    h = middle(&r, h);
    for (size_t i = 0; i < all.n; i++) {
        snprintf(name, sizeof name, "controlnet_down_blocks.%zu", i);
        snprintf(place, sizeof place, "output.%zu.skip", all.n - 1 - i);
        add_residual(&r, out, name, place, all.at[i]);
    }
    add_residual(&r, out, "controlnet_mid_block", "middle.2", h);
}

/* ---- opening ---- */

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    static const checkpoint_layout layout = {
        .prefix = "",
        .needs = {"controlnet_cond_embedding.conv_in.weight", "controlnet_mid_block.weight", "conv_in.weight"}};
    return checkpoint_find(w, set, &layout, 1) ? 95 : 0; /* before kiln's own, which says 90 */
}

/* What this file computes in one way only. */
static const config_rule expected[] = {
    {"act_fn", "\"silu\""},
    {"addition_embed_type", "null"},
    {"class_embed_type", "null"},
    {"controlnet_conditioning_channel_order", "\"rgb\""},
    {"flip_sin_to_cos", "true"},
    {"freq_shift", "0"},
    {"global_pool_conditions", "false"},
    {"transformer_layers_per_block", "1"},
    {"use_linear_projection", "false"},
};

static void read_levels(config *c, controlnet_config *out)
{
    const json_t *types = config_get(c, "down_block_types");
    int64_t layers = config_int(c, "layers_per_block", 2, 1, 6);
    out->levels = config_ints(c, "block_out_channels", 0, 1, 1 << 16, 0, out->channels, CONTROL_LEVELS_MAX);
    config_ints(c, "attention_head_dim", 8, 1, 1024, out->levels, out->heads, CONTROL_LEVELS_MAX);
    out->layers = (size_t)layers;
    if (json_array_size(types) != out->levels || out->levels == 0)
        CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: 'down_block_types' and 'block_out_channels' need an entry for each level",
                    c->path);
    for (size_t i = 0; i < out->levels; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        out->attends[i] = type && strcmp(type, "CrossAttnDownBlock2D") == 0;
    }
}

static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, controlnet_config *out)
{
    config c = config_open(host, ctx, set, "config.json");
    if (!c.root)
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "a ControlNet needs the config.json beside its weights; give its folder");
    config_expect(&c, expected, COUNT(expected));
    read_levels(&c, out);
    out->in_channels = config_int(&c, "in_channels", 4, 1, 64);
    out->hint_channels = config_int(&c, "conditioning_channels", 3, 1, 64);
    out->context = config_int(&c, "cross_attention_dim", 768, 1, 1 << 16);
    out->groups = config_int(&c, "norm_num_groups", 32, 1, 1024);
    out->eps = (float)config_number(&c, "norm_eps", 1e-5, 0, 1);
    out->n_hint_width =
        config_ints(&c, "conditioning_embedding_out_channels", 0, 1, 1 << 12, 0, out->hint_widths, CONTROL_LEVELS_MAX);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

/* Everything that decides what is recorded, apart from weights and shapes: programs are kept under it. */
static void name_family(controlnet *self)
{
    const controlnet_config *c = &self->config;
    int at = snprintf(self->family, sizeof self->family, "example-controlnet/%lld.%lld.%zu.%g", (long long)c->context,
                      (long long)c->groups, c->layers, (double)c->eps);
    for (size_t i = 0; i < c->levels && at < (int)sizeof self->family; i++)
        at += snprintf(self->family + at, sizeof self->family - (size_t)at, "/%lld.%lld.%d", (long long)c->channels[i],
                       (long long)c->heads[i], c->attends[i]);
    for (size_t i = 0; i < c->n_hint_width && at < (int)sizeof self->family; i++)
        at += snprintf(self->family + at, sizeof self->family - (size_t)at, "-%lld", (long long)c->hint_widths[i]);
}

static void fill(controlnet *self)
{
    self->input[0] = (kiln_input_spec){.size = sizeof self->input[0],
                                       .kind = KILN_INPUT_IMAGE,
                                       .name = "hint",
                                       .doc = "the picture that the result shall follow",
                                       .width = self->config.hint_channels};
    self->input[1] = (kiln_input_spec){.size = sizeof self->input[1],
                                       .kind = KILN_INPUT_TOKENS,
                                       .name = "context",
                                       .key = "tokens",
                                       .doc = "what cross-attention attends to",
                                       .width = self->config.context};
    name_family(self);
    self->network = (kiln_network){.size = sizeof self->network,
                                   .family = self->family,
                                   .self = self,
                                   KILN_ARRAY(input, self->input),
                                   .record = record};
}

static kiln_value *open_controlnet(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    controlnet *self = calloc(1, sizeof *self);
    kiln_value *value = NULL;
    if (self && read_config(host, ctx, set, &self->config) == KILN_OK) {
        fill(self);
        kiln_net net = {.size = sizeof net, .network = &self->network, .weights = set, .owned = self, .release = free};
        value = models->net_new(ctx, "CONTROL_NET", &net);
    }
    if (!value) free(self);
    return value;
}

const kiln_model_family controlnet_family = {.size = sizeof controlnet_family,
                                             .kind = KILN_FAMILY_CONTROL,
                                             .name = "example-controlnet",
                                             .doc = "ControlNet for UNets of SD1's kind",
                                             .detect = detect,
                                             .open = open_controlnet};
