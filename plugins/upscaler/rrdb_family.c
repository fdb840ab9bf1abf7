/* rrdb_family.c - see rrdb_family.h.
 *
 *   picture, unshuffled -> conv_first -> blocks -> conv_body, + conv_first -> (twice as large, conv_up) ... -> conv_hr
 *   -> conv_last
 *
 * A block is three dense blocks of five convolutions, each of which sees all before it. Real-ESRGAN's x2 and x1 are the
 * x4 network on pixels that were unshuffled by 2 and 4. All sizes are read off the tensors. A block is a stage, and so
 * is each enlargement but the last, which goes with what follows.
 */
#include "rrdb_family.h"

#include "kiln/kit.h"
#include "rrdb_names.h"
#include "upscale_reader.h"

#include <stdio.h>

/* SHUFFLED: what sizes are multiples of where pixels are unshuffled, by 2 as by 4, as ComfyUI pads them */
enum { RDBS = 3, CONVS = 5, SHUFFLED = 4 };

typedef struct {
    int64_t width, growth, in, out, shuffle;
    uint32_t blocks, ups;
    int plus; /* ESRGAN+ (Rakotonirina and Rasoanaivo 2020): a 1x1 convolution beside the second, a sum at the fourth */
} rrdb_config;

/* ---- recording ---- */

static kiln_t conv(const upscale_recorder *r, const char *name, kiln_t x, int64_t out)
{
    return upscale_conv(r, name, x, out, 3);
}

static kiln_t leaky_conv(const upscale_recorder *r, const char *name, kiln_t x, int64_t out)
{
    return upscale_leaky(r, conv(r, name, x, out), 0.2f);
}

/* x + a fifth of h */
static kiln_t add_fifth(const upscale_recorder *r, kiln_t h, kiln_t x)
{
    return r->ops->add(r->p, r->ops->affine(r->p, h, 0.2f, 0), x);
}

static kiln_t dense_block(const upscale_recorder *r, const rrdb_config *c, const char *block, kiln_t x)
{
    char name[80];
    kiln_t part[CONVS] = {x};
    for (uint32_t k = 1; k < CONVS; k++) {
        snprintf(name, sizeof name, "%.60s.conv%u", block, k);
        kiln_t all = k == 1 ? x : r->ops->concat(r->p, part, k, 3);
        part[k] = leaky_conv(r, name, all, c->growth);
        snprintf(name, sizeof name, "%.60s.conv1x1", block);
        if (c->plus && k == 2) part[k] = r->ops->add(r->p, part[k], upscale_conv(r, name, x, c->growth, 1));
        if (c->plus && k == 4) part[k] = r->ops->add(r->p, part[k], part[2]);
    }
    snprintf(name, sizeof name, "%.60s.conv%d", block, CONVS);
    return add_fifth(r, conv(r, name, r->ops->concat(r->p, part, CONVS, 3), c->width), x);
}

static kiln_t block(const upscale_recorder *r, const rrdb_config *c, uint32_t number, kiln_t x)
{
    char name[60];
    kiln_t h = x;
    for (uint32_t k = 1; k <= RDBS; k++) {
        snprintf(name, sizeof name, "body.%u.rdb%u", number, k);
        h = dense_block(r, c, name, h);
    }
    return add_fifth(r, h, x);
}

static kiln_t enlarge(const upscale_recorder *r, const rrdb_config *c, uint32_t number, kiln_t x)
{
    char name[40];
    snprintf(name, sizeof name, "conv_up%u", number);
    return leaky_conv(r, name, upscale_nearest(r, x, 2), c->width);
}

static kiln_t record_rrdb(const upscale_network *own, const upscale_recorder *r, uint32_t stage,
                          const kiln_t taken[UPSCALE_TAKES])
{
    const rrdb_config *c = own->config;
    uint32_t body = c->blocks + 1; /* the number of the stage that ends the body */
    kiln_t x = taken[0];
    if (stage == 0) return conv(r, "conv_first", c->shuffle > 1 ? upscale_unshuffle(r, x, c->shuffle) : x, c->width);
    if (stage < body) return block(r, c, stage - 1, x);
    if (stage == body) return r->ops->add(r->p, conv(r, "conv_body", x, c->width), taken[1]);
    if (stage < own->n_stage - 1) return enlarge(r, c, stage - body, x);
    if (c->ups) x = enlarge(r, c, c->ups, x);
    return conv(r, "conv_last", leaky_conv(r, "conv_hr", x, c->width), c->out);
}

/* A unit is a row of the body, or as many as `multiple` pixels are. */
static void fill_stages(upscale_network *own, const rrdb_config *c)
{
    uint32_t body = c->blocks + 1;
    int64_t rows = own->multiple / c->shuffle;
    for (uint32_t i = 0; i < own->n_stage; i++) {
        upscale_stage *s = &own->stage[i];
        *s = (upscale_stage){.takes = {(int32_t)i - 1},
                             .n_takes = 1,
                             .halo = 1,
                             .rows = i > body ? rows << (i - body) : rows,
                             .channels = c->width};
        if (i > 0 && i < body) s->halo = (RDBS * CONVS + rows - 1) / rows;
        if (i == body) s->takes[1] = 0, s->n_takes = 2;
        if (i == own->n_stage - 1) s->rows = rows << c->ups, s->channels = c->out, s->halo = c->ups > 1 ? 1 : 3;
    }
}

/* ---- which files ---- */

#define LAYOUTS(prefix_)                                                                                               \
    {.prefix = prefix_,                                                                                                \
     .needs = {"conv_first.weight", "body.0.rdb1.conv1.weight", "conv_last.weight"},                                   \
     .kind = RRDB_NEW},                                                                                                \
        {.prefix = prefix_,                                                                                            \
         .needs = {"conv_first.weight", "RRDB_trunk.0.RDB1.conv1.weight", "conv_last.weight"},                         \
         .kind = RRDB_TRUNK},                                                                                          \
    {                                                                                                                  \
        .prefix = prefix_, .needs = {"model.0.weight", "model.1.sub.0.RDB1.conv1.0.weight"}, .kind = RRDB_OLD          \
    }

static const checkpoint_layout layouts[] = {
    LAYOUTS(""),        LAYOUTS("params_ema."),        LAYOUTS("params."),
    LAYOUTS("module."), LAYOUTS("params_ema.module."), LAYOUTS("params.module."),
    LAYOUTS("netG.")};

static int detect_rrdb(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 90 : 0;
}

/* ---- what the tensors show ---- */

static void count_layers(const upscale_reader *r, rrdb_config *c)
{
    char name[40];
    for (uint32_t i = 0; i < RRDB_BLOCKS_MAX; i++) {
        snprintf(name, sizeof name, "body.%u.rdb1.conv1.weight", i);
        if (upscale_dim_of(r, name, 0)) c->blocks = i + 1; /* one in between that is missing is found to be missing */
    }
    for (uint32_t i = 1; i <= RRDB_UPS_MAX; i++) {
        snprintf(name, sizeof name, "conv_up%u.weight", i);
        if (upscale_dim_of(r, name, 0)) c->ups = i;
    }
}

static kiln_status read_config(const upscale_reader *r, rrdb_config *c)
{
    count_layers(r, c);
    c->width = upscale_dim_of(r, "conv_first.weight", 0), c->in = upscale_dim_of(r, "conv_first.weight", 1);
    c->growth = upscale_dim_of(r, "body.0.rdb1.conv1.weight", 0), c->out = upscale_dim_of(r, "conv_last.weight", 0);
    c->plus = upscale_dim_of(r, "body.0.rdb1.conv1x1.weight", 0) > 0;
    c->shuffle = c->in == 16 * c->out ? 4 : c->in == 4 * c->out ? 2 : 1;
    c->in /= c->shuffle * c->shuffle;
    TRY(upscale_check_widths(r, c->in, c->width));
    TRY(upscale_check_widths(r, c->out, c->growth));
    if ((INT64_C(1) << c->ups) < c->shuffle)
        UPSCALE_REFUSE(r, "its pixels are unshuffled by %lld and enlarged by %d, so it would make pictures smaller",
                       (long long)c->shuffle, 1 << c->ups);
    return KILN_OK;
}

static kiln_value *make_rrdb(const upscale_reader *r)
{
    rrdb_config c = {0};
    if (read_config(r, &c) != KILN_OK) return NULL;
    upscale_network *own = upscale_made(r, c.blocks + 2 + (c.ups > 1 ? c.ups : 1), &c, sizeof c);
    if (!own) return NULL;
    own->channels = c.in, own->out_channels = c.out, own->multiple = c.shuffle > 1 ? SHUFFLED : 1;
    own->scale = (INT64_C(1) << c.ups) / c.shuffle;
    own->record_stage = record_rrdb;
    fill_stages(own, &c);
    snprintf(own->architecture, sizeof own->architecture, "%s x%lld, %u blocks of %lld channels%s",
             c.plus ? "ESRGAN+" : "ESRGAN", (long long)own->scale, c.blocks, (long long)c.width,
             c.shuffle > 1 ? ", unshuffled" : "");
    snprintf(own->family, sizeof own->family, "rrdb/%lld.%lld.%lld.%lld.%lld.%u.%u.%d", (long long)c.width,
             (long long)c.growth, (long long)c.in, (long long)c.out, (long long)c.shuffle, c.blocks, c.ups, c.plus);
    return upscale_value(own, r->ctx, r->view);
}

static kiln_weights *view_rrdb(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at)
{
    return rrdb_view(host->ability(KILN_WEIGHTS_ABILITY), ctx, set, at->prefix, (rrdb_names)at->kind);
}

static kiln_value *open_upscaler(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    return upscale_open(host, ctx, set, &(upscale_files){layouts, COUNT(layouts), view_rrdb, make_rrdb});
}

const kiln_model_family rrdb_family = {.size = sizeof rrdb_family,
                                       .kind = KILN_FAMILY_UPSCALER,
                                       .name = "rrdb",
                                       .doc = "ESRGAN, BSRGAN, Real-ESRGAN: residual-in-residual dense blocks",
                                       .detect = detect_rrdb,
                                       .open = open_upscaler};
