/* bad_sets.c - nodes that are good for all but one in some thousand of the values of their parameter: compiled by
 * test_check_sets.sh with -DBAD=n, where 0 is good and 2 is slow. */
#include "kiln/kit.h"

#include <time.h>

typedef struct {
    int64_t n;
} params;

static kiln_status run(const kiln_call *c)
{
    const params *p = c->params;
    if (BAD == 1 && p->n == 1234) return KILN_OK;
    if (BAD == 2) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    c->out[0] = kit_values(c)->new_int(c->ctx, p->n + 1);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_param param[] = {KIT_INT(params, n, 2048, 0, 4096, "A number.")};
static const kiln_port out[] = {{.name = "INT", .doc = "One more.", .type = "INT"}};
static const kiln_node node = {KIT_NODE("BadSets", "Sets", "tests", "Adds one."), KILN_ARRAY(out, out),
                               KIT_PARAMS(params, param), .run = run};
KILN_PLUGIN("org.example.bad-sets", "1.0.0", "MIT", &node);
