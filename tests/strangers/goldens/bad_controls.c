/* bad_controls.c - a plugin for tests: conditionings with a list of controls that no node of ours would make. */
#include "kiln/kit.h"

#include <stddef.h>

enum { NUMBER, EMPTY_MAP, OTHER_VALUE, NO_LIST, STRENGTH, PLAIN_DATA };

typedef struct {
    int32_t what;
} bad_params;

static const kiln_choice what[] = {{.name = "number", .value = NUMBER},
                                   {.name = "empty map", .value = EMPTY_MAP},
                                   {.name = "other value", .value = OTHER_VALUE},
                                   {.name = "no list", .value = NO_LIST},
                                   {.name = "strength", .value = STRENGTH},
                                   {.name = "plain data", .value = PLAIN_DATA},
                                   {0}};
static const kiln_param param[] = {KIT_ENUM(bad_params, what, what, NUMBER, "What is wrong.")};
static const kiln_port in[] = {{.name = "conditioning", .type = "CONDITIONING", .doc = "To change."},
                               {.name = "control_net", .type = "*", .doc = "What stands there as one."}};
static const kiln_port out[] = {{.name = "CONDITIONING", .type = "CONDITIONING", .doc = "With a bad control."}};

static kiln_value *use_of(const kiln_call *c, int32_t wrong)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *use = wrong == NUMBER ? v->new_int(c->ctx, 7) : v->new_map(c->ctx);
    if (use && wrong >= OTHER_VALUE && wrong != PLAIN_DATA) v->map_set(use, "control_net", c->in[1]);
    if (use && wrong == PLAIN_DATA) kit_set(c, use, "control_net", v->new_string(c->ctx, "tiny", 4));
    if (use && wrong == STRENGTH) kit_set(c, use, "strength", v->new_string(c->ctx, "much", 4));
    return use;
}

static kiln_status run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    int32_t wrong = ((const bad_params *)c->params)->what;
    kiln_value *entry = v->map_copy(c->ctx, v->list_at(c->in[0], 0)), *list = v->new_list(c->ctx);
    kiln_value *use = use_of(c, wrong), *uses = v->new_list(c->ctx);
    kiln_status status = entry && list && use && uses ? v->list_push(uses, use) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = v->map_set(entry, "control", wrong == NO_LIST ? use : uses);
    if (status == KILN_OK) status = v->list_push(list, entry);
    c->host->unref(entry);
    c->host->unref(use);
    c->host->unref(uses);
    c->out[0] = list;
    return status;
}

static const kiln_node node = {KIT_NODE("TestBadControl", "Bad", "test", "A list of controls that is none."),
                               KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(bad_params, param), .run = run};

KILN_PLUGIN("org.example.bad-controls", "1.0.0", "MIT", &node);
