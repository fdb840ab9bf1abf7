/* product.cu - products whose right side is no packed weight of a GEMM: of two activations, with a transposed weight,
 * by groups of rows; f32 arithmetic, any sizes and storage. See launch.h.
 *
 * As gemm.cu: a block makes 64 x 64 sums from 16 of the depth at a time, a thread 4 x 4 of them. A group's rows are
 * where the device finds them; blocks beyond end at once, without reading a weight. A weight that is stored by blocks
 * is read so, number by number, between the same products.
 */
#include "backend/cuda/cu_blocks.h"

enum { TILE = 64, DEEP = 16, EACH = 4, THREADS = 256 };

typedef struct {
    int64_t a, b, out, rows, bias; /* where matrix or group begins, in elements of a and b, in rows of the result */
} part;

static __device__ __forceinline__ int64_t offset_at(const cu_matmul &p, int64_t g)
{
    int64_t at = p.offsets[g];
    return at < 0 ? 0 : at > p.I ? p.I : at;
}

static __device__ __forceinline__ part part_of(const cu_matmul &p, int64_t matrix)
{
    part t = {0, 0, matrix * p.I, p.I, 0};
    if (p.offsets) {
        t.out = offset_at(p, matrix);
        t.rows = offset_at(p, matrix + 1) - t.out;
        t.a = t.out * p.a_ld, t.b = matrix * p.b_group, t.bias = matrix * p.J;
        return t;
    }
    for (int d = 0; d < p.dims; d++) {
        int64_t place = matrix % p.size[d];
        t.a += place * p.a_step[d], t.b += place * p.b_step[d];
        matrix /= p.size[d];
    }
    return t;
}

static __device__ __forceinline__ void put(const cu_matmul &p, const part &t, int64_t i, int64_t j, float v)
{
    if (i >= t.rows || j >= p.J) return;
    v = v * p.alpha;
    if (p.bias) v += p.bias[t.bias + j];
    cu_store(p.out, p.out_type, (t.out + i) * p.out_ld + j, v);
}

template <int BLOCKS> static __device__ __forceinline__ float right_at(const cu_matmul &p, int64_t at)
{
    return BLOCKS ? cu_stored_read1(p.b_stored, at) : cu_load(p.b, p.b_type, at);
}

template <int BLOCKS>
static __device__ __forceinline__ void make_tile(const cu_matmul &p, const part &t, int64_t i0, int64_t j0,
                                                 float (*left)[TILE + 4], float (*right)[TILE + 4])
{
    int thread = (int)threadIdx.x, deep = thread % DEEP, across = thread / DEEP;
    float sum[EACH][EACH] = {};
    for (int64_t k0 = 0; k0 < p.K; k0 += DEEP) {
        for (int e = 0; e < EACH; e++) {
            int64_t i = i0 + across + 16 * e, k = k0 + deep;
            left[deep][across + 16 * e] = i < t.rows && k < p.K ? cu_load(p.a, p.type, t.a + i * p.a_ld + k) : 0;
            /* neighbouring threads read neighbouring elements, whichever way b lies */
            int turned = p.b_k != 1, row = turned ? thread / TILE + 4 * e : deep;
            int column = turned ? thread % TILE : across + 16 * e;
            int64_t j = j0 + column, kb = k0 + row;
            right[row][column] = j < p.J && kb < p.K ? right_at<BLOCKS>(p, t.b + j * p.b_j + kb * p.b_k) : 0;
        }
        __syncthreads();
        for (int d = 0; d < DEEP; d++) {
            float l[EACH], r[EACH];
            for (int i = 0; i < EACH; i++) l[i] = left[d][across * EACH + i], r[i] = right[d][deep * EACH + i];
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++) sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) put(p, t, i0 + across * EACH + i, j0 + deep * EACH + j, sum[i][j]);
}

template <int BLOCKS>
static __device__ __forceinline__ void make_tiles(const cu_matmul &p, float (*left)[TILE + 4], float (*right)[TILE + 4])
{
    int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
    for (int64_t m = blockIdx.z; m < p.matrices; m += gridDim.z) {
        part t = part_of(p, m);
        if (i0 < t.rows) make_tile<BLOCKS>(p, t, i0, j0, left, right);
    }
}

static __global__ void __launch_bounds__(THREADS) product(cu_matmul p)
{
    __shared__ float left[DEEP][TILE + 4], right[DEEP][TILE + 4];
    make_tiles<0>(p, left, right);
}

static __global__ void __launch_bounds__(THREADS) product_blocks(cu_matmul p)
{
    __shared__ float left[DEEP][TILE + 4], right[DEEP][TILE + 4];
    make_tiles<1>(p, left, right);
}

/* Rows of no group are 0. */
static __global__ void product_rest(cu_matmul p)
{
    int64_t row = blockIdx.x;
    if (row >= offset_at(p, 0) && row < offset_at(p, p.matrices)) return;
    for (int64_t j = threadIdx.x; j < p.J; j += blockDim.x) cu_store(p.out, p.out_type, row * p.out_ld + j, 0);
}

extern "C" cudaError_t cu_matmul_run(const cu_matmul *p, cudaStream_t stream)
{
    if (p->I <= 0 || p->J <= 0 || p->matrices <= 0) return cudaSuccess;
    dim3 grid((unsigned)((p->I + TILE - 1) / TILE), (unsigned)((p->J + TILE - 1) / TILE),
              (unsigned)(p->matrices < 32768 ? p->matrices : 32768));
    cudaError_t status = p->b_stored.block ? CU_LAUNCH(product_blocks, grid, dim3(THREADS), 0, stream, *p)
                                           : CU_LAUNCH(product, grid, dim3(THREADS), 0, stream, *p);
    if (status != cudaSuccess || !p->offsets) return status;
    return CU_LAUNCH(product_rest, dim3((unsigned)p->I), dim3(128), 0, stream, *p);
}
