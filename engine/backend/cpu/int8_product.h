/* int8_product.h - linears, 1x1 convolutions and grouped linears whose weight is stored by blocks or as rows of int8
 * with a scale each, as products of integers: see int8_kernels.h. Layer: backend.
 */
#ifndef KILN_BACKEND_CPU_INT8_PRODUCT_H
#define KILN_BACKEND_CPU_INT8_PRODUCT_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/int8_kernels.h"

enum { INT8_MANY_ROWS = 64 }; /* for AMX's tiles: int8_product.c says why */

/* Is the op's weight to be multiplied so? Never under f32, and not where bf16 products are the faster ones. */
int int8_product_fits(const op_desc *op);
kiln_status int8_product_prepare(cpu_kernel *c, error *e);

/* Up to the kernels' rows of the first operand from `row` on, times `by` (of each input; NULL: 1), rounded; depth K is
 * filled up with 0 to whole parts. */
void int8_round_rows(const cpu_kernel *c, const kernel_args *a, const int8_kernels *to, const int8_form *f, int64_t row,
                     int64_t rows, int64_t K, const float *by, void *parts);

#endif
