/* places.c - bincount, take, take_along, scatter: elements by numbers that are known when it runs. Numbers from outside
 * are looked at before anything is read by them.
 */
#include "backend/cpu/cpu.h"

#include <string.h>

enum { TOGETHER = 8, CHUNK = 1024, TILE_ELEMENTS = 1 << 15, COUNTED = 1 << 18 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t outer, places, taken, inner; /* [outer, places, inner] by [taken]: dimensions joined */
    int64_t rows;                        /* 1: a run of `inner` elements is whole rows; 0: an element of one */
    int64_t per_tile;
    int32_t *first, *order; /* scatter: which of the indices stand for place p: order[first[p]] .. [first[p + 1] - 1] */
} call;

static int32_t index_at(const operand_desc *d, const void *data, int64_t i)
{
    int64_t columns = columns_of(d);
    int32_t v;
    memcpy(&v, place_of(d, data, i / columns, i % columns), sizeof v);
    return v;
}

static char *result_at(const call *j, int64_t row, int64_t column)
{
    const operand_desc *out = &j->c->op.out;
    return (char *)j->a->out + (size_t)(row * out->ld + column) * size_of(out->dtype);
}

static int64_t product(const shape *s, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t d = from; d < to; d++) n *= s->dim[d];
    return n;
}

static kiln_status outside(const call *j, int32_t place, int64_t n, error *e)
{
    return error_set(e, KILN_ERR_INVALID, "%s: place %d is outside the %lld of its axis", op_name(j->c->op.kind), place,
                     (long long)n);
}

static kiln_status tiles(const call *j, int64_t items, int64_t each, tile_fn *fn, error *e)
{
    call own = *j;
    own.per_tile = each >= TILE_ELEMENTS ? 1 : TILE_ELEMENTS / (each > 0 ? each : 1);
    return tiles_run(j->a->pool, (size_t)((items + own.per_tile - 1) / own.per_tile), fn, &own, e);
}

/* ---- bincount ---- */

/* Few bins: each slot counts in its own counters, which are summed in the end. */
enum { ALL_COUNTERS = COUNTERS * COUNTER_STRIDE };

static kiln_status count_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const operand_desc *x = &j->c->op.in[0];
    int64_t bins = j->c->op.attr.bincount.bins, C = columns_of(x), i = (int64_t)index * j->per_tile,
            last = min64(rows_of(x) * C, i + j->per_tile);
    (void)e;
    for (int64_t n; i < last; i += n) {
        n = min64(C - i % C, last - i);
        j->c->k->count((uint32_t *)j->a->scratch + slot * ALL_COUNTERS,
                       (const int32_t *)(const void *)place_of(x, j->a->in[0], i / C, i % C), (uint32_t)bins,
                       (size_t)n);
    }
    return KILN_OK;
}

static kiln_status bincount(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const operand_desc *x = &c->op.in[0];
    int64_t bins = c->op.attr.bincount.bins, C = columns_of(x), n = rows_of(x) * C;
    call j = {.c = c, .a = a, .per_tile = COUNTED};
    int32_t *out = a->out;
    const uint32_t *part = a->scratch;
    memset(out, 0, (size_t)bins * sizeof *out);
    for (int64_t r = 0; r < rows_of(x) && bins > COUNTED_BINS; r++) {
        const int32_t *row = (const int32_t *)(const void *)place_of(x, a->in[0], r, 0);
        for (int64_t i = 0; i < C; i++)
            if (row[i] >= 0 && row[i] < bins) out[row[i]]++;
    }
    if (bins > COUNTED_BINS || !n) return KILN_OK;
    size_t tiles = (size_t)((n + COUNTED - 1) / COUNTED), slots = tiles < cpu_slots() ? tiles : cpu_slots();
    for (size_t k = 0; k < slots * COUNTERS; k++)
        memset((uint32_t *)a->scratch + k * COUNTER_STRIDE, 0, (size_t)(bins + 1) * sizeof *part);
    TRY(tiles_run(a->pool, tiles, count_tile, &j, e));
    for (size_t k = 0; k < slots * COUNTERS; k++, part += COUNTER_STRIDE)
        for (int64_t b = 0; b < bins; b++) out[b] = (int32_t)((uint32_t)out[b] + part[b]);
    return KILN_OK;
}

/* ---- take ---- */

/* Element `from` of x and what follows in its row becomes element `to`. */
static void move(const call *j, int64_t to, int64_t from, int64_t n)
{
    const operand_desc *x = &j->c->op.in[0], *out = &j->c->op.out;
    int64_t C = columns_of(x), D = columns_of(out);
    j->c->k->copy(result_at(j, to / D, to % D), place_of(x, j->a->in[0], from / C, from % C),
                  (size_t)n * size_of(out->dtype));
}

/* The runs of one place: `inner` elements, row by row. */
static kiln_status take_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    int64_t width = columns_of(&j->c->op.in[0]), run = j->rows ? width : 1;
    int64_t last = min64(j->outer * j->taken, ((int64_t)index + 1) * j->per_tile);
    int whole = j->rows && j->c->op.in[0].ld == width && j->c->op.out.ld == width;
    (void)slot;
    for (int64_t i = (int64_t)index * j->per_tile; i < last; i++) {
        int32_t place = index_at(&j->c->op.in[1], j->a->in[1], i % j->taken);
        int64_t from = (i / j->taken * j->places + place) * j->inner, to = i * j->inner;
        if (place < 0 || place >= j->places) return outside(j, place, j->places, e);
        if (whole)
            move(j, to, from, j->inner);
        else
            for (int64_t k = 0; k < j->inner; k += run) move(j, to + k, from + k, run);
    }
    return KILN_OK;
}

static kiln_status take(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const shape *s = &c->op.in[0].shape;
    uint32_t axis = c->op.attr.take.axis;
    call j = {.c = c, .a = a, .outer = product(s, 0, axis), .places = s->dim[axis]};
    j.inner = product(s, axis + 1, s->rank), j.rows = axis + 1 < s->rank, j.taken = shape_count(&c->op.in[1].shape);
    if (!j.inner) return KILN_OK;
    return tiles(&j, j.outer * j.taken, j.inner, take_tile, e);
}

/* What is picked goes past the caches where the result is large. */
static kiln_status along_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const operand_desc *x = &j->c->op.in[0], *ids = &j->c->op.in[1];
    int64_t D = columns_of(&j->c->op.out), last = min64(j->outer, ((int64_t)index + 1) * j->per_tile);
    size_t size = size_of(j->c->op.out.dtype);
    uint32_t picked[CHUNK], places = (uint32_t)min64(j->places, INT32_MAX);
    (void)slot;
    for (int64_t r = (int64_t)index * j->per_tile; r < last; r++) {
        const int32_t *place = (const int32_t *)(const void *)place_of(ids, j->a->in[1], r, 0);
        const void *from = place_of(x, j->a->in[0], r, 0);
        for (int64_t i = 0; i < D; i += CHUNK) {
            int64_t n = min64(CHUNK, D - i);
            size_t whole = j->c->k->pick_places(picked, from, place + i, places, size, (size_t)n);
            if (whole < (size_t)n) return outside(j, place[i + (int64_t)whole], j->places, e);
            j->c->k->copy(result_at(j, r, i), picked, (size_t)n * size);
        }
    }
    return KILN_OK;
}

static kiln_status take_along(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {.c = c, .a = a, .outer = rows_of(&c->op.out), .places = columns_of(&c->op.in[0])};
    return tiles(&j, j.outer, columns_of(&c->op.out), along_tile, e);
}

/* ---- scatter: every place of the result once, with all that goes there ---- */

/* first[p + 1] is counted one further on, so that after filling first[p] is where p's begin. */
static void sort_indices(const call *j)
{
    const operand_desc *d = &j->c->op.in[1];
    memset(j->first, 0, (size_t)(j->places + 2) * sizeof *j->first);
    for (int64_t i = 0; i < j->taken; i++) {
        int32_t p = index_at(d, j->a->in[1], i);
        if (p >= 0 && p < j->places) j->first[p + 2]++;
    }
    for (int64_t p = 0; p < j->places; p++) j->first[p + 2] += j->first[p + 1];
    for (int64_t i = 0; i < j->taken; i++) {
        int32_t p = index_at(d, j->a->in[1], i);
        if (p >= 0 && p < j->places) j->order[j->first[p + 1]++] = (int32_t)i;
    }
}

static void add_whole(int32_t *sum, const char *with, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, with + 4 * i, sizeof v);
        sum[i] = (int32_t)((uint32_t)sum[i] + v);
    }
}

/* n elements of a row: x's from element `at` on, with source's run r added for each r of place p. */
static void scatter_run(const call *j, int64_t at, int64_t outer, int64_t p, int64_t within, size_t n)
{
    const operand_desc *x = &j->c->op.in[0], *source = &j->c->op.in[2], *out = &j->c->op.out;
    int64_t C = columns_of(x), S = columns_of(source);
    const void *rows[TOGETHER];
    size_t found = 0;
    float sum[CHUNK];
    int32_t whole[CHUNK];
    const char *from = place_of(x, j->a->in[0], at / C, at % C);
    if (x->dtype == KILN_I32)
        memcpy(whole, from, n * sizeof *whole);
    else
        j->c->k->load(sum, from, x->dtype, n);
    for (int32_t k = j->first[p]; k < j->first[p + 1]; k++) {
        int64_t of = (outer * j->taken + j->order[k]) * j->inner + within;
        const char *with = place_of(source, j->a->in[2], of / S, of % S);
        if (x->dtype == KILN_I32) {
            add_whole(whole, with, n);
            continue;
        }
        rows[found++] = with;
        if (found < TOGETHER) continue;
        j->c->k->fold_stored(KILN_REDUCE_SUM, sum, rows, found, source->dtype, n);
        found = 0;
    }
    if (found) j->c->k->fold_stored(KILN_REDUCE_SUM, sum, rows, found, source->dtype, n);
    char *to = result_at(j, at / C, at % C);
    if (x->dtype == KILN_I32)
        memcpy(to, whole, n * sizeof *whole);
    else
        j->c->k->store(to, out->dtype, sum, n);
}

/* What is set is copied: the last one, or x's own. */
static void set_run(const call *j, int64_t at, int64_t outer, int64_t p, int64_t within, size_t n)
{
    const operand_desc *x = &j->c->op.in[0], *source = &j->c->op.in[2];
    int64_t C = columns_of(x), S = columns_of(source);
    const char *from = place_of(x, j->a->in[0], at / C, at % C);
    if (j->first[p + 1] > j->first[p]) {
        int64_t of = (outer * j->taken + j->order[j->first[p + 1] - 1]) * j->inner + within;
        from = place_of(source, j->a->in[2], of / S, of % S);
    }
    char *to = result_at(j, at / C, at % C);
    if (to != from) j->c->k->copy(to, from, n * size_of(x->dtype));
}

static kiln_status scatter_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    int64_t last = min64(j->outer * j->places, ((int64_t)index + 1) * j->per_tile);
    int64_t run = j->rows ? columns_of(&j->c->op.in[0]) : 1;
    int add = j->c->op.attr.scatter.add != 0;
    (void)slot, (void)e;
    for (int64_t i = (int64_t)index * j->per_tile; i < last; i++) {
        int64_t outer = i / j->places, p = i % j->places;
        for (int64_t within = 0; within < j->inner; within += run)
            for (int64_t c = 0; c < run; c += CHUNK) {
                size_t n = (size_t)min64(CHUNK, run - c);
                if (add && j->first[p + 1] > j->first[p])
                    scatter_run(j, i * j->inner + within + c, outer, p, within + c, n);
                else
                    set_run(j, i * j->inner + within + c, outer, p, within + c, n);
            }
    }
    return KILN_OK;
}

static kiln_status scatter(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const shape *s = &c->op.in[0].shape;
    uint32_t axis = c->op.attr.scatter.axis;
    call j = {.c = c, .a = a, .outer = product(s, 0, axis), .places = s->dim[axis]};
    j.inner = product(s, axis + 1, s->rank), j.rows = axis + 1 < s->rank, j.taken = shape_count(&c->op.in[1].shape);
    j.first = a->scratch, j.order = j.first + j.places + 2;
    sort_indices(&j);
    if (!j.inner) return KILN_OK;
    return tiles(&j, j.outer * j.places, j.inner, scatter_tile, e);
}

kiln_status cpu_prepare_places(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    uint32_t moved = op->kind == OP_SCATTER ? 2 : 0;
    if (op->kind != OP_BINCOUNT && (op->in[0].dtype != op->out.dtype || op->in[moved].dtype != op->out.dtype))
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s from one type into another", op_name(op->kind));
    c->body = op->kind == OP_BINCOUNT  ? bincount
              : op->kind == OP_TAKE    ? take
              : op->kind == OP_SCATTER ? scatter
                                       : take_along;
    if (op->kind == OP_SCATTER)
        c->base.scratch_bytes =
            (size_t)(op->in[0].shape.dim[op->attr.scatter.axis] + 2 + shape_count(&op->in[1].shape)) * sizeof(int32_t);
    if (op->kind == OP_BINCOUNT && op->attr.bincount.bins <= COUNTED_BINS)
        c->base.scratch_bytes = cpu_slots() * ALL_COUNTERS * sizeof(uint32_t);
    c->base.flops = (uint64_t)shape_count(&op->out.shape);
    return KILN_OK;
}
