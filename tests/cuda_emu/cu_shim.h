/* cu_shim.h - CUDA's words for kernels that run on the host: what engine/backend/cuda's .cu files need, and no more.
 *
 * Each thread of a block is a fiber of one host thread. A fiber runs until it has to wait for others (__syncthreads, a
 * shuffle, a tensor-core instruction); who goes on then is drawn at random from a seed, and so are the order of blocks
 * and which warps rest for a while, so that a missing barrier shows as other bytes under some seed. Shared memory is
 * filled with 0xFF (NaN) before each block and has guards behind it. What no kernel may do is said on standard output
 * and counted: cu_emu_faults().
 */
#ifndef KILN_TESTS_CU_SHIM_H
#define KILN_TESTS_CU_SHIM_H

#include "cu_emu.h"
#include <cuda_runtime_api.h> /* fake/: types and the host's functions */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static __attribute__((section("cu_shared")))
#define CU_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(cu_emu_dynamic())

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint2 make_uint2(uint32_t x, uint32_t y) { return uint2{x, y}; }
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return uint4{x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return float2{x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }

static inline float __uint_as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t __float_as_uint(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

template <class T> static inline T __ldg(const T *p) { return *p; }
struct __half {
    uint16_t bits;
};
float __half2float(__half h);
__half __float2half_rn(float f);
struct __half2 {
    __half x, y;
};
static inline __half2 __floats2half2_rn(float x, float y) { return __half2{__float2half_rn(x), __float2half_rn(y)}; }
static inline float __low2float(__half2 h) { return __half2float(h.x); }
static inline float __high2float(__half2 h) { return __half2float(h.y); }

/* ---- the running thread ---- */

typedef struct {
    dim3 thread, block, block_dim, grid_dim;
    unsigned number; /* in the block */
} cu_emu_thread;
extern cu_emu_thread *cu_emu_now;
#define threadIdx (cu_emu_now->thread)
#define blockIdx (cu_emu_now->block)
#define blockDim (cu_emu_now->block_dim)
#define gridDim (cu_emu_now->grid_dim)

void __syncthreads();
void __syncwarp(uint32_t mask = 0xffffffffu);
unsigned char *cu_emu_dynamic();

enum { CU_EMU_SLOT = 64 };
/* Each lane of the warp that `mask` names gives `bytes`; all come back together. What lane i gave is at [i *
 * CU_EMU_SLOT], until the caller waits again; of lanes that the mask does not name it is 0xFF. */
const unsigned char *cu_emu_exchange(uint32_t mask, const void *mine, unsigned bytes);
static inline unsigned cu_emu_lane() { return cu_emu_now->number % 32; }

template <class T> static inline T __shfl_xor_sync(uint32_t mask, T v, int by)
{
    const unsigned char *all = cu_emu_exchange(mask, &v, sizeof v);
    T r;
    memcpy(&r, all + (cu_emu_lane() ^ (unsigned)by) * CU_EMU_SLOT, sizeof r);
    return r;
}

/* 1: the chip is older than sm_80. An instruction is counted, and one that the chip does not have is a fault. */
int cu_emu_before_sm80();
void cu_emu_instruction(cu_emu_kind kind);

/* This thread's asynchronous copies: they happen when they are waited for. */
void cu_emu_copy_later(void *to, const void *from, int there);
void cu_emu_copy_group();
void cu_emu_copy_wait(unsigned groups);

/* ---- launching ---- */

/* A stream of the fake device gets it; it happens some time. */
cudaError_t cu_emu_give(cudaStream_t stream, std::function<void()> work);
void cu_emu_run(const char *name, dim3 grid, dim3 block, size_t shared, size_t shared_allowed,
                const std::function<void()> &thread);

/* Dynamic shared memory of a launch: 48 KiB, or what the kernel asked for, up to 227 KiB. */
size_t cu_emu_shared_allowed(const void *kernel);
cudaError_t cu_emu_allow_shared(const void *kernel, enum cudaFuncAttribute attribute, int bytes);
template <class... P>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), enum cudaFuncAttribute attribute, int value)
{
    return cu_emu_allow_shared(reinterpret_cast<const void *>(kernel), attribute, value);
}

template <class... P, class... A>
static inline cudaError_t cu_emu_enqueue(const char *name, cudaStream_t stream, dim3 grid, dim3 block, size_t shared,
                                         void (*kernel)(P...), A... given)
{
    std::tuple<P...> args(given...);
    size_t allowed = cu_emu_shared_allowed(reinterpret_cast<const void *>(kernel));
    return cu_emu_give(stream,
                       [=] { cu_emu_run(name, grid, block, shared, allowed, [&] { std::apply(kernel, args); }); });
}

#endif
