/* int8_kernels_avx512vnni.c - int8_kernels.h for AVX-512 with its byte products (VNNI). Only called on processors that
 * have them.
 *
 * Codes are laid out 16 outputs side by side, four inputs of each, while they are still packed: words of 16 rows are
 * turned, and nibbles and high bits are split afterwards, which is the same work for all outputs of a register.
 */
#include "backend/cpu/int8_kernels.h"

#include "kiln/plugin.h"
#include "tensor/block_scales.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* ---- the operand ---- */

INLINE int32_t sum_of(__m128i q) { return _mm512_reduce_add_epi32(_mm512_cvtepi8_epi32(q)); }

INLINE void spread(int8_part *to, size_t row, int word, __m128i codes)
{
    int32_t four[4];
    _mm_storeu_si128((__m128i *)(void *)four, codes);
    UNROLL for (int i = 0; i < 4; i++) memcpy(to->codes[word + i][row], four + i, 4);
}

static void round_row(const int8_form *f, int8_part *to, size_t row, const float *x, size_t n)
{
    enum { N = INT8_PART / 16 };
    const __m512 most = _mm512_set1_ps(0x1.fffffep127f);
    for (size_t b = 0; b < n / INT8_PART; b++, x += INT8_PART, to++) {
        __m512 v[N], all = _mm512_setzero_ps();
        __mmask16 bad = 0;
        int32_t sum[INT8_PIECES] = {0};
        UNROLL for (int i = 0; i < N; i++)
        {
            v[i] = _mm512_loadu_ps(x + 16 * i);
            bad |= _mm512_cmp_ps_mask(_mm512_abs_ps(v[i]), most, _CMP_NLE_UQ);
            all = _mm512_max_ps(all, _mm512_abs_ps(v[i]));
        }
        float largest = _mm512_reduce_max_ps(all), by = bad || largest < 0x1p-100f ? 0 : 127.0f / largest;
        to->scale[row] = bad ? NAN : by == 0 ? 0 : largest / 127.0f;
        UNROLL for (int i = 0; i < N; i++)
        {
            __mmask16 keep = bad ? 0 : 0xffff;
            __m128i q = _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(v[i], _mm512_set1_ps(by))));
            spread(to, row, 4 * i, q);
            sum[f->scales <= 1 ? 0 : i / 2] += sum_of(q);
        }
        for (size_t i = 0; i == 0 || i < f->scales; i++) to->begin[i][row] = -f->zero * sum[i];
    }
}

/* ---- codes ---- */

INLINE __m128i sixteen(const uint8_t *b) { return _mm_loadu_si128((const __m128i *)(const void *)b); }

/* Four words of 16 rows: to[i] has word i of each. */
INLINE void turn(__m512i to[4], const uint8_t *const row[16], size_t at)
{
    __m512i z[4];
    UNROLL for (int i = 0; i < 4; i++)
    {
        __m256i low = _mm256_set_m128i(sixteen(row[4 + i] + at), sixteen(row[i] + at));
        __m256i high = _mm256_set_m128i(sixteen(row[12 + i] + at), sixteen(row[8 + i] + at));
        z[i] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    __m512i a = _mm512_unpacklo_epi32(z[0], z[1]), b = _mm512_unpackhi_epi32(z[0], z[1]),
            c = _mm512_unpacklo_epi32(z[2], z[3]), d = _mm512_unpackhi_epi32(z[2], z[3]);
    to[0] = _mm512_unpacklo_epi64(a, c), to[1] = _mm512_unpackhi_epi64(a, c);
    to[2] = _mm512_unpacklo_epi64(b, d), to[3] = _mm512_unpackhi_epi64(b, d);
}

INLINE __m512i bits(__m512i q, int at, char mask)
{
    return _mm512_and_si512(_mm512_srli_epi32(q, (unsigned)at), _mm512_set1_epi8(mask));
}
INLINE __m512i iq4(__m512i q)
{
    __m128i table = _mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)block_iq4), _mm_set1_epi8(-128));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), q);
}
/* word: of a row from part `part` on, which may be beyond that part */
INLINE void put(int8_strip *to, size_t part, int word, __m512i q)
{
    _mm512_store_si512(to->codes[part + (size_t)word / INT8_WORDS][word % INT8_WORDS], q);
}

/* d q + m as integers, for 16 outputs: int8_kernels.h */
typedef struct {
    __m512i multiplier, offset; /* of 16 bits, twice */
} affine;

INLINE __m512i larger(__m512i most, __m512 x)
{
    return _mm512_max_epu32(most, _mm512_castps_si512(_mm512_abs_ps(x))); /* what is not finite is the largest */
}

/* Stores the scale; returns what makes codes, in 256ths, of numbers. */
INLINE __m512 codes_by(__m512i most, float *scale)
{
    const __m512 all = _mm512_castsi512_ps(most);
    __mmask16 good = _mm512_cmplt_epu32_mask(most, _mm512_set1_epi32(0x7f800000));
    __mmask16 there = good & _mm512_cmp_ps_mask(all, _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ);
    __m512 least = _mm512_maskz_mul_ps(there, all, _mm512_set1_ps(1 / 127.0f));
    _mm512_store_ps(scale, _mm512_mask_mov_ps(_mm512_set1_ps(NAN), good, least));
    return _mm512_mul_ps(_mm512_maskz_div_ps(there, _mm512_set1_ps(127), all), _mm512_set1_ps(256));
}

INLINE __m512i twice(__m512i x)
{
    const __m512i low = _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100);
    return _mm512_shuffle_epi8(x, low);
}

INLINE affine affine_of(__m512 d, __m512 m, __m512 by)
{
    __m512i offset = _mm512_cvtps_epi32(_mm512_fmadd_ps(m, by, _mm512_set1_ps(INT8_OFFSET)));
    return (affine){twice(_mm512_cvtps_epi32(_mm512_mul_ps(d, by))), twice(offset)};
}

/* of d (q - 32) */
INLINE affine about_32(__m512 d, __m512 by)
{
    __m512i multiplier = _mm512_cvtps_epi32(_mm512_mul_ps(d, by));
    __m512i offset = _mm512_sub_epi32(_mm512_set1_epi32(INT8_OFFSET), _mm512_slli_epi32(multiplier, 5));
    return (affine){twice(multiplier), twice(offset)};
}

INLINE __m512i rounded(affine a, __m512i q)
{
    __m512i even = _mm512_and_si512(q, _mm512_set1_epi16(255)), odd = _mm512_srli_epi16(q, 8);
    even = _mm512_add_epi16(_mm512_mullo_epi16(even, a.multiplier), a.offset);
    odd = _mm512_add_epi16(_mm512_mullo_epi16(odd, a.multiplier), a.offset);
    /* a | b & c */
    return _mm512_ternarylogic_epi32(_mm512_srli_epi16(even, 8), odd, _mm512_set1_epi16((short)0xff00), 0xf8);
}

/* Four bits, each in the fifth bit of a byte. */
INLINE __m512i fifths(__m512i word, int at)
{
    const __m512i spread =
        _mm512_setr_epi32(0, 0x10, 0x1000, 0x1010, 0x100000, 0x100010, 0x101000, 0x101010, 0x10000000, 0x10000010,
                          0x10001000, 0x10001010, 0x10100000, 0x10100010, 0x10101000, 0x10101010);
    return _mm512_permutexvar_epi32(_mm512_srli_epi32(word, (unsigned)at), spread); /* looks at four bits */
}

/* One word of each row. */
INLINE __m512i words(const uint8_t *const row[16], size_t at)
{
    uint32_t w[16];
    for (int i = 0; i < 16; i++) memcpy(w + i, row[i] + at, sizeof *w);
    return _mm512_loadu_si512(w);
}

INLINE __m512 halves_of(__m512i w) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(w)); }

/* ---- blocks of 32 ---- */

INLINE void codes_32(const uint32_t type, int8_strip *to, size_t at32, const uint8_t *const row[16], size_t at,
                     const affine *a)
{
    const size_t head = type == KILN_Q4_1 ? 4 : type == KILN_Q5_0 ? 6 : type == KILN_Q5_1 ? 8 : 2;
    const int first = 8 * (int)at32;
    __m512i t[4];
    if (type == KILN_Q8_0) {
        UNROLL for (int k = 0; k < 2; k++)
        {
            turn(t, row, at + head + 16 * (size_t)k);
            UNROLL for (int i = 0; i < 4; i++)
                put(to, 0, first + 4 * k + i, _mm512_xor_si512(t[i], _mm512_set1_epi8(-128)));
        }
        return;
    }
    turn(t, row, at + head);
    __m512i fifth = _mm512_setzero_si512();
    if (type == KILN_Q5_0 || type == KILN_Q5_1) fifth = words(row, at + head - 4);
    UNROLL for (int i = 0; i < 4; i++)
    {
        __m512i low = bits(t[i], 0, 15), high = bits(t[i], 4, 15);
        if (type == KILN_IQ4_NL) low = iq4(low), high = iq4(high);
        if (type == KILN_Q5_0 || type == KILN_Q5_1)
            low = _mm512_or_si512(low, fifths(fifth, 4 * i)), high = _mm512_or_si512(high, fifths(fifth, 16 + 4 * i));
        if (a) low = rounded(*a, low), high = rounded(*a, high);
        put(to, 0, first + i, low), put(to, 0, first + 4 + i, high);
    }
}

INLINE uint64_t four_halves(const uint8_t *const row[4], size_t at)
{
    return (uint64_t)block_u16(row[0] + at) | (uint64_t)block_u16(row[1] + at) << 16 |
           (uint64_t)block_u16(row[2] + at) << 32 | (uint64_t)block_u16(row[3] + at) << 48;
}

enum { BLOCKS_32 = INT8_DEEP / 32 };

/* Of n blocks; their minima, too, where the type has them. */
INLINE void scales_32(const uint32_t type, __m512 d[BLOCKS_32], __m512 m[BLOCKS_32], size_t n,
                      const uint8_t *const row[16], size_t bytes)
{
    uint64_t w[BLOCKS_32][2][4];
    const int both = type == KILN_Q4_1 || type == KILN_Q5_1;
    for (int i = 0; i < 4; i++)
        for (size_t p = 0; p < n; p++)
            for (size_t k = 0; k <= (size_t)both; k++) w[p][k][i] = four_halves(row + 4 * i, p * bytes + 2 * k);
    for (size_t p = 0; p < n; p++)
        for (int k = 0; k <= both; k++)
            (k ? m : d)[p] = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)w[p][k]));
}

/* What is left of the last part, n blocks in. */
static void clear_rest(int8_strip *to, size_t n)
{
    for (size_t p = n; p % INT8_PIECES; p++) {
        _mm512_store_ps(to->scale[p / INT8_PIECES][p % INT8_PIECES], _mm512_setzero_ps());
        for (int i = 0; i < 8; i++) put(to, 0, 8 * (int)p + i, _mm512_setzero_si512());
    }
}

INLINE void unpack_32(const uint32_t type, int8_strip *to, const uint8_t *const row[16], size_t n, size_t bytes)
{
    __m512 d[BLOCKS_32], m[BLOCKS_32];
    const int both = type == KILN_Q4_1 || type == KILN_Q5_1;
    scales_32(type, d, m, n, row, bytes);
    clear_rest(to, n);
    for (size_t p = 0; p < n && !both; p++) {
        _mm512_store_ps(to->scale[p / INT8_PIECES][p % INT8_PIECES], d[p]);
        codes_32(type, to, p, row, p * bytes, NULL);
    }
    for (size_t p = 0; p < n && both; p += INT8_PIECES) {
        const size_t last = p + INT8_PIECES < n ? p + INT8_PIECES : n;
        const __m512 top = _mm512_set1_ps(type == KILN_Q4_1 ? 15 : 31);
        __m512i most = _mm512_setzero_si512();
        for (size_t i = p; i < last; i++) most = larger(larger(most, m[i]), _mm512_fmadd_ps(d[i], top, m[i]));
        const __m512 by = codes_by(most, to->scale[p / INT8_PIECES][0]);
        for (size_t i = p; i < last; i++) {
            const affine a = affine_of(d[i], m[i], by);
            codes_32(type, to, i, row, i * bytes, &a);
        }
    }
}

/* ---- blocks of 256 ---- */

INLINE __m512 byte_of(__m512i w, int i)
{
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(w, (unsigned)(8 * i)), _mm512_set1_epi32(255)));
}

INLINE void scales_k(const uint32_t type, int8_strip *to, size_t part, affine a[8], const uint8_t *const row[16],
                     size_t at)
{
    __m512i h[4], s[2], m[2];
    turn(h, row, at);
    __m512 d = halves_of(h[0]), least = halves_of(_mm512_srli_epi32(h[0], 16));
    const __m512 top = _mm512_set1_ps(type == KILN_Q4_K ? 15 : 31);
    s[0] = bits(h[1], 0, 63), s[1] = _mm512_or_si512(bits(h[3], 0, 15), _mm512_slli_epi32(bits(h[1], 6, 3), 4));
    m[0] = bits(h[2], 0, 63), m[1] = _mm512_or_si512(bits(h[3], 4, 15), _mm512_slli_epi32(bits(h[2], 6, 3), 4));
    least = _mm512_sub_ps(_mm512_set1_ps(-0.0f), least);
    UNROLL for (int p = 0; p < 8; p += INT8_PIECES)
    {
        __m512 scale[INT8_PIECES], minimum[INT8_PIECES];
        __m512i most = _mm512_setzero_si512();
        UNROLL for (int i = 0; i < INT8_PIECES; i++)
        {
            scale[i] = _mm512_mul_ps(d, byte_of(s[(p + i) / 4], (p + i) % 4));
            minimum[i] = _mm512_mul_ps(least, byte_of(m[(p + i) / 4], (p + i) % 4));
            most = larger(larger(most, minimum[i]), _mm512_fmadd_ps(scale[i], top, minimum[i]));
        }
        const __m512 by = codes_by(most, to->scale[part + (size_t)p / INT8_PIECES][0]);
        UNROLL for (int i = 0; i < INT8_PIECES; i++) a[p + i] = affine_of(scale[i], minimum[i], by);
    }
}

INLINE void block_k(const uint32_t type, int8_strip *to, size_t part, const uint8_t *const row[16], size_t at)
{
    affine a[8];
    scales_k(type, to, part, a, row, at);
    const size_t head = type == KILN_Q4_K ? 16 : 48;
    for (int half = 0; half < 2; half++) { /* of the 32 bytes that two parts share */
        __m512i t[4], high[4];
        if (type == KILN_Q5_K) turn(high, row, at + 16 + 16 * (size_t)half);
        UNROLL for (int pair = 0; pair < 4; pair++)
        {
            turn(t, row, at + head + 32 * (size_t)pair + 16 * (size_t)half);
            UNROLL for (int i = 0; i < 4; i++)
            {
                __m512i low = bits(t[i], 0, 15), up = bits(t[i], 4, 15);
                if (type == KILN_Q5_K) {
                    low = _mm512_or_si512(low, _mm512_slli_epi32(bits(high[i], 2 * pair, 1), 4));
                    up = _mm512_or_si512(up, _mm512_slli_epi32(bits(high[i], 2 * pair + 1, 1), 4));
                }
                put(to, part, 16 * pair + 4 * half + i, rounded(a[2 * pair], low));
                put(to, part, 16 * pair + 8 + 4 * half + i, rounded(a[2 * pair + 1], up));
            }
        }
    }
}

INLINE void scales_q6_k(int8_strip *to, size_t part, affine a[16], const uint8_t *const row[16], size_t at)
{
    uint16_t d[16];
    __m512i s[4];
    for (int i = 0; i < 16; i++) d[i] = block_u16(row[i] + at + 208);
    turn(s, row, at + 192);
    const __m512 all = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)d));
    UNROLL for (int p = 0; p < 16; p += INT8_SUBS)
    {
        __m512 scale[INT8_SUBS];
        __m512i most = _mm512_setzero_si512();
        UNROLL for (int i = 0; i < INT8_SUBS; i++)
        {
            __m512i code = _mm512_srai_epi32(_mm512_slli_epi32(s[(p + i) / 4], (unsigned)(24 - (p + i) % 4 * 8)), 24);
            scale[i] = _mm512_mul_ps(all, _mm512_cvtepi32_ps(code));
            most = larger(most, _mm512_mul_ps(scale[i], _mm512_set1_ps(32)));
        }
        const __m512 by = codes_by(most, to->scale[part + (size_t)p / INT8_SUBS][0]);
        UNROLL for (int i = 0; i < INT8_SUBS; i++) a[p + i] = about_32(scale[i], by);
    }
}

INLINE void block_q6_k(int8_strip *to, size_t part, const uint8_t *const row[16], size_t at)
{
    affine s[16];
    scales_q6_k(to, part, s, row, at);
    for (int half = 0; half < 2; half++) UNROLL for (int piece = 0; piece < 2; piece++) /* 16 of 32 inputs */
        {
            __m512i a[4], b[4], high[4];
            const size_t first = at + 64 * (size_t)half + 16 * (size_t)piece;
            turn(a, row, first), turn(b, row, first + 32);
            turn(high, row, at + 128 + 32 * (size_t)half + 16 * (size_t)piece);
            UNROLL for (int k = 0; k < 4; k++) UNROLL for (int i = 0; i < 4; i++)
            {
                __m512i low = bits(k % 2 ? b[i] : a[i], k / 2 * 4, 15), up = bits(high[i], 2 * k, 3);
                __m512i q = _mm512_or_si512(low, _mm512_slli_epi32(up, 4));
                put(to, part, 32 * half + 8 * k + 4 * piece + i, rounded(s[8 * half + 2 * k + piece], q));
            }
        }
}

INLINE void block_iq4_xs(int8_strip *to, size_t part, const uint8_t *const row[16], size_t at)
{
    for (int i = 0; i < 16; i++)
        for (int p = 0; p < 8; p++)
            to->scale[part + (size_t)p / INT8_PIECES][p % INT8_PIECES][i] =
                block_half(row[i] + at) * (float)block_scale_iq4_xs(row[i] + at, p);
    UNROLL for (int p = 0; p < 8; p++)
    {
        __m512i t[4];
        turn(t, row, at + 8 + 16 * (size_t)p);
        UNROLL for (int i = 0; i < 4; i++)
        {
            put(to, part, 8 * p + i, iq4(bits(t[i], 0, 15)));
            put(to, part, 8 * p + 4 + i, iq4(bits(t[i], 4, 15)));
        }
    }
}

/* ---- unpacking ---- */

#define OF_32(name, type, bytes)                                                                                       \
    static void name(int8_strip *to, const uint8_t *const row[16], size_t n)                                           \
    {                                                                                                                  \
        unpack_32(type, to, row, n / 32, bytes);                                                                       \
    }
OF_32(unpack_q8_0, KILN_Q8_0, 34)
OF_32(unpack_q4_0, KILN_Q4_0, 18)
OF_32(unpack_q4_1, KILN_Q4_1, 20)
OF_32(unpack_q5_0, KILN_Q5_0, 22)
OF_32(unpack_q5_1, KILN_Q5_1, 24)
OF_32(unpack_iq4_nl, KILN_IQ4_NL, 18)

static void unpack_blocks(uint32_t type, int8_strip *to, const uint8_t *const row[16], size_t n)
{
    for (size_t p = 0, at = 0; p < n / INT8_PART; p += 256 / INT8_PART) {
        switch (type) {
        case KILN_Q4_K: block_k(KILN_Q4_K, to, p, row, at), at += 144; break;
        case KILN_Q5_K: block_k(KILN_Q5_K, to, p, row, at), at += 176; break;
        case KILN_Q6_K: block_q6_k(to, p, row, at), at += 210; break;
        default: block_iq4_xs(to, p, row, at), at += 136; break;
        }
    }
}

static void unpack_rows(int8_strip *to, const uint8_t *const row[16], size_t n)
{
    clear_rest(to, n / 32);
    for (size_t i = 0; i < n / 16; i++) {
        __m512i t[4];
        turn(t, row, 16 * i);
        UNROLL for (int k = 0; k < 4; k++) put(to, 0, 4 * (int)i + k, _mm512_xor_si512(t[k], _mm512_set1_epi8(-128)));
    }
}

static void unpack(const int8_form *f, int8_strip *to, const uint8_t *const row[INT8_STRIP], size_t n)
{
    switch (f->type) {
    case 0: unpack_rows(to, row, n); break;
    case KILN_Q8_0: unpack_q8_0(to, row, n); break;
    case KILN_Q4_0: unpack_q4_0(to, row, n); break;
    case KILN_Q4_1: unpack_q4_1(to, row, n); break;
    case KILN_Q5_0: unpack_q5_0(to, row, n); break;
    case KILN_Q5_1: unpack_q5_1(to, row, n); break;
    case KILN_IQ4_NL: unpack_iq4_nl(to, row, n); break;
    default: unpack_blocks(f->type, to, row, n); break;
    }
}

/* ---- columns ---- */

/* Codes and scales of 256 columns of a part's rows. */
typedef struct {
    int8_t code[INT8_PART][256];
    float scale[INT8_PART][16];
} square;

/* 16 numbers of input i: of x, or of columns from 16 s on of a square. */
INLINE __m512 number(const float *x, size_t ld, const square *q, size_t s, size_t i)
{
    if (x) return _mm512_loadu_ps(x + i * ld);
    return _mm512_mul_ps(_mm512_set1_ps(q->scale[i][s]),
                         _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen((const uint8_t *)q->code[i] + 16 * s))));
}

INLINE void round_strip(int8_strip *to, size_t part, const float *x, size_t ld, const square *from, size_t s)
{
    const __m512i sign = _mm512_set1_epi32(INT32_MAX), infinite = _mm512_set1_epi32(0x7f800000),
                  byte = _mm512_set1_epi32(255);
    __m512i largest = _mm512_setzero_si512(); /* as bits: what is not finite is the largest */
    for (size_t i = 0; i < INT8_PART; i++)
        largest = _mm512_max_epi32(largest, _mm512_and_si512(_mm512_castps_si512(number(x, ld, from, s, i)), sign));
    __mmask16 good = _mm512_cmplt_epi32_mask(largest, infinite);
    __m512 most = _mm512_castsi512_ps(largest);
    __mmask16 there = good & _mm512_cmp_ps_mask(most, _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ);
    __m512 by = _mm512_maskz_div_ps(there, _mm512_set1_ps(127), most);
    __m512 scale = _mm512_maskz_div_ps(there, most, _mm512_set1_ps(127));
    _mm512_store_ps(to->scale[part][0], _mm512_mask_mov_ps(_mm512_set1_ps(NAN), good, scale));
    for (size_t w = 0; w < INT8_WORDS; w++) {
        __m512i q[4];
        UNROLL for (size_t i = 0; i < 4; i++)
        {
            q[i] = _mm512_cvtps_epi32(_mm512_mul_ps(number(x, ld, from, s, 4 * w + i), by));
            if (i < 3) q[i] = _mm512_and_si512(q[i], byte); /* what is not finite is 0 */
        }
        __m512i low = _mm512_or_si512(q[0], _mm512_slli_epi32(q[1], 8)),
                high = _mm512_or_si512(q[2], _mm512_slli_epi32(q[3], 8));
        low = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
        put(to, part, (int)w, _mm512_xor_si512(low, _mm512_set1_epi8(-128)));
    }
}

static void round_columns(int8_strip to[2], size_t part, const float *x, size_t ld)
{
    for (size_t s = 0; s < 2; s++) round_strip(to + s, part, x + s * INT8_STRIP, ld, NULL, 0);
}

INLINE void read_q6_k(square *to, size_t i, const uint8_t *b)
{
    const __m512i low = _mm512_set1_epi8(15), two = _mm512_set1_epi8(3), zero = _mm512_set1_epi8(32);
    UNROLL for (int half = 0; half < 2; half++)
    {
        __m512i four = _mm512_loadu_si512(b + 64 * half);
        __m512i up = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(b + 128 + 32 * half)));
        UNROLL for (int k = 0; k < 2; k++)
        {
            __m512i high = _mm512_srlv_epi64(
                up, _mm512_set_epi64(4 * k + 2, 4 * k + 2, 4 * k + 2, 4 * k + 2, 4 * k, 4 * k, 4 * k, 4 * k));
            __m512i q = _mm512_and_si512(_mm512_srli_epi16(four, 4 * (unsigned)k), low);
            q = _mm512_or_si512(q, _mm512_slli_epi16(_mm512_and_si512(high, two), 4));
            _mm512_storeu_si512(to->code[i] + 128 * half + 64 * k, _mm512_sub_epi8(q, zero));
        }
    }
    __m512 scale = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen(b + 192)));
    _mm512_storeu_ps(to->scale[i], _mm512_mul_ps(_mm512_set1_ps(block_half(b + 208)), scale));
}

INLINE void read_q8_0(square *to, size_t i, const uint8_t *b)
{
    for (size_t k = 0; k < 8; k++, b += 34) {
        memcpy(to->code[i] + 32 * k, b + 2, 32);
        to->scale[i][2 * k] = to->scale[i][2 * k + 1] = block_half(b);
    }
}

static int round_blocks(uint32_t type, int8_strip to[16], size_t part, const uint8_t *const row[INT8_PART])
{
    square q;
    if (type != KILN_Q6_K && type != KILN_Q8_0) return 0;
    for (size_t i = 0; i < INT8_PART; i++) {
        if (type == KILN_Q6_K)
            read_q6_k(&q, i, row[i]);
        else
            read_q8_0(&q, i, row[i]);
    }
    for (size_t s = 0; s < 16; s++) round_strip(to + s, part, NULL, 0, &q, s);
    return 1;
}

/* ---- products ---- */

/* Four inputs of a row, 16 times. */
INLINE __m512i four(const int8_t *a)
{
    int32_t v;
    memcpy(&v, a, sizeof v);
    return _mm512_set1_epi32(v);
}
/* Bytes [first, last) of some rows for each part. */
typedef struct {
    const uint8_t *const *row;
    size_t rows, first, last;
    size_t stride;
} lines;
INLINE void fetch(const lines *l, size_t part)
{
    for (size_t r = part * l->rows; r < (part + 1) * l->rows && r < 2 * INT8_STRIP; r++)
        for (size_t i = l->first; i < l->last; i += 64) _mm_prefetch((const char *)l->row[r] + i, _MM_HINT_T1);
}

/* acc = sums of bytes of one part, or of piece i of it. */
INLINE void add_bytes(const int rows, const int i, const int pieces, __m512i acc[INT8_ROWS][2], const int8_strip *w,
                      size_t p, const int8_part *a)
{
    const int n = INT8_WORDS / pieces;
    UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm512_set1_epi32(a->begin[i][r]);
    UNROLL for (int k = i * n; k < (i + 1) * n; k++)
    {
        __m512i w0 = _mm512_load_si512(w[0].codes[p][k]), w1 = _mm512_load_si512(w[1].codes[p][k]);
        UNROLL for (int r = 0; r < rows; r++)
        {
            __m512i x = four(a->codes[k][r]);
            acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], w0, x);
            acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], w1, x);
        }
    }
}

INLINE void multiply_as(const int rows, const int scales, const int8_strip *w, const int8_part *a, size_t parts,
                        float *c, size_t ldc, int accumulate, const lines *l)
{
    UNROLL for (int r = 0; r < INT8_ROWS; r++) UNROLL for (int n = 0; n < 2; n++)
        _mm_prefetch((const char *)(c + (size_t)(rows + r) * ldc + 16 * n), _MM_HINT_T0);
    const int pieces = scales ? scales : 1;
    __m512 sum[INT8_ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int n = 0; n < 2; n++) sum[r][n] =
        accumulate ? _mm512_loadu_ps(c + (size_t)r * ldc + 16 * n) : _mm512_setzero_ps();
    for (size_t p = 0; p < parts; p++, a++) {
        __m512i acc[INT8_ROWS][2];
        __m512 part[INT8_ROWS][2];
        fetch(l, p);
        for (size_t i = 0; i < sizeof *a; i += 64) _mm_prefetch((const char *)(a + l->stride) + i, _MM_HINT_T0);
        UNROLL for (int i = 0; i < pieces; i++)
        {
            add_bytes(rows, i, pieces, acc, w, p, a);
            UNROLL for (int n = 0; n < 2; n++)
            {
                __m512 scale = scales ? _mm512_load_ps(w[n].scale[p][i]) : _mm512_setzero_ps();
                UNROLL for (int r = 0; r < rows; r++)
                {
                    __m512 one = _mm512_cvtepi32_ps(acc[r][n]);
                    part[r][n] = !scales ? one
                                 : i     ? _mm512_fmadd_ps(one, scale, part[r][n])
                                         : _mm512_mul_ps(one, scale);
                }
            }
        }
        UNROLL for (int n = 0; n < 2; n++) UNROLL for (int r = 0; r < rows; r++) sum[r][n] =
            _mm512_fmadd_ps(part[r][n], _mm512_set1_ps(a->scale[r]), sum[r][n]);
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int n = 0; n < 2; n++)
        _mm512_storeu_ps(c + (size_t)r * ldc + 16 * n, sum[r][n]);
}

#define ROWS_OF(n, scales)                                                                                             \
    case n:                                                                                                            \
        multiply_as(n, scales, w, a, parts, c, ldc, accumulate, &l);                                                   \
        break;
#define KIND(name, scales)                                                                                             \
    static void name(const int8_strip *w, const int8_part *a, size_t stride, size_t m, size_t parts, float *c,         \
                     size_t ldc, int accumulate, const int8_ahead *next)                                               \
    {                                                                                                                  \
        lines l = {next->row, (2 * INT8_STRIP + parts - 1) / parts, 0, 0, stride};                                     \
        size_t each = (next->bytes + 63) / 64, tiles = (m + INT8_ROWS - 1) / INT8_ROWS, tile = 0;                      \
        for (size_t left = m, n; left; left -= n) {                                                                    \
            n = left >= INT8_ROWS ? INT8_ROWS : left, tile++;                                                          \
            l.first = l.last, l.last = each * tile / tiles * 64;                                                       \
            switch (n) {                                                                                               \
                ROWS_OF(6, scales)                                                                                     \
                ROWS_OF(5, scales)                                                                                     \
                ROWS_OF(4, scales)                                                                                     \
                ROWS_OF(3, scales)                                                                                     \
                ROWS_OF(2, scales)                                                                                     \
                ROWS_OF(1, scales)                                                                                     \
            }                                                                                                          \
            a += stride, c += n * ldc;                                                                                 \
        }                                                                                                              \
    }
KIND(multiply_whole, 1)
KIND(multiply_pieces, INT8_PIECES)
KIND(multiply_codes, 0)

static void multiply(const int8_form *f, const int8_strip *w, const int8_part *a, size_t stride, size_t m, size_t parts,
                     float *c, size_t ldc, int accumulate, const int8_ahead *next)
{
    (f->scales > 1 ? multiply_pieces
     : f->scales   ? multiply_whole
                   : multiply_codes)(w, a, stride, m, parts, c, ldc, accumulate, next);
}

const int8_kernels int8_kernels_avx512vnni = {.name = "avx512vnni",
                                              .round_row = round_row,
                                              .unpack = unpack,
                                              .round_columns = round_columns,
                                              .round_blocks = round_blocks,
                                              .multiply = multiply};
