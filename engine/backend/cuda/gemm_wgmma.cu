/* gemm_wgmma.cu - GEMMs and convolutions in bf16 or f16 on the tensor cores of sm_90a; see launch.h and cu_wgmma.h.
 *
 * A block makes 128 x N sums. Its ninth warp asks the copy engine for tiles of 64 columns of both sides, as many steps
 * ahead as there are stages; two groups of four warps multiply 64 rows each, straight from shared memory. A stage goes
 * back to the copier when all eight warps say so.
 *
 * A convolution's rows are a box of the picture: `wide` x `high` places of so many pictures, 128 in all. What tap
 * (ky, kx) sees of them is that box elsewhere, and the copy engine makes the padding, strides and dilation. Rows that
 * lie beyond the picture's edge are computed and not stored.
 *
 * Sums go through shared memory, so that results are stored, and residuals read, by rows of 16 bytes.
 */
#include "backend/cuda/cu_wgmma.h"
#include "backend/cuda/cu_gemm.h"

enum { ROWS = 128, DEEP = 64, ROW = DEEP * 2, WARPS = 8, THREADS = (WARPS + 1) * 32, ALIGNED = 1024 };
template <int N> struct sizes {
    enum {
        STAGE = (ROWS + N) * ROW,
        STAGES = N > 160 ? 4 : 6,
        APART = N + 8, /* floats from row to row of the sums: a quarter of a warp meets no bank twice */
        ALL = ALIGNED + STAGES * (STAGE + 2 * (int)sizeof(uint64_t))
    };
};

/* How rows of the result lie in boxes, and K in steps of 64 columns of a tap. */
typedef struct {
    int wide, high, pictures; /* of a box: powers of two; a matrix: 128, 1, 1 */
    int across, down;         /* boxes of a picture */
    int chunks, steps, each;  /* steps of a tap, of K, of a split */
} box_plan;

#if CU_SM90A
/* The box of this block. */
struct block_place {
    int x, y, n;
};
static __device__ __forceinline__ block_place place_of(const box_plan &t)
{
    int i = (int)blockIdx.x, row = i / t.across;
    block_place b = {i % t.across * t.wide, row % t.down * t.high, row / t.down * t.pictures};
    return b;
}
/* Row r of the box as a row of the result, or -1. */
static __device__ __forceinline__ int64_t row_of(const cu_gemm &p, const box_plan &t, const block_place &b, int r)
{
    if (!p.picture) return b.x + r < p.M ? b.x + r : -1;
    int x = b.x + r % t.wide, y = b.y + r / t.wide % t.high;
    int64_t row = ((int64_t)(b.n + r / (t.wide * t.high)) * p.out_h + y) * p.out_w + x;
    return x < p.out_w && y < p.out_h && row < p.M ? row : -1;
}

/* One lane asks; the warp stays together. */
template <int N>
static __device__ __forceinline__ void copy_steps(const cu_gemm &p, const box_plan &t, const CUtensorMap *left,
                                                  const CUtensorMap *right, unsigned char *tiles, cu_mbarrier *full,
                                                  int first, int last)
{
    typedef sizes<N> Z;
    cu_mbarrier *empty = full + Z::STAGES;
    block_place b = place_of(t);
    int n0 = (int)blockIdx.y * N, tap = first / t.chunks, chunk = first % t.chunks;
    for (int s = first, i = 0; s < last; s++, i++) {
        int stage = i % Z::STAGES;
        if (i >= Z::STAGES) cu_mbarrier_wait(empty + stage, (uint32_t)(i / Z::STAGES - 1) & 1);
        if (threadIdx.x % 32 == 0) {
            unsigned char *to = tiles + stage * Z::STAGE;
            int at[2] = {tap * (int)p.channels + chunk * DEEP, n0};
            cu_mbarrier_arrive_expect(full + stage, Z::STAGE);
            if (p.picture) {
                int from[4] = {chunk * DEEP, b.x * p.stride_w - p.left + tap % p.kw * p.dilation_w,
                               b.y * p.stride_h - p.top + tap / p.kw * p.dilation_h, b.n};
                cu_tma_load(to, left, full + stage, from);
            } else {
                int from[2] = {chunk * DEEP, b.x};
                cu_tma_load(to, left, full + stage, from);
            }
            cu_tma_load(to + ROWS * ROW, right, full + stage, at);
        }
        if (++chunk == t.chunks) chunk = 0, tap++;
    }
}

template <int TYPE, int N>
static __device__ __forceinline__ void multiply_steps(float (&sum)[N / 2], unsigned char *tiles, cu_mbarrier *full,
                                                      int steps)
{
    typedef sizes<N> Z;
    cu_mbarrier *empty = full + Z::STAGES;
    int warp = (int)threadIdx.x / 32, one = threadIdx.x % 32 == 0;
    for (int s = 0; s < steps; s++) {
        int stage = s % Z::STAGES;
        const unsigned char *at = tiles + stage * Z::STAGE;
        uint64_t left = cu_wgmma_tile(at + warp / 4 * 64 * ROW), right = cu_wgmma_tile(at + ROWS * ROW);
        cu_mbarrier_wait(full + stage, (uint32_t)(s / Z::STAGES) & 1);
        cu_wgmma_fence();
#pragma unroll
        for (int k = 0; k < DEEP / 16; k++)
            cu_wgmma<TYPE, N>::add(sum, cu_wgmma_columns(left, k), cu_wgmma_columns(right, k));
        cu_wgmma_commit_group();
        cu_wgmma_wait_group<1>();
        if (s > 0 && one) cu_mbarrier_arrive(empty + (s - 1) % Z::STAGES); /* the step before has been read */
    }
    cu_wgmma_wait_group<0>();
}

/* The group's 64 rows of sums, through its part of shared memory, which nobody reads or writes any more. */
template <int N>
static __device__ __forceinline__ void finish_rows(const cu_gemm &p, const box_plan &t, const float (&sum)[N / 2],
                                                   float *memory, int whole)
{
    enum { APART = sizes<N>::APART, EIGHTS = N / 8 };
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    float *mine = memory + (warp * 16 + lane / 4) * APART + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
        float2 *upper = reinterpret_cast<float2 *>(mine + j * 8),
               *lower = reinterpret_cast<float2 *>(mine + 8 * APART + j * 8);
        *upper = make_float2(sum[4 * j], sum[4 * j + 1]);
        *lower = make_float2(sum[4 * j + 2], sum[4 * j + 3]);
    }
    __syncwarp(); /* a warp stores its own 16 rows */
    block_place b = place_of(t);
    int64_t n0 = (int64_t)blockIdx.y * N;
    for (int i = lane; i < 16 * EIGHTS; i += 32) {
        int r = warp * 16 + i / EIGHTS;
        int64_t n = n0 + i % EIGHTS * 8, m = row_of(p, t, b, r);
        if (m < 0 || n >= p.N) continue;
        cu_gemm_store_eight(p, m, n, memory + r * APART + i % EIGHTS * 8, whole);
    }
}
#endif

/* whole: results and residuals lie so that eight of a row are moved at once. */
template <int TYPE, int N>
static __global__ void __launch_bounds__(THREADS, 1)
    gemm_wgmma(cu_gemm p, box_plan t, int whole, const __grid_constant__ CUtensorMap left,
               const __grid_constant__ CUtensorMap right)
{
#if CU_SM90A
    typedef sizes<N> Z;
    CU_DYNAMIC_SHARED(unsigned char, memory);
    unsigned char *tiles = memory + (ALIGNED - cu_shared(memory) % ALIGNED) % ALIGNED;
    cu_mbarrier *full = reinterpret_cast<cu_mbarrier *>(tiles + Z::STAGES * Z::STAGE);
    int first = (int)blockIdx.z * t.each, last = first + t.each < t.steps ? first + t.each : t.steps;
    if (threadIdx.x == 0) {
        for (int i = 0; i < Z::STAGES; i++)
            cu_mbarrier_init(full + i, 1), cu_mbarrier_init(full + Z::STAGES + i, WARPS);
        cu_mbarriers_fence();
    }
    __syncthreads();
    float sum[N / 2] = {};
    if (threadIdx.x / 32 == WARPS)
        copy_steps<N>(p, t, &left, &right, tiles, full, first, last);
    else
        multiply_steps<TYPE, N>(sum, tiles, full, last - first);
    __syncthreads(); /* the tiles are read */
    if (threadIdx.x / 32 < WARPS) finish_rows<N>(p, t, sum, reinterpret_cast<float *>(tiles), whole);
#endif
}

/* ---- launching ---- */

/* Boxes of which the fewest cover the picture; of equals the one with the longest rows. */
static void plan_boxes(const cu_gemm *p, box_plan *t)
{
    int64_t pictures = p->M / (p->out_h * p->out_w), least = INT64_MAX;
    for (int wide = ROWS; wide >= 1; wide /= 2)
        for (int high = ROWS / wide; high >= 1; high /= 2) {
            int many = ROWS / wide / high;
            if (wide * p->stride_w > 256 || high * p->stride_h > 256) continue;
            int64_t across = (p->out_w + wide - 1) / wide, down = (p->out_h + high - 1) / high,
                    all = across * down * ((pictures + many - 1) / many);
            if (all >= least) continue;
            least = all;
            t->wide = wide, t->high = high, t->pictures = many, t->across = (int)across, t->down = (int)down;
        }
}

static int64_t boxes_of(const cu_gemm *p, const box_plan *t)
{
    if (!p->picture) return t->across;
    int64_t pictures = p->M / (p->out_h * p->out_w);
    return (int64_t)t->across * t->down * ((pictures + t->pictures - 1) / t->pictures);
}

static box_plan plan_of(const cu_gemm *p)
{
    box_plan t = {ROWS, 1, 1, (int)((p->M + ROWS - 1) / ROWS), 1, 0, 0, 0};
    int64_t columns = p->picture ? p->channels : p->K;
    if (p->picture) plan_boxes(p, &t);
    t.chunks = (int)((columns + DEEP - 1) / DEEP);
    t.steps = t.chunks * (p->picture ? p->kh * p->kw : 1);
    t.each = (t.steps + p->splits - 1) / p->splits;
    return t;
}

static tensor_box left_box(const cu_gemm *p, const box_plan *t)
{
    tensor_box b = {};
    b.f16 = p->type == CU_F16, b.first = p->a;
    b.box[0] = DEEP;
    for (int i = 0; i < 5; i++) b.step[i] = 1;
    if (!p->picture) {
        b.rank = 2;
        b.size[0] = (uint64_t)p->K, b.size[1] = (uint64_t)p->M;
        b.bytes[0] = (uint64_t)p->a_ld * 2, b.box[1] = ROWS;
        return b;
    }
    b.rank = 4;
    b.size[0] = (uint64_t)p->channels, b.size[1] = (uint64_t)p->W, b.size[2] = (uint64_t)p->H;
    b.size[3] = (uint64_t)(p->M / (p->out_h * p->out_w));
    b.bytes[0] = (uint64_t)p->a_ld * 2, b.bytes[1] = b.bytes[0] * b.size[1], b.bytes[2] = b.bytes[1] * b.size[2];
    b.step[1] = (uint32_t)p->stride_w, b.step[2] = (uint32_t)p->stride_h;
    b.box[1] = (uint32_t)(t->wide * p->stride_w), b.box[2] = (uint32_t)(t->high * p->stride_h);
    b.box[3] = (uint32_t)t->pictures;
    return b;
}

static tensor_box right_box(const cu_gemm *p, int n)
{
    tensor_box b = {};
    b.f16 = p->type == CU_F16, b.rank = 2, b.first = p->w;
    b.size[0] = (uint64_t)p->k_packed, b.size[1] = (uint64_t)p->N;
    b.bytes[0] = (uint64_t)p->k_packed * 2;
    b.box[0] = DEEP, b.box[1] = (uint32_t)n;
    b.step[0] = b.step[1] = 1;
    return b;
}

extern "C" int cu_gemm_wgmma_compiled(void)
{
#if defined KILN_CUDA_SM90A || defined KILN_CUDA_EMU
    return 1;
#else
    return 0;
#endif
}

/* Fewer rows or columns would leave most of a block idle. */
extern "C" int cu_gemm_wgmma_takes(const cu_gemm *p)
{
    const int64_t most = INT32_MAX / 2;
    int eights = p->a_ld % 8 == 0 && p->k_packed % 8 == 0 && (p->picture ? p->channels : p->K) % 8 == 0,
        fits = p->M < most && p->N < 65536 * 128 && p->K < most,
        strides = !p->picture || (p->stride_w <= 8 && p->stride_h <= 8 && p->H < most && p->W < most &&
                                  (uint64_t)p->H * (uint64_t)p->W * (uint64_t)p->a_ld * 2 < (uint64_t)1 << 40);
    return (p->type == CU_BF16 || p->type == CU_F16) && p->M > 64 && p->N > 32 && eights && fits && strides &&
           ((uintptr_t)p->a & 15) == 0 && ((uintptr_t)p->w & 15) == 0;
}

/* How many columns a block makes: what takes the chip the least time, by rounds of blocks and the width of one (each
 * has about 24 columns' worth of other work). Any gives the same bytes. */
static int columns_of(const cu_gemm *p, const box_plan *t, int processors)
{
    static const int widths[] = {256, 160, 128};
    int best = 128;
    int64_t least = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        int64_t blocks = boxes_of(p, t) * ((p->N + widths[i] - 1) / widths[i]) * p->splits,
                cost = (blocks + processors - 1) / processors * (widths[i] + 24);
        if (cost < least) least = cost, best = widths[i];
    }
    return best;
}

template <int TYPE, int N> static cudaError_t run(const cu_gemm *p, const box_plan *t, cudaStream_t stream)
{
    CUtensorMap left, right;
    tensor_box a = left_box(p, t), w = right_box(p, N);
    cudaError_t status = tensor_map_encode(&left, &a);
    if (status == cudaSuccess) status = tensor_map_encode(&right, &w);
    if (status == cudaSuccess)
        status = cudaFuncSetAttribute(gemm_wgmma<TYPE, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizes<N>::ALL);
    if (status != cudaSuccess) return status;
    dim3 grid((unsigned)boxes_of(p, t), (unsigned)((p->N + N - 1) / N), (unsigned)p->splits);
    return CU_LAUNCH((gemm_wgmma<TYPE, N>), grid, dim3(THREADS), sizes<N>::ALL, stream, *p, *t, cu_gemm_whole(p), left,
                     right);
}
template <int TYPE> static cudaError_t run_type(const cu_gemm *p, const box_plan *t, int columns, cudaStream_t stream)
{
    return columns == 256   ? run<TYPE, 256>(p, t, stream)
           : columns == 160 ? run<TYPE, 160>(p, t, stream)
                            : run<TYPE, 128>(p, t, stream);
}

extern "C" cudaError_t cu_gemm_wgmma_run(const cu_gemm *p, int processors, cudaStream_t stream)
{
    if (p->M <= 0 || p->N <= 0) return cudaSuccess;
    box_plan t = plan_of(p);
    int columns = columns_of(p, &t, processors > 0 ? processors : 1);
    cudaError_t status =
        p->type == CU_F16 ? run_type<CU_F16>(p, &t, columns, stream) : run_type<CU_BF16>(p, &t, columns, stream);
    return status == cudaSuccess && p->splits > 1 ? cu_gemm_finish(p, stream) : status;
}
