/* kernels_avx512bf16.c - the inner loops for AVX-512 with its bf16 conversions. Only called when the processor has
 * them. */
#include <immintrin.h>
#define KERNELS kernels_avx512bf16
#define KERNELS_TEXT "avx512bf16"
#define LANES 16
#define GEMM_ROWS 6
#define GEMM_VECTORS 4
#define UNROLL _Pragma("GCC unroll 8")
#define UNROLL_ALL _Pragma("GCC unroll 16")
#define VFMA(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "backend/cpu/kernels_template.h"
