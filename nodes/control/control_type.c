/* control_type.c - SetUnionControlNetType: tells a Union ControlNet which kind of hint it gets. */
#include "control_nodes.h"
#include "control_value.h"

typedef struct {
    int32_t type;
} type_params;

static const kiln_choice types[] = {
    {.name = "auto", .doc = "not said", .value = -1},
    {.name = "openpose", .value = 0},
    {.name = "depth", .value = 1},
    {.name = "hed/pidi/scribble/ted", .value = 2},
    {.name = "canny/lineart/anime_lineart/mlsd", .value = 3},
    {.name = "normal", .value = 4},
    {.name = "segment", .value = 5},
    {.name = "tile", .value = 6},
    {.name = "repaint", .value = 7},
    {0},
};
static const kiln_port control_in[] = {{.name = "control_net", .type = "CONTROL_NET", .doc = "A Union ControlNet."}};
static const kiln_port control_out[] = {
    {.name = "CONTROL_NET", .type = "CONTROL_NET", .doc = "The same, which knows its kind of hint."}};
static const kiln_param type_param[] = {KIT_ENUM(type_params, type, types, -1, "What the hint is.")};

static const char *name_of(int32_t type)
{
    const kiln_choice *c = types;
    while (c->name && c->value != type) c++;
    return c->name ? c->name : "?";
}

static kiln_status run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    int32_t type = ((const type_params *)c->params)->type;
    const kiln_net *net = models->net(c->ctx, c->in[0], "CONTROL_NET");
    if (!net) return KILN_ERR_INVALID;
    int64_t known = control_input_width(net, "control_type");
    if (type < 0 && !control_fact(c, net, "control_type")) { /* nothing is said, whatever the control is */
        c->out[0] = c->host->ref(c->in[0]);
        return KILN_OK;
    }
    if (type < 0) return control_with_fact(c, c->in[0], net->weights, "control_type", NULL, &c->out[0]);
    if (!known)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "this control is no Union, and is made for one kind of hint; take the node away");
    if (type >= known)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "'%s' is kind %d of a Union ControlNet, and this one knows %lld; take a ProMax",
                             name_of(type), type + 1, (long long)known);
    kiln_value *fact = kit_values(c)->new_int(c->ctx, type);
    if (!fact) return KILN_ERR_NOMEM;
    kiln_status status = control_with_fact(c, c->in[0], net->weights, "control_type", fact, &c->out[0]);
    c->host->unref(fact);
    return status;
}

const kiln_node node_set_union_control_net_type = {
    KIT_NODE("SetUnionControlNetType", "Set Union ControlNet Type", "conditioning/controlnet",
             "Tells a Union ControlNet which kind of hint it gets."),
    KILN_ARRAY(in, control_in), KILN_ARRAY(out, control_out), KIT_PARAMS(type_params, type_param), .run = run};
