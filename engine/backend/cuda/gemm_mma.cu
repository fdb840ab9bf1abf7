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

static __device__ __forceinline__ unsigned char *piece_at(unsigned char *tile, int row, int piece)
{
    return tile + row * ROW + (piece ^ (row >> 1 & 3)) * PIECE;
}

/* What a thread copies of each step: piece t % 4 of rows t / 4, t / 4 + 64, ... of both sides. */
template <int WIDE> struct feeder {
    cu_place place[WIDE / 64];
    cu_tap tap;
    int64_t k, n0, last;
};

template <int WIDE>
static __device__ __forceinline__ feeder<WIDE> feeder_of(const cu_gemm &p, int64_t m0, int64_t n0, int64_t first,
                                                         int64_t last)
{
    feeder<WIDE> f;
    int t = (int)threadIdx.x;
    f.k = first + t % 4 * 8, f.n0 = n0, f.last = last;
    f.tap = cu_tap_of(p, f.k);
    for (int i = 0; i < WIDE / 64; i++) f.place[i] = cu_place_of(p, m0 + t / 4 + 64 * i);
    return f;
}

template <int WIDE> static __device__ __forceinline__ void feed(const cu_gemm &p, feeder<WIDE> *f, unsigned char *stage)
{
    int t = (int)threadIdx.x;
    const uint16_t *a = static_cast<const uint16_t *>(p.a), *w = static_cast<const uint16_t *>(p.w);
    for (int i = 0; i < WIDE / 64; i++) {
        int row = t / 4 + 64 * i;
        int64_t n = f->n0 + row,
                from = f->place[i].n < 0 || f->k >= f->last ? -1 : cu_left_place(p, f->place[i], f->tap, f->k);
        int there = n < p.N && f->k < f->last;
        cu_copy16(piece_at(stage, row, t % 4), a + (from < 0 ? 0 : from), from >= 0);
        cu_copy16(piece_at(stage + WIDE * ROW, row, t % 4), w + (there ? n * p.k_packed + f->k : 0), there);
    }
    f->k += DEEP;
    cu_tap_on(p, &f->tap, DEEP);
}

/* The warp's sums of one step: (WIDE / 2) x (WIDE / 4). */
template <int TYPE, int WIDE>
static __device__ __forceinline__ void multiply(unsigned char *stage, float (*sum)[WIDE / 32][4])
{
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, m = warp / 4 * (WIDE / 2),
        n = warp % 4 * (WIDE / 4);
#pragma unroll
    for (int k = 0; k < DEEP / 16; k++) {
        uint32_t a[WIDE / 32][4], b[WIDE / 64][4];
#pragma unroll
        for (int i = 0; i < WIDE / 32; i++)
            cu_matrices(a[i], piece_at(stage, m + i * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
        for (int j = 0; j < WIDE / 64; j++)
            cu_matrices(b[j],
                        piece_at(stage + WIDE * ROW, n + j * 16 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
#pragma unroll
        for (int i = 0; i < WIDE / 32; i++)
#pragma unroll
            for (int j = 0; j < WIDE / 32; j++)
                cu_mma<TYPE>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
}

template <int TYPE, int WIDE> static __global__ void __launch_bounds__(256) gemm_mma(cu_gemm p)
{
    CU_DYNAMIC_SHARED(unsigned char, memory);
    enum { STAGE = 2 * WIDE * ROW };
    int64_t m0 = (int64_t)blockIdx.x * WIDE, n0 = (int64_t)blockIdx.y * WIDE, first, last;
    cu_split_range(p, (int)blockIdx.z, DEEP, &first, &last);
    feeder<WIDE> f = feeder_of<WIDE>(p, m0, n0, first, last);
    float sum[WIDE / 32][WIDE / 32][4] = {};
    int steps = last > first ? (int)((last - first + DEEP - 1) / DEEP) : 0;
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) feed<WIDE>(p, &f, memory + s * STAGE);
        cu_copy_group();
    }
    for (int s = 0; s < steps; s++) {
        cu_copy_wait<STAGES - 2>();
        __syncthreads(); /* all have their part of this step, and are done with the one that is overwritten next */
        if (s + STAGES - 1 < steps) feed<WIDE>(p, &f, memory + (s + STAGES - 1) % STAGES * STAGE);
        cu_copy_group();
        multiply<TYPE, WIDE>(memory + s % STAGES * STAGE, sum);
    }
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int64_t m = m0 + warp / 4 * (WIDE / 2) + lane / 4, n = n0 + warp % 4 * (WIDE / 4) + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < WIDE / 32; i++)
#pragma unroll
        for (int j = 0; j < WIDE / 32; j++) {
            if (n + j * 8 >= p.N) continue;
            if (m + i * 16 < p.M) cu_gemm_store(p, m + i * 16, n + j * 8, sum[i][j][0], sum[i][j][1], (int)blockIdx.z);
            if (m + i * 16 + 8 < p.M)
                cu_gemm_store(p, m + i * 16 + 8, n + j * 8, sum[i][j][2], sum[i][j][3], (int)blockIdx.z);
        }
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
    return CU_LAUNCH((gemm_mma<TYPE, WIDE>), grid, dim3(256), STAGES * 2 * WIDE * ROW, stream, *p);
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
