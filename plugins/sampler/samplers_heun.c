/* samplers_heun.c - corrector steps in sigma: Heun's and Heun++. */
#include "samplers_common.h"

/* ---- heun: Karras et al. 2022, algorithm 2; the step to 0 is Euler's ---- */

static kiln_status run_heun(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    SLOT(s, d2, "denoised_2");
    SLOT(s, x2, "x_2");
    for (size_t i = s->first; i < s->n; i++) {
        double hat, next = s->sigma[i + 1];
        TRY(churn(s, i, &hat));
        TRY(s->denoise(s, s->x, hat, d));
        if (next == 0) {
            COPY(s, s->x, d);
        } else {
            euler_step(s, x2, hat, next, d);
            TRY(s->denoise(s, x2, next, d2));
            /* x + dt/2 ((x - d)/hat + (x2 - d2)/next) */
            double a = (next - hat) / (2 * hat), b = (next - hat) / (2 * next);
            MIX(s, s->x, {1 + a, s->x}, {-a, d}, {b, x2}, {-b, d2});
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- heunpp2: Heun++ (Carzit, sd-webui-samplers-scheduler): three slopes, those at the next two levels weighted with
 * level / (3 sigma[0]); in the last but one step two, with level / (2 sigma[0]); the last step is Euler's ---- */

static kiln_status heunpp2_step(const kiln_sampling *s, size_t i, double hat, kiln_latent *d)
{
    double next = s->sigma[i + 1], end = s->sigma[s->n], dt = next - hat;
    SLOT(s, d2, "denoised_2");
    SLOT(s, d3, "denoised_3");
    SLOT(s, x2, "x_2");
    SLOT(s, x3, "x_3");
    euler_step(s, x2, hat, next, d);
    TRY(s->denoise(s, x2, next, d2));
    double after = s->sigma[i + 2];
    int three = after != end;
    double most = (three ? 3 : 2) * s->sigma[0], w2 = next / most, w3 = three ? after / most : 0, w1 = 1 - w2 - w3;
    double a = dt * w1 / hat, b = dt * w2 / next;
    if (!three) {
        MIX(s, s->x, {1 + a, s->x}, {-a, d}, {b, x2}, {-b, d2});
        return KILN_OK;
    }
    double ratio = (after - next) / next, c = dt * w3 / after;
    MIX(s, x3, {1 + ratio, x2}, {-ratio, d2});
    TRY(s->denoise(s, x3, after, d3));
    MIX(s, s->x, {1 + a, s->x}, {-a, d}, {b, x2}, {-b, d2}, {c, x3}, {-c, d3});
    return KILN_OK;
}

static kiln_status run_heunpp2(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        double hat;
        TRY(churn(s, i, &hat));
        TRY(s->denoise(s, s->x, hat, d));
        if (s->sigma[i + 1] == s->sigma[s->n])
            euler_step(s, s->x, hat, s->sigma[i + 1], d);
        else
            TRY(heunpp2_step(s, i, hat, d));
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

const kiln_sampler sampler_heun = {SAMPLER(heun),
                                   .flags = KILN_SAMPLER_CONTINUES_NOISE,
                                   .doc = "Second order, two evaluations a step.",
                                   .source = "Karras et al. 2022 (arXiv:2206.00364), algorithm 2",
                                   .order = 2,
                                   .evaluations = 2,
                                   PARAMS(churn_params, churn_options),
                                   .run = run_heun};
const kiln_sampler sampler_heunpp2 = {SAMPLER(heunpp2),
                                      .flags = KILN_SAMPLER_CONTINUES_NOISE,
                                      .doc = "Three slopes a step, later ones the lighter the lower the level.",
                                      .source = "Heun++ (Carzit, sd-webui-samplers-scheduler)",
                                      .order = 1,
                                      .evaluations = 3,
                                      PARAMS(churn_params, churn_options),
                                      .run = run_heunpp2};
