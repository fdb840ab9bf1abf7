/* kernels.h - the inner loops of the CPU backend, as a table chosen once by what the processor has.
 *
 * kernels_template.h holds one body of code over vectors of a compile-time width; it is compiled three times: plain
 * (16-byte vectors, what every x86-64 and aarch64 has), AVX2+FMA and AVX-512. Everything works on rows of
 * floats in cache: load() and store() convert from and to the storage type, so an op is load, compute, store.
 * n is any number; pointers have the alignment of their element type.
 */
#ifndef KILN_BACKEND_CPU_KERNELS_H
#define KILN_BACKEND_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

typedef struct cpu_kernels {
    const char *name;
    /* f32, bf16, f16 -> f32 and back, rounding to nearest even */
    void (*load)(float *dst, const void *src, uint32_t dtype, size_t n);
    void (*store)(void *dst, uint32_t dtype, const float *src, size_t n);
    /* x = act(x). exp within 2 ulp; erf within 1.5e-7 absolute (Abramowitz and Stegun 7.1.26). */
    void (*act)(float *x, uint32_t act, size_t n);
    void (*geglu)(float *value, const float *gate, size_t n); /* value *= gelu(gate)          */
    void (*add)(float *x, const float *y, size_t n);          /* x += y                       */
    void (*mul)(float *x, const float *y, size_t n);          /* x *= y                       */
    void (*affine)(float *x, float scale, float shift, size_t n);
    void (*normalise)(float *x, const float *mean, const float *scale, const float *shift, size_t n); /* (x-mean)*scale+shift */
    float (*sum)(const float *x, size_t n);
    float (*squares)(const float *x, float mean, size_t n); /* sum of (x-mean)^2 */
    /* sum[i] += x[i]-origin[i]; squares[i] += (x[i]-origin[i])^2 */
    void (*moments)(float *sum, float *squares, const float *x, const float *origin, size_t n);
    /* c[m][n] = a[m][k] b[k][n] (+ c when `accumulate`); n a multiple of 16 */
    void (*gemm)(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc,
                 int accumulate);
    /* One step of an online softmax over `keys` (a multiple of 16) scores of each of `rows` rows: s becomes
     * exp(s - most'), total and most are brought forward, scale[row] is what earlier sums are multiplied by. */
    void (*softmax)(float *s, size_t ld, size_t rows, size_t keys, float *most, float *total, float *scale);
    /* dst[column][row] = src[row][column] for one block, dst rows `ldd` apart */
    void (*transpose)(float *dst, size_t ldd, const float *src, size_t lds, size_t rows, size_t columns);
    /* Winograd F(4x4,3x3) over n channels: 36 x n values `ld` apart. weights: 9 x n, `lds` apart.
     * output: 36 x n sums -> 4 x 4 x n, pixel (y,x) at out[(4 y + x) n]. */
    void (*winograd_input)(float *v, size_t ldv, const float *const pixel[36], size_t n);
    void (*winograd_weight)(float *u, size_t ldu, const void *w, uint32_t dtype, size_t lds, size_t n);
    void (*winograd_output)(float *out, const float *m, size_t ldm, size_t n);
} cpu_kernels;

extern const cpu_kernels kernels_plain, kernels_avx2, kernels_avx512;

#endif
