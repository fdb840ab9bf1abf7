/* model_sampling.c - see model_sampling.h. */
#include "model_sampling.h"

#include <math.h>

model_sampling model_sampling_of(const kiln_model *model)
{
    return (model_sampling){.by = model->sampling ? model->sampling : model->denoiser->sampling,
                            .facts = {.size = sizeof(kiln_run_facts)}};
}

double model_sampling_sigma_min(const model_sampling *l) { return l->by->sigma_min; }
double model_sampling_sigma_max(const model_sampling *l) { return l->by->sigma_max; }
double model_sampling_timestep(const model_sampling *l, double sigma) { return l->by->timestep(l->by, sigma); }

double model_sampling_sigma(const model_sampling *l, double timestep)
{
    return l->by->sigma_at(l->by, timestep, &l->facts);
}

double model_sampling_percent_to_sigma(const model_sampling *l, double percent)
{
    return l->by->percent_to_sigma(l->by, percent, &l->facts);
}

kiln_level model_sampling_level(const model_sampling *l, double sigma)
{
    kiln_level level = {.size = sizeof level};
    l->by->level(l->by, sigma, &level);
    return level;
}

level_blend model_sampling_blend(const model_sampling *l, double sigma)
{
    kiln_level level = model_sampling_level(l, sigma);
    return (level_blend){.of_noise = level.noise, .of_latent = level.clean};
}

level_blend model_sampling_start(const model_sampling *l, double sigma)
{
    level_blend b = model_sampling_blend(l, sigma);
    if (l->by->start) l->by->start(l->by, sigma, &b.of_latent, &b.of_noise);
    return b;
}

level_rest model_sampling_rest(const model_sampling *l, double sigma)
{
    level_rest rest = LEVEL_REST_NONE;
    double clean = model_sampling_level(l, sigma).clean;
    if (l->by->end)
        l->by->end(l->by, sigma, &rest.scale, &rest.shift);
    else if (clean > 0 && clean < 1)
        rest.divided_by = clean;
    return rest;
}

/* ---- tables ---- */

static double schedule_timestep(const void *self, double sigma) { return model_sampling_timestep(self, sigma); }
static double schedule_sigma(const void *self, double timestep) { return model_sampling_sigma(self, timestep); }

kiln_status model_sampling_schedule_input(const kiln_call *c, const model_sampling *l, size_t steps,
                                          kiln_schedule_input *out)
{
    *out = (kiln_schedule_input){.size = sizeof(kiln_schedule_input),
                                 .steps = steps,
                                 .sigma = l->by->sigma,
                                 .n_sigma = l->by->n_sigma,
                                 .sigma_min = model_sampling_sigma_min(l),
                                 .sigma_max = model_sampling_sigma_max(l),
                                 .self = l,
                                 .timestep = schedule_timestep,
                                 .sigma_at = schedule_sigma};
    if (out->sigma) return KILN_OK;
    double *made = c->host->scratch(c->ctx, out->n_sigma * sizeof *made, KILN_CPU);
    if (!made) return KILN_ERR_NOMEM;
    for (size_t i = 0; i + 1 < out->n_sigma; i++)
        made[i] = model_sampling_percent_to_sigma(l, 1 - (double)(i + 1) / (double)out->n_sigma);
    made[out->n_sigma - 1] = model_sampling_sigma_max(l);
    out->sigma = made;
    return KILN_OK;
}
