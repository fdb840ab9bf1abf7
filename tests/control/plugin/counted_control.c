/* counted_control.c - a plugin for tests: TestCountedControl gives the same control, which says with --verbose each
 * time that it is recorded. */
#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdlib.h>

static const kiln_host *kept;

typedef struct {
    kiln_network network;
    const kiln_network *of;
} counted;

static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    const kiln_network *of = ((const counted *)n->self)->of;
    kept->log(KILN_LOG_INFO, "counted: the control is recorded");
    of->record(of, ops, p, w, in, n_in, out);
}

static kiln_status run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_net *given = models->net(c->ctx, c->in[0], "CONTROL_NET");
    counted *own = given ? calloc(1, sizeof *own) : NULL;
    if (!own) return given ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    own->network = *given->network;
    own->network.record = record, own->network.self = own, own->network.over = NULL;
    own->of = given->network;
    kiln_net net = {.size = sizeof net,
                    .network = &own->network,
                    .weights = given->weights,
                    .owned = own,
                    .release = free,
                    .base = c->in[0]};
    if (!(c->out[0] = models->net_new(c->ctx, "CONTROL_NET", &net))) free(own);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_port in[] = {{.name = "control_net", .type = "CONTROL_NET", .doc = "The control."}};
static const kiln_port out[] = {{.name = "CONTROL_NET", .type = "CONTROL_NET", .doc = "The same."}};
static const kiln_node node = {KIT_NODE("TestCountedControl", "Counted", "test", "Says when the control is recorded."),
                               KILN_ARRAY(in, in), KILN_ARRAY(out, out), .run = run};

static kiln_status open_plugin(const kiln_host *host)
{
    kept = host;
    return KILN_OK;
}

KILN_PLUGIN_OPEN("org.example.counted", "1.0.0", "MIT", open_plugin, &node);
