/* attention_wide.cu - attention in bf16 or f16 on tensor cores, heads of 161 to 512; see launch.h and cu_attention.h.
 *
 * A head of 512 is too wide for one warp: 16 queries and the sums of their values would be 384 registers a thread. So a
 * block of eight warps has 64 queries, and two warps share 16 of them, each with one half of the head: it makes the
 * scores' sums over its half, adds the other warp's (through shared memory; the order of two does not matter, so both
 * have the same bytes and make the same weights), and sums its half of the values' columns. A tile of keys and one of
 * values lie in shared memory: values come while scores are made, the next keys while values are summed. All of it
 * stays within the 99 KiB that every chip since sm_80 has.
 */
#include "backend/cuda/cu_attention.h"

enum { QUERIES = 64, WARPS = 8, THREADS = WARPS * 32, SHARED_LEAST = 99 << 10 };
template <int HEAD> struct sizes {
    enum {
        HALF = HEAD / 2,
        STEPS = HALF / 16,
        KEYS = HEAD > 256 ? 32 : 64,
        ROW = cu_head<HEAD>::ROW,
        TILE = KEYS * ROW,
        SCORES = WARPS * 16 * KEYS * 4,
        ALL = 2 * TILE + SCORES
    };
    static_assert(HEAD % 32 == 0, "a half is whole steps");
    static_assert((int)QUERIES <= 2 * (int)KEYS && (int)ALL <= (int)SHARED_LEAST,
                  "queries lie where keys and values do later");
};

/* s += the scores of the other half of the head. All of the block come here. */
template <int KEYS> static __device__ __forceinline__ void add_other_half(float4 *parts, float (*s)[4])
{
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
        parts[(warp * (KEYS / 8) + j) * 32 + lane] = make_float4(s[j][0], s[j][1], s[j][2], s[j][3]);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++) {
        float4 other = parts[((warp ^ WARPS / 2) * (KEYS / 8) + j) * 32 + lane];
        s[j][0] += other.x, s[j][1] += other.y, s[j][2] += other.z, s[j][3] += other.w;
    }
}

template <int TYPE, int HEAD> static __global__ void __launch_bounds__(THREADS) attention_wide(cu_attention a)
{
    typedef sizes<HEAD> Z;
    CU_DYNAMIC_SHARED(unsigned char, memory); /* a tile of keys, one of values, each warp's scores */
    unsigned char *key_tile = memory, *value_tile = memory + Z::TILE;
    float4 *parts = reinterpret_cast<float4 *>(memory + 2 * Z::TILE);
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, rows = warp % (WARPS / 2) * 16,
        first = warp / (WARPS / 2) * Z::HALF;
    int64_t q0 = (int64_t)blockIdx.x * QUERIES, head = blockIdx.y, image = blockIdx.z, column = head * a.head;
    int64_t q = q0 + rows + lane / 4, end = a.causal && q0 + QUERIES < a.keys ? q0 + QUERIES : a.keys;
    const uint16_t *keys = cu_rows_of(a.k, image, a.keys, a.k_ld, column),
                   *values = cu_rows_of(a.v, image, a.keys, a.v_ld, column);
    const void *mask = cu_mask_of(a, image, head);
    uint32_t query[Z::STEPS][4];
    float sum[Z::HALF / 8][4] = {};
    cu_softmax r = {{-INFINITY, -INFINITY}, {0, 0}};

    cu_fetch<HEAD, THREADS>(a, memory, cu_rows_of(a.q, image, a.queries, a.q_ld, column), q0, a.queries, QUERIES,
                            a.q_ld);
    cu_copy_group();
    cu_copy_wait<0>();
    __syncthreads();
    cu_queries<HEAD, Z::STEPS>(memory + rows * Z::ROW + first * 2, query);
    __syncthreads();

    int tiles = (int)((end + Z::KEYS - 1) / Z::KEYS);
    cu_fetch_tile<HEAD, THREADS, Z::KEYS>(a, key_tile, keys, 0, a.k_ld, Z::KEYS <= a.keys);
    cu_copy_group();
    for (int i = 0; i < tiles; i++) {
        float s[Z::KEYS / 8][4], shrink[2];
        int64_t k0 = (int64_t)i * Z::KEYS;
        cu_copy_wait<0>();
        __syncthreads(); /* the keys are there, and all are done with the values and scores before */
        cu_fetch_tile<HEAD, THREADS, Z::KEYS>(a, value_tile, values, k0, a.v_ld, k0 + Z::KEYS <= a.keys);
        cu_copy_group();
        cu_scores<TYPE, HEAD, Z::STEPS, Z::KEYS>(query, key_tile + first * 2, s);
        add_other_half<Z::KEYS>(parts, s); /* has a barrier: all are done with the keys */
        if (i + 1 < tiles)
            cu_fetch_tile<HEAD, THREADS, Z::KEYS>(a, key_tile, keys, k0 + Z::KEYS, a.k_ld, k0 + 2 * Z::KEYS <= a.keys);
        cu_copy_group();
        cu_soften<Z::KEYS>(a, mask, s, &r, shrink, q, k0 + lane % 4 * 2, cu_plain<Z::KEYS>(a, mask, q0, k0));
        cu_copy_wait<1>();
        __syncthreads(); /* the values are there */
        cu_gather<TYPE, HEAD, Z::HALF, Z::KEYS>(s, shrink, value_tile + first * 2, sum);
    }
    cu_copy_wait<0>();
    cu_put<Z::HALF>(a, sum, &r, image * a.queries, q, column, first);
}

template <int TYPE, int HEAD> static cudaError_t run(const cu_attention *a, cudaStream_t stream)
{
    dim3 grid((unsigned)((a->queries + QUERIES - 1) / QUERIES), (unsigned)a->heads, (unsigned)a->images);
    cudaError_t status =
        cudaFuncSetAttribute(attention_wide<TYPE, HEAD>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizes<HEAD>::ALL);
    return status != cudaSuccess
               ? status
               : CU_LAUNCH((attention_wide<TYPE, HEAD>), grid, dim3(THREADS), sizes<HEAD>::ALL, stream, *a);
}

extern "C" int cu_attention_wide_takes(const cu_attention *a)
{
    return cu_attention_whole(a) && a->head > 160 && a->head <= 512;
}

template <int TYPE> static cudaError_t run_head(const cu_attention *a, cudaStream_t stream)
{
    if (a->head <= 192) return run<TYPE, 192>(a, stream);
    if (a->head <= 256) return run<TYPE, 256>(a, stream);
    if (a->head <= 384) return run<TYPE, 384>(a, stream);
    return run<TYPE, 512>(a, stream);
}

extern "C" cudaError_t cu_attention_wide_run(const cu_attention *a, cudaStream_t stream)
{
    if (a->images <= 0 || a->queries <= 0 || a->heads <= 0) return cudaSuccess;
    return a->type == CU_BF16 ? run_head<CU_BF16>(a, stream) : run_head<CU_F16>(a, stream);
}
