/* gemm.cu - GEMMs and convolutions of any size in f32 arithmetic, and the epilogue of split-K sums; see
 * launch.h.
 *
 * A block makes 64 x 64 sums from 16 columns of both sides at a time, a thread 4 x 4 of them. It is what f32 precision
 * and odd sizes use, and what the tensor-core kernel is tested against.
 */
#include "backend/cuda/cu.h"
#include "backend/cuda/cu_gemm.h"

enum { TILE = 64, DEEP = 16, EACH = 4 };

/* Rows m of the left side: where each begins in a picture, or in the matrix. */
static __device__ __forceinline__ float left_at(const cu_gemm &p, const cu_place &row, const cu_tap &tap, int64_t k)
{
    if (row.n < 0 || k >= p.K) return 0;
    int64_t at = cu_left_place(p, row, tap, k);
    return at < 0 ? 0 : cu_load(p.a, p.type, at);
}

static __device__ __forceinline__ void store_tile(const cu_gemm &p, const float (*sum)[EACH], int64_t m0, int64_t n0,
                                                  int split)
{
    for (int i = 0; i < EACH; i++) {
        int64_t m = m0 + i;
        if (m >= p.M) return;
        for (int j = 0; j < EACH; j += 2) {
            if (n0 + j >= p.N) break;
            float second = n0 + j + 1 < p.N ? sum[i][j + 1] : 0;
            cu_gemm_store(p, m, n0 + j, sum[i][j], second, split);
        }
    }
}

static __device__ __forceinline__ void add_part(float (*total)[EACH], float (*sum)[EACH])
{
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) total[i][j] += sum[i][j], sum[i][j] = 0;
}

static __global__ void __launch_bounds__(256) gemm(cu_gemm p)
{
    __shared__ float left[DEEP][TILE + 4], right[DEEP][TILE + 4];
    int64_t m0 = (int64_t)blockIdx.x * TILE, n0 = (int64_t)blockIdx.y * TILE;
    int t = (int)threadIdx.x, deep = t % DEEP, across = t / DEEP;
    int64_t first, last;
    cu_split_range(p, (int)blockIdx.z, DEEP, &first, &last);
    cu_place row[EACH];
    for (int i = 0; i < EACH; i++) row[i] = cu_place_of(p, m0 + across + 16 * i);
    cu_tap tap = cu_tap_of(p, first + deep);
    float sum[EACH][EACH] = {}, total[EACH][EACH] = {};
    int64_t part = cu_part_steps(p, p.parts > 1 ? p.parts : 1, DEEP) * DEEP;
    for (int64_t k = first; k < last; k += DEEP) {
        if (p.parts > 1 && k > first && k % part == 0) add_part(total, sum);
        for (int i = 0; i < EACH; i++) {
            int64_t n = n0 + across + 16 * i;
            left[deep][across + 16 * i] = left_at(p, row[i], tap, k + deep);
            right[deep][across + 16 * i] =
                n < p.N && k + deep < p.K ? cu_load(p.w, p.type, n * p.k_packed + k + deep) : 0;
        }
        cu_tap_on(p, &tap, DEEP);
        __syncthreads();
        for (int d = 0; d < DEEP; d++) {
            float l[EACH], r[EACH];
            for (int i = 0; i < EACH; i++) l[i] = left[d][across * EACH + i], r[i] = right[d][deep * EACH + i];
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++) sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
        }
        __syncthreads();
    }
    if (p.parts > 1) add_part(total, sum);
    store_tile(p, p.parts > 1 ? total : sum, m0 + across * EACH, n0 + deep * EACH, (int)blockIdx.z);
}

/* Parts are added in their order. */
static __global__ void finish(cu_gemm p)
{
    int64_t c = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x, wide = p.finish.geglu ? 2 : 1;
    if (c >= p.out_columns) return;
    float v[2] = {0, 0};
    for (int i = 0; i < wide; i++)
        for (int s = 0; s < p.splits; s++) v[i] += p.partial[(s * p.M + row) * p.N + c * wide + i];
    cu_gemm whole = p;
    whole.splits = 1;
    if (wide == 2)
        cu_gemm_store(whole, row, 2 * c, v[0], v[1], 0);
    else
        cu_gemm_put(whole, row, c, v[0]);
}

extern "C" cudaError_t cu_gemm_finish(const cu_gemm *p, cudaStream_t stream)
{
    if (p->M <= 0 || p->N <= 0) return cudaSuccess;
    return CU_LAUNCH(finish, dim3((unsigned)p->M, (unsigned)((p->out_columns + 127) / 128)), dim3(128), 0, stream, *p);
}

extern "C" cudaError_t cu_gemm_run(const cu_gemm *p, cudaStream_t stream)
{
    if (p->M <= 0 || p->N <= 0) return cudaSuccess;
    dim3 grid((unsigned)((p->M + TILE - 1) / TILE), (unsigned)((p->N + TILE - 1) / TILE), (unsigned)p->splits);
    cudaError_t status = CU_LAUNCH(gemm, grid, dim3(256), 0, stream, *p);
    return status == cudaSuccess && p->splits > 1 ? cu_gemm_finish(p, stream) : status;
}
