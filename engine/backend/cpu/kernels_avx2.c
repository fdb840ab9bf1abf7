/* kernels_avx2.c - the inner loops for AVX2 with FMA. Only called when the processor has both. */
#include <immintrin.h>
#define KERNELS kernels_avx2
#define KERNELS_TEXT "avx2"
#define LANES 8
#define GEMM_ROWS 6
#define GEMM_VECTORS 2
#define UNROLL _Pragma("GCC unroll 8")
#define VFMA(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "backend/cpu/kernels_template.h"
