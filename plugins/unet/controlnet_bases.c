/* controlnet_bases.c - see controlnet_bases.h.
 *
 * A Control-LoRA has X.up and X.down for every matrix X.weight of the UNet's down blocks and middle, and biases, norms,
 * the hint's embedding and the last convolutions of its own. The sums W + up x down are made as weights are packed.
 * Each denoiser's are kept with the control, so that both sides of a guidance have one.
 */
#include "controlnet_bases.h"

#include "kiln/kit.h"
#include "unet_shapes.h"

#include <stdio.h>
#include <stdlib.h>

struct controlnet_base {
    controlnet_base *next;
    kiln_weights *denoiser;
    controlnet self; /* a table of its own; of the members below `family` nothing is used */
    kiln_net net;
};

/* "X.up" -> "X.what"; 0: it is no such name. */
static int sibling(const char *name, const char *what, char out[200])
{
    size_t n = strlen(name);
    if (n < 4 || strcmp(name + n - 3, ".up") != 0) return 0;
    return snprintf(out, 200, "%.*s.%s", (int)(n - 3), name, what) < 200;
}

/* Names of a patch, for as long as it is made. */
typedef struct {
    char name[200], down[200];
} patch_names;

typedef struct {
    kiln_weight_patch *patch;
    patch_names *names;
    size_t n;
} patches;

/* A patch for each pair whose matrix the denoiser has. */
static kiln_status list_patches(const kiln_weights_api *w, kiln_weights *own, kiln_weights *denoiser, patches *out)
{
    size_t most = w->count(own) + 1;
    kiln_weight_info up = {.size = sizeof up}, other = {.size = sizeof other};
    *out = (patches){calloc(most, sizeof *out->patch), calloc(most, sizeof *out->names), 0};
    if (!out->patch || !out->names) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < w->count(own); i++) {
        patch_names *names = &out->names[out->n];
        if (w->at(own, i, &up) != KILN_OK || !sibling(up.name, "weight", names->name)) continue;
        if (!sibling(up.name, "down", names->down) || w->find(denoiser, names->name, &other) != KILN_OK) continue;
        out->patch[out->n++] = (kiln_weight_patch){.size = sizeof *out->patch,
                                                   .name = names->name,
                                                   .strength = 1,
                                                   .scale = 1,
                                                   .from = own,
                                                   .up = up.name,
                                                   .down = names->down};
    }
    return KILN_OK;
}

static kiln_status add_up(const controlnet *self, kiln_ctx *ctx, kiln_weights *own, kiln_weights *denoiser,
                          kiln_weights **out)
{
    const kiln_weights_api *w = self->host->ability(KILN_WEIGHTS_ABILITY);
    patches all;
    kiln_status status = list_patches(w, own, denoiser, &all);
    if (status == KILN_OK && all.n == 0)
        status = self->host->fail(ctx, KILN_ERR_INVALID,
                                  "a Control-LoRA changes its denoiser's weights, and this model has none of its "
                                  "tensors; it was made for another family of models");
    if (status == KILN_OK && !(*out = w->patch(ctx, denoiser, all.patch, all.n))) status = KILN_ERR_INVALID;
    free(all.patch), free(all.names);
    return status;
}

static void free_base(const kiln_weights_api *w, controlnet_base *base)
{
    if (!base) return;
    w->unref(base->self.config.base);
    w->unref(base->denoiser);
    free(base);
}

static controlnet_base *make_base(const controlnet *self, kiln_ctx *ctx, kiln_weights *own, kiln_weights *denoiser)
{
    const kiln_weights_api *w = self->host->ability(KILN_WEIGHTS_ABILITY);
    controlnet_base *base = calloc(1, sizeof *base);
    if (!base) return NULL;
    base->self.host = self->host;
    base->self.config = self->config;
    base->self.config.unet.linear =
        (uint32_t)unet_projections_linear(w, denoiser); /* a product of two shows no shape */
    base->self.network = self->network;
    base->denoiser = w->ref(denoiser);
    const char *identity = add_up(self, ctx, own, denoiser, &base->self.config.base) == KILN_OK
                               ? w->identity(ctx, base->self.config.base)
                               : NULL;
    if (!identity) {
        free_base(w, base);
        return NULL;
    }
    snprintf(base->self.family, sizeof base->self.family, "%.1700s/%.40s", self->family, identity);
    base->self.network.family = base->self.family;
    base->self.network.self = &base->self;
    base->self.network.over = NULL;
    base->net = (kiln_net){.size = sizeof base->net, .network = &base->self.network, .weights = own};
    return base;
}

const kiln_net *controlnet_over(const kiln_network *n, kiln_ctx *ctx, kiln_weights *own, kiln_weights *denoiser)
{
    controlnet *self = n->self;
    pthread_mutex_lock(&self->lock);
    controlnet_base *base = self->bases;
    while (base && base->denoiser != denoiser) base = base->next;
    if (!base && (base = make_base(self, ctx, own, denoiser))) {
        base->next = self->bases;
        self->bases = base;
    }
    pthread_mutex_unlock(&self->lock);
    return base ? &base->net : NULL;
}

void controlnet_forget_bases(controlnet *self)
{
    const kiln_weights_api *w = self->host->ability(KILN_WEIGHTS_ABILITY);
    for (controlnet_base *base = self->bases, *next; base; base = next) {
        next = base->next;
        free_base(w, base);
    }
    pthread_mutex_destroy(&self->lock);
}
