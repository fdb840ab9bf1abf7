/* gemv.cu - GEMMs of up to 16 rows (time embeddings, conditioning vectors); see launch.h.
 *
 * Such a GEMM takes as long as reading the weights, so many reads have to be under way. A tile of 64 columns would
 * leave most of a chip without work; here a block has 8 columns of the result, its eight warps take turns along K, and
 * each thread has STAGES - 1 pieces of 16 bytes of w on their way (cp.async) into slots that only it reads: no barrier
 * until the warps' sums are added, in their order. K is cut by its length alone.
 *
 * A warp's read is four pieces along K (lane % 4) of 8 rows of w (lane / 4). In bf16 and f16 the sums are tensor
 * cores': which element of K stands in which place of an instruction is free as long as both sides agree, so w is the
 * right side as it comes, and 16 rows of a cost no more than one. In f32 a thread multiplies its four elements with
 * each row's.
 */
#include "backend/cuda/cu_mma.h"
#include "backend/cuda/cu_gemm.h"

enum {
    ROWS = 16,
    COLUMNS = 8,
    WARPS = 8,
    THREADS = WARPS * 32,
    STAGES = 8,
    PIECE = 16,
    STEP = 4 * PIECE,
    TURN = WARPS * STEP
};
typedef float gemv_sums[ROWS][COLUMNS];
enum { SHARED = STAGES * THREADS * PIECE + WARPS * ROWS * COLUMNS * 4 };

/* One row of w, in bytes: what this thread has asked for. */
typedef struct {
    const char *row;
    uint4 *slot; /* STAGES, THREADS apart */
    int at, end, asked, taken;
} feeder;

static __device__ __forceinline__ void ask(feeder *f)
{
    int there = f->at < f->end;
    cu_copy16(f->slot + f->asked++ % STAGES * THREADS, there ? f->row + f->at : f->row, there);
    cu_copy_group();
    f->at += TURN;
}

/* Rows that are not there are the last one again, and their sums nobody's. */
static __device__ __forceinline__ feeder feeder_of(const cu_gemm &p, uint4 *slots, int64_t n, int size)
{
    int t = (int)threadIdx.x;
    feeder f = {static_cast<const char *>(p.w) + (n < p.N ? n : p.N - 1) * p.k_packed * size,
                slots + t,
                t / 32 * STEP + t % 4 * PIECE,
                (int)p.K * size,
                0,
                0};
    for (int i = 0; i < STAGES - 1; i++) ask(&f);
    return f;
}

/* The next piece. What is asked for then overwrites the one before, which has been used. */
static __device__ __forceinline__ uint4 take(feeder *f)
{
    cu_copy_wait<STAGES - 2>();
    uint4 v = f->slot[f->taken++ % STAGES * THREADS];
    ask(f);
    return v;
}

static __device__ __forceinline__ uint4 left_piece(const cu_gemm &p, int row, int at, int size)
{
    if (at >= (int)p.K * size) return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4 *>(static_cast<const char *>(p.a) +
                                            (row < p.M ? row : p.M - 1) * p.a_ld * size + at);
}

template <int TYPE>
static __device__ __forceinline__ void add_halves(const cu_gemm &p, feeder *f, float (*part)[COLUMNS])
{
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int at = (int)threadIdx.x / 32 * STEP;
    float sum[2][4] = {};
    uint4 upper = left_piece(p, g, at + t * PIECE, 2), lower = left_piece(p, g + 8, at + t * PIECE, 2);
    for (; at < f->end; at += TURN) {
        uint4 next_upper = left_piece(p, g, at + TURN + t * PIECE, 2),
              next_lower = left_piece(p, g + 8, at + TURN + t * PIECE, 2), right = take(f);
        uint32_t low[4] = {upper.x, lower.x, upper.y, lower.y}, high[4] = {upper.z, lower.z, upper.w, lower.w};
        cu_mma<TYPE>(sum[0], low, right.x, right.y);
        cu_mma<TYPE>(sum[1], high, right.z, right.w);
        upper = next_upper, lower = next_lower;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) part[g + e / 2 * 8][t * 2 + e % 2] = sum[0][e] + sum[1][e];
}

static __device__ __forceinline__ void add_f32(const cu_gemm &p, feeder *f, float (*part)[COLUMNS])
{
    int lane = (int)threadIdx.x % 32, t = lane % 4;
    float sum[ROWS] = {};
    for (int at = (int)threadIdx.x / 32 * STEP; at < f->end; at += TURN) {
        uint4 right = take(f);
#pragma unroll
        for (int m = 0; m < ROWS; m++) {
            if (m >= p.M) break;
            uint4 left = left_piece(p, m, at + t * PIECE, 4);
            sum[m] = fmaf(__uint_as_float(left.x), __uint_as_float(right.x), sum[m]);
            sum[m] = fmaf(__uint_as_float(left.y), __uint_as_float(right.y), sum[m]);
            sum[m] = fmaf(__uint_as_float(left.z), __uint_as_float(right.z), sum[m]);
            sum[m] = fmaf(__uint_as_float(left.w), __uint_as_float(right.w), sum[m]);
        }
    }
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
        if (m >= p.M) break;
        sum[m] += __shfl_xor_sync(0xffffffffu, sum[m], 1);
        sum[m] += __shfl_xor_sync(0xffffffffu, sum[m], 2);
        if (t == m % 4) part[m][lane / 4] = sum[m];
    }
}

/* Two neighbouring columns of a row a thread. */
static __device__ __forceinline__ void finish_gemv(const cu_gemm &p, const gemv_sums *part, int64_t n0)
{
    int t = (int)threadIdx.x, m = t / (COLUMNS / 2), c = t % (COLUMNS / 2) * 2;
    if (m >= p.M || n0 + c >= p.N) return;
    float v[2] = {0, 0};
    for (int w = 0; w < WARPS; w++) v[0] += part[w][m][c], v[1] += part[w][m][c + 1];
    cu_gemm_store(p, m, n0 + c, v[0], v[1], 0);
}

template <int TYPE> static __global__ void __launch_bounds__(THREADS) gemv_halves(cu_gemm p)
{
    CU_DYNAMIC_SHARED(uint4, slots); /* and behind them the warps' sums */
    gemv_sums *part = reinterpret_cast<gemv_sums *>(slots + STAGES * THREADS);
    int64_t n0 = (int64_t)blockIdx.x * COLUMNS;
    feeder f = feeder_of(p, slots, n0 + threadIdx.x % 32 / 4, 2);
    add_halves<TYPE>(p, &f, part[threadIdx.x / 32]);
    cu_copy_wait<0>();
    __syncthreads();
    finish_gemv(p, part, n0);
}

static __global__ void __launch_bounds__(THREADS) gemv_f32(cu_gemm p)
{
    CU_DYNAMIC_SHARED(uint4, slots);
    gemv_sums *part = reinterpret_cast<gemv_sums *>(slots + STAGES * THREADS);
    int64_t n0 = (int64_t)blockIdx.x * COLUMNS;
    feeder f = feeder_of(p, slots, n0 + threadIdx.x % 32 / 4, 4);
    add_f32(p, &f, part[threadIdx.x / 32]);
    cu_copy_wait<0>();
    __syncthreads();
    finish_gemv(p, part, n0);
}

extern "C" int cu_gemv_takes(const cu_gemm *p)
{
    int64_t each = PIECE / (p->type == CU_F32 ? 4 : 2);
    return !p->picture && p->M <= ROWS && p->K <= 1 << 28 && p->K % each == 0 && p->a_ld % each == 0 &&
           p->k_packed % each == 0 && (((uintptr_t)p->a | (uintptr_t)p->w) & 15) == 0;
}

extern "C" cudaError_t cu_gemv_run(const cu_gemm *p, cudaStream_t stream)
{
    if (p->M <= 0 || p->N <= 0) return cudaSuccess;
    dim3 grid((unsigned)((p->N + COLUMNS - 1) / COLUMNS)), block(THREADS);
    if (p->type == CU_F32) return CU_LAUNCH(gemv_f32, grid, block, SHARED, stream, *p);
    return p->type == CU_BF16 ? CU_LAUNCH(gemv_halves<CU_BF16>, grid, block, SHARED, stream, *p)
                              : CU_LAUNCH(gemv_halves<CU_F16>, grid, block, SHARED, stream, *p);
}
