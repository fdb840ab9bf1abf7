/* attention.cu - softmax(q k^T scale + mask) v in f32 arithmetic, any head size up to 768; see launch.h.
 *
 * A block has a few queries of one head and walks over the keys, a tile at a time, with the online softmax (Milakov and
 * Gimelshein 2018): the scores of a tile are all of them that ever exist. It is what f32 precision uses, what the
 * tensor-core kernels are tested against, and what knows windows, lengths, segments, positions, pages, tables and
 * sinks.
 */
#include "backend/cuda/cu.h"

enum { THREADS = 128 };

typedef struct {
    int queries, keys; /* of a tile */
} tile_size;

static __host__ __device__ int64_t wider(const cu_attention &a) { return a.head > a.head_v ? a.head : a.head_v; }

/* Within 48 KiB of shared memory; head: the wider one. */
static __host__ __device__ tile_size tile_for(int64_t head)
{
    tile_size t = {16, 32};
    if (head > 128) t.queries = 8, t.keys = 16;
    if (head > 256) t.queries = 8, t.keys = 4;
    if (head > 512) t.queries = 4, t.keys = 4;
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

/* ---- who sees what ---- */

/* An image's keys in use, the position of its first query; keys low to high - 1 hold all that the block sees. */
typedef struct {
    int64_t length, offset, low, high;
} view;

static __device__ __forceinline__ int64_t place(const cu_places &p, int64_t image, int64_t at)
{
    return p.at[image * p.step + at];
}

static __device__ __forceinline__ view view_of(const cu_attention &a, int64_t n, int64_t q0, int64_t queries)
{
    const cu_attention_more &m = a.more;
    view v = {a.keys, 0, 0, 0};
    if (m.key_length.at) v.length = place(m.key_length, n, 0);
    if (v.length > a.keys) v.length = a.keys;
    if (m.offset.at) v.offset = place(m.offset, n, 0);
    int64_t own = v.offset + q0, last = own + queries - 1;
    v.high = v.length;
    if (m.key_position.at) return v;
    if (a.causal && last + 1 < v.high) v.high = last + 1;
    if (m.window && m.right < v.high - last - 1) v.high = last + m.right + 1;
    if (m.window && own > m.left) v.low = own - m.left;
    return v;
}

/* Row of k and v, -1: there is nothing to read. */
static __device__ __forceinline__ int64_t key_row(const cu_attention &a, const view &v, int64_t n, int64_t k)
{
    if (k >= v.length) return -1;
    if (!a.more.used) return n * a.keys + k;
    if (a.more.key_position.at && place(a.more.key_position, n, k) < 0) return -1;
    if (!a.more.pages.at) return n * a.keys + k;
    int64_t page = place(a.more.pages, n, k / a.more.page);
    return page < 0 || page >= a.more.n_pages ? -1 : page * a.more.page + k % a.more.page;
}

static __device__ __forceinline__ int sees(const cu_attention &a, const view &v, int64_t n, int64_t q, int64_t k)
{
    const cu_attention_more &m = a.more;
    if (k >= v.length) return 0;
    if (!m.used) return !a.causal || k <= q;
    int64_t at = m.key_position.at ? place(m.key_position, n, k) : k, own = v.offset + q;
    if (at < 0 || (a.causal && at > own)) return 0;
    if (m.window && (at < own - m.left || at - own > m.right)) return 0;
    if (m.pages.at && key_row(a, v, n, k) < 0) return 0;
    return !m.q_segment.at || place(m.q_segment, n, q) == place(m.k_segment, n, k);
}

static __device__ __forceinline__ float bias(const cu_attention &a, int64_t h, int64_t apart)
{
    const cu_attention_more &m = a.more;
    int64_t distance = apart < 0 ? -apart : m.bidirectional ? apart : 0, bucket = distance;
    if (distance >= m.exact)
        for (bucket = m.exact; bucket + 1 < m.buckets && m.start[bucket + 1] <= distance;) bucket++;
    if (m.bidirectional && apart > 0) bucket += m.buckets;
    return cu_load(m.table, m.table_type, bucket * m.table_ld + h);
}

static __device__ __forceinline__ float limited(const cu_attention &a, const view &v, float s, int64_t n, int64_t h,
                                                int64_t q, int64_t k)
{
    if (!sees(a, v, n, q, k)) return -INFINITY;
    if (a.more.softcap > 0) s = a.more.softcap * tanhf(s / a.more.softcap);
    if (a.mask) s += cu_load(a.mask, a.mask_type, n * a.mask_image + h * a.mask_head + q * a.mask_ld + k);
    if (!a.more.table) return s;
    return s + bias(a, h, (a.more.key_position.at ? place(a.more.key_position, n, k) : k) - v.offset - q);
}

/* ---- a tile ---- */

static __device__ __forceinline__ void load_queries(const cu_attention &a, float *to, int64_t row, int64_t left,
                                                    int rows, int64_t column)
{
    for (int i = (int)threadIdx.x; i < rows * (int)a.head; i += THREADS) {
        int r = i / (int)a.head, c = i % (int)a.head;
        to[r * (a.head + 1) + c] = r < left ? cu_load(a.q, a.type, (row + r) * a.q_ld + column + c) : 0;
    }
}

/* Keys or values k0.. of a head of `width`. */
static __device__ __forceinline__ void load_keys(const cu_attention &a, const view &v, float *to, const void *from,
                                                 int64_t n, int64_t k0, int rows, int64_t ld, int64_t width,
                                                 int64_t column)
{
    for (int i = (int)threadIdx.x; i < rows * (int)width; i += THREADS) {
        int r = i / (int)width, c = i % (int)width;
        int64_t row = key_row(a, v, n, k0 + r);
        to[r * (width + 1) + c] = row >= 0 ? cu_load(from, a.type, row * ld + column + c) : 0;
    }
}

static __device__ __forceinline__ void make_scores(const cu_attention &a, const view &v, const tile &t, int64_t n,
                                                   int64_t h, int64_t q0, int64_t k0)
{
    for (int i = (int)threadIdx.x; i < t.size.queries * t.size.keys; i += THREADS) {
        int r = i / t.size.keys, k = i % t.size.keys;
        const float *x = t.q + r * (a.head + 1), *y = t.kv + k * (a.head + 1);
        float s = 0;
        for (int c = 0; c < (int)a.head; c++) s = fmaf(x[c], y[c], s);
        t.score[r * (t.size.keys + 1) + k] =
            q0 + r < a.queries ? limited(a, v, s * a.scale, n, h, q0 + r, k0 + k) : -INFINITY;
    }
}

/* A thread a query: scores become weights, and what was summed so far shrinks to the new maximum. A NaN is in no
 * maximum, and in the sum. */
static __device__ __forceinline__ void soften(const tile &t)
{
    int r = (int)threadIdx.x;
    if (r >= t.size.queries) return;
    float *s = t.score + r * (t.size.keys + 1), max = t.max[r], sum = 0;
    for (int k = 0; k < t.size.keys; k++) max = fmaxf(max, s[k]);
    float base = max == -INFINITY ? 0.0f : max, shrink = expf(t.max[r] - base); /* nothing seen so far: all is 0 */
    for (int k = 0; k < t.size.keys; k++) {
        s[k] = expf(s[k] - base);
        sum += s[k];
    }
    t.sum[r] = t.sum[r] * shrink + sum;
    t.max[r] = max, t.shrink[r] = shrink;
}

static __device__ __forceinline__ void add_values(const cu_attention &a, const tile &t)
{
    for (int i = (int)threadIdx.x; i < t.size.queries * (int)a.head_v; i += THREADS) {
        int r = i / (int)a.head_v, c = i % (int)a.head_v;
        float acc = t.acc[i] * t.shrink[r];
        for (int k = 0; k < t.size.keys; k++)
            acc = fmaf(t.score[r * (t.size.keys + 1) + k], t.kv[k * (a.head_v + 1) + c], acc);
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

/* A sink is in the softmax from the first. */
static __device__ __forceinline__ void start(const cu_attention &a, const tile &t, int64_t h)
{
    for (int i = (int)threadIdx.x; i < t.size.queries * (int)a.head_v; i += THREADS) t.acc[i] = 0;
    if ((int)threadIdx.x >= t.size.queries) return;
    float sink = a.more.sinks ? cu_load(a.more.sinks, a.more.sinks_type, h) : -INFINITY;
    t.max[threadIdx.x] = sink, t.sum[threadIdx.x] = sink > -INFINITY ? 1.0f : 0.0f;
}

static __device__ __forceinline__ void store(const cu_attention &a, const tile &t, int64_t n, int64_t h, int64_t q0)
{
    for (int i = (int)threadIdx.x; i < t.size.queries * (int)a.head_v; i += THREADS) {
        int r = i / (int)a.head_v, c = i % (int)a.head_v;
        if (q0 + r < a.queries)
            cu_store(a.out, a.out_type, (n * a.queries + q0 + r) * a.out_ld + h * a.head_v + c,
                     t.sum[r] == 0 ? 0 : t.acc[i] / t.sum[r]);
    }
    int r = (int)threadIdx.x;
    if (a.more.lse && r < t.size.queries && q0 + r < a.queries)
        a.more.lse[(n * a.heads + h) * a.queries + q0 + r] = t.sum[r] == 0 ? -INFINITY : t.max[r] + logf(t.sum[r]);
}

static __global__ void __launch_bounds__(THREADS) attention(cu_attention a)
{
    CU_DYNAMIC_SHARED(float, memory);
    tile t = tile_in(memory, wider(a));
    int64_t q0 = (int64_t)blockIdx.x * t.size.queries, h = blockIdx.y, n = blockIdx.z, kv = h / a.group;
    int64_t left = a.queries - q0;
    view v = view_of(a, n, q0, left < t.size.queries ? left : t.size.queries);
    load_queries(a, t.q, n * a.queries + q0, left, t.size.queries, h * a.head);
    start(a, t, h);
    for (int64_t k0 = v.low / t.size.keys * t.size.keys; k0 < v.high; k0 += t.size.keys) {
        load_keys(a, v, t.kv, a.k, n, k0, t.size.keys, a.k_ld, a.head, kv * a.head);
        __syncthreads();
        make_scores(a, v, t, n, h, q0, k0);
        __syncthreads();
        soften(t);
        load_keys(a, v, t.kv, a.v, n, k0, t.size.keys, a.v_ld, a.head_v, kv * a.head_v);
        __syncthreads();
        add_values(a, t);
        __syncthreads();
    }
    __syncthreads();
    store(a, t, n, h, q0);
}

extern "C" cudaError_t cu_attention_run(const cu_attention *a, cudaStream_t stream)
{
    if (a->images <= 0 || a->queries <= 0 || a->heads <= 0) return cudaSuccess;
    int64_t each = tile_for(wider(*a)).queries;
    dim3 grid((unsigned)((a->queries + each - 1) / each), (unsigned)a->heads, (unsigned)a->images);
    return CU_LAUNCH(attention, grid, dim3(THREADS), shared_for(wider(*a)), stream, *a);
}
