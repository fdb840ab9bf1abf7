/* places.cu - bincount, take, scatter: elements by numbers from the device; see launch.h.
 *
 * Nothing is counted by atomic operations: a thread has a place and looks at all numbers, which come through shared
 * memory, so that what stands for a place is found in its order.
 */
#include "backend/cuda/cu.h"

enum { THREADS = 256 };

static __device__ __forceinline__ int number_at(const cu_numbers &m, int64_t i)
{
    return m.p[i / m.columns * m.ld + i % m.columns];
}

/* How often a place stands among the numbers; with `order`, which ones they are, from order[first[place]] on. */
static __global__ void __launch_bounds__(THREADS)
    places_count(cu_numbers m, int64_t places, int32_t *count, const int32_t *first, int32_t *order)
{
    __shared__ int all[THREADS];
    int64_t place = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int32_t n = 0, from = order && place < places ? first[place] : 0;
    for (int64_t done = 0; done < m.n; done += THREADS) {
        int64_t left = m.n - done;
        __syncthreads();
        if (threadIdx.x < left) all[threadIdx.x] = number_at(m, done + threadIdx.x);
        __syncthreads();
        for (int i = 0; i < THREADS && i < left; i++) {
            if (all[i] != place || place >= places) continue;
            if (order) order[from + n] = (int32_t)(done + i);
            n++;
        }
    }
    if (place < places && !order) count[place] = n;
}

/* first[i] = count[0] + .. + count[i - 1], for i up to n: one block. */
static __global__ void __launch_bounds__(THREADS) places_start(const int32_t *count, int32_t *first, int64_t n)
{
    __shared__ int32_t all[2][THREADS];
    int32_t carry = 0;
    for (int64_t done = 0; done <= n; done += THREADS) {
        int64_t i = done + threadIdx.x;
        int from = 0;
        __syncthreads();
        all[0][threadIdx.x] = i < n ? count[i] : 0;
        int32_t own = all[0][threadIdx.x];
        for (unsigned step = 1; step < THREADS; step *= 2, from ^= 1) {
            __syncthreads();
            all[from ^ 1][threadIdx.x] =
                all[from][threadIdx.x] + (threadIdx.x >= step ? all[from][threadIdx.x - step] : 0);
        }
        __syncthreads();
        if (i <= n) first[i] = carry + all[from][threadIdx.x] - own;
        carry += all[from][THREADS - 1];
    }
}

static __device__ __forceinline__ void copy(void *out, int64_t to, const void *x, int64_t from, int type)
{
    if (type == CU_F32 || type == CU_I32)
        static_cast<uint32_t *>(out)[to] = static_cast<const uint32_t *>(x)[from];
    else
        static_cast<uint16_t *>(out)[to] = static_cast<const uint16_t *>(x)[from];
}

static __global__ void places_take(cu_take m, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, from;
    if (i >= n) return;
    int64_t place = number_at(m.index, m.along ? i : i / m.inner % m.index.n),
            to = i / m.out_columns * m.out_ld + i % m.out_columns;
    if (m.along)
        from = i / m.inner * m.places + place;
    else
        from = (i / m.inner / m.index.n * m.places + place) * m.inner + i % m.inner;
    if (place >= 0 && place < m.places)
        copy(m.out, to, m.x, from / m.x_columns * m.x_ld + from % m.x_columns, m.type);
    else if (m.type == CU_I32)
        static_cast<int32_t *>(m.out)[to] = -2147483647 - 1;
    else
        cu_store(m.out, m.type, to, __uint_as_float(0x7fc00000u));
}

static __global__ void places_scatter(cu_scatter m, const int32_t *first, const int32_t *order, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int64_t place = i / m.inner % m.places, outer = i / m.inner / m.places;
    int64_t at = i / m.x_columns * m.x_ld + i % m.x_columns, to = i / m.x_columns * m.out_ld + i % m.x_columns;
    int32_t begin = first[place], end = first[place + 1];
    if (begin == end) return copy(m.out, to, m.x, at, m.type);
    float sum = m.type == CU_I32 ? 0 : cu_load(m.x, m.type, at);
    uint32_t whole = m.type == CU_I32 ? static_cast<const uint32_t *>(m.x)[at] : 0;
    for (int32_t k = m.add ? begin : end - 1; k < end; k++) {
        int64_t j = (outer * m.index.n + order[k]) * m.inner + i % m.inner;
        int64_t from = j / m.source_columns * m.source_ld + j % m.source_columns;
        if (!m.add) return copy(m.out, to, m.source, from, m.type);
        if (m.type == CU_I32)
            whole += static_cast<const uint32_t *>(m.source)[from];
        else
            sum += cu_load(m.source, m.type, from);
    }
    if (m.type == CU_I32)
        static_cast<uint32_t *>(m.out)[to] = whole;
    else
        cu_store(m.out, m.type, to, sum);
}

static dim3 blocks_for(int64_t n) { return dim3((unsigned)((n + THREADS - 1) / THREADS)); }

static cudaError_t count(const cu_numbers *m, int64_t places, int32_t *to, const int32_t *first, int32_t *order,
                         cudaStream_t stream)
{
    return CU_LAUNCH(places_count, blocks_for(places), dim3(THREADS), 0, stream, *m, places, to, first, order);
}

extern "C" cudaError_t cu_bincount_run(const cu_numbers *m, int64_t bins, int32_t *to, cudaStream_t stream)
{
    return count(m, bins, to, (const int32_t *)0, (int32_t *)0, stream);
}

extern "C" cudaError_t cu_take_run(const cu_take *m, cudaStream_t stream)
{
    int64_t n = m->outer * (m->along ? 1 : m->index.n) * m->inner;
    if (n <= 0) return cudaSuccess;
    return CU_LAUNCH(places_take, blocks_for(n), dim3(THREADS), 0, stream, *m, n);
}

extern "C" size_t cu_scatter_scratch(int64_t places, int64_t n)
{
    return (size_t)(2 * places + 1 + n) * sizeof(int32_t);
}

extern "C" cudaError_t cu_scatter_run(const cu_scatter *m, cudaStream_t stream)
{
    int64_t n = m->outer * m->places * m->inner;
    if (n <= 0) return cudaSuccess;
    int32_t *own = m->room, *first = own + m->places, *order = first + m->places + 1;
    cudaError_t status = count(&m->index, m->places, own, (const int32_t *)0, (int32_t *)0, stream);
    if (status == cudaSuccess)
        status = CU_LAUNCH(places_start, dim3(1), dim3(THREADS), 0, stream, (const int32_t *)own, first, m->places);
    if (status == cudaSuccess) status = count(&m->index, m->places, own, first, order, stream);
    if (status != cudaSuccess) return status;
    return CU_LAUNCH(places_scatter, blocks_for(n), dim3(THREADS), 0, stream, *m, (const int32_t *)first,
                     (const int32_t *)order, n);
}
