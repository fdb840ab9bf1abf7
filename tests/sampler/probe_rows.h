/* probe_rows.h - sampler rows for tests, one for each way a row can ask for noise: each takes Euler steps and adds what
 * noise() gives twice a step, to a level between and to the next, as dpmpp_sde asks.
 */
#ifndef KILN_TESTS_PROBE_ROWS_H
#define KILN_TESTS_PROBE_ROWS_H

#include "sampling_kit.h"

/* Two questions a step. */
static kiln_status probe_run(const kiln_sampling *s)
{
    kiln_latent *d = s->slot(s, "denoised"), *between = s->slot(s, "between"), *noise = s->slot(s, "noise");
    double *asked = s->scalars(s, "asked", 1);
    if (!d || !between || !noise || !asked) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i < s->n; i++) {
        double from = s->sigma[i], to = s->sigma[i + 1], ratio = to / from;
        kiln_status status = s->denoise(s, s->x, from, d);
        if (status == KILN_OK) status = s->noise(s, from, sqrt(from * fmax(to, from / 4)), between);
        if (status == KILN_OK) status = s->noise(s, from, to, noise);
        if (status != KILN_OK) return status;
        s->lincomb(s, s->x, 4, (const double[]){ratio, 1 - ratio, to / 8, to / 8},
                   (kiln_latent *const[]){s->x, d, between, noise});
        *asked += 2;
        if ((status = s->step(s, i, d)) != KILN_OK) return status;
    }
    return KILN_OK;
}

/* x becomes the noise asked for in the last step but one. */
static kiln_status probe_last(const kiln_sampling *s)
{
    kiln_latent *d = s->slot(s, "denoised"), *guess = s->slot(s, "guess");
    if (!d || !guess) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i + 1 < s->n; i++) {
        kiln_status status = s->denoise(s, s->x, s->sigma[i], guess); /* which a sampler has to ask for */
        if (status == KILN_OK) status = s->noise(s, s->sigma[i], s->sigma[i + 1], d);
        if (status != KILN_OK) return status;
    }
    s->lincomb(s, s->x, 1, (const double[]){1}, (kiln_latent *const[]){d});
    return KILN_OK;
}

#define PROBE_ROW(id, run_, flags_)                                                                                    \
    {                                                                                                                  \
        .size = sizeof(kiln_sampler), .name = id, .doc = "test", .source = "test",                                     \
        .flags = KILN_SAMPLER_STOCHASTIC | (flags_), .order = 1, .evaluations = 1, .param_stride = sizeof(kiln_param), \
        .run = run_                                                                                                    \
    }
#define PROBE_ROWS(prefix, run_)                                                                                       \
    PROBE_ROW(prefix "white", run_, 0), PROBE_ROW(prefix "path", run_, KILN_SAMPLER_BROWNIAN),                         \
        PROBE_ROW(prefix "path_gpu", run_, KILN_SAMPLER_BROWNIAN | KILN_SAMPLER_BROWNIAN_CUDA),                        \
        PROBE_ROW(prefix "goes_on", run_, KILN_SAMPLER_CONTINUES_NOISE)
static const kiln_sampler probe_rows[] = {PROBE_ROWS("probe_", probe_run), PROBE_ROWS("last_", probe_last)};

/* After open_plugin(). last: those of probe_last too. */
static inline void open_probes(int last)
{
    const kiln_sampler_api *api = rig_host()->ability(KILN_SAMPLER_ABILITY);
    registry_owner_set("test", NULL);
    for (int i = 0; i < (last ? 8 : 4); i++) CHECK_EQ(api->register_sampler(&probe_rows[i]), KILN_OK);
    registry_owner_set(NULL, NULL);
}

#endif
