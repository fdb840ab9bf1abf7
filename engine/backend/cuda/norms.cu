/* norms.cu - group and layer normalisation; population variance. See launch.h.
 *
 * Statistics by Welford's recurrence and Chan's merging of parts (Chan, Golub, LeVeque 1979), which do not lose the
 * variance of numbers far from 0. A group's sum is cut by rows into parts over the whole chip: columns of a part first
 * (parts), then a group's columns and parts (merge), then every element (apply). How it is cut depends on the shape
 * alone.
 */
#include "backend/cuda/cu.h"

typedef struct {
    float n, mean, m2;
} moments;

static __device__ __forceinline__ moments merged(moments a, moments b)
{
    float n = a.n + b.n, d = b.mean - a.mean;
    if (b.n <= 0) return a;
    if (a.n <= 0) return b;
    moments r = {n, a.mean + d * (b.n / n), a.m2 + b.m2 + d * d * (a.n * b.n / n)};
    return r;
}

/* ---- groups ---- */

enum { STRIP = 64, LANES = 4 }; /* columns and rows of threads */

static __host__ __device__ int64_t part_rows(int64_t rows)
{
    int64_t n = (rows + 63) / 64;
    return n < 16 ? 16 : n;
}
static int64_t parts_of(int64_t rows) { return (rows + part_rows(rows) - 1) / part_rows(rows); }

/* partial[image, part, column] = moments of that column in the part's rows */
static __global__ void __launch_bounds__(STRIP *LANES) group_parts(cu_norm m, int64_t parts)
{
    __shared__ moments all[LANES][STRIP];
    int64_t column = (int64_t)blockIdx.x * STRIP + threadIdx.x, part = blockIdx.y, image = blockIdx.z;
    int64_t first = part * part_rows(m.rows), last = first + part_rows(m.rows);
    if (last > m.rows) last = m.rows;
    moments own = {0, 0, 0};
    if (column < m.columns)
        for (int64_t r = first + threadIdx.y; r < last; r += LANES) {
            float v = cu_load(m.x, m.x_type, (image * m.rows + r) * m.x_ld + column), d = v - own.mean;
            own.n += 1;
            own.mean += d / own.n;
            own.m2 += d * (v - own.mean);
        }
    all[threadIdx.y][threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.y || column >= m.columns) return;
    for (int i = 1; i < LANES; i++) own = merged(own, all[i][threadIdx.x]);
    float *to = m.partial + ((image * parts + part) * m.columns + column) * 3;
    to[0] = own.n, to[1] = own.mean, to[2] = own.m2;
}

enum { MERGING = 128 }; /* threads of a block */

/* The whole block's, for thread 0. */
static __device__ __forceinline__ moments merged_over_block(moments own)
{
    __shared__ moments all[MERGING];
    all[threadIdx.x] = own;
    for (unsigned half = MERGING / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) all[threadIdx.x] = merged(all[threadIdx.x], all[threadIdx.x + half]);
    }
    return threadIdx.x ? own : all[0];
}

/* Of image blockIdx.y and group blockIdx.x: a column of a part, or a row that is given. */
static __device__ __forceinline__ moments moments_at(const cu_norm &m, int64_t parts, int64_t i)
{
    int64_t wide = m.columns / m.groups, image = blockIdx.y;
    if (!m.stats) {
        const float *from = m.partial + ((image * parts + i / wide) * m.columns + blockIdx.x * wide + i % wide) * 3;
        return moments{from[0], from[1], from[2]};
    }
    const float *from = m.stats + ((image * m.height + i) * m.groups + blockIdx.x) * m.stats_ld;
    return moments{(float)(m.width * wide), from[0] + from[1], from[2]};
}

/* stats[image, group] = mean, 1 / deviation: one block a group */
static __global__ void __launch_bounds__(MERGING) group_merge(cu_norm m, int64_t parts, float *stats)
{
    int64_t image = blockIdx.y, n = m.stats ? m.height : parts * (m.columns / m.groups);
    moments own = {0, 0, 0};
    for (int64_t i = threadIdx.x; i < n; i += MERGING) own = merged(own, moments_at(m, parts, i));
    own = merged_over_block(own);
    if (threadIdx.x) return;
    stats[(image * m.groups + blockIdx.x) * 2] = own.mean;
    stats[(image * m.groups + blockIdx.x) * 2 + 1] = 1.0f / sqrtf(own.m2 / own.n + m.eps);
}

/* out[image, row of pixels, group]: one block each */
static __global__ void __launch_bounds__(MERGING) row_stats(cu_norm m)
{
    int64_t wide = m.columns / m.groups, y = blockIdx.x, group = blockIdx.y, image = blockIdx.z;
    moments own = {0, 0, 0};
    for (int64_t i = threadIdx.x; i < m.width * wide; i += MERGING) {
        int64_t row = image * m.rows + y * m.width + i / wide;
        float v = cu_load(m.x, m.x_type, row * m.x_ld + group * wide + i % wide), d = v - own.mean;
        own.n += 1;
        own.mean += d / own.n;
        own.m2 += d * (v - own.mean);
    }
    own = merged_over_block(own);
    if (threadIdx.x) return;
    float *to = (float *)m.out + ((image * m.height + y) * m.groups + group) * m.out_ld;
    to[0] = own.mean, to[1] = 0, to[2] = own.m2;
}

template <int V>
static __device__ __forceinline__ void affine_row(const cu_norm &m, float *x, const float *mean, const float *scale,
                                                  int64_t row, int64_t c)
{
    float r[V];
    if (m.finish.residual) cu_load_row<V>(r, m.finish.residual, m.finish.residual_type, row * m.finish.residual_ld + c);
    for (int i = 0; i < V; i++) {
        float v = (x[i] - mean[i]) * scale[i];
        if (m.gamma) v *= m.gamma[c + i];
        if (m.beta) v += m.beta[c + i];
        x[i] = cu_act(m.finish.act, v);
        if (m.finish.residual) x[i] += r[i];
    }
    cu_store_row<V>(m.out, m.out_type, row * m.out_ld + c, x);
}

template <int V> static __global__ void group_apply(cu_norm m, const float *stats)
{
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, wide = m.columns / m.groups;
    if (row >= m.images * m.rows) return;
    const float *own = stats + row / m.rows * m.groups * 2;
    for (int64_t c = (int64_t)threadIdx.x * V; c < m.columns; c += (int64_t)blockDim.x * V) {
        float x[V], mean[V], scale[V];
        cu_load_row<V>(x, m.x, m.x_type, row * m.x_ld + c);
        for (int i = 0; i < V; i++) mean[i] = own[(c + i) / wide * 2], scale[i] = own[(c + i) / wide * 2 + 1];
        affine_row<V>(m, x, mean, scale, row, c);
    }
}

static int whole(const void *p, int64_t ld) { return ((uintptr_t)p & 15) == 0 && ld % 8 == 0; }
static int by_eight(const cu_norm *m)
{
    return m->columns % 8 == 0 && whole(m->x, m->x_ld) && whole(m->out, m->out_ld) &&
           (!m->finish.residual || whole(m->finish.residual, m->finish.residual_ld));
}

extern "C" size_t cu_group_norm_scratch(int64_t images, int64_t rows, int64_t columns, int groups)
{
    return (size_t)(images * parts_of(rows) * columns * 3 + images * groups * 2) * sizeof(float);
}

extern "C" cudaError_t cu_group_norm_run(const cu_norm *m, cudaStream_t stream)
{
    if (m->images <= 0 || m->rows <= 0 || m->columns <= 0) return cudaSuccess;
    int64_t parts = parts_of(m->rows), rows = m->images * m->rows;
    float *stats = m->partial + m->images * parts * m->columns * 3;
    dim3 strips((unsigned)((m->columns + STRIP - 1) / STRIP), (unsigned)parts, (unsigned)m->images);
    cudaError_t status = cudaSuccess;
    if (!m->stats) status = CU_LAUNCH(group_parts, strips, dim3(STRIP, LANES), 0, stream, *m, parts);
    if (status == cudaSuccess)
        status = CU_LAUNCH(group_merge, dim3((unsigned)m->groups, (unsigned)m->images), dim3(MERGING), 0, stream, *m,
                           parts, stats);
    if (status != cudaSuccess) return status;
    int eight = by_eight(m);
    unsigned x = 8;
    while (x < 256 && x < (eight ? m->columns / 8 : m->columns)) x *= 2;
    dim3 grid((unsigned)((rows + 256 / x - 1) / (256 / x))), block(x, 256 / x);
    return eight ? CU_LAUNCH(group_apply<8>, grid, block, 0, stream, *m, stats)
                 : CU_LAUNCH(group_apply<1>, grid, block, 0, stream, *m, stats);
}

extern "C" cudaError_t cu_group_norm_stats_run(const cu_norm *m, cudaStream_t stream)
{
    if (m->images <= 0 || m->rows <= 0 || m->columns <= 0) return cudaSuccess;
    dim3 grid((unsigned)m->height, (unsigned)m->groups, (unsigned)m->images);
    return CU_LAUNCH(row_stats, grid, dim3(MERGING), 0, stream, *m);
}

/* ---- rows: a warp each ---- */

static __device__ __forceinline__ moments merged_over_warp(moments own)
{
    for (int step = 16; step; step /= 2) {
        moments other = {__shfl_xor_sync(0xffffffffu, own.n, step), __shfl_xor_sync(0xffffffffu, own.mean, step),
                         __shfl_xor_sync(0xffffffffu, own.m2, step)};
        own = (threadIdx.x & step) ? merged(other, own)
                                   : merged(own, other); /* the same order on both sides: the same bits */
    }
    return own;
}

template <int V> static __global__ void __launch_bounds__(128) layer_rows(cu_norm m)
{
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= m.rows) return; /* whole warps */
    moments own = {0, 0, 0};
    for (int64_t c = threadIdx.x * V; c < m.columns; c += 32 * V) {
        float x[V], sum = 0, square = 0;
        cu_load_row<V>(x, m.x, m.x_type, row * m.x_ld + c);
        for (int i = 0; i < V; i++) sum += x[i];
        float mean = sum / V;
        for (int i = 0; i < V; i++) square += (x[i] - mean) * (x[i] - mean);
        moments other = {(float)V, mean, square};
        own = merged(own, other);
    }
    own = merged_over_warp(own);
    float deviation = 1.0f / sqrtf(own.m2 / own.n + m.eps), mean[V], scale[V];
    for (int i = 0; i < V; i++) mean[i] = own.mean, scale[i] = deviation;
    for (int64_t c = threadIdx.x * V; c < m.columns; c += 32 * V) {
        float x[V];
        cu_load_row<V>(x, m.x, m.x_type, row * m.x_ld + c);
        affine_row<V>(m, x, mean, scale, row, c);
    }
}

extern "C" cudaError_t cu_layer_norm_run(const cu_norm *m, cudaStream_t stream)
{
    if (m->rows <= 0 || m->columns <= 0) return cudaSuccess;
    dim3 grid((unsigned)((m->rows + 3) / 4)), block(32, 4);
    return by_eight(m) ? CU_LAUNCH(layer_rows<8>, grid, block, 0, stream, *m)
                       : CU_LAUNCH(layer_rows<1>, grid, block, 0, stream, *m);
}
