/* bislerp.h - scaling a latent along the sphere: between two cells the vector of channels turns evenly from one
 * direction to the other, and its length changes evenly. Header only, as resize.h.
 *
 * The places are those of a bilinear interpolation without antialiasing (align_corners False); the width is scaled
 * first, then the height. Nearly equal directions give the first of the two, nearly opposite ones the straight line.
 * ComfyUI's "bislerp".
 */
#ifndef KILN_BISLERP_H
#define KILN_BISLERP_H

#include "kiln/resize.h"

enum { RESIZE_BISLERP = RESIZE_BICUBIC + 1 };

/* out = the vector a share r of the way from a to b, each of c numbers. */
static inline void bislerp_between(const float *a, const float *b, double r, int64_t c, float *out)
{
    const double close = 1e-5;
    double aa = 0, bb = 0, ab = 0, of_a = 1, of_b = 0;
    for (int64_t k = 0; k < c; k++) {
        aa += (double)a[k] * (double)a[k];
        bb += (double)b[k] * (double)b[k];
        ab += (double)a[k] * (double)b[k];
    }
    double la = sqrt(aa), lb = sqrt(bb), dot = la > 0 && lb > 0 ? ab / (la * lb) : 0, length = la * (1 - r) + lb * r;
    if (dot < close - 1) {
        of_a = 1 - r, of_b = r;
    } else if (dot <= 1 - close) {
        double angle = acos(dot), whole = sin(angle);
        of_a = la > 0 ? length * sin((1 - r) * angle) / (whole * la) : 0;
        of_b = lb > 0 ? length * sin(r * angle) / (whole * lb) : 0;
    }
    for (int64_t k = 0; k < c; k++) out[k] = (float)(of_a * (double)a[k] + of_b * (double)b[k]);
}

/* Cell i of `to` made of `from` cells: between which two, and where. */
static inline void bislerp_place(int64_t i, int64_t from, int64_t to, int64_t *first, int64_t *second, double *r)
{
    double place = ((double)i + 0.5) * (double)from / (double)to - 0.5, last = (double)(from - 1);
    place = place < 0 ? 0 : place > last ? last : place;
    *first = (int64_t)place;
    *second = *first + 1 < from ? *first + 1 : *first;
    *r = place - floor(place);
}

/* between: source height * w * c floats of working memory; dst: h * w * c. */
static inline void bislerp_plane(resize_source s, float *between, float *dst, int64_t h, int64_t w)
{
    int64_t one, other, row = w * s.c;
    double r;
    for (int64_t x = 0; x < w; x++) {
        bislerp_place(x, s.w, w, &one, &other, &r);
        for (int64_t y = 0; y < s.h; y++)
            bislerp_between(s.data + y * s.row + one * s.c, s.data + y * s.row + other * s.c, r, s.c,
                            between + y * row + x * s.c);
    }
    for (int64_t y = 0; y < h; y++) {
        bislerp_place(y, s.h, h, &one, &other, &r);
        for (int64_t x = 0; x < w; x++)
            bislerp_between(between + one * row + x * s.c, between + other * row + x * s.c, r, s.c,
                            dst + y * row + x * s.c);
    }
}

#endif
