/* reference.h - what the plain C kernels share: rows of operands as floats, and the epilogue.
 *
 * Every op has its specification here: one loop nest over floats, sums in double, no threads, no packing but
 * to f32. Fast backends are tested against it.
 */
#ifndef KILN_BACKEND_REFERENCE_H
#define KILN_BACKEND_REFERENCE_H

#include "backend/backend.h"
#include "tensor/dtype.h"

typedef struct {
    kernel base;
    op_desc op;
    kiln_status (*body)(const op_desc *, const kernel_args *, error *);
} reference_kernel;

/* Columns (last dimension) and rows (all others) of an operand. */
int64_t operand_columns(const operand_desc *d);
int64_t operand_rows(const operand_desc *d);
int32_t operand_get_i32(const operand_desc *d, const void *data, int64_t index);
/* Element (row, column) as float, and back: to i32 towards zero, NaN as 0. Weights arrive as dense f32 (or i32).
 * Inline, since most of what the tests of ops take is this in the loops of products. */
static inline float operand_get(const operand_desc *d, const void *data, int64_t row, int64_t column)
{
    int64_t columns = d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1, at = row * d->ld + column;
    if (d->dtype == KILN_I32) return (float)operand_get_i32(d, data, row * columns + column);
    if (d->weight) return ((const float *)data)[row * columns + column];
    if (d->dtype == KILN_BF16) return bf16_to_f32(((const uint16_t *)data)[at]);
    if (d->dtype == KILN_F16) return f16_to_f32(((const uint16_t *)data)[at]);
    return ((const float *)data)[at];
}
void operand_set(const operand_desc *d, void *data, int64_t row, int64_t column, float v);
/* The place, among b's elements, of element (row, column) of `out`: dimensions aligned at the end, 1 repeats. */
int64_t broadcast_place(const operand_desc *out, const operand_desc *b, int64_t row, int64_t column);

float act_apply(uint32_t act, float x);
/* Activation, geglu's gate (of value and gate), residual; writes element (row, column) of the result. */
void epilogue_store(const op_desc *op, const kernel_args *a, int64_t row, int64_t column, double value, double gate);

typedef kiln_status reference_body(const op_desc *, const kernel_args *, error *);
reference_body reference_convert, reference_conv2d, reference_linear, reference_attention, reference_group_norm,
    reference_group_norm_stats, reference_layer_norm, reference_add, reference_mul, reference_affine, reference_act,
    reference_geglu, reference_upsample, reference_concat, reference_slice, reference_reshape, reference_permute,
    reference_embedding, reference_gather, reference_timestep, reference_map, reference_state_write, reference_custom;
reference_body reference_norm, reference_rope, reference_softmax, reference_reduce, reference_cumsum, reference_sort,
    reference_bincount, reference_take, reference_take_along, reference_scatter, reference_random, reference_conv,
    reference_pool, reference_interpolate, reference_grid_sample, reference_pad;
reference_body reference_matmul, reference_linear_transposed, reference_grouped_linear;

#endif
