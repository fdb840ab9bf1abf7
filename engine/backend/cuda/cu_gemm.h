/* cu_gemm.h - what both GEMM kernels share: where the left operand lies, how K is cut, and how a sum becomes a
 * result. */
#ifndef KILN_BACKEND_CUDA_CU_PRODUCT_H
#define KILN_BACKEND_CUDA_CU_PRODUCT_H

#include "backend/cuda/cu.h"

/* Row m of the left side. A picture's: the place that tap 0 sees. n < 0: there is no such row. */
typedef struct {
    int64_t n;
    int y, x;
} cu_place;
/* Column k of the left side in a picture: which tap, which channel of it. */
typedef struct {
    int ky, kx;
    int64_t channel;
} cu_tap;

static __device__ __forceinline__ cu_place cu_place_of(const cu_gemm &p, int64_t m)
{
    cu_place r = {m < p.M ? m : -1, 0, 0};
    if (!p.picture || m >= p.M) return r;
    int64_t inner = m % (p.out_h * p.out_w);
    r.n = m / (p.out_h * p.out_w);
    r.y = (int)(inner / p.out_w) * p.stride_h - p.top;
    r.x = (int)(inner % p.out_w) * p.stride_w - p.left;
    return r;
}
static __device__ __forceinline__ cu_tap cu_tap_of(const cu_gemm &p, int64_t k)
{
    cu_tap t = {0, 0, 0};
    if (!p.picture) return t;
    int64_t tap = k / p.channels;
    t.ky = (int)(tap / p.kw), t.kx = (int)(tap % p.kw), t.channel = k % p.channels;
    return t;
}
static __device__ __forceinline__ void cu_tap_on(const cu_gemm &p, cu_tap *t, int k)
{
    if (!p.picture) return;
    for (t->channel += k; t->channel >= p.channels; t->channel -= p.channels)
        if (++t->kx == p.kw) t->kx = 0, t->ky++;
}
/* The element's place from a, or -1: outside the picture. */
static __device__ __forceinline__ int64_t cu_left_place(const cu_gemm &p, const cu_place &row, const cu_tap &tap,
                                                        int64_t k)
{
    if (!p.picture) return row.n * p.a_ld + k;
    int y = row.y + tap.ky * p.dilation_h, x = row.x + tap.kx * p.dilation_w;
    if (tap.ky >= p.kh || y < 0 || y >= p.H || x < 0 || x >= p.W) return -1;
    return ((row.n * p.H + y) * p.W + x) * p.a_ld + tap.channel;
}

/* Part `split` of K: whole steps of `deep`. */
static __device__ __forceinline__ void cu_split_range(const cu_gemm &p, int split, int deep, int64_t *first,
                                                      int64_t *last)
{
    int64_t steps = (p.K + deep - 1) / deep, each = (steps + p.splits - 1) / p.splits;
    *first = split * each * deep;
    *last = (split + 1) * each * deep;
    if (*last > p.K) *last = p.K;
}

static __device__ __forceinline__ void cu_gemm_put(const cu_gemm &p, int64_t row, int64_t column, float v)
{
    if (p.finish.bias) v += p.finish.bias[column];
    cu_store(p.out, p.out_type, row * p.out_ld + column, cu_finish(p.finish, v, row, column));
}
/* Two neighbouring sums (n is even; the second only where N has it): to the parts, or through the epilogue. */
static __device__ __forceinline__ void cu_gemm_store(const cu_gemm &p, int64_t m, int64_t n, float a, float b,
                                                     int split)
{
    if (p.splits > 1) {
        float *to = p.partial + (split * p.M + m) * p.N + n;
        to[0] = a;
        if (n + 1 < p.N) to[1] = b;
    } else if (p.finish.geglu) {
        if (p.finish.bias) a += p.finish.bias[n], b += p.finish.bias[n + 1];
        float v = cu_act(p.finish.act, a) * cu_gelu(b);
        if (p.finish.residual)
            v += cu_load(p.finish.residual, p.finish.residual_type, m * p.finish.residual_ld + n / 2);
        cu_store(p.out, p.out_type, m * p.out_ld + n / 2, v);
    } else {
        cu_gemm_put(p, m, n, a);
        if (n + 1 < p.N) cu_gemm_put(p, m, n + 1, b);
    }
}

#endif
