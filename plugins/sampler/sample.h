/* sample.h - one sampling: a latent, noise levels, a sampler, a guider. What KSampler and its relatives share. */
#ifndef KILN_SAMPLER_SAMPLE_H
#define KILN_SAMPLER_SAMPLE_H

#include "guider.h"
#include "kiln/sampler.h"
#include "noise_source.h"

typedef struct {
    const kiln_call *call;
    guider guider; /* its model and conditionings too */
    const kiln_value *latent;
    const kiln_sampler *sampler;
    const void *options; /* the sampler's own, NULL: its defaults */
    const double *sigma; /* [n + 1]                               */
    size_t n;
    uint64_t seed;
    int no_noise;            /* the latent carries its noise already       */
    noise_options source;    /* who draws it                               */
    const kiln_value *noise; /* f32 like the latent's samples; NULL: of the seed */
} sample_job;

/* A LATENT like the one given, its samples denoised. denoised, where it is not NULL: the last guess of x0 on the way. n
 * == 0 returns the input twice. Refuses levels that make no sense (0 before the end, rising for a sampler that adds
 * noise). A state that an earlier call of the same key left is taken up (sample_state.h). */
kiln_status sample_run(const sample_job *job, kiln_value **out, kiln_value **denoised);

/* A LATENT like the job's with its noise at level sigma added (a flow: blended in). Of the guider only the model is
 * looked at. */
kiln_status sample_add_noise(const sample_job *job, double sigma, kiln_value **out);

/* Which levels: of a schedule's row, for steps; of the last part of int(steps / denoise) when denoise < 1. */
typedef struct {
    const char *schedule;
    int64_t steps;
    double denoise;
    int drop_last_but_one; /* KILN_SAMPLER_EXTRA_STEP: one more, and the last but one dropped        */
    int at_most_steps;     /* also cut a schedule that makes more than steps + 1, as BasicScheduler does */
} sigma_options;

/* In the call's scratch. n: steps, so that there are n + 1 levels; 0 and NULL when denoise is 0. */
kiln_status sample_sigmas(const kiln_call *c, const kiln_model *model, const sigma_options *options, double **sigma,
                          size_t *n);

/* The row a parameter names; fails with the nearest name. */
kiln_status sample_find(const kiln_call *c, const char *name, const kiln_sampler **out);

#endif
