/* model_range_nodes.c - ModelRange and ModelRangeAtStep: a MODEL that hands over to another one on the way.
 *
 * A base and its refiner, the halves of a pair that were trained for high and for low noise: from a level down, that
 * one included, the other MODEL evaluates. ConditioningSetModelRange (nodes/conditioning) binds a conditioning to one
 * of them.
 */
#include "kiln/model.h"
#include "sampler_nodes.h"
#include "sampler_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const kiln_port share_in[] = {
    {.name = "model", .type = "MODEL", .doc = "Begins. Its ranges, samplings and guidance are kept."},
    {.name = "other", .type = "MODEL", .doc = "Takes over. Its latents are of the same kind."},
};
static const kiln_port step_in[] = {
    {.name = "model", .type = "MODEL", .doc = "Begins. Its ranges, samplings and guidance are kept."},
    {.name = "other", .type = "MODEL", .doc = "Takes over. Its latents are of the same kind."},
    {.name = "sigmas", .type = "SIGMAS", .doc = "The levels that will be sampled."},
};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "Both, one after the other."}};
enum { IN_MODEL, IN_OTHER, IN_SIGMAS };

/* ---- a MODEL with one more range ---- */

/* What it owns. */
typedef struct {
    const kiln_host *host;
    kiln_value *other;
    char *name;
    kiln_model_range range[];
} ranged;

static void ranged_release(void *owned)
{
    ranged *r = owned;
    r->host->unref(r->other);
    free(r->name);
    free(r);
}

static const kiln_model_range *range_of(const kiln_model *m, size_t i)
{
    return (const kiln_model_range *)(const void *)((const char *)m->range + i * m->range->size);
}

/* Names are what conditionings are bound by, so each is there once. */
static kiln_status check_name(const kiln_call *c, const kiln_model *m, const char *name)
{
    int taken = strcmp(name, m->name ? m->name : "base") == 0;
    for (size_t i = 0; i < m->n_range && !taken; i++) taken = strcmp(name, range_of(m, i)->name) == 0;
    if (!*name) return c->host->fail(c->ctx, KILN_ERR_INVALID, "name is empty; a range needs one, such as 'refiner'");
    if (!taken) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "the model has a range '%s' already; give this one another name",
                         name);
}

static kiln_status check_models(const kiln_call *c, const kiln_model *m, const kiln_model *other)
{
    if (!m || !other) return KILN_ERR_INVALID;
    if (other->n_range)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "other has ranges of its own, which nothing would evaluate; give a MODEL that has ranges "
                             "to `model`");
    return KILN_OK;
}

static void copy_range(kiln_model_range *to, const kiln_model_range *from)
{
    (void)KILN_READ(to, from, model);
    to->size = sizeof *to;
}

/* The model's ranges and the new one, by falling level. */
static kiln_status fill_ranges(const kiln_call *c, const kiln_model *m, ranged *r, double below)
{
    size_t n = 0, i = 0;
    for (; i < m->n_range && range_of(m, i)->below > below; i++) copy_range(&r->range[n++], range_of(m, i));
    if (i < m->n_range && range_of(m, i)->below == below)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the model's range '%s' begins at the same level, so one of the two would never act; let "
                             "this one begin earlier or later",
                             range_of(m, i)->name);
    r->range[n++] = (kiln_model_range){.size = sizeof r->range[0], .name = r->name, .below = below, .model = r->other};
    for (; i < m->n_range; i++) copy_range(&r->range[n++], range_of(m, i));
    return KILN_OK;
}

static ranged *ranged_new(const kiln_call *c, const kiln_model *m, const char *name)
{
    ranged *r = calloc(1, sizeof *r + (m->n_range + 1) * sizeof r->range[0]);
    if (!r) return NULL;
    r->host = c->host;
    if (!(r->name = strdup(name))) return free(r), NULL;
    r->other = c->host->ref(c->in[IN_OTHER]);
    return r;
}

/* c->out[0] = the model, whose place the other takes at levels below `below`. */
static kiln_status add_range(const kiln_call *c, const char *name, double below)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *first = models->model(c->ctx, c->in[IN_MODEL]);
    TRY(check_models(c, first, models->model(c->ctx, c->in[IN_OTHER])));
    TRY(check_name(c, first, name));
    ranged *r = ranged_new(c, first, name);
    if (!r) return KILN_ERR_NOMEM;
    kiln_status status = fill_ranges(c, first, r, below);
    kiln_model m = *first;
    m.range = r->range, m.n_range = first->n_range + 1;
    m.owned = r, m.release = ranged_release, m.base = c->in[IN_MODEL];
    if (status == KILN_OK && !(c->out[0] = models->model_new(c->ctx, &m))) status = KILN_ERR_NOMEM;
    if (status != KILN_OK) ranged_release(r);
    return status;
}

/* ---- the nodes ---- */

#define NAME(struct_)                                                                                                  \
    {                                                                                                                  \
        .name = "name", .type = KILN_P_STRING, .offset = offsetof(struct_, name), .def_str = "refiner",                \
        .doc = "What ConditioningSetModelRange calls this range; what the model begins with is 'base'."                \
    }

typedef struct {
    const char *name;
    double start_percent;
} share_params;
static const kiln_param share_param[] = {
    KIT_FLOAT(share_params, start_percent, 0.8, 0, 1, 0.001,
              "Share of the denoising after which the other takes over."),
    NAME(share_params),
};

static kiln_status share_run(const kiln_call *c)
{
    const share_params *p = c->params;
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    double sigma;
    TRY(s->percent_to_sigma(c, c->in[IN_MODEL], p->start_percent, &sigma));
    return add_range(c, p->name, nextafter(sigma, INFINITY)); /* at that level the other evaluates already */
}

const kiln_node node_model_range = {
    PLAIN_NODE("ModelRange", "sampling/ranges", "A model that another one takes over from at a share of the way."),
    KILN_ARRAY(in, share_in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(share_params, share_param),
    .run = share_run,
};

typedef struct {
    const char *name;
    int64_t start_at_step;
} step_params;
static const kiln_param step_param[] = {
    KIT_INT(step_params, start_at_step, 20, 0, 10000,
            "The other's first step, counted in sigmas, as start_at_step of KSamplerAdvanced."),
    NAME(step_params),
};

static kiln_status step_run(const kiln_call *c)
{
    const step_params *p = c->params;
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    double *sigma;
    size_t n, step = (size_t)p->start_at_step;
    TRY(s->sigmas_read(c, c->in[IN_SIGMAS], c->in[IN_MODEL], &sigma, &n));
    if (step >= n)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "start_at_step is %zu, and sigmas has %zu steps; %zu leaves the other model none", step,
                             n ? n - 1 : 0, n ? n - 1 : 0);
    if (step && sigma[step] >= sigma[step - 1])
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "sigmas[%zu] is %g after %g; another model takes over where levels fall", step,
                             sigma[step], sigma[step - 1]);
    /* Levels are f32: whatever level is above, the first model has it. */
    return add_range(c, p->name, step ? (double)nextafterf((float)sigma[step], INFINITY) : INFINITY);
}

const kiln_node node_model_range_step = {
    PLAIN_NODE("ModelRangeAtStep", "sampling/ranges", "A model that another one takes over from at a step of sigmas."),
    KILN_ARRAY(in, step_in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(step_params, step_param),
    .run = step_run,
};
