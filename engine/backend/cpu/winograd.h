/* winograd.h - 3x3 convolution by Winograd's F(4x4,3x3) in f32; see winograd.c. */
#ifndef KILN_BACKEND_CPU_WINOGRAD_H
#define KILN_BACKEND_CPU_WINOGRAD_H

#include "backend/cpu/cpu.h"

int winograd_fits(const op_desc *op); /* 1 when this is the way to compute it here */
kiln_status winograd_prepare(cpu_kernel *c, error *e);

#endif
