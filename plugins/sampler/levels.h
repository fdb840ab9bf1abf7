/* levels.h - how a model counts noise: level (sigma) <-> timestep <-> share of the way, and the scaling that makes
 * a guess of x0 of what the network says. One place for kiln_model_sampling and kiln_levels (model.h).
 */
#ifndef KILN_SAMPLER_LEVELS_H
#define KILN_SAMPLER_LEVELS_H

#include "kiln/model.h"
#include "kiln/sampler.h"

/* A model's description with the defaults filled in; borrows the model's table. */
typedef struct {
    const double *sigma; /* [n] ascending */
    size_t n;
    uint32_t prediction, time; /* kiln_prediction, kiln_time */
    double multiplier, offset, shift, sigma_data;
} levels;

#define LEVEL_ABOVE_ALL 1e9 /* what stands for infinity where a number has to be finite */

levels levels_of(const kiln_model *model);

double levels_least(const levels *l); /* the table's ends */
double levels_most(const levels *l);
/* The number the network is told at sigma. */
double levels_timestep(const levels *l, double sigma);
/* The level of a timestep; clamped to the table where there is one. */
double levels_sigma(const levels *l, double timestep);
/* Share of the denoising done -> level: 0 is before everything (infinity), 1 after (0). */
double levels_at_percent(const levels *l, double percent);

/* The network sees input * x; x0 = of_x * x + of_prediction * prediction. */
typedef struct {
    double input, of_x, of_prediction;
} level_scaling;
level_scaling levels_scaling(const levels *l, double sigma);

/* Of the start: x = of_noise * noise + of_latent * latent. A start at the top gets sqrt(1 + sigma^2), the variance
 * the network was trained with there; flow blends; RFLOW has the sum at every level; IMAGE_FLOW has no noise. ComfyUI's
 * noise_scaling. */
typedef struct {
    double of_noise, of_latent;
} level_blend;
level_blend levels_blend(const levels *l, double sigma);
level_blend levels_start(const levels *l, double sigma);
/* Of the end: where sampling stops at sigma the latent is (x - minus) / divided_by. Flow leaves (1 - sigma) of it. */
typedef struct {
    double minus, divided_by;
} level_rest;
level_rest levels_rest(const levels *l, double sigma);

/* What a schedule's row is given for this model. */
kiln_schedule_input levels_schedule(const levels *l, size_t steps);

/* SD's training table with its last level without signal: Lin et al. 2023, "Common Diffusion Noise Schedules and
 * Sample Steps are Flawed", algorithm 1. sigma, out: [n] ascending; may be the same. */
void levels_zero_terminal(const double *sigma, size_t n, double *out);

#endif
