/* control_use.c - see control_use.h. */
#include "control_use.h"

#include "kiln/kit.h"
#include "lent_lists.h"
#include "network_hooks.h"

#include <stdio.h>

static kiln_status read_number(const input_search *s, const kiln_value *map, const char *key, double otherwise,
                               double *out)
{
    const kiln_value_api *v = kit_values(s->call);
    const kiln_value *value = v->map_get(map, key);
    *out = otherwise;
    if (!value || v->get_float(value, out) == KILN_OK) return KILN_OK;
    return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID, "%s: a control's '%s' has to be a number", s->what, key);
}

static kiln_status check_type(const input_search *s, const kiln_value *net, size_t number)
{
    const char *type = kit_values(s->call)->object_type(net);
    if (type && strcmp(type, "CONTROL_NET") == 0) return KILN_OK;
    return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID,
                               "%s: the control_net of entry %zu of its 'control' is %s%s and no CONTROL_NET; a "
                               "ControlNetLoader makes one",
                               s->what, number, type ? "a " : "plain data", type ? type : "");
}

/* The control itself, or what it is over the denoiser's weights. */
static const kiln_net *net_over(const kiln_call *c, const kiln_net *net, kiln_weights *denoiser)
{
    const kiln_network *n = net->network;
    return KILN_HAS(kiln_network, n, over) && n->over ? n->over(n, c->ctx, net->weights, denoiser) : net;
}

/* The network's inputs, and the mask. */
static kiln_status list_inputs(const kiln_call *c, const kiln_network *n, input_search *own)
{
    kiln_input_spec *row = c->host->scratch(c->ctx, (n->n_input + 1u) * sizeof *row, KILN_CPU);
    if (!row) return KILN_ERR_NOMEM;
    for (uint32_t i = 0; i < n->n_input; i++) row[i] = kiln_input_spec_at(n->input, n->input_stride, i);
    row[n->n_input] = (kiln_input_spec){.size = sizeof *row,
                                        .kind = KILN_INPUT_MASK,
                                        .flags = KILN_INPUT_OPTIONAL | KILN_INPUT_OMITTED | KILN_INPUT_CENTRED,
                                        .name = CONTROL_MASK,
                                        .width = 1,
                                        .doc = "where the control's results count"};
    own->spec = row, own->n_spec = n->n_input + 1u, own->stride = sizeof *row;
    return KILN_OK;
}

static kiln_status read_use(const input_search *search, const control_list *of, const kiln_value *map, size_t number,
                            const model_sampling *counted, control_use *out)
{
    const kiln_call *c = search->call;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_value_api *v = kit_values(c);
    double start, end;
    *out = (control_use){0};
    if (v->kind(map) != KILN_V_MAP || !v->map_get(map, "control_net"))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "%s: entry %zu of its 'control' is no map with a control_net; ControlNetApply makes them",
                             search->what, number);
    TRY(check_type(search, v->map_get(map, "control_net"), number));
    if (!(out->net = models->net(c->ctx, v->map_get(map, "control_net"), "CONTROL_NET"))) return KILN_ERR_INVALID;
    if (!(out->net = net_over(c, out->net, of->denoiser))) return KILN_ERR_INVALID;
    TRY(read_number(search, map, "strength", 1, &out->strength));
    TRY(read_number(search, map, "start_percent", 0, &start));
    TRY(read_number(search, map, "end_percent", 1, &end));
    out->sigma_start = model_sampling_percent_to_sigma(counted, start);
    out->sigma_end = model_sampling_percent_to_sigma(counted, end);
    const char *family = out->net->network->family; /* a name, then the numbers that decide what is recorded */
    snprintf(out->owner, sizeof out->owner, "the control '%.*s'", (int)strcspn(family, "/"), family);
    snprintf(out->prefix, sizeof out->prefix, "control.%zu.", number);
    snprintf(out->strength_name, sizeof out->strength_name, "%sstrength", out->prefix);
    input_search own = *search;
    own.owner = out->owner;
    own.prefix = out->prefix;
    own.map[0] = map, own.map[1] = of->entry;
    own.beside = NULL, own.hook = -1, own.control = 1;
    TRY(list_inputs(c, out->net->network, &own));
    return input_values_find(&own, &out->inputs);
}

/* ---- whose controls ---- */

kiln_status control_lists(const kiln_call *c, const kiln_value *conditioning, const kiln_value *lender,
                          kiln_weights *denoiser, control_list *out)
{
    const kiln_value_api *v = kit_values(c);
    size_t n = v->count(conditioning);
    const kiln_value **list = c->host->scratch(c->ctx, (n + 1) * sizeof *list, KILN_CPU);
    if (!list) return KILN_ERR_NOMEM;
    lent_lists(v, conditioning, lender, "control", "control_apply_to_uncond", list);
    for (size_t i = 0; i < n; i++) out[i] = (control_list){v->list_at(conditioning, i), list[i], denoiser, NULL};
    lent_lists(v, conditioning, lender, KILN_NETWORK_HOOKS, NULL, list);
    for (size_t i = 0; i < n; i++) out[i].hooks = list[i];
    return KILN_OK;
}

/* ---- reading ---- */

kiln_status control_uses_read(const input_search *search, const control_list *of, const model_sampling *counted,
                              control_uses *out)
{
    const kiln_call *c = search->call;
    const kiln_value_api *v = kit_values(c);
    const kiln_value *list = of->list;
    *out = (control_uses){0};
    if (!list) return KILN_OK;
    if (v->kind(list) != KILN_V_LIST || v->count(list) > CONTROLS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: its 'control' has to be a list of at most %d maps",
                             search->what, CONTROLS_MAX);
    out->use = c->host->scratch(c->ctx, (v->count(list) + 1) * sizeof *out->use, KILN_CPU);
    if (!out->use) return KILN_ERR_NOMEM;
    for (; out->n < v->count(list); out->n++)
        TRY(read_use(search, of, v->list_at(list, out->n), out->n, counted, &out->use[out->n]));
    return KILN_OK;
}
