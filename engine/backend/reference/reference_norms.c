/* reference_norms.c - group and layer normalisation; population variance, statistics in double. */
#include "backend/reference/reference.h"

#include <math.h>

/* Elements (row, column) for row in [row, row + rows), column in [column, column + columns). */
typedef struct {
    int64_t row, rows, column, columns;
} part;
typedef struct {
    double n, mean, square; /* numbers, and the sum of squares of what they are off their mean */
} moments;

static moments moments_of(const op_desc *op, const kernel_args *a, const part *p)
{
    moments m = {.n = (double)(p->rows * p->columns)};
    for (int64_t r = p->row; r < p->row + p->rows; r++)
        for (int64_t c = p->column; c < p->column + p->columns; c++)
            m.mean += (double)operand_get(&op->in[0], a->in[0], r, c) / m.n;
    for (int64_t r = p->row; r < p->row + p->rows; r++)
        for (int64_t c = p->column; c < p->column + p->columns; c++) {
            double d = (double)operand_get(&op->in[0], a->in[0], r, c) - m.mean;
            m.square += d * d;
        }
    return m;
}

static void normalise(const op_desc *op, const kernel_args *a, const part *p, const moments *m)
{
    double scale = 1 / sqrt(m->square / m->n + (double)op->attr.norm.eps);
    for (int64_t r = p->row; r < p->row + p->rows; r++)
        for (int64_t c = p->column; c < p->column + p->columns; c++) {
            double v = ((double)operand_get(&op->in[0], a->in[0], r, c) - m->mean) * scale;
            if (op->in[1].dtype) v *= (double)operand_get(&op->in[1], a->in[1], 0, c);
            if (op->in[2].dtype) v += (double)operand_get(&op->in[2], a->in[2], 0, c);
            epilogue_store(op, a, r, c, v, 0);
        }
}

/* Of all rows of image n of which moments are given, each of so many numbers. */
static moments moments_given(const op_desc *op, const kernel_args *a, int64_t n, int64_t group, double numbers)
{
    const operand_desc *d = &op->in[3];
    int64_t rows = d->shape.dim[1], groups = d->shape.dim[2];
    moments m = {.n = numbers * (double)rows};
    for (int pass = 0; pass < 2; pass++)
        for (int64_t y = 0; y < rows; y++) {
            int64_t at = (n * rows + y) * groups + group;
            double own = (double)operand_get(d, a->in[3], at, 0) + (double)operand_get(d, a->in[3], at, 1);
            if (pass == 0)
                m.mean += own / (double)rows;
            else
                m.square += (double)operand_get(d, a->in[3], at, 2) + numbers * (own - m.mean) * (own - m.mean);
        }
    return m;
}

kiln_status reference_group_norm(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    const shape *x = &op->in[0].shape;
    int64_t N = x->dim[0], rows = N ? operand_rows(&op->in[0]) / N : 0, G = op->attr.norm.groups;
    int64_t width = operand_columns(&op->in[0]) / G;
    for (int64_t i = 0; i < N * G; i++) {
        part p = {i / G * rows, rows, i % G * width, width};
        moments m = op_takes_stats(op) ? moments_given(op, a, i / G, i % G, (double)(x->dim[2] * width))
                                       : moments_of(op, a, &p);
        normalise(op, a, &p, &m);
    }
    return KILN_OK;
}

kiln_status reference_group_norm_stats(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    const int64_t *x = op->in[0].shape.dim;
    int64_t G = op->attr.norm.groups, width = x[3] / G;
    for (int64_t i = 0; i < x[0] * x[1] * G; i++) {
        part p = {i / G * x[2], x[2], i % G * width, width};
        moments m = moments_of(op, a, &p);
        operand_set(&op->out, a->out, i, 0, (float)m.mean);
        operand_set(&op->out, a->out, i, 1, (float)(m.mean - (double)(float)m.mean));
        operand_set(&op->out, a->out, i, 2, (float)m.square);
    }
    return KILN_OK;
}

kiln_status reference_layer_norm(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    for (int64_t r = 0; r < operand_rows(&op->in[0]); r++) {
        part p = {r, 1, 0, operand_columns(&op->in[0])};
        moments m = moments_of(op, a, &p);
        normalise(op, a, &p, &m);
    }
    return KILN_OK;
}
