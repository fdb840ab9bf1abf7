/* sample.h - one sampling from beginning to end, and the noise levels of one: what "kiln.sampling/1" offers. */
#ifndef KILN_SAMPLER_SAMPLE_H
#define KILN_SAMPLER_SAMPLE_H

#include "kiln/sampling.h"
#include "model_sampling.h"

/* As the functions of kiln_sampling_api. */
kiln_status sample_open(const kiln_call *c, const kiln_sampling_job *job, kiln_session **out);
kiln_status sample_run(kiln_session *s);
kiln_status sample_finish(kiln_session *s, kiln_value **out, kiln_value **denoised);
kiln_status sample_add_noise(const kiln_call *c, const kiln_value *model, const kiln_noise *noise, double sigma,
                             const kiln_value *latent, kiln_value **out);

/* ---- sample_levels.c ---- */

/* The row a parameter names; fails with the nearest name. */
kiln_status sample_find(const kiln_call *c, const char *name, const kiln_sampler **out);
/* How the MODEL counts noise. */
kiln_status sample_model_sampling(const kiln_call *c, const kiln_value *model, model_sampling *out);
kiln_status sample_sigmas(const kiln_call *c, const kiln_value *model, const kiln_sigma_options *options,
                          double **sigma, size_t *n);
kiln_status sigmas_new(const kiln_call *c, const double *sigma, size_t n, kiln_value **out);
kiln_status sigmas_read(const kiln_call *c, const kiln_value *sigmas, const kiln_value *model, double **sigma,
                        size_t *n);

#endif
