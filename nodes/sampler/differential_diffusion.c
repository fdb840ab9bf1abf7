/* differential_diffusion.c - DifferentialDiffusion: a MODEL whose noise masks say when a cell begins, not whether.
 *
 * After Levin and Fried 2023, "Differential Diffusion: Giving Each Pixel Its Strength" (arXiv:2306.00950): a cell is
 * kept until the share of the way that is left has fallen to its mask's number, and is drawn from there on. Shares are
 * counted in the network's timesteps, as ComfyUI counts them.
 */
#include "kiln/model.h"
#include "sampler_nodes.h"
#include "sampler_rows.h"

#include <stdio.h>
#include <stdlib.h>

static const kiln_port in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with the rule."}};

typedef struct {
    double strength;
} differential_params;
static const kiln_param param[] = {
    KIT_FLOAT(differential_params, strength, 1, 0, 1, 0.01,
              "Share of the rule; the rest is the mask as it is. 0 is as 1, as in ComfyUI.")};

typedef struct {
    kiln_mask_rule rule;
    float strength; /* above 0 */
    char identity[64];
} differential;

/* How much of the way from `first` to the last level that a network is asked at is left: 1 to 0. */
static float share_left(const kiln_model_sampling *s, double sigma, double first, double last)
{
    double lowest = last > s->sigma_min ? last : s->sigma_min, end = s->timestep(s, lowest),
           begin = s->timestep(s, first);
    if (begin == end) return 1;
    if ((float)sigma == (float)lowest) return 0; /* levels are f32, tables are not */
    return (float)((s->timestep(s, sigma) - end) / (begin - end));
}

static double mask_at(const void *self, const kiln_model_sampling *s, double sigma, double first, double last,
                      double mask)
{
    const differential *d = self;
    float given = (float)mask, drawn = given >= share_left(s, sigma, first, last) ? 1 : 0;
    return (double)(d->strength < 1 ? d->strength * drawn + (float)(1 - (double)d->strength) * given : drawn);
}

static kiln_status run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    double strength = ((const differential_params *)c->params)->strength;
    differential *d = model ? calloc(1, sizeof *d) : NULL;
    if (!model) return KILN_ERR_INVALID;
    if (!d) return KILN_ERR_NOMEM;
    d->strength = strength > 0 ? (float)strength : 1;
    snprintf(d->identity, sizeof d->identity, "differential diffusion %.9g", (double)d->strength);
    d->rule = (kiln_mask_rule){.size = sizeof d->rule, .identity = d->identity, .self = d, .at = mask_at};
    kiln_model m = *model;
    m.mask_rule = &d->rule;
    m.owned = d, m.release = free, m.base = c->in[0];
    c->out[0] = models->model_new(c->ctx, &m);
    if (!c->out[0]) free(d);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

const kiln_node node_differential = {
    KIT_NODE("DifferentialDiffusion", "Differential Diffusion", "experimental",
             "Noise masks say how early each part is drawn: 1 from the first step, 0.5 in the second half."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(differential_params, param),
    .run = run,
};
