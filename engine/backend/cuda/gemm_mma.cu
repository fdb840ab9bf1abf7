/* gemm_mma.cu - GEMMs and convolutions in bf16 or f16 on tensor cores; see launch.h.
 *
 * Convolution is a GEMM whose left operand is gathered from the picture as it is needed (implicit GEMM), eight channels
 * of a tap at a time. A block of 8 warps (2 x 4) makes WIDE x WIDE sums from 32 columns of both sides a step, three
 * steps in flight (cp.async). Rows of 64 bytes lie in shared memory with their four pieces exchanged by row, so that
 * neither copies nor ldmatrix meet in a bank.
 */
#include "backend/cuda/cu_mma.h"
#include "backend/cuda/cu_gemm.h"

enum { DEEP = 32, STAGES = 3, ROW = DEEP * 2, PIECE = 16 };

/* What a thread copies of each step: piece t % 4 of rows t / 4, t / 4 + 64, ... of both sides. Where the pieces are is
 * carried from step to step by additions; only another tap of a picture is looked for anew. */
template <int WIDE> struct feeder {
    const uint16_t *left[WIDE / 64], *right[WIDE / 64];
    unsigned left_there, right_there; /* a bit a row */
    cu_place place[WIDE / 64];
    cu_tap tap;
    int k, last, to; /* to: where in a stage the first piece goes */
};

template <int WIDE> static __device__ __forceinline__ void look_for_tap(const cu_gemm &p, feeder<WIDE> *f)
{
    f->left_there = 0;
#pragma unroll
    for (int i = 0; i < WIDE / 64; i++) {
        int64_t from = f->place[i].n < 0 ? -1 : cu_left_place(p, f->place[i], f->tap, f->k);
        f->left[i] = static_cast<const uint16_t *>(p.a) + (from < 0 ? 0 : from);
        f->left_there |= (unsigned)(from >= 0) << i;
    }
}

template <int WIDE>
static __device__ __forceinline__ feeder<WIDE> feeder_of(const cu_gemm &p, int64_t m0, int64_t n0, int64_t first,
                                                         int64_t last)
{
    feeder<WIDE> f;
    int t = (int)threadIdx.x;
    f.k = (int)first + t % 4 * 8, f.last = (int)last;
    f.to = t / 4 * ROW + (t % 4 ^ (t / 4 >> 1 & 3)) * PIECE;
    f.tap = cu_tap_of(p, f.k);
    f.right_there = 0;
#pragma unroll
    for (int i = 0; i < WIDE / 64; i++) {
        int64_t n = n0 + t / 4 + 64 * i;
        f.place[i] = cu_place_of(p, m0 + t / 4 + 64 * i);
        f.right[i] = static_cast<const uint16_t *>(p.w) + (n < p.N ? n * p.k_packed + f.k : 0);
        f.right_there |= (unsigned)(n < p.N) << i;
    }
    look_for_tap<WIDE>(p, &f);
    return f;
}

template <int WIDE> static __device__ __forceinline__ void feed(const cu_gemm &p, feeder<WIDE> *f, unsigned char *stage)
{
    int more = f->k < f->last;
    unsigned char *to = stage + f->to;
#pragma unroll
    for (int i = 0; i < WIDE / 64; i++) {
        int left = more && (f->left_there >> i & 1), right = more && (f->right_there >> i & 1);
        cu_copy16(to + i * 64 * ROW, f->left[i], left);
        cu_copy16(to + (WIDE + i * 64) * ROW, f->right[i], right);
        f->left[i] += DEEP, f->right[i] += DEEP;
    }
    f->k += DEEP;
    if (!p.picture) return;
    f->tap.channel += DEEP;
    if (f->tap.channel < p.channels) return;
    cu_tap_on(p, &f->tap, 0);
    look_for_tap<WIDE>(p, f);
}

/* The warp's sums of one step: (WIDE / 2) x (WIDE / 4). left, right: where in a stage this lane's rows begin, with the
 * piece of the first 16 columns; the other 16 columns' differs in one bit. */
template <int TYPE, int WIDE>
static __device__ __forceinline__ void multiply(unsigned char *stage, int left, int right, float (*sum)[WIDE / 32][4])
{
#pragma unroll
    for (int k = 0; k < DEEP / 16; k++) {
        uint32_t a[WIDE / 32][4], b[WIDE / 64][4];
        unsigned char *rows = stage + (left ^ k * 2 * PIECE), *columns = stage + (right ^ k * 2 * PIECE);
#pragma unroll
        for (int i = 0; i < WIDE / 32; i++) cu_matrices(a[i], rows + i * 16 * ROW);
#pragma unroll
        for (int j = 0; j < WIDE / 64; j++) cu_matrices(b[j], columns + j * 16 * ROW);
#pragma unroll
        for (int i = 0; i < WIDE / 32; i++)
#pragma unroll
            for (int j = 0; j < WIDE / 32; j++)
                cu_mma<TYPE>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
}
static __device__ __forceinline__ int piece_of(int row, int piece)
{
    return row * ROW + (piece ^ (row >> 1 & 3)) * PIECE;
}

/* Sums to rows of shared memory, half of the block's at a time, and from there by eight. */
template <int WIDE>
static __device__ __forceinline__ void finish(const cu_gemm &p, const float (*sum)[WIDE / 32][4], float *rows,
                                              int64_t m0, int64_t n0, int whole)
{
    enum { HIGH = WIDE / 2, APART = WIDE + 8, EIGHTS = WIDE / 8 };
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    float *mine = rows + lane / 4 * APART + warp % 4 * (WIDE / 4) + lane % 4 * 2;
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
        __syncthreads(); /* the stages, or the half before, are read */
        if (warp / 4 == half) {
#pragma unroll
            for (int i = 0; i < WIDE / 32; i++)
#pragma unroll
                for (int j = 0; j < WIDE / 32; j++) {
                    float2 *upper = reinterpret_cast<float2 *>(mine + i * 16 * APART + j * 8),
                           *lower = reinterpret_cast<float2 *>(mine + (i * 16 + 8) * APART + j * 8);
                    *upper = make_float2(sum[i][j][0], sum[i][j][1]);
                    *lower = make_float2(sum[i][j][2], sum[i][j][3]);
                }
        }
        __syncthreads();
#pragma unroll 1
        for (int i = (int)threadIdx.x; i < HIGH * EIGHTS; i += 256) {
            int64_t m = m0 + half * HIGH + i / EIGHTS, n = n0 + i % EIGHTS * 8;
            if (m < p.M && n < p.N) cu_gemm_store_eight(p, m, n, rows + i / EIGHTS * APART + i % EIGHTS * 8, whole);
        }
    }
}

template <int WIDE>
static __device__ __forceinline__ void add_part(float (*total)[WIDE / 32][4], float (*sum)[WIDE / 32][4])
{
#pragma unroll
    for (int i = 0; i < WIDE / 32; i++)
#pragma unroll
        for (int j = 0; j < WIDE / 32; j++)
#pragma unroll
            for (int l = 0; l < 4; l++) total[i][j][l] += sum[i][j][l], sum[i][j][l] = 0;
}

/* whole: cu_gemm_whole(). PARTS: p.parts parts of K are summed apart. */
template <int TYPE, int WIDE, int PARTS>
static __device__ __forceinline__ void multiply_all(const cu_gemm &p, int whole)
{
    CU_DYNAMIC_SHARED(unsigned char, memory);
    enum { STAGE = 2 * WIDE * ROW };
    int64_t m0 = (int64_t)blockIdx.x * WIDE, n0 = (int64_t)blockIdx.y * WIDE, first, last;
    cu_split_range(p, (int)blockIdx.z, DEEP, &first, &last);
    feeder<WIDE> f = feeder_of<WIDE>(p, m0, n0, first, last);
    float sum[WIDE / 32][WIDE / 32][4] = {}, total[PARTS ? WIDE / 32 : 1][WIDE / 32][4] = {};
    int part = PARTS ? (int)cu_part_steps(p, p.parts, DEEP) : 0, to_go = part;
    int steps = last > first ? (int)((last - first + DEEP - 1) / DEEP) : 0;
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) feed<WIDE>(p, &f, memory + s * STAGE);
        cu_copy_group();
    }
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32,
        left = piece_of(warp / 4 * (WIDE / 2) + lane % 16, lane / 16),
        right = WIDE * ROW + piece_of(warp % 4 * (WIDE / 4) + lane % 8 + lane / 16 * 8, lane / 8 % 2);
    unsigned char *now = memory, *next = memory + (STAGES - 1) * STAGE, *end = memory + STAGES * STAGE;
    for (int s = 0; s < steps; s++) {
        cu_copy_wait<STAGES - 2>();
        __syncthreads(); /* all have their part of this step, and are done with the one that is overwritten next */
        if (s + STAGES - 1 < steps) feed<WIDE>(p, &f, next);
        cu_copy_group();
        multiply<TYPE, WIDE>(now, left, right, sum);
        if (PARTS && --to_go == 0) {
            add_part<WIDE>(total, sum);
            to_go = part;
        }
        now = now + STAGE == end ? memory : now + STAGE;
        next = next + STAGE == end ? memory : next + STAGE;
    }
    cu_copy_wait<0>();
    if (PARTS) add_part<WIDE>(total, sum); /* of what is left; else of zeros */
    finish<WIDE>(p, PARTS ? total : sum, reinterpret_cast<float *>(memory), m0, n0, whole);
}

template <int TYPE, int WIDE> static __global__ void __launch_bounds__(256, 2) gemm_mma(cu_gemm p, int whole)
{
    multiply_all<TYPE, WIDE, 0>(p, whole);
}
/* Twice the sums take twice the registers, so that a block has a processor to itself. */
template <int TYPE, int WIDE> static __global__ void __launch_bounds__(256, 1) gemm_in_parts(cu_gemm p, int whole)
{
    multiply_all<TYPE, WIDE, 1>(p, whole);
}

extern "C" int cu_gemm_mma_takes(const cu_gemm *p)
{
    int eights = p->a_ld % 8 == 0 && p->k_packed % 8 == 0 && (p->picture ? p->channels : p->K) % 8 == 0;
    return (p->type == CU_BF16 || p->type == CU_F16) && eights && ((uintptr_t)p->a & 15) == 0 &&
           ((uintptr_t)p->w & 15) == 0;
}

template <int TYPE, int WIDE> static cudaError_t run(const cu_gemm *p, cudaStream_t stream)
{
    dim3 grid((unsigned)((p->M + WIDE - 1) / WIDE), (unsigned)((p->N + WIDE - 1) / WIDE), (unsigned)p->splits);
    if (p->splits == 1 && p->parts > 1)
        return CU_LAUNCH((gemm_in_parts<TYPE, WIDE>), grid, dim3(256), STAGES * 2 * WIDE * ROW, stream, *p,
                         cu_gemm_whole(p));
    return CU_LAUNCH((gemm_mma<TYPE, WIDE>), grid, dim3(256), STAGES * 2 * WIDE * ROW, stream, *p, cu_gemm_whole(p));
}
template <int TYPE> static cudaError_t run_type(const cu_gemm *p, cudaStream_t stream)
{
    return p->M <= 64 || p->N <= 64 ? run<TYPE, 64>(p, stream) : run<TYPE, 128>(p, stream);
}

extern "C" cudaError_t cu_gemm_mma_run(const cu_gemm *p, cudaStream_t stream)
{
    if (p->M <= 0 || p->N <= 0) return cudaSuccess;
    cudaError_t status = p->type == CU_F16 ? run_type<CU_F16>(p, stream) : run_type<CU_BF16>(p, stream);
    return status == cudaSuccess && p->splits > 1 ? cu_gemm_finish(p, stream) : status;
}
