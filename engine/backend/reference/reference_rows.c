/* reference_rows.c - what works row by row: norm, rope, softmax. */
#include "backend/reference/reference.h"

#include <math.h>

static double broadcast_value(const op_desc *op, const kernel_args *a, uint32_t i, int64_t row, int64_t column)
{
    const operand_desc *d = &op->in[i];
    int64_t place = broadcast_place(&op->out, d, row, column), columns = operand_columns(d);
    return (double)operand_get(d, a->in[i], place / columns, place % columns);
}

/* What a group's numbers are multiplied by, and, for layer norm, their mean. */
static double norm_factor(const op_desc *op, const kernel_args *a, int64_t row, int64_t first, double *mean)
{
    const any_norm_attr *t = &op->attr.any_norm;
    double sum = 0, square = 0, eps = (double)t->eps, n = (double)t->group;
    *mean = 0;
    for (int64_t c = first; c < first + t->group; c++) sum += (double)operand_get(&op->in[0], a->in[0], row, c);
    if (t->kind == KILN_NORM_LAYER) *mean = sum / n;
    for (int64_t c = first; c < first + t->group; c++) {
        double d = (double)operand_get(&op->in[0], a->in[0], row, c) - *mean;
        square += d * d;
    }
    if (t->kind != KILN_NORM_L2) return 1 / sqrt(square / n + eps);
    return t->eps_inside ? 1 / sqrt(square + eps) : 1 / fmax(sqrt(square), eps);
}

static double norm_value(const op_desc *op, const kernel_args *a, int64_t r, int64_t c, double v)
{
    const operand_desc *gain = &op->in[1], *bias = &op->in[2];
    if (gain->dtype)
        v *= (double)operand_get(gain, a->in[1], 0, c % operand_columns(gain)) + (double)op->attr.any_norm.one_plus;
    if (bias->dtype) v += (double)operand_get(bias, a->in[2], 0, c % operand_columns(bias));
    if (op->in[3].dtype) v *= 1 + broadcast_value(op, a, 3, r, c);
    if (op->in[4].dtype) v += broadcast_value(op, a, 4, r, c);
    return v;
}

kiln_status reference_norm(const op_desc *op, const kernel_args *a, error *e)
{
    int64_t group = op->attr.any_norm.group;
    (void)e;
    for (int64_t r = 0; r < operand_rows(&op->in[0]); r++)
        for (int64_t first = 0; first < operand_columns(&op->in[0]); first += group) {
            double mean, factor = norm_factor(op, a, r, first, &mean);
            for (int64_t c = first; c < first + group; c++) {
                double x = (double)operand_get(&op->in[0], a->in[0], r, c);
                operand_set(&op->out, a->out, r, c, (float)norm_value(op, a, r, c, (x - mean) * factor));
            }
        }
    return KILN_OK;
}

/* The table's number for pair i of head h in row r of x [N,T,heads*D]. */
static double table_value(const op_desc *op, const kernel_args *a, uint32_t t, int64_t r, int64_t h, int64_t i)
{
    const shape *s = &op->in[t].shape;
    int64_t T = op->in[0].shape.dim[1], n = s->dim[0] == 1 ? 0 : r / T, head = s->dim[2] == 1 ? 0 : h;
    return (double)operand_get(&op->in[t], a->in[t], (n * T + r % T) * s->dim[2] + head, i);
}

kiln_status reference_rope(const op_desc *op, const kernel_args *a, error *e)
{
    int64_t heads = op->attr.rope.heads, D = op->in[0].shape.dim[2] / heads, half = op->attr.rope.rotary / 2;
    int apart = op->attr.rope.interleaved == 0;
    (void)e;
    for (int64_t r = 0; r < operand_rows(&op->in[0]); r++)
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t i = 0; i < half; i++) {
                int64_t at = h * D + (apart ? i : 2 * i), other = at + (apart ? half : 1);
                double x = (double)operand_get(&op->in[0], a->in[0], r, at), c = table_value(op, a, 1, r, h, i);
                double y = (double)operand_get(&op->in[0], a->in[0], r, other), s = table_value(op, a, 2, r, h, i);
                operand_set(&op->out, a->out, r, at, (float)(x * c - y * s));
                operand_set(&op->out, a->out, r, other, (float)(y * c + x * s));
            }
            for (int64_t c = h * D + 2 * half; c < (h + 1) * D; c++)
                operand_set(&op->out, a->out, r, c, operand_get(&op->in[0], a->in[0], r, c));
        }
    return KILN_OK;
}

/* Columns of row r that are in use. */
static int64_t used_columns(const op_desc *op, const kernel_args *a, int64_t r)
{
    const operand_desc *d = &op->in[1];
    int64_t C = operand_columns(&op->in[0]), n = C;
    if (op->n_in > 1 && d->dtype) n = operand_get_i32(d, a->in[1], shape_count(&d->shape) == 1 ? 0 : r);
    return n < 0 ? 0 : n > C ? C : n;
}

kiln_status reference_softmax(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    for (int64_t r = 0; r < operand_rows(&op->in[0]); r++) {
        int64_t n = used_columns(op, a, r);
        double top = -INFINITY, sum = 0;
        for (int64_t c = 0; c < n; c++) {
            double x = (double)operand_get(&op->in[0], a->in[0], r, c);
            if (x > top || isnan(x)) top = x;
            if (isnan(top)) break;
        }
        int nothing = isinf(top) && top < 0;
        for (int64_t c = 0; c < n && !nothing; c++) sum += exp((double)operand_get(&op->in[0], a->in[0], r, c) - top);
        for (int64_t c = 0; c < operand_columns(&op->in[0]); c++) {
            double x = c < n && !nothing ? (double)operand_get(&op->in[0], a->in[0], r, c) - top : -INFINITY;
            operand_set(&op->out, a->out, r, c,
                        (float)(nothing || c >= n      ? (op->attr.softmax.log ? (double)-INFINITY : 0)
                                : op->attr.softmax.log ? x - log(sum)
                                                       : exp(x) / sum));
        }
    }
    return KILN_OK;
}
