/* resize.c - interpolate and grid_sample: each pixel of the result is a weighted sum of few pixels. interpolate sums
 * rows of pixels first, then pixels of that row; resample.h has the places and weights.
 */
#include "backend/cpu/cpu.h"

#include "backend/resample.h"
#include "base/memory_alloc.h"

#include <string.h>

enum { TOGETHER = 4, TILE_ELEMENTS = 1 << 16, STRIP = 4096, PIXELS = 16, LINE = 64, LANES = 16, FEW_STRIP = 768 };

/* What column k of the result is made of: places and weights, `most` of them each; what is not needed weighs 0. */
typedef struct {
    int64_t most;
    int32_t *place;
    float *weight;
} taps;

/* The same of the numbers of a dense row, 16 at a time, which lie among the 32 from `base` on (see blend_lanes()). */
typedef struct {
    int32_t *base;
    uint8_t *place;
    float *weight;
} lanes;

typedef struct {
    taps y, x;
    lanes few; /* of pixels of few channels, or NULL */
} plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t per_tile, wide, strips; /* of interpolate: columns of a strip of the result */
    int few;                        /* by blend_lanes() */
} call;

/* ---- interpolate ---- */

static int make_taps(taps *t, const resample_axis *a)
{
    t->most = 1;
    for (int64_t o = 0; o < a->out; o++) {
        resample_span s = resample_at(a, o);
        if (s.count > t->most) t->most = s.count;
    }
    t->place = mem_calloc((size_t)(a->out * t->most), sizeof *t->place);
    t->weight = mem_calloc((size_t)(a->out * t->most), sizeof *t->weight);
    for (int64_t o = 0; o < a->out && t->place && t->weight; o++) {
        resample_span s = resample_at(a, o);
        for (int64_t k = 0; k < t->most; k++) {
            t->place[o * t->most + k] = (int32_t)resample_place(a, &s, k < s.count ? k : 0);
            t->weight[o * t->most + k] = k < s.count ? (float)resample_weight(a, &s, k) : 0;
        }
    }
    return t->place && t->weight;
}

/* Vector v of a row: its numbers are those from channel v 16 on, of which there are n. */
static int lanes_fit(lanes *l, const taps *t, int64_t channels, int64_t v, int64_t n)
{
    enum { SEEN = 2 * LANES };
    int64_t from = (int64_t)v * LANES, count = min64(LANES, n - from), least = INT32_MAX;
    for (int64_t i = from; i < from + count; i++)
        for (int64_t k = 0; k < t->most; k++)
            if (t->weight[i / channels * t->most + k] != 0)
                least = min64(least, t->place[i / channels * t->most + k] * channels + i % channels);
    l->base[v] = least < INT32_MAX ? (int32_t)least : 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < t->most; k++) {
            int64_t tap = (from + i) / channels * t->most + k, to = (v * t->most + k) * LANES + i;
            int64_t at = t->place[tap] * channels + (from + i) % channels - l->base[v];
            if (t->weight[tap] == 0) continue;
            if (at >= SEEN) return 0;
            l->place[to] = (uint8_t)at, l->weight[to] = t->weight[tap];
        }
    return 1;
}

/* Pixels that do not fill vectors, where those that 16 numbers are made of lie near one another. 0: no memory. */
static int make_lanes(plan *p, int64_t channels, int64_t pixels)
{
    int64_t n = pixels * channels, vectors = (n + LANES - 1) / LANES, fit = n && channels < LANES;
    if (!fit) return 1;
    size_t numbers = (size_t)(vectors * p->x.most) * LANES;
    p->few.base = mem_calloc((size_t)vectors, sizeof *p->few.base);
    p->few.place = mem_calloc(numbers, sizeof *p->few.place);
    p->few.weight = mem_calloc(numbers, sizeof *p->few.weight);
    if (!p->few.base || !p->few.place || !p->few.weight) return 0;
    for (int64_t v = 0; v < vectors && fit; v++) fit = lanes_fit(&p->few, &p->x, channels, v, n);
    if (!fit) mem_free(p->few.base), p->few.base = NULL;
    return 1;
}

static void plan_free(void *arg)
{
    plan *p = arg;
    mem_free(p->y.place), mem_free(p->y.weight), mem_free(p->x.place), mem_free(p->x.weight);
    mem_free(p->few.base), mem_free(p->few.place), mem_free(p->few.weight);
    mem_free(p);
}

static const char *pixel_at(const call *j, int64_t pixel) { return place_of(&j->c->op.in[0], j->a->in[0], pixel, 0); }

/* Pixels [first, last) of row = the sum of rows of pixels, which may lie apart, with their weights; `more`: += them. */
static void blend_rows(const call *j, float *row, int64_t first, int64_t last, const int64_t *from, const float *w,
                       size_t rows, int more)
{
    const operand_desc *x = &j->c->op.in[0];
    int64_t C = columns_of(x), dense = x->weight || x->ld == C, n = dense ? (last - first) * C : C;
    for (int64_t p = first; p < (dense ? first + 1 : last); p++) {
        const void *at[TOGETHER];
        for (size_t r = 0; r < rows; r++) at[r] = pixel_at(j, from[r] + p);
        if (more)
            j->c->k->weigh_stored(row + p * C, 0, 1, w, 1, at, rows, type_of(x), (size_t)n);
        else
            j->c->k->sum_weighed(row + p * C, w, at, rows, type_of(x), (size_t)n);
    }
}

static void make_row(const call *j, float *row, int64_t first, int64_t last, int64_t image, int64_t y)
{
    const taps *t = &((const plan *)j->c->plan)->y;
    const int64_t *s = j->c->op.in[0].shape.dim;
    int64_t from[TOGETHER];
    float w[TOGETHER];
    size_t n = 0;
    int more = 0;
    for (int64_t k = 0; k < t->most; k++) {
        w[n] = t->weight[y * t->most + k];
        if (w[n] == 0) continue;
        from[n++] = (image * s[1] + t->place[y * t->most + k]) * s[2];
        if (n < TOGETHER) continue;
        blend_rows(j, row, first, last, from, w, n, more);
        n = 0, more = 1;
    }
    if (n) blend_rows(j, row, first, last, from, w, n, more);
    if (!n && !more) memset(row + first * s[3], 0, (size_t)((last - first) * s[3]) * sizeof *row);
}

/* The pixels [first, last) of a row that results [begin, end) of one are made of. */
static void seen_by(const taps *t, int64_t begin, int64_t end, int64_t *first, int64_t *last)
{
    *first = INT32_MAX, *last = 0;
    for (int64_t i = begin * t->most; i < end * t->most; i++) {
        *first = min64(*first, t->place[i]);
        if (t->place[i] >= *last) *last = t->place[i] + 1;
    }
}

/* Results [begin, end) of row i from a row of sums. */
static void finish_row(const call *j, const float *row, int64_t i, int64_t begin, int64_t end)
{
    const plan *p = j->c->plan;
    const operand_desc *out = &j->c->op.out;
    int64_t C = columns_of(out), width = out->shape.dim[2], vector = begin * C / LANES, most = p->x.most;
    char *to = (char *)j->a->out + (size_t)((i * width + begin) * out->ld) * size_of(out->dtype);
    if (j->few)
        j->c->k->blend_lanes(to, out->dtype, row, p->few.base + vector, p->few.place + vector * most * LANES,
                             p->few.weight + vector * most * LANES, (size_t)most, (size_t)((end - begin) * C),
                             j->c->past);
    else
        j->c->k->blend_row(to, out->dtype, (size_t)out->ld * size_of(out->dtype), row, p->x.place + begin * most,
                           p->x.weight + begin * most, (size_t)most, (size_t)(end - begin), (size_t)C, j->c->past);
}

static size_t row_floats(const op_desc *op)
{
    return round_up((size_t)(op->in[0].shape.dim[2] * columns_of(&op->out)), LANES) + 2 * LANES;
}

/* Some rows of a strip of the result, whose row of sums stays in cache. */
static kiln_status interpolate_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const plan *p = j->c->plan;
    const int64_t *d = j->c->op.out.shape.dim;
    int64_t begin = (int64_t)index % j->strips * j->wide, end = min64(d[2], begin + j->wide), first, last;
    int64_t row_first = (int64_t)index / j->strips * j->per_tile,
            row_last = min64(d[0] * d[1], row_first + j->per_tile);
    float *row = (float *)j->a->scratch + (size_t)slot * row_floats(&j->c->op);
    (void)e;
    seen_by(&p->x, begin, end, &first, &last);
    memset(row + last * d[3], 0, 2 * LANES * sizeof *row); /* is read, and counts for nothing */
    for (int64_t i = row_first; i < row_last; i++) {
        make_row(j, row, first, last, i / d[1], i % d[1]);
        finish_row(j, row, i, begin, end);
    }
    return KILN_OK;
}

static kiln_status interpolate(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const int64_t *d = c->op.out.shape.dim;
    const plan *p = c->plan;
    call j = {.c = c, .a = a, .few = p->few.base && c->op.out.ld == d[3] && c->op.out.dtype != KILN_F16};
    j.wide = j.few ? (int64_t)round_up((size_t)(FEW_STRIP / d[3]), LANES) : STRIP / (d[3] + 1) + 1;
    j.strips = (d[2] + j.wide - 1) / j.wide, j.per_tile = TILE_ELEMENTS / (min64(j.wide, d[2]) * d[3] + 1) + 1;
    return tiles_run(a->pool, (size_t)((d[0] * d[1] + j.per_tile - 1) / j.per_tile * j.strips), interpolate_tile, &j,
                     e);
}

kiln_status cpu_prepare_interpolate(cpu_kernel *c, error *e)
{
    const int64_t *s = c->op.in[0].shape.dim, *d = c->op.out.shape.dim;
    int mode = (int)c->op.attr.interpolate.mode, align = (int)c->op.attr.interpolate.align_corners,
        antialias = (int)c->op.attr.interpolate.antialias;
    plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = plan_free, c->body = interpolate;
    if (!shape_count(&c->op.in[0].shape))
        return error_set(e, KILN_ERR_UNSUPPORTED, "interpolate: a picture without pixels");
    if (!make_taps(&p->y, &(resample_axis){mode, align, antialias, s[1], d[1]}) ||
        !make_taps(&p->x, &(resample_axis){mode, align, antialias, s[2], d[2]}) || !make_lanes(p, d[3], d[2]))
        return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->base.scratch_bytes = (size_t)cpu_slots() * row_floats(&c->op) * sizeof(float);
    c->base.flops = 2 * (uint64_t)(d[0] * d[1] * d[3]) * (uint64_t)(p->y.most * s[2] + p->x.most * d[2]);
    return KILN_OK;
}

/* ---- grid_sample ---- */

/* The two coordinates of results first and on, up to PIXELS of them. */
static void grid_numbers(const call *j, int64_t first, int64_t n, float at[2 * PIXELS])
{
    const operand_desc *grid = &j->c->op.in[1];
    int64_t together = !grid->weight && grid->ld == 2 ? n : 1;
    for (int64_t i = 0; i < n; i += together)
        j->c->k->load(at + 2 * i, place_of(grid, j->a->in[1], first + i, 0), type_of(grid), (size_t)(2 * together));
}

typedef struct {
    const void *at[GRID_TAPS * GRID_TAPS];
    float w[GRID_TAPS * GRID_TAPS];
    size_t n;
} grid_pixel;

static int grid_axis(const op_desc *op, float at, int64_t size, int64_t place[GRID_TAPS], double weight[GRID_TAPS])
{
    int mode = (int)op->attr.grid_sample.mode, padding = (int)op->attr.grid_sample.padding,
        align = (int)op->attr.grid_sample.align_corners;
    if (mode == GRID_BILINEAR) return grid_taps(GRID_BILINEAR, padding, align, (double)at, size, place, weight);
    return grid_taps(mode, padding, align, (double)at, size, place, weight);
}

/* What result i, at (x, y) of -1 to 1, is made of; it is fetched meanwhile. */
static void grid_look(const call *j, int64_t i, const float xy[2], grid_pixel *p)
{
    const int64_t *s = j->c->op.in[0].shape.dim, *d = j->c->op.out.shape.dim;
    int64_t x[GRID_TAPS], y[GRID_TAPS], n = i / d[2] / d[1];
    double wx[GRID_TAPS], wy[GRID_TAPS];
    int count = grid_axis(&j->c->op, xy[0], s[2], x, wx);
    grid_axis(&j->c->op, xy[1], s[1], y, wy);
    size_t bytes = (size_t)d[3] * size_of(type_of(&j->c->op.in[0]));
    p->n = 0;
    for (int r = 0; r < count; r++)
        for (int k = 0; k < count; k++) {
            if (y[r] < 0 || x[k] < 0) continue;
            const char *at = pixel_at(j, (n * s[1] + y[r]) * s[2] + x[k]);
            for (size_t b = 0; b < bytes; b += LINE) __builtin_prefetch(at + b);
            p->at[p->n] = at;
            p->w[p->n++] = (float)(wy[r] * wx[k]);
        }
}

/* Result i; `pixel` has room for its channels. */
static void grid_make(const call *j, int64_t i, const grid_pixel *p, float *pixel)
{
    const operand_desc *out = &j->c->op.out;
    uint32_t type = type_of(&j->c->op.in[0]);
    size_t channels = (size_t)columns_of(out);
    char *to = (char *)j->a->out + (size_t)(i * out->ld) * size_of(out->dtype);
    if (out->dtype != KILN_F16) {
        j->c->k->sum_pixels(to, out->dtype, p->w, p->at, p->n, type, channels, j->c->past);
        return;
    }
    j->c->k->sum_pixels(pixel, KILN_F32, p->w, p->at, p->n, type, channels, 0);
    j->c->k->store(to, out->dtype, pixel, channels);
}

static kiln_status grid_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    int64_t C = columns_of(&j->c->op.out), first = (int64_t)index * j->per_tile,
            last = min64(rows_of(&j->c->op.out), first + j->per_tile);
    float *pixel = (float *)j->a->scratch + (size_t)slot * (size_t)C, at[2 * PIXELS];
    grid_pixel p[PIXELS];
    (void)e;
    for (int64_t i = first; i < last + PIXELS; i++) { /* one is looked at, one is made that was PIXELS before it */
        int64_t k = (i - first) % PIXELS;
        if (i - PIXELS >= first) grid_make(j, i - PIXELS, &p[k], pixel);
        if (k == 0 && i < last) grid_numbers(j, i, min64(PIXELS, last - i), at);
        if (i < last) grid_look(j, i, at + 2 * k, &p[k]);
    }
    return KILN_OK;
}

static kiln_status grid_sample(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {.c = c, .a = a, .per_tile = TILE_ELEMENTS / (columns_of(&c->op.out) + 1) + 1};
    return tiles_run(a->pool, (size_t)((rows_of(&c->op.out) + j.per_tile - 1) / j.per_tile), grid_tile, &j, e);
}

kiln_status cpu_prepare_grid_sample(cpu_kernel *c, error *e)
{
    (void)e;
    c->body = grid_sample;
    c->base.scratch_bytes = (size_t)cpu_slots() * (size_t)columns_of(&c->op.out) * sizeof(float);
    c->base.flops = 8 * (uint64_t)shape_count(&c->op.out.shape);
    return KILN_OK;
}
