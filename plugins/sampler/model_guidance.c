/* model_guidance.c - see model_guidance.h.
 *
 * Both come down to a linear combination of the guesses whose coefficients depend on the picture: inner products of the
 * guesses give them.
 */
#include "model_guidance.h"

#include "kiln/kit.h"

#include <math.h>

enum { PICTURES_MAX = 4096, TERMS = 3 };

static size_t pictures_of(const kiln_guesses *g) { return (size_t)g->latents->shape(g->latents, g->x0).pictures; }

/* ---- perp-neg ---- */

/* The guesses there are, and the coefficients of p = positive - extra and q = negative - extra in them. */
typedef struct {
    size_t n;
    kiln_latent *x[TERMS];
    double p[TERMS], q[TERMS];
} directions;

static directions directions_of(const kiln_guesses *g)
{
    directions d = {.n = 1, .x = {g->positive}, .p = {1}, .q = {0}};
    if (g->negative) d.x[d.n] = g->negative, d.p[d.n] = 0, d.q[d.n++] = 1;
    if (g->extra) d.x[d.n] = g->extra, d.p[d.n] = -1, d.q[d.n++] = -1;
    return d;
}

/* x0 of one picture as coefficients of the guesses; along: (p . q) / (p . p). */
static void perpendicular_coefficients(const kiln_guesses *g, const directions *d, double scale, double along,
                                       double *out)
{
    for (size_t k = 0; k < d->n; k++) out[k] = g->cfg * (d->p[k] - scale * (d->q[k] - along * d->p[k]));
    if (g->extra) out[d->n - 1] += 1;
}

kiln_status perpendicular(const kiln_guesses *g, double scale)
{
    double dot[PICTURES_MAX], square[PICTURES_MAX], c[PICTURES_MAX * TERMS];
    const kiln_latents *l = g->latents;
    size_t pictures = pictures_of(g);
    directions d = directions_of(g);
    if (pictures > PICTURES_MAX) return KILN_ERR_UNSUPPORTED;
    l->dot(l, &(kiln_latent_dot){.size = sizeof(kiln_latent_dot), .n = d.n, .a = d.p, .b = d.q, .x = d.x}, dot);
    l->dot(l, &(kiln_latent_dot){.size = sizeof(kiln_latent_dot), .n = d.n, .a = d.p, .b = d.p, .x = d.x}, square);
    for (size_t i = 0; i < pictures; i++)
        perpendicular_coefficients(g, &d, scale, square[i] > 0 ? dot[i] / square[i] : 0, c + i * d.n);
    l->lincomb_each(l, g->x0, d.n, c, d.x);
    return KILN_OK;
}

/* ---- rescale ---- */

/* v = (x / (s^2+1) - x0) sqrt(s^2+1) / s and back: linear in x0, so that guided v is v of guided x0. */
typedef struct {
    double of_x, of_x0;
} linear;

static linear measure_of(const kiln_guesses *g)
{
    double s = g->sigma, variance = s * s + 1;
    if (g->sampling->process != KILN_PROCESS_DIFFUSION || s == 0) return (linear){0, 1};
    return (linear){1 / (sqrt(variance) * s), -sqrt(variance) / s};
}

/* Standard deviation of a linear combination, with n - 1 below, in two passes; out[pictures]. */
static void spread(const kiln_guesses *g, const double *c, kiln_latent *const *x, double *out)
{
    const kiln_latents *l = g->latents;
    kiln_latent_shape s = l->shape(l, g->x0);
    double mean[PICTURES_MAX], count = (double)(s.height * s.width * s.channels);
    l->dot(l, &(kiln_latent_dot){.size = sizeof(kiln_latent_dot), .n = TERMS, .a = c, .x = x}, mean);
    for (size_t i = 0; i < (size_t)s.pictures; i++) mean[i] = -mean[i] / count;
    l->dot(l, &(kiln_latent_dot){.size = sizeof(kiln_latent_dot), .n = TERMS, .a = c, .b = c, .shift = mean, .x = x},
           out);
    for (size_t i = 0; i < (size_t)s.pictures; i++) out[i] = count > 1 ? sqrt(out[i] / (count - 1)) : 0;
}

kiln_status rescaled(const kiln_guesses *g, double multiplier)
{
    double wanted[PICTURES_MAX], have[PICTURES_MAX], c[PICTURES_MAX * TERMS];
    linear m = measure_of(g);
    kiln_latent *x[TERMS] = {g->x, g->positive, g->negative};
    const double conditional[TERMS] = {m.of_x, m.of_x0, 0},
                 guided[TERMS] = {m.of_x, m.of_x0 * g->cfg, m.of_x0 * (1 - g->cfg)};
    if (pictures_of(g) > PICTURES_MAX) return KILN_ERR_UNSUPPORTED;
    spread(g, conditional, x, wanted);
    spread(g, guided, x, have);
    for (size_t i = 0; i < pictures_of(g); i++) {
        double factor = have[i] > 0 ? multiplier * wanted[i] / have[i] + 1 - multiplier : 1;
        c[i * TERMS] = m.of_x * (factor - 1) / m.of_x0;
        c[i * TERMS + 1] = factor * g->cfg;
        c[i * TERMS + 2] = factor * (1 - g->cfg);
    }
    g->latents->lincomb_each(g->latents, g->x0, TERMS, c, x);
    return KILN_OK;
}
