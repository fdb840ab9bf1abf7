/* bad_estimate.c - a node that says it can be called in an estimate, and is wrong there: compiled by
 * test_check_estimate.sh with -DBAD=n, where 0 is good. */
#include "kiln/kit.h"

static kiln_status run(const kiln_call *c)
{
    kiln_tensor t = {.size = sizeof t};
    if (kit_estimating(c) && BAD != 1) {
        if (BAD == 2) return KILN_OK;
        c->out[0] = kit_values(c)->new_int(c->ctx, 1);
        return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
    }
    kiln_status status = c->host->view(c->ctx, c->in[0], &t);
    if (status) return status;
    c->out[0] = kit_values(c)->new_int(c->ctx, (int64_t)(((const float *)t.data)[0] * 9));
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}
static kiln_status show(const kiln_call *c) { return c->host->progress(c->ctx, 0, 1, "shown"); }

static const kiln_port in[] = {{.name = "image", .doc = "A picture.", .type = "IMAGE"}},
                       number[] = {{.name = "INT", .doc = "Of its first pixel.", .type = "INT"}};
static const kiln_node node = {KIT_NODE("BadEstimate", "Estimate", "tests", "Looks at a pixel."), KILN_ARRAY(in, in),
                               KILN_ARRAY(out, number), .run = run},
                       end = {KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_ESTIMATES, 1, "BadShowEstimate", "Show",
                                             "tests", "Shows a number."),
                              KILN_ARRAY(in, number), .run = show};
KILN_PLUGIN("org.example.bad-estimate", "1.0.0", "MIT", &node, &end);
