/* vae_moments.c - see vae_moments.h. Loops over LANES channels have a fixed length, so that they become vectors. */
#include "vae_moments.h"

#include "kiln/kit.h"

#include <math.h>

enum { LANES = 8, PIXELS = 32, PARTS = 16 };

kiln_status vae_moments_new(const kiln_call *c, size_t channels, vae_moments *out)
{
    *out = (vae_moments){.channels = channels};
    out->origin = c->host->scratch(c->ctx, channels * sizeof *out->origin, KILN_CPU);
    out->sum = c->host->scratch(c->ctx, 2 * channels * sizeof *out->sum, KILN_CPU);
    out->part = c->host->scratch(c->ctx, PARTS * 2 * channels * sizeof *out->part, KILN_CPU);
    if (!out->origin || !out->sum || !out->part) return KILN_ERR_NOMEM;
    out->squares = out->sum + channels;
    return KILN_OK;
}

kiln_status vae_norm_new(const kiln_call *c, size_t channels, vae_norm *out)
{
    *out = (vae_norm){.channels = channels};
    out->mean = c->host->scratch(c->ctx, 3 * channels * sizeof *out->mean, KILN_CPU);
    if (!out->mean) return KILN_ERR_NOMEM;
    out->scale = out->mean + channels, out->shift = out->scale + channels;
    return KILN_OK;
}

void vae_moments_clear(vae_moments *m)
{
    m->pixels = 0;
    memset(m->sum, 0, 2 * m->channels * sizeof *m->sum);
}

/* ---- adding ---- */

/* Up to PIXELS pixels, LANES channels of each. */
static void add_lanes(const float *x, size_t pixels, size_t channels, const float *origin, double *sum, double *squares)
{
    float s[LANES] = {0}, q[LANES] = {0};
    for (size_t p = 0; p < pixels; p++, x += channels)
        for (size_t k = 0; k < LANES; k++) {
            float d = x[k] - origin[k];
            s[k] += d;
            q[k] += d * d;
        }
    for (size_t k = 0; k < LANES; k++) sum[k] += (double)s[k], squares[k] += (double)q[k];
}

static void add_channel(const float *x, size_t pixels, size_t channels, float origin, double *sum, double *squares)
{
    float s = 0, q = 0;
    for (size_t p = 0; p < pixels; p++, x += channels) {
        float d = *x - origin;
        s += d;
        q += d * d;
    }
    *sum += (double)s, *squares += (double)q;
}

static void add_pixels(const vae_moments *m, const float *x, size_t pixels, double *sum, double *squares)
{
    size_t c = 0;
    for (; c + LANES <= m->channels; c += LANES)
        add_lanes(x + c, pixels, m->channels, m->origin + c, sum + c, squares + c);
    for (; c < m->channels; c++) add_channel(x + c, pixels, m->channels, m->origin[c], sum + c, squares + c);
}

typedef struct {
    const vae_moments *m;
    const vae_norm *norm;
    float *x;
    size_t pixels;
} work;

static size_t part_begin(const work *w, size_t part) { return w->pixels * part / PARTS; }

static void add_part(void *arg, size_t part)
{
    const work *w = arg;
    size_t channels = w->m->channels, end = part_begin(w, part + 1);
    double *sum = w->m->part + part * 2 * channels;
    memset(sum, 0, 2 * channels * sizeof *sum);
    for (size_t p = part_begin(w, part); p < end; p += PIXELS)
        add_pixels(w->m, w->x + p * channels, end - p < PIXELS ? end - p : PIXELS, sum, sum + channels);
}

void vae_moments_add(const kiln_call *c, vae_moments *m, const float *x, int64_t rows, int64_t columns)
{
    work w = {.m = m, .x = (float *)(uintptr_t)x, .pixels = (size_t)(rows * columns)};
    if (!m->pixels) memcpy(m->origin, x, m->channels * sizeof *x);
    c->host->parallel_for(c->ctx, PARTS, add_part, &w);
    for (size_t part = 0; part < PARTS; part++)
        for (size_t k = 0; k < 2 * m->channels; k++) m->sum[k] += m->part[part * 2 * m->channels + k];
    m->pixels += rows * columns;
}

/* ---- a norm ---- */

/* Mean and 1/sigma of channels [first, last). */
static void group_statistics(const vae_moments *m, size_t first, size_t last, double eps, double *mean, double *rstd)
{
    double pixels = (double)m->pixels, count = pixels * (double)(last - first), total = 0, spread = 0;
    for (size_t c = first; c < last; c++) total += (double)m->origin[c] * pixels + m->sum[c];
    *mean = total / count;
    for (size_t c = first; c < last; c++) {
        double off = (double)m->origin[c] + m->sum[c] / pixels - *mean;
        spread += fmax(0, m->squares[c] - m->sum[c] * m->sum[c] / pixels) + pixels * off * off;
    }
    *rstd = 1 / sqrt(spread / count + eps);
}

void vae_norm_make(const vae_moments *m, int32_t groups, float eps, const float *gamma, const float *beta,
                   vae_norm *out)
{
    size_t width = m->channels / (size_t)groups;
    for (size_t first = 0; first + width <= m->channels; first += width) {
        double mean, rstd;
        group_statistics(m, first, first + width, (double)eps, &mean, &rstd);
        for (size_t c = first; c < first + width; c++) {
            out->mean[c] = (float)mean;
            out->scale[c] = (float)(rstd * (double)(gamma ? gamma[c] : 1));
            out->shift[c] = beta ? beta[c] : 0;
        }
    }
}

static void norm_pixel(const vae_norm *n, float *x)
{
    size_t c = 0;
    for (; c + LANES <= n->channels; c += LANES) {
        float y[LANES]; /* of its own, so that what is written is none of what is read */
        for (size_t k = 0; k < LANES; k++) y[k] = (x[c + k] - n->mean[c + k]) * n->scale[c + k] + n->shift[c + k];
        memcpy(x + c, y, sizeof y);
    }
    for (; c < n->channels; c++) x[c] = (x[c] - n->mean[c]) * n->scale[c] + n->shift[c];
}

static void norm_part(void *arg, size_t part)
{
    const work *w = arg;
    for (size_t p = part_begin(w, part); p < part_begin(w, part + 1); p++)
        norm_pixel(w->norm, w->x + p * w->norm->channels);
}

void vae_norm_apply(const kiln_call *c, const vae_norm *n, float *x, int64_t rows, int64_t columns)
{
    work w = {.norm = n, .x = x, .pixels = (size_t)(rows * columns)};
    c->host->parallel_for(c->ctx, PARTS, norm_part, &w);
}
