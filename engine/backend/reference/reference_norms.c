/* reference_norms.c - group and layer normalisation; population variance, statistics in double. */
#include "backend/reference/reference.h"

#include <math.h>

/* Normalises elements (row, column) for row in [row0, row0+rows), column in [column0, column0+columns). */
static void normalise(const op_desc *op, const kernel_args *a, int64_t row0, int64_t rows, int64_t column0,
                      int64_t columns)
{
    double sum = 0, square = 0, n = (double)(rows * columns);
    for (int64_t r = row0; r < row0 + rows; r++)
        for (int64_t c = column0; c < column0 + columns; c++) sum += (double)operand_get(&op->in[0], a->in[0], r, c);
    double mean = sum / n;
    for (int64_t r = row0; r < row0 + rows; r++)
        for (int64_t c = column0; c < column0 + columns; c++) {
            double d = (double)operand_get(&op->in[0], a->in[0], r, c) - mean;
            square += d * d;
        }
    double scale = 1 / sqrt(square / n + (double)op->attr.norm.eps);
    for (int64_t r = row0; r < row0 + rows; r++)
        for (int64_t c = column0; c < column0 + columns; c++) {
            double v = ((double)operand_get(&op->in[0], a->in[0], r, c) - mean) * scale;
            if (op->in[1].dtype) v *= (double)operand_get(&op->in[1], a->in[1], 0, c);
            if (op->in[2].dtype) v += (double)operand_get(&op->in[2], a->in[2], 0, c);
            epilogue_store(op, a, r, c, v, 0);
        }
}

kiln_status reference_group_norm(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    int64_t N = op->in[0].shape.dim[0], C = operand_columns(&op->in[0]), rows = N ? operand_rows(&op->in[0]) / N : 0;
    int64_t group = C / op->attr.norm.groups;
    for (int64_t n = 0; n < N; n++)
        for (int64_t g = 0; g < op->attr.norm.groups; g++) normalise(op, a, n * rows, rows, g * group, group);
    return KILN_OK;
}

kiln_status reference_layer_norm(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    for (int64_t r = 0; r < operand_rows(&op->in[0]); r++) normalise(op, a, r, 1, 0, operand_columns(&op->in[0]));
    return KILN_OK;
}
