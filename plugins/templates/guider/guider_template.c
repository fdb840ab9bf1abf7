/* my_plugin.c - a kind of GUIDER, and the node that makes one: what a sampler gets for x0, from the model's guesses
 * under each conditioning.
 *
 * It is classifier-free guidance (Ho and Salimans 2022, arXiv:2207.12598), negative + cfg (positive - negative), to
 * begin with. */
#include "kiln/sampling.h"

typedef struct {
    double cfg;
} my_plugin_params;

enum { POSITIVE, NEGATIVE };

static const kiln_param param[] = {
    {.name = "cfg",
     .doc = "Scale of the guidance.",
     .type = KILN_P_FLOAT,
     .offset = offsetof(my_plugin_params, cfg),
     .def = 8,
     .min = 0,
     .max = 100,
     .step = 0.1},
};

/* ---- the kind ---- */

/* At a scale of 1 the negative does not count, and is not evaluated. */
static uint32_t wants(const void *params, double sigma)
{
    (void)sigma;
    return ((const my_plugin_params *)params)->cfg == 1 ? 1u << POSITIVE : 1u << POSITIVE | 1u << NEGATIVE;
}

static kiln_status combine(const kiln_guider_step *g, kiln_latent *out)
{
    return g->guided(g, g->guess[POSITIVE], g->guess[NEGATIVE], ((const my_plugin_params *)g->params)->cfg, out);
}

static const kiln_guider_model model[] = {{.name = "model"}};
static const kiln_guider_set set[] = {{.name = "positive", .model = 0}, {.name = "negative", .model = 0}};

static const kiln_guider guider = {
    .size = sizeof guider,
    .name = "my-plugin",
    .doc = "Classifier-free guidance.",
    KILN_ARRAY(model, model),
    KILN_ARRAY(set, set),
    .unconditional = NEGATIVE,
    KILN_ARRAY(param, param),
    .params_size = sizeof(my_plugin_params),
    .wants = wants,
    .combine = combine,
};

/* ---- the node: its inputs and its parameter, under their names, are the GUIDER ---- */

static const kiln_port in[] = {
    {.name = "model", .doc = "The denoiser.", .type = "MODEL"},
    {.name = "positive", .doc = "What the picture should show.", .type = "CONDITIONING"},
    {.name = "negative", .doc = "What it should not.", .type = "CONDITIONING"},
};
static const kiln_port out[] = {{.name = "GUIDER", .doc = "A model with its conditionings.", .type = "GUIDER"}};

static kiln_status run(const kiln_call *c)
{
    const kiln_value_api *v = (const kiln_value_api *)c->host->ability(KILN_VALUE_ABILITY);
    const kiln_sampling_api *s = (const kiln_sampling_api *)c->host->ability(KILN_SAMPLING_ABILITY);
    if (!s) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "this kiln has no %s", KILN_SAMPLING_ABILITY);
    kiln_value *parts = v->new_map(c->ctx), *cfg = v->new_float(c->ctx, ((const my_plugin_params *)c->params)->cfg);
    kiln_status status = parts && cfg ? v->map_set(parts, "cfg", cfg) : KILN_ERR_NOMEM;
    c->host->unref(cfg); /* the map has a reference of its own */
    for (size_t i = 0; status == KILN_OK && i < sizeof in / sizeof in[0]; i++)
        status = v->map_set(parts, in[i].name, c->in[i]);
    if (status == KILN_OK) return s->guider_new(c, "my-plugin", parts, &c->out[0]); /* takes `parts` */
    c->host->unref(parts);
    return status;
}

static const kiln_node node = {
    .size = sizeof node,
    .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "MyPlugin",
    .title = "My Plugin",
    .category = "sampling/custom_sampling/guiders",
    .doc = "Classifier-free guidance.",
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, param),
    .params_size = sizeof(my_plugin_params),
    .run = run,
};

/* Where a plugin is tried, before it is loaded, kiln's own plugins are not there. */
static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampling_api *s = (const kiln_sampling_api *)host->ability(KILN_SAMPLING_ABILITY);
    return s ? s->register_guider(&guider) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.my-plugin", "0.1.0", "MIT", open_plugin, &node);
