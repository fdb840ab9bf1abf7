/* model_sampling.h - how a model counts noise, for a run: the functions of kiln_model_sampling (kiln/denoiser.h) with
 * what the run knows of itself, and what follows from them.
 */
#ifndef KILN_SAMPLER_MODEL_SAMPLING_H
#define KILN_SAMPLER_MODEL_SAMPLING_H

#include "kiln/model.h"
#include "kiln/sampler.h"

/* Borrows from the MODEL. */
typedef struct {
    const kiln_model_sampling *by;
    kiln_run_facts facts;
} model_sampling;

#define LEVEL_ABOVE_ALL 1e9 /* what stands for infinity where a number has to be finite */

model_sampling model_sampling_of(const kiln_model *model);

double model_sampling_sigma_min(const model_sampling *l); /* the table's ends */
double model_sampling_sigma_max(const model_sampling *l);
/* The timestep the network is given at sigma. */
double model_sampling_timestep(const model_sampling *l, double sigma);
/* The level of a timestep. */
double model_sampling_sigma(const model_sampling *l, double timestep);
/* Share of the denoising done -> level: 0 is before everything (infinity), 1 after (0). */
double model_sampling_percent_to_sigma(const model_sampling *l, double percent);

kiln_level model_sampling_level(const model_sampling *l, double sigma);

/* x = of_noise * noise + of_latent * latent: at a level, and where a sampling begins. */
typedef struct {
    double of_noise, of_latent;
} level_blend;
level_blend model_sampling_blend(const model_sampling *l, double sigma);
level_blend model_sampling_start(const model_sampling *l, double sigma);
/* Of the end: where sampling stops at sigma the latent is (scale x + shift) / divided_by. */
typedef struct {
    double scale, shift, divided_by;
} level_rest;
#define LEVEL_REST_NONE ((level_rest){1, 0, 1})
level_rest model_sampling_rest(const model_sampling *l, double sigma);

/* What a schedule's row is given for this model; it points into l. A table that the model has not is made in the call's
 * scratch. */
kiln_status model_sampling_schedule_input(const kiln_call *c, const model_sampling *l, size_t steps,
                                          kiln_schedule_input *out);

#endif
