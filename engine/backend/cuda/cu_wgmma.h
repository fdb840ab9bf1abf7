/* cu_wgmma.h - what sm_90a alone has: barriers in shared memory that count bytes, boxes of a tensor that a copy engine
 * (TMA) brings, and products of a warpgroup (128 threads) from shared memory. Sources: PTX ISA, "mbarrier",
 * "cp.async.bulk.tensor", "wgmma.mma_async"; CUDA driver API, cuTensorMapEncodeTiled.
 *
 * A tile is rows of 128 bytes (64 numbers of 16 bits), its first row at a multiple of 1024 bytes; the eight pieces of
 * 16 bytes of row r are exchanged by r % 8 (swizzle 128B), by the copy that writes it and the product that reads it.
 *
 * Sums of a product of 64 x N: warp w of the group has rows 16 w to 16 w + 15; with g = lane / 4 and t = lane % 4,
 * sum[4 j] and [4 j + 1] are columns 8 j + 2t, + 1 of row g, [4 j + 2] and [4 j + 3] of row g + 8.
 *
 * Order, as the instructions want it: whoever initialises barriers fences them (cu_mbarriers_fence) before a copy
 * counts on one. Between writing sums and the first product that adds to them stands cu_wgmma_fence(). Sums, and the
 * tiles that were read, belong to the products until cu_wgmma_wait_group() says otherwise.
 *
 * tests/cuda_emu has all of it on the host, late and in any order that is allowed.
 */
#ifndef KILN_BACKEND_CUDA_CU_WGMMA_H
#define KILN_BACKEND_CUDA_CU_WGMMA_H

#include "backend/cuda/cu.h"
#include "backend/cuda/tensor_map.h"

#ifdef KILN_CUDA_EMU
#include "cu_shim_wgmma.h"
#define CU_SM90A 1
#elif defined __CUDA_ARCH_FEAT_SM90_ALL
#define CU_SM90A 1
#else
#define CU_SM90A 0 /* compiled for other chips too, where nobody launches it */
#endif

#if CU_SM90A && !defined KILN_CUDA_EMU

typedef uint64_t cu_mbarrier;

static __device__ __forceinline__ uint32_t cu_shared(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

static __device__ __forceinline__ void cu_mbarrier_init(cu_mbarrier *b, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(cu_shared(b)), "r"(arrivals) : "memory");
}
static __device__ __forceinline__ void cu_mbarriers_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
static __device__ __forceinline__ void cu_mbarrier_arrive(cu_mbarrier *b)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(cu_shared(b)) : "memory");
}
/* Arrives, and the phase also ends no sooner than so many bytes came. */
static __device__ __forceinline__ void cu_mbarrier_arrive_expect(cu_mbarrier *b, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(cu_shared(b)), "r"(bytes)
                 : "memory");
}
/* Until the phase of that parity has ended; the first phase has parity 0. */
static __device__ __forceinline__ void cu_mbarrier_wait(cu_mbarrier *b, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(cu_shared(b)),
                 "r"(parity)
                 : "memory");
}

/* A box whose first element is at (x[0], x[1], ..), innermost first; what lies outside is 0 and counts as brought. */
static __device__ __forceinline__ void cu_tma_load(void *to, const CUtensorMap *map, cu_mbarrier *b, const int (&x)[2])
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(cu_shared(to)),
        "l"(map), "r"(cu_shared(b)), "r"(x[0]), "r"(x[1])
        : "memory");
}
static __device__ __forceinline__ void cu_tma_load(void *to, const CUtensorMap *map, cu_mbarrier *b, const int (&x)[4])
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
                 "%5, %6}], [%2];" ::"r"(cu_shared(to)),
                 "l"(map), "r"(cu_shared(b)), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
}

static __device__ __forceinline__ void cu_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void cu_wgmma_commit_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until no more than n groups are under way. */
template <int n> static __device__ __forceinline__ void cu_wgmma_wait_group()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}

/* sum += left right, 64 x N x 16, of CU_BF16 or CU_F16. */
#define CU_EIGHT(i)                                                                                                    \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]),            \
        "+f"(sum[i + 6]), "+f"(sum[i + 7])
template <int TYPE, int N> struct cu_wgmma;
#define CU_REGISTERS_128                                                                                               \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                                           \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                                                 \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                                                 \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
template <> struct cu_wgmma<CU_BF16, 128> {
    static __device__ __forceinline__ void add(float (&sum)[64], uint64_t left, uint64_t right)
    {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, "
                     "0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" CU_REGISTERS_128
                     "}, %64, %65, add, 1, 1, 0, 0;\n}"
                     : CU_EIGHT(0), CU_EIGHT(8), CU_EIGHT(16), CU_EIGHT(24), CU_EIGHT(32), CU_EIGHT(40), CU_EIGHT(48),
                       CU_EIGHT(56)
                     : "l"(left), "l"(right), "r"(1));
    }
};
template <> struct cu_wgmma<CU_F16, 128> {
    static __device__ __forceinline__ void add(float (&sum)[64], uint64_t left, uint64_t right)
    {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, "
                     "0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" CU_REGISTERS_128
                     "}, %64, %65, add, 1, 1, 0, 0;\n}"
                     : CU_EIGHT(0), CU_EIGHT(8), CU_EIGHT(16), CU_EIGHT(24), CU_EIGHT(32), CU_EIGHT(40), CU_EIGHT(48),
                       CU_EIGHT(56)
                     : "l"(left), "l"(right), "r"(1));
    }
};
#define CU_REGISTERS_160                                                                                               \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                                           \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                                                 \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                                                 \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"                                                 \
    "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
template <> struct cu_wgmma<CU_BF16, 160> {
    static __device__ __forceinline__ void add(float (&sum)[80], uint64_t left, uint64_t right)
    {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %82, "
                     "0;\nwgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 {" CU_REGISTERS_160
                     "}, %80, %81, add, 1, 1, 0, 0;\n}"
                     : CU_EIGHT(0), CU_EIGHT(8), CU_EIGHT(16), CU_EIGHT(24), CU_EIGHT(32), CU_EIGHT(40), CU_EIGHT(48),
                       CU_EIGHT(56), CU_EIGHT(64), CU_EIGHT(72)
                     : "l"(left), "l"(right), "r"(1));
    }
};
template <> struct cu_wgmma<CU_F16, 160> {
    static __device__ __forceinline__ void add(float (&sum)[80], uint64_t left, uint64_t right)
    {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %82, "
                     "0;\nwgmma.mma_async.sync.aligned.m64n160k16.f32.f16.f16 {" CU_REGISTERS_160
                     "}, %80, %81, add, 1, 1, 0, 0;\n}"
                     : CU_EIGHT(0), CU_EIGHT(8), CU_EIGHT(16), CU_EIGHT(24), CU_EIGHT(32), CU_EIGHT(40), CU_EIGHT(48),
                       CU_EIGHT(56), CU_EIGHT(64), CU_EIGHT(72)
                     : "l"(left), "l"(right), "r"(1));
    }
};
#define CU_REGISTERS_256                                                                                               \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                                           \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                                                 \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                                                 \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"                                                 \
    "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"                                                 \
    "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"                                                 \
    "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"                                     \
    "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
template <> struct cu_wgmma<CU_BF16, 256> {
    static __device__ __forceinline__ void add(float (&sum)[128], uint64_t left, uint64_t right)
    {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, "
                     "0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" CU_REGISTERS_256
                     "}, %128, %129, add, 1, 1, 0, 0;\n}"
                     : CU_EIGHT(0), CU_EIGHT(8), CU_EIGHT(16), CU_EIGHT(24), CU_EIGHT(32), CU_EIGHT(40), CU_EIGHT(48),
                       CU_EIGHT(56), CU_EIGHT(64), CU_EIGHT(72), CU_EIGHT(80), CU_EIGHT(88), CU_EIGHT(96),
                       CU_EIGHT(104), CU_EIGHT(112), CU_EIGHT(120)
                     : "l"(left), "l"(right), "r"(1));
    }
};
template <> struct cu_wgmma<CU_F16, 256> {
    static __device__ __forceinline__ void add(float (&sum)[128], uint64_t left, uint64_t right)
    {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, "
                     "0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" CU_REGISTERS_256
                     "}, %128, %129, add, 1, 1, 0, 0;\n}"
                     : CU_EIGHT(0), CU_EIGHT(8), CU_EIGHT(16), CU_EIGHT(24), CU_EIGHT(32), CU_EIGHT(40), CU_EIGHT(48),
                       CU_EIGHT(56), CU_EIGHT(64), CU_EIGHT(72), CU_EIGHT(80), CU_EIGHT(88), CU_EIGHT(96),
                       CU_EIGHT(104), CU_EIGHT(112), CU_EIGHT(120)
                     : "l"(left), "l"(right), "r"(1));
    }
};

#endif

#if CU_SM90A
/* Where a tile's rows begin, and, in steps of 32 bytes, which 16 of its columns: start in 16 bytes, eight rows 1024
 * bytes apart, swizzle 128B. */
static __device__ __forceinline__ uint64_t cu_wgmma_tile(const void *rows)
{
    return (uint64_t)((cu_shared(rows) & 0x3ffffu) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}
static __device__ __forceinline__ uint64_t cu_wgmma_columns(uint64_t tile, int sixteens) { return tile + 2 * sixteens; }
#endif

#endif
