/* reference_reduce.c - reductions over any axes, and sums along one. Every element is added to the result that it
 * belongs to, in the operand's order.
 */
#include "backend/reference/reference.h"

#include "base/memory_alloc.h"

#include <math.h>

/* Whole numbers of 32 bits are exact in a double. */
static double value_at(const operand_desc *d, const void *data, int64_t i)
{
    int64_t columns = operand_columns(d);
    return d->dtype == KILN_I32 ? (double)operand_get_i32(d, data, i)
                                : (double)operand_get(d, data, i / columns, i % columns);
}

static void set_at(const operand_desc *d, void *data, int64_t i, double v)
{
    int64_t columns = operand_columns(d);
    if (d->dtype == KILN_I32)
        ((int32_t *)data)[i / columns * d->ld + i % columns] = (int32_t)(uint32_t)(int64_t)v;
    else
        operand_set(d, data, i / columns, i % columns, (float)v);
}

typedef struct {
    double value, top;
    int64_t place; /* of the greatest or least, along the axis */
} partial;

/* Which result element i of the operand belongs to, and its place along the (last) reduced axis. */
static int64_t result_of(const op_desc *op, int64_t i, int64_t *place)
{
    const shape *s = &op->in[0].shape;
    int64_t to = 0, stride = 1;
    for (uint32_t d = s->rank; d-- > 0;) {
        int64_t index = i % s->dim[d];
        i /= s->dim[d];
        if (op->attr.reduce.axes >> d & 1) {
            *place = index;
            continue;
        }
        to += index * stride;
        stride *= s->dim[d];
    }
    return to;
}

static void take_in(partial *p, uint32_t kind, double x, int64_t place)
{
    int most = kind == KILN_REDUCE_MAX || kind == KILN_REDUCE_ARGMAX;
    if (kind == KILN_REDUCE_SUM || kind == KILN_REDUCE_MEAN) p->value += x;
    if (kind == KILN_REDUCE_L2) p->value += x * x;
    if (kind == KILN_REDUCE_PROD) p->value *= x;
    if (kind == KILN_REDUCE_LOGSUMEXP) p->value += isinf(p->top) ? exp(x) : exp(x - p->top);
    if (!most && kind != KILN_REDUCE_MIN && kind != KILN_REDUCE_ARGMIN) return;
    if (p->place >= 0 && (isnan(p->value) || (!isnan(x) && !(most ? x > p->value : x < p->value)))) return;
    p->value = x;
    p->place = place;
}

static double finished(const partial *p, uint32_t kind, double n)
{
    switch (kind) {
    case KILN_REDUCE_MEAN: return p->value / n;
    case KILN_REDUCE_L2: return sqrt(p->value);
    case KILN_REDUCE_LOGSUMEXP: return log(p->value) + (isinf(p->top) ? 0 : p->top);
    case KILN_REDUCE_ARGMAX:
    case KILN_REDUCE_ARGMIN: return (double)p->place;
    default: return p->value;
    }
}

kiln_status reference_reduce(const op_desc *op, const kernel_args *a, error *e)
{
    uint32_t kind = op->attr.reduce.kind;
    int64_t n = shape_count(&op->in[0].shape), results = shape_count(&op->out.shape), place = 0;
    partial *p = mem_calloc((size_t)results + 1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a reduction");
    for (int64_t i = 0; i < results; i++) p[i] = (partial){kind == KILN_REDUCE_PROD ? 1 : 0, (double)-INFINITY, -1};
    for (int64_t i = 0; i < n && kind == KILN_REDUCE_LOGSUMEXP; i++) {
        partial *to = &p[result_of(op, i, &place)];
        double x = value_at(&op->in[0], a->in[0], i);
        to->top = isnan(x) ? x : fmax(to->top, x);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t to = result_of(op, i, &place);
        take_in(&p[to], kind, value_at(&op->in[0], a->in[0], i), place);
    }
    for (int64_t i = 0; i < results; i++)
        set_at(&op->out, a->out, i, finished(&p[i], kind, (double)n / (double)results));
    mem_free(p);
    return KILN_OK;
}

kiln_status reference_cumsum(const op_desc *op, const kernel_args *a, error *e)
{
    const shape *s = &op->in[0].shape;
    uint32_t axis = op->attr.cumsum.axis;
    int64_t inner = 1, n = s->dim[axis], count = shape_count(s);
    (void)e;
    for (uint32_t d = axis + 1; d < s->rank; d++) inner *= s->dim[d];
    for (int64_t line = 0; n && line < count / n; line++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t along = op->attr.cumsum.reverse ? n - 1 - k : k;
            int64_t i = (line / inner * n + along) * inner + line % inner;
            double x = value_at(&op->in[0], a->in[0], i);
            set_at(&op->out, a->out, i, op->attr.cumsum.exclusive ? sum : sum + x);
            sum += x;
        }
    }
    return KILN_OK;
}
