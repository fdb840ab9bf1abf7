/* dtype_avx2.c - eight elements at a time between f32, f16 and bf16; the same bits as the plain loops of dtype.c. */
#include "tensor/dtype_fast.h"

#include "kiln/plugin.h"

#include <immintrin.h>

static inline __m256 load8(const unsigned char *p, uint32_t dtype)
{
    if (dtype == KILN_F32) return _mm256_loadu_ps((const float *)(const void *)p);
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)p);
    if (dtype == KILN_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* To nearest even, NaN made quiet. */
static inline __m128i to_bf16(__m256 v)
{
    __m256i u = _mm256_castps_si256(v), high = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    __m256i r = _mm256_blendv_epi8(rounded, quiet, nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}

static inline void store8(unsigned char *p, uint32_t dtype, __m256 v)
{
    if (dtype == KILN_F32)
        _mm256_storeu_ps((float *)(void *)p, v);
    else if (dtype == KILN_F16)
        _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    else
        _mm_storeu_si128((__m128i *)(void *)p, to_bf16(v));
}

#define LOOP(to, from, to_size, from_size)                                                                             \
    if (dst_dtype == (to) && src_dtype == (from)) {                                                                    \
        for (; i + 8 <= n; i += 8) store8(d + i * (to_size), to, load8(s + i * (from_size), from));                    \
        return i;                                                                                                      \
    }

size_t dtype_convert_avx2(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype, size_t n)
{
    unsigned char *d = dst;
    const unsigned char *s = src;
    size_t i = 0;
    LOOP(KILN_F32, KILN_F16, 4, 2)
    LOOP(KILN_F32, KILN_BF16, 4, 2)
    LOOP(KILN_BF16, KILN_F32, 2, 4)
    LOOP(KILN_BF16, KILN_F16, 2, 2)
    LOOP(KILN_F16, KILN_F32, 2, 4)
    LOOP(KILN_F16, KILN_BF16, 2, 2)
    return 0;
}
