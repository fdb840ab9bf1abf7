/* resize.c - interpolate and grid_sample: each pixel of the result is a weighted sum of few pixels. interpolate sums
 * rows of pixels first, then pixels of that row; resample.h has the places and weights.
 */
#include "backend/cpu/cpu.h"

#include "backend/resample.h"
#include "base/memory_alloc.h"

#include <string.h>

enum { TOGETHER = 4, TILE_ELEMENTS = 1 << 16, STRIP = 4096, PIXELS = 16, LINE = 64 };

/* What column k of the result is made of: places and weights, `most` of them each, the others 0. */
typedef struct {
    int64_t most;
    int32_t *place;
    float *weight;
} taps;

typedef struct {
    taps y, x;
} plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t per_tile, wide, strips; /* of interpolate: columns of a strip of the result */
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
        for (int64_t k = 0; k < s.count; k++) {
            t->place[o * t->most + k] = (int32_t)resample_place(a, &s, k);
            t->weight[o * t->most + k] = (float)resample_weight(a, &s, k);
        }
    }
    return t->place && t->weight;
}

static void plan_free(void *arg)
{
    plan *p = arg;
    mem_free(p->y.place), mem_free(p->y.weight), mem_free(p->x.place), mem_free(p->x.weight);
    mem_free(p);
}

static const char *pixel_at(const call *j, int64_t pixel) { return place_of(&j->c->op.in[0], j->a->in[0], pixel, 0); }

/* Pixels [first, last) of row = the sum of rows of pixels, which may lie apart, with their weights. */
static void blend_rows(const call *j, float *row, int64_t first, int64_t last, const int64_t *from, const float *w,
                       size_t rows)
{
    const operand_desc *x = &j->c->op.in[0];
    int64_t C = columns_of(x), dense = x->weight || x->ld == C, n = dense ? (last - first) * C : C;
    for (int64_t p = first; p < (dense ? first + 1 : last); p++) {
        const void *at[TOGETHER];
        for (size_t r = 0; r < rows; r++) at[r] = pixel_at(j, from[r] + p);
        j->c->k->weigh_stored(row + p * C, 0, 1, w, 1, at, rows, type_of(x), (size_t)n);
    }
}

static void make_row(const call *j, float *row, int64_t first, int64_t last, int64_t image, int64_t y)
{
    const taps *t = &((const plan *)j->c->plan)->y;
    const int64_t *s = j->c->op.in[0].shape.dim;
    int64_t from[TOGETHER];
    float w[TOGETHER];
    size_t n = 0;
    memset(row + first * s[3], 0, (size_t)((last - first) * s[3]) * sizeof *row);
    for (int64_t k = 0; k < t->most; k++) {
        w[n] = t->weight[y * t->most + k];
        if (w[n] == 0) continue;
        from[n++] = (image * s[1] + t->place[y * t->most + k]) * s[2];
        if (n < TOGETHER) continue;
        blend_rows(j, row, first, last, from, w, n);
        n = 0;
    }
    if (n) blend_rows(j, row, first, last, from, w, n);
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

/* Some rows of a strip of the result, whose row of sums stays in cache. */
static kiln_status interpolate_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const plan *p = j->c->plan;
    const operand_desc *out = &j->c->op.out;
    const int64_t *s = j->c->op.in[0].shape.dim, *d = out->shape.dim;
    int64_t begin = (int64_t)index % j->strips * j->wide, end = min64(d[2], begin + j->wide), first, last;
    int64_t row_first = (int64_t)index / j->strips * j->per_tile,
            row_last = min64(d[0] * d[1], row_first + j->per_tile);
    float *row = (float *)j->a->scratch + (size_t)slot * (size_t)(s[2] * d[3]);
    (void)e;
    seen_by(&p->x, begin, end, &first, &last);
    for (int64_t i = row_first; i < row_last; i++) {
        make_row(j, row, first, last, i / d[1], i % d[1]);
        j->c->k->blend_row((char *)j->a->out + (size_t)((i * d[2] + begin) * out->ld) * size_of(out->dtype), out->dtype,
                           (size_t)out->ld * size_of(out->dtype), row, p->x.place + begin * p->x.most,
                           p->x.weight + begin * p->x.most, (size_t)p->x.most, (size_t)(end - begin), (size_t)d[3],
                           j->c->past);
    }
    return KILN_OK;
}

static kiln_status interpolate(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const int64_t *d = c->op.out.shape.dim;
    call j = {.c = c, .a = a, .wide = STRIP / (d[3] + 1) + 1};
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
        !make_taps(&p->x, &(resample_axis){mode, align, antialias, s[2], d[2]}))
        return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->base.scratch_bytes = (size_t)cpu_slots() * (size_t)(s[2] * d[3]) * sizeof(float);
    c->base.flops = 2 * (uint64_t)(d[0] * d[1] * d[3]) * (uint64_t)(p->y.most * s[2] + p->x.most * d[2]);
    return KILN_OK;
}

/* ---- grid_sample ---- */

static void store_pixel(const call *j, int64_t i, const float *v)
{
    const operand_desc *out = &j->c->op.out;
    j->c->k->store((char *)j->a->out + (size_t)(i * out->ld) * size_of(out->dtype), out->dtype, v,
                   (size_t)columns_of(out));
}

static double grid_number(const call *j, int64_t i, int64_t column)
{
    const operand_desc *grid = &j->c->op.in[1];
    float v;
    j->c->k->load(&v, place_of(grid, j->a->in[1], i, column), type_of(grid), 1);
    return (double)v;
}

typedef struct {
    const void *at[GRID_TAPS * GRID_TAPS];
    float w[GRID_TAPS * GRID_TAPS];
    size_t n;
} grid_pixel;

/* What result i is made of; it is fetched meanwhile. */
static void grid_look(const call *j, int64_t i, grid_pixel *p)
{
    const int64_t *s = j->c->op.in[0].shape.dim, *d = j->c->op.out.shape.dim;
    int mode = (int)j->c->op.attr.grid_sample.mode, padding = (int)j->c->op.attr.grid_sample.padding,
        align = (int)j->c->op.attr.grid_sample.align_corners;
    int64_t x[GRID_TAPS], y[GRID_TAPS], n = i / d[2] / d[1];
    double wx[GRID_TAPS], wy[GRID_TAPS];
    int count = grid_taps(mode, padding, align, grid_number(j, i, 0), s[2], x, wx);
    grid_taps(mode, padding, align, grid_number(j, i, 1), s[1], y, wy);
    size_t bytes = (size_t)d[3] * size_of(type_of(&j->c->op.in[0]));
    p->n = 0;
    for (int k = 0; k < count * count; k++) {
        if (y[k / count] < 0 || x[k % count] < 0) continue;
        const char *at = pixel_at(j, (n * s[1] + y[k / count]) * s[2] + x[k % count]);
        for (size_t b = 0; b < bytes; b += LINE) __builtin_prefetch(at + b);
        p->at[p->n] = at;
        p->w[p->n++] = (float)(wy[k / count] * wx[k % count]);
    }
}

static kiln_status grid_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    int64_t C = columns_of(&j->c->op.out), last = min64(rows_of(&j->c->op.out), ((int64_t)index + 1) * j->per_tile);
    float *pixel = (float *)j->a->scratch + (size_t)slot * (size_t)C;
    grid_pixel p[PIXELS];
    (void)e;
    for (int64_t i = (int64_t)index * j->per_tile; i < last; i += PIXELS) {
        int64_t now = min64(PIXELS, last - i);
        for (int64_t q = 0; q < now; q++) grid_look(j, i + q, &p[q]);
        for (int64_t q = 0; q < now; q++) {
            memset(pixel, 0, (size_t)C * sizeof *pixel);
            for (size_t k = 0; k < p[q].n; k += TOGETHER)
                j->c->k->weigh_stored(pixel, 0, 1, p[q].w + k, 1, p[q].at + k,
                                      p[q].n - k < TOGETHER ? p[q].n - k : TOGETHER, type_of(&j->c->op.in[0]),
                                      (size_t)C);
            store_pixel(j, i + q, pixel);
        }
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
