/* linear_tiles.h - linear of bf16 by AMX's tiles (convolution_strips.h), and a 1x1 convolution. Layer: backend.
 */
#ifndef KILN_BACKEND_CPU_LINEAR_TILES_H
#define KILN_BACKEND_CPU_LINEAR_TILES_H

#include "backend/cpu/cpu.h"

/* Rows of k inputs, to `columns` of the result. */
int linear_tiles_fit(const op_desc *, int64_t k, int64_t columns);
kiln_status linear_tiles_prepare(cpu_kernel *, int64_t rows, int64_t k, int64_t columns, error *);

#endif
