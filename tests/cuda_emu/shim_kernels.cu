/* shim_kernels.cu - see shim_kernels.h. Compiled for the emulation alone. */
#include "shim_kernels.h"

#include "backend/cuda/cu_mma.h"

template <class... P, class... A>
static void launch(const char *name, dim3 grid, dim3 block, size_t shared, void (*kernel)(P...), A... a)
{
    cu_emu_run(name, grid, block, shared, cu_emu_shared_allowed(reinterpret_cast<const void *>(kernel)),
               [&] { kernel(a...); });
}

/* ---- right ---- */

static __global__ void sum_rows(float *out, const float *in, int columns)
{
    __shared__ float of_warp[4];
    float sum = 0;
    for (int i = (int)threadIdx.x; i < columns; i += (int)blockDim.x) sum += in[(int)blockIdx.x * columns + i];
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = of_warp[0] + of_warp[1] + of_warp[2] + of_warp[3];
}
void shim_sum_rows(float *out, const float *in, int rows, int columns)
{
    launch("sum_rows", dim3((unsigned)rows), dim3(128), 0, sum_rows, out, in, columns);
}

enum { TILE = 8 };
static __global__ void product(float *out, const float *a, const float *b, int m, int n, int k)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int x = (int)threadIdx.x, y = (int)threadIdx.y, row = (int)blockIdx.y * TILE + y,
        column = (int)blockIdx.x * TILE + x;
    float sum = 0;
    for (int at = 0; at < k; at += TILE) {
        left[y][x] = row < m && at + x < k ? a[row * k + at + x] : 0;
        right[y][x] = column < n && at + y < k ? b[(at + y) * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    if (row < m && column < n) out[row * n + column] = sum;
}
void shim_product(float *out, const float *a, const float *b, int m, int n, int k)
{
    launch("product", dim3((unsigned)(n + TILE - 1) / TILE, (unsigned)(m + TILE - 1) / TILE), dim3(TILE, TILE), 0,
           product, out, a, b, m, n, k);
}

static __global__ void halves_of_warps(float *out, const float *in)
{
    unsigned t = threadIdx.x, upper = t % 32 / 16;
    float v = in[t];
    if (upper) /* the halves go different ways, and the lower one three times as often */
        for (int by = 8; by > 0; by /= 2) v += __shfl_xor_sync(0xffff0000u, v, by);
    else
        for (int again = 0; again < 3; again++) {
            v = in[t];
            for (int by = 8; by > 0; by /= 2) v += __shfl_xor_sync(0x0000ffffu, v, by);
        }
    out[2 * t] = v;
    out[2 * t + 1] = v + __shfl_xor_sync(0xffffffffu, v, 16);
}
void shim_halves_of_warps(float *out, const float *in, int threads)
{
    launch("halves_of_warps", dim3(1), dim3((unsigned)threads), 0, halves_of_warps, out, in);
}

static __global__ void visits(uint32_t *order, uint32_t *n) { order[(*n)++] = blockIdx.x * blockDim.x + threadIdx.x; }
void shim_visits(uint32_t *order, uint32_t blocks, uint32_t threads)
{
    uint32_t n = 0;
    launch("visits", dim3(blocks), dim3(threads), 0, visits, order, &n);
}

static __global__ void convert(uint16_t *bf16, uint16_t *half, float *back, const float *in, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    __half h = __float2half_rn(in[i]);
    memcpy(half + i, &h, sizeof h);
    bf16[i] = cu_to_bf16(in[i]);
    back[i] = __half2float(h);
}
void shim_convert(uint16_t *bf16, uint16_t *half, float *back, const float *in, int n)
{
    launch("convert", dim3((unsigned)(n + 31) / 32), dim3(32), 0, convert, bf16, half, back, in, n);
}

template <int TYPE> static __global__ void tensor_product(float *out, const float *a, const float *b)
{
    int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4 * 2;
    float c[4] = {};
    uint32_t left[4], right[2];
    for (int i = 0; i < 4; i++) {
        const float *at = a + (g + i % 2 * 8) * 16 + t + i / 2 * 8;
        left[i] = cu_pair<TYPE>(at[0], at[1]);
    }
    for (int i = 0; i < 2; i++) right[i] = cu_pair<TYPE>(b[(t + i * 8) * 8 + g], b[(t + i * 8 + 1) * 8 + g]);
    cu_mma<TYPE>(c, left, right[0], right[1]);
    for (int e = 0; e < 4; e++) out[(g + e / 2 * 8) * 8 + t + e % 2] = c[e];
}
void shim_tensor_product(float *out, const float *a, const float *b, int f16)
{
    launch("tensor_product", dim3(1), dim3(32), 0, f16 ? tensor_product<CU_F16> : tensor_product<CU_BF16>, out, a, b);
}

/* ---- right, or with something left out ---- */

static __global__ void turn_round(float *out, const float *in, int n, int barrier)
{
    CU_DYNAMIC_SHARED(float, s);
    int t = (int)threadIdx.x;
    s[t] = in[t];
    if (barrier) __syncthreads();
    out[t] = s[n - 1 - t];
}
void shim_turn_round(float *out, const float *in, int n, int barrier)
{
    launch("turn_round", dim3(1), dim3((unsigned)n), (size_t)n * sizeof(float), turn_round, out, in, n, barrier);
}

static __global__ void walk(float *out, const float *in, int n, int steps, int barrier)
{
    CU_DYNAMIC_SHARED(float, s);
    int t = (int)threadIdx.x;
    float v = in[t];
    for (int i = 0; i < steps; i++) {
        s[t] = v;
        __syncthreads();
        v = s[(t + 1) % n];
        if (barrier) __syncthreads();
    }
    out[t] = v;
}
void shim_walk(float *out, const float *in, int n, int steps, int barrier)
{
    launch("walk", dim3(1), dim3((unsigned)n), (size_t)n * sizeof(float), walk, out, in, n, steps, barrier);
}

static __global__ void copied(float *out, const float *in, int n, int waited)
{
    CU_DYNAMIC_SHARED(float, s);
    for (int group = 0; group < 2; group++) {
        int at = group * n / 2 + 4 * (int)threadIdx.x;
        cu_copy16(s + at, in + at, 1);
        cu_copy_group();
    }
    if (waited == 1) cu_copy_wait<1>();
    if (waited == 2) cu_copy_wait<0>();
    for (int group = 0; group < 2; group++)
        for (int i = 0; i < 4; i++)
            out[group * n / 2 + 4 * (int)threadIdx.x + i] = s[group * n / 2 + 4 * (int)threadIdx.x + i];
}
void shim_copied(float *out, const float *in, int n, int waited)
{
    launch("copied", dim3(1), dim3((unsigned)n / 8), (size_t)n * sizeof(float), copied, out, in, n, waited);
}

/* Four warps, each going on to where another one's copies lie, by way of an instruction of its own. */
static __global__ void handed_on(float *out, const float *in, int barrier)
{
    CU_DYNAMIC_SHARED(float, s);
    int t = (int)threadIdx.x, n = (int)blockDim.x;
    cu_copy16(s + 4 * t, in + 4 * t, 1);
    cu_copy_group();
    cu_copy_wait<0>();
    if (barrier) __syncthreads();
    float zero = __shfl_xor_sync(0xffffffffu, 0.0f, 1);
    out[t] = s[4 * ((t + 32) % n)] + zero;
}
void shim_handed_on(float *out, const float *in, int threads, int barrier)
{
    launch("handed_on", dim3(1), dim3((unsigned)threads), (size_t)threads * 4 * sizeof(float), handed_on, out, in,
           barrier);
}

static __global__ void beside(float *out, int write, int read)
{
    CU_DYNAMIC_SHARED(float, s);
    int t = (int)threadIdx.x;
    s[t] = 1;
    if (t == 0) s[write] = 1;
    out[t] = s[t == 0 ? read : t];
}
void shim_beside(float *out, int n, int write, int read)
{
    launch("beside", dim3(2), dim3((unsigned)n), (size_t)n * sizeof(float), beside, out, write, read);
}

static __global__ void unwritten(float *out, int fixed)
{
    __shared__ float left_alone[4];
    CU_DYNAMIC_SHARED(float, s);
    out[0] = fixed ? left_alone[threadIdx.x] : s[threadIdx.x];
    left_alone[threadIdx.x] = s[threadIdx.x] = 0; /* for whoever comes next: a block begins without */
}
void shim_unwritten(float *out, int fixed) { launch("unwritten", dim3(3), dim3(1), 16, unwritten, out, fixed); }

/* ---- wrong ---- */

static __global__ void barrier_of_some(int from)
{
    if ((int)threadIdx.x < from) __syncthreads();
}
void shim_barrier_of_some(int threads, int from)
{
    launch("barrier_of_some", dim3(1), dim3((unsigned)threads), 0, barrier_of_some, from);
}

static __global__ void barrier_or_shuffle(int from, float *out)
{
    if ((int)threadIdx.x < from)
        __syncthreads();
    else
        *out = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
void shim_barrier_or_shuffle(int threads, int from)
{
    float none = 0;
    launch("barrier_or_shuffle", dim3(1), dim3((unsigned)threads), 0, barrier_or_shuffle, from, &none);
}

static __global__ void shuffle_by(float *out, uint32_t mask, unsigned lanes)
{
    if (threadIdx.x % 32 < lanes) *out = __shfl_xor_sync(mask, 1.0f, 1);
}
void shim_shuffle_of_some(int threads)
{
    float none = 0;
    launch("shuffle_of_some", dim3(1), dim3((unsigned)threads), 0, shuffle_by, &none, 0xffffffffu, 16u);
}
void shim_shuffle_unnamed(int threads)
{
    float none = 0;
    launch("shuffle_unnamed", dim3(1), dim3((unsigned)threads), 0, shuffle_by, &none, 0x0000ffffu, 17u);
}

static __global__ void nothing(int) {}
static __global__ void nothing_large(int) {}
void shim_launch(unsigned grid_y, unsigned threads, size_t shared)
{
    launch("nothing", dim3(1, grid_y), dim3(threads), shared, nothing, 0);
}
int shim_launch_large(size_t asked, size_t shared)
{
    if (cudaFuncSetAttribute(nothing_large, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)asked) != cudaSuccess)
        return 0;
    launch("nothing_large", dim3(1), dim3(1), shared, nothing_large, 0);
    return 1;
}
