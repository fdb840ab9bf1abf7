/* int8_kernels_avxvnni.c - int8_kernels.h for AVX2 with byte products of 256 bits (AVX-VNNI), as client processors have
 * them without AVX-512. Only called on processors that have them.
 * AVX-512 has the same instruction under another encoding, as which tests compile this file where that is to be had.
 */
#define LANES 8
#include "backend/cpu/int8_strips.h"

#ifdef __AVXVNNI__
#define DPBUSD _mm256_dpbusd_avx_epi32
#else
#define DPBUSD _mm256_dpbusd_epi32
#endif

INLINE void sum_bytes(const int rows, const int codes, const int minima, __m256i acc[INT8_ROWS][HALVES],
                      const int8_strip *w, size_t p, size_t g, size_t first, size_t n, const int8_part *a)
{
    (void)codes;
    UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] =
        minima ? _mm256_setzero_si256() : _mm256_set1_epi32(a->begin[g][r]);
    for (size_t k = first; k < first + n; k++) {
        __m256i w0 = codes_of(w, p, k, 0), w1 = codes_of(w, p, k, 1);
        UNROLL for (int r = 0; r < rows; r++)
        {
            __m256i x = four(a->codes[k][r]);
            acc[r][0] = DPBUSD(acc[r][0], w0, x);
            acc[r][1] = DPBUSD(acc[r][1], w1, x);
        }
    }
}

#include "backend/cpu/int8_halves.h"

#include "backend/cpu/int8_rows.h"

const int8_kernels int8_kernels_avxvnni = {.name = "avxvnni",
                                           .linear = "int8:avxvnni",
                                           .transposed = "int8_transposed:avxvnni",
                                           .rows = INT8_ROWS,
                                           .part_bytes = sizeof(int8_part),
                                           .spread = 1,
                                           .round_row = round_row,
                                           .unpack = unpack,
                                           .round_columns = round_columns,
                                           .round_blocks = round_blocks,
                                           .multiply = multiply};
