/* controlnet_settings.c - see controlnet_settings.h. */
#include "controlnet_settings.h"

#include "controlnet_union.h"
#include "kiln/checkpoint.h"
#include "kiln/config.h"
#include "kiln/kit.h"
#include "unet_shapes.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const kiln_weights *view;
    controlnet_config *out;
} reader;

#define REFUSE(r, ...) return (r)->host->fail((r)->ctx, KILN_ERR_UNSUPPORTED, "this ControlNet: " __VA_ARGS__)

/* ---- what the tensors show ---- */

static int64_t dim_of(const reader *r, uint32_t i, const char *format, uint32_t number)
{
    char name[100];
    snprintf(name, sizeof name, format, number);
    return unet_dim(r->w, r->view, name, i);
}

static kiln_status take_hint(const reader *r)
{
    controlnet_config *c = r->out;
    static const char block[] = "controlnet_cond_embedding.blocks.%u.weight",
                      first[] = "controlnet_cond_embedding.conv_in.weight";
    c->hint_channels = unet_dim(r->w, r->view, first, 1);
    c->hint_width[0] = unet_dim(r->w, r->view, first, 0), c->hint_widths = 1;
    if (c->hint_channels < 1 || c->hint_channels > CONTROLNET_CHANNELS_MAX)
        REFUSE(r, "its hint has %lld channels; 1 to %d are supported", (long long)c->hint_channels,
               CONTROLNET_CHANNELS_MAX);
    if (dim_of(r, 0, block, 2 * CONTROLNET_HINT_MAX - 2))
        REFUSE(r, "its hint's embedding has more than %d widths", CONTROLNET_HINT_MAX);
    for (uint32_t i = 1; i < CONTROLNET_HINT_MAX; i++) {
        int64_t width = dim_of(r, 0, block, 2 * i - 1);
        if (width) c->hint_width[i] = width, c->hint_widths = i + 1;
    }
    return KILN_OK;
}

static kiln_status take_union(const reader *r)
{
    controlnet_config *c = r->out;
    int64_t types = unet_dim(r->w, r->view, "task_embedding", 1),
            embedded = unet_dim(r->w, r->view, "control_add_embedding.linear_1.weight", 1);
    if (!types && !embedded) return KILN_OK;
    if (types < 1 || types > CONTROLNET_TYPES_MAX || embedded < 2 * types || embedded % types || embedded / types % 2)
        REFUSE(r, "a Union of %lld kinds of hints, of which %lld numbers are embedded; that is none that is known",
               (long long)types, (long long)embedded);
    c->types = types, c->sinusoid = embedded / types;
    while (c->fusers < CONTROLNET_TYPES_MAX && dim_of(r, 0, "transformer_layes.%u.ln_1.weight", c->fusers)) c->fusers++;
    return KILN_OK;
}

/* ---- config.json ---- */

static void agree(config *c, const char *key, int64_t seen)
{
    int64_t said = config_int(c, key, seen, 0, 1 << 24);
    if (said != seen)
        CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' says %lld, and the weights have %lld", c->path, key, (long long)said,
                    (long long)seen);
}

static void read_config(config *c, controlnet_config *out)
{
    static const char widths_key[] = "conditioning_embedding_out_channels";
    const char *order = config_text(c, "controlnet_conditioning_channel_order", "rgb");
    int64_t width[CONTROLNET_HINT_MAX];
    size_t n = config_get(c, widths_key)
                   ? config_ints(c, widths_key, 0, 1, 1 << 16, out->hint_widths, width, CONTROLNET_HINT_MAX)
                   : 0;
    for (size_t i = 0; i < n; i++)
        if (width[i] != out->hint_width[i])
            CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' says %lld, and the weights have %lld", c->path, widths_key,
                        (long long)width[i], (long long)out->hint_width[i]);
    if (!c->failed && strcmp(order, "rgb") != 0 && strcmp(order, "bgr") != 0)
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED,
                    "%s: 'controlnet_conditioning_channel_order' is '%.20s'; rgb and bgr are supported", c->path,
                    order);
    out->bgr = !c->failed && strcmp(order, "bgr") == 0;
    if (config_bool(c, "global_pool_conditions", 0)) out->pool = 1;
    agree(c, "conditioning_channels", out->hint_channels);
    if (out->types) agree(c, "num_control_type", out->types);
}

/* The released ControlNet that pools says so in its name: control_v11e_sd15_shuffle. */
static int is_called_shuffle(const reader *r)
{
    static const char *const ends[] = {"_shuffle.safetensors", "_shuffle_fp16.safetensors"};
    kiln_weight_info info = {.size = sizeof info};
    if (r->w->at(r->view, 0, &info) != KILN_OK || !info.file) return 0;
    size_t n = strlen(info.file);
    for (size_t i = 0; i < COUNT(ends); i++)
        if (n >= strlen(ends[i]) && strcmp(info.file + n - strlen(ends[i]), ends[i]) == 0) return 1;
    return 0;
}

kiln_status controlnet_settings_read(const kiln_host *host, kiln_ctx *ctx, const unet_source *from,
                                     controlnet_config *out)
{
    reader r = {host, ctx, host->ability(KILN_WEIGHTS_ABILITY), from->view, out};
    *out = (controlnet_config){0};
    TRY(unet_settings_read(host, ctx, from, &out->unet));
    TRY(take_hint(&r));
    TRY(take_union(&r));
    out->pool = (uint32_t)is_called_shuffle(&r);
    config c = {.host = host, .ctx = ctx};
    if (from->path) c = config_open(host, ctx, from->set, from->path);
    if (c.root) read_config(&c, out);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}
