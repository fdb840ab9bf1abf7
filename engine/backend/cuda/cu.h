/* cu.h - what the kernels (.cu) of this folder share: CUDA's own headers, or their stand-in; elements as floats;
 * activations.
 *
 * A kernel is compiled twice: by nvcc for the device, and, with KILN_CUDA_EMU, as plain C++ over tests/cuda_emu, where
 * threads of a block are run by turns on the host. So it keeps to what both know: CU_LAUNCH instead of <<<>>>,
 * CU_DYNAMIC_SHARED, and the few instructions of cu_mma.h.
 *
 * Numbers. Storage is f32, bf16 or f16; arithmetic is f32. Nothing is summed by atomic operations, and how sums are cut
 * depends on shapes alone, so equal runs give equal bytes.
 */
#ifndef KILN_BACKEND_CUDA_CU_H
#define KILN_BACKEND_CUDA_CU_H

#include "backend/cuda/launch.h"

#ifdef KILN_CUDA_EMU
#include "cu_shim.h"
#define CU_LAUNCH(kernel, grid, block, shared, stream, ...)                                                            \
    cu_emu_enqueue(#kernel, stream, grid, block, shared, kernel, __VA_ARGS__)
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define CU_DYNAMIC_SHARED(type, name)                                                                                  \
    extern __shared__ __align__(16) unsigned char cu_dynamic[];                                                        \
    type *name = reinterpret_cast<type *>(cu_dynamic)
template <class K, class... A>
static inline cudaError_t cu_launch(K kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t stream, A... a)
{
    kernel<<<grid, block, shared, stream>>>(a...);
    return cudaGetLastError();
}
#define CU_LAUNCH(kernel, grid, block, shared, stream, ...) cu_launch(kernel, grid, block, shared, stream, __VA_ARGS__)
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- numbers ---- */

static __device__ __forceinline__ float cu_bf16(uint16_t v) { return __uint_as_float((uint32_t)v << 16); }
static __device__ __forceinline__ uint16_t cu_to_bf16(float f)
{
#if !defined KILN_CUDA_EMU && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800 /* one instruction; NaN becomes 7fff */
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    return bits;
#else
    uint32_t u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
#endif
}
/* 2^x within 2 units of f32's last place; what is below its normal numbers is 0. */
static __device__ __forceinline__ float cu_exp2(float x)
{
#if !defined KILN_CUDA_EMU && defined __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    float y = exp2f(x);
    return y < 0x1p-126f ? 0.0f : y;
#endif
}

/* Two neighbours of CU_BF16 or CU_F16 in a register, the first one low. */
template <int TYPE> static __device__ __forceinline__ uint32_t cu_pair(float low, float high)
{
#if !defined KILN_CUDA_EMU && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
    if (TYPE == CU_BF16) {
        uint32_t both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
        return both;
    }
#endif
    if (TYPE == CU_BF16) return (uint32_t)cu_to_bf16(low) | (uint32_t)cu_to_bf16(high) << 16;
    __half2 h = __floats2half2_rn(low, high);
    uint32_t pair;
    memcpy(&pair, &h, sizeof pair);
    return pair;
}
template <int TYPE> static __device__ __forceinline__ void cu_unpair(float *out, uint32_t pair)
{
    if (TYPE == CU_BF16) {
        out[0] = __uint_as_float(pair << 16), out[1] = __uint_as_float(pair & 0xffff0000u);
        return;
    }
    __half2 h;
    memcpy(&h, &pair, sizeof h);
    out[0] = __low2float(h), out[1] = __high2float(h);
}

static __device__ __forceinline__ float cu_load(const void *p, int type, int64_t at)
{
    if (type == CU_F32) return static_cast<const float *>(p)[at];
    if (type == CU_BF16) return cu_bf16(static_cast<const uint16_t *>(p)[at]);
    return __half2float(static_cast<const __half *>(p)[at]);
}
/* In f16's range; NaN stays. */
static __device__ __forceinline__ float cu_saturated(float v)
{
    return v > 65504.0f ? 65504.0f : v < -65504.0f ? -65504.0f : v;
}
static __device__ __forceinline__ void cu_store(void *p, int type, int64_t at, float v)
{
    if (type == CU_F32)
        static_cast<float *>(p)[at] = v;
    else if (type == CU_BF16)
        static_cast<uint16_t *>(p)[at] = cu_to_bf16(v);
    else
        static_cast<__half *>(p)[at] = __float2half_rn(type == CU_F16_SATURATED ? cu_saturated(v) : v);
}

template <int TYPE> static __device__ __forceinline__ void cu_load_halves(float *out, const void *p)
{
    uint4 a = *static_cast<const uint4 *>(p);
    cu_unpair<TYPE>(out, a.x), cu_unpair<TYPE>(out + 2, a.y), cu_unpair<TYPE>(out + 4, a.z),
        cu_unpair<TYPE>(out + 6, a.w);
}
template <int TYPE> static __device__ __forceinline__ void cu_store_halves(void *p, const float *v)
{
    *static_cast<uint4 *>(p) = make_uint4(cu_pair<TYPE>(v[0], v[1]), cu_pair<TYPE>(v[2], v[3]),
                                          cu_pair<TYPE>(v[4], v[5]), cu_pair<TYPE>(v[6], v[7]));
}

/* V neighbours at once: 1, or 8 of an address that is a multiple of 16 bytes. */
template <int V> static __device__ __forceinline__ void cu_load_row(float *out, const void *p, int type, int64_t at)
{
    if (V == 8 && type == CU_F32) {
        const float4 *q = reinterpret_cast<const float4 *>(static_cast<const float *>(p) + at);
        float4 a = q[0], b = q[1];
        out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w, out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
    } else if (V == 8 && type == CU_BF16)
        cu_load_halves<CU_BF16>(out, static_cast<const uint16_t *>(p) + at);
    else if (V == 8)
        cu_load_halves<CU_F16>(out, static_cast<const uint16_t *>(p) + at);
    else
        for (int i = 0; i < V; i++) out[i] = cu_load(p, type, at + i);
}
template <int V> static __device__ __forceinline__ void cu_store_row(void *p, int type, int64_t at, const float *v)
{
    if (V == 8 && type == CU_F32) {
        float4 *q = reinterpret_cast<float4 *>(static_cast<float *>(p) + at);
        q[0] = make_float4(v[0], v[1], v[2], v[3]), q[1] = make_float4(v[4], v[5], v[6], v[7]);
    } else if (V == 8 && type == CU_BF16)
        cu_store_halves<CU_BF16>(static_cast<uint16_t *>(p) + at, v);
    else if (V == 8 && type == CU_F16)
        cu_store_halves<CU_F16>(static_cast<uint16_t *>(p) + at, v);
    else
        for (int i = 0; i < V; i++) cu_store(p, type, at + i, v[i]);
}

/* ---- activations: include/kiln/ops.h has the formulas ---- */

static __device__ __forceinline__ float cu_gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }

static __device__ __forceinline__ float cu_act(int act, float x)
{
    switch (act) {
    case CU_ACT_SILU: return x / (1.0f + expf(-x));
    case CU_ACT_GELU: return cu_gelu(x);
    case CU_ACT_GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    case CU_ACT_QUICK_GELU: return x / (1.0f + expf(-1.702f * x));
    case CU_ACT_RELU: return x > 0 || x != x ? x : 0; /* NaN stays */
    case CU_ACT_SIGMOID: return 1.0f / (1.0f + expf(-x));
    case CU_ACT_TANH: return tanhf(x);
    default: return x;
    }
}

/* The epilogue of a GEMM: activation, the gate of a geglu, the residual. */
static __device__ __forceinline__ float cu_finish(const cu_epilogue &f, float v, int64_t row, int64_t column)
{
    v = cu_act(f.act, v);
    if (f.residual) v += cu_load(f.residual, f.residual_type, row * f.residual_ld + column);
    return v;
}

#endif
