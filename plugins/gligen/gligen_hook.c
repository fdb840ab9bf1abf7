/* gligen_hook.c - see gligen_hook.h. */
#include "gligen_hook.h"

#include "gligen_family.h"
#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>

static const kiln_input_spec rows[] = {
    {.size = sizeof *rows,
     .kind = KILN_INPUT_TOKENS,
     .flags = KILN_INPUT_OPTIONAL | KILN_INPUT_OMITTED,
     .name = "boxes",
     .key = "gligen_boxes"},
};

typedef struct {
    kiln_hook hook; /* first: it is what the object points to */
    const kiln_host *host;
    kiln_value *gligen;
    const gligen_config *config;
    kiln_weights *weights;
    const char *place[GLIGEN_LAYERS_MAX + 1];
    char identity[160];
} gligen_on;

static void release(void *owned)
{
    gligen_on *self = owned;
    if (!self) return;
    self->host->unref(self->gligen);
    free(self);
}

static kiln_t add_layer(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const gligen_on *self = h->self;
    const gligen_recorder to = {self->config, self->weights, r->ops, r->program};
    kiln_t boxes = kiln_hook_input(h, r, "boxes");
    int64_t cells[KILN_MAX_RANK] = {0}, dim[KILN_MAX_RANK] = {0};
    size_t i = 0;
    if (!boxes.id) return x;
    while (i < self->config->n && strcmp(self->config->place[i], info->place) != 0) i++;
    uint32_t rank = r->ops->shape(r->program, x, dim, KILN_MAX_RANK);
    if (i == self->config->n || rank != 3 || dim[2] != self->config->channels[i])
        return r->ops->fail(r->program,
                            "this GLIGEN's layer at '%s' is for %lld channels, and the model has %lld there; take the "
                            "GLIGEN that was made for this family of models",
                            info->place, i < self->config->n ? (long long)self->config->channels[i] : 0,
                            (long long)dim[2]);
    r->ops->shape(r->program, r->in->x, cells, KILN_MAX_RANK);
    return gligen_layer(&to, i, x, gligen_tokens(&to, boxes, cells[1], cells[2]));
}

kiln_status gligen_hook_new(const kiln_call *c, kiln_value *gligen, kiln_value **out)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_net *net = models->net(c->ctx, gligen, GLIGEN_TYPE);
    const char *identity = net ? w->identity(c->ctx, net->weights) : NULL;
    gligen_on *self = identity ? calloc(1, sizeof *self) : NULL;
    if (!self) return !net ? KILN_ERR_INVALID : identity ? KILN_ERR_NOMEM : KILN_ERR_IO;
    self->host = c->host, self->gligen = c->host->ref(gligen);
    self->config = gligen_config_of(net), self->weights = net->weights;
    for (size_t i = 0; i < self->config->n; i++) self->place[i] = self->config->place[i];
    snprintf(self->identity, sizeof self->identity, "gligen/%.64s", identity);
    self->hook = (kiln_hook){.size = sizeof self->hook,
                             .self = self,
                             .identity = self->identity,
                             .place = self->place,
                             KILN_ARRAY(input, rows),
                             .at = add_layer};
    *out = kit_values(c)->new_object(c->ctx, KILN_NETWORK_HOOK, self, release, self->identity);
    if (*out) return KILN_OK;
    release(self);
    return KILN_ERR_NOMEM;
}
