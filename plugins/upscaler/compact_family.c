/* compact_family.c - see compact_family.h.
 *
 *   h = picture; body.0 convolution, body.1 PReLU, ..., the last convolution -> pixel shuffle, + the nearest pixels
 *
 * How many layers, how wide and by how much it enlarges: the tensors show it. It is one stage.
 */
#include "compact_family.h"

#include "kiln/kit.h"
#include "upscale_reader.h"

#include <stdio.h>

enum { LAYERS_MAX = 200 };

typedef struct {
    int64_t width, in, out, scale;
    uint32_t convs; /* all but the last have a PReLU behind them */
    int64_t slopes; /* of a PReLU: one for each channel, or 1 */
} compact_config;

static kiln_t record_compact(const upscale_network *own, const upscale_recorder *r, uint32_t stage,
                             const kiln_t taken[UPSCALE_TAKES])
{
    const compact_config *c = own->config;
    kiln_t h = taken[0];
    char name[40];
    (void)stage;
    for (uint32_t i = 0; i + 1 < c->convs; i++) {
        snprintf(name, sizeof name, "body.%u", 2 * i);
        h = upscale_conv(r, name, h, c->width, 3);
        snprintf(name, sizeof name, "body.%u", 2 * i + 1);
        h = upscale_prelu(r, name, h, c->slopes);
    }
    snprintf(name, sizeof name, "body.%u", 2 * (c->convs - 1));
    h = upscale_shuffle(r, upscale_conv(r, name, h, c->out * c->scale * c->scale, 3), c->scale);
    return r->ops->add(r->p, h, upscale_nearest(r, taken[0], c->scale));
}

static const checkpoint_layout layouts[] = {
    {.prefix = "", .needs = {"body.0.weight", "body.1.weight", "body.2.weight"}},
    {.prefix = "params_ema.", .needs = {"body.0.weight", "body.1.weight", "body.2.weight"}},
    {.prefix = "params.", .needs = {"body.0.weight", "body.1.weight", "body.2.weight"}},
    {.prefix = "module.", .needs = {"body.0.weight", "body.1.weight", "body.2.weight"}},
    {.prefix = "netG.", .needs = {"body.0.weight", "body.1.weight", "body.2.weight"}},
};

static int detect_compact(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info conv, prelu;
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    return at && checkpoint_has(w, set, at->prefix, &conv, "body.0.weight") && conv.rank == 4 &&
                   checkpoint_has(w, set, at->prefix, &prelu, "body.1.weight") && prelu.rank == 1
               ? 90
               : 0;
}

static kiln_status read_config(const upscale_reader *r, compact_config *c)
{
    char name[40];
    uint32_t last = 0;
    for (uint32_t i = 0; i < LAYERS_MAX; i++) {
        snprintf(name, sizeof name, "body.%u.weight", i);
        if (upscale_dim_of(r, name, 0)) last = i;
    }
    c->convs = last / 2 + 1;
    c->width = upscale_dim_of(r, "body.0.weight", 0), c->in = upscale_dim_of(r, "body.0.weight", 1);
    c->slopes = upscale_dim_of(r, "body.1.weight", 0);
    TRY(upscale_check_widths(r, c->in, c->width));
    snprintf(name, sizeof name, "body.%u.weight", last);
    if (last % 2 || upscale_dim_of(r, name, 1) != c->width)
        UPSCALE_REFUSE(r, "'%s' is its last layer, and should be a convolution of %lld channels", name,
                       (long long)c->width);
    TRY(upscale_read_shuffle(r, upscale_dim_of(r, name, 0), c->in, &c->scale, &c->out));
    if (c->out != c->in)
        UPSCALE_REFUSE(
            r, "it makes pictures of %lld channels from pictures of %lld, to which their pixels are to be added",
            (long long)c->out, (long long)c->in);
    return KILN_OK;
}

static kiln_value *make_compact(const upscale_reader *r)
{
    compact_config c = {0};
    if (read_config(r, &c) != KILN_OK) return NULL;
    upscale_network *own = upscale_made(r, 1, &c, sizeof c);
    if (!own) return NULL;
    own->channels = c.in, own->out_channels = c.out, own->scale = c.scale;
    own->record_stage = record_compact;
    own->stage[0] =
        (upscale_stage){.takes = {UPSCALE_IMAGE}, .n_takes = 1, .halo = c.convs, .rows = c.scale, .channels = c.out};
    snprintf(own->architecture, sizeof own->architecture, "SRVGG (compact) x%lld, %u layers of %lld channels",
             (long long)c.scale, c.convs, (long long)c.width);
    snprintf(own->family, sizeof own->family, "srvgg/%lld.%lld.%lld.%lld.%u.%lld", (long long)c.width, (long long)c.in,
             (long long)c.out, (long long)c.scale, c.convs, (long long)c.slopes);
    return upscale_value(own, r->ctx, r->view);
}

static kiln_value *open_upscaler(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    return upscale_open(host, ctx, set, &(upscale_files){layouts, COUNT(layouts), NULL, make_compact});
}

const kiln_model_family compact_family = {.size = sizeof compact_family,
                                          .kind = KILN_FAMILY_UPSCALER,
                                          .name = "srvgg",
                                          .doc = "SRVGG, Real-ESRGAN's compact networks",
                                          .detect = detect_compact,
                                          .open = open_upscaler};
