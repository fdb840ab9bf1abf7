/* sample.h - one sampling: a latent, noise levels, a sampler, a guide. What KSampler and its relatives share. */
#ifndef KILN_SAMPLER_SAMPLE_H
#define KILN_SAMPLER_SAMPLE_H

#include "kiln/model.h"
#include "kiln/sampler.h"

typedef struct {
    const kiln_call *call;
    const kiln_value *model, *positive, *negative, *latent;
    const kiln_sampler *sampler;
    const void *options; /* the sampler's own, NULL: its defaults */
    const double *sigma; /* [n + 1] descending                    */
    size_t n;
    double cfg;
    uint64_t seed;
    int no_noise; /* the latent carries its noise already */
} sample_job;

/* A LATENT like the one given, its samples denoised. n == 0 returns the input. */
kiln_status sample_run(const sample_job *job, kiln_value **out);

/* The noise levels for `steps`, made by the schedule's row for this model; the last steps + 1 of
 * int(steps / denoise) when denoise < 1; with the sampler's wishes honoured. In the call's scratch. */
kiln_status sample_sigmas(const kiln_call *c, const kiln_model *model, const kiln_sampler *sampler,
                          const char *schedule, int64_t steps, double denoise, double **sigma, size_t *n);

/* The row a parameter names; fails with the nearest name. */
kiln_status sample_find(const kiln_call *c, const char *name, const kiln_sampler **out);

#endif
