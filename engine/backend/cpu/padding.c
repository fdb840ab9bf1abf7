/* padding.c - OP_PAD of any rank and type: a row of the result is a row of the operand between its ends, or, where the
 * padding of an outer dimension is a value, that value.
 */
#include "backend/cpu/cpu.h"

#include "backend/resample.h"
#include "tensor/dtype.h"

#include <string.h>

enum { TILE_ELEMENTS = 1 << 15 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t rows, per_tile;
    unsigned char value[4]; /* in the operand's type */
} call;

/* The operand's row for a row of the result; -1: all value. */
static int64_t source_row(const op_desc *op, int64_t row)
{
    const shape *s = &op->in[0].shape, *d = &op->out.shape;
    int64_t from = 0, stride = 1;
    for (uint32_t k = d->rank - 1; k-- > 0; row /= d->dim[k]) {
        int64_t at = padded_place((int)op->attr.pad.mode, row % d->dim[k] - op->attr.pad.before[k], s->dim[k]);
        if (at < 0) return -1;
        from += at * stride;
        stride *= s->dim[k];
    }
    return from;
}

static void pad_row(const call *j, int64_t row)
{
    const op_desc *op = &j->c->op;
    size_t size = size_of(op->out.dtype);
    int64_t from = source_row(op, row), n = columns_of(&op->in[0]), C = columns_of(&op->out),
            before = op->attr.pad.before[op->out.shape.rank - 1];
    char *to = (char *)j->a->out + (size_t)(row * op->out.ld) * size;
    const char *x = from < 0 ? NULL : place_of(&op->in[0], j->a->in[0], from, 0);
    if (x) j->c->k->copy(to + (size_t)before * size, x, (size_t)n * size);
    for (int64_t c = 0; c < C; c++) {
        if (x && c == before) c += n; /* what was copied */
        if (c >= C) break;
        int64_t at = x ? padded_place((int)op->attr.pad.mode, c - before, n) : -1;
        memcpy(to + (size_t)c * size, at < 0 ? (const char *)j->value : x + (size_t)at * size, size);
    }
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    (void)slot, (void)e;
    for (int64_t r = (int64_t)index * j->per_tile; r < min64(j->rows, ((int64_t)index + 1) * j->per_tile); r++)
        pad_row(j, r);
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {
        .c = c, .a = a, .rows = rows_of(&c->op.out), .per_tile = TILE_ELEMENTS / (columns_of(&c->op.out) + 1) + 1};
    int32_t whole = (int32_t)c->op.attr.pad.value;
    if (c->op.out.dtype == KILN_I32)
        memcpy(j.value, &whole, sizeof whole);
    else
        c->k->store(j.value, c->op.out.dtype, &c->op.attr.pad.value, 1);
    return tiles_run(a->pool, (size_t)((j.rows + j.per_tile - 1) / j.per_tile), tile, &j, e);
}

kiln_status cpu_prepare_pad(cpu_kernel *c, error *e)
{
    if (c->op.in[0].dtype != c->op.out.dtype)
        return error_set(e, KILN_ERR_UNSUPPORTED, "pad from one type into another");
    if (!c->op.out.shape.rank) return error_set(e, KILN_ERR_UNSUPPORTED, "pad of a single number");
    c->body = run;
    c->base.flops = (uint64_t)shape_count(&c->op.out.shape);
    return KILN_OK;
}
