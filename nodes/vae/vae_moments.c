/* vae_moments.c - see vae_moments.h. Loops over LANES channels have a fixed length, so that they become vectors; the
 * type is a constant where the functions are called, so that there is a loop of its own for each.
 */
#include "vae_moments.h"

#include "kiln/kit.h"

#include <math.h>

enum { LANES = 8, PIXELS = 32 };

kiln_status vae_moments_new(const kiln_call *c, size_t channels, vae_moments *out)
{
    *out = (vae_moments){.channels = channels};
    out->origin = c->host->scratch(c->ctx, channels * sizeof *out->origin, KILN_CPU);
    out->sum = c->host->scratch(c->ctx, 2 * channels * sizeof *out->sum, KILN_CPU);
    out->part = c->host->scratch(c->ctx, VAE_PARTS * 2 * channels * sizeof *out->part, KILN_CPU);
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

/* ---- numbers ---- */

#define ALWAYS static inline __attribute__((always_inline))

ALWAYS float load(const void *x, uint32_t dtype, size_t i)
{
    float wide;
    if (dtype != KILN_BF16) return ((const float *)x)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)x)[i] << 16;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* To the nearest, half to even; NaN stays NaN. */
ALWAYS uint16_t narrow(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

ALWAYS void store(void *x, uint32_t dtype, size_t i, float y)
{
    if (dtype == KILN_BF16)
        ((uint16_t *)x)[i] = narrow(y);
    else
        ((float *)x)[i] = y;
}

/* ---- adding ---- */

/* n <= LANES channels from c on, of PIXELS pixels or fewer. */
ALWAYS void add_lanes(vae_moments *m, size_t part, const void *x, uint32_t dtype, size_t pixels, size_t c, size_t n)
{
    float s[LANES] = {0}, q[LANES] = {0};
    double *sum = m->part + part * 2 * m->channels + c, *squares = sum + m->channels;
    const float *origin = m->origin + c;
    for (size_t p = 0; p < pixels; p++)
        for (size_t k = 0; k < n; k++) {
            float d = load(x, dtype, p * m->channels + c + k) - origin[k];
            s[k] += d;
            q[k] += d * d;
        }
    for (size_t k = 0; k < n; k++) sum[k] += (double)s[k], squares[k] += (double)q[k];
}

ALWAYS void add_pixels(vae_moments *m, size_t part, const void *x, uint32_t dtype, size_t pixels)
{
    size_t c = 0;
    for (; c + LANES <= m->channels; c += LANES) add_lanes(m, part, x, dtype, pixels, c, LANES);
    if (c < m->channels) add_lanes(m, part, x, dtype, pixels, c, m->channels - c);
}

void vae_moments_begin(vae_moments *m, const void *x, uint32_t dtype)
{
    memset(m->part, 0, VAE_PARTS * 2 * m->channels * sizeof *m->part);
    for (size_t c = 0; !m->pixels && c < m->channels; c++) m->origin[c] = load(x, dtype, c);
}

void vae_moments_add(vae_moments *m, size_t part, const void *x, uint32_t dtype, size_t pixels)
{
    size_t bytes = m->channels * (dtype == KILN_BF16 ? sizeof(uint16_t) : sizeof(float));
    for (size_t p = 0; p < pixels; p += PIXELS) {
        size_t n = pixels - p < PIXELS ? pixels - p : PIXELS;
        if (dtype == KILN_BF16)
            add_pixels(m, part, (const char *)x + p * bytes, KILN_BF16, n);
        else
            add_pixels(m, part, (const char *)x + p * bytes, KILN_F32, n);
    }
}

void vae_moments_end(vae_moments *m, int64_t pixels)
{
    for (size_t part = 0; part < VAE_PARTS; part++)
        for (size_t k = 0; k < 2 * m->channels; k++) m->sum[k] += m->part[part * 2 * m->channels + k];
    m->pixels += pixels;
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

/* n <= LANES channels of one pixel. */
ALWAYS void norm_lanes(const vae_norm *norm, void *x, uint32_t dtype, size_t at, size_t c, size_t n)
{
    float y[LANES]; /* of its own, so that what is written is none of what is read */
    for (size_t k = 0; k < n; k++)
        y[k] = (load(x, dtype, at + k) - norm->mean[c + k]) * norm->scale[c + k] + norm->shift[c + k];
    for (size_t k = 0; k < n; k++) store(x, dtype, at + k, y[k]);
}

ALWAYS void norm_pixels(const vae_norm *norm, void *x, uint32_t dtype, size_t pixels)
{
    for (size_t p = 0; p < pixels; p++) {
        size_t c = 0, at = p * norm->channels;
        for (; c + LANES <= norm->channels; c += LANES) norm_lanes(norm, x, dtype, at + c, c, LANES);
        if (c < norm->channels) norm_lanes(norm, x, dtype, at + c, c, norm->channels - c);
    }
}

void vae_norm_apply(const vae_norm *n, void *x, uint32_t dtype, size_t pixels)
{
    if (dtype == KILN_BF16)
        norm_pixels(n, x, KILN_BF16, pixels);
    else
        norm_pixels(n, x, KILN_F32, pixels);
}
