/* rows.cu - norm, rope and softmax, in f32; see launch.h. */
#include "backend/cuda/cu.h"

/* Elements from the operand's first to that of (row, column) of the result. */
static __device__ __forceinline__ int64_t view_at(const cu_view &v, const int64_t *dim, int rank, int64_t row,
                                                  int64_t column)
{
    int64_t at = column * v.stride[rank - 1];
    for (int d = rank - 2; d >= 0; d--) {
        at += row % dim[d] * v.stride[d];
        row /= dim[d];
    }
    return at;
}

static __device__ __forceinline__ float warp_sum(float v)
{
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

/* A warp a group of columns. */
static __global__ void __launch_bounds__(128) norm_groups(cu_norm_rows m)
{
    int64_t groups = m.columns / m.group, index = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (index >= m.rows * groups) return; /* whole warps */
    int64_t row = index / groups, first = index % groups * m.group;
    float sum = 0, square = 0, mean = 0, factor;
    for (int64_t c = threadIdx.x; c < m.group && m.kind == 1; c += 32)
        sum += cu_load(m.x, m.x_type, row * m.x_ld + first + c);
    if (m.kind == 1) mean = warp_sum(sum) / (float)m.group;
    for (int64_t c = threadIdx.x; c < m.group; c += 32) {
        float d = cu_load(m.x, m.x_type, row * m.x_ld + first + c) - mean;
        square += d * d;
    }
    square = warp_sum(square);
    if (m.kind != 2)
        factor = 1.0f / sqrtf(square / (float)m.group + m.eps);
    else
        factor = m.eps_inside ? 1.0f / sqrtf(square + m.eps) : 1.0f / fmaxf(sqrtf(square), m.eps);
    int64_t scale = m.scale.p ? view_at(m.scale, m.dim, m.rank, row, 0) : 0,
            shift = m.shift.p ? view_at(m.shift, m.dim, m.rank, row, 0) : 0;
    for (int64_t i = threadIdx.x; i < m.group; i += 32) {
        int64_t c = first + i;
        float v = (cu_load(m.x, m.x_type, row * m.x_ld + c) - mean) * factor;
        if (m.gain) v *= cu_load(m.gain, m.gain_type, c % m.gain_columns) + (float)m.one_plus;
        if (m.bias) v += cu_load(m.bias, m.bias_type, c % m.bias_columns);
        if (m.scale.p) v *= 1.0f + cu_load(m.scale.p, m.scale.type, scale + c * m.scale.stride[m.rank - 1]);
        if (m.shift.p) v += cu_load(m.shift.p, m.shift.type, shift + c * m.shift.stride[m.rank - 1]);
        cu_store(m.out, m.out_type, row * m.out_ld + c, v);
    }
}

/* A thread a pair, or a column that does not turn. */
static __global__ void rope_pairs(cu_rope m)
{
    int64_t each = m.head - m.half, i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m.rows * m.heads * each) return;
    int64_t pair = i % each, h = i / each % m.heads, row = i / each / m.heads, at = h * m.head;
    if (pair >= m.half) {
        at += m.half + pair;
        cu_store(m.out, m.out_type, row * m.out_ld + at, cu_load(m.x, m.x_type, row * m.x_ld + at));
        return;
    }
    int64_t table = m.table_n ? row : row % m.T;
    table = m.table_heads ? table * m.heads + h : table;
    float c = m.cosine[table * m.cos_ld + pair], s = m.sine[table * m.sin_ld + pair];
    int64_t a = at + (m.interleaved ? 2 * pair : pair), b = a + (m.interleaved ? 1 : m.half);
    float x = cu_load(m.x, m.x_type, row * m.x_ld + a), y = cu_load(m.x, m.x_type, row * m.x_ld + b);
    cu_store(m.out, m.out_type, row * m.out_ld + a, x * c - y * s);
    cu_store(m.out, m.out_type, row * m.out_ld + b, y * c + x * s);
}

/* ---- softmax: a block a row ---- */

enum { THREADS = 256 };

/* The greatest of the block's numbers, NaN when one is; or their sum. All threads get it. */
static __device__ __forceinline__ float over_block(float *all, float own, int most)
{
    __syncthreads();
    all[threadIdx.x] = own;
    for (unsigned half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half) continue;
        float a = all[threadIdx.x], b = all[threadIdx.x + half];
        all[threadIdx.x] = !most ? a + b : a != a ? a : b > a || b != b ? b : a;
    }
    __syncthreads();
    return all[0];
}

static __global__ void __launch_bounds__(THREADS) softmax_rows(cu_softmax_rows m)
{
    __shared__ float all[THREADS];
    int64_t row = blockIdx.x, n = m.columns;
    if (m.length) {
        int64_t at = m.lengths == 1 ? 0 : row,
                length = m.length[at / m.length_columns * m.length_ld + at % m.length_columns];
        n = length < 0 ? 0 : length < n ? length : n;
    }
    float top = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < n; c += THREADS) {
        float v = cu_load(m.x, m.x_type, row * m.x_ld + c);
        if (v > top || v != v) top = top != top ? top : v;
    }
    top = over_block(all, top, 1);
    int nothing = top == -INFINITY;
    for (int64_t c = threadIdx.x; c < n && !nothing; c += THREADS)
        sum += expf(cu_load(m.x, m.x_type, row * m.x_ld + c) - top);
    sum = over_block(all, sum, 0);
    float scale = 1.0f / sum, less = logf(sum);
    for (int64_t c = threadIdx.x; c < m.columns; c += THREADS) {
        float v = m.log ? -INFINITY : 0.0f;
        if (c < n && !nothing) {
            v = cu_load(m.x, m.x_type, row * m.x_ld + c) - top;
            v = m.log ? v - less : expf(v) * scale;
        }
        cu_store(m.out, m.out_type, row * m.out_ld + c, v);
    }
}

/* ---- launches ---- */

extern "C" cudaError_t cu_norm_rows_run(const cu_norm_rows *m, cudaStream_t stream)
{
    int64_t n = m->rows * (m->columns / m->group);
    if (n <= 0) return cudaSuccess;
    return CU_LAUNCH(norm_groups, dim3((unsigned)((n + 3) / 4)), dim3(32, 4), 0, stream, *m);
}

extern "C" cudaError_t cu_rope_run(const cu_rope *m, cudaStream_t stream)
{
    int64_t n = m->rows * m->heads * (m->head - m->half);
    if (n <= 0) return cudaSuccess;
    return CU_LAUNCH(rope_pairs, dim3((unsigned)((n + 255) / 256)), dim3(256), 0, stream, *m);
}

extern "C" cudaError_t cu_softmax_run(const cu_softmax_rows *m, cudaStream_t stream)
{
    if (m->rows <= 0 || m->columns <= 0) return cudaSuccess;
    return CU_LAUNCH(softmax_rows, dim3((unsigned)m->rows), dim3(THREADS), 0, stream, *m);
}
