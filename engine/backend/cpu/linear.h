/* linear.h - a linear layer over `rows` rows of k columns, for linear.c and 1x1 convolutions. */
#ifndef KILN_BACKEND_CPU_LINEAR_H
#define KILN_BACKEND_CPU_LINEAR_H

#include "backend/cpu/gemm.h"

kiln_status linear_prepare_as(cpu_kernel *c, int64_t rows, int64_t k, int64_t columns, error *e);

#endif
