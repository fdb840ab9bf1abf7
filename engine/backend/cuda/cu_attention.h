/* cu_attention.h - what the tensor-core kernels of attention share: rows into shared memory, and a warp's work on 16
 * queries - scores, their online softmax, sums of values, the result. Scheme: Dao 2023, FlashAttention-2.
 *
 * HEAD is the head's size filled up with zeros; a row of a tile has HEAD elements and 16 bytes more, an odd number of
 * pieces of 16, so that eight rows begin in different banks. STEPS, COLUMNS: the part of the head that a warp works on.
 * A warp's scores are s[j][e]: key 8 j + 2 (lane % 4) + e % 2 of the tile, query lane / 4 + e / 2 * 8 of the warp.
 */
#ifndef KILN_BACKEND_CUDA_CU_ATTENTION_H
#define KILN_BACKEND_CUDA_CU_ATTENTION_H

#include "backend/cuda/cu_mma.h"

template <int HEAD> struct cu_head {
    enum { ROW = HEAD * 2 + 16 };
};
/* Of rows lane / 4 and 8 below, over the keys so far: the largest score times log2(e); this thread's share of the sum.
 */
typedef struct {
    float max[2], sum[2];
} cu_softmax;

/* Rows row.. of a matrix of `end` rows to shared memory; what is outside of it, or of the head, is 0. */
template <int HEAD, int THREADS>
static __device__ __forceinline__ void cu_fetch(const cu_attention &a, unsigned char *to, const uint16_t *from,
                                                int64_t row, int64_t end, int rows, int64_t ld)
{
    int left = end - row < rows ? (int)(end - row) : rows;
    from += row * ld;
    for (int i = (int)threadIdx.x; i < rows * (HEAD / 8); i += THREADS) {
        int r = i / (HEAD / 8), c = i % (HEAD / 8) * 8, there = r < left && c < (int)a.head;
        cu_copy16(to + r * cu_head<HEAD>::ROW + c * 2, there ? from + r * ld + c : from, there);
    }
}

/* KEYS rows of keys or values from `row` on. A thread has one piece of every STEP-th row, so that a row further is one
 * addition; whole: none of them is beyond the end. */
template <int HEAD, int THREADS, int KEYS>
static __device__ __forceinline__ void cu_fetch_tile(const cu_attention &a, unsigned char *to, const uint16_t *from,
                                                     int64_t row, int64_t ld, int whole)
{
    enum { PIECES = HEAD / 8, STEP = THREADS / PIECES };
    int first = (int)threadIdx.x / PIECES, c = (int)threadIdx.x % PIECES * 8, inside = c < (int)a.head;
    int left = whole ? KEYS : (int)(a.keys - row);
    if (first >= STEP) return;
    const uint16_t *at = from + (row + first) * ld + (inside ? c : 0);
    to += first * cu_head<HEAD>::ROW + c * 2;
#pragma unroll
    for (int r = 0; r < KEYS; r += STEP, at += STEP * ld) {
        if (KEYS % STEP && first + r >= KEYS) break;
        int there = inside && first + r < left;
        cu_copy16(to + r * cu_head<HEAD>::ROW, there ? at : from, there);
    }
}

/* The left side of 16 queries that lie in shared memory */
template <int HEAD, int STEPS> static __device__ __forceinline__ void cu_queries(unsigned char *rows, uint32_t (*q)[4])
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int d = 0; d < STEPS; d++)
        cu_matrices(q[d], rows + lane % 16 * cu_head<HEAD>::ROW + (d * 16 + lane / 16 * 8) * 2);
}

/* s = q keys^T */
template <int TYPE, int HEAD, int STEPS, int KEYS>
static __device__ __forceinline__ void cu_scores(const uint32_t (*q)[4], unsigned char *keys, float (*s)[4])
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll
    for (int d = 0; d < STEPS; d++)
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
            uint32_t b[4];
            cu_matrices(b, keys + (j * 16 + lane % 8 + lane / 16 * 8) * cu_head<HEAD>::ROW +
                               (d * 16 + lane / 8 % 2 * 8) * 2);
            cu_mma<TYPE>(s[2 * j], q[d], b[0], b[1]);
            cu_mma<TYPE>(s[2 * j + 1], q[d], b[2], b[3]);
        }
}

static __device__ __forceinline__ float cu_limited(const cu_attention &a, const void *mask, float s, int64_t q,
                                                   int64_t k)
{
    if (k >= a.keys || (a.causal && k > q)) return -INFINITY;
    s *= a.scale;
    return mask && q < a.queries ? s + cu_load(mask, a.mask_type, q * a.mask_ld + k) : s;
}

/* The largest score of row h is now at least `top`; *base: what weights are relative to. Returns the sums' factor. */
static __device__ __forceinline__ float cu_rebase(cu_softmax *r, int h, float top, float *base)
{
    float before = r->max[h];
    r->max[h] = fmaxf(before, top);
    *base = r->max[h] == -INFINITY ? 0.0f : r->max[h];
    return cu_exp2(before - *base);
}
/* 1: nobody limits or adds to the scores of KEYS keys from k0 on, for queries from q0 on. */
template <int KEYS>
static __device__ __forceinline__ int cu_plain(const cu_attention &a, const void *mask, int64_t q0, int64_t k0)
{
    return !mask && a.scale > 0 && k0 + KEYS <= a.keys && (!a.causal || k0 + KEYS - 1 <= q0);
}

/* Scores to weights; shrink: by what the sums so far are multiplied, for both rows. q, k: of s[0][0].
 *
 * exp(x - max) is 2^(x c - max c), one multiplication-and-subtraction and one instruction; c = log2(e), times the scale
 * where nothing limits or adds to scores (plain). A row without keys so far has 2^(-inf - 0) = 0 everywhere. */
template <int KEYS>
static __device__ __forceinline__ void cu_soften(const cu_attention &a, const void *mask, float (*s)[4], cu_softmax *r,
                                                 float *shrink, int64_t q, int64_t k, int plain)
{
    float c = 1.4426950408889634f, max[2] = {-INFINITY, -INFINITY};
    if (plain)
        c *= a.scale;
    else {
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) s[j][e] = cu_limited(a, mask, s[j][e], q + e / 2 * 8, k + j * 8 + e % 2);
    }
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) max[e / 2] = fmaxf(max[e / 2], s[j][e]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        max[h] = fmaxf(max[h], __shfl_xor_sync(0xffffffffu, max[h], 1));
        max[h] = fmaxf(max[h], __shfl_xor_sync(0xffffffffu, max[h], 2));
        r->sum[h] *= shrink[h] = cu_rebase(r, h, max[h] * c, &max[h]);
    }
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[j][e] = cu_exp2(fmaf(s[j][e], c, -max[e / 2]));
            r->sum[e / 2] += s[j][e];
        }
}

/* sum = sum shrink + weights values, COLUMNS of them */
template <int TYPE, int HEAD, int COLUMNS, int KEYS>
static __device__ __forceinline__ void cu_gather(const float (*s)[4], const float *shrink, unsigned char *values,
                                                 float (*sum)[4])
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
        sum[j][0] *= shrink[0], sum[j][1] *= shrink[0], sum[j][2] *= shrink[1], sum[j][3] *= shrink[1];
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
        uint32_t w[4] = {cu_pair<TYPE>(s[2 * k][0], s[2 * k][1]), cu_pair<TYPE>(s[2 * k][2], s[2 * k][3]),
                         cu_pair<TYPE>(s[2 * k + 1][0], s[2 * k + 1][1]),
                         cu_pair<TYPE>(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int d = 0; d < COLUMNS / 16; d++) {
            uint32_t b[4];
            cu_matrices_turned(b, values + (k * 16 + lane % 16) * cu_head<HEAD>::ROW + (d * 16 + lane / 16 * 8) * 2);
            cu_mma<TYPE>(sum[2 * d], w, b[0], b[1]);
            cu_mma<TYPE>(sum[2 * d + 1], w, b[2], b[3]);
        }
    }
}

/* Columns first.. of the head, for queries q and q + 8 of the image whose rows of the result begin at `row`; `column`:
 * where the head begins. */
template <int COLUMNS>
static __device__ __forceinline__ void cu_put(const cu_attention &a, const float (*sum)[4], cu_softmax *r, int64_t row,
                                              int64_t q, int64_t column, int first)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        r->sum[h] += __shfl_xor_sync(0xffffffffu, r->sum[h], 1);
        r->sum[h] += __shfl_xor_sync(0xffffffffu, r->sum[h], 2);
        if (q + h * 8 >= a.queries) continue;
        float by = r->sum[h] > 0 ? 1.0f / r->sum[h] : 0.0f;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
            for (int e = 0; e < 2; e++) {
                int c = first + j * 8 + (int)threadIdx.x % 4 * 2 + e;
                if (c < a.head)
                    cu_store(a.out, a.out_type, (row + q + h * 8) * a.out_ld + column + c, sum[j][2 * h + e] * by);
            }
    }
}

/* Where an image's head begins, and what is added to its scores, or NULL. */
static __device__ __forceinline__ const void *cu_mask_of(const cu_attention &a, int64_t image, int64_t head)
{
    return a.mask ? static_cast<const char *>(a.mask) +
                        (image * a.mask_image + head * a.mask_head) * (a.mask_type == CU_F32 ? 4 : 2)
                  : nullptr;
}
static __device__ __forceinline__ const uint16_t *cu_rows_of(const void *x, int64_t image, int64_t rows, int64_t ld,
                                                             int64_t column)
{
    return static_cast<const uint16_t *>(x) + image * rows * ld + column;
}

/* Storage and sizes that both kernels want; which heads is theirs to say. */
static inline int cu_attention_whole(const cu_attention *a)
{
    return !a->more.used && a->group == 1 && a->head == a->head_v && (a->type == CU_BF16 || a->type == CU_F16) &&
           a->head % 8 == 0 && a->q_ld % 8 == 0 && a->k_ld % 8 == 0 && a->v_ld % 8 == 0 &&
           (((uintptr_t)a->q | (uintptr_t)a->k | (uintptr_t)a->v) & 15) == 0;
}

#endif
