/* perturbed_guidance.c - see perturbed_guidance.h. */
#include "perturbed_guidance.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdlib.h>

enum { POSITIVE, PERTURBED, X0, NEGATIVE, COPIES };

/* Copies of the latents, and d in place of the perturbed guess. */
typedef struct {
    float *all, *part[COPIES];
    size_t count, a_picture;
    kiln_latent_shape shape;
} copies;

static kiln_status copy(const perturbed_settings *by, const kiln_guesses *g, kiln_latent *perturbed, copies *c)
{
    const kiln_latents *l = g->latents;
    kiln_latent *const from[COPIES] = {g->positive, perturbed, g->x0, g->negative};
    *c = (copies){.count = l->count(l, g->x), .shape = l->shape(l, g->x)};
    const kiln_latent_shape *s = &c->shape;
    if (c->count != (size_t)(s->pictures * s->frames * s->height * s->width * s->channels))
        return g->fail(g, KILN_ERR_UNSUPPORTED,
                       "guidance that is rescaled knows no latents of several streams (video and audio)");
    if (!(c->all = malloc(COPIES * c->count * sizeof *c->all))) return KILN_ERR_NOMEM;
    c->a_picture = c->count / (size_t)c->shape.pictures;
    for (int i = 0; i < COPIES; i++) {
        c->part[i] = c->all + (size_t)i * c->count;
        if (from[i]) l->download(l, from[i], c->part[i]);
    }
    for (size_t i = 0; i < c->count; i++)
        c->part[PERTURBED][i] = (float)by->scale * (c->part[POSITIVE][i] - c->part[PERTURBED][i]);
    return KILN_OK;
}

/* ---- by spread ---- */

/* Of a + b, b NULL: of a. */
static double spread(const float *a, const float *b, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] + (b ? (double)b[i] : 0);
    for (size_t i = 0; i < n; i++) {
        double v = (double)a[i] + (b ? (double)b[i] : 0) - sum / (double)n;
        squares += v * v;
    }
    return sqrt(squares / (double)n);
}

static void add_rescaled(const perturbed_settings *by, const copies *c)
{
    for (size_t at = 0; at < c->count; at += c->a_picture) {
        const float *positive = c->part[POSITIVE] + at, *d = c->part[PERTURBED] + at;
        float *x0 = c->part[X0] + at;
        double have = spread(by->mode == RESCALE_FULL ? x0 : positive, d, c->a_picture);
        double factor = have > 0 ? spread(positive, NULL, c->a_picture) / have : 1;
        factor = by->rescale * factor + 1 - by->rescale;
        for (size_t i = 0; i < c->a_picture; i++) x0[i] += (float)factor * d[i];
    }
}

/* ---- by salience ---- */

static int64_t reflected(int64_t i, int64_t n) { return n == 1 ? 0 : i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

/* The blurred size of a channel of a picture at a cell: Gauss's curve of sigma 1 over 3x3 cells. */
static double blurred_size(const float *plane, const kiln_latent_shape *s, int64_t y, int64_t x)
{
    static const double beside = 0.60653065971263342; /* exp(-1/2) */
    double sum = 0;
    for (int64_t i = -1; i <= 1; i++)
        for (int64_t k = -1; k <= 1; k++) {
            int64_t at = (reflected(y + i, s->height) * s->width + reflected(x + k, s->width)) * s->channels;
            sum += (i ? beside : 1) * (k ? beside : 1) * fabs((double)plane[at]);
        }
    return sum / ((1 + 2 * beside) * (1 + 2 * beside));
}

/* out[cells of the plane]: the softmax of blurred sizes over it. */
static void salience(const float *plane, const kiln_latent_shape *s, double *out)
{
    int64_t n = s->height * s->width;
    double most = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) out[i] = blurred_size(plane, s, i / s->width, i % s->width);
    for (int64_t i = 0; i < n; i++) most = fmax(most, out[i]);
    for (int64_t i = 0; i < n; i++) sum += out[i] = exp(out[i] - most);
    for (int64_t i = 0; i < n; i++) out[i] /= sum;
}

/* d becomes what is the more salient, of it and of t. */
static kiln_status fuse(const copies *c, const float *t, float *d)
{
    const kiln_latent_shape *s = &c->shape;
    size_t cells = (size_t)(s->height * s->width), channels = (size_t)s->channels;
    double *of = malloc(2 * cells * sizeof *of);
    if (!of) return KILN_ERR_NOMEM;
    for (size_t plane = 0; plane < c->count; plane += cells * channels)
        for (size_t k = 0; k < channels; k++) {
            salience(t + plane + k, s, of), salience(d + plane + k, s, of + cells);
            for (size_t i = 0; i < cells; i++)
                if (of[i] >= of[cells + i]) d[plane + i * channels + k] = t[plane + i * channels + k];
        }
    free(of);
    return KILN_OK;
}

static kiln_status add_salient(const kiln_guesses *g, const copies *c)
{
    float *x0 = c->part[X0], *d = c->part[PERTURBED];
    const float *base = g->negative ? c->part[NEGATIVE] : x0;
    if (g->negative) {
        for (size_t i = 0; i < c->count; i++) x0[i] -= base[i];
        TRY(fuse(c, x0, d));
    }
    for (size_t i = 0; i < c->count; i++) x0[i] = base[i] + d[i];
    return KILN_OK;
}

kiln_status perturbed_guidance(const perturbed_settings *by, const kiln_guesses *g, kiln_latent *perturbed)
{
    copies c;
    kiln_status status = KILN_OK;
    if (by->mode != RESCALE_SNF && by->rescale == 0) {
        g->latents->add_difference(g->latents, g->x0, g->x0, by->scale, g->positive, perturbed);
        return KILN_OK;
    }
    TRY(copy(by, g, perturbed, &c));
    if (by->mode == RESCALE_SNF)
        status = add_salient(g, &c);
    else
        add_rescaled(by, &c);
    if (status == KILN_OK) g->latents->upload(g->latents, g->x0, c.part[X0]);
    free(c.all);
    return status;
}
