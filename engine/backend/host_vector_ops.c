/* host_vector_ops.c - see host_vector_ops.h. Plain loops in the order that kiln/ops.h states. */
#include "backend/host_vector_ops.h"

#include <string.h>

/* A sum begins with its first term, so that one term with coefficient 1 is a copy, the sign of zeros included. */
static double combined(size_t i, uint32_t terms, const double *c, const float *const *x)
{
    double sum = c[0] * (double)x[0][i];
    for (uint32_t k = 1; k < terms; k++) sum += c[k] * (double)x[k][i];
    return sum;
}

static kiln_status combine(float *out, size_t n, uint32_t terms, const double *c, const float *const *x,
                           device_stream *stream, error *e)
{
    (void)stream, (void)e;
    if (!terms) memset(out, 0, n * sizeof *out);
    for (size_t i = 0; terms && i < n; i++) out[i] = (float)combined(i, terms, c, x);
    return KILN_OK;
}

static kiln_status add_difference(const kiln_difference *d, float *out, device_stream *stream, error *e)
{
    (void)stream, (void)e;
    for (size_t i = 0; i < d->n; i++) out[i] = (float)((double)d->x[i] + ((double)d->a[i] - (double)d->b[i]) * d->t);
    return KILN_OK;
}

static kiln_status dot(const kiln_dot *d, double *out, device_stream *stream, error *e)
{
    double sum = 0;
    (void)stream, (void)e;
    for (size_t i = 0; i < d->n; i++) {
        double a = combined(i, d->terms, d->a, d->x) + d->shift;
        sum += d->b ? a * (combined(i, d->terms, d->b, d->x) + d->shift) : a;
    }
    *out = sum;
    return KILN_OK;
}

static kiln_status blend(const kiln_blend *m, float *out, device_stream *stream, error *e)
{
    (void)stream, (void)e;
    for (size_t p = 0; p < m->pictures; p++)
        for (size_t i = 0; i < m->cells; i++) {
            float mask = m->mask[p % m->masks * m->cells + i];
            size_t at = (p * m->cells + i) * m->channels;
            for (size_t k = at; k < at + m->channels; k++) out[k] = m->a[k] * mask + m->b[k] * (1 - mask);
        }
    return KILN_OK;
}

/* Where row y of the area begins in picture p, in cells. */
static int64_t row_at(const kiln_area *a, int64_t p, int64_t y) { return (p * a->height + a->y + y) * a->width + a->x; }

static kiln_status crop(const kiln_area *a, const float *x, float *out, device_stream *stream, error *e)
{
    size_t row = (size_t)(a->w * a->channels);
    (void)stream, (void)e;
    for (int64_t p = 0; p < a->pictures; p++)
        for (int64_t y = 0; y < a->h; y++, out += row)
            memcpy(out, x + row_at(a, p, y) * a->channels, row * sizeof *out);
    return KILN_OK;
}

static kiln_status accumulate(const kiln_area *a, const kiln_part *part, float *sum, float *total,
                              device_stream *stream, error *e)
{
    const float *data = part->data;
    (void)stream, (void)e;
    for (int64_t p = 0; p < a->pictures; p++)
        for (int64_t y = 0; y < a->h; y++)
            for (int64_t x = 0; x < a->w; x++) {
                int64_t cell = row_at(a, p, y) + x;
                float weight = part->weight ? part->weight[(p % part->weights * a->h + y) * a->w + x] : 1.0f;
                total[cell] += weight;
                for (int64_t k = 0; k < a->channels; k++) sum[cell * a->channels + k] += weight * *data++;
            }
    return KILN_OK;
}

static kiln_status divide(float *x, const float *total, size_t cells, size_t channels, device_stream *stream, error *e)
{
    (void)stream, (void)e;
    for (size_t i = 0; i < cells; i++) {
        if (total[i] == 1.0f || total[i] == 0.0f) continue;
        for (size_t k = 0; k < channels; k++) x[i * channels + k] /= total[i];
    }
    return KILN_OK;
}

const device_vector_ops host_vector_ops = {.combine = combine,
                                           .add_difference = add_difference,
                                           .dot = dot,
                                           .blend = blend,
                                           .crop = crop,
                                           .accumulate = accumulate,
                                           .divide = divide};
