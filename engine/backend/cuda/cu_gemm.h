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

/* Steps of `deep` in one of n parts of K. */
static __device__ __forceinline__ int64_t cu_part_steps(const cu_gemm &p, int n, int deep)
{
    return ((p.K + deep - 1) / deep + n - 1) / n;
}
/* Part `split` of K: whole steps of `deep`. */
static __device__ __forceinline__ void cu_split_range(const cu_gemm &p, int split, int deep, int64_t *first,
                                                      int64_t *last)
{
    int64_t each = cu_part_steps(p, p.splits, deep);
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

static __device__ __forceinline__ void cu_act_eight(int act, float *v)
{
#define CU_EACH(formula)                                                                                               \
    _Pragma("unroll") for (int i = 0; i < 8; i++) v[i] = cu_act(formula, v[i]);                                        \
    return
    switch (act) { /* once for eight */
    case CU_ACT_NONE: return;
    case CU_ACT_SILU: CU_EACH(CU_ACT_SILU);
    case CU_ACT_GELU: CU_EACH(CU_ACT_GELU);
    case CU_ACT_GELU_TANH: CU_EACH(CU_ACT_GELU_TANH);
    default: CU_EACH(act);
    }
#undef CU_EACH
}

/* Value and gate in turns: four numbers of the result, 16 bits each. */
static __device__ __forceinline__ void cu_gemm_store_gated(const cu_gemm &p, int64_t m, int64_t n, const float *v)
{
    float out[4];
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = cu_act(p.finish.act, v[2 * i]) * cu_gelu(v[2 * i + 1]);
    uint2 pairs = p.out_type == CU_BF16 ? make_uint2(cu_pair<CU_BF16>(out[0], out[1]), cu_pair<CU_BF16>(out[2], out[3]))
                                        : make_uint2(cu_pair<CU_F16>(out[0], out[1]), cu_pair<CU_F16>(out[2], out[3]));
    *reinterpret_cast<uint2 *>(static_cast<uint16_t *>(p.out) + m * p.out_ld + n / 2) = pairs;
}

/* Eight sums of row m from shared memory, columns n .. n + 7, of which N has some; whole: cu_gemm_whole(). */
static __device__ __forceinline__ void cu_gemm_store_eight(const cu_gemm &p, int64_t m, int64_t n, const float *from,
                                                           int whole)
{
    int count = p.N - n < 8 ? (int)(p.N - n) : 8;
    if (p.splits > 1 || !whole || count < 8) {
#pragma unroll 1
        for (int i = 0; i < count; i += 2) cu_gemm_store(p, m, n + i, from[i], from[i + 1], (int)blockIdx.z);
        return;
    }
    const float4 *fours = reinterpret_cast<const float4 *>(from);
    float4 low = fours[0], high = fours[1];
    float v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if (p.finish.bias) {
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] += p.finish.bias[n + i];
    }
    if (p.finish.geglu) return cu_gemm_store_gated(p, m, n, v);
    cu_act_eight(p.finish.act, v);
    if (p.finish.residual) {
        float more[8];
        cu_load_row<8>(more, p.finish.residual, p.finish.residual_type, m * p.finish.residual_ld + n);
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] += more[i];
    }
    cu_store_row<8>(p.out, p.out_type, m * p.out_ld + n, v);
}

/* 1: results and residuals lie so that eight of a row are moved at once. */
static inline int cu_gemm_whole(const cu_gemm *p)
{
    const cu_epilogue *f = &p->finish;
    if (((uintptr_t)p->out & 15) != 0 || p->out_ld % 8 != 0) return 0;
    if (f->geglu) return !f->residual && (p->out_type == CU_BF16 || p->out_type == CU_F16);
    return !f->residual || (((uintptr_t)f->residual & 15) == 0 && f->residual_ld % 8 == 0);
}

#endif
