/* product_few.cu - products of up to 16 rows (time embeddings, conditioning vectors); see launch.h.
 *
 * Such a product takes as long as reading the weights. A tile of 64 columns would leave most of a chip without work and each warp with
 * few reads under way; here a block has 8 columns, its eight warps take turns along K, and each thread asks for AHEAD pieces of
 * 16 bytes before it uses the first. The warps' sums are added in their order. K is cut by its length alone.
 *
 * A warp's read is one piece of each of 4 places along K (lane % 4) of 8 rows of w (lane / 4). In bf16 the sums are tensor cores': w is
 * the right side as it comes, for which element of K stands in which place of an instruction is free as long as both sides agree, and
 * the 16 rows of a cost no more than one. f32 takes one thread's multiplications, 4 elements of every row.
 */
#include "backend/cuda/cu_mma.h"
#include "backend/cuda/cu_product.h"

enum { ROWS = 16, COLUMNS = 8, WARPS = 8, AHEAD = 4 };
typedef float few_sums[ROWS][COLUMNS];

static __device__ __forceinline__ uint4 piece(const void *row, int64_t k, int size, int there)
{
    return there ? *reinterpret_cast<const uint4 *>(static_cast<const char *>(row) + k * size) : make_uint4(0, 0, 0, 0);
}

/* The warp's part of the sums, in bf16: of w's row n + lane / 4, or of none. */
static __device__ __forceinline__ void add_bf16(const cu_product &p, const uint16_t *w, int there, float (*part)[COLUMNS])
{
    enum { EACH = 8, STEP = 4 * EACH };
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const uint16_t *upper = static_cast<const uint16_t *>(p.a) + g * p.a_ld, *lower = upper + 8 * p.a_ld;
    int upper_there = g < p.M, lower_there = g + 8 < p.M;
    float sum[2][4] = {};
    for (int64_t first = warp * STEP; first < p.K; first += AHEAD * WARPS * STEP) {
        uint4 right[AHEAD], left[AHEAD][2];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int64_t k = first + i * WARPS * STEP + t * EACH;
            right[i] = piece(w, k, 2, there && k < p.K);
            left[i][0] = piece(upper, k, 2, upper_there && k < p.K);
            left[i][1] = piece(lower, k, 2, lower_there && k < p.K);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            uint32_t x[4] = {left[i][0].x, left[i][1].x, left[i][0].y, left[i][1].y}, y[4] = {left[i][0].z, left[i][1].z, left[i][0].w, left[i][1].w};
            cu_mma(sum[0], x, right[i].x, right[i].y);
            cu_mma(sum[1], y, right[i].z, right[i].w);
        }
    }
#pragma unroll
    for (int e = 0; e < 4; e++) part[g + e / 2 * 8][t * 2 + e % 2] = sum[0][e] + sum[1][e];
}

static __device__ __forceinline__ void add_f32(const cu_product &p, const float *w, int there, float (*part)[COLUMNS])
{
    enum { EACH = 4, STEP = 4 * EACH };
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const float *a = static_cast<const float *>(p.a);
    float sum[ROWS] = {};
    for (int64_t first = warp * STEP; first < p.K; first += AHEAD * WARPS * STEP) {
        uint4 right[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int64_t k = first + i * WARPS * STEP + t * EACH;
            right[i] = piece(w, k, 4, there && k < p.K);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int64_t k = first + i * WARPS * STEP + t * EACH;
#pragma unroll
            for (int m = 0; m < ROWS; m++) {
                if (m >= p.M) break;
                uint4 left = piece(a + m * p.a_ld, k, 4, k < p.K);
                sum[m] = fmaf(__uint_as_float(left.x), __uint_as_float(right[i].x), sum[m]);
                sum[m] = fmaf(__uint_as_float(left.y), __uint_as_float(right[i].y), sum[m]);
                sum[m] = fmaf(__uint_as_float(left.z), __uint_as_float(right[i].z), sum[m]);
                sum[m] = fmaf(__uint_as_float(left.w), __uint_as_float(right[i].w), sum[m]);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
        sum[m] += __shfl_xor_sync(0xffffffffu, sum[m], 1);
        sum[m] += __shfl_xor_sync(0xffffffffu, sum[m], 2);
        if (t == m % 4) part[m][g] = sum[m];
    }
}

/* Two neighbouring columns of a row a thread. */
static __device__ __forceinline__ void finish_few(const cu_product &p, const few_sums *part, int64_t n0)
{
    int t = (int)threadIdx.x, m = t / (COLUMNS / 2), c = t % (COLUMNS / 2) * 2;
    if (m >= p.M || n0 + c >= p.N) return;
    float v[2] = {0, 0};
    for (int w = 0; w < WARPS; w++) v[0] += part[w][m][c], v[1] += part[w][m][c + 1];
    cu_product_store(p, m, n0 + c, v[0], v[1], 0);
}

static __global__ void __launch_bounds__(WARPS * 32) product_few_bf16(cu_product p)
{
    __shared__ few_sums part[WARPS];
    int64_t n0 = (int64_t)blockIdx.x * COLUMNS, n = n0 + threadIdx.x % 32 / 4;
    add_bf16(p, static_cast<const uint16_t *>(p.w) + n * p.k_packed, n < p.N, part[threadIdx.x / 32]);
    __syncthreads();
    finish_few(p, part, n0);
}

static __global__ void __launch_bounds__(WARPS * 32) product_few_f32(cu_product p)
{
    __shared__ few_sums part[WARPS];
    int64_t n0 = (int64_t)blockIdx.x * COLUMNS, n = n0 + threadIdx.x % 32 / 4;
    add_f32(p, static_cast<const float *>(p.w) + n * p.k_packed, n < p.N, part[threadIdx.x / 32]);
    __syncthreads();
    finish_few(p, part, n0);
}

extern "C" int cu_product_few_takes(const cu_product *p)
{
    int64_t each = p->type == CU_BF16 ? 8 : 4; /* of 16 bytes */
    return !p->picture && p->M <= ROWS && (p->type == CU_BF16 || p->type == CU_F32) && p->K % each == 0 && p->a_ld % each == 0 && p->k_packed % each == 0 &&
           (((uintptr_t)p->a | (uintptr_t)p->w) & 15) == 0;
}

extern "C" cudaError_t cu_product_few_run(const cu_product *p, cudaStream_t stream)
{
    if (p->M <= 0 || p->N <= 0) return cudaSuccess;
    dim3 grid((unsigned)((p->N + COLUMNS - 1) / COLUMNS)), block(WARPS * 32);
    return p->type == CU_BF16 ? CU_LAUNCH(product_few_bf16, grid, block, 0, stream, *p) : CU_LAUNCH(product_few_f32, grid, block, 0, stream, *p);
}
