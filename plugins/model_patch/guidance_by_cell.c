/* guidance_by_cell.c - see guidance_by_cell.h. */
#include "guidance_by_cell.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdlib.h>

/* Copies of latents on the host, one behind the other. */
typedef struct {
    float *data;
    size_t count, cells, channels;
} copies;

/* Of those latents; the caller frees data. */
static kiln_status copy(const kiln_guesses *g, kiln_latent *const *x, size_t n, copies *out)
{
    const kiln_latents *l = g->latents;
    kiln_latent_shape s = l->shape(l, g->x);
    size_t cells = (size_t)(s.pictures * s.frames * s.height * s.width), channels = (size_t)s.channels;
    *out = (copies){.count = l->count(l, g->x), .cells = cells, .channels = channels};
    if (out->count != cells * channels)
        return g->fail(g, KILN_ERR_UNSUPPORTED,
                       "guidance that looks at cells knows no latents of several streams (video and audio)");
    if (!(out->data = calloc(n * out->count, sizeof *out->data))) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) l->download(l, x[i], out->data + i * out->count);
    return KILN_OK;
}

static double length(const float *v, size_t n)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++) sum += (double)v[k] * (double)v[k];
    return sqrt(sum);
}

/* ---- CFGNorm ---- */

kiln_status guidance_norm_after(double strength, const kiln_guesses *g)
{
    copies c;
    TRY(copy(g, (kiln_latent *[]){g->positive, g->x0}, 2, &c));
    for (size_t i = 0; i < c.cells; i++) {
        const float *positive = c.data + i * c.channels;
        float *x0 = c.data + c.count + i * c.channels;
        double factor = length(positive, c.channels) / (length(x0, c.channels) + 1e-8);
        for (size_t k = 0; k < c.channels; k++) x0[k] = (float)((double)x0[k] * fmin(factor, 1) * strength);
    }
    g->latents->upload(g->latents, g->x0, c.data + c.count);
    free(c.data);
    return KILN_OK;
}

/* The noise of one cell, in place of its guess. */
static void norm_cell(const kiln_guesses *g, double strength, size_t channels, const float *const part[3], float *out)
{
    double positive = 0, combined = 0;
    for (size_t k = 0; k < channels; k++) {
        double p = (double)part[0][k] - (double)part[1][k], n = (double)part[0][k] - (double)part[2][k];
        double both = n + g->cfg * (p - n);
        positive += p * p, combined += both * both;
        out[k] = (float)both;
    }
    double factor = combined > 0 ? sqrt(positive) / fmax(sqrt(combined), 1e-12) : 1;
    for (size_t k = 0; k < channels; k++)
        out[k] = (float)((double)part[0][k] - (double)out[k] * (strength * factor + 1 - strength));
}

kiln_status guidance_norm_instead(double strength, const kiln_guesses *g)
{
    copies c;
    TRY(copy(g, (kiln_latent *[]){g->x, g->positive, g->negative, g->x0}, 4, &c));
    for (size_t i = 0; i < c.cells; i++) {
        size_t at = i * c.channels;
        const float *part[3] = {c.data + at, c.data + c.count + at, c.data + 2 * c.count + at};
        norm_cell(g, strength, c.channels, part, c.data + 3 * c.count + at);
    }
    g->latents->upload(g->latents, g->x0, c.data + 3 * c.count);
    free(c.data);
    return KILN_OK;
}

/* ---- Mahiro ---- */

static double root(double v) { return copysign(sqrt(fabs(v)), v); }

/* Cosine between the roots of cfg n and of (cfg p + x0) / 2, over one cell's channels. */
static double cell_similarity(double cfg, const float *positive, const float *negative, const float *x0, size_t n)
{
    double product = 0, a2 = 0, b2 = 0;
    for (size_t k = 0; k < n; k++) {
        double a = root(cfg * (double)negative[k]), b = root((cfg * (double)positive[k] + (double)x0[k]) / 2);
        product += a * b, a2 += a * a, b2 += b * b;
    }
    return product / (fmax(sqrt(a2), 1e-8) * fmax(sqrt(b2), 1e-8));
}

/* Its mean over all cells; without a negative guess 0, as if that were zero. */
static kiln_status similarity(const kiln_guesses *g, double *out)
{
    copies c;
    *out = 0;
    if (!g->negative) return KILN_OK;
    TRY(copy(g, (kiln_latent *[]){g->positive, g->negative, g->x0}, 3, &c));
    for (size_t i = 0; i < c.cells; i++) {
        const float *at = c.data + i * c.channels;
        *out += cell_similarity(g->cfg, at, at + c.count, at + 2 * c.count, c.channels) / (double)c.cells;
    }
    free(c.data);
    return KILN_OK;
}

kiln_status guidance_mahiro(const kiln_guesses *g)
{
    double alike;
    TRY(similarity(g, &alike));
    double share = (alike + 1) / 2;
    g->latents->lincomb(g->latents, g->x0, 2, (double[]){share, (1 - share) * g->cfg},
                        (kiln_latent *[]){g->x0, g->positive});
    return KILN_OK;
}
