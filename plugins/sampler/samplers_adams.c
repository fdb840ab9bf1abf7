/* samplers_adams.c - SA-Solver, Xue et al. 2023 (arXiv:2309.05019): stochastic Adams predictor and corrector in
 * lambda = log(alpha / sigma), with noise of strength tau between two levels and none outside them.
 *
 * Between steps x is the prediction; the corrected x, the noise that was added to predict, and the guesses of past
 * steps (newest first) are in slots. In the mode PECE the corrected x is evaluated again.
 */
#include "samplers_common.h"

#include "model_sampling.h"

#include <stdio.h>

enum { ADAMS_MAX = 6 };

typedef struct {
    double eta, sde_start_percent, sde_end_percent, sde_start_sigma, sde_end_sigma, s_noise;
    int64_t predictor_order, corrector_order;
    int32_t use_pece, simple_order_2;
} adams_options;

static kiln_latent *past_guess(const kiln_sampling *s, size_t k)
{
    char name[32];
    snprintf(name, sizeof name, "guess_%zu", k);
    return s->slot(s, name);
}

/* Noise strength of the step to sigma. */
static double tau_at(const kiln_sampling *s, double sigma)
{
    const adams_options *o = s->options;
    if (o->eta <= 0) return 0;
    double start = o->sde_start_sigma > 0 ? o->sde_start_sigma : s->percent_to_sigma(s, o->sde_start_percent);
    double end = o->sde_end_sigma > 0 ? o->sde_end_sigma : s->percent_to_sigma(s, o->sde_end_percent);
    return sigma <= start && sigma >= end ? o->eta : 0;
}

/* ---- coefficients: eqs. 15 and 18 ---- */

/* m[p] = g * integral of exp(g (u - h)) u^p over 0 .. h, g = 1 + tau^2: by parts, m[p] = h^p - p/g m[p-1]. */
static void exponential_moments(double h, double g, size_t n, double *m)
{
    m[0] = -expm1(-g * h);
    for (size_t p = 1; p < n; p++) m[p] = pow(h, (double)p) - (double)p / g * m[p - 1];
}

/* Solves sum_j at[j]^p b[j] = m[p], p = 0 .. n-1: the integrals of Lagrange's polynomials through at[]. Each is written
 * in powers of u by multiplying its factors out. */
static void lagrange_integrals(const double *at, size_t n, const double *m, double *b)
{
    for (size_t j = 0; j < n; j++) {
        double c[ADAMS_MAX + 1] = {1}, below = 1;
        size_t degree = 0;
        for (size_t k = 0; k < n; k++) {
            if (k == j) continue;
            for (size_t p = ++degree; p > 0; p--) c[p] = c[p - 1] - at[k] * c[p];
            c[0] *= -at[k];
            below *= at[j] - at[k];
        }
        b[j] = 0;
        for (size_t p = 0; p < n; p++) b[j] += c[p] * m[p] / below;
    }
}

/* Weights of the n guesses (newest first) at steps newest, newest-1, ... for the step from level `from` to from + 1. */
static void adams_weights(const kiln_sampling *s, size_t from, size_t newest, size_t n, double tau, double *b)
{
    const adams_options *o = s->options;
    double at[ADAMS_MAX], m[ADAMS_MAX], start = level_lambda(s, level_at(s, from)), g = 1 + tau * tau;
    double h = level_lambda(s, level_at(s, from + 1)) - start, alpha = level_alpha(s, level_at(s, from + 1));
    for (size_t k = 0; k < n; k++) at[k] = level_lambda(s, level_at(s, newest - k)) - start;
    exponential_moments(h, g, n, m);
    if (o->simple_order_2 && n == 2) { /* appendix D: the slope's weight to second order in h */
        b[1] = newest > from ? m[0] - g * h / 2 : g * h * h / 2 / at[1];
        b[0] = m[0] - b[1];
    } else {
        lagrange_integrals(at, n, m, b);
    }
    for (size_t k = 0; k < n; k++) b[k] *= alpha;
}

/* out = shrink * from + sum of weighted guesses */
static void adams_step(const kiln_sampling *s, kiln_latent *out, double shrink, kiln_latent *from, size_t n,
                       const double *b)
{
    MIX(s, out, {shrink, from});
    for (size_t k = 0; k < n; k++) MIX(s, out, {1, out}, {b[k], past_guess(s, k)});
}

/* ---- the run ---- */

typedef struct {
    size_t predictor, corrector; /* orders of this step; corrector 0: none */
} adams_orders;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Lower at the start, where there is no history, and towards sigma 0. */
static adams_orders orders_at(const kiln_sampling *s, size_t i, int pece)
{
    const adams_options *o = s->options;
    size_t kept = (size_t)(o->predictor_order > o->corrector_order ? o->predictor_order : o->corrector_order);
    size_t have = least(i + 1, kept);
    adams_orders r = {least((size_t)o->predictor_order, have), least((size_t)o->corrector_order, have)};
    if (i == 0 || (s->sigma[i + 1] == 0 && !pece)) r.corrector = 0;
    if (s->sigma[s->n] == 0) {
        r.predictor = least(r.predictor, s->n - 1 - i);
        r.corrector = least(r.corrector, s->n - i);
    }
    return r;
}

static double shrink_of(const kiln_sampling *s, size_t from, double tau)
{
    double now = level_at(s, from), next = level_at(s, from + 1);
    return next / now * exp(-tau * tau * (level_lambda(s, next) - level_lambda(s, now)));
}

/* x of level i from the corrected x of level i - 1, with the guess at i known. */
static kiln_status correct(const kiln_sampling *s, size_t i, size_t order, int pece, kiln_latent *x, kiln_latent *noise,
                           kiln_latent *d)
{
    double b[ADAMS_MAX], tau = tau_at(s, level_at(s, i));
    if (order == 0) {
        COPY(s, x, s->x);
        return KILN_OK;
    }
    adams_weights(s, i - 1, i, order, tau, b);
    adams_step(s, x, shrink_of(s, i - 1, tau), x, order, b);
    if (tau > 0 && ((const adams_options *)s->options)->s_noise > 0) MIX(s, x, {1, x}, {1, noise});
    if (!pece) return KILN_OK;
    TRY(s->denoise(s, x, level_at(s, i), d));
    COPY(s, past_guess(s, 0), d);
    return KILN_OK;
}

static kiln_status predict(const kiln_sampling *s, size_t i, size_t order, kiln_latent *x, kiln_latent *noise,
                           kiln_latent *d)
{
    double b[ADAMS_MAX], next = level_at(s, i + 1), tau = tau_at(s, next),
                         s_noise = ((const adams_options *)s->options)->s_noise;
    if (next == 0) {
        COPY(s, s->x, d);
        return KILN_OK;
    }
    adams_weights(s, i, i, order, tau, b);
    adams_step(s, s->x, shrink_of(s, i, tau), x, order, b);
    if (tau <= 0 || s_noise <= 0) return KILN_OK;
    double h = level_lambda(s, next) - level_lambda(s, level_at(s, i));
    TRY(s->noise(s, level_at(s, i), next, noise));
    MIX(s, noise, {next * sqrt(-expm1(-2 * tau * tau * h)) * s_noise, noise});
    MIX(s, s->x, {1, s->x}, {1, noise});
    return KILN_OK;
}

static kiln_status sa_solver(const kiln_sampling *s, int pece)
{
    SLOT(s, d, "denoised");
    SLOT(s, x, "x_corrected");
    SLOT(s, noise, "noise");
    for (size_t k = 0; k < ADAMS_MAX; k++)
        if (k < s->n && !past_guess(s, k)) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i < s->n; i++) {
        adams_orders order = orders_at(s, i, pece);
        TRY(s->denoise(s, s->x, level_at(s, i), d));
        for (size_t k = least(i, ADAMS_MAX - 1); k > 0; k--) COPY(s, past_guess(s, k), past_guess(s, k - 1));
        COPY(s, past_guess(s, 0), d);
        TRY(correct(s, i, order.corrector, pece, x, noise, d));
        TRY(predict(s, i, order.predictor, x, noise, d));
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status run_sa_solver(const kiln_sampling *s)
{
    return sa_solver(s, ((const adams_options *)s->options)->use_pece);
}
static kiln_status run_sa_solver_pece(const kiln_sampling *s) { return sa_solver(s, 1); }

/* ---- rows ---- */

#define ADAMS_PARAMS                                                                                                   \
    NUMBER(adams_options, eta, 1, 0, 10, "Strength of the noise; 0: none."),                                           \
        {.name = "sde_start_percent",                                                                                  \
         .type = KILN_P_FLOAT,                                                                                         \
         .offset = offsetof(adams_options, sde_start_percent),                                                         \
         .def = 0.2,                                                                                                   \
         .min = 0,                                                                                                     \
         .max = 1,                                                                                                     \
         .step = 0.001,                                                                                                \
         .doc = "Share of the way from which there is noise."},                                                        \
        {.name = "sde_end_percent",                                                                                    \
         .type = KILN_P_FLOAT,                                                                                         \
         .offset = offsetof(adams_options, sde_end_percent),                                                           \
         .def = 0.8,                                                                                                   \
         .min = 0,                                                                                                     \
         .max = 1,                                                                                                     \
         .step = 0.001,                                                                                                \
         .doc = "Share of the way up to which there is noise."},                                                       \
        NUMBER(adams_options, sde_start_sigma, 0, 0, LEVEL_ABOVE_ALL,                                                  \
               "Level from which there is noise; 0: that of sde_start_percent."),                                      \
        NUMBER(adams_options, sde_end_sigma, 0, 0, LEVEL_ABOVE_ALL,                                                    \
               "Level up to which there is noise; 0: that of sde_end_percent."),                                       \
        S_NOISE(adams_options),                                                                                        \
        KIT_INT(adams_options, predictor_order, 3, 1, 6, "Past guesses the predictor uses at most."),                  \
        KIT_INT(adams_options, corrector_order, 4, 0, 6, "Guesses the corrector uses at most; 0: no corrector."),      \
    {                                                                                                                  \
        .name = "simple_order_2", .type = KILN_P_BOOL, .offset = offsetof(adams_options, simple_order_2),              \
        .doc = "The paper's simpler weights where two guesses are used."                                               \
    }

static const kiln_param adams_params[] = {
    ADAMS_PARAMS,
    {.name = "use_pece",
     .type = KILN_P_BOOL,
     .offset = offsetof(adams_options, use_pece),
     .doc = "Evaluate the corrected latent again."},
};
static const kiln_param pece_params[] = {ADAMS_PARAMS};

const kiln_sampler sampler_sa_solver = {SAMPLER(sa_solver),
                                        .flags = KILN_SAMPLER_STOCHASTIC,
                                        .doc = "Stochastic Adams: predictor of order 3, corrector of order 4.",
                                        .source = "Xue et al. 2023 (arXiv:2309.05019), algorithm 1",
                                        .order = 4,
                                        .evaluations = 1,
                                        PARAMS(adams_params, adams_options),
                                        .run = run_sa_solver};
const kiln_sampler sampler_sa_solver_pece = {SAMPLER(sa_solver_pece),
                                             .flags = KILN_SAMPLER_STOCHASTIC,
                                             .doc = "sa_solver that evaluates the corrected latent again.",
                                             .source = "Xue et al. 2023 (arXiv:2309.05019), algorithm 1",
                                             .order = 4,
                                             .evaluations = 2,
                                             PARAMS(pece_params, adams_options),
                                             .run = run_sa_solver_pece};
