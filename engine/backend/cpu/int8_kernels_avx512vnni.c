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
    const __m512 largest = _mm512_set1_ps(0x1.fffffep127f);
    for (size_t b = 0; b < n / INT8_PART; b++, x += INT8_PART, to++) {
        __m512 u = _mm512_loadu_ps(x), v = _mm512_loadu_ps(x + 16), au = _mm512_abs_ps(u), av = _mm512_abs_ps(v);
        __mmask16 bad = _mm512_cmp_ps_mask(au, largest, _CMP_NLE_UQ) | _mm512_cmp_ps_mask(av, largest, _CMP_NLE_UQ);
        float most = _mm512_reduce_max_ps(_mm512_max_ps(au, av)), by = most < 0x1p-100f ? 0 : 127.0f / most;
        to->scale[row] = bad ? NAN : by == 0 ? 0 : most / 127.0f;
        __m512 all = _mm512_set1_ps(bad ? 0 : by);
        __mmask16 keep = bad ? 0 : 0xffff;
        __m128i low = _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(u, all))),
                high = _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(v, all)));
        spread(to, row, 0, low), spread(to, row, 4, high);
        int32_t first = sum_of(low), second = sum_of(high);
        float whole = (float)(first + second);
        if (f->halves == 2)
            to->rest[0][row] = (uint32_t)(-f->zero * first), to->rest[1][row] = (uint32_t)(-f->zero * second);
        else if (f->minima)
            memcpy(&to->rest[0][row], &whole, sizeof whole);
        else
            to->rest[0][row] = (uint32_t)(-f->zero * (first + second));
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
INLINE void put(int8_strip *to, size_t part, int word, __m512i q) { _mm512_store_si512(to->codes[part][word], q); }

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

INLINE void codes_32(const uint32_t type, int8_strip *to, size_t part, const uint8_t *const row[16], size_t at)
{
    const size_t head = type == KILN_Q4_1 ? 4 : type == KILN_Q5_0 ? 6 : type == KILN_Q5_1 ? 8 : 2;
    __m512i t[4];
    if (type == KILN_Q8_0) {
        UNROLL for (int k = 0; k < 2; k++)
        {
            turn(t, row, at + head + 16 * (size_t)k);
            UNROLL for (int i = 0; i < 4; i++) put(to, part, 4 * k + i, _mm512_xor_si512(t[i], _mm512_set1_epi8(-128)));
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
        put(to, part, i, low), put(to, part, 4 + i, high);
    }
}

INLINE uint64_t four_halves(const uint8_t *const row[4], size_t at)
{
    return (uint64_t)block_u16(row[0] + at) | (uint64_t)block_u16(row[1] + at) << 16 |
           (uint64_t)block_u16(row[2] + at) << 32 | (uint64_t)block_u16(row[3] + at) << 48;
}

INLINE void scales_32(const uint32_t type, int8_strip *to, size_t parts, const uint8_t *const row[16], size_t bytes)
{
    uint64_t w[INT8_PARTS][2][4];
    const int both = type == KILN_Q4_1 || type == KILN_Q5_1;
    for (int i = 0; i < 4; i++)
        for (size_t p = 0; p < parts; p++)
            for (size_t k = 0; k <= (size_t)both; k++) w[p][k][i] = four_halves(row + 4 * i, p * bytes + 2 * k);
    for (size_t p = 0; p < parts; p++)
        for (int k = 0; k <= both; k++) {
            __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)w[p][k]);
            _mm512_store_ps(k ? to->minimum[p] : to->scale[p][0], _mm512_cvtph_ps(halves));
        }
}

/* ---- blocks of 256 ---- */

INLINE __m512 byte_of(__m512i w, int i)
{
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(w, (unsigned)(8 * i)), _mm512_set1_epi32(255)));
}

INLINE void scales_k(int8_strip *to, size_t part, const uint8_t *const row[16], size_t at)
{
    __m512i h[4], s[2], m[2];
    turn(h, row, at);
    __m512 d = halves_of(h[0]), least = halves_of(_mm512_srli_epi32(h[0], 16));
    s[0] = bits(h[1], 0, 63), s[1] = _mm512_or_si512(bits(h[3], 0, 15), _mm512_slli_epi32(bits(h[1], 6, 3), 4));
    m[0] = bits(h[2], 0, 63), m[1] = _mm512_or_si512(bits(h[3], 4, 15), _mm512_slli_epi32(bits(h[2], 6, 3), 4));
    least = _mm512_sub_ps(_mm512_set1_ps(-0.0f), least);
    UNROLL for (int i = 0; i < 8; i++)
    {
        _mm512_store_ps(to->scale[part + (size_t)i][0], _mm512_mul_ps(d, byte_of(s[i / 4], i % 4)));
        _mm512_store_ps(to->minimum[part + (size_t)i], _mm512_mul_ps(least, byte_of(m[i / 4], i % 4)));
    }
}

INLINE void block_k(const uint32_t type, int8_strip *to, size_t part, const uint8_t *const row[16], size_t at)
{
    scales_k(to, part, row, at);
    const size_t head = type == KILN_Q4_K ? 16 : 48;
    for (int half = 0; half < 2; half++) { /* of the 32 bytes that two parts share */
        __m512i t[4], high[4];
        if (type == KILN_Q5_K) turn(high, row, at + 16 + 16 * (size_t)half);
        UNROLL for (int pair = 0; pair < 4; pair++)
        {
            turn(t, row, at + head + 32 * (size_t)pair + 16 * (size_t)half);
            UNROLL for (int i = 0; i < 4; i++)
            {
                __m512i a = bits(t[i], 0, 15), b = bits(t[i], 4, 15);
                if (type == KILN_Q5_K) {
                    a = _mm512_or_si512(a, _mm512_slli_epi32(bits(high[i], 2 * pair, 1), 4));
                    b = _mm512_or_si512(b, _mm512_slli_epi32(bits(high[i], 2 * pair + 1, 1), 4));
                }
                put(to, part + 2 * (size_t)pair, 4 * half + i, a);
                put(to, part + 2 * (size_t)pair + 1, 4 * half + i, b);
            }
        }
    }
}

INLINE void block_q6_k(int8_strip *to, size_t part, const uint8_t *const row[16], size_t at)
{
    uint16_t d[16];
    __m512i s[4];
    for (int i = 0; i < 16; i++) d[i] = block_u16(row[i] + at + 208);
    turn(s, row, at + 192);
    for (size_t half = 0; half < 2; half++) UNROLL for (int piece = 0; piece < 2; piece++) /* 16 of 32 inputs */
        {
            __m512i a[4], b[4], high[4];
            turn(a, row, at + half * 64 + 16 * (size_t)piece), turn(b, row, at + half * 64 + 32 + 16 * (size_t)piece);
            turn(high, row, at + 128 + half * 32 + 16 * (size_t)piece);
            UNROLL for (int k = 0; k < 4; k++) UNROLL for (int i = 0; i < 4; i++)
            {
                __m512i low = bits(k % 2 ? b[i] : a[i], k / 2 * 4, 15), up = bits(high[i], 2 * k, 3);
                put(to, part + 4 * half + (size_t)k, 4 * piece + i, _mm512_or_si512(low, _mm512_slli_epi32(up, 4)));
            }
        }
    __m512 all = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)d));
    UNROLL for (int i = 0; i < 16; i++)
    {
        __m512i code = _mm512_srai_epi32(_mm512_slli_epi32(s[i / 4], (unsigned)(24 - i % 4 * 8)), 24);
        _mm512_store_ps(to->scale[part + (size_t)i / 2][i % 2], _mm512_mul_ps(all, _mm512_cvtepi32_ps(code)));
    }
}

INLINE void block_iq4_xs(int8_strip *to, size_t part, const uint8_t *const row[16], size_t at)
{
    for (int i = 0; i < 16; i++)
        for (int p = 0; p < 8; p++)
            to->scale[part + (size_t)p][0][i] = block_half(row[i] + at) * (float)block_scale_iq4_xs(row[i] + at, p);
    UNROLL for (int p = 0; p < 8; p++)
    {
        __m512i t[4];
        turn(t, row, at + 8 + 16 * (size_t)p);
        UNROLL for (int i = 0; i < 4; i++)
        {
            put(to, part + (size_t)p, i, iq4(bits(t[i], 0, 15)));
            put(to, part + (size_t)p, 4 + i, iq4(bits(t[i], 4, 15)));
        }
    }
}

/* ---- unpacking ---- */

#define OF_32(name, type, bytes)                                                                                       \
    static void name(int8_strip *to, const uint8_t *const row[16], size_t parts)                                       \
    {                                                                                                                  \
        scales_32(type, to, parts, row, bytes);                                                                        \
        for (size_t p = 0; p < parts; p++) codes_32(type, to, p, row, p *bytes);                                       \
    }
OF_32(unpack_q8_0, KILN_Q8_0, 34)
OF_32(unpack_q4_0, KILN_Q4_0, 18)
OF_32(unpack_q4_1, KILN_Q4_1, 20)
OF_32(unpack_q5_0, KILN_Q5_0, 22)
OF_32(unpack_q5_1, KILN_Q5_1, 24)
OF_32(unpack_iq4_nl, KILN_IQ4_NL, 18)

static void unpack_blocks(uint32_t type, int8_strip *to, const uint8_t *const row[16], size_t parts)
{
    for (size_t p = 0, at = 0; p < parts; p += 8) {
        switch (type) {
        case KILN_Q4_K: block_k(KILN_Q4_K, to, p, row, at), at += 144; break;
        case KILN_Q5_K: block_k(KILN_Q5_K, to, p, row, at), at += 176; break;
        case KILN_Q6_K: block_q6_k(to, p, row, at), at += 210; break;
        default: block_iq4_xs(to, p, row, at), at += 136; break;
        }
    }
}

static void unpack_rows(int8_strip *to, const uint8_t *const row[16], size_t parts)
{
    for (size_t i = 0; i < 2 * parts; i++) {
        __m512i t[4];
        turn(t, row, 16 * i);
        UNROLL for (int k = 0; k < 4; k++)
            put(to, i / 2, (int)(i % 2) * 4 + k, _mm512_xor_si512(t[k], _mm512_set1_epi8(-128)));
    }
}

static void unpack(const int8_form *f, int8_strip *to, const uint8_t *const row[INT8_STRIP], size_t parts)
{
    switch (f->type) {
    case 0: unpack_rows(to, row, parts); break;
    case KILN_Q8_0: unpack_q8_0(to, row, parts); break;
    case KILN_Q4_0: unpack_q4_0(to, row, parts); break;
    case KILN_Q4_1: unpack_q4_1(to, row, parts); break;
    case KILN_Q5_0: unpack_q5_0(to, row, parts); break;
    case KILN_Q5_1: unpack_q5_1(to, row, parts); break;
    case KILN_IQ4_NL: unpack_iq4_nl(to, row, parts); break;
    default: unpack_blocks(f->type, to, row, parts); break;
    }
}

/* ---- columns ---- */

static void round_columns(int8_strip to[2], size_t part, const float *x, size_t ld)
{
    const __m512i sign = _mm512_set1_epi32(INT32_MAX), infinite = _mm512_set1_epi32(0x7f800000),
                  byte = _mm512_set1_epi32(255);
    for (size_t s = 0; s < 2; s++, x += INT8_STRIP) {
        __m512i largest = _mm512_setzero_si512(); /* as bits: what is not finite is the largest */
        for (size_t i = 0; i < INT8_PART; i++)
            largest = _mm512_max_epi32(largest, _mm512_and_si512(_mm512_loadu_si512(x + i * ld), sign));
        __mmask16 good = _mm512_cmplt_epi32_mask(largest, infinite);
        __m512 most = _mm512_castsi512_ps(largest);
        __mmask16 there = good & _mm512_cmp_ps_mask(most, _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ);
        __m512 by = _mm512_maskz_div_ps(there, _mm512_set1_ps(127), most);
        __m512 scale = _mm512_maskz_div_ps(there, most, _mm512_set1_ps(127));
        _mm512_store_ps(to[s].scale[part][0], _mm512_mask_mov_ps(_mm512_set1_ps(NAN), good, scale));
        for (size_t w = 0; w < 8; w++) {
            __m512i q[4];
            UNROLL for (size_t i = 0; i < 4; i++)
            {
                q[i] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + (4 * w + i) * ld), by));
                if (i < 3) q[i] = _mm512_and_si512(q[i], byte); /* what is not finite is 0 */
            }
            __m512i low = _mm512_or_si512(q[0], _mm512_slli_epi32(q[1], 8)),
                    high = _mm512_or_si512(q[2], _mm512_slli_epi32(q[3], 8));
            low = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
            put(to + s, part, (int)w, _mm512_xor_si512(low, _mm512_set1_epi8(-128)));
        }
    }
}

/* ---- products ---- */

/* Four inputs of a row, 16 times. */
INLINE __m512i four(const int8_t *a)
{
    int32_t v;
    memcpy(&v, a, sizeof v);
    return _mm512_set1_epi32(v);
}
INLINE __m512i begin(uint32_t rest) { return _mm512_set1_epi32((int32_t)rest); }
INLINE __m512 as_float(uint32_t rest) { return _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)rest)); }

/* Bytes [first, last) of some rows for each part. */
typedef struct {
    const uint8_t *const *row;
    size_t rows, first, last;
} lines;
INLINE void fetch(const lines *l, size_t part)
{
    for (size_t r = part * l->rows; r < (part + 1) * l->rows && r < 2 * INT8_STRIP; r++)
        for (size_t i = l->first; i < l->last; i += 64) _mm_prefetch((const char *)l->row[r] + i, _MM_HINT_T1);
}

/* acc = sums of bytes of one part, or of half h of it. */
INLINE void add_bytes(const int rows, const int h, const int halves, const int minima, __m512i acc[INT8_ROWS][2],
                      const int8_strip *w, size_t p, const int8_part *a)
{
    UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] =
        minima ? _mm512_setzero_si512() : begin(a->rest[h][r]);
    UNROLL for (int i = h * 8 / halves; i < (h + 1) * 8 / halves; i++)
    {
        __m512i w0 = _mm512_load_si512(w[0].codes[p][i]), w1 = _mm512_load_si512(w[1].codes[p][i]);
        UNROLL for (int r = 0; r < rows; r++)
        {
            __m512i x = four(a->codes[i][r]);
            acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], w0, x);
            acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], w1, x);
        }
    }
}

INLINE void multiply_as(const int rows, const int halves, const int minima, const int8_strip *w, const int8_part *a,
                        size_t parts, float *c, size_t ldc, int accumulate, const lines *l)
{
    const int pieces = halves ? halves : 1;
    __m512 sum[INT8_ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int n = 0; n < 2; n++) sum[r][n] =
        accumulate ? _mm512_loadu_ps(c + (size_t)r * ldc + 16 * n) : _mm512_setzero_ps();
    for (size_t p = 0; p < parts; p++, a++) {
        __m512i acc[INT8_ROWS][2];
        __m512 part[INT8_ROWS][2];
        fetch(l, p);
        UNROLL for (int h = 0; h < pieces; h++)
        {
            add_bytes(rows, h, pieces, minima, acc, w, p, a);
            UNROLL for (int n = 0; n < 2; n++)
            {
                __m512 scale = halves ? _mm512_load_ps(w[n].scale[p][h]) : _mm512_setzero_ps();
                UNROLL for (int r = 0; r < rows; r++)
                {
                    __m512 one = _mm512_cvtepi32_ps(acc[r][n]);
                    part[r][n] = !halves ? one
                                 : h     ? _mm512_fmadd_ps(one, scale, part[r][n])
                                         : _mm512_mul_ps(one, scale);
                }
            }
        }
        UNROLL for (int n = 0; n < 2; n++) UNROLL for (int r = 0; r < rows; r++)
        {
            if (minima)
                part[r][n] = _mm512_fmadd_ps(_mm512_load_ps(w[n].minimum[p]), as_float(a->rest[0][r]), part[r][n]);
            sum[r][n] = _mm512_fmadd_ps(part[r][n], _mm512_set1_ps(a->scale[r]), sum[r][n]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int n = 0; n < 2; n++)
        _mm512_storeu_ps(c + (size_t)r * ldc + 16 * n, sum[r][n]);
}

#define ROWS_OF(n, halves, minima)                                                                                     \
    case n:                                                                                                            \
        multiply_as(n, halves, minima, w, a, parts, c, ldc, accumulate, &l);                                           \
        break;
#define KIND(name, halves, minima)                                                                                     \
    static void name(const int8_strip *w, const int8_part *a, size_t stride, size_t m, size_t parts, float *c,         \
                     size_t ldc, int accumulate, const int8_ahead *next)                                               \
    {                                                                                                                  \
        lines l = {next->row, (2 * INT8_STRIP + parts - 1) / parts, 0, 0};                                             \
        size_t each = (next->bytes + 63) / 64, tiles = (m + INT8_ROWS - 1) / INT8_ROWS, tile = 0;                      \
        for (size_t left = m, n; left; left -= n) {                                                                    \
            n = left >= INT8_ROWS ? INT8_ROWS : left, tile++;                                                          \
            l.first = l.last, l.last = each * tile / tiles * 64;                                                       \
            switch (n) {                                                                                               \
                ROWS_OF(6, halves, minima)                                                                             \
                ROWS_OF(5, halves, minima)                                                                             \
                ROWS_OF(4, halves, minima)                                                                             \
                ROWS_OF(3, halves, minima)                                                                             \
                ROWS_OF(2, halves, minima)                                                                             \
                ROWS_OF(1, halves, minima)                                                                             \
            }                                                                                                          \
            a += stride, c += n * ldc;                                                                                 \
        }                                                                                                              \
    }
KIND(multiply_whole, 1, 0)
KIND(multiply_minima, 1, 1)
KIND(multiply_halves, 2, 0)
KIND(multiply_codes, 0, 0)

static void multiply(const int8_form *f, const int8_strip *w, const int8_part *a, size_t stride, size_t m, size_t parts,
                     float *c, size_t ldc, int accumulate, const int8_ahead *next)
{
    (f->halves == 2 ? multiply_halves
     : !f->halves   ? multiply_codes
     : f->minima    ? multiply_minima
                    : multiply_whole)(w, a, stride, m, parts, c, ldc, accumulate, next);
}

const int8_kernels int8_kernels_avx512vnni = {.name = "avx512vnni",
                                              .round_row = round_row,
                                              .unpack = unpack,
                                              .round_columns = round_columns,
                                              .multiply = multiply};
