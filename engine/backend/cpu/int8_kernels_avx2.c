/* int8_kernels_avx2.c - int8_kernels.h for AVX2 without byte products. Only called on processors that have it.
 *
 * Its products of bytes (vpmaddubsw) add two in 16 bits and stop at 2^15. Of codes of 4 and 5 bits eight and four words
 * fit in there, so that an addition of 16 bits follows most of them: two instructions for 32 products, where one in f32
 * has 8. Of 6 bits (Q6_K), q = u - 32, the four words of a scale do, once 32 times the row's numbers is taken away.
 * Codes of 8 bits are multiplied as numbers of 16 (vpmaddwd): the first and third of four inputs, the second and
 * fourth, four instructions for 32. What was rounded to 8 bits is read by probabilities mostly, none of which is below
 * 0 and of which few are large: so they are the unsigned operand, and 16 bits hold eight words' sums (words_together).
 */
#define LANES 8
#define INT8_WIDE
#define INT8_INTERLEAVES
#include "backend/cpu/int8_strips.h"

/* Has x computed before what follows: gcc would add in another order, for which there are not enough registers. */
INLINE void now(__m256i *x) { __asm__("" : "+x"(*x)); }

/* Of words of 16 bits; the mask has no register to itself. */
INLINE __m256i low_bytes(__m256i q)
{
    static const _Alignas(32)
        int16_t mask[16] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    __asm__("vpand %1, %0, %0" : "+x"(q) : "m"(mask));
    return q;
}

/* Of words of 16 bits side by side. */
INLINE __m256i sum_of_two(__m256i q)
{
    static const _Alignas(32) int16_t one[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    __asm__("vpmaddwd %1, %0, %0" : "+x"(q) : "m"(one));
    return q;
}

INLINE void sum_wide(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p, size_t first,
                     size_t n, const int8_wide_part *a)
{
    for (size_t k = first; k < first + n; k++) UNROLL for (int odd = 0; odd < 2; odd++)
        {
            __m256i two[HALVES];
            UNROLL for (int h = 0; h < HALVES; h++)
            {
                const __m256i q = codes_of(w, p, k, h);
                two[h] = odd ? _mm256_srli_epi16(q, 8) : low_bytes(q);
                now(&two[h]);
            }
            UNROLL for (int r = 0; r < rows; r++)
            {
                const __m256i x = four(a->codes[k][odd][r]);
                UNROLL for (int h = 0; h < HALVES; h++)
                {
                    acc[r][h] = _mm256_add_epi32(acc[r][h], _mm256_madd_epi16(two[h], x));
                    now(&acc[r][h]);
                }
            }
        }
}

/* Two products each, of which the row's codes or the weights' are not below 0. */
INLINE __m256i products(const int codes, __m256i w, __m256i x)
{
    return codes == ROUNDED ? _mm256_maddubs_epi16(x, w) : _mm256_maddubs_epi16(w, x);
}

/* The words of a piece, `n` of which are added in 16 bits. */
INLINE void sum_narrow(const int rows, const int codes, const int n, __m256i acc[INT8_ROWS][HALVES],
                       const int8_strip *w, size_t p, size_t first, const int8_part *a)
{
    const __m256i ones = _mm256_set1_epi16(1);
    UNROLL for (int k = 0; k < INT8_WORDS / INT8_PIECES; k += n)
    {
        __m256i sum[INT8_ROWS][HALVES];
        UNROLL for (int i = 0; i < n; i++)
        {
            const size_t at = first + (size_t)(k + i);
            const __m256i w0 = codes_of(w, p, at, 0), w1 = codes_of(w, p, at, 1);
            UNROLL for (int r = 0; r < rows; r++)
            {
                const __m256i x = four(a->codes[at][r]);
                const __m256i a0 = products(codes, w0, x), a1 = products(codes, w1, x);
                sum[r][0] = i ? _mm256_add_epi16(sum[r][0], a0) : a0;
                sum[r][1] = i ? _mm256_add_epi16(sum[r][1], a1) : a1;
                now(&sum[r][0]), now(&sum[r][1]);
            }
        }
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++)
        {
            const __m256i all = _mm256_madd_epi16(sum[r][h], ones);
            acc[r][h] = k == 0 && codes != ROUNDED ? all : _mm256_add_epi32(acc[r][h], all);
        }
    }
}

/* Rounded codes by rows of which none has codes below 0: two products of 127 by 128 are below 2^15. */
INLINE void sum_rounded(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p, size_t n,
                        const int8_part *a)
{
    for (size_t k = 0; k < n; k++) {
        const __m256i w0 = codes_of(w, p, k, 0), w1 = codes_of(w, p, k, 1);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const __m256i x = four(a->codes[k][r]);
            acc[r][0] = _mm256_add_epi32(acc[r][0], sum_of_two(products(ROUNDED, w0, x)));
            acc[r][1] = _mm256_add_epi32(acc[r][1], sum_of_two(products(ROUNDED, w1, x)));
            now(&acc[r][0]), now(&acc[r][1]);
        }
    }
}

/* By rows of any codes: those of weights without their sign, by the row's with it. */
INLINE void sum_signed(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p, size_t n,
                       const int8_part *a)
{
    for (size_t k = 0; k < n; k++) UNROLL for (int h = 0; h < HALVES; h++)
        {
            __m256i q = codes_of(w, p, k, h), size = _mm256_abs_epi8(q);
            now(&q), now(&size);
            UNROLL for (int r = 0; r < rows; r++)
            {
                const __m256i x = _mm256_sign_epi8(four(a->codes[k][r]), q);
                acc[r][h] = _mm256_add_epi32(acc[r][h], sum_of_two(_mm256_maddubs_epi16(size, x)));
                now(&acc[r][h]);
            }
        }
}

INLINE void sum_eight_bits(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p, size_t n,
                           const int8_part *a)
{
    const size_t piece = INT8_WORDS / INT8_PIECES;
    int32_t together = (int32_t)piece;
    UNROLL for (int r = 0; r < rows; r++)
    {
        acc[r][0] = acc[r][1] = _mm256_setzero_si256();
        together = a->together[r] < together ? a->together[r] : together;
    }
    if (!together)
        sum_signed(rows, acc, w, p, n, a);
    else if (together == 1)
        sum_rounded(rows, acc, w, p, n, a);
    else
        for (size_t k = 0; k < n; k += piece) sum_narrow(rows, ROUNDED, (int)piece, acc, w, p, k, a);
}

/* Sixteen inputs of up to three rows from r on, by one group, whose scales are in memory: they have no registers to
 * themselves. u x may not fit 16 bits, but q x does, which is what is left of it once -32 x was added. */
INLINE void add_six(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p, size_t g,
                    const __m256i scale[HALVES], const int8_six_part *a, const int r)
{
    const int n = rows - r < 3 ? rows - r : 3;
    __m256i sum[3][HALVES];
    UNROLL for (int i = 0; i < n; i++) sum[i][0] = sum[i][1] = four(a->begin[g][r + i]);
    UNROLL for (size_t word = 0; word < 4; word++)
    {
        const size_t k = 4 * g + word;
        const __m256i w0 = codes_of(w, p, k, 0), w1 = codes_of(w, p, k, 1);
        UNROLL for (int i = 0; i < n; i++)
        {
            const __m256i x = four(a->part.codes[k][r + i]);
            sum[i][0] = _mm256_add_epi16(sum[i][0], _mm256_maddubs_epi16(w0, x));
            sum[i][1] = _mm256_add_epi16(sum[i][1], _mm256_maddubs_epi16(w1, x));
            now(&sum[i][0]), now(&sum[i][1]);
        }
    }
    UNROLL for (int i = 0; i < n; i++) UNROLL for (int h = 0; h < HALVES; h++)
    {
        __asm__("vpmaddwd %1, %0, %0" : "+x"(sum[i][h]) : "m"(scale[h]));
        acc[r + i][h] = _mm256_add_epi32(acc[r + i][h], sum[i][h]);
        now(&acc[r + i][h]);
    }
}

/* A part whose codes have 6 bits: sums of 16 inputs, in 16 bits, are multiplied by their scale. Three rows at a time,
 * for which there are registers. */
INLINE void sum_six(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p,
                    const int8_six_part *a)
{
    _Alignas(32) __m256i scale[INT8_HALF_PIECES][HALVES];
    for (size_t i = 0; i < INT8_PIECES; i++) UNROLL for (int h = 0; h < HALVES; h++)
        {
            const __m256i two = _mm256_load_si256((const __m256i *)(const void *)w->half_pieces[p][i][LANES * h]);
            scale[2 * i][h] =
                _mm256_or_si256(_mm256_and_si256(two, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(two, 16));
            scale[2 * i + 1][h] =
                _mm256_or_si256(_mm256_srli_epi32(two, 16), _mm256_andnot_si256(_mm256_set1_epi32(0xffff), two));
        }
    UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
    UNROLL for (int r = 0; r < rows; r += 3) for (size_t g = 0; g < INT8_HALF_PIECES; g++)
        add_six(rows, acc, w, p, g, scale[g], a, r);
}

INLINE void sum_bytes(const int rows, const int codes, const int minima, __m256i acc[INT8_ROWS][HALVES],
                      const int8_strip *w, size_t p, size_t g, size_t first, size_t n, const operand_part *a)
{
    if (codes == UNPACKED) {
        UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_set1_epi32(a->wide.begin[g][r]);
        sum_wide(rows, acc, w, p, first, n, &a->wide);
        return;
    }
    if (codes == ROUNDED) {
        sum_eight_bits(rows, acc, w, p, n, &a->narrow);
        return;
    }
    if (codes == SIX_BITS) {
        sum_six(rows, acc, w, p, &a->six);
        return;
    }
    sum_narrow(rows, codes, codes == FOUR_BITS ? 8 : 4, acc, w, p, first, &a->narrow);
    UNROLL for (int r = 0; r < rows && !minima; r++) UNROLL for (int h = 0; h < HALVES; h++) acc[r][h] =
        _mm256_add_epi32(acc[r][h], _mm256_set1_epi32(a->narrow.begin[g][r]));
}

#include "backend/cpu/int8_halves.h"

#include "backend/cpu/int8_rows.h"

const int8_kernels int8_kernels_avx2 = {.name = "avx2",
                                        .linear = "int8:avx2",
                                        .transposed = "int8_transposed:avx2",
                                        .rows = INT8_ROWS,
                                        .part_bytes = sizeof(int8_part),
                                        .wide = 1,
                                        .spread = 1,
                                        .keep_codes = 1,
                                        .interleaves_all = 1,
                                        .interleave = interleave,
                                        .round_row = round_row,
                                        .unpack = unpack,
                                        .round_columns = round_columns,
                                        .round_blocks = round_blocks,
                                        .multiply = multiply};
