/* gemm_tile.h - a few rows and columns of W + factor * (up x down), in registers: the body of gemm_tile_plain.c,
 * gemm_tile_avx2.c and gemm_tile_avx512.c, which set LANES and ROWS, and what they export. Layer: weights.
 *
 * dst[i][j] += factor * sum over k of up[i][k] * down[k][j]. Each element is summed in f32 over k ascending from 0,
 * each step fmaf(up[i][k], down[k][j], sum), rounded once; factor * sum is rounded before it is added. So the bits are
 * the same whatever the lanes, and on a processor without such an instruction, where the step is made of f64 ones.
 */
#ifndef KILN_WEIGHTS_PRODUCT_TILE_H
#define KILN_WEIGHTS_PRODUCT_TILE_H

#include <stddef.h>

enum { GEMM_TILE_ROWS = 8 }; /* a multiple of every tiling's rows */

typedef struct {
    float *dst;
    size_t dst_ld;
    const float *up; /* rows up_ld apart */
    size_t up_ld;
    const float *down;
    size_t down_ld, inner;
    float factor;
} gemm_tile_operands;

typedef struct {
    size_t rows, columns;
    void (*tile)(const gemm_tile_operands *);                              /* rows x columns         */
    void (*rest)(const gemm_tile_operands *, size_t rows, size_t columns); /* what does not fill one */
} gemm_tiling;

extern const gemm_tiling gemm_tiling_plain, gemm_tiling_avx2, gemm_tiling_avx512;

#endif

#ifdef LANES
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

typedef float lanes __attribute__((vector_size(LANES * 4)));
typedef float lanes_anywhere __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#if defined(__AVX512F__) && LANES == 16
static inline lanes step(float u, lanes d, lanes sum)
{
    return (lanes)_mm512_fmadd_ps(_mm512_set1_ps(u), (__m512)d, (__m512)sum);
}
#elif defined(__FMA__) && LANES == 8
static inline lanes step(float u, lanes d, lanes sum)
{
    return (lanes)_mm256_fmadd_ps(_mm256_set1_ps(u), (__m256)d, (__m256)sum);
}
#elif defined(__FP_FAST_FMAF)
static inline lanes step(float u, lanes d, lanes sum)
{
    for (int l = 0; l < LANES; l++) sum[l] = __builtin_fmaf(u, d[l], sum[l]);
    return sum;
}
#else
/* u d is exact in f64. Its sum is rounded to odd (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded
 * sums"): of the two f64 numbers around it the one whose last bit is set, which rounds to f32 as the exact sum does. */
typedef double wide __attribute__((vector_size(LANES * 8)));
typedef int64_t bits __attribute__((vector_size(LANES * 8)));

static inline lanes step(float u, lanes d, lanes sum)
{
    wide p = (double)u * __builtin_convertvector(d, wide), c = __builtin_convertvector(sum, wide), s = p + c;
    wide t = s - p, off = (p - (s - t)) + (c - t); /* what s is short of (Knuth); a NaN of what is infinite */
    bits at = (bits)s, outwards = ~((bits)(off > 0) ^ (bits)(s > 0)), even = (at & 1) - 1;
    at += ((bits)(off > 0) | (bits)(off < 0)) & even & ((outwards & 2) - 1);
    return __builtin_convertvector((wide)at, lanes);
}
#endif

static void tile(const gemm_tile_operands *o)
{
    lanes sum[ROWS][2] = {{{0}}};
    const float *up = o->up, *down = o->down;
    size_t up_ld = o->up_ld, down_ld = o->down_ld, inner = o->inner;
    for (size_t k = 0; k < inner; k++) {
        lanes a = *(const lanes_anywhere *)(down + k * down_ld),
              b = *(const lanes_anywhere *)(down + k * down_ld + LANES);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            float u = up[(size_t)i * up_ld + k];
            sum[i][0] = step(u, a, sum[i][0]);
            sum[i][1] = step(u, b, sum[i][1]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) {
        lanes_anywhere *d = (lanes_anywhere *)(o->dst + (size_t)i * o->dst_ld);
        d[0] += o->factor * sum[i][0];
        d[1] += o->factor * sum[i][1];
    }
}

/* A row's last columns, fewer than the lanes. */
static lanes load_some(const float *from, size_t n)
{
    float all[LANES] = {0};
    memcpy(all, from, n * sizeof *all);
    return *(const lanes_anywhere *)all;
}

static void rest(const gemm_tile_operands *o, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j += LANES) {
            size_t n = columns - j < LANES ? columns - j : LANES;
            float *to = o->dst + i * o->dst_ld + j;
            const float *up = o->up + i * o->up_ld, *down = o->down + j;
            lanes sum = {0};
            for (size_t k = 0; n == LANES && k < o->inner; k++)
                sum = step(up[k], *(const lanes_anywhere *)(down + k * o->down_ld), sum);
            for (size_t k = 0; n < LANES && k < o->inner; k++)
                sum = step(up[k], load_some(down + k * o->down_ld, n), sum);
            for (size_t l = 0; l < n; l++) to[l] += o->factor * sum[l];
        }
}

#define TILING(name) const gemm_tiling name = {.rows = ROWS, .columns = 2 * LANES, .tile = tile, .rest = rest}
#endif
