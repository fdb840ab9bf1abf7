/* int8_kernels_avx2.c - int8_kernels.h for AVX2 without byte products. Only called on processors that have it.
 *
 * Its products of bytes (vpmaddubsw) add two in 16 bits and stop at 2^15. Of codes of 4 and 5 bits eight and four words
 * fit in there, so that an addition of 16 bits follows most of them: two instructions for 32 products, where one in f32
 * has 8. Codes of 8 bits are multiplied as numbers of 16 (vpmaddwd): the first and third of four inputs, the second and
 * fourth, four instructions for 32.
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

INLINE void sum_bytes(const int rows, const int codes, const int minima, __m256i acc[INT8_ROWS][HALVES],
                      const int8_strip *w, size_t p, size_t g, size_t first, size_t n, const operand_part *a)
{
    if (codes == UNPACKED) {
        UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_set1_epi32(a->wide.begin[g][r]);
        sum_wide(rows, acc, w, p, first, n, &a->wide);
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
