/* dtype_fast.h - conversions by AVX2 and F16C; only for dtype.c, which knows whether the processor has them. */
#ifndef KILN_TENSOR_DTYPE_FAST_H
#define KILN_TENSOR_DTYPE_FAST_H

#include <stddef.h>
#include <stdint.h>

/* Converts the first elements, a multiple of 8, and returns how many: 0 for a pair of types it does not know. */
size_t dtype_convert_avx2(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype, size_t n);

#endif
