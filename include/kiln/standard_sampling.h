/* standard_sampling.h - the known ways to count noise, ready for a denoiser (kiln_model_sampling of denoiser.h). Header
 * only.
 *
 *     kiln_standard_sampling sampling;                                         // lives as long as the MODEL
 *     double sigma[1000];
 *     kiln_discrete_sigmas("scaled_linear", 0.00085, 0.012, 1000, sigma);
 *     kiln_standard_sampling_init(&sampling, &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = 1000,
 *                                                                .sigma = sigma});
 *     denoiser.sampling = &sampling.base;
 *
 * A family whose way is none of these fills a kiln_model_sampling of its own: nothing else in kiln knows these rows.
 */
#ifndef KILN_STANDARD_SAMPLING_H
#define KILN_STANDARD_SAMPLING_H

#include "denoiser.h"

#include <math.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the network's answer p means at level s, with d = sigma_data (1 but for EDM):
 *   EPS   x0 = x - s p                                                         Ho et al. 2020
 *   V     x0 = d^2/(s^2+d^2) x - s d/sqrt(s^2+d^2) p                           Salimans and Ho 2022, appendix D
 *   X0    x0 = p
 *   FLOW  x0 = x - s p, where x = (1-s) x0 + s noise and the network sees x    Lipman et al. 2022
 *   EDM   as V, with p of the other sign                                       Karras et al. 2022, eq. 7
 *   LCM   x0 = d^2/(u^2+d^2) x + u/sqrt(u^2+d^2) (x - s p), u = 10 timesteps, here d = 1/2   Luo et al. 2023
 *   IMAGE x0 = p, and the network sees x as it is (picture to picture)
 *   IMAGE_FLOW as IMAGE, of a latent that is given no noise; what it ends with is 1 - x. To samplers it is a flow
 *   RFLOW x0 = (x - s p)/(1+s), and the network sees x/(1+s): a rectified flow at time s/(1+s), in these numbers
 *                                                                               NVIDIA 2025 (Cosmos-Predict2)
 * All but FLOW, IMAGE, IMAGE_FLOW and RFLOW scale what the network sees by 1/sqrt(s^2 + sigma_data^2). */
typedef enum {
    KILN_PREDICT_EPS = 1,
    KILN_PREDICT_V,
    KILN_PREDICT_X0,
    KILN_PREDICT_FLOW,
    KILN_PREDICT_EDM,
    KILN_PREDICT_LCM,
    KILN_PREDICT_IMAGE,
    KILN_PREDICT_RFLOW,
    KILN_PREDICT_IMAGE_FLOW
} kiln_prediction;

/* How a noise level becomes the timestep the network is given. */
typedef enum {
    KILN_TIME_INTERPOLATED = 0, /* multiplier * place + offset, the place interpolated in log sigma (k-diffusion) */
    KILN_TIME_NEAREST,          /* the same of the nearest entry (ComfyUI)                                        */
    KILN_TIME_LOG,              /* log(sigma) / 4                                (Karras et al. 2022)             */
    KILN_TIME_ANGLE,            /* 2/pi atan(sigma)                              (Salimans and Ho 2022)           */
    KILN_TIME_FLOW,             /* multiplier * sigma; the level at share u of the way is
                                   shift u / (1 + (shift-1) u)                   (Esser et al. 2024, eq. 23)      */
    KILN_TIME_RATIO             /* sigma / (1 + sigma)                                                            */
} kiln_time;

/* A member that is 0 has its default. This struct and the next stay inside the plugin that makes them: others see
 * `base` alone. */
typedef struct {
    uint32_t prediction, time; /* kiln_prediction, kiln_time                                  */
    uint32_t n_sigma;          /* 2 or more                                                   */
    const double *sigma;       /* [n_sigma] ascending training levels                         */
    double multiplier, offset; /* of the timestep; multiplier 1 by default                    */
    double shift;              /* of FLOW, 1 by default                                       */
    double sigma_data;         /* standard deviation of the data in model space, 1 by default */
} kiln_sampling_row;

typedef struct {
    kiln_model_sampling base; /* base.self points back here: not to be moved */
    kiln_sampling_row row;
    char identity[160];
} kiln_standard_sampling;

/* ---- tables ---- */

/* The place of a level in a table, interpolated in log sigma (k-diffusion's DiscreteSchedule.sigma_to_t), and back. */
static inline double kiln_sigma_to_t(const double *table, size_t n, double sigma)
{
    if (n < 2 || sigma <= table[0]) return 0;
    if (sigma >= table[n - 1]) return (double)(n - 1);
    size_t low = 0, high = n - 1;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (table[middle] <= sigma)
            low = middle;
        else
            high = middle;
    }
    double a = log(table[low]), b = log(table[high]);
    return (double)low + (log(sigma) - a) / (b - a);
}

static inline double kiln_t_to_sigma(const double *table, size_t n, double t)
{
    if (t <= 0) return table[0];
    if (t >= (double)(n - 1)) return table[n - 1];
    size_t low = (size_t)t;
    double part = t - (double)low;
    return exp((1 - part) * log(table[low]) + part * log(table[low + 1]));
}

/* DDPM's discrete levels: beta from start to end, "linear", or linear in its square root ("scaled_linear", SD);
 * abar = prod(1 - beta), sigma = sqrt((1 - abar) / abar). 0: another schedule's name. */
static inline int kiln_discrete_sigmas(const char *schedule, double start, double end, size_t n, double *sigma)
{
    int scaled = strcmp(schedule, "scaled_linear") == 0;
    double abar = 1, a = scaled ? sqrt(start) : start, b = scaled ? sqrt(end) : end;
    if (!scaled && strcmp(schedule, "linear") != 0) return 0;
    for (size_t i = 0; i < n; i++) {
        double beta = a + (b - a) * (double)i / (double)(n > 1 ? n - 1 : 1);
        abar *= 1 - (scaled ? beta * beta : beta);
        sigma[i] = sqrt((1 - abar) / abar);
    }
    return 1;
}

/* The table with almost no signal at its last level (Lin et al. 2023, algorithm 1; "ztsnr"). Its last alpha-bar is not
 * their 0 but the number that released v-prediction models have, so that the level stays finite (4518.7). out may be
 * sigma. */
static inline void kiln_zero_terminal_snr(const double *sigma, size_t n, double *out)
{
    const double last_alpha = 4.8973451890853435e-08;
    double first = 1 / sqrt(sigma[0] * sigma[0] + 1), last = 1 / sqrt(sigma[n - 1] * sigma[n - 1] + 1);
    for (size_t i = 0; i < n; i++) {
        double root = (1 / sqrt(sigma[i] * sigma[i] + 1) - last) * first / (first - last);
        double alpha = i + 1 == n ? last_alpha : root * root;
        out[i] = sqrt((1 - alpha) / alpha);
    }
}

/* n levels between two ends, evenly spaced in log sigma: the table of a continuous model. */
static inline void kiln_continuous_sigmas(double sigma_min, double sigma_max, size_t n, double *sigma)
{
    double low = log(sigma_min), high = log(sigma_max);
    for (size_t i = 0; i < n; i++) sigma[i] = exp(low + (high - low) * (double)i / (double)(n - 1));
}

static inline double kiln_shifted(double shift, double share) { return shift * share / (1 + (shift - 1) * share); }

/* n levels of a flow, shift u / (1 + (shift-1) u), u = 1/n .. 1: Esser et al. 2024, eq. 23. */
static inline void kiln_flow_sigmas(double shift, size_t n, double *sigma)
{
    for (size_t i = 0; i < n; i++) sigma[i] = kiln_shifted(shift, (double)(i + 1) / (double)n);
}

/* ---- the functions of a row ---- */

static inline const kiln_sampling_row *kiln_row_of(const kiln_model_sampling *s)
{
    return &((const kiln_standard_sampling *)s->self)->row;
}

static inline double kiln_row_timestep(const kiln_model_sampling *s, double sigma)
{
    const kiln_sampling_row *r = kiln_row_of(s);
    double place, low;
    switch (r->time) {
    case KILN_TIME_LOG: return log(sigma) / 4;
    case KILN_TIME_ANGLE: return atan(sigma) / 1.57079632679489661923;
    case KILN_TIME_FLOW: return r->multiplier * sigma;
    case KILN_TIME_RATIO: return sigma / (1 + sigma);
    case KILN_TIME_NEAREST: /* of two equally near the lower one */
        place = kiln_sigma_to_t(r->sigma, r->n_sigma, sigma), low = floor(place);
        return r->multiplier * (place - low > 0.5 ? low + 1 : low) + r->offset;
    default: return r->multiplier * kiln_sigma_to_t(r->sigma, r->n_sigma, sigma) + r->offset;
    }
}

static inline double kiln_row_sigma_at(const kiln_model_sampling *s, double timestep, const kiln_run_facts *facts)
{
    const kiln_sampling_row *r = kiln_row_of(s);
    double top = s->sigma_max;
    (void)facts;
    switch (r->time) {
    case KILN_TIME_LOG: return exp(4 * timestep);
    case KILN_TIME_ANGLE: return tan(timestep * 1.57079632679489661923);
    case KILN_TIME_FLOW: return kiln_shifted(r->shift, timestep / r->multiplier);
    case KILN_TIME_RATIO: return timestep >= top / (1 + top) ? top : timestep / (1 - timestep);
    default: return kiln_t_to_sigma(r->sigma, r->n_sigma, (timestep - r->offset) / r->multiplier);
    }
}

/* The table's top timestep is its whole length for both readings of a table; the continuous ones are spaced in log
 * sigma between their ends, which is what their table has. */
static inline double kiln_row_percent_to_sigma(const kiln_model_sampling *s, double percent,
                                               const kiln_run_facts *facts)
{
    const kiln_sampling_row *r = kiln_row_of(s);
    double levels = (double)(r->n_sigma - 1);
    if (percent >= 1) return 0;
    if (r->time == KILN_TIME_FLOW) return percent <= 0 ? 1 : kiln_shifted(r->shift, 1 - percent);
    if (percent <= 0) return INFINITY;
    if (r->time == KILN_TIME_LOG || r->time == KILN_TIME_ANGLE || r->time == KILN_TIME_RATIO)
        return kiln_t_to_sigma(r->sigma, r->n_sigma, (1 - percent) * levels);
    return kiln_row_sigma_at(s, (1 - percent) * (r->multiplier * levels + r->offset), facts);
}

/* x0 = skip x + out (x - sigma p), with out falling to 0 at timestep 0: Luo et al. 2023 (LCM), eq. 9 and its code's
 * timestep scaling of 10. */
static inline void kiln_row_consistency(const kiln_model_sampling *s, double sigma, kiln_level *out)
{
    const double d = 0.5;
    double u = 10 * kiln_row_timestep(s, sigma), gain = u / sqrt(u * u + d * d), skip = d * d / (u * u + d * d);
    out->of_x = gain + skip;
    out->of_prediction = -sigma * gain;
}

/* Sources at kiln_prediction. */
static inline void kiln_row_level(const kiln_model_sampling *s, double sigma, kiln_level *l)
{
    const kiln_sampling_row *r = kiln_row_of(s);
    double d = r->sigma_data, variance = sigma * sigma + d * d;
    l->input = 1 / sqrt(variance); /* one by one: the caller's struct may be shorter than this header's */
    l->of_x = 1, l->of_prediction = -sigma, l->clean = 1, l->noise = sigma;
    switch (r->prediction) {
    case KILN_PREDICT_V: l->of_x = d * d / variance, l->of_prediction = -sigma * d / sqrt(variance); break;
    case KILN_PREDICT_EDM: l->of_x = d * d / variance, l->of_prediction = sigma * d / sqrt(variance); break;
    case KILN_PREDICT_X0: l->of_x = 0, l->of_prediction = 1; break;
    case KILN_PREDICT_FLOW: l->input = 1, l->clean = 1 - sigma; break;
    case KILN_PREDICT_IMAGE: l->input = 1, l->of_x = 0, l->of_prediction = 1; break;
    case KILN_PREDICT_IMAGE_FLOW: l->input = 1, l->of_x = 0, l->of_prediction = 1, l->noise = 0; break;
    case KILN_PREDICT_RFLOW: l->input = l->of_x = 1 / (1 + sigma), l->of_prediction = -sigma / (1 + sigma); break;
    case KILN_PREDICT_LCM: kiln_row_consistency(s, sigma, l); break;
    default: break;
    }
}

/* A start at the top gets sqrt(1 + sigma^2), the variance the network was trained with there; flows and RFLOW have the
 * same sum at every level. ComfyUI's noise_scaling. */
static inline void kiln_row_start(const kiln_model_sampling *s, double sigma, double *clean, double *noise)
{
    kiln_level l = {sizeof l, 0, 0, 0, 0, 0};
    double top = s->sigma_max;
    kiln_row_level(s, sigma, &l);
    *clean = l.clean, *noise = l.noise;
    if ((sigma > top || fabs(sigma - top) <= 1e-5 * top) && s->process == KILN_PROCESS_DIFFUSION &&
        kiln_row_of(s)->prediction != KILN_PREDICT_RFLOW)
        *noise = sqrt(1 + sigma * sigma);
}

/* IMAGE_FLOW ends with 1 - x. */
static inline void kiln_row_end(const kiln_model_sampling *s, double sigma, double *scale, double *shift)
{
    (void)s, (void)sigma;
    *scale = -1, *shift = 1;
}

static inline void kiln_standard_sampling_init(kiln_standard_sampling *s, const kiln_sampling_row *row)
{
    kiln_sampling_row r = *row;
    if (r.multiplier == 0) r.multiplier = 1;
    if (r.shift == 0) r.shift = 1;
    if (r.sigma_data == 0) r.sigma_data = 1;
    memset(s, 0, sizeof *s);
    s->row = r;
    snprintf(s->identity, sizeof s->identity, "standard %u %u %.17g %.17g %.17g %.17g", r.prediction, r.time,
             r.multiplier, r.offset, r.shift, r.sigma_data);
    s->base.size = (uint32_t)sizeof s->base;
    s->base.process = r.prediction == KILN_PREDICT_FLOW         ? KILN_PROCESS_FLOW
                      : r.prediction == KILN_PREDICT_IMAGE_FLOW ? KILN_PROCESS_IMAGE
                                                                : KILN_PROCESS_DIFFUSION;
    s->base.self = s;
    s->base.identity = s->identity;
    s->base.sigma_min = r.sigma[0], s->base.sigma_max = r.sigma[r.n_sigma - 1];
    s->base.sigma = r.sigma, s->base.n_sigma = r.n_sigma;
    s->base.level = kiln_row_level, s->base.timestep = kiln_row_timestep, s->base.sigma_at = kiln_row_sigma_at;
    s->base.percent_to_sigma = kiln_row_percent_to_sigma, s->base.start = kiln_row_start;
    if (r.prediction == KILN_PREDICT_IMAGE_FLOW) s->base.end = kiln_row_end;
}

#ifdef __cplusplus
}
#endif
#endif
