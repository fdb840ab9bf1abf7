/* cu_blocks.h - numbers of weights that are stored by blocks (tensor/block.h) or in f8, read where they lie: for
 * kernels.
 *
 * Blocks lie one behind the other as in a file, rows of whole blocks, the first one at a multiple of 64 bytes; so what
 * alignment a load may count on follows from a block's size alone. Eight neighbours share a scale in every type, and
 * their codes lie in eight bytes, which are the unit here. Products and sums are rounded apart, as tensor/block.h says:
 * the numbers are the host's bit for bit.
 */
#ifndef KILN_BACKEND_CUDA_CU_BLOCKS_H
#define KILN_BACKEND_CUDA_CU_BLOCKS_H

#include "backend/cuda/cu.h"

#ifdef KILN_CUDA_EMU
/* The emulation is compiled without contraction, so that plain operators are these functions there. */
static inline float cu_times(float a, float b) { return a * b; }
static inline float cu_plus(float a, float b) { return a + b; }
#else
static __device__ __forceinline__ float cu_times(float a, float b) { return __fmul_rn(a, b); }
static __device__ __forceinline__ float cu_plus(float a, float b) { return __fadd_rn(a, b); }
#endif

/* Elements and bytes of a block, and the power of two that its size and its codes' places are multiples of. */
template <int B> struct cu_block;
#define CU_BLOCK(type, elements, bytes, aligned)                                                                       \
    template <> struct cu_block<type> {                                                                                \
        enum { ELEMENTS = elements, BYTES = bytes, ALIGNED = aligned };                                                \
    }
CU_BLOCK(CU_Q4_0, 32, 18, 2);
CU_BLOCK(CU_Q4_1, 32, 20, 4);
CU_BLOCK(CU_Q5_0, 32, 22, 2);
CU_BLOCK(CU_Q5_1, 32, 24, 8);
CU_BLOCK(CU_Q8_0, 32, 34, 2);
CU_BLOCK(CU_Q2_K, 256, 84, 4);
CU_BLOCK(CU_Q3_K, 256, 110, 2);
CU_BLOCK(CU_Q4_K, 256, 144, 8);
CU_BLOCK(CU_Q5_K, 256, 176, 8);
CU_BLOCK(CU_Q6_K, 256, 210, 2);
CU_BLOCK(CU_IQ4_NL, 32, 18, 2);
CU_BLOCK(CU_IQ4_XS, 256, 136, 8);
CU_BLOCK(CU_MXFP4, 32, 17, 1);
CU_BLOCK(CU_NVFP4, 64, 36, 4);
CU_BLOCK(CU_F8_E4M3, 8, 8, 8);
CU_BLOCK(CU_F8_E5M2, 8, 8, 8);
CU_BLOCK(CU_INT8, 8, 8, 8);
#undef CU_BLOCK

template <int B> static __device__ __forceinline__ int cu_is_byte()
{
    return B == CU_F8_E4M3 || B == CU_F8_E5M2 || B == CU_INT8;
}

/* ---- codes ---- */

/* The codes of element `at` and of those behind it: in bytes from `low` on, shifted; what lies apart of them from
 * `high` on (of q5_0 and q5_1 a bit each in one byte). */
typedef struct {
    int low, shift, high, high_shift;
} cu_codes;

template <int B> static __device__ __forceinline__ cu_codes cu_codes_at(int at)
{
    int j = at % 32;
    cu_codes c = {0, 0, 0, 0};
    if (B == CU_Q8_0) c.low = 2 + at;
    if (B == CU_Q4_0 || B == CU_IQ4_NL) c.low = 2 + at % 16, c.shift = at / 16 * 4;
    if (B == CU_Q4_1) c.low = 4 + at % 16, c.shift = at / 16 * 4;
    if (B == CU_MXFP4) c.low = 1 + at % 16, c.shift = at / 16 * 4;
    if (B == CU_Q5_0) c.low = 6 + at % 16, c.shift = at / 16 * 4, c.high = 2 + at / 8;
    if (B == CU_Q5_1) c.low = 8 + at % 16, c.shift = at / 16 * 4, c.high = 4 + at / 8;
    if (B == CU_IQ4_XS) c.low = 8 + at / 32 * 16 + at % 16, c.shift = j / 16 * 4;
    if (B == CU_NVFP4) c.low = 4 + at / 16 * 8 + at % 8, c.shift = at % 16 / 8 * 4;
    if (B == CU_Q2_K) c.low = 16 + at / 128 * 32 + j, c.shift = at % 128 / 32 * 2;
    if (B == CU_Q3_K) c.low = 32 + at / 128 * 32 + j, c.shift = at % 128 / 32 * 2, c.high = j, c.high_shift = at / 32;
    if (B == CU_Q4_K) c.low = 16 + at / 64 * 32 + j, c.shift = at / 32 % 2 * 4;
    if (B == CU_Q5_K) c.low = 48 + at / 64 * 32 + j, c.shift = at / 32 % 2 * 4, c.high = 16 + j, c.high_shift = at / 32;
    if (B == CU_Q6_K)
        c.low = at / 128 * 64 + at % 64, c.shift = at % 128 / 64 * 4, c.high = 128 + at / 128 * 32 + j,
        c.high_shift = at % 128 / 32 * 2;
    return c;
}

/* A table of 16 int8, the first ones low. */
static __device__ __forceinline__ int cu_look_up(uint64_t low, uint64_t high, uint32_t q)
{
    return (int8_t)((q & 8 ? high : low) >> (q & 7) * 8);
}

/* What a byte of codes, and one of what lies apart, stand for; `at` is the element's number among its eight. */
template <int B> static __device__ __forceinline__ int cu_code(const cu_codes &c, uint32_t low, uint32_t high, int at)
{
    uint32_t four = low >> c.shift & 15u, two = low >> c.shift & 3u;
    if (B == CU_Q8_0) return (int8_t)low;
    if (B == CU_Q4_0) return (int)four - 8;
    if (B == CU_Q5_0) return (int)(four | (high >> at & 1u) << 4) - 16;
    if (B == CU_Q5_1) return (int)(four | (high >> at & 1u) << 4);
    if (B == CU_Q2_K) return (int)two;
    if (B == CU_Q3_K) return (int)(two | (high >> c.high_shift & 1u) << 2) - 4;
    if (B == CU_Q5_K) return (int)(four | (high >> c.high_shift & 1u) << 4);
    if (B == CU_Q6_K) return (int)(four | (high >> c.high_shift & 3u) << 4) - 32;
    /* block_iq4 and block_e2m1 of tensor/block_scales.h */
    if (B == CU_IQ4_NL || B == CU_IQ4_XS) return cu_look_up(0xf6eaddcfbfad9881u, 0x7159453526190d01u, four);
    if (B == CU_MXFP4 || B == CU_NVFP4) return cu_look_up(0x0c08060403020100u, 0xf4f8fafcfdfeff00u, four);
    return (int)four;
}

/* ---- scales ---- */

/* A number is scale * code, and of types that have least numbers + least. */
typedef struct {
    float scale, least;
} cu_scale;

template <int B> static __device__ __forceinline__ int cu_has_least()
{
    return B == CU_Q4_1 || B == CU_Q5_1 || B == CU_Q2_K || B == CU_Q4_K || B == CU_Q5_K;
}

static __device__ __forceinline__ float cu_half_at(const uint8_t *p)
{
    return __half2float(*reinterpret_cast<const __half *>(p));
}

/* Half of 2^(e - 127), and half of an f8 e4m3 without a sign: block_e8m0 and block_ue4m3. */
static __device__ __forceinline__ float cu_e8m0(uint32_t e)
{
    return __uint_as_float(e < 2 ? 0x200000u << e : (e - 1) << 23);
}
static __device__ __forceinline__ float cu_ue4m3(uint32_t v)
{
    uint32_t exponent = v >> 3 & 15u, rest = v & 7u;
    if ((v & 0x7fu) == 0x7f) return v == 0x7f ? 0.0f : __uint_as_float(0x7fc00000u);
    return exponent ? __uint_as_float((exponent + 119) << 23 | rest << 20) : (float)rest * 0.0009765625f;
}

/* b: q4_k's and q5_k's twelve bytes of scales and minima, j of 8. */
static __device__ __forceinline__ void cu_six_bits(const uint8_t *b, int j, int *scale, int *least)
{
    *scale = j < 4 ? b[j] & 63 : (b[j + 4] & 15) | b[j - 4] >> 6 << 4;
    *least = j < 4 ? b[j + 4] & 63 : b[j + 4] >> 4 | b[j] >> 6 << 4;
}

template <int B> static __device__ __forceinline__ cu_scale cu_scale_at(const uint8_t *b, int at)
{
    cu_scale s = {0, 0};
    if (B == CU_MXFP4) {
        s.scale = cu_e8m0(b[0]);
    } else if (B == CU_NVFP4) {
        s.scale = cu_ue4m3(b[at / 16]);
    } else if (B == CU_Q2_K) {
        s.scale = cu_times(cu_half_at(b + 80), (float)(b[at / 16] & 15));
        s.least = -cu_times(cu_half_at(b + 82), (float)(b[at / 16] >> 4));
    } else if (B == CU_Q3_K) {
        const uint8_t *of = b + 96;
        int j = at / 16, low = of[j % 8] >> (j / 8 * 4) & 15, high = of[8 + j % 4] >> (j / 4 * 2) & 3;
        s.scale = cu_times(cu_half_at(b + 108), (float)((low | high << 4) - 32));
    } else if (B == CU_Q4_K || B == CU_Q5_K) {
        int scale, least;
        cu_six_bits(b + 4, at / 32, &scale, &least);
        s.scale = cu_times(cu_half_at(b), (float)scale);
        s.least = -cu_times(cu_half_at(b + 2), (float)least);
    } else if (B == CU_Q6_K) {
        s.scale = cu_times(cu_half_at(b + 208), (float)(int8_t)b[192 + at / 16]);
    } else if (B == CU_IQ4_XS) {
        int i = at / 32, low = b[4 + i / 2] >> (i % 2 * 4) & 15, high = b[2 + i / 4] >> (i % 4 * 2) & 3;
        s.scale = cu_times(cu_half_at(b), (float)((low | high << 4) - 32));
    } else if (!cu_is_byte<B>()) {
        s.scale = cu_half_at(b);
        if (cu_has_least<B>()) s.least = cu_half_at(b + 2);
    }
    return s;
}

/* ---- numbers ---- */

template <int B> static __device__ __forceinline__ float cu_byte(uint32_t v)
{
    if (B == CU_INT8) return (float)(int8_t)v;
    if (B == CU_F8_E5M2) { /* f16 without its last eight bits */
        uint16_t bits = (uint16_t)(v << 8);
        __half h;
        memcpy(&h, &bits, sizeof h);
        return __half2float(h);
    }
    uint32_t sign = (v & 0x80u) << 24, exponent = v >> 3 & 15u, rest = v & 7u;
    if ((v & 0x7fu) == 0x7f) return __uint_as_float(0x7fc00000u);
    float small = (float)rest * 0.001953125f;
    return exponent ? __uint_as_float(sign | (exponent + 120) << 23 | rest << 20) : sign ? -small : small;
}

template <int B> static __device__ __forceinline__ float cu_number(const cu_scale &s, int code)
{
    float v = cu_times(s.scale, (float)code);
    return cu_has_least<B>() ? cu_plus(v, s.least) : v;
}

template <int ALIGNED> static __device__ __forceinline__ void cu_eight_bytes(const uint8_t *p, uint32_t *out)
{
    if (ALIGNED == 8) {
        uint2 v = *reinterpret_cast<const uint2 *>(p);
        out[0] = v.x, out[1] = v.y;
    } else if (ALIGNED == 4) {
        const uint32_t *q = reinterpret_cast<const uint32_t *>(p);
        out[0] = q[0], out[1] = q[1];
    } else if (ALIGNED == 2) {
        const uint16_t *q = reinterpret_cast<const uint16_t *>(p);
        out[0] = q[0] | (uint32_t)q[1] << 16, out[1] = q[2] | (uint32_t)q[3] << 16;
    } else
        for (int i = 0; i < 2; i++)
            out[i] =
                p[4 * i] | (uint32_t)p[4 * i + 1] << 8 | (uint32_t)p[4 * i + 2] << 16 | (uint32_t)p[4 * i + 3] << 24;
}

/* Elements at .. at + 7 from the first block's first; at is a multiple of 8. */
template <int B> static __device__ __forceinline__ void cu_block_read8(const void *blocks, int64_t at, float *out)
{
    const uint8_t *b = static_cast<const uint8_t *>(blocks) + at / cu_block<B>::ELEMENTS * cu_block<B>::BYTES;
    int in = (int)(at % cu_block<B>::ELEMENTS);
    cu_codes c = cu_codes_at<B>(in);
    cu_scale s = cu_scale_at<B>(b, in);
    uint32_t low[2], high[2] = {0, 0};
    cu_eight_bytes<cu_block<B>::ALIGNED>(b + c.low, low);
    if (cu_is_byte<B>()) {
#pragma unroll
        for (int i = 0; i < 8; i++) out[i] = cu_byte<B>(low[i / 4] >> i % 4 * 8 & 255u);
        return;
    }
    if (B == CU_Q3_K || B == CU_Q5_K || B == CU_Q6_K) cu_eight_bytes<cu_block<B>::ALIGNED>(b + c.high, high);
    if (B == CU_Q5_0 || B == CU_Q5_1) high[0] = high[1] = b[c.high] * 0x01010101u;
#pragma unroll
    for (int i = 0; i < 8; i++)
        out[i] = cu_number<B>(s, cu_code<B>(c, low[i / 4] >> i % 4 * 8 & 255u, high[i / 4] >> i % 4 * 8 & 255u, i));
}

/* One element. */
template <int B> static __device__ __forceinline__ float cu_block_read1(const void *blocks, int64_t at)
{
    const uint8_t *b = static_cast<const uint8_t *>(blocks) + at / cu_block<B>::ELEMENTS * cu_block<B>::BYTES;
    int in = (int)(at % cu_block<B>::ELEMENTS);
    cu_codes c = cu_codes_at<B>(in);
    if (cu_is_byte<B>()) return cu_byte<B>(b[in]);
    return cu_number<B>(cu_scale_at<B>(b, in), cu_code<B>(c, b[c.low], b[c.high], in % 8));
}

#define CU_EACH_BLOCK(X)                                                                                               \
    X(CU_Q4_0)                                                                                                         \
    X(CU_Q4_1)                                                                                                         \
    X(CU_Q5_0)                                                                                                         \
    X(CU_Q5_1)                                                                                                         \
    X(CU_Q8_0)                                                                                                         \
    X(CU_Q2_K)                                                                                                         \
    X(CU_Q3_K)                                                                                                         \
    X(CU_Q4_K)                                                                                                         \
    X(CU_Q5_K)                                                                                                         \
    X(CU_Q6_K)                                                                                                         \
    X(CU_IQ4_NL)                                                                                                       \
    X(CU_IQ4_XS)                                                                                                       \
    X(CU_MXFP4)                                                                                                        \
    X(CU_NVFP4)                                                                                                        \
    X(CU_F8_E4M3)                                                                                                      \
    X(CU_F8_E5M2)                                                                                                      \
    X(CU_INT8)

/* The same of a type that is known when the kernel runs. */
static __device__ __forceinline__ void cu_blocks_read8(int block, const void *blocks, int64_t at, float *out)
{
#define CU_READ(type)                                                                                                  \
    case type: cu_block_read8<type>(blocks, at, out); break;
    switch (block) {
        CU_EACH_BLOCK(CU_READ)
    default: break;
    }
#undef CU_READ
}
static __device__ __forceinline__ float cu_blocks_read1(int block, const void *blocks, int64_t at)
{
#define CU_READ(type)                                                                                                  \
    case type: return cu_block_read1<type>(blocks, at);
    switch (block) {
        CU_EACH_BLOCK(CU_READ)
    default: return 0;
    }
#undef CU_READ
}

/* ---- stored weights: elements by their number, row by row ---- */

static __device__ __forceinline__ float cu_stored_scale(const cu_stored &s, int64_t at)
{
    return s.scale[at / s.columns * s.scales + at % s.columns / s.scale_columns];
}

static __device__ __forceinline__ float cu_nibble(const cu_stored &s, int64_t at)
{
    uint32_t both = static_cast<const uint8_t *>(s.rows)[at / 2];
    return s.codebook[at % 2 ? both & 15u : both >> 4];
}

/* Elements at .. at + 7; at is a multiple of 8, and eight of a row share a scale. */
static __device__ __forceinline__ void cu_stored_read8(const cu_stored &s, int64_t at, float *out)
{
    if (s.block == CU_NIBBLES)
        for (int i = 0; i < 8; i++) out[i] = cu_nibble(s, at + i);
    else
        cu_blocks_read8(s.block, s.rows, at, out);
    if (!s.scale) return;
    float scale = cu_stored_scale(s, at);
    for (int i = 0; i < 8; i++) out[i] = cu_times(out[i], scale);
}
static __device__ __forceinline__ float cu_stored_read1(const cu_stored &s, int64_t at)
{
    float v = s.block == CU_NIBBLES ? cu_nibble(s, at) : cu_blocks_read1(s.block, s.rows, at);
    return s.scale ? cu_times(v, cu_stored_scale(s, at)) : v;
}

#endif
