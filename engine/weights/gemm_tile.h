/* gemm_tile.h - a few rows and columns of W + factor * (up x down), in registers: the body of gemm_tile_plain.c,
 * gemm_tile_avx2.c and gemm_tile_avx512.c, which set LANES and NAME, and what they export. Layer: weights.
 *
 * dst[i][j] += factor * sum over k of up[i][k] * down[k][j], for GEMM_TILE_ROWS rows of dst (dst_ld apart) and up (rank
 * apart) and the tile's columns. Each element is summed in f32 over k ascending from 0, one multiplication at a time:
 * the same bits as the plain loop, whatever the lanes (-ffp-contract=off).
 */
#ifndef KILN_WEIGHTS_PRODUCT_TILE_H
#define KILN_WEIGHTS_PRODUCT_TILE_H

#include <stddef.h>

enum { GEMM_TILE_ROWS = 4 };

typedef void gemm_tile(float *dst, size_t dst_ld, const float *up, size_t rank, const float *down, size_t down_ld,
                       float factor);
gemm_tile gemm_tile_8, gemm_tile_16, gemm_tile_32; /* columns */

#endif

#ifdef LANES
typedef float lanes __attribute__((vector_size(LANES * 4)));
typedef float lanes_anywhere __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

void NAME(float *dst, size_t dst_ld, const float *up, size_t rank, const float *down, size_t down_ld, float factor)
{
    lanes sum[GEMM_TILE_ROWS][2] = {{{0}}};
    for (size_t k = 0; k < rank; k++) {
        lanes a = *(const lanes_anywhere *)(down + k * down_ld),
              b = *(const lanes_anywhere *)(down + k * down_ld + LANES);
#pragma GCC unroll 4
        for (int i = 0; i < GEMM_TILE_ROWS; i++) {
            float u = up[(size_t)i * rank + k];
            sum[i][0] += u * a;
            sum[i][1] += u * b;
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < GEMM_TILE_ROWS; i++) {
        lanes_anywhere *d = (lanes_anywhere *)(dst + (size_t)i * dst_ld);
        d[0] += factor * sum[i][0];
        d[1] += factor * sum[i][1];
    }
}
#endif
