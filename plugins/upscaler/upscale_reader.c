/* upscale_reader.c - see upscale_reader.h. */
#include "upscale_reader.h"

#include "kiln/kit.h"

#include <stdio.h>

/* The tensors below the prefix, and only those. */
static kiln_weights *plain_view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    char from[64];
    snprintf(from, sizeof from, "%.60s*", at->prefix);
    const kiln_weight_rule rule = KILN_RULE(.from = from, .to = "*");
    return w->view(ctx, set, &rule, 1);
}

kiln_value *upscale_open(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const upscale_files *files)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, files->layout, files->n_layout);
    upscale_reader r = {host, ctx, w, NULL};
    if (!at) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "no upscaler of this family is in it");
        return NULL;
    }
    r.view = (files->view ? files->view : plain_view)(host, ctx, set, at);
    kiln_value *value = r.view ? files->make(&r) : NULL;
    w->unref(r.view);
    return value;
}

int64_t upscale_dim_of(const upscale_reader *r, const char *tensor, uint32_t i)
{
    kiln_weight_info info;
    return checkpoint_has(r->w, r->view, "", &info, "%s", tensor) && i < info.rank ? info.dim[i] : 0;
}

kiln_status upscale_read_shuffle(const upscale_reader *r, int64_t channels, int64_t in, int64_t *factor, int64_t *out)
{
    const int64_t colours[] = {in, 3, 4, 1};
    for (size_t i = 0; i < COUNT(colours); i++)
        for (int64_t f = 1; f <= UPSCALE_FACTOR_MAX; f++)
            if (colours[i] > 0 && f * f * colours[i] == channels) return *factor = f, *out = colours[i], KILN_OK;
    UPSCALE_REFUSE(r, "%lld channels shuffled into pixels are no picture enlarged by 1 to %d", (long long)channels,
                   UPSCALE_FACTOR_MAX);
}

kiln_status upscale_check_widths(const upscale_reader *r, int64_t in, int64_t width)
{
    if (width < 1 || width > UPSCALE_WIDTH_MAX)
        UPSCALE_REFUSE(r, "it has features of %lld channels; 1 to %d are supported", (long long)width,
                       UPSCALE_WIDTH_MAX);
    if (in < 1 || in > UPSCALE_COLOURS_MAX)
        UPSCALE_REFUSE(r, "it takes pictures of %lld channels; 1 to %d are supported", (long long)in,
                       UPSCALE_COLOURS_MAX);
    return KILN_OK;
}

upscale_network *upscale_made(const upscale_reader *r, uint32_t n_stage, const void *config, size_t config_bytes)
{
    upscale_network *own;
    if (upscale_new(r->host, n_stage, config_bytes, &own) != KILN_OK) {
        r->host->fail(r->ctx, KILN_ERR_NOMEM, "no memory for the upscaler's table");
        return NULL;
    }
    memcpy(own->config, config, config_bytes);
    return own;
}
