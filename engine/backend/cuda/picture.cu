/* picture.cu - convolutions of any rank, pools, interpolate, grid_sample, pad: a thread a number; see launch.h. Sums
 * are in one order, by one thread.
 */
#include "backend/cuda/cu.h"
#include "backend/resample.h"

/* ---- conv, pool ---- */

typedef struct {
    int64_t column, image, at[3];
} cu_place;

static __device__ __forceinline__ cu_place place_of(const cu_windows &m, int64_t i)
{
    cu_place p;
    p.column = i % m.columns;
    i /= m.columns;
    for (int d = 2; d >= 0; d--) {
        p.at[d] = i % m.out[d];
        i /= m.out[d];
    }
    p.image = i;
    return p;
}

/* The element of the picture's first channel that the result sees through a tap; -1: padding. */
static __device__ __forceinline__ int64_t source_of(const cu_windows &m, const cu_place &p, int64_t tap)
{
    int64_t k[3] = {tap / m.kernel[2] / m.kernel[1], tap / m.kernel[2] % m.kernel[1], tap % m.kernel[2]};
    int64_t pixel = p.image;
    for (int d = 0; d < 3; d++) {
        int64_t i = p.at[d] * m.stride[d] - m.before[d] + k[d] * m.dilation[d];
        if (m.transposed) {
            i = p.at[d] + m.before[d] - k[d] * m.dilation[d];
            i = i < 0 || i % m.stride[d] || i / m.stride[d] >= m.x[d] ? -1 : i / m.stride[d];
        } else
            i = padded_place(m.pad_mode, i, m.x[d]);
        if (i < 0) return -1;
        pixel = pixel * m.x[d] + i;
    }
    return pixel * m.x_ld;
}

static __device__ __forceinline__ void put(const cu_windows &m, int64_t i, float v)
{
    cu_store(m.to, m.out_type, i / m.columns * m.out_ld + i % m.columns, v);
}

static __global__ void conv_numbers(cu_windows m, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, taps = m.kernel[0] * m.kernel[1] * m.kernel[2];
    if (i >= n) return;
    cu_place p = place_of(m, i);
    int64_t group = p.column / m.out_group, o = p.column % m.out_group, first = group * m.in_group;
    float sum = 0;
    for (int64_t k = 0; k < taps; k++) {
        int64_t from = source_of(m, p, k);
        if (from < 0) continue;
        float part = 0;
        for (int64_t c = 0; c < m.in_group; c++) {
            int64_t w = m.transposed ? (first + c) * m.out_group + o : p.column * m.in_group + c;
            part += cu_load(m.in, m.x_type, from + first + c) * m.w[w * taps + k];
        }
        sum += part;
    }
    put(m, i, m.bias ? sum + m.bias[p.column] : sum);
}

static __device__ __forceinline__ float window_count(const cu_windows &m, const cu_place &p)
{
    float all = 1;
    for (int d = 0; d < 3; d++) {
        int64_t first = p.at[d] * m.stride[d] - m.before[d], last = first + m.kernel[d];
        int64_t low = m.include_pad || first > 0 ? first : 0, high = m.x[d] + (m.include_pad ? m.after[d] : 0);
        all *= (float)((last < high ? last : high) - low);
    }
    return all;
}

static __global__ void pool_numbers(cu_windows m, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, taps = m.kernel[0] * m.kernel[1] * m.kernel[2];
    if (i >= n) return;
    cu_place p = place_of(m, i);
    float sum = m.most ? -INFINITY : 0;
    for (int64_t k = 0; k < taps; k++) {
        int64_t from = source_of(m, p, k);
        if (from < 0) continue;
        float v = cu_load(m.in, m.x_type, from + p.column);
        if (!m.most)
            sum += v;
        else if (v > sum || v != v)
            sum = v;
    }
    put(m, i, m.most ? sum : sum / window_count(m, p));
}

/* ---- interpolate, grid_sample ---- */

static __global__ void interpolate_numbers(cu_resize m, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int64_t c = i % m.columns, pixel = i / m.columns, image = pixel / m.w / m.h;
    resample_axis v = {m.mode, m.align_corners, m.antialias, m.H, m.h},
                  h = {m.mode, m.align_corners, m.antialias, m.W, m.w};
    resample_span y = resample_at(&v, pixel / m.w % m.h), x = resample_at(&h, pixel % m.w);
    double sum = 0;
    for (int64_t j = 0; j < y.count; j++) {
        int64_t row = (image * m.H + resample_place(&v, &y, j)) * m.W;
        double line = 0;
        for (int64_t k = 0; k < x.count; k++)
            line += resample_weight(&h, &x, k) *
                    (double)cu_load(m.in, m.x_type, (row + resample_place(&h, &x, k)) * m.x_ld + c);
        sum += resample_weight(&v, &y, j) * line;
    }
    cu_store(m.to, m.out_type, pixel * m.out_ld + c, (float)sum);
}

static __global__ void grid_numbers(cu_resize m, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int64_t c = i % m.columns, pixel = i / m.columns, image = pixel / m.w / m.h, x[GRID_TAPS], y[GRID_TAPS];
    double wx[GRID_TAPS], wy[GRID_TAPS];
    int taps = grid_taps(m.mode, m.padding, m.align_corners, (double)cu_load(m.grid, m.grid_type, pixel * m.grid_ld),
                         m.W, x, wx);
    grid_taps(m.mode, m.padding, m.align_corners, (double)cu_load(m.grid, m.grid_type, pixel * m.grid_ld + 1), m.H, y,
              wy);
    float sum = 0;
    for (int k = 0; k < taps * taps; k++)
        if (y[k / taps] >= 0 && x[k % taps] >= 0)
            sum += (float)(wy[k / taps] * wx[k % taps]) *
                   cu_load(m.in, m.x_type, ((image * m.H + y[k / taps]) * m.W + x[k % taps]) * m.x_ld + c);
    cu_store(m.to, m.out_type, pixel * m.out_ld + c, sum);
}

/* ---- pad ---- */

static __global__ void pad_numbers(cu_pad m)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, from = 0, to = 0;
    if (i >= m.count) return;
    int inside = 1;
    for (int d = m.rank - 1; d >= 0; d--) {
        int64_t at = i % m.out[d], place = padded_place(m.mode, at - m.before[d], m.in[d]);
        i /= m.out[d];
        to += at * m.to[d];
        inside = inside && place >= 0;
        from += place * m.from[d];
    }
    if (m.type == CU_I32)
        static_cast<int32_t *>(m.dst)[to] = inside ? static_cast<const int32_t *>(m.src)[from] : (int32_t)m.value;
    else
        cu_store(m.dst, m.type, to, inside ? cu_load(m.src, m.type, from) : m.value);
}

/* ---- launches ---- */

static dim3 blocks_for(int64_t n) { return dim3((unsigned)((n + 255) / 256)); }

static int64_t results(const cu_windows *m) { return m->images * m->out[0] * m->out[1] * m->out[2] * m->columns; }

extern "C" cudaError_t cu_conv_run(const cu_windows *m, cudaStream_t stream)
{
    int64_t n = results(m);
    return n <= 0 ? cudaSuccess : CU_LAUNCH(conv_numbers, blocks_for(n), dim3(256), 0, stream, *m, n);
}

extern "C" cudaError_t cu_pool_run(const cu_windows *m, cudaStream_t stream)
{
    int64_t n = results(m);
    return n <= 0 ? cudaSuccess : CU_LAUNCH(pool_numbers, blocks_for(n), dim3(256), 0, stream, *m, n);
}

extern "C" cudaError_t cu_interpolate_run(const cu_resize *m, cudaStream_t stream)
{
    int64_t n = m->images * m->h * m->w * m->columns;
    return n <= 0 ? cudaSuccess : CU_LAUNCH(interpolate_numbers, blocks_for(n), dim3(256), 0, stream, *m, n);
}

extern "C" cudaError_t cu_grid_sample_run(const cu_resize *m, cudaStream_t stream)
{
    int64_t n = m->images * m->h * m->w * m->columns;
    return n <= 0 ? cudaSuccess : CU_LAUNCH(grid_numbers, blocks_for(n), dim3(256), 0, stream, *m, n);
}

extern "C" cudaError_t cu_pad_run(const cu_pad *m, cudaStream_t stream)
{
    return m->count <= 0 ? cudaSuccess : CU_LAUNCH(pad_numbers, blocks_for(m->count), dim3(256), 0, stream, *m);
}
