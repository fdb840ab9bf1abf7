/* reference_elementwise.c - add, mul, activations, conversions, element by element. */
#include "backend/reference/reference.h"

#include <math.h>
#include <string.h>

int64_t broadcast_place(const operand_desc *out, const operand_desc *b, int64_t row, int64_t column)
{
    int64_t place = 0, stride = 1;
    if (b->shape.rank == 0) return 0;
    for (uint32_t i = 1; i < out->shape.rank && i < b->shape.rank; i++) { /* from the last but one dimension outwards */
        int64_t size = out->shape.dim[out->shape.rank - 1 - i], own = b->shape.dim[b->shape.rank - 1 - i];
        place += (own == 1 ? 0 : row % size) * stride;
        stride *= own;
        row /= size;
    }
    return place * operand_columns(b) + (operand_columns(b) == 1 ? 0 : column);
}

static float broadcast_get(const operand_desc *out, const operand_desc *b, const void *data, int64_t row,
                           int64_t column)
{
    int64_t place = broadcast_place(out, b, row, column), columns = operand_columns(b);
    return operand_get(b, data, place / columns, place % columns);
}

#define EACH(op, r, c)                                                                                                 \
    for (int64_t r = 0, rows_ = operand_rows(&(op)->out); r < rows_; r++)                                              \
        for (int64_t c = 0, columns_ = operand_columns(&(op)->out); c < columns_; c++)

kiln_status reference_add(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    EACH(op, r, c)
    epilogue_store(op, a, r, c,
                   (double)operand_get(&op->in[0], a->in[0], r, c) +
                       (double)broadcast_get(&op->out, &op->in[1], a->in[1], r, c),
                   0);
    return KILN_OK;
}

kiln_status reference_mul(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    EACH(op, r, c)
    epilogue_store(op, a, r, c,
                   (double)operand_get(&op->in[0], a->in[0], r, c) *
                       (double)broadcast_get(&op->out, &op->in[1], a->in[1], r, c),
                   0);
    return KILN_OK;
}

kiln_status reference_affine(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    double scale = (double)op->attr.affine.scale, shift = (double)op->attr.affine.shift;
    EACH(op, r, c) epilogue_store(op, a, r, c, (double)operand_get(&op->in[0], a->in[0], r, c) * scale + shift, 0);
    return KILN_OK;
}

kiln_status reference_act(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    EACH(op, r, c)
    operand_set(&op->out, a->out, r, c, act_apply(op->attr.act.kind, operand_get(&op->in[0], a->in[0], r, c)));
    return KILN_OK;
}

kiln_status reference_geglu(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    int64_t half = operand_columns(&op->out);
    EACH(op, r, c)
    {
        float gate = act_apply(KILN_ACT_GELU, operand_get(&op->in[0], a->in[0], r, half + c));
        operand_set(&op->out, a->out, r, c, operand_get(&op->in[0], a->in[0], r, c) * gate);
    }
    return KILN_OK;
}

kiln_status reference_convert(const op_desc *op, const kernel_args *a, error *e)
{
    if (op->out.dtype == KILN_I32) return reference_reshape(op, a, e);
    EACH(op, r, c) operand_set(&op->out, a->out, r, c, operand_get(&op->in[0], a->in[0], r, c));
    return KILN_OK;
}

/* diffusers get_timestep_embedding: [sin(t f), cos(t f)], f_i = exp(-ln(max_period) i / (half - shift)). An odd
 * last column is 0. The product t f is rounded to float, as every implementation of it does. */
kiln_status reference_timestep(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    int64_t dim = op->attr.timestep.dim, half = dim / 2, times = shape_count(&op->in[0].shape);
    for (int64_t n = 0; n < times; n++) {
        float t = ((const float *)a->in[0])[n];
        for (int64_t c = 0; c < dim; c++) {
            int64_t i = c % (half ? half : 1);
            double exponent = -log(op->attr.timestep.max_period) * (double)i / ((double)half - op->attr.timestep.shift);
            float angle = t * (float)exp(exponent);
            int cosine = (c < half) == (op->attr.timestep.cos_first != 0);
            operand_set(&op->out, a->out, n, c,
                        c >= 2 * half ? 0 : (float)(cosine ? cos((double)angle) : sin((double)angle)));
        }
    }
    return KILN_OK;
}
