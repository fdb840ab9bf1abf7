/* attention_mma.cu - attention in bf16 or f16 on tensor cores, heads of up to 160; see launch.h and cu_attention.h.
 *
 * A block of four warps has 64 queries of one head, 16 a warp, kept in registers. Keys and values come by tiles, the
 * next one under way (cp.async) while this one is worked on; scores are never anywhere but in registers, where the
 * layout of one GEMM's sums is that of the next one's left operand. Heads are filled up with zeros to HEAD, a multiple
 * of 16.
 */
#include "backend/cuda/cu_attention.h"

enum { QUERIES = 64, THREADS = 128 };
template <int HEAD> struct sizes {
    enum { KEYS = HEAD > 80 ? 32 : 64, ROW = cu_head<HEAD>::ROW, TILE = KEYS * ROW, STEPS = HEAD / 16 };
};

template <int TYPE, int HEAD> static __global__ void __launch_bounds__(THREADS) attention_mma(cu_attention a)
{
    typedef sizes<HEAD> Z;
    CU_DYNAMIC_SHARED(unsigned char, memory); /* two tiles of keys, two of values */
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int64_t q0 = (int64_t)blockIdx.x * QUERIES, head = blockIdx.y, image = blockIdx.z, column = head * a.head;
    int64_t q = q0 + warp * 16 + lane / 4, end = a.causal && q0 + QUERIES < a.keys ? q0 + QUERIES : a.keys;
    const uint16_t *keys = cu_rows_of(a.k, image, a.keys, a.k_ld, column),
                   *values = cu_rows_of(a.v, image, a.keys, a.v_ld, column);
    const void *mask = cu_mask_of(a, image, head);
    uint32_t query[Z::STEPS][4];
    float sum[HEAD / 8][4] = {};
    cu_softmax r = {{-INFINITY, -INFINITY}, {0, 0}};

    cu_fetch<HEAD, THREADS>(a, memory, cu_rows_of(a.q, image, a.queries, a.q_ld, column), q0, a.queries, QUERIES,
                            a.q_ld);
    cu_copy_group();
    cu_copy_wait<0>();
    __syncthreads();
    cu_queries<HEAD, Z::STEPS>(memory + warp * 16 * Z::ROW, query);
    __syncthreads();

    int tiles = (int)((end + Z::KEYS - 1) / Z::KEYS);
    cu_fetch_tile<HEAD, THREADS, Z::KEYS>(a, memory, keys, 0, a.k_ld, Z::KEYS <= a.keys);
    cu_fetch_tile<HEAD, THREADS, Z::KEYS>(a, memory + 2 * Z::TILE, values, 0, a.v_ld, Z::KEYS <= a.keys);
    cu_copy_group();
    for (int i = 0; i < tiles; i++) {
        unsigned char *now = memory + i % 2 * Z::TILE, *next = memory + (i + 1) % 2 * Z::TILE;
        int64_t k0 = (int64_t)i * Z::KEYS, k1 = k0 + Z::KEYS;
        if (i + 1 < tiles) {
            int whole = k1 + Z::KEYS <= a.keys;
            cu_fetch_tile<HEAD, THREADS, Z::KEYS>(a, next, keys, k1, a.k_ld, whole);
            cu_fetch_tile<HEAD, THREADS, Z::KEYS>(a, next + 2 * Z::TILE, values, k1, a.v_ld, whole);
        }
        cu_copy_group();
        cu_copy_wait<1>();
        __syncthreads();
        float s[Z::KEYS / 8][4], shrink[2];
        cu_scores<TYPE, HEAD, Z::STEPS, Z::KEYS>(query, now, s);
        cu_soften<Z::KEYS>(a, mask, s, &r, shrink, q, k0 + lane % 4 * 2, cu_plain<Z::KEYS>(a, mask, q0, k0));
        cu_gather<TYPE, HEAD, HEAD, Z::KEYS>(s, shrink, now + 2 * Z::TILE, sum);
        __syncthreads();
    }
    cu_copy_wait<0>();
    cu_put<HEAD>(a, sum, &r, image * a.queries, q, column, 0);
}

template <int TYPE, int HEAD> static cudaError_t run(const cu_attention *a, cudaStream_t stream)
{
    enum { ALL = 4 * sizes<HEAD>::TILE, ASKED = QUERIES * sizes<HEAD>::ROW };
    dim3 grid((unsigned)((a->queries + QUERIES - 1) / QUERIES), (unsigned)a->heads, (unsigned)a->images);
    return CU_LAUNCH((attention_mma<TYPE, HEAD>), grid, dim3(THREADS), (int)ALL > (int)ASKED ? (int)ALL : (int)ASKED,
                     stream, *a);
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

extern "C" int cu_attention_mma_takes(const cu_attention *a) { return cu_attention_whole(a) && a->head <= 160; }

extern "C" cudaError_t cu_attention_mma_run(const cu_attention *a, cudaStream_t stream)
{
    if (a->images <= 0 || a->queries <= 0 || a->heads <= 0) return cudaSuccess;
    return a->type == CU_F16 ? run_head<CU_F16>(a, stream) : run_head<CU_BF16>(a, stream);
}
