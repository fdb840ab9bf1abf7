/* kernels_plain.c - the inner loops for any processor: 16-byte vectors, as every x86-64 and aarch64 has. */
#define KERNELS kernels_plain
#define KERNELS_TEXT "plain"
#define LANES 4
#define GEMM_ROWS 4
#define GEMM_VECTORS 2
#define UNROLL _Pragma("GCC unroll 8")
#define VFMA(a, b, c) ((a) * (b) + (c))
#include "backend/cpu/kernels_template.h"
