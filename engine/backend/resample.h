/* resample.h - where the ops on pictures read: padding, torch's interpolate and grid_sample, one axis at a time. The
 * same for every backend: C, C++ and CUDA. Layer: backend.
 */
#ifndef KILN_BACKEND_RESAMPLE_H
#define KILN_BACKEND_RESAMPLE_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define RESAMPLE_FN static __device__ __forceinline__
#else
#define RESAMPLE_FN static inline
#endif

/* ---- padding (kiln_pad_mode): which of 0..n-1 stands at place i; -1: none. i is one period away at most. ---- */

RESAMPLE_FN int64_t padded_place(int mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (mode == 0) return -1;
    if (mode == 1) return i < 0 ? -i : 2 * (n - 1) - i;
    if (mode == 2) return i < 0 ? 0 : n - 1;
    return i < 0 ? i + n : i - n;
}

/* ---- cubic convolution (Keys 1981) ---- */

RESAMPLE_FN double cubic_weight(double x, double a)
{
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
}

/* ---- interpolate ---- */

enum { RESAMPLE_NEAREST, RESAMPLE_EXACT, RESAMPLE_LINEAR, RESAMPLE_CUBIC, RESAMPLE_AREA }; /* kiln_interpolate_mode */

typedef struct {
    int mode, align_corners, antialias;
    int64_t in, out;
} resample_axis;

/* What result o is made of: `count` places from `first` on, with weights of `resample_weight`. Places may lie outside:
 * the nearest inside is meant. */
typedef struct {
    int64_t first, count;
    double at, scale, total; /* source position of o; of antialias: its centre, the filter's inverse width, the sum */
} resample_span;

RESAMPLE_FN double resample_filter(const resample_axis *a, const resample_span *s, int64_t k)
{
    double x = ((double)(s->first + k) - s->at + 0.5) * s->scale;
    if (a->mode == RESAMPLE_CUBIC) return cubic_weight(x, -0.5);
    return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

RESAMPLE_FN void resample_wide(const resample_axis *a, int64_t o, double scale, resample_span *s)
{
    double wide = scale > 1 ? scale : 1, support = (a->mode == RESAMPLE_CUBIC ? 2 : 1) * wide;
    s->at = scale * ((double)o + 0.5);
    s->scale = 1 / wide;
    int64_t first = (int64_t)(s->at - support + 0.5), last = (int64_t)(s->at + support + 0.5);
    s->first = first > 0 ? first : 0;
    s->count = (last < a->in ? last : a->in) - s->first;
    s->total = 0;
    for (int64_t k = 0; k < s->count; k++) s->total += resample_filter(a, s, k);
}

RESAMPLE_FN resample_span resample_at(const resample_axis *a, int64_t o)
{
    resample_span s = {0, 1, 0, 0, 1};
    double scale = (double)a->in / (double)a->out;
    if (a->mode == RESAMPLE_NEAREST || a->mode == RESAMPLE_EXACT) { /* torch's arithmetic is f32 here for all types */
        float step = (float)a->in / (float)a->out;
        int64_t i = (int64_t)floorf(a->mode == RESAMPLE_EXACT ? ((float)o + 0.5f) * step : (float)o * step);
        s.first = i < a->in - 1 ? i : a->in - 1;
        return s;
    }
    if (a->mode == RESAMPLE_AREA) {
        s.first = o * a->in / a->out;
        s.count = ((o + 1) * a->in + a->out - 1) / a->out - s.first;
        return s;
    }
    if (a->align_corners) scale = a->out > 1 ? (double)(a->in - 1) / (double)(a->out - 1) : 0;
    if (a->antialias) {
        resample_wide(a, o, scale, &s);
        return s;
    }
    s.at = a->align_corners ? scale * (double)o : scale * ((double)o + 0.5) - 0.5;
    if (a->mode == RESAMPLE_LINEAR && s.at < 0) s.at = 0;
    s.first = (int64_t)floor(s.at) - (a->mode == RESAMPLE_CUBIC);
    s.count = a->mode == RESAMPLE_CUBIC ? 4 : 2;
    return s;
}

RESAMPLE_FN double resample_weight(const resample_axis *a, const resample_span *s, int64_t k)
{
    if (a->mode == RESAMPLE_NEAREST || a->mode == RESAMPLE_EXACT) return 1;
    if (a->mode == RESAMPLE_AREA) return 1 / (double)s->count;
    if (a->antialias) return resample_filter(a, s, k) / s->total;
    double x = (double)(s->first + k) - s->at;
    return a->mode == RESAMPLE_CUBIC ? cubic_weight(x, -0.75) : 1 - fabs(x);
}

RESAMPLE_FN int64_t resample_place(const resample_axis *a, const resample_span *s, int64_t k)
{
    return padded_place(2, s->first + k, a->in);
}

/* ---- grid_sample ---- */

enum { GRID_BILINEAR, GRID_NEAREST, GRID_BICUBIC }; /* kiln_sample_mode */
enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };  /* kiln_sample_padding */
enum { GRID_TAPS = 4 };

/* A position that torch's padding brings inside, 0..n-1; NaN becomes 0. */
RESAMPLE_FN double grid_inside(double v, int64_t n, int padding, int align_corners)
{
    if (padding == GRID_REFLECTION) {
        double low = align_corners ? 0 : -0.5, span = align_corners ? (double)(n - 1) : (double)n;
        if (span <= 0) return 0;
        double away = fabs(v - low), flips = floor(away / span), rest = away - flips * span;
        v = fmod(flips, 2.0) == 0 ? rest + low : span - rest + low;
    }
    return v > 0 ? v < (double)(n - 1) ? v : (double)(n - 1) : 0;
}

/* The places along an axis that coordinate v of -1..1 reads, and their weights; -1: what is outside, which is 0. */
RESAMPLE_FN int grid_taps(int mode, int padding, int align_corners, double v, int64_t n, int64_t place[GRID_TAPS],
                          double weight[GRID_TAPS])
{
    int count = mode == GRID_BICUBIC ? 4 : mode == GRID_BILINEAR ? 2 : 1;
    v = align_corners ? (v + 1) / 2 * (double)(n - 1) : ((v + 1) * (double)n - 1) / 2;
    if (mode != GRID_BICUBIC && padding != GRID_ZEROS) v = grid_inside(v, n, padding, align_corners);
    if (!(fabs(v) < 1e9)) v = padding == GRID_ZEROS ? -1e9 : grid_inside(v, n, padding, align_corners);
    double first = mode == GRID_NEAREST ? rint(v) : floor(v) - (mode == GRID_BICUBIC);
    for (int k = 0; k < count; k++) {
        double at = first + k, x = at - v;
        weight[k] = mode == GRID_NEAREST ? 1 : mode == GRID_BILINEAR ? 1 - fabs(x) : cubic_weight(x, -0.75);
        if (mode == GRID_BICUBIC && padding != GRID_ZEROS) at = grid_inside(at, n, padding, align_corners);
        place[k] = at >= 0 && at < (double)n ? (int64_t)at : -1;
    }
    return count;
}

#endif
