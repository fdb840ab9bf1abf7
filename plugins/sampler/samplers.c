/* samplers.c - the samplers, each as its paper writes it.
 *
 * x is the latent at noise level s[i], d the denoiser's guess of x0 there. Every update is a linear
 * combination of latents with scalar coefficients; the comment over each gives the formula's source.
 */
#include "samplers.h"

#include <math.h>

#define TRY(expr)                                                                                  \
    do {                                                                                           \
        kiln_status status_ = (expr);                                                              \
        if (status_ != KILN_OK) return status_;                                                    \
    } while (0)
#define SLOT(s, name, text)                                                                        \
    kiln_latent *name = (s)->slot((s), text);                                                      \
    if (!name) return KILN_ERR_NOMEM

/* x <- a x + b d */
static void combine(const kiln_sampling *s, double a, double b, kiln_latent *d)
{
    s->lincomb(s, s->x, 2, (const double[]){a, b}, (kiln_latent *const[]){s->x, d});
}

/* One Euler step of dx/dsigma = (x - d)/sigma from `from` to `to`. */
static void euler_step(const kiln_sampling *s, double from, double to, kiln_latent *d)
{
    double ratio = to / from;
    combine(s, ratio, 1 - ratio, d);
}

/* ---- euler: Karras et al. 2022, algorithm 2 without its second-order half and without churn ---------- */

static kiln_status run_euler(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, s->sigma[i], d));
        euler_step(s, s->sigma[i], s->sigma[i + 1], d);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- euler_ancestral: a step down to sigma_down, then fresh noise up to the next level --------------- */

typedef struct {
    double eta, s_noise;
} ancestral_options;

/* k-diffusion get_ancestral_step: up = min(to, eta sqrt(to^2 (from^2 - to^2) / from^2)), down^2 + up^2 = to^2 */
static void ancestral_levels(double from, double to, double eta, double *down, double *up)
{
    double most = eta * sqrt(fmax(0, to * to * (from * from - to * to) / (from * from)));
    *up = most < to ? most : to;
    *down = sqrt(fmax(0, to * to - *up * *up));
}

static kiln_status run_euler_ancestral(const kiln_sampling *s)
{
    const ancestral_options *o = s->options;
    SLOT(s, d, "denoised");
    SLOT(s, noise, "noise");
    for (size_t i = s->first; i < s->n; i++) {
        double from = s->sigma[i], to = s->sigma[i + 1], down, up;
        TRY(s->denoise(s, s->x, from, d));
        ancestral_levels(from, to, o->eta, &down, &up);
        euler_step(s, from, down, d);
        if (down > 0) { /* at the end there is nothing to add, and no number is drawn */
            TRY(s->noise(s, from, to, noise));
            combine(s, 1, up * o->s_noise, noise);
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- heun: Karras et al. 2022, algorithm 2 without churn; the step to 0 is Euler's ------------------- */

static kiln_status run_heun(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    SLOT(s, d2, "denoised_2");
    SLOT(s, x2, "x_2");
    for (size_t i = s->first; i < s->n; i++) {
        double from = s->sigma[i], to = s->sigma[i + 1], ratio = to / from, dt = to - from;
        TRY(s->denoise(s, s->x, from, d));
        if (to == 0) {
            euler_step(s, from, to, d);
        } else {
            s->lincomb(s, x2, 2, (const double[]){ratio, 1 - ratio}, (kiln_latent *const[]){s->x, d});
            TRY(s->denoise(s, x2, to, d2));
            /* x + dt/2 ((x - d)/from + (x2 - d2)/to) */
            s->lincomb(s, s->x, 4, (const double[]){1 + dt / (2 * from), -dt / (2 * from), dt / (2 * to), -dt / (2 * to)},
                       (kiln_latent *const[]){s->x, d, x2, d2});
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- dpmpp_2m: DPM-Solver++(2M), Lu et al. 2022, algorithm 2, with t = -log sigma -------------------- */

static kiln_status run_dpmpp_2m(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    SLOT(s, old, "old_denoised");
    double *have_old = s->scalars(s, "have_old", 1);
    if (!have_old) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i < s->n; i++) {
        double from = s->sigma[i], to = s->sigma[i + 1], ratio = to / from;
        TRY(s->denoise(s, s->x, from, d));
        double gain = 1 - ratio; /* -expm1(-h), h = log(from/to) */
        if (*have_old == 0 || to == 0) {
            combine(s, ratio, gain, d);
        } else {
            double h = log(from / to), h_last = log(s->sigma[i - 1] / from), r = h_last / h;
            s->lincomb(s, s->x, 3, (const double[]){ratio, gain * (1 + 1 / (2 * r)), -gain / (2 * r)},
                       (kiln_latent *const[]){s->x, d, old});
        }
        s->lincomb(s, old, 1, (const double[]){1}, (kiln_latent *const[]){d});
        *have_old = 1;
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- rows ------------------------------------------------------------------------------------------- */

static const kiln_param ancestral_param[] = {
    {.name = "eta", .type = KILN_P_FLOAT, .offset = offsetof(ancestral_options, eta), .def = 1, .min = 0, .max = 100,
     .step = 0.01, .doc = "How much of the noise is made anew each step; 0 is plain euler."},
    {.name = "s_noise", .type = KILN_P_FLOAT, .offset = offsetof(ancestral_options, s_noise), .def = 1, .min = 0,
     .max = 100, .step = 0.01, .doc = "Scale of the noise that is added."},
};

#define COMMON(id) .size = sizeof(kiln_sampler), .name = #id, .param_stride = sizeof(kiln_param)
static const kiln_sampler row_euler = {COMMON(euler), .doc = "First order, deterministic.",
    .source = "Karras et al. 2022, algorithm 2 (first order)", .order = 1, .evaluations = 1, .run = run_euler};
static const kiln_sampler row_euler_ancestral = {COMMON(euler_ancestral), .flags = KILN_SAMPLER_STOCHASTIC,
    .doc = "Euler with fresh noise each step.", .source = "k-diffusion sample_euler_ancestral", .order = 1,
    .evaluations = 1, .param = ancestral_param, .n_param = 2, .params_size = sizeof(ancestral_options),
    .run = run_euler_ancestral};
static const kiln_sampler row_heun = {COMMON(heun), .doc = "Second order, two evaluations a step.",
    .source = "Karras et al. 2022, algorithm 2", .order = 2, .evaluations = 2, .run = run_heun};
static const kiln_sampler row_dpmpp_2m = {COMMON(dpmpp_2m), .doc = "Second order from the previous step.",
    .source = "Lu et al. 2022, DPM-Solver++(2M)", .order = 2, .evaluations = 1, .run = run_dpmpp_2m};
static const kiln_sampler row_ddim = {COMMON(ddim), .flags = KILN_SAMPLER_FRESH_MASK_NOISE, .doc = "DDIM with eta 0, which is Euler in sigma.",
    .source = "Song et al. 2020, eq. 13", .order = 1, .evaluations = 1, .run = run_euler};
#undef COMMON

const kiln_sampler *const sampler_rows[] = {&row_euler, &row_euler_ancestral, &row_heun, &row_dpmpp_2m, &row_ddim};
const size_t sampler_row_count = sizeof sampler_rows / sizeof sampler_rows[0];
