/* samplers_common.h - what the families of samplers share: terms of a linear combination, noise levels, Euler's step,
 * ancestral steps, rows.
 *
 * Throughout: x is the latent, d the denoiser's guess of x0, `now` and `next` noise levels. lambda = log(alpha /
 * sigma), with alpha = 1 and sigma as it is for eps, v and x0 models, and alpha = 1 - sigma for flow models. What one
 * step hands to the next is in x and in slots, and how much history there is follows from the step's number: so a run
 * that is taken up at s->first with its slots gives the same bytes.
 */
#ifndef KILN_SAMPLER_SAMPLERS_COMMON_H
#define KILN_SAMPLER_SAMPLERS_COMMON_H

#include "kiln/kit.h"
#include "kiln/model.h"
#include "samplers.h"

#include <math.h>

#define SLOT(s, variable, text)                                                                                        \
    kiln_latent *variable = (s)->slot((s), text);                                                                      \
    if (!variable) return KILN_ERR_NOMEM

typedef struct {
    double a;
    kiln_latent *x;
} term;

/* out = the sum of the terms: MIX(s, s->x, {ratio, s->x}, {1 - ratio, d}). At most 16; out may be one of them. */
void mix(const kiln_sampling *s, kiln_latent *out, size_t n, const term *terms);
#define MIX(s, out, ...)                                                                                               \
    mix((s), (out), sizeof((const term[]){__VA_ARGS__}) / sizeof(term), (const term[]){__VA_ARGS__})
#define COPY(s, out, in) MIX(s, out, {1, in})

/* ---- noise levels ---- */

static inline int is_flow(const kiln_sampling *s)
{
    return s->process == KILN_PROCESS_FLOW || s->process == KILN_PROCESS_IMAGE;
}
/* sigma[i]; for flow a first level of 1, whose lambda is not finite, becomes that of 0.01 % of the way. */
double level_at(const kiln_sampling *s, size_t i);
double level_alpha(const kiln_sampling *s, double sigma);
double level_lambda(const kiln_sampling *s, double sigma);
double lambda_level(const kiln_sampling *s, double lambda); /* its inverse */

/* ---- steps ---- */

/* out = x + (to - from) (x - d) / from: an Euler step of dx/dsigma = (x - d) / sigma. */
void euler_step(const kiln_sampling *s, kiln_latent *out, double from, double to, kiln_latent *d);
/* x += scale * noise drawn for the step from one level to another. */
kiln_status add_noise(const kiln_sampling *s, double from, double to, double scale);

typedef struct {
    double eta, s_noise;
} noise_options;
extern const kiln_param noise_params[2]; /* of noise_options */

/* An ancestral step: down to `down` without noise, then noise of deviation `up`: down^2 + up^2 = to^2 and
 * up = min(to, eta sqrt(to^2 (from^2 - to^2) / from^2)). Song et al. 2020 (DDIM), eq. 16, in sigma; k-diffusion
 * get_ancestral_step. `from` may be infinite. */
void ancestral_levels(double from, double to, double eta, double *down, double *up);

/* The same for flow models: down to `down`, then x = keep * x + up * noise, which has the signal and the noise of `to`.
 */
typedef struct {
    double down, keep, up;
} flow_ancestral;
flow_ancestral flow_ancestral_levels(double from, double to, double eta);

/* Karras et al. 2022, algorithm 2, lines 4 to 6: before a step the level is raised to *hat and x gets the noise for it.
 */
typedef struct {
    double s_churn, s_tmin, s_tmax, s_noise;
} churn_options;
extern const kiln_param churn_params[4]; /* of churn_options */
kiln_status churn(const kiln_sampling *s, size_t i, double *hat);

/* ---- rows ---- */

#define SAMPLER(id) .size = sizeof(kiln_sampler), .name = #id, .param_stride = sizeof(kiln_param)
#define PARAMS(array, T) .param = array, .n_param = sizeof(array) / sizeof(kiln_param), .params_size = sizeof(T)
#define NUMBER(T, field, default, least, most, text) KIT_FLOAT(T, field, default, least, most, 0.01, text)
#define CHOICE(T, field, default, choices, text) KIT_ENUM(T, field, choices, default, text)
#define ETA(T)                                                                                                         \
    NUMBER(T, eta, 1, 0, 100, "How much of the noise is made anew each step; 0: none, the step is deterministic.")
#define S_NOISE(T) NUMBER(T, s_noise, 1, 0, 100, "Scale of the noise that is added.")

#endif
