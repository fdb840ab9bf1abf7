/* linear.h - a linear layer over `rows` rows of k columns, for linear.c and 1x1 convolutions; what grouped ones share.
 */
#ifndef KILN_BACKEND_CPU_LINEAR_H
#define KILN_BACKEND_CPU_LINEAR_H

#include "backend/cpu/gemm.h"

kiln_status linear_prepare_as(cpu_kernel *c, int64_t rows, int64_t k, int64_t columns, error *e);

/* Of a grouped linear: the numbers of the rows of x that its rows are; NULL: x's as they come. */
const int32_t *product_taken(const op_desc *op, const kernel_args *a);
/* Do offsets rise, and they and those numbers stay inside? Rows of no group become 0. */
kiln_status product_check_groups(const cpu_kernel *c, const kernel_args *a, error *e);
void product_clear_others(const cpu_kernel *c, const kernel_args *a);

#endif
