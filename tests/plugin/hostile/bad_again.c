/* bad_again.c - a node that takes a MODEL, which only a workflow brings, and is wrong when it is called again: compiled
 * by test_check_again.sh with -DBAD=n, where 0 is good. */
#include "kiln/kit.h"
#include "kiln/model.h"

static kiln_status run(const kiln_call *c)
{
    static int called;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *m = models->model(c->ctx, c->in[0]);
    if (!m) return KILN_ERR_INVALID;
    for (uint64_t i = 0; i < 3; i++) {
        kiln_status status = c->host->progress(c->ctx, i, 3, "looking");
        if (status && BAD != 3) return status;
    }
    if (BAD == 2 && called) return c->host->fail(c->ctx, KILN_ERR_INVALID, "it was here before");
    if (BAD == 4 && called) abort();
    c->out[0] = kit_values(c)->new_int(c->ctx, m->denoiser->latent->channels + (BAD == 1 ? called : 0));
    called = 1;
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status show(const kiln_call *c) { return c->host->progress(c->ctx, 0, 1, "shown"); }

static const kiln_port in[] = {{.name = "model", .doc = "A denoiser.", .type = "MODEL"}},
                       number[] = {{.name = "INT", .doc = "Its channels.", .type = "INT"}};
static const kiln_node node = {KIT_NODE("BadAgain", "Again", "tests", "Looks at a model."), KILN_ARRAY(in, in),
                               KILN_ARRAY(out, number), .run = run},
                       end = {KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "BadShow", "Show", "tests", "Shows a number."),
                              KILN_ARRAY(in, number), .run = show};
KILN_PLUGIN("org.example.bad-again", "1.0.0", "MIT", &node, &end);
