/* blocks.cu - weights that are stored by blocks: widened to what a GEMM reads, and multiplied by few rows as they are;
 * see launch.h.
 *
 * Widening writes the layout of ops_gemm.c: rows in the GEMM's order, a convolution's taps outside its channels. A
 * thread makes eight neighbours, which share a scale. Taps are turned in shared memory, some channels of a row at a
 * time, so that both sides are read and written in order.
 *
 * With few rows a GEMM takes as long as reading its weights: a warp has two columns of the result (a geglu's value and
 * gate), each lane every 32nd eight of K, and the lanes' sums are added at the end, in one order. Weights are never
 * rounded there. Types that have no kernel for that are widened.
 */
#include "backend/cuda/cu_blocks.h"
#include "backend/cuda/cu_gemm.h"

enum { EIGHT = 8, TURNED = CU_MOST_TAPS * EIGHT, WARPS = 4, THREADS = WARPS * 32, COLUMNS = 2, MANY = 16, SOME = 4 };

/* Row of the stored weight that is row n of the GEMM's. */
static __device__ __forceinline__ int64_t stored_row(int64_t n, int64_t N, int geglu)
{
    return geglu ? n % 2 * (N / 2) + n / 2 : n;
}

static __global__ void widen_rows(cu_widen m)
{
    int64_t n = blockIdx.x, k = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * EIGHT;
    float v[EIGHT];
    if (k >= m.K) return;
    cu_stored_read8(m.stored, stored_row(m.first + n, m.N, m.geglu) * m.K + k, v);
    cu_store_row<EIGHT>(m.out, m.type, n * m.K + k, v);
}

static __global__ void __launch_bounds__(THREADS) widen_taps(cu_widen m)
{
    __shared__ float part[TURNED];
    int64_t n = blockIdx.x, first = (int64_t)blockIdx.y * m.each, channels = m.K / m.taps, rest = channels - first;
    int count = (int)(rest < m.each ? rest : m.each), all = count * m.taps;
    int64_t from = stored_row(m.first + n, m.N, m.geglu) * m.K + first * m.taps, to = n * m.K + first;
    for (int i = (int)threadIdx.x * EIGHT; i < all; i += THREADS * EIGHT) cu_stored_read8(m.stored, from + i, part + i);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < all; i += THREADS)
        cu_store(m.out, m.type, to + i / count * channels + i % count, part[i % count * m.taps + i / count]);
}

extern "C" cudaError_t cu_widen_run(const cu_widen *given, cudaStream_t stream)
{
    cu_widen m = *given;
    if (m.count <= 0 || m.K <= 0) return cudaSuccess;
    if (m.taps > 1) {
        int64_t channels = m.K / m.taps;
        m.each = TURNED / m.taps / EIGHT * EIGHT;
        if (m.each > 64) m.each = 64;
        dim3 grid((unsigned)m.count, (unsigned)((channels + m.each - 1) / m.each));
        return CU_LAUNCH(widen_taps, grid, dim3(THREADS), 0, stream, m);
    }
    int64_t wanted = (m.K / EIGHT + 31) / 32 * 32;
    unsigned threads = wanted < 256 ? (unsigned)wanted : 256;
    dim3 grid((unsigned)m.count, (unsigned)((m.K / EIGHT + threads - 1) / threads));
    return CU_LAUNCH(widen_rows, grid, dim3(threads), 0, stream, m);
}

/* ---- few rows ---- */

template <int B> static __device__ __forceinline__ void right_eight(const cu_stored &w, int64_t at, float *out)
{
    cu_block_read8<B>(w.rows, at, out);
    if (!w.scale) return;
    float scale = cu_stored_scale(w, at);
#pragma unroll
    for (int i = 0; i < EIGHT; i++) out[i] = cu_times(out[i], scale);
}

static __device__ __forceinline__ void left_eight(const cu_gemm &p, int wide, int m, int64_t k, float *out)
{
    if (wide)
        cu_load_row<EIGHT>(out, p.a, p.type, m * p.a_ld + k);
    else
        for (int i = 0; i < EIGHT; i++) out[i] = cu_load(p.a, p.type, m * p.a_ld + k + i);
}

/* COLUMNS of the result from n0 on, of at most ROWS rows. */
template <int B, int ROWS>
static __global__ void __launch_bounds__(THREADS) gemv_blocks(cu_gemm p, cu_stored w, int wide)
{
    int lane = (int)threadIdx.x % 32;
    int64_t n0 = ((int64_t)blockIdx.x * WARPS + threadIdx.x / 32) * COLUMNS, row[COLUMNS];
    float sum[ROWS][COLUMNS] = {};
    if (n0 >= p.N) return;
    for (int c = 0; c < COLUMNS; c++) row[c] = stored_row(n0 + c < p.N ? n0 + c : p.N - 1, p.N, p.finish.geglu) * p.K;
#pragma unroll 1
    for (int64_t k = lane * EIGHT; k < p.K; k += 32 * EIGHT) {
        float right[COLUMNS][EIGHT];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) right_eight<B>(w, row[c] + k, right[c]);
#pragma unroll
        for (int m = 0; m < ROWS; m++) {
            float left[EIGHT];
            if (m >= p.M) continue;
            left_eight(p, wide, m, k, left);
#pragma unroll
            for (int i = 0; i < EIGHT; i++)
                for (int c = 0; c < COLUMNS; c++) sum[m][c] = fmaf(left[i], right[c][i], sum[m][c]);
        }
    }
    float v[COLUMNS] = {}; /* lane m ends up with row m */
#pragma unroll
    for (int m = 0; m < ROWS; m++)
        for (int c = 0; c < COLUMNS; c++) {
            float all = sum[m][c];
            for (int by = 16; by; by /= 2) all += __shfl_xor_sync(0xffffffffu, all, by);
            if (lane == m) v[c] = all;
        }
    if (lane < p.M) cu_gemm_store(p, lane, n0, v[0], v[1], 0);
}

template <int B> static cudaError_t run_gemv(const cu_gemm *p, const cu_stored *w, cudaStream_t stream)
{
    int wide = p->a_ld % EIGHT == 0 && ((uintptr_t)p->a & 15) == 0;
    dim3 grid((unsigned)((p->N + WARPS * COLUMNS - 1) / (WARPS * COLUMNS)));
    return p->M > SOME ? CU_LAUNCH((gemv_blocks<B, MANY>), grid, dim3(THREADS), 0, stream, *p, *w, wide)
                       : CU_LAUNCH((gemv_blocks<B, SOME>), grid, dim3(THREADS), 0, stream, *p, *w, wide);
}

extern "C" int cu_gemv_blocks_takes(const cu_gemm *p, int block)
{
    static const int known[] = {CU_Q4_0, CU_Q5_0, CU_Q8_0, CU_Q4_K, CU_Q5_K, CU_Q6_K, CU_F8_E4M3, CU_F8_E5M2, CU_INT8};
    int is = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) is |= known[i] == block;
    return is && !p->picture && p->M <= MANY;
}

extern "C" cudaError_t cu_gemv_blocks_run(const cu_gemm *p, const cu_stored *w, cudaStream_t stream)
{
    if (p->M <= 0 || p->N <= 0) return cudaSuccess;
    switch (w->block) {
    case CU_Q8_0: return run_gemv<CU_Q8_0>(p, w, stream);
    case CU_Q4_0: return run_gemv<CU_Q4_0>(p, w, stream);
    case CU_Q5_0: return run_gemv<CU_Q5_0>(p, w, stream);
    case CU_Q4_K: return run_gemv<CU_Q4_K>(p, w, stream);
    case CU_Q5_K: return run_gemv<CU_Q5_K>(p, w, stream);
    case CU_F8_E4M3: return run_gemv<CU_F8_E4M3>(p, w, stream);
    case CU_F8_E5M2: return run_gemv<CU_F8_E5M2>(p, w, stream);
    case CU_INT8: return run_gemv<CU_INT8>(p, w, stream);
    default: return run_gemv<CU_Q6_K>(p, w, stream);
    }
}
