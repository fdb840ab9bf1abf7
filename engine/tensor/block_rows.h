/* block_rows.h - reads blocks as f32: the body of block_rows_plain.c and block_rows_avx2.c, which set NAME, and what
 * they export; block.h describes the types. Layer: tensor.
 *
 * Codes are unpacked into bytes first and multiplied then, in loops of a fixed count for the vectoriser.
 */
#ifndef KILN_TENSOR_BLOCK_ROWS_H
#define KILN_TENSOR_BLOCK_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* 0: a type it does not know. */
typedef int block_reader(uint32_t dtype, const uint8_t *src, float *dst, size_t blocks);
block_reader block_rows_plain, block_rows_avx2;

#endif

#ifdef NAME
#include "kiln/plugin.h"
#include "tensor/block_scales.h"
#include "tensor/dtype.h"

#include <string.h>

/* The fifth bits of 32 codes, a bit each in h: of a byte that stands eight times each bit is kept in its own byte, and
 * carries into that byte's highest. */
static inline void add_fifth(const uint8_t *h, int8_t q[32])
{
    const uint64_t every = 0x0101010101010101u, own = 0x8040201008040201u, highest = 0x8080808080808080u;
    for (int i = 0; i < 4; i++) {
        uint64_t codes, bits = h[i] * every & own;
        memcpy(&codes, q + 8 * i, 8);
        codes |= ((bits + (highest - own)) & highest) >> 3;
        memcpy(q + 8 * i, &codes, 8);
    }
}

/* nibbles_16: of 16 bytes all low ones, then all high ones. */
#if defined __AVX2__ /* by hand: of bytes the vectoriser makes code that is several times as slow */
static inline void nibbles_16(const uint8_t *b, int8_t q[32])
{
    __m128i both = _mm_loadu_si128((const __m128i *)(const void *)b), low = _mm_set1_epi8(15),
            *to = (__m128i *)(void *)q;
    _mm_storeu_si128(to, _mm_and_si128(both, low));
    _mm_storeu_si128(to + 1, _mm_and_si128(_mm_srli_epi16(both, 4), low));
}

static inline __m256 eight(const int8_t *q, int zero)
{
    __m256i c = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)q));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(c, _mm256_set1_epi32(zero)));
}

static inline void scaled(float *dst, float d, const int8_t *q, int zero, int n)
{
    for (int j = 0; j < n; j += 8) _mm256_storeu_ps(dst + j, _mm256_mul_ps(_mm256_set1_ps(d), eight(q + j, zero)));
}

static inline void affine_32(float *dst, float d, const int8_t *q, float m)
{
    for (int j = 0; j < 32; j += 8)
        _mm256_storeu_ps(dst + j, _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(d), eight(q + j, 0)), _mm256_set1_ps(m)));
}

static inline void look_up_32(const int8_t table[16], int8_t q[32])
{
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)table), *p = (__m128i *)(void *)q;
    _mm_storeu_si128(p, _mm_shuffle_epi8(t, _mm_loadu_si128(p)));
    _mm_storeu_si128(p + 1, _mm_shuffle_epi8(t, _mm_loadu_si128(p + 1)));
}
#else
static inline void nibbles_16(const uint8_t *restrict b, int8_t q[restrict 32])
{
    for (int j = 0; j < 16; j++) q[j] = (int8_t)(b[j] & 15), q[j + 16] = (int8_t)(b[j] >> 4);
}

static inline void scaled(float *restrict dst, float d, const int8_t *restrict q, int zero, int n)
{
    for (int j = 0; j < n; j++) dst[j] = d * (float)(q[j] - zero);
}

static inline void affine_32(float *restrict dst, float d, const int8_t *restrict q, float m)
{
    for (int j = 0; j < 32; j++) dst[j] = d * (float)q[j] + m;
}

static inline void look_up_32(const int8_t table[16], int8_t q[32])
{
    for (int j = 0; j < 32; j++) q[j] = table[q[j]];
}
#endif

static inline void scaled_32(float *dst, float d, const int8_t *q, int zero) { scaled(dst, d, q, zero, 32); }
static inline void scaled_16(float *dst, float d, const int8_t *q, int zero) { scaled(dst, d, q, zero, 16); }

static void read_q4_0(const uint8_t *b, float *dst)
{
    int8_t q[32];
    nibbles_16(b + 2, q);
    scaled_32(dst, block_half(b), q, 8);
}

static void read_q4_1(const uint8_t *b, float *dst)
{
    int8_t q[32];
    nibbles_16(b + 4, q);
    affine_32(dst, block_half(b), q, block_half(b + 2));
}

static void read_q5_0(const uint8_t *b, float *dst)
{
    int8_t q[32];
    nibbles_16(b + 6, q);
    add_fifth(b + 2, q);
    scaled_32(dst, block_half(b), q, 16);
}

static void read_q5_1(const uint8_t *b, float *dst)
{
    int8_t q[32];
    nibbles_16(b + 8, q);
    add_fifth(b + 4, q);
    affine_32(dst, block_half(b), q, block_half(b + 2));
}

static void read_q8_0(const uint8_t *b, float *dst)
{
    int8_t q[32];
    memcpy(q, b + 2, 32);
    scaled_32(dst, block_half(b), q, 0);
}

static void read_q2_k(const uint8_t *b, float *dst)
{
    float d = block_half(b + 80), dmin = block_half(b + 82);
    for (int i = 0; i < 16; i++) { /* 128 elements lie in 32 bytes, two bits each */
        const uint8_t *q = b + 16 + i / 8 * 32 + i % 2 * 16;
        int shift = i % 8 / 2 * 2;
        float s = d * (float)(b[i] & 15), m = dmin * (float)(b[i] >> 4);
        for (int j = 0; j < 16; j++) dst[i * 16 + j] = s * (float)(q[j] >> shift & 3) - m;
    }
}

static void read_q3_k(const uint8_t *b, float *dst)
{
    int8_t scale[16];
    float d = block_half(b + 108);
    block_scales_q3_k(b + 96, scale);
    for (int i = 0; i < 16; i++) {
        const uint8_t *q = b + 32 + i / 8 * 32 + i % 2 * 16, *high = b + i % 2 * 16;
        int shift = i % 8 / 2 * 2, bit = i / 2;
        float s = d * (float)scale[i];
        for (int j = 0; j < 16; j++) /* the bit is set where nothing is taken off */
            dst[i * 16 + j] = s * (float)((q[j] >> shift & 3) + (high[j] >> bit & 1) * 4 - 4);
    }
}

static void read_q4_k(const uint8_t *b, float *dst)
{
    uint8_t scale[8], min[8];
    float d = block_half(b), dmin = block_half(b + 2);
    block_scales_q4_k(b + 4, scale, min);
    for (int i = 0; i < 8; i += 2) {
        const uint8_t *q = b + 16 + i * 16;
        float s[2] = {d * (float)scale[i], d * (float)scale[i + 1]};
        float m[2] = {dmin * (float)min[i], dmin * (float)min[i + 1]};
        float *low = dst + i * 32, *high = low + 32;
        for (int j = 0; j < 32; j++) low[j] = s[0] * (float)(q[j] & 15) - m[0];
        for (int j = 0; j < 32; j++) high[j] = s[1] * (float)(q[j] >> 4) - m[1];
    }
}

static void read_q5_k(const uint8_t *b, float *dst)
{
    uint8_t scale[8], min[8];
    float d = block_half(b), dmin = block_half(b + 2);
    const uint8_t *high = b + 16;
    block_scales_q4_k(b + 4, scale, min);
    for (int i = 0; i < 8; i++) {
        const uint8_t *q = b + 48 + i / 2 * 32;
        float s = d * (float)scale[i], m = dmin * (float)min[i];
        int shift = i % 2 * 4;
        for (int j = 0; j < 32; j++) dst[i * 32 + j] = s * (float)((q[j] >> shift & 15) | (high[j] >> i & 1) << 4) - m;
    }
}

/* 32 elements with two scales; `at` and `shift` are constants where it is called. */
static inline void read_32_of_q6_k(const uint8_t *low, int at, const uint8_t *high, int shift, const uint8_t *scale,
                                   float d, float *dst)
{
    int8_t q[32];
    for (int j = 0; j < 32; j++) q[j] = (int8_t)((low[j] >> at & 15) | (high[j] >> shift & 3) << 4);
    scaled_16(dst, d * (float)(int8_t)scale[0], q, 32);
    scaled_16(dst + 16, d * (float)(int8_t)scale[1], q + 16, 32);
}

static void read_q6_k(const uint8_t *b, float *dst)
{
    float d = block_half(b + 208);
    for (int i = 0; i < 2; i++) {
        const uint8_t *low = b + i * 64, *high = b + 128 + i * 32, *scale = b + 192 + i * 8;
        float *to = dst + i * 128;
        read_32_of_q6_k(low, 0, high, 0, scale, d, to);
        read_32_of_q6_k(low + 32, 0, high, 2, scale + 2, d, to + 32);
        read_32_of_q6_k(low, 4, high, 4, scale + 4, d, to + 64);
        read_32_of_q6_k(low + 32, 4, high, 6, scale + 6, d, to + 96);
    }
}

static inline void looked_up_32(const int8_t table[16], float d, const uint8_t *b, float *dst)
{
    int8_t q[32];
    nibbles_16(b, q);
    look_up_32(table, q);
    scaled_32(dst, d, q, 0);
}

static void read_iq4_nl(const uint8_t *b, float *dst) { looked_up_32(block_iq4, block_half(b), b + 2, dst); }

static void read_iq4_xs(const uint8_t *b, float *dst)
{
    float d = block_half(b);
    for (int i = 0; i < 8; i++)
        looked_up_32(block_iq4, d * (float)block_scale_iq4_xs(b, i), b + 8 + i * 16, dst + i * 32);
}

static void read_mxfp4(const uint8_t *b, float *dst) { looked_up_32(block_e2m1, block_e8m0(b[0]), b + 1, dst); }

static void read_nvfp4(const uint8_t *b, float *dst)
{
    for (int i = 0; i < 4; i++) {
        const uint8_t *q = b + 4 + i * 8;
        float d = block_ue4m3(b[i]);
        for (int j = 0; j < 8; j++) {
            dst[i * 16 + j] = d * (float)block_e2m1[q[j] & 15];
            dst[i * 16 + 8 + j] = d * (float)block_e2m1[q[j] >> 4];
        }
    }
}

#define READ(type, fn, elements, bytes)                                                                                \
    case type:                                                                                                         \
        for (size_t i = 0; i < blocks; i++) fn(src + i * (bytes), dst + i * (elements));                               \
        return 1

int NAME(uint32_t dtype, const uint8_t *src, float *dst, size_t blocks)
{
    switch (dtype) {
        READ(KILN_Q4_0, read_q4_0, 32, 18);
        READ(KILN_Q4_1, read_q4_1, 32, 20);
        READ(KILN_Q5_0, read_q5_0, 32, 22);
        READ(KILN_Q5_1, read_q5_1, 32, 24);
        READ(KILN_Q8_0, read_q8_0, 32, 34);
        READ(KILN_Q2_K, read_q2_k, 256, 84);
        READ(KILN_Q3_K, read_q3_k, 256, 110);
        READ(KILN_Q4_K, read_q4_k, 256, 144);
        READ(KILN_Q5_K, read_q5_k, 256, 176);
        READ(KILN_Q6_K, read_q6_k, 256, 210);
        READ(KILN_IQ4_NL, read_iq4_nl, 32, 18);
        READ(KILN_IQ4_XS, read_iq4_xs, 256, 136);
        READ(KILN_MXFP4, read_mxfp4, 32, 17);
        READ(KILN_NVFP4, read_nvfp4, 64, 36);
    default: return 0;
    }
}
#endif
