/* softmax.c - over rows, in f32: the greatest, the sum of e^(x - greatest), the quotient, in cache. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { TILE_ELEMENTS = 1 << 15, CHUNK = 1024 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t rows, columns, rows_per_tile;
} call;

static int64_t used_columns(const call *j, int64_t r)
{
    const operand_desc *d = &j->c->op.in[1];
    if (j->c->op.n_in < 2 || !d->dtype) return j->columns;
    int64_t i = shape_count(&d->shape) == 1 ? 0 : r, n = columns_of(d);
    int32_t length;
    memcpy(&length, place_of(d, j->a->in[1], i / n, i % n), sizeof length);
    return length < 0 ? 0 : min64(length, j->columns);
}

static const char *row_at(const call *j, int64_t r, int64_t column)
{
    return place_of(&j->c->op.in[0], j->a->in[0], r, column);
}
static void store_row(const call *j, int64_t r, int64_t column, const float *v, int64_t n)
{
    const operand_desc *out = &j->c->op.out;
    j->c->k->store((char *)j->a->out + (size_t)(r * out->ld + column) * size_of(out->dtype), out->dtype, v, (size_t)n);
}

/* The same where operand and result are bf16: the row is read as it is stored, and exponentials are short. */
static void softmax_half(const call *j, int64_t r, float *x, int64_t n, float top)
{
    const cpu_kernels *k = j->c->k;
    const operand_desc *out = &j->c->op.out;
    const uint16_t *from = (const uint16_t *)(const void *)row_at(j, r, 0);
    void *to = (char *)j->a->out + (size_t)(r * out->ld) * sizeof *from;
    int log_of = j->c->op.attr.softmax.log != 0;
    double sum = 0;
    for (int64_t i = 0; i < n; i += CHUNK)
        sum += (double)k->exp_half(log_of ? NULL : x + i, from + i, top, (size_t)min64(CHUNK, n - i));
    if (log_of)
        k->shift_half(to, from, top, (float)log(sum), (size_t)n, j->c->past);
    else
        k->store_scaled(to, x, (float)(1 / sum), (size_t)n, j->c->past);
}

/* The numbers below a chunk of row r, of f32: reading a row for its greatest waits for memory, exponentials do not. */
static void fetch_below(const call *j, int64_t r, int64_t column, int64_t n)
{
    if (r + 1 == j->rows) return;
    const char *below = row_at(j, r + 1, column), *end = below + min64(CHUNK, n - column) * (int64_t)sizeof(float);
    for (; below < end; below += CACHE_LINE) __builtin_prefetch(below, 0, SECOND_LEVEL);
}

/* The first n numbers of row r, in x; or, where they are all of a row of a result of f32, there; then 0. Of f32 x is
 * not filled first: the row is read where it lies. */
static int softmax_row(const call *j, int64_t r, float *x, int64_t n)
{
    const cpu_kernels *k = j->c->k;
    const operand_desc *out = &j->c->op.out;
    uint32_t type = type_of(&j->c->op.in[0]);
    int log_of = j->c->op.attr.softmax.log != 0, whole = n == j->columns && out->dtype == KILN_F32;
    const float *from = type == KILN_F32 ? (const float *)(const void *)row_at(j, r, 0) : x;
    float top = -INFINITY, part[CHUNK];
    double sum = 0;
    for (int64_t i = 0; i < n; i += CHUNK) {
        size_t width = (size_t)min64(CHUNK, n - i);
        if (from == x) k->load(x + i, row_at(j, r, i), type, width);
        float most[2] = {k->fold_row(KILN_REDUCE_MAX, from + i, width), top};
        top = k->fold_row(KILN_REDUCE_MAX, most, 2);
    }
    if (isinf(top) && top < 0) {
        for (int64_t i = 0; i < n; i++) x[i] = log_of ? -INFINITY : 0;
        return 1;
    }
    for (int64_t i = 0; i < n; i += CHUNK) {
        float *powers = log_of ? &part[0] : x + i;
        if (from != x) fetch_below(j, r, i, n);
        sum += (double)k->exp_row(powers, from + i, top, (size_t)min64(CHUNK, n - i));
    }
    float *to = whole ? (float *)j->a->out + r * out->ld : x;
    int past = whole && j->c->past;
    if (log_of)
        k->shift_row(to, from, top, (float)log(sum), (size_t)n, past);
    else
        k->scale_row(to, x, (float)(1 / sum), (size_t)n, past);
    return !whole;
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    int64_t first = (int64_t)index * j->rows_per_tile, last = min64(j->rows, first + j->rows_per_tile), C = j->columns;
    float *row = (float *)j->a->scratch + (size_t)slot * (size_t)C;
    int half = type_of(&j->c->op.in[0]) == KILN_BF16 && j->c->op.out.dtype == KILN_BF16;
    (void)e;
    for (int64_t r = first; r < last; r++) {
        int64_t n = used_columns(j, r);
        float top = half && n == C ? j->c->k->fold_row_stored(KILN_REDUCE_MAX, row_at(j, r, 0), KILN_BF16, (size_t)C)
                                   : INFINITY;
        if (isfinite(top)) {
            softmax_half(j, r, row, C, top);
            continue;
        }
        if (!softmax_row(j, r, row, n)) continue;
        for (int64_t c = n; c < C; c++) row[c] = j->c->op.attr.softmax.log ? -INFINITY : 0;
        store_row(j, r, 0, row, C);
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {.c = c, .a = a, .rows = rows_of(&c->op.in[0]), .columns = columns_of(&c->op.in[0])};
    if (!j.columns) return KILN_OK;
    j.rows_per_tile = j.columns >= TILE_ELEMENTS ? 1 : TILE_ELEMENTS / j.columns;
    return tiles_run(a->pool, (size_t)((j.rows + j.rows_per_tile - 1) / j.rows_per_tile), tile, &j, e);
}

kiln_status cpu_prepare_softmax(cpu_kernel *c, error *e)
{
    (void)e;
    c->body = run;
    c->base.scratch_bytes = (size_t)cpu_slots() * (size_t)columns_of(&c->op.in[0]) * sizeof(float);
    c->base.flops = 5 * (uint64_t)shape_count(&c->op.in[0].shape);
    return KILN_OK;
}
