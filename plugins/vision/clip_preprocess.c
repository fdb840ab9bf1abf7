/* clip_preprocess.c - see clip_preprocess.h. Of what is scaled only the middle is computed. */
#include "clip_preprocess.h"

#include "kiln/kit.h"

#include <math.h>

/* `n` results from number `first` on, of `to` that `from` numbers are scaled to. */
typedef struct {
    int64_t from, to, first, n;
} axis;

/* Result i is the sum of weight[k] x[first + k]. */
typedef struct {
    int64_t first, n;
    double *weight;
} taps;

static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

static void fill_taps(const axis *s, int64_t i, taps *t)
{
    double scale = (double)s->from / (double)s->to, wide = scale > 1 ? scale : 1, total = 0;
    double centre = ((double)(s->first + i) + 0.5) * scale;
    t->first = (int64_t)fmax(centre - 2 * wide + 0.5, 0);
    t->n = (int64_t)fmin(centre + 2 * wide + 0.5, (double)s->from) - t->first;
    for (int64_t k = 0; k < t->n; k++) total += t->weight[k] = cubic(((double)(t->first + k) - centre + 0.5) / wide);
    for (int64_t k = 0; k < t->n; k++) t->weight[k] /= total;
}

static kiln_status make_taps(const kiln_call *c, const axis *s, taps **out)
{
    double scale = (double)s->from / (double)s->to, wide = scale > 1 ? scale : 1;
    size_t most = (size_t)(4 * wide) + 3, n = (size_t)s->n;
    *out = c->host->scratch(c->ctx, n * sizeof **out, KILN_CPU);
    double *weight = c->host->scratch(c->ctx, n * most * sizeof *weight, KILN_CPU);
    if (!*out || !weight) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        (*out)[i].weight = weight + i * most;
        fill_taps(s, (int64_t)i, &(*out)[i]);
    }
    return KILN_OK;
}

/* out [h,s->n,3] = the picture scaled along its rows. */
static kiln_status scale_rows(const kiln_call *c, const clip_picture *x, const axis *s, float *out)
{
    taps *t;
    TRY(make_taps(c, s, &t));
    for (int64_t i = 0; i < x->h * s->n; i++) {
        const taps *at = &t[i % s->n];
        const float *row = x->data + (i / s->n * x->w + at->first) * x->channels;
        for (int64_t k = 0; k < 3; k++) {
            double sum = 0;
            for (int64_t j = 0; j < at->n; j++) sum += at->weight[j] * (double)row[j * x->channels + k];
            out[i * 3 + k] = (float)sum;
        }
    }
    return KILN_OK;
}

/* out [s->n,width,3] = x [s->from,width,3] scaled along its columns. */
static kiln_status scale_columns(const kiln_call *c, const float *x, int64_t width, const axis *s, float *out)
{
    taps *t;
    TRY(make_taps(c, s, &t));
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = 0; k < width * 3; k++) {
            double sum = 0;
            for (int64_t j = 0; j < t[i].n; j++) sum += t[i].weight[j] * (double)x[(t[i].first + j) * width * 3 + k];
            out[i * width * 3 + k] = (float)sum;
        }
    return KILN_OK;
}

static axis axis_of(int64_t from, int64_t to, int64_t size)
{
    return (axis){.from = from, .to = to, .first = (to - size) / 2, .n = size};
}

static kiln_status scale(const kiln_call *c, const clip_preprocessing *how, const clip_picture *x, float *out)
{
    int64_t size = how->size, shorter = x->h < x->w ? x->h : x->w;
    double by = (double)size / (double)shorter;
    int64_t h = how->crop ? (int64_t)rint(by * (double)x->h) : size;
    int64_t w = how->crop ? (int64_t)rint(by * (double)x->w) : size;
    axis across = axis_of(x->w, w, size), down = axis_of(x->h, h, size);
    float *rows = c->host->scratch(c->ctx, (size_t)(x->h * size * 3) * sizeof *rows, KILN_CPU);
    if (!rows) return KILN_ERR_NOMEM;
    TRY(scale_rows(c, x, &across, rows));
    return scale_columns(c, rows, size, &down, out);
}

kiln_status clip_preprocess(const kiln_call *c, const clip_preprocessing *how, const clip_picture *from, float *out)
{
    int64_t pixels = how->size * how->size;
    if (from->h != how->size || from->w != how->size)
        TRY(scale(c, how, from, out));
    else
        for (int64_t i = 0; i < pixels * 3; i++) out[i] = from->data[i / 3 * from->channels + i % 3];
    for (int64_t i = 0; i < pixels * 3; i++) {
        double byte = rint(fmin(fmax(255.0 * (double)out[i], 0), 255));
        out[i] = (float)((byte / 255 - how->mean[i % 3]) / how->std[i % 3]);
    }
    return KILN_OK;
}
