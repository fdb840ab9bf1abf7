/* attention_pairs_avx512bf16.c - attention_pairs.h for AVX-512 with its bf16. Only called on processors that have them.
 *
 * 16 queries are a vector, and up to 6 keys (or channels) by 4 such vectors of sums stay in registers.
 */
#include "backend/cpu/attention_pairs.h"

#include "backend/cpu/attention_exp2.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum { LANES = 16, ROWS = 6, VECTORS = 4 };

INLINE __m512bh pair_at(const uint32_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return (__m512bh)_mm512_set1_epi32(word);
}
INLINE __m512bh words_at(const uint32_t *p) { return (__m512bh)_mm512_loadu_si512(p); }

/* sum[r][v] += the sum over i < n of by[i step + r stride] vectors[i width + 16 v] */
INLINE void multiply(const size_t rows, const size_t vectors, __m512 sum[ROWS][VECTORS], const uint32_t *by,
                     size_t step, size_t stride, const uint32_t *columns, size_t width, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        __m512bh x[VECTORS];
        UNROLL for (size_t v = 0; v < vectors; v++) x[v] = words_at(columns + i * width + v * LANES);
        UNROLL for (size_t r = 0; r < rows; r++)
        {
            __m512bh y = pair_at(by + i * step + r * stride);
            UNROLL for (size_t v = 0; v < vectors; v++) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x[v], y);
        }
    }
}

/* ---- scores ---- */

INLINE void score_rows(const size_t rows, const size_t vectors, float *s, const uint32_t *q, const uint32_t *k,
                       size_t words, size_t width, float scale)
{
    __m512 sum[ROWS][VECTORS];
    UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t v = 0; v < vectors; v++) sum[r][v] =
        _mm512_setzero_ps();
    multiply(rows, vectors, sum, k, 1, words, q, width, words);
    UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t v = 0; v < vectors; v++)
        _mm512_storeu_ps(s + r * width + v * LANES, _mm512_mul_ps(sum[r][v], _mm512_set1_ps(scale)));
}

/* ---- values ---- */

INLINE void value_rows(const size_t rows, const size_t vectors, float *sums, const uint32_t *p, const uint32_t *v,
                       size_t pairs, size_t channels, size_t width)
{
    __m512 sum[ROWS][VECTORS];
    UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t i = 0; i < vectors; i++) sum[r][i] =
        _mm512_loadu_ps(sums + r * width + i * LANES);
    multiply(rows, vectors, sum, v, channels, 1, p, width, pairs);
    UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t i = 0; i < vectors; i++)
        _mm512_storeu_ps(sums + r * width + i * LANES, sum[r][i]);
}

/* n rows in blocks of up to ROWS, of equal size but for one: CALL(rows, vectors) does those from `at` on. */
#define ROWS_OF(vectors, CALL)                                                                                         \
    case vectors:                                                                                                      \
        for (size_t blocks = (n + ROWS - 1) / ROWS, at = 0; blocks; blocks--) {                                        \
            size_t some = (n - at + blocks - 1) / blocks;                                                              \
            switch (some) {                                                                                            \
            case 6: CALL(6, vectors); break;                                                                           \
            case 5: CALL(5, vectors); break;                                                                           \
            case 4: CALL(4, vectors); break;                                                                           \
            case 3: CALL(3, vectors); break;                                                                           \
            case 2: CALL(2, vectors); break;                                                                           \
            default: CALL(1, vectors); break;                                                                          \
            }                                                                                                          \
            at += some;                                                                                                \
        }                                                                                                              \
        break
#define BY_ROWS(CALL)                                                                                                  \
    switch (width / LANES) {                                                                                           \
        ROWS_OF(1, CALL);                                                                                              \
        ROWS_OF(2, CALL);                                                                                              \
        ROWS_OF(3, CALL);                                                                                              \
    default: ROWS_OF(4, CALL);                                                                                         \
    }

void pairs_scores(float *s, const uint32_t *q, const uint32_t *k, size_t keys, size_t words, size_t width, float scale)
{
    const size_t n = keys;
#define SCORES(rows, vectors) score_rows(rows, vectors, s + at * width, q, k + at * words, words, width, scale)
    BY_ROWS(SCORES)
}

void pairs_values(float *sums, const uint32_t *p, const uint32_t *v, size_t pairs, size_t channels, size_t width)
{
    const size_t n = channels;
#define VALUES(rows, vectors) value_rows(rows, vectors, sums + at * width, p, v + at, pairs, channels, width)
    BY_ROWS(VALUES)
}

/* ---- exponentials ---- */

/* The words of 16 queries for keys a and b. */
INLINE __m512i pairs_of(__m512 a, __m512 b)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

INLINE __m512 greatest(const float *s, size_t keys, size_t width)
{
    __m512 a = _mm512_loadu_ps(s), b = _mm512_loadu_ps(s + width);
    for (size_t i = 2; i < keys; i += 2) {
        a = _mm512_max_ps(a, _mm512_loadu_ps(s + i * width));
        b = _mm512_max_ps(b, _mm512_loadu_ps(s + (i + 1) * width));
    }
    return _mm512_max_ps(a, b);
}

/* scaled: a multiplication that is fused costs nothing, but on Zen 4 an addition runs beside multiplications. */
INLINE __m512 above(const int scaled, const float *s, __m512 scale, __m512 least)
{
    __m512 x = _mm512_loadu_ps(s);
    return scaled ? _mm512_fmsub_ps(x, scale, least) : _mm512_sub_ps(x, least);
}

/* Sixteen queries; whether their base has moved. */
INLINE int softmax_column(const int scaled, uint32_t *p, const float *s, size_t keys, size_t width, float by_scale,
                          float *base, float *sum, float *factor)
{
    const __m512 scale = _mm512_set1_ps(by_scale);
    const __m512 none = _mm512_set1_ps(-INFINITY);
    const __m512bh one = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    __m512 most = greatest(s, keys, width), top = scaled ? _mm512_mul_ps(most, scale) : most;
    __m512 before = _mm512_loadu_ps(base), by = _mm512_set1_ps(1);
    __mmask16 moved =
        _mm512_cmp_ps_mask(top, _mm512_add_ps(before, _mm512_set1_ps(8)), _CMP_GT_OQ); /* of -inf any number is */
    __m512 now = _mm512_mask_mov_ps(before, moved, _mm512_roundscale_ps(top, _MM_FROUND_CEIL));
    /* Nothing seen so far: all becomes 0. */
    __m512 least = _mm512_mask_mov_ps(now, _mm512_cmp_ps_mask(now, none, _CMP_EQ_OQ), _mm512_setzero_ps());
    if (moved) by = _mm512_mask_mov_ps(by, moved, exp2_cubic(_mm512_sub_ps(before, least)));
    __m512 total = _mm512_setzero_ps();
    for (size_t i = 0; i < keys; i += 2) {
        __m512 a = exp2_cubic(above(scaled, s + i * width, scale, least));
        __m512 b = exp2_cubic(above(scaled, s + (i + 1) * width, scale, least));
        __m512i words = pairs_of(a, b);
        total = _mm512_dpbf16_ps(total, (__m512bh)words, one);
        _mm512_storeu_si512(p + i / 2 * width, words);
    }
    _mm512_storeu_ps(sum, _mm512_fmadd_ps(_mm512_loadu_ps(sum), by, total));
    _mm512_storeu_ps(base, now);
    _mm512_storeu_ps(factor, by);
    return moved != 0;
}

int pairs_softmax(uint32_t *p, const float *s, size_t keys, size_t width, float *base, float *sum, float *factor)
{
    int moved = 0;
    for (size_t c = 0; c < width; c += LANES)
        moved |= softmax_column(0, p + c, s + c, keys, width, 1, base + c, sum + c, factor + c);
    return moved;
}

int pairs_softmax_scaled(uint32_t *p, const float *s, size_t keys, size_t width, float scale, float *base, float *sum,
                         float *factor)
{
    int moved = 0;
    for (size_t c = 0; c < width; c += LANES)
        moved |= softmax_column(1, p + c, s + c, keys, width, scale, base + c, sum + c, factor + c);
    return moved;
}

/* ---- words ---- */

/* 32 numbers at a time; of fewer, the others are 0 and not stored. */
INLINE void pairs_of_some(uint32_t *to, const uint16_t *low, const uint16_t *high, __mmask32 some, __mmask16 first,
                          __mmask16 second)
{
    const __m512i one = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i two = _mm512_add_epi16(one, _mm512_set1_epi16(16));
    __m512i a = _mm512_maskz_loadu_epi16(some, low), b = _mm512_maskz_loadu_epi16(some, high);
    _mm512_mask_storeu_epi32(to, first, _mm512_permutex2var_epi16(a, one, b));
    if (second) _mm512_mask_storeu_epi32(to + LANES, second, _mm512_permutex2var_epi16(a, two, b));
}

void pairs_of_rows(uint32_t *to, const uint16_t *low, const uint16_t *high, size_t n)
{
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        pairs_of_some(to + i, low + i, high + i, UINT32_MAX, UINT16_MAX, UINT16_MAX);
    if (i == n) return;
    __mmask32 some = (1u << (n - i)) - 1;
    pairs_of_some(to + i, low + i, high + i, some, (__mmask16)some, (__mmask16)(some >> LANES));
}

void pairs_row(uint32_t *to, const uint16_t *from, size_t n)
{
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) _mm512_storeu_si512(to + i / 2, _mm512_loadu_si512(from + i));
    if (i == n) return;
    __m512i row = _mm512_maskz_loadu_epi16((1u << (n - i)) - 1, from + i);
    _mm512_mask_storeu_epi32(to + i / 2, (__mmask16)((1u << (n - i + 1) / 2) - 1), row);
}

void pairs_results(uint32_t *to, const float *sums, const float *by, size_t channels, size_t width)
{
    for (size_t c = 0; c < width; c += LANES) {
        __m512 part = _mm512_loadu_ps(by + c);
        for (size_t i = 0; i < channels; i += 2) {
            __m512 a = _mm512_mul_ps(part, _mm512_loadu_ps(sums + i * width + c)),
                   b = _mm512_mul_ps(part, _mm512_loadu_ps(sums + (i + 1) * width + c));
            _mm512_storeu_si512(to + i / 2 * width + c, pairs_of(a, b));
        }
    }
}
