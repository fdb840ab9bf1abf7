/* onednn.h - all that the backend knows of oneDNN: one GEMM or convolution on one thread.
 *
 * A GEMM is compiled when made, may then run from any number of threads at once (each with its own scratch), and
 * uses one thread itself, so its result depends on nothing but its operands. Weights lie in the library's own layout,
 * or in panels where the product is kiln's own (f32 by AVX2, panel_product.h); a GEMM made `like` another reads weights
 * packed for that one.
 */
#ifndef KILN_BACKEND_CPU_ONEDNN_H
#define KILN_BACKEND_CPU_ONEDNN_H

#include "base/status.h"

/* conv 0: c[m][n] = a[m][k] b + bias, b given as [n][k]; all rows dense.
 * conv 1: one image, a [h][w][i] -> c [oh][ow][n], b given as [n][i][kh][kw]; pad is top, left, bottom, right.
 * With kd: of volumes without padding, a [d][h][w][i] -> c [od][oh][ow][n], b given as [n][i][kd][kh][kw].
 * c and bias are f32. */
typedef struct {
    uint32_t type;             /* of a and packed b: KILN_F32 or KILN_BF16 */
    uint32_t bias, conv, none; /* none: 0, so that there is no padding and shapes compare as bytes */
    int64_t m, n, k;
    int64_t h, w, i, oh, ow, kh, kw, stride[2], dilation[2], pad[4];
    int64_t d, od, kd, deep_stride, deep_dilation;
} gemm_shape;

typedef struct gemm gemm;

/* A layout of weights, counted in words of 4 bytes: 16 outputs or more stand side by side in a word each, which holds
 * one input of f32, two of bf16 (a step); tap (y, x) of step s of output o is at
 *     o / outputs * output_stride + o % outputs + s / steps * step_stride + s % steps * outputs
 *     + y * high_stride + x * wide_stride, that of plane z of a volume z * deep_stride behind it. */
typedef struct {
    int64_t outputs, output_stride, steps, step_stride;
    int64_t wide, high, deep_stride, high_stride, wide_stride; /* wide: taps of a line; high: lines of a plane */
} gemm_words;

const char *gemm_library_version(void); /* "2.6.3" */
kiln_status gemm_new(const gemm_shape *s, const gemm *like, gemm **out, error *e);
void gemm_free(gemm *p);
const char *gemm_name(const gemm *p); /* "brg:avx512_core" */
uint64_t gemm_layout(const gemm *p);  /* equal for equal weight layouts */
const gemm_shape *gemm_shape_of(const gemm *p);
int gemm_words_of(const gemm *p, gemm_words *out); /* 0: the layout is of another kind */
size_t gemm_weight_bytes(const gemm *p);           /* packed, in `type` */
size_t gemm_scratch_bytes(const gemm *p);
kiln_status gemm_pack(const gemm *p, const float *b, void *packed, error *e);
/* The same of b given as [k][n]. */
kiln_status gemm_pack_columns(const gemm *p, const float *b, void *packed, error *e);
kiln_status gemm_run(const gemm *p, const void *a, const void *packed, const float *bias, float *c, void *scratch,
                     error *e);

#endif
