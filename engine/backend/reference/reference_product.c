/* reference_product.c - products of two activations, with a transposed weight, by groups of rows: the definitions. */
#include "backend/reference/reference.h"

/* Which matrix of an operand belongs to matrix `at` of the result: dimensions aligned at the end, 1 repeats. */
static int64_t matrix_of(const shape *out, const shape *in, int64_t at)
{
    int64_t place = 0, stride = 1;
    for (uint32_t i = 3; i <= in->rank; i++) {
        int64_t size = out->dim[out->rank - i], own = in->dim[in->rank - i];
        place += (own == 1 ? 0 : at % size) * stride;
        stride *= own, at /= size;
    }
    return place;
}

/* out[..,i,j] = alpha sum over k of a[..,i,k] b[..,k,j], or b[..,j,k] */
kiln_status reference_matmul(const op_desc *op, const kernel_args *a, error *e)
{
    const operand_desc *x = &op->in[0], *y = &op->in[1];
    int64_t J = operand_columns(&op->out), I = op->out.shape.dim[op->out.shape.rank - 2], K = operand_columns(x);
    int64_t rows = operand_rows(&op->out), deep = y->shape.dim[y->shape.rank - 2];
    (void)e;
    for (int64_t r = 0; r < rows; r++) {
        int64_t own = matrix_of(&op->out.shape, &x->shape, r / I) * I + r % I;
        int64_t other = matrix_of(&op->out.shape, &y->shape, r / I) * deep;
        for (int64_t j = 0; j < J; j++) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++)
                sum += (double)operand_get(x, a->in[0], own, k) *
                       (double)(op->attr.matmul.transpose_b ? operand_get(y, a->in[1], other + j, k)
                                                            : operand_get(y, a->in[1], other + k, j));
            operand_set(&op->out, a->out, r, j, (float)(sum * (double)op->attr.matmul.alpha));
        }
    }
    return KILN_OK;
}

/* out[r,i] = bias[i] + sum over o of x[r,o] w[o,i] */
kiln_status reference_linear_transposed(const op_desc *op, const kernel_args *a, error *e)
{
    int64_t O = op->in[1].shape.dim[0], I = op->in[1].shape.dim[1], rows = operand_rows(&op->out);
    const float *w = a->in[1];
    (void)e;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < I; i++) {
            double sum = op->in[2].dtype ? (double)operand_get(&op->in[2], a->in[2], 0, i) : 0;
            for (int64_t o = 0; o < O; o++)
                sum += (double)operand_get(&op->in[0], a->in[0], r, o) * (double)w[o * I + i];
            epilogue_store(op, a, r, i, sum, 0);
        }
    return KILN_OK;
}

/* Rows of group e: out[r,o] = bias[e,o] + sum over i of x[r,i] w[e,o,i]; other rows are 0. */
kiln_status reference_grouped_linear(const op_desc *op, const kernel_args *a, error *e)
{
    const int64_t *w = op->in[1].shape.dim;
    int64_t rows = operand_rows(&op->out), done = operand_get_i32(&op->in[3], a->in[3], 0);
    int taken = op->n_in > 4 && op->in[4].dtype;
    for (int64_t g = 0; g <= w[0]; g++) {
        int64_t to = operand_get_i32(&op->in[3], a->in[3], g);
        if (to < 0 || to > rows || (g && to < operand_get_i32(&op->in[3], a->in[3], g - 1)))
            return error_set(e, KILN_ERR_INVALID, "grouped_linear: offset %lld of group %lld; they rise from 0 to %lld",
                             (long long)to, (long long)g, (long long)rows);
    }
    for (int64_t r = 0, from; taken && r < rows; r++)
        if ((from = operand_get_i32(&op->in[4], a->in[4], r)) < 0 || from >= operand_rows(&op->in[0]))
            return error_set(e, KILN_ERR_INVALID, "take: place %lld is outside the %lld of its axis", (long long)from,
                             (long long)operand_rows(&op->in[0]));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; r < done && o < w[1]; o++) operand_set(&op->out, a->out, r, o, 0);
    for (int64_t g = 0; g < w[0]; g++)
        for (int64_t to = operand_get_i32(&op->in[3], a->in[3], g + 1); done < to; done++)
            for (int64_t o = 0; o < w[1]; o++) {
                const float *row = (const float *)a->in[1] + (g * w[1] + o) * w[2];
                double sum = op->in[2].dtype ? (double)operand_get(&op->in[2], a->in[2], g, o) : 0;
                int64_t from = taken ? operand_get_i32(&op->in[4], a->in[4], done) : done;
                for (int64_t i = 0; i < w[2]; i++)
                    sum += (double)operand_get(&op->in[0], a->in[0], from, i) * (double)row[i];
                operand_set(&op->out, a->out, done, o, (float)sum);
            }
    for (; done < rows; done++)
        for (int64_t o = 0; o < w[1]; o++) operand_set(&op->out, a->out, done, o, 0);
    return KILN_OK;
}
