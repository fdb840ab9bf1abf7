/* null_status.c - a node that gets NULL from an ability, cannot know why, and says KILN_ERR_INVALID: the engine keeps
 * what was reported first. For test_null_status.sh. */
#include "kiln/kit.h"
#include "kiln/weights.h"

typedef struct {
    const char *file;
} null_params;

static const kiln_port null_out[] = {{.name = "COUNT", .type = "INT", .doc = "How many tensors it has."}};
static const kiln_param null_param[] = {{.name = "file",
                                         .doc = "A model file.",
                                         .type = KILN_P_FILE,
                                         .flags = KILN_PARAM_REQUIRED,
                                         .from = "loras",
                                         .offset = offsetof(null_params, file)}};

static kiln_status run(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weights *set = w->open(c->ctx, ((const null_params *)c->params)->file);
    if (!set) return KILN_ERR_INVALID; /* open() has said why */
    c->out[0] = kit_values(c)->new_int(c->ctx, (int64_t)w->count(set));
    w->unref(set);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM; /* value.h: it is nothing else */
}

static const kiln_node null_status = {KIT_NODE("NullStatus", "Null Status", "test", "Counts tensors."),
                                      KILN_ARRAY(out, null_out), KIT_PARAMS(null_params, null_param), .run = run};
KILN_PLUGIN("org.example.null-status", "1.0.0", "MIT", &null_status);
