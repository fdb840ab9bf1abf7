/* reference_places.c - order and places: sort, bincount, take, take_along, scatter, random. */
#include "backend/reference/reference.h"

#include "backend/philox_4x32.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <math.h>
#include <string.h>

static double value_of(const operand_desc *d, const void *data, int64_t row, int64_t column)
{
    return d->dtype == KILN_I32 ? (double)operand_get_i32(d, data, row * operand_columns(d) + column)
                                : (double)operand_get(d, data, row, column);
}

/* Element i of `from` becomes element `to` of the result, whatever their type. */
static void move(const op_desc *op, const kernel_args *a, int64_t to, uint32_t operand, int64_t i)
{
    const operand_desc *d = &op->in[operand], *out = &op->out;
    int64_t columns = operand_columns(d), out_columns = operand_columns(out);
    if (out->dtype == KILN_I32)
        ((int32_t *)a->out)[to / out_columns * out->ld + to % out_columns] = operand_get_i32(d, a->in[operand], i);
    else
        operand_set(out, a->out, to / out_columns, to % out_columns,
                    operand_get(d, a->in[operand], i / columns, i % columns));
}

/* ---- sort ---- */

/* Does x come before y? NaN is larger than all. */
static int before(double x, double y, int ascending)
{
    if (isnan(x) || isnan(y)) return ascending ? !isnan(x) && isnan(y) : isnan(x) && !isnan(y);
    return ascending ? x < y : x > y;
}

/* Insertion: stable by itself. */
static void insert(const op_desc *op, const kernel_args *a, int64_t row, int32_t *order)
{
    int64_t n = operand_columns(&op->in[0]);
    for (int64_t c = 0; c < n; c++) {
        double x = value_of(&op->in[0], a->in[0], row, c);
        int64_t at = c;
        while (at > 0 && before(x, value_of(&op->in[0], a->in[0], row, order[at - 1]), (int)op->attr.sort.ascending)) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (int32_t)c;
    }
}

kiln_status reference_sort(const op_desc *op, const kernel_args *a, error *e)
{
    int64_t C = operand_columns(&op->in[0]), k = op->attr.sort.k;
    int32_t *order = mem_calloc((size_t)C + 1, sizeof *order), *places = a->more[0];
    if (!order) return error_set(e, KILN_ERR_NOMEM, "out of memory for a sort");
    for (int64_t r = 0; r < operand_rows(&op->in[0]); r++) {
        insert(op, a, r, order);
        for (int64_t c = 0; c < k; c++) {
            move(op, a, r * k + c, 0, r * C + order[c]);
            if (places) places[r * op->more[0].ld + c] = order[c];
        }
    }
    mem_free(order);
    return KILN_OK;
}

/* ---- counting and places ---- */

kiln_status reference_bincount(const op_desc *op, const kernel_args *a, error *e)
{
    int32_t *out = a->out;
    (void)e;
    for (int64_t b = 0; b < op->attr.bincount.bins; b++) out[b] = 0;
    for (int64_t i = 0; i < shape_count(&op->in[0].shape); i++) {
        int32_t v = operand_get_i32(&op->in[0], a->in[0], i);
        if (v >= 0 && v < op->attr.bincount.bins) out[v]++;
    }
    return KILN_OK;
}

static int64_t inner_of(const shape *s, uint32_t axis)
{
    int64_t n = 1;
    for (uint32_t d = axis + 1; d < s->rank; d++) n *= s->dim[d];
    return n;
}

static kiln_status outside(int32_t place, int64_t n, const char *name, error *e)
{
    return error_set(e, KILN_ERR_INVALID, "%s: place %d is outside the %lld of its axis", name, place, (long long)n);
}

kiln_status reference_take(const op_desc *op, const kernel_args *a, error *e)
{
    const shape *s = &op->in[0].shape;
    int64_t inner = inner_of(s, op->attr.take.axis), n = s->dim[op->attr.take.axis],
            taken = shape_count(&op->in[1].shape), count = shape_count(&op->out.shape);
    for (int64_t i = 0; i < count; i++) {
        int32_t place = operand_get_i32(&op->in[1], a->in[1], i / inner % taken);
        if (place < 0 || place >= n) return outside(place, n, "take", e);
        move(op, a, i, 0, (i / inner / taken * n + place) * inner + i % inner);
    }
    return KILN_OK;
}

kiln_status reference_take_along(const op_desc *op, const kernel_args *a, error *e)
{
    int64_t n = operand_columns(&op->in[0]), columns = operand_columns(&op->out);
    for (int64_t i = 0; i < shape_count(&op->out.shape); i++) {
        int32_t place = operand_get_i32(&op->in[1], a->in[1], i);
        if (place < 0 || place >= n) return outside(place, n, "take_along", e);
        move(op, a, i, 0, i / columns * n + place);
    }
    return KILN_OK;
}

static void scatter_one(const op_desc *op, const kernel_args *a, int64_t i, int64_t n, int64_t inner)
{
    int64_t places = shape_count(&op->in[1].shape), C = operand_columns(&op->out), S = operand_columns(&op->in[2]),
            place = i / inner % n, outer = i / inner / n;
    double sum = value_of(&op->in[0], a->in[0], i / C, i % C);
    for (int64_t k = 0; k < places; k++) {
        int64_t from = (outer * places + k) * inner + i % inner;
        if (operand_get_i32(&op->in[1], a->in[1], k) != place) continue;
        sum = (op->attr.scatter.add ? sum : 0) + value_of(&op->in[2], a->in[2], from / S, from % S);
    }
    if (op->out.dtype == KILN_I32)
        ((int32_t *)a->out)[i / C * op->out.ld + i % C] = (int32_t)(uint32_t)(int64_t)sum;
    else
        operand_set(&op->out, a->out, i / C, i % C, (float)sum);
}

kiln_status reference_scatter(const op_desc *op, const kernel_args *a, error *e)
{
    const shape *s = &op->in[0].shape;
    (void)e;
    for (int64_t i = 0; i < shape_count(s); i++)
        scatter_one(op, a, i, s->dim[op->attr.scatter.axis], inner_of(s, op->attr.scatter.axis));
    return KILN_OK;
}

/* ---- random: philox.h's formulas by the C library's functions ---- */

static double random_value(uint32_t kind, philox_block w)
{
    float u = (float)w.x[0] * 0x1p-32f + 0x1p-33f, v = (float)w.x[1] * (0x1p-32f * 6.2831855f) + 0x1p-33f * 6.2831855f;
    if (kind == KILN_RANDOM_UNIFORM) return u < 1 ? (double)u : 0;
    if (kind == KILN_RANDOM_NORMAL) return sqrt(-2 * log((double)u)) * sin((double)v);
    return -log((double)(float)(u >= 1 - 0x1p-24f ? 0x1p-24 : -log((double)u)));
}

kiln_status reference_random(const op_desc *op, const kernel_args *a, error *e)
{
    int64_t C = operand_columns(&op->out);
    uint64_t word[4];
    for (int i = 0; i < 4; i++) word[i] = (uint32_t)operand_get_i32(&op->in[0], a->in[0], i);
    uint64_t seed = word[0] | word[1] << 32, offset = word[2] | word[3] << 32;
    (void)e;
    for (int64_t i = 0; i < shape_count(&op->out.shape); i++) {
        philox_block w = philox_words(offset / 4, (uint64_t)i, seed),
                     next = philox_words(offset / 4 + 1, (uint64_t)i, seed);
        philox_block from = w;
        for (uint32_t k = 0; k < 4; k++)
            from.x[k] = k + offset % 4 < 4 ? w.x[k + offset % 4] : next.x[k + offset % 4 - 4];
        operand_set(&op->out, a->out, i / C, i % C, (float)random_value(op->attr.random.kind, from));
    }
    return KILN_OK;
}
