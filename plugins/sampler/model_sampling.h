/* model_sampling.h - how a model counts noise: level (sigma) <-> timestep <-> share of the way, and the scaling that
 * makes a guess of x0 of what the network says. The formulas of kiln_model_sampling (model.h).
 */
#ifndef KILN_SAMPLER_MODEL_SAMPLING_H
#define KILN_SAMPLER_MODEL_SAMPLING_H

#include "kiln/model.h"
#include "kiln/sampler.h"

/* A model's description with the defaults filled in; borrows the model's table. */
typedef struct {
    const double *sigma; /* [n] ascending */
    size_t n;
    uint32_t prediction, time; /* kiln_prediction, kiln_time */
    double multiplier, offset, shift, sigma_data;
} model_sampling;

#define LEVEL_ABOVE_ALL 1e9 /* what stands for infinity where a number has to be finite */

model_sampling model_sampling_of(const kiln_model *model);

double model_sampling_sigma_min(const model_sampling *l); /* the table's ends */
double model_sampling_sigma_max(const model_sampling *l);
/* The timestep the network is given at sigma. */
double model_sampling_timestep(const model_sampling *l, double sigma);
/* The level of a timestep; clamped to the table where there is one. */
double model_sampling_sigma(const model_sampling *l, double timestep);
/* Share of the denoising done -> level: 0 is before everything (infinity), 1 after (0). */
double model_sampling_percent_to_sigma(const model_sampling *l, double percent);

/* The network sees input * x; x0 = of_x * x + of_prediction * prediction. */
typedef struct {
    double input, of_x, of_prediction;
} level_scaling;
level_scaling model_sampling_scaling(const model_sampling *l, double sigma);

/* Of the start: x = of_noise * noise + of_latent * latent. A start at the top gets sqrt(1 + sigma^2), the variance
 * the network was trained with there; flow blends; RFLOW has the sum at every level; IMAGE_FLOW has no noise. ComfyUI's
 * noise_scaling. */
typedef struct {
    double of_noise, of_latent;
} level_blend;
level_blend model_sampling_blend(const model_sampling *l, double sigma);
level_blend model_sampling_start(const model_sampling *l, double sigma);
/* Of the end: where sampling stops at sigma the latent is (x - minus) / divided_by. Flow leaves (1 - sigma) of it. */
typedef struct {
    double minus, divided_by;
} level_rest;
level_rest model_sampling_rest(const model_sampling *l, double sigma);

/* What a schedule's row is given for this model. */
kiln_schedule_input model_sampling_schedule_input(const model_sampling *l, size_t steps);

/* SD's training table with its last level without signal: Lin et al. 2023, "Common Diffusion Noise Schedules and
 * Sample Steps are Flawed", algorithm 1. sigma, out: [n] ascending; may be the same. */
void model_sampling_zero_terminal_snr(const double *sigma, size_t n, double *out);

#endif
