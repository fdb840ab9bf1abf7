/* sort.cu - the k first of each row in order; see launch.h.
 *
 * A number becomes 64 bits: a key that compares as it does, then its place, so that all differ and any way of sorting
 * is stable. Of few of many the k-th key is found first, two bits a pass over the row, and what is not behind it
 * gathered; then the entries are sorted by a bitonic network (Batcher 1968), in shared memory as far as they fit.
 */
#include "backend/cuda/cu.h"

enum { THREADS = 256, CHUNK = 512 };

/* The least key comes first. -0 is 0, NaN above all. */
static __device__ __forceinline__ uint32_t key_of(const cu_sort &m, int64_t at)
{
    uint32_t key;
    if (m.x_type == CU_I32)
        key = (uint32_t) static_cast<const int32_t *>(m.x)[at] ^ 0x80000000u;
    else {
        float v = cu_load(m.x, m.x_type, at) + 0.0f;
        uint32_t bits = __float_as_uint(v);
        key = v != v ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
    }
    return m.ascending ? key : ~key;
}

/* The sum of the block's numbers, which all threads get. */
static __device__ __forceinline__ int64_t block_sum(int64_t *all, int64_t own)
{
    __syncthreads();
    all[threadIdx.x] = own;
    for (unsigned half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
    }
    __syncthreads();
    return all[0];
}

/* The key of the k-th entry of a row, and how many come before all of that key. */
static __device__ __forceinline__ uint32_t kth_key(const cu_sort &m, int64_t row, int64_t *all, int64_t *before)
{
    uint32_t prefix = 0, mask = 0;
    int64_t k = m.k;
    *before = 0;
    for (int shift = 30; shift >= 0; shift -= 2) {
        int64_t count[3] = {0, 0, 0};
        for (int64_t c = threadIdx.x; c < m.columns; c += THREADS) {
            uint32_t key = key_of(m, row * m.x_ld + c), digit = key >> shift & 3u;
            int here = (key & mask) == prefix;
            count[0] += here && digit == 0, count[1] += here && digit == 1, count[2] += here && digit == 2;
        }
        uint32_t digit = 0;
        for (int d = 0; d < 3; d++) {
            int64_t n = block_sum(all, count[d]);
            if (digit == (uint32_t)d && k > n) k -= n, *before += n, digit++;
        }
        prefix |= digit << shift;
        mask |= 3u << shift;
    }
    return prefix;
}

/* How many of the threads before this one say so; *total: of all. */
static __device__ __forceinline__ int count_before(int (*all)[THREADS], int own, int *total)
{
    int from = 0;
    __syncthreads();
    all[0][threadIdx.x] = own;
    for (unsigned step = 1; step < THREADS; step *= 2, from ^= 1) {
        __syncthreads();
        all[from ^ 1][threadIdx.x] = all[from][threadIdx.x] + (threadIdx.x >= step ? all[from][threadIdx.x - step] : 0);
    }
    __syncthreads();
    *total = all[from][THREADS - 1];
    return all[from][threadIdx.x] - own;
}

/* The k first of a row, in any order. */
static __global__ void __launch_bounds__(THREADS) sort_select(cu_sort m)
{
    __shared__ int64_t sums[THREADS];
    __shared__ int flags[2][THREADS];
    int64_t row = blockIdx.x, before, n_equal = 0, n_less = 0;
    uint64_t *to = m.room + row * m.padded;
    uint32_t last = kth_key(m, row, sums, &before);
    for (int64_t done = 0; done < m.columns; done += THREADS) {
        int64_t c = done + threadIdx.x;
        uint32_t key = c < m.columns ? key_of(m, row * m.x_ld + c) : 0;
        int less = c < m.columns && key < last, equal = c < m.columns && key == last, less_total, equal_total;
        int64_t at = n_less + count_before(flags, less, &less_total);
        int64_t equal_at = before + n_equal + count_before(flags, equal, &equal_total);
        if (less) to[at] = (uint64_t)key << 32 | (uint64_t)c;
        if (equal && equal_at < m.k) to[equal_at] = (uint64_t)key << 32 | (uint64_t)c;
        n_less += less_total, n_equal += equal_total;
    }
    for (int64_t i = m.k + threadIdx.x; i < m.padded; i += THREADS) to[i] = ~(uint64_t)0;
}

static __global__ void sort_fill(cu_sort m)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = i / m.padded, c = i % m.padded;
    if (row >= m.rows) return;
    m.room[i] = c < m.columns ? (uint64_t)key_of(m, row * m.x_ld + c) << 32 | (uint64_t)c : ~(uint64_t)0;
}

static __device__ __forceinline__ void exchange(uint64_t *a, uint64_t *b, int up)
{
    uint64_t x = *a, y = *b;
    if ((x > y) == (up != 0)) *a = y, *b = x;
}

/* Steps of the network that stay within a chunk: of sizes from `first` on, up to `size`. */
static __global__ void __launch_bounds__(THREADS)
    sort_chunk(uint64_t *room, int64_t chunk, int64_t padded, int64_t first, int64_t size)
{
    __shared__ uint64_t all[CHUNK];
    int64_t base = (int64_t)blockIdx.x * chunk;
    for (int64_t i = threadIdx.x; i < chunk; i += THREADS) all[i] = room[base + i];
    for (int64_t n = first; n <= size; n *= 2)
        for (int64_t step = (n < chunk ? n : chunk) / 2; step; step /= 2) {
            __syncthreads();
            for (int64_t i = threadIdx.x; i < chunk / 2; i += THREADS) {
                int64_t a = i / step * 2 * step + i % step;
                exchange(&all[a], &all[a + step], ((base + a) % padded & n) == 0);
            }
        }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < chunk; i += THREADS) room[base + i] = all[i];
}

static __global__ void sort_step(uint64_t *room, int64_t pairs, int64_t padded, int64_t size, int64_t step)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    int64_t a = i / step * 2 * step + i % step;
    exchange(&room[a], &room[a + step], (a % padded & size) == 0);
}

static __global__ void sort_store(cu_sort m)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = i / m.k, c = i % m.k;
    if (row >= m.rows) return;
    int64_t place = (int64_t)(m.room[row * m.padded + c] & 0xffffffffu), from = row * m.x_ld + place,
            to = row * m.out_ld + c;
    if (m.x_type == CU_F32 || m.x_type == CU_I32)
        static_cast<uint32_t *>(m.out)[to] = static_cast<const uint32_t *>(m.x)[from];
    else
        static_cast<uint16_t *>(m.out)[to] = static_cast<const uint16_t *>(m.x)[from];
    if (m.places) m.places[row * m.places_ld + c] = (int32_t)place;
}

static dim3 blocks_for(int64_t n) { return dim3((unsigned)((n + 255) / 256)); }

extern "C" int64_t cu_sort_padded(int64_t k)
{
    int64_t n = 2;
    while (n < k) n *= 2;
    return n;
}

static cudaError_t bitonic(const cu_sort *m, cudaStream_t stream)
{
    int64_t chunk = m->padded < CHUNK ? m->padded : (int64_t)CHUNK, n = m->rows * m->padded, one = 2;
    dim3 chunks((unsigned)(n / chunk));
    cudaError_t status = CU_LAUNCH(sort_chunk, chunks, dim3(THREADS), 0, stream, m->room, chunk, m->padded, one, chunk);
    for (int64_t size = 2 * chunk; size <= m->padded && status == cudaSuccess; size *= 2) {
        for (int64_t step = size / 2; step >= chunk && status == cudaSuccess; step /= 2)
            status =
                CU_LAUNCH(sort_step, blocks_for(n / 2), dim3(256), 0, stream, m->room, n / 2, m->padded, size, step);
        if (status == cudaSuccess)
            status = CU_LAUNCH(sort_chunk, chunks, dim3(THREADS), 0, stream, m->room, chunk, m->padded, size, size);
    }
    return status;
}

extern "C" cudaError_t cu_sort_run(const cu_sort *m, cudaStream_t stream)
{
    if (m->rows <= 0 || m->k <= 0) return cudaSuccess;
    cudaError_t status = m->k < m->columns
                             ? CU_LAUNCH(sort_select, dim3((unsigned)m->rows), dim3(THREADS), 0, stream, *m)
                             : CU_LAUNCH(sort_fill, blocks_for(m->rows * m->padded), dim3(256), 0, stream, *m);
    if (status == cudaSuccess) status = bitonic(m, stream);
    return status == cudaSuccess ? CU_LAUNCH(sort_store, blocks_for(m->rows * m->k), dim3(256), 0, stream, *m) : status;
}
