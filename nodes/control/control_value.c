/* control_value.c - see control_value.h. */
#include "control_value.h"

#include <stdlib.h>

int64_t control_input_width(const kiln_net *net, const char *name)
{
    const kiln_network *n = net->network;
    for (uint32_t i = 0; i < n->n_input; i++) {
        kiln_input_spec row = kiln_input_spec_at(n->input, n->input_stride, i);
        if (strcmp(row.name, name) == 0) return row.width;
    }
    return 0;
}

const kiln_value *control_fact(const kiln_call *c, const kiln_net *net, const char *name)
{
    const kiln_network *n = net->network;
    return KILN_HAS(kiln_network, n, facts) && n->facts ? kit_values(c)->map_get(n->facts, name) : NULL;
}

/* A table of its own; the rest is the base's. */
typedef struct {
    const kiln_host *host;
    kiln_network network;
    kiln_value *facts;
} variant;

static void free_variant(void *owned)
{
    variant *v = owned;
    v->host->unref(v->facts);
    free(v);
}

kiln_status control_with_fact(const kiln_call *c, kiln_value *control, kiln_weights *weights, const char *key,
                              kiln_value *fact, kiln_value **out)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_value_api *v = kit_values(c);
    const kiln_net *net = models->net(c->ctx, control, "CONTROL_NET");
    if (!net) return KILN_ERR_INVALID;
    variant *own = calloc(1, sizeof *own);
    if (!own) return KILN_ERR_NOMEM;
    own->host = c->host;
    KILN_READ(&own->network, net->network, record);
    own->network.size = sizeof own->network;
    own->facts = own->network.facts ? v->map_copy(c->ctx, own->network.facts) : v->new_map(c->ctx);
    kiln_status status = own->facts ? v->map_set(own->facts, key, fact) : KILN_ERR_NOMEM;
    own->network.facts = own->facts;
    kiln_net made = {.size = sizeof made,
                     .network = &own->network,
                     .weights = weights,
                     .owned = own,
                     .release = free_variant,
                     .base = control};
    if (status == KILN_OK) *out = models->net_new(c->ctx, "CONTROL_NET", &made);
    if (status == KILN_OK && *out) return KILN_OK;
    free_variant(own);
    return status == KILN_OK ? KILN_ERR_NOMEM : status;
}
