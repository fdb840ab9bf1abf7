/* cu_mma.h - a warp's tensor-core instructions and asynchronous copies, by the names of what they do. Source: PTX ISA,
 * "mma.sync .m16n8k16", ".m16n8k8", "ldmatrix", "cp.async".
 *
 * Operands in registers, g = lane / 4 and t = lane % 4; a register has two elements of 16 bits, the lower column low:
 *
 *     left  16 x 16   a[0] row g, columns 2t 2t+1    a[1] row g+8    a[2] row g, columns 2t+8 2t+9    a[3] row g+8
 *     right 16 x 8    b0 rows 2t 2t+1 of column g    b1 rows 2t+8 2t+9
 *     sum   16 x 8    c[0] c[1] row g, columns 2t 2t+1    c[2] c[3] row g+8
 *
 * So a[0] a[1] and b0 are the operands of the instruction of half that depth, a[2] a[3] and b1 those of the next eight:
 * sm_75, whose tensor cores multiply f16 and no bf16, does it in those two. It has no asynchronous copies either: there
 * a copy is done when it is asked for.
 *
 * tests/cuda_emu has the instructions on the host, by this table: so indices are tested where no GPU is; speed is not.
 */
#ifndef KILN_BACKEND_CUDA_CU_MMA_H
#define KILN_BACKEND_CUDA_CU_MMA_H

#include "backend/cuda/cu.h"

/* ---- instructions: each by itself ---- */

#ifdef KILN_CUDA_EMU
#include "cu_shim_mma.h"
#else

#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800
#define CU_SM80(text) text
static __device__ __forceinline__ constexpr int cu_before_sm80() { return 0; }
#else
#define CU_SM80(text) __trap() /* never reached there: cuda_on_tensor_cores, cu_before_sm80 */
static __device__ __forceinline__ constexpr int cu_before_sm80() { return 1; }
#endif

static __device__ __forceinline__ uint32_t cu_shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

#define CU_MMA16(name, type)                                                                                           \
    static __device__ __forceinline__ void name(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)                 \
    {                                                                                                                  \
        CU_SM80(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                                    \
                             ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                              \
                             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                          \
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)));                         \
    }
CU_MMA16(cu_mma16_bf16, "bf16")
CU_MMA16(cu_mma16_f16, "f16")

static __device__ __forceinline__ void cu_mma8_f16(float *c, uint32_t a0, uint32_t a1, uint32_t b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(b));
}

/* Four 8 x 8 matrices of 16 bits; lane 8 i + r gives the address of row r (16 bytes) of matrix i, whose element (g, 2t)
 * (g, 2t+1) comes into r[i]. turned: (2t, g) (2t+1, g) instead. */
static __device__ __forceinline__ void cu_matrices(uint32_t *r, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(cu_shared_address(row))
                 : "memory");
}
static __device__ __forceinline__ void cu_matrices_turned(uint32_t *r, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(cu_shared_address(row))
                 : "memory");
}

static __device__ __forceinline__ void cu_async16(void *to, const void *from, int there)
{
    CU_SM80(asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(cu_shared_address(to)), "l"(from),
                         "r"(there ? 16 : 0)
                         : "memory"));
}
static __device__ __forceinline__ void cu_async_group()
{
    CU_SM80(asm volatile("cp.async.commit_group;" ::: "memory"));
}
template <int n> static __device__ __forceinline__ void cu_async_wait()
{
    CU_SM80(asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory"));
}

#endif

/* ---- what kernels call ---- */

/* sum += left right, of CU_BF16 or CU_F16 */
template <int TYPE> static __device__ __forceinline__ void cu_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    if (TYPE == CU_BF16)
        cu_mma16_bf16(c, a, b0, b1);
    else if (!cu_before_sm80())
        cu_mma16_f16(c, a, b0, b1);
    else
        cu_mma8_f16(c, a[0], a[1], b0), cu_mma8_f16(c, a[2], a[3], b1);
}

/* 16 bytes to shared memory, later; zeros when there is nothing to copy (from is not looked at then). */
static __device__ __forceinline__ void cu_copy16(void *to, const void *from, int there)
{
    if (!cu_before_sm80())
        cu_async16(to, from, there);
    else
        *static_cast<uint4 *>(to) = there ? __ldg(static_cast<const uint4 *>(from))
                                          : make_uint4(0, 0, 0, 0); /* a load that may pass the stores before it */
}
/* What was asked for so far is a group; cu_copy_wait<n> waits until no more than n groups are under way (this
 * thread's). */
static __device__ __forceinline__ void cu_copy_group()
{
    if (!cu_before_sm80()) cu_async_group();
}
template <int n> static __device__ __forceinline__ void cu_copy_wait()
{
    if (!cu_before_sm80()) cu_async_wait<n>();
}

#endif
