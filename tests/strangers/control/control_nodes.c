/* control_nodes.c - the nodes around controls: one opens a file, one hangs a control on two conditionings, one asks
 * that a control be a program of its own.
 *
 * A conditioning's entry has a list "control" of maps: control_net, strength, start_percent, end_percent, and what the
 * control's inputs are called, here "hint". Whatever samples reads it; these nodes compute nothing.
 */
#include "control.h"

#include <stdlib.h>

/* ---- ExampleControlNetLoader ---- */

typedef struct {
    const char *path;
} loader_params;

static const kiln_port control_out[] = {{.name = "CONTROL_NET", .type = "CONTROL_NET", .doc = "The control."}};
static const kiln_param loader_param[] = {{.name = "control_net_name",
                                           .type = KILN_P_FILE,
                                           .flags = KILN_PARAM_REQUIRED,
                                           .offset = offsetof(loader_params, path),
                                           .from = "controlnet",
                                           .doc = "A folder with a ControlNet or a T2I-Adapter in diffusers' layout."}};

static kiln_status load(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const char *path = ((const loader_params *)c->params)->path;
    kiln_weights *set = w->open(c->ctx, path);
    if (!set) return KILN_ERR_INVALID;
    const kiln_model_family *family = models->detect(KILN_FAMILY_CONTROL, set);
    if (family)
        c->out[0] = family->open(c->host, c->ctx, set);
    else
        c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                      "%s: no loaded plugin knows a control in it; a ControlNet or a T2I-Adapter is expected", path);
    w->unref(set);
    return c->out[0] ? KILN_OK : KILN_ERR_INVALID;
}

const kiln_node node_control_loader = {
    KIT_NODE("ExampleControlNetLoader", "Load a control", "example", "Opens a ControlNet or a T2I-Adapter."),
    KILN_ARRAY(out, control_out), KIT_PARAMS(loader_params, loader_param), .run = load};

/* ---- ExampleControlNetApply ---- */

typedef struct {
    double strength, start_percent, end_percent;
} apply_params;

static const kiln_port apply_in[] = {
    {.name = "positive", .type = "CONDITIONING", .flags = KILN_PORT_OPTIONAL, .doc = "To put the control on."},
    {.name = "negative", .type = "CONDITIONING", .flags = KILN_PORT_OPTIONAL, .doc = "The same for the other side."},
    {.name = "control_net", .type = "CONTROL_NET", .doc = "The control."},
    {.name = "image", .type = "IMAGE", .flags = KILN_PORT_OPTIONAL, .doc = "Its hint: what it was trained to follow."},
};
static const kiln_port apply_out[] = {
    {.name = "positive", .type = "CONDITIONING", .doc = "With the control."},
    {.name = "negative", .type = "CONDITIONING", .doc = "With the control."},
};
static const kiln_param apply_param[] = {
    KIT_FLOAT(apply_params, strength, 1, 0, 10, 0.01, "Times this the control's results are added."),
    KIT_FLOAT(apply_params, start_percent, 0, 0, 1, 0.001, "It acts from this share of the way on."),
    KIT_FLOAT(apply_params, end_percent, 1, 0, 1, 0.001, "It acts up to this share of the way."),
};

/* The entry of a "control" list. */
static kiln_value *use_of(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const apply_params *p = c->params;
    kiln_value *use = v->new_map(c->ctx);
    kiln_status status = use ? v->map_set(use, "control_net", c->in[2]) : KILN_ERR_NOMEM;
    if (status == KILN_OK && c->in[3]) status = v->map_set(use, "hint", c->in[3]);
    if (status == KILN_OK) status = kit_set(c, use, "strength", v->new_float(c->ctx, p->strength));
    if (status == KILN_OK) status = kit_set(c, use, "start_percent", v->new_float(c->ctx, p->start_percent));
    if (status == KILN_OK) status = kit_set(c, use, "end_percent", v->new_float(c->ctx, p->end_percent));
    if (status == KILN_OK) return use;
    c->host->unref(use);
    return NULL;
}

/* A copy of the entry whose list of controls has one more. */
static kiln_value *entry_with(const kiln_call *c, const kiln_value *entry, kiln_value *use)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *before = v->map_get(entry, "control");
    kiln_value *list = before ? v->list_copy(c->ctx, before) : v->new_list(c->ctx), *copy = v->map_copy(c->ctx, entry);
    kiln_status status = list && copy ? v->list_push(list, use) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = v->map_set(copy, "control", list);
    c->host->unref(list);
    if (status == KILN_OK) return copy;
    c->host->unref(copy);
    return NULL;
}

static kiln_status put_on(const kiln_call *c, const kiln_value *conditioning, kiln_value *use, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(conditioning); i++) {
        kiln_value *entry = entry_with(c, v->list_at(conditioning, i), use);
        status = entry ? v->list_push(list, entry) : KILN_ERR_NOMEM;
        c->host->unref(entry);
    }
    *out = list;
    return status;
}

static kiln_status apply(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *use = use_of(c);
    kiln_status status = use ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t side = 0; side < 2 && status == KILN_OK; side++) {
        if (c->in[side])
            status = put_on(c, c->in[side], use, &c->out[side]);
        else if (!(c->out[side] = v->new_list(c->ctx))) /* nothing in, nothing out */
            status = KILN_ERR_NOMEM;
    }
    c->host->unref(use);
    return status;
}

const kiln_node node_control_apply = {
    KIT_NODE("ExampleControlNetApply", "Apply a control", "example", "Hangs a control with a hint on conditionings."),
    KILN_ARRAY(in, apply_in), KILN_ARRAY(out, apply_out), KIT_PARAMS(apply_params, apply_param), .run = apply};

/* ---- ExampleControlNetApart ---- */

/* A value made from another one: its own table, the other's weights, and the other kept alive. */
typedef struct {
    kiln_network network;
} apart_network;

static const kiln_port apart_in[] = {{.name = "control_net", .type = "CONTROL_NET", .doc = "The control."}};

static kiln_status run_apart(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_net *given = models->net(c->ctx, c->in[0], "CONTROL_NET");
    apart_network *own = given ? calloc(1, sizeof *own) : NULL;
    if (!own) return given ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    memcpy(&own->network, given->network,
           given->network->size < sizeof own->network ? given->network->size : sizeof own->network);
    own->network.size = sizeof own->network;
    own->network.flags |= KILN_NETWORK_APART;
    kiln_net net = {.size = sizeof net,
                    .network = &own->network,
                    .weights = given->weights,
                    .owned = own,
                    .release = free,
                    .base = c->in[0]};
    if (!(c->out[0] = models->net_new(c->ctx, "CONTROL_NET", &net))) free(own);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

const kiln_node node_control_apart = {
    KIT_NODE("ExampleControlNetApart", "Control apart", "example", "The control as a program of its own."),
    KILN_ARRAY(in, apart_in), KILN_ARRAY(out, control_out), .run = run_apart};
