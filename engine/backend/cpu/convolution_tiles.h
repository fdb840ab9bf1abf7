/* convolution_tiles.h - conv2d of bf16 by AMX's tiles (convolution_strips.h). Layer: backend. */
#ifndef KILN_BACKEND_CPU_CONVOLUTION_TILES_H
#define KILN_BACKEND_CPU_CONVOLUTION_TILES_H

#include "backend/cpu/cpu.h"

int convolution_tiles_fit(const op_desc *);
int convolution_tiles_take_upsampled(const op_desc *); /* the same of one whose attr.conv2d.upsampled is set */
kiln_status convolution_tiles_prepare(cpu_kernel *, error *);

#endif
