/* span_family.c - see span_family.h.
 *
 *   f = conv_1(picture), its mean taken off and times 255
 *   block: a = silu(c1(x)), o = c3(silu(c2(a))); (o + x) (sigmoid(o) - 1/2)
 *   conv_cat(f, conv_2(last block), first block, the last block's a) -> convolution -> pixel shuffle
 *
 * A file that has no_norm takes the picture as it is. It is one stage.
 */
#include "span_family.h"

#include "kiln/kit.h"
#include "span_weights.h"
#include "upscale_reader.h"

#include <stdio.h>

enum { BLOCKS_MAX = 100, NORMED = 3 };

typedef struct {
    int64_t width, in, out, scale;
    uint32_t blocks;
    int norm;
} span_config;

static const float mean[NORMED] = {-0.4488f, -0.4371f, -0.4040f}; /* of the pictures it was trained with, to be added */

static kiln_t conv(const upscale_recorder *r, const char *name, kiln_t x, int64_t width)
{
    char full[80];
    snprintf(full, sizeof full, "%.60s.eval_conv", name);
    return upscale_conv(r, full, x, width, 3);
}

/* *middle = a */
static kiln_t block(const upscale_recorder *r, const span_config *c, uint32_t number, kiln_t x, kiln_t *middle)
{
    char name[40];
    const kiln_ops *o = r->ops;
    snprintf(name, sizeof name, "block_%u.c1_r", number);
    *middle = o->act(r->p, conv(r, name, x, c->width), KILN_ACT_SILU);
    snprintf(name, sizeof name, "block_%u.c2_r", number);
    kiln_t h = o->act(r->p, conv(r, name, *middle, c->width), KILN_ACT_SILU);
    snprintf(name, sizeof name, "block_%u.c3_r", number);
    h = conv(r, name, h, c->width);
    kiln_t attention = o->affine(r->p, o->act(r->p, h, KILN_ACT_SIGMOID), 1, -0.5f);
    return o->mul(r->p, o->add(r->p, h, x), attention);
}

static kiln_t record_span(const upscale_network *own, const upscale_recorder *r, uint32_t stage,
                          const kiln_t taken[UPSCALE_TAKES])
{
    const span_config *c = own->config;
    const kiln_ops *o = r->ops;
    kiln_t x = taken[0], middle = {0}, first = {0};
    (void)stage;
    if (c->norm) x = o->affine(r->p, o->add(r->p, x, o->constant(r->p, mean, 1, KILN_DIMS(NORMED))), 255, 0);
    kiln_t features = x = conv(r, "conv_1", x, c->width);
    for (uint32_t i = 1; i <= c->blocks; i++) {
        x = block(r, c, i, x, &middle);
        if (i == 1) first = x;
    }
    x = conv(r, "conv_2", x, c->width);
    x = o->concat(r->p, (kiln_t[]){features, x, first, middle}, 4, 3);
    x = upscale_conv(r, "conv_cat", x, c->width, 1);
    return upscale_shuffle(r, upscale_conv(r, "upsampler.0", x, c->out * c->scale * c->scale, 3), c->scale);
}

#define LAYOUT(prefix_)                                                                                                \
    {                                                                                                                  \
        .prefix = prefix_, .needs = {                                                                                  \
            "conv_1.eval_conv.weight",                                                                                 \
            "block_1.c1_r.eval_conv.weight",                                                                           \
            "conv_cat.weight",                                                                                         \
            "upsampler.0.weight"                                                                                       \
        }                                                                                                              \
    }
static const checkpoint_layout layouts[] = {LAYOUT(""), LAYOUT("params_ema."), LAYOUT("params."), LAYOUT("module."),
                                            LAYOUT("netG.")};

static int detect_span(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 90 : 0;
}

/* It is there or not; no network asks for its number. */
static int has_no_norm(const upscale_reader *r)
{
    kiln_weight_info info;
    if (!checkpoint_has(r->w, r->view, "", &info, "no_norm")) return 0;
    if (info.dtype) (void)r->w->map(r->ctx, r->view, "no_norm"); /* so it is not one that nobody wants */
    return 1;
}

static kiln_status read_config(const upscale_reader *r, span_config *c)
{
    char name[60];
    for (uint32_t i = 1; i <= BLOCKS_MAX; i++) {
        snprintf(name, sizeof name, "block_%u.c1_r.eval_conv.weight", i);
        if (upscale_dim_of(r, name, 0)) c->blocks = i;
    }
    c->width = upscale_dim_of(r, "conv_1.eval_conv.weight", 0), c->in = upscale_dim_of(r, "conv_1.eval_conv.weight", 1);
    c->norm = !has_no_norm(r);
    TRY(upscale_check_widths(r, c->in, c->width));
    if (c->norm && c->in != NORMED)
        UPSCALE_REFUSE(r, "it takes pictures of %lld channels, and a mean is known for %d", (long long)c->in, NORMED);
    return upscale_read_shuffle(r, upscale_dim_of(r, "upsampler.0.weight", 0), c->in, &c->scale, &c->out);
}

static kiln_value *make_span(const upscale_reader *r)
{
    span_config c = {0};
    if (read_config(r, &c) != KILN_OK) return NULL;
    upscale_network *own = upscale_made(r, 1, &c, sizeof c);
    if (!own) return NULL;
    own->channels = c.in, own->out_channels = c.out, own->scale = c.scale;
    own->record_stage = record_span;
    own->stage[0] = (upscale_stage){.takes = {UPSCALE_IMAGE},
                                    .n_takes = 1,
                                    .halo = 3 * (int64_t)c.blocks + 3, /* conv_1, conv_2 and the upsampler's too */
                                    .rows = c.scale,
                                    .channels = c.out};
    snprintf(own->architecture, sizeof own->architecture, "SPAN x%lld, %u blocks of %lld channels", (long long)c.scale,
             c.blocks, (long long)c.width);
    snprintf(own->family, sizeof own->family, "span/%lld.%lld.%lld.%lld.%u.%d", (long long)c.width, (long long)c.in,
             (long long)c.out, (long long)c.scale, c.blocks, c.norm);
    return upscale_value(own, r->ctx, r->view);
}

/* Without the tensors that are folded into others, which no network asks for, and with what they make. */
static kiln_weights *view_span(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    static const char *const kept[] = {"{}.eval_conv.{}", "{}.{}.eval_conv.{}", "conv_cat.*", "upsampler.*", "no_norm"};
    char from[64];
    snprintf(from, sizeof from, "%.60s*", at->prefix);
    const kiln_weight_rule all = KILN_RULE(.from = from, .to = "*");
    kiln_weight_rule only[COUNT(kept)];
    for (size_t i = 0; i < COUNT(kept); i++) only[i] = (kiln_weight_rule)KILN_RULE(.from = kept[i], .to = kept[i]);
    kiln_weights *plain = w->view(ctx, set, &all, 1), *folded = plain ? span_folded(host, ctx, plain) : NULL,
                 *out = folded ? w->view(ctx, folded, only, COUNT(only)) : NULL;
    w->unref(plain);
    w->unref(folded);
    return out;
}

static kiln_value *open_upscaler(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    return upscale_open(host, ctx, set, &(upscale_files){layouts, COUNT(layouts), view_span, make_span});
}

const kiln_model_family span_family = {.size = sizeof span_family,
                                       .kind = KILN_FAMILY_UPSCALER,
                                       .name = "span",
                                       .doc = "SPAN, swift parameter-free attention",
                                       .detect = detect_span,
                                       .open = open_upscaler};
