/* resize.h - scaling planes of interleaved channels as torch's interpolate does. Header only, so that every plugin that
 * scales has its own copy.
 *
 * Without antialiasing, pixel centres at half (align_corners False): torch.nn.functional.interpolate, modes
 * nearest-exact, bilinear, area (adaptive average) and bicubic (a = -0.75).
 */
#ifndef KILN_RESIZE_H
#define KILN_RESIZE_H

#include <math.h>
#include <stdint.h>

enum { RESIZE_NEAREST, RESIZE_BILINEAR, RESIZE_AREA, RESIZE_BICUBIC };

typedef struct {
    const float *data;
    int64_t h, w, c, row; /* row: floats between rows */
} resize_source;
typedef struct {
    int64_t y, x, h, w;
} resize_box;

/* The middle part of an h by w source that has the proportions of th by tw (ComfyUI's crop: center). */
static inline resize_box resize_centre(int64_t h, int64_t w, int64_t th, int64_t tw)
{
    resize_box b = {0, 0, h, w};
    double old = (double)w / (double)h, wanted = (double)tw / (double)th;
    if (old > wanted)
        b.x = (int64_t)rint(((double)w - (double)w * (wanted / old)) / 2);
    else if (old < wanted)
        b.y = (int64_t)rint(((double)h - (double)h * (old / wanted)) / 2);
    if (b.x > (w - 1) / 2) b.x = (w - 1) / 2; /* something is left of a narrow picture */
    if (b.y > (h - 1) / 2) b.y = (h - 1) / 2;
    b.h = h - 2 * b.y;
    b.w = w - 2 * b.x;
    return b;
}

static inline int64_t resize_clamp(int64_t v, int64_t n) { return v < 0 ? 0 : v >= n ? n - 1 : v; }

/* Up to four taps along one axis. */
typedef struct {
    int64_t at[4];
    double weight[4];
    int n;
} resize_taps;

static inline double resize_cubic(double x)
{
    const double a = -0.75;
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* torch's: the scale is a float, and the place before its half is rounded to one too, which decides where it falls
 * between two pixels. Its product and difference are one rounding (fused); in double they are exact. */
static inline int64_t resize_nearest(int64_t i, int64_t from, int64_t to)
{
    float scale = (float)from / (float)to, place = (float)(((double)i + 0.5) * (double)scale - 0.5);
    return resize_clamp((int64_t)floorf(fmaxf(place, 0) + 0.5f), from);
}

static inline resize_taps resize_axis(int64_t i, int64_t from, int64_t to, int method)
{
    resize_taps t = {{0}, {1}, 1};
    double place = ((double)i + 0.5) * (double)from / (double)to - 0.5;
    if (method == RESIZE_NEAREST) {
        t.at[0] = resize_nearest(i, from, to);
    } else if (method == RESIZE_BILINEAR) {
        double p = place < 0 ? 0 : place;
        t.n = 2;
        t.at[0] = resize_clamp((int64_t)p, from), t.at[1] = resize_clamp((int64_t)p + 1, from);
        t.weight[1] = p - floor(p), t.weight[0] = 1 - t.weight[1];
    } else {
        double base = floor(place), part = place - base;
        t.n = 4;
        for (int k = 0; k < 4; k++) {
            t.at[k] = resize_clamp((int64_t)base - 1 + k, from);
            t.weight[k] = resize_cubic(part + 1 - k);
        }
    }
    return t;
}

static inline void resize_area(resize_source s, float *dst, int64_t h, int64_t w, int64_t first, int64_t end)
{
    for (int64_t y = first; y < end; y++)
        for (int64_t x = 0; x < w; x++) {
            int64_t y0 = y * s.h / h, y1 = ((y + 1) * s.h + h - 1) / h, x0 = x * s.w / w,
                    x1 = ((x + 1) * s.w + w - 1) / w;
            for (int64_t k = 0; k < s.c; k++) {
                double sum = 0;
                for (int64_t i = y0; i < y1; i++)
                    for (int64_t j = x0; j < x1; j++) sum += (double)s.data[i * s.row + j * s.c + k];
                dst[(y * w + x) * s.c + k] = (float)(sum / (double)((y1 - y0) * (x1 - x0)));
            }
        }
}

/* Rows [first, end) of the h by w result, so that a caller can look up now and then. */
static inline void resize_rows(resize_source s, float *dst, int64_t h, int64_t w, int method, int64_t first,
                               int64_t end)
{
    if (method == RESIZE_AREA) {
        resize_area(s, dst, h, w, first, end);
        return;
    }
    for (int64_t y = first; y < end; y++) {
        resize_taps ty = resize_axis(y, s.h, h, method);
        for (int64_t x = 0; x < w; x++) {
            resize_taps tx = resize_axis(x, s.w, w, method);
            for (int64_t k = 0; k < s.c; k++) {
                double sum = 0;
                for (int i = 0; i < ty.n; i++)
                    for (int j = 0; j < tx.n; j++)
                        sum += ty.weight[i] * tx.weight[j] * (double)s.data[ty.at[i] * s.row + tx.at[j] * s.c + k];
                dst[(y * w + x) * s.c + k] = (float)sum;
            }
        }
    }
}

static inline void resize_plane(resize_source s, float *dst, int64_t h, int64_t w, int method)
{
    resize_rows(s, dst, h, w, method, 0, h);
}

#endif
