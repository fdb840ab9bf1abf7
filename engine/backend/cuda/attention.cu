/* attention.cu - softmax(q k^T scale + mask) v in f32 arithmetic, any head size up to 512; see launch.h.
 *
 * A block has a few queries of one head and walks over the keys, a tile at a time, with the online softmax (Milakov and
 * Gimelshein 2018): the scores of a tile are all of them that ever exist. It is what f32 precision uses, and what
 * the tensor-core kernels are tested against.
 */
#include "backend/cuda/cu.h"

enum { THREADS = 128 };

typedef struct {
    int queries, keys; /* of a tile */
} tile_size;

/* Within 48 KiB of shared memory. */
static __host__ __device__ tile_size tile_for(int64_t head)
{
    tile_size t = {16, 32};
    if (head > 128) t.queries = 8, t.keys = 16;
    if (head > 256) t.queries = 8, t.keys = 4;
    return t;
}
static size_t shared_for(int64_t head)
{
    tile_size t = tile_for(head);
    return (size_t)((t.queries + t.keys) * (head + 1) + t.queries * head + t.queries * (t.keys + 1) + 3 * t.queries) *
           sizeof(float);
}

typedef struct {
    tile_size size;
    float *q, *kv, *acc, *score, *max, *sum, *shrink;
} tile;

static __device__ __forceinline__ void load_rows(const cu_attention &a, float *to, const void *from, int64_t row,
                                                 int64_t rows_left, int rows, int64_t ld, int64_t column)
{
    for (int i = (int)threadIdx.x; i < rows * (int)a.head; i += THREADS) {
        int r = i / (int)a.head, c = i % (int)a.head;
        to[r * (a.head + 1) + c] = r < rows_left ? cu_load(from, a.type, (row + r) * ld + column + c) : 0;
    }
}

static __device__ __forceinline__ float masked(const cu_attention &a, float s, int64_t n, int64_t h, int64_t q,
                                               int64_t k)
{
    if (k >= a.keys || (a.causal && k > q)) return -INFINITY;
    return a.mask ? s + cu_load(a.mask, a.mask_type, n * a.mask_image + h * a.mask_head + q * a.mask_ld + k) : s;
}

static __device__ __forceinline__ void make_scores(const cu_attention &a, const tile &t, int64_t n, int64_t h,
                                                   int64_t q0, int64_t k0)
{
    for (int i = (int)threadIdx.x; i < t.size.queries * t.size.keys; i += THREADS) {
        int r = i / t.size.keys, k = i % t.size.keys;
        const float *x = t.q + r * (a.head + 1), *y = t.kv + k * (a.head + 1);
        float s = 0;
        for (int c = 0; c < (int)a.head; c++) s = fmaf(x[c], y[c], s);
        t.score[r * (t.size.keys + 1) + k] =
            q0 + r < a.queries ? masked(a, s * a.scale, n, h, q0 + r, k0 + k) : -INFINITY;
    }
}

/* A thread a query: scores become weights, and what was summed so far shrinks to the new maximum. */
static __device__ __forceinline__ void soften(const tile &t)
{
    int r = (int)threadIdx.x;
    if (r >= t.size.queries) return;
    float *s = t.score + r * (t.size.keys + 1), max = t.max[r], sum = 0;
    for (int k = 0; k < t.size.keys; k++) max = fmaxf(max, s[k]);
    float shrink = max == -INFINITY ? 1.0f : expf(t.max[r] - max);
    for (int k = 0; k < t.size.keys; k++) {
        s[k] = max == -INFINITY ? 0.0f : expf(s[k] - max);
        sum += s[k];
    }
    t.sum[r] = t.sum[r] * shrink + sum;
    t.max[r] = max, t.shrink[r] = shrink;
}

static __device__ __forceinline__ void add_values(const cu_attention &a, const tile &t)
{
    for (int i = (int)threadIdx.x; i < t.size.queries * (int)a.head; i += THREADS) {
        int r = i / (int)a.head, c = i % (int)a.head;
        float acc = t.acc[i] * t.shrink[r];
        for (int k = 0; k < t.size.keys; k++)
            acc = fmaf(t.score[r * (t.size.keys + 1) + k], t.kv[k * (a.head + 1) + c], acc);
        t.acc[i] = acc;
    }
}

static __device__ __forceinline__ tile tile_in(float *at, int64_t head)
{
    tile t;
    t.size = tile_for(head);
    t.q = at, at += t.size.queries * (head + 1);
    t.kv = at, at += t.size.keys * (head + 1);
    t.acc = at, at += t.size.queries * head;
    t.score = at, at += t.size.queries * (t.size.keys + 1);
    t.max = at, at += t.size.queries;
    t.sum = at, at += t.size.queries;
    t.shrink = at;
    return t;
}

static __global__ void __launch_bounds__(THREADS) attention(cu_attention a)
{
    CU_DYNAMIC_SHARED(float, memory);
    tile t = tile_in(memory, a.head);
    int64_t q0 = (int64_t)blockIdx.x * t.size.queries, h = blockIdx.y, n = blockIdx.z, column = h * a.head;
    int64_t end = a.causal && q0 + t.size.queries < a.keys ? q0 + t.size.queries : a.keys;
    load_rows(a, t.q, a.q, n * a.queries + q0, a.queries - q0, t.size.queries, a.q_ld, column);
    for (int i = (int)threadIdx.x; i < t.size.queries * (int)a.head; i += THREADS) t.acc[i] = 0;
    if ((int)threadIdx.x < t.size.queries) t.max[threadIdx.x] = -INFINITY, t.sum[threadIdx.x] = 0;
    for (int64_t k0 = 0; k0 < end; k0 += t.size.keys) {
        load_rows(a, t.kv, a.k, n * a.keys + k0, a.keys - k0, t.size.keys, a.k_ld, column);
        __syncthreads();
        make_scores(a, t, n, h, q0, k0);
        __syncthreads();
        soften(t);
        load_rows(a, t.kv, a.v, n * a.keys + k0, a.keys - k0, t.size.keys, a.v_ld, column);
        __syncthreads();
        add_values(a, t);
        __syncthreads();
    }
    for (int i = (int)threadIdx.x; i < t.size.queries * (int)a.head; i += THREADS) {
        int r = i / (int)a.head, c = i % (int)a.head;
        if (q0 + r < a.queries)
            cu_store(a.out, a.out_type, (n * a.queries + q0 + r) * a.out_ld + column + c,
                     t.sum[r] > 0 ? t.acc[i] / t.sum[r] : 0);
    }
}

extern "C" cudaError_t cu_attention_run(const cu_attention *a, cudaStream_t stream)
{
    if (a->images <= 0 || a->queries <= 0 || a->heads <= 0) return cudaSuccess;
    int64_t each = tile_for(a->head).queries;
    dim3 grid((unsigned)((a->queries + each - 1) / each), (unsigned)a->heads, (unsigned)a->images);
    return CU_LAUNCH(attention, grid, dim3(THREADS), shared_for(a->head), stream, *a);
}
