/* lanczos.c - see lanczos.h. */
#include "lanczos.h"

#include "kiln/kit.h"

enum { PRECISION = 22, ROWS_A_REPORT = 32 };

/* The weights of each of `to` output samples: sample i is a sum of n[i] <= capacity inputs from first[i] on. */
typedef struct {
    int64_t to, capacity;
    int64_t *first, *n;
    int32_t *weight;
} taps;

static double sinc(double x) { return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x); }
static double lanczos3(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

static void place_taps(taps *t, int64_t i, int64_t from, double *real)
{
    double scale = (double)from / (double)t->to, stretch = scale < 1 ? 1 : scale, support = 3 * stretch;
    double centre = ((double)i + 0.5) * scale, sum = 0;
    int64_t low = (int64_t)(centre - support + 0.5), high = (int64_t)(centre + support + 0.5);
    low = low < 0 ? 0 : low;
    high = high > from ? from : high;
    t->first[i] = low;
    t->n[i] = high - low;
    for (int64_t k = 0; k < high - low; k++) sum += real[k] = lanczos3(((double)(k + low) - centre + 0.5) / stretch);
    for (int64_t k = 0; k < high - low; k++) {
        double fixed = (sum != 0 ? real[k] / sum : real[k]) * (1 << PRECISION);
        t->weight[i * t->capacity + k] = (int32_t)(fixed < 0 ? fixed - 0.5 : fixed + 0.5);
    }
}

static kiln_status make_taps(const kiln_call *c, taps *t, int64_t from, int64_t to)
{
    double stretch = from > to ? (double)from / (double)to : 1;
    *t = (taps){.to = to, .capacity = (int64_t)ceil(3 * stretch) * 2 + 1};
    t->first = c->host->scratch(c->ctx, (size_t)to * sizeof *t->first, KILN_CPU);
    t->n = c->host->scratch(c->ctx, (size_t)to * sizeof *t->n, KILN_CPU);
    t->weight = c->host->scratch(c->ctx, (size_t)(to * t->capacity) * sizeof *t->weight, KILN_CPU);
    double *real = c->host->scratch(c->ctx, (size_t)t->capacity * sizeof *real, KILN_CPU);
    if (!t->first || !t->n || !t->weight || !real) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < to; i++) place_taps(t, i, from, real);
    return KILN_OK;
}

static uint8_t clip(int64_t v)
{
    v >>= PRECISION;
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

static uint8_t to_byte(float x)
{
    float v = 255.0f * x;
    return v >= 255.0f ? 255 : v > 0 ? (uint8_t)v : 0;
}

/* One output sample; src is its first tap, and taps are `step` bytes apart. */
static uint8_t weigh(const taps *t, int64_t i, const uint8_t *src, int64_t step)
{
    int64_t sum = 1 << (PRECISION - 1);
    const int32_t *weight = t->weight + i * t->capacity;
    for (int64_t k = 0; k < t->n[i]; k++) sum += (int64_t)weight[k] * src[k * step];
    return clip(sum);
}

static void across(const taps *t, resize_source s, int64_t y, uint8_t *line, uint8_t *dst)
{
    for (int64_t i = 0; i < s.w * s.c; i++) line[i] = to_byte(s.data[y * s.row + i]);
    for (int64_t x = 0; x < t->to; x++)
        for (int64_t k = 0; k < s.c; k++)
            dst[x * s.c + k] = s.w == t->to ? line[x * s.c + k] : weigh(t, x, line + t->first[x] * s.c + k, s.c);
}

kiln_status lanczos_resize(const kiln_call *c, resize_source s, float *dst, int64_t h, int64_t w)
{
    taps tx, ty;
    int64_t row = w * s.c;
    TRY(make_taps(c, &tx, s.w, w));
    TRY(make_taps(c, &ty, s.h, h));
    uint8_t *wide = c->host->scratch(c->ctx, (size_t)(s.h * row), KILN_CPU),
            *line = c->host->scratch(c->ctx, (size_t)(s.w * s.c), KILN_CPU);
    if (!wide || !line) return KILN_ERR_NOMEM;
    for (int64_t y = 0; y < s.h; y++) {
        if (y % ROWS_A_REPORT == 0) TRY(c->host->progress(c->ctx, (uint64_t)y, (uint64_t)(s.h + h), "scaling"));
        across(&tx, s, y, line, wide + y * row);
    }
    for (int64_t y = 0; y < h; y++) {
        if (y % ROWS_A_REPORT == 0) TRY(c->host->progress(c->ctx, (uint64_t)(s.h + y), (uint64_t)(s.h + h), "scaling"));
        for (int64_t i = 0; i < row; i++)
            dst[y * row + i] =
                (float)(s.h == h ? wide[y * row + i] : weigh(&ty, y, wide + ty.first[y] * row + i, row)) / 255.0f;
    }
    return KILN_OK;
}
