/* interval_guider.c - a kind of GUIDER and the node that makes it: guidance in an interval of noise levels alone
 * (Kynkaanniemi et al. 2024, arXiv:2404.07724). Shows: a guider's row, asking for an evaluation only where it counts,
 * and a GUIDER as a map of models, conditionings and settings.
 */
#include "kiln/kit.h"
#include "kiln/sampling.h"

typedef struct {
    double cfg, low, high;
} interval_params;

enum { POSITIVE, NEGATIVE };

static const kiln_param param[] = {
    KIT_FLOAT(interval_params, cfg, 8, 0, 100, 0.1, "Scale of the guidance inside the interval."),
    KIT_FLOAT(interval_params, low, 0.3, 0, 1000, 0.01, "The interval's lowest noise level."),
    KIT_FLOAT(interval_params, high, 5, 0, 1000, 0.01, "Its highest."),
};

/* ---- the kind ---- */

static double scale_at(const interval_params *p, double sigma)
{
    return sigma >= p->low && sigma <= p->high ? p->cfg : 1;
}

/* Outside the interval the negative is not evaluated: half the time. */
static uint32_t wants(const void *params, double sigma)
{
    return 1u << POSITIVE | (scale_at(params, sigma) == 1 ? 0 : 1u << NEGATIVE);
}

static kiln_status combine(const kiln_guider_step *g, kiln_latent *out)
{
    return g->guided(g, g->guess[POSITIVE], g->guess[NEGATIVE], scale_at(g->params, g->sigma), out);
}

static const kiln_guider_model model[] = {{"model"}};
static const kiln_guider_set set[] = {{"positive", 0}, {"negative", 0}};
static const kiln_guider interval = {
    .size = sizeof interval,
    .name = "example-interval",
    .doc = "Guidance in an interval of noise levels.",
    KILN_ARRAY(model, model),
    KILN_ARRAY(set, set),
    .unconditional = NEGATIVE,
    KIT_PARAMS(interval_params, param),
    .wants = wants,
    .combine = combine,
};

/* ---- the node ---- */

static const kiln_port in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},
    {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."},
};
static const kiln_port out[] = {{.name = "GUIDER", .type = "GUIDER", .doc = "A model with its conditionings."}};

static kiln_status check(const kiln_call *c)
{
    const interval_params *p = c->params;
    if (p->low <= p->high) return KILN_OK;
    return kit_at_param(
        c,
        c->host->fail(c->ctx, KILN_ERR_INVALID, "low is %g and high %g; give the lower level as low", p->low, p->high),
        "low");
}

static kiln_status run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    const interval_params *p = c->params;
    const struct {
        const char *name;
        double value;
    } setting[] = {{"cfg", p->cfg}, {"low", p->low}, {"high", p->high}};
    if (!s) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "this kiln has no %s", KILN_SAMPLING_ABILITY);
    kiln_value *parts = v->new_map(c->ctx);
    kiln_status status = parts ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; i < COUNT(in) && status == KILN_OK; i++) status = v->map_set(parts, in[i].name, c->in[i]);
    for (size_t i = 0; i < COUNT(setting) && status == KILN_OK; i++)
        status = kit_set(c, parts, setting[i].name, v->new_float(c->ctx, setting[i].value));
    if (status == KILN_OK) return s->guider_new(c, "example-interval", parts, &c->out[0]); /* takes `parts` */
    c->host->unref(parts);
    return status;
}

static const kiln_node node = {
    KIT_NODE("ExampleIntervalGuider", "Interval guider", "examples", "Guidance in an interval of noise levels."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(interval_params, param),
    .run = run,
    .check = check};

/* In the process where a plugin is tried nothing is provided yet. */
static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampling_api *s = host->ability(KILN_SAMPLING_ABILITY);
    return s ? s->register_guider(&interval) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.interval-guider", "1.0.0", "MIT", open_plugin, &node);
