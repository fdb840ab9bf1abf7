/* reference_layout.c - concat, slice, reshape, permute, upsample: elements that only change their place. */
#include "backend/reference/reference.h"

#include "tensor/dtype.h"

#include <string.h>

/* One element, whatever its type (ids move too). */
static void move(const operand_desc *to, void *dst, int64_t row, int64_t column, const operand_desc *from,
                 const void *src, int64_t source_row, int64_t source_column)
{
    if ((from->weight && from->dtype != KILN_I32) || to->dtype != from->dtype) {
        operand_set(to, dst, row, column, operand_get(from, src, source_row, source_column));
        return;
    }
    size_t size = dtype_size(to->dtype);
    memcpy((char *)dst + (size_t)(row * to->ld + column) * size,
           (const char *)src + (size_t)(source_row * from->ld + source_column) * size, size);
}

/* in[n, floor(y H / h), floor(x W / w), c], H x W the input's size and h x w the output's */
kiln_status reference_upsample(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    const int64_t *d = op->out.shape.dim, *s = op->in[0].shape.dim;
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t y = 0; y < d[1]; y++)
            for (int64_t x = 0; x < d[2]; x++)
                for (int64_t c = 0; c < d[3]; c++)
                    move(&op->out, a->out, (n * d[1] + y) * d[2] + x, c, &op->in[0], a->in[0],
                         (n * s[1] + y * s[1] / d[1]) * s[2] + x * s[2] / d[2], c);
    return KILN_OK;
}

/* Product of the dimensions before / after `axis`, the axis itself left out. */
static int64_t before(const shape *s, uint32_t axis)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < axis; i++) n *= s->dim[i];
    return n;
}
static int64_t after(const shape *s, uint32_t axis)
{
    int64_t n = 1;
    for (uint32_t i = axis + 1; i < s->rank; i++) n *= s->dim[i];
    return n;
}

/* Copies `length` places of the axis from `from` (beginning at `source`) into `to` (at `place`). */
static void move_axis(const operand_desc *to, void *dst, int64_t place, const operand_desc *from, const void *src,
                      int64_t source, int64_t length, uint32_t axis)
{
    int64_t outer = before(&to->shape, axis), inner = after(&to->shape, axis);
    int64_t to_columns = operand_columns(to), from_columns = operand_columns(from);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < length; k++)
            for (int64_t i = 0; i < inner; i++) {
                int64_t d = (o * to->shape.dim[axis] + place + k) * inner + i;
                int64_t s = (o * from->shape.dim[axis] + source + k) * inner + i;
                move(to, dst, d / to_columns, d % to_columns, from, src, s / from_columns, s % from_columns);
            }
}

kiln_status reference_concat(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    int64_t place = 0;
    uint32_t axis = op->attr.concat.axis;
    for (uint32_t i = 0; i < op->n_in; i++) {
        move_axis(&op->out, a->out, place, &op->in[i], a->in[i], 0, op->in[i].shape.dim[axis], axis);
        place += op->in[i].shape.dim[axis];
    }
    return KILN_OK;
}

kiln_status reference_slice(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    move_axis(&op->out, a->out, 0, &op->in[0], a->in[0], op->attr.slice.start, op->attr.slice.length,
              op->attr.slice.axis);
    return KILN_OK;
}

kiln_status reference_reshape(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    int64_t n = shape_count(&op->out.shape), to = operand_columns(&op->out), from = operand_columns(&op->in[0]);
    for (int64_t i = 0; i < n; i++) move(&op->out, a->out, i / to, i % to, &op->in[0], a->in[0], i / from, i % from);
    return KILN_OK;
}

kiln_status reference_permute(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    const shape *s = &op->in[0].shape, *d = &op->out.shape;
    int64_t n = shape_count(d), to = operand_columns(&op->out), from = operand_columns(&op->in[0]);
    for (int64_t i = 0; i < n; i++) {
        int64_t index[KILN_MAX_RANK] = {0}, rest = i, source = 0;
        for (uint32_t k = d->rank; k-- > 0;) {
            index[op->attr.permute.axis[k]] = rest % d->dim[k];
            rest /= d->dim[k];
        }
        for (uint32_t k = 0; k < s->rank; k++) source = source * s->dim[k] + index[k];
        move(&op->out, a->out, i / to, i % to, &op->in[0], a->in[0], source / from, source % from);
    }
    return KILN_OK;
}

kiln_status reference_embedding(const op_desc *op, const kernel_args *a, error *e)
{
    int64_t n = shape_count(&op->in[1].shape), V = op->in[0].shape.dim[0], D = op->in[0].shape.dim[1];
    for (int64_t i = 0; i < n; i++) {
        int32_t id = operand_get_i32(&op->in[1], a->in[1], i);
        if (id < 0 || id >= V)
            return error_set(e, KILN_ERR_INVALID, "token id %d is outside the table of %lld", id, (long long)V);
        for (int64_t c = 0; c < D; c++) operand_set(&op->out, a->out, i, c, operand_get(&op->in[0], a->in[0], id, c));
    }
    return KILN_OK;
}

kiln_status reference_gather(const op_desc *op, const kernel_args *a, error *e)
{
    int64_t N = op->in[0].shape.dim[0], T = op->in[0].shape.dim[1], D = op->in[0].shape.dim[2];
    int64_t rows = shape_count(&op->in[1].shape);
    for (int64_t n = 0; n < rows; n++) {
        int32_t t = operand_get_i32(&op->in[1], a->in[1], n);
        if (t < 0 || t >= T)
            return error_set(e, KILN_ERR_INVALID, "place %d is outside the %lld of the sequence", t, (long long)T);
        for (int64_t c = 0; c < D; c++)
            operand_set(&op->out, a->out, n, c, operand_get(&op->in[0], a->in[0], n / (rows / N) * T + t, c));
    }
    return KILN_OK;
}
