/* flow.c - which way values go: a switch, and lists made of single values. Names are ComfyUI's. */
#include "flow.h"

#include "kiln/kit.h"

/* ---- switch ---- */

enum { ON_FALSE, ON_TRUE };
typedef struct {
    int32_t on;
} switch_params;
static const kiln_param switch_param[] = {{.name = "switch",
                                           .type = KILN_P_BOOL,
                                           .flags = KILN_PARAM_REQUIRED,
                                           .offset = offsetof(switch_params, on),
                                           .doc = "Which of the two comes out."}};
static const kiln_port switch_in[] = {
    {.name = "on_false", .type = "*T", .flags = KILN_PORT_LAZY, .doc = "Comes out when `switch` is false."},
    {.name = "on_true", .type = "*T", .flags = KILN_PORT_LAZY, .doc = "Comes out when `switch` is true."},
};
static const kiln_port switch_out[] = {{.name = "output", .type = "*T", .doc = "One of the two."}};

static uint32_t chosen(const kiln_call *c) { return ((const switch_params *)c->params)->on ? ON_TRUE : ON_FALSE; }

static kiln_status switch_wants(const kiln_call *c, uint64_t *inputs)
{
    *inputs = UINT64_C(1) << chosen(c);
    return KILN_OK;
}

static kiln_status switch_run(const kiln_call *c)
{
    c->out[0] = c->host->ref(c->in[chosen(c)]);
    return KILN_OK;
}

const kiln_node node_switch = {
    KIT_NODE("ComfySwitchNode", "If/Else Switch", "logic",
             "One of two values of any type; what only the other one needs is not computed."),
    KILN_ARRAY(in, switch_in),
    KILN_ARRAY(out, switch_out),
    KIT_PARAMS(switch_params, switch_param),
    .run = switch_run,
    .wants = switch_wants,
};

/* ---- lists ---- */

static const kiln_port list_in[] = {{.name = "inputs",
                                     .type = "*T",
                                     .flags = KILN_PORT_LIST,
                                     .doc = "The items, in order; lists among them give all of theirs."}};
static const kiln_port list_out[] = {
    {.name = "list", .type = "*T", .flags = KILN_PORT_LIST, .doc = "What takes it runs once for each item."}};

static kiln_status create_list_run(const kiln_call *c)
{
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}

const kiln_node node_create_list = {
    KIT_NODE("CreateList", "Create List", "utils", "A list of values of one type: what takes it runs once for each."),
    KILN_ARRAY(in, list_in),
    KILN_ARRAY(out, list_out),
    .run = create_list_run,
};
