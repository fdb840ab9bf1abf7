/* int8_lanes.h - vectors of LANES numbers of 32 bits as int8_strips.h uses them: 16 (AVX-512) or 8 (AVX2). Part of the
 * files that are compiled for these. What has one name in both is V() or W() of that name.
 */
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

INLINE __m128i sixteen(const uint8_t *b) { return _mm_loadu_si128((const __m128i *)(const void *)b); }
INLINE __m128i iq4_codes(void)
{
    return _mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)block_iq4), _mm_set1_epi8(-128));
}

#if LANES == 16
typedef __m512i vi;
typedef __m512 vf;
typedef __mmask16 some; /* of the lanes */
#define V(op) _mm512_##op
#define W(op) _mm512_##op##_si512
#define BITS _mm512_castps_si512
#define FLOATS _mm512_castsi512_ps

INLINE some below_bits(vi x, int32_t limit) { return _mm512_cmplt_epu32_mask(x, _mm512_set1_epi32(limit)); }
INLINE some at_least(some of, vf x, float limit)
{
    return of & _mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_GE_OQ);
}
/* 0 elsewhere */
INLINE vf product_in(some of, vf a, vf b) { return _mm512_maskz_mul_ps(of, a, b); }
INLINE vf quotient_in(some of, vf a, vf b) { return _mm512_maskz_div_ps(of, a, b); }
INLINE vf either(some of, vf x, vf otherwise) { return _mm512_mask_mov_ps(otherwise, of, x); }

INLINE void put_words(void *to, vi q) { _mm512_store_si512(to, q); }
INLINE void put_words_anywhere(void *to, vi q) { _mm512_storeu_si512(to, q); }
INLINE vi words_at(const void *w) { return _mm512_loadu_si512(w); }
INLINE vi in_each_quarter(__m128i table) { return _mm512_broadcast_i32x4(table); }
INLINE vf widened(const void *halves) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)halves)); }
INLINE vf halves_of(vi w) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(w)); }
INLINE vf codes_at(const int8_t *codes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen((const uint8_t *)codes)));
}
INLINE vi low_words_twice(vi x)
{
    return _mm512_shuffle_epi8(x, _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100));
}
/* a | b & c */
INLINE vi or_and(vi a, vi b, vi c) { return _mm512_ternarylogic_epi32(a, b, c, 0xf8); }
/* The high bytes of words of 16 bits. */
INLINE vi high_bytes(vi even, vi odd)
{
    return or_and(_mm512_srli_epi16(even, 8), odd, _mm512_set1_epi16((short)0xff00));
}
/* Four bits, each in the fifth bit of a byte. */
INLINE vi fifths(vi word, int at)
{
    const vi spread =
        _mm512_setr_epi32(0, 0x10, 0x1000, 0x1010, 0x100000, 0x100010, 0x101000, 0x101010, 0x10000000, 0x10000010,
                          0x10001000, 0x10001010, 0x10100000, 0x10100010, 0x10101000, 0x10101010);
    return _mm512_permutexvar_epi32(_mm512_srli_epi32(word, (unsigned)at), spread); /* looks at four bits */
}
/* Sixteen bytes of each fourth row from i on. */
INLINE vi fourth_rows(const uint8_t *const row[LANES], int i, size_t at)
{
    __m256i low = _mm256_set_m128i(sixteen(row[4 + i] + at), sixteen(row[i] + at));
    __m256i high = _mm256_set_m128i(sixteen(row[12 + i] + at), sixteen(row[8 + i] + at));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
#else
typedef __m256i vi;
typedef __m256 vf;
typedef __m256 some;
#define V(op) _mm256_##op
#define W(op) _mm256_##op##_si256
#define BITS _mm256_castps_si256
#define FLOATS _mm256_castsi256_ps

/* Both without their sign. */
INLINE some below_bits(vi x, int32_t limit) { return FLOATS(_mm256_cmpgt_epi32(_mm256_set1_epi32(limit), x)); }
INLINE some at_least(some of, vf x, float limit)
{
    return _mm256_and_ps(of, _mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_GE_OQ));
}
INLINE vf product_in(some of, vf a, vf b) { return _mm256_and_ps(of, _mm256_mul_ps(a, b)); }
INLINE vf quotient_in(some of, vf a, vf b) { return _mm256_and_ps(of, _mm256_div_ps(a, b)); }
INLINE vf either(some of, vf x, vf otherwise) { return _mm256_blendv_ps(otherwise, x, of); }

INLINE void put_words(void *to, vi q) { _mm256_store_si256((__m256i *)to, q); }
INLINE void put_words_anywhere(void *to, vi q) { _mm256_storeu_si256((__m256i *)to, q); }
INLINE vi words_at(const void *w) { return _mm256_loadu_si256((const __m256i *)w); }
INLINE vi in_each_quarter(__m128i table) { return _mm256_broadcastsi128_si256(table); }
INLINE vf widened(const void *halves) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)halves)); }
INLINE vf halves_of(vi w)
{
    __m256i low = _mm256_and_si256(w, _mm256_set1_epi32(0xffff));
    low = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(low));
}
INLINE vf codes_at(const int8_t *codes)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)codes)));
}
INLINE vi low_words_twice(vi x)
{
    return _mm256_shuffle_epi8(x, _mm256_setr_epi32(0x01000100, 0x05040504, 0x09080908, 0x0d0c0d0c, 0x01000100,
                                                    0x05040504, 0x09080908, 0x0d0c0d0c));
}
INLINE vi or_and(vi a, vi b, vi c) { return _mm256_or_si256(a, _mm256_and_si256(b, c)); }
INLINE vi high_bytes(vi even, vi odd)
{
    return or_and(_mm256_srli_epi16(even, 8), odd, _mm256_set1_epi16((short)0xff00));
}
/* Bits 0, 7, 14 and 21 of the factor move each of four bits to where it belongs, and others to where none is. */
INLINE vi fifths(vi word, int at)
{
    __m256i four = _mm256_and_si256(_mm256_srli_epi32(word, at), _mm256_set1_epi32(15));
    four = _mm256_mullo_epi32(four, _mm256_set1_epi32(0x00204081));
    return _mm256_slli_epi32(_mm256_and_si256(four, _mm256_set1_epi32(0x01010101)), 4);
}
INLINE vi fourth_rows(const uint8_t *const row[LANES], int i, size_t at)
{
    return _mm256_set_m128i(sixteen(row[4 + i] + at), sixteen(row[i] + at));
}
#endif

INLINE vf magnitude(vf x) { return FLOATS(W(and)(BITS(x), V(set1_epi32)(INT32_MAX))); }

/* Four words of LANES rows: to[i] has word i of each. */
INLINE void turn(vi to[4], const uint8_t *const row[LANES], size_t at)
{
    vi z[4];
    UNROLL for (int i = 0; i < 4; i++) z[i] = fourth_rows(row, i, at);
    vi a = V(unpacklo_epi32)(z[0], z[1]), b = V(unpackhi_epi32)(z[0], z[1]), c = V(unpacklo_epi32)(z[2], z[3]),
       d = V(unpackhi_epi32)(z[2], z[3]);
    to[0] = V(unpacklo_epi64)(a, c), to[1] = V(unpackhi_epi64)(a, c);
    to[2] = V(unpacklo_epi64)(b, d), to[3] = V(unpackhi_epi64)(b, d);
}

/* One word of each row. */
INLINE vi words(const uint8_t *const row[LANES], size_t at)
{
    uint32_t w[LANES];
    for (int i = 0; i < LANES; i++) memcpy(w + i, row[i] + at, sizeof *w);
    return words_at(w);
}
