/* attention_mma.cu - attention in bf16 or f16 on tensor cores, heads of up to 160; see launch.h. Scheme: Dao 2023, FlashAttention-2.
 *
 * A block of four warps has 64 queries of one head, 16 a warp, kept in registers. Keys and values come by tiles, the next one under way
 * (cp.async) while this one is worked on; scores are never anywhere but in registers, where the layout of a product's sum is
 * that of the next product's left side. Heads are filled up with zeros to HEAD, a multiple of 16.
 */
#include "backend/cuda/cu_mma.h"

enum { QUERIES = 64, THREADS = 128 };
template <int HEAD> struct sizes {
    enum { KEYS = HEAD > 80 ? 32 : 64, ROW = HEAD * 2 + 16, TILE = KEYS * ROW, STEPS = HEAD / 16 };
};

/* Rows row.. of a matrix to shared memory; what is outside of it, or of the head, is 0. */
template <int HEAD> static __device__ __forceinline__ void fetch(const cu_attention &a, unsigned char *to, const void *from, int64_t row, int64_t end, int rows, int64_t ld)
{
    const uint16_t *x = static_cast<const uint16_t *>(from);
    for (int i = (int)threadIdx.x; i < rows * (HEAD / 8); i += THREADS) {
        int r = i / (HEAD / 8), c = i % (HEAD / 8) * 8, there = row + r < end && c < a.head;
        cu_copy16(to + r * sizes<HEAD>::ROW + c * 2, x + (there ? (row + r) * ld + c : 0), there);
    }
}

/* One tile's scores of the warp's 16 queries: key 8 j + 2 t + e for query g, or g + 8 */
template <int TYPE, int HEAD> static __device__ __forceinline__ void score(const uint32_t (*q)[4], unsigned char *keys, float (*s)[4])
{
    typedef sizes<HEAD> Z;
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < Z::KEYS / 8; j++) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll
    for (int d = 0; d < Z::STEPS; d++)
#pragma unroll
        for (int j = 0; j < Z::KEYS / 16; j++) {
            uint32_t b[4];
            cu_matrices(b, keys + (j * 16 + lane % 8 + lane / 16 * 8) * Z::ROW + (d * 16 + lane / 8 % 2 * 8) * 2);
            cu_mma<TYPE>(s[2 * j], q[d], b[0], b[1]);
            cu_mma<TYPE>(s[2 * j + 1], q[d], b[2], b[3]);
        }
}

static __device__ __forceinline__ float limited(const cu_attention &a, const void *mask, float s, int64_t q, int64_t k)
{
    if (k >= a.keys || (a.causal && k > q)) return -INFINITY;
    s *= a.scale;
    return mask && q < a.queries ? s + cu_load(mask, a.mask_type, q * a.mask_ld + k) : s;
}

typedef struct { float most[2], total[2]; } rows_state;

/* Scores to weights; shrink: by what the sums so far are multiplied, for both rows. */
template <int N> static __device__ __forceinline__ void soften(const cu_attention &a, const void *mask, float (*s)[4], rows_state *r, float *shrink, int64_t q, int64_t k)
{
    float most[2] = {r->most[0], r->most[1]};
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[j][e] = limited(a, mask, s[j][e], q + e / 2 * 8, k + j * 8 + e % 2);
            most[e / 2] = fmaxf(most[e / 2], s[j][e]);
        }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        most[h] = fmaxf(most[h], __shfl_xor_sync(0xffffffffu, most[h], 1));
        most[h] = fmaxf(most[h], __shfl_xor_sync(0xffffffffu, most[h], 2));
        shrink[h] = most[h] == -INFINITY ? 1.0f : exp2f((r->most[h] - most[h]) * 1.4426950408889634f);
        r->most[h] = most[h];
        r->total[h] *= shrink[h];
    }
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[j][e] = most[e / 2] == -INFINITY ? 0.0f : exp2f((s[j][e] - most[e / 2]) * 1.4426950408889634f);
            r->total[e / 2] += s[j][e];
        }
}

/* sum += weights values */
template <int TYPE, int HEAD> static __device__ __forceinline__ void gather(const float (*s)[4], unsigned char *values, float (*sum)[4])
{
    typedef sizes<HEAD> Z;
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < Z::KEYS / 16; k++) {
        uint32_t w[4] = {cu_pair<TYPE>(s[2 * k][0], s[2 * k][1]), cu_pair<TYPE>(s[2 * k][2], s[2 * k][3]), cu_pair<TYPE>(s[2 * k + 1][0], s[2 * k + 1][1]),
                         cu_pair<TYPE>(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int d = 0; d < Z::STEPS; d++) {
            uint32_t b[4];
            cu_matrices_turned(b, values + (k * 16 + lane % 16) * Z::ROW + (d * 16 + lane / 16 * 8) * 2);
            cu_mma<TYPE>(sum[2 * d], w, b[0], b[1]);
            cu_mma<TYPE>(sum[2 * d + 1], w, b[2], b[3]);
        }
    }
}

template <int HEAD> static __device__ __forceinline__ void put(const cu_attention &a, const float (*sum)[4], rows_state *r, int64_t first_row, int64_t q, int64_t column)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        r->total[h] += __shfl_xor_sync(0xffffffffu, r->total[h], 1);
        r->total[h] += __shfl_xor_sync(0xffffffffu, r->total[h], 2);
        if (q + h * 8 >= a.queries) continue;
        float by = r->total[h] > 0 ? 1.0f / r->total[h] : 0.0f;
#pragma unroll
        for (int j = 0; j < HEAD / 8; j++)
            for (int e = 0; e < 2; e++) {
                int c = j * 8 + (int)threadIdx.x % 4 * 2 + e;
                if (c < a.head) cu_store(a.out, a.out_type, (first_row + q + h * 8) * a.out_ld + column + c, sum[j][2 * h + e] * by);
            }
    }
}

template <int TYPE, int HEAD> static __global__ void __launch_bounds__(THREADS) attention_mma(cu_attention a)
{
    typedef sizes<HEAD> Z;
    CU_DYNAMIC_SHARED(unsigned char, memory); /* two tiles of keys, two of values */
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int64_t q0 = (int64_t)blockIdx.x * QUERIES, head = blockIdx.y, image = blockIdx.z, column = head * a.head;
    int64_t q = q0 + warp * 16 + lane / 4, end = a.causal && q0 + QUERIES < a.keys ? q0 + QUERIES : a.keys;
    const uint16_t *keys = static_cast<const uint16_t *>(a.k) + image * a.keys * a.k_ld + column, *values = static_cast<const uint16_t *>(a.v) + image * a.keys * a.v_ld + column;
    const void *mask = a.mask ? static_cast<const char *>(a.mask) + (image * a.mask_image + head * a.mask_head) * (a.mask_type == CU_F32 ? 4 : 2) : nullptr;
    uint32_t query[Z::STEPS][4];
    float sum[HEAD / 8][4] = {};
    rows_state r = {{-INFINITY, -INFINITY}, {0, 0}};

    fetch<HEAD>(a, memory, static_cast<const uint16_t *>(a.q) + image * a.queries * a.q_ld + column, q0, a.queries, QUERIES, a.q_ld);
    cu_copy_group();
    cu_copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int d = 0; d < Z::STEPS; d++) cu_matrices(query[d], memory + (warp * 16 + lane % 16) * Z::ROW + (d * 16 + lane / 16 * 8) * 2);
    __syncthreads();

    int tiles = (int)((end + Z::KEYS - 1) / Z::KEYS);
    fetch<HEAD>(a, memory, keys, 0, a.keys, Z::KEYS, a.k_ld);
    fetch<HEAD>(a, memory + 2 * Z::TILE, values, 0, a.keys, Z::KEYS, a.v_ld);
    cu_copy_group();
    for (int i = 0; i < tiles; i++) {
        unsigned char *now = memory + i % 2 * Z::TILE, *next = memory + (i + 1) % 2 * Z::TILE;
        if (i + 1 < tiles) {
            fetch<HEAD>(a, next, keys, (int64_t)(i + 1) * Z::KEYS, a.keys, Z::KEYS, a.k_ld);
            fetch<HEAD>(a, next + 2 * Z::TILE, values, (int64_t)(i + 1) * Z::KEYS, a.keys, Z::KEYS, a.v_ld);
        }
        cu_copy_group();
        cu_copy_wait<1>();
        __syncthreads();
        float s[Z::KEYS / 8][4], shrink[2];
        score<TYPE, HEAD>(query, now, s);
        soften<Z::KEYS / 8>(a, mask, s, &r, shrink, q, (int64_t)i * Z::KEYS + lane % 4 * 2);
#pragma unroll
        for (int j = 0; j < HEAD / 8; j++) sum[j][0] *= shrink[0], sum[j][1] *= shrink[0], sum[j][2] *= shrink[1], sum[j][3] *= shrink[1];
        gather<TYPE, HEAD>(s, now + 2 * Z::TILE, sum);
        __syncthreads();
    }
    cu_copy_wait<0>();
    put<HEAD>(a, sum, &r, image * a.queries, q, column);
}

template <int TYPE, int HEAD> static cudaError_t run(const cu_attention *a, cudaStream_t stream)
{
    enum { ALL = 4 * sizes<HEAD>::TILE, ASKED = QUERIES * sizes<HEAD>::ROW };
    dim3 grid((unsigned)((a->queries + QUERIES - 1) / QUERIES), (unsigned)a->heads, (unsigned)a->images);
    return CU_LAUNCH((attention_mma<TYPE, HEAD>), grid, dim3(THREADS), (int)ALL > (int)ASKED ? (int)ALL : (int)ASKED, stream, *a);
}

template <int TYPE> static cudaError_t run_head(const cu_attention *a, cudaStream_t stream)
{
    if (a->head <= 32) return run<TYPE, 32>(a, stream);
    if (a->head <= 48) return run<TYPE, 48>(a, stream);
    if (a->head <= 64) return run<TYPE, 64>(a, stream);
    if (a->head <= 80) return run<TYPE, 80>(a, stream);
    if (a->head <= 96) return run<TYPE, 96>(a, stream);
    if (a->head <= 128) return run<TYPE, 128>(a, stream);
    return run<TYPE, 160>(a, stream);
}

static int whole(const void *p, int64_t ld) { return ((uintptr_t)p & 15) == 0 && ld % 8 == 0; }

extern "C" int cu_attention_mma_takes(const cu_attention *a)
{
    return (a->type == CU_BF16 || a->type == CU_F16) && a->head % 8 == 0 && a->head <= 160 && whole(a->q, a->q_ld) && whole(a->k, a->k_ld) && whole(a->v, a->v_ld);
}

extern "C" cudaError_t cu_attention_mma_run(const cu_attention *a, cudaStream_t stream)
{
    if (a->images <= 0 || a->queries <= 0 || a->heads <= 0) return cudaSuccess;
    return a->type == CU_F16 ? run_head<CU_F16>(a, stream) : run_head<CU_BF16>(a, stream);
}
