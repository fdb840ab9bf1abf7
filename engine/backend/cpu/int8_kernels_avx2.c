/* int8_kernels_avx2.c - int8_kernels.h for AVX2 without byte products. Only called on processors that have it.
 *
 * Its products of bytes (vpmaddubsw) add two in 16 bits and stop at 2^15. Of codes of 4 and 5 bits eight and four words
 * fit in there, so that an addition of 16 bits follows most of them: two instructions for 32 products, where one in f32
 * has 8. Of 6 bits (Q6_K) two words do, and are multiplied by a scale of 16 inputs then. Codes of 8 bits are multiplied
 * as numbers of 16 (vpmaddwd): the first and third of four inputs, the second and fourth, four instructions for 32.
 */
#define LANES 8
#define INT8_WIDE
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

/* The words of a piece, `n` of which are added in 16 bits. */
INLINE void sum_narrow(const int rows, const int n, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p,
                       size_t first, const int8_part *a)
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
                const __m256i a0 = _mm256_maddubs_epi16(w0, x), a1 = _mm256_maddubs_epi16(w1, x);
                sum[r][0] = i ? _mm256_add_epi16(sum[r][0], a0) : a0;
                sum[r][1] = i ? _mm256_add_epi16(sum[r][1], a1) : a1;
                now(&sum[r][0]), now(&sum[r][1]);
            }
        }
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++)
        {
            const __m256i all = _mm256_madd_epi16(sum[r][h], ones);
            acc[r][h] = k == 0 ? all : _mm256_add_epi32(acc[r][h], all);
        }
    }
}

/* -32 times each row's numbers times their scales. */
INLINE void begin_six(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p, const int8_part *a)
{
    UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
    for (size_t i = 0; i < INT8_PIECES; i++) {
        const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w->half_pieces[p][i][0]),
                      w1 = _mm256_load_si256((const __m256i *)(const void *)w->half_pieces[p][i][LANES]);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const __m256i x = four(a->half_pieces[i][r]);
            acc[r][0] = _mm256_sub_epi32(acc[r][0], _mm256_madd_epi16(w0, x));
            acc[r][1] = _mm256_sub_epi32(acc[r][1], _mm256_madd_epi16(w1, x));
            now(&acc[r][0]), now(&acc[r][1]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++) acc[r][h] =
        _mm256_slli_epi32(acc[r][h], 5);
}

/* Two words of each row from r on by one group, whose scales are in memory: they have no registers to themselves. */
INLINE void add_six(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p, size_t k,
                    const __m256i scale[HALVES], const int8_part *a, const int r)
{
    const __m256i w0 = codes_of(w, p, k, 0), w1 = codes_of(w, p, k + 1, 0), w2 = codes_of(w, p, k, 1),
                  w3 = codes_of(w, p, k + 1, 1);
    const int n = rows - r < 3 ? rows - r : 3;
    UNROLL for (int i = r; i < r + n; i++)
    {
        const __m256i x0 = four(a->codes[k][i]), x1 = four(a->codes[k + 1][i]);
        __m256i y0 = _mm256_add_epi16(_mm256_maddubs_epi16(w0, x0), _mm256_maddubs_epi16(w1, x1));
        __m256i y1 = _mm256_add_epi16(_mm256_maddubs_epi16(w2, x0), _mm256_maddubs_epi16(w3, x1));
        __asm__("vpmaddwd %1, %0, %0" : "+x"(y0) : "m"(scale[0]));
        __asm__("vpmaddwd %1, %0, %0" : "+x"(y1) : "m"(scale[1]));
        acc[i][0] = _mm256_add_epi32(acc[i][0], y0), acc[i][1] = _mm256_add_epi32(acc[i][1], y1);
        now(&acc[i][0]), now(&acc[i][1]);
    }
}

/* A part whose codes have 6 bits: two words are added in 16 bits, and multiplied by their scale. Three rows at a time,
 * so that a row's numbers are read once for both halves. */
INLINE void sum_six(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p, const int8_part *a)
{
    _Alignas(32) __m256i scale[INT8_HALF_PIECES][HALVES];
    begin_six(rows, acc, w, p, a);
    for (size_t i = 0; i < INT8_PIECES; i++) UNROLL for (int h = 0; h < HALVES; h++)
        {
            const __m256i two = _mm256_load_si256((const __m256i *)(const void *)w->half_pieces[p][i][LANES * h]);
            scale[2 * i][h] =
                _mm256_or_si256(_mm256_and_si256(two, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(two, 16));
            scale[2 * i + 1][h] =
                _mm256_or_si256(_mm256_srli_epi32(two, 16), _mm256_andnot_si256(_mm256_set1_epi32(0xffff), two));
        }
    UNROLL for (int r = 0; r < rows; r += 3) for (size_t g = 0; g < INT8_HALF_PIECES; g++)
    {
        add_six(rows, acc, w, p, 4 * g, scale[g], a, r);
        add_six(rows, acc, w, p, 4 * g + 2, scale[g], a, r);
    }
}

INLINE void sum_bytes(const int rows, const int codes, const int minima, __m256i acc[INT8_ROWS][HALVES],
                      const int8_strip *w, size_t p, size_t g, size_t first, size_t n, const operand_part *a)
{
    if (codes == UNPACKED) {
        UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_set1_epi32(a->wide.begin[g][r]);
        sum_wide(rows, acc, w, p, first, n, &a->wide);
        return;
    }
    if (codes == SIX_BITS) {
        sum_six(rows, acc, w, p, &a->narrow);
        return;
    }
    sum_narrow(rows, codes == FOUR_BITS ? 8 : 4, acc, w, p, first, &a->narrow);
    UNROLL for (int r = 0; r < rows && !minima; r++) UNROLL for (int h = 0; h < HALVES; h++) acc[r][h] =
        _mm256_add_epi32(acc[r][h], _mm256_set1_epi32(a->narrow.begin[g][r]));
}

#include "backend/cpu/int8_halves.h"

#include "backend/cpu/int8_rows.h"

const int8_kernels int8_kernels_avx2 = {.name = "avx2",
                                        .linear = "int8:avx2",
                                        .transposed = "int8_transposed:avx2",
                                        .rows = INT8_ROWS,
                                        .part_bytes = sizeof(operand_part),
                                        .spread = 1,
                                        .keep_codes = 1,
                                        .round_row = round_row,
                                        .unpack = unpack,
                                        .round_columns = round_columns,
                                        .round_blocks = round_blocks,
                                        .multiply = multiply};
