/* clip_family.c - see clip_family.h. */
#include "clip_family.h"

#include "clip_encoder.h"
#include "clip_layout.h"
#include "kiln/kit.h"

#include <stdlib.h>

static int detect(const kiln_weights_api *w, const kiln_weights *set) { return clip_layout_any(w, set) ? 90 : 0; }

/* Each encoder with a view of its own; a view is the value's when there is one. */
static kiln_status open_parts(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const clip_part *part, size_t n,
                              clip_self *self)
{
    for (size_t i = 0; i < n; i++) {
        kiln_weights *view = clip_layout_view(host, ctx, set, &part[i]);
        if (!view) return KILN_ERR_INVALID;
        TRY(clip_self_add(host, ctx, set, &part[i], view, self));
    }
    return KILN_OK;
}

static kiln_value *open_clip(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    clip_part part[CLIP_PARTS];
    kiln_weights *view[CLIP_PARTS] = {NULL};
    kiln_value *value = NULL;
    size_t n = 0;
    if (clip_layout_find(host, ctx, set, part, &n) != KILN_OK) return NULL;
    clip_self *self = calloc(1, sizeof *self);
    if (!self) return host->fail(ctx, KILN_ERR_NOMEM, "no memory for a text encoder"), NULL;
    kiln_status status = open_parts(host, ctx, set, part, n, self);
    for (uint32_t i = 0; i < self->n; i++) view[i] = self->row[i].weights;
    if (status == KILN_OK)
        value = clip_self_value(host, ctx, self); /* has references of its own */
    else
        clip_self_free(self);
    for (size_t i = 0; i < CLIP_PARTS; i++) w->unref(view[i]);
    return value;
}

const kiln_model_family clip_family = {.size = sizeof clip_family,
                                       .kind = KILN_FAMILY_TEXT_ENCODER,
                                       .name = "clip",
                                       .doc = "CLIP L, OpenCLIP H and bigG: the text encoders of Stable Diffusion",
                                       .detect = detect,
                                       .open = open_clip};
