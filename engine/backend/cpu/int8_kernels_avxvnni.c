/* int8_kernels_avxvnni.c - int8_kernels.h for AVX2 with byte products of 256 bits (AVX-VNNI), as client processors have
 * them without AVX-512. Only called on processors that have them.
 *
 * One strip at a time: sums of six rows by 16 outputs are twelve of the sixteen registers. AVX-512 has the same
 * instruction under another encoding, as which tests compile this file where that is to be had.
 */
#define LANES 8
#include "backend/cpu/int8_strips.h"

#ifdef __AVXVNNI__
#define DPBUSD _mm256_dpbusd_avx_epi32
#else
#define DPBUSD _mm256_dpbusd_epi32
#endif

enum { HALVES = INT8_STRIP / LANES };

/* Four inputs of a row, 8 times. */
INLINE __m256i four(const int8_t *a)
{
    int32_t v;
    memcpy(&v, a, sizeof v);
    return _mm256_set1_epi32(v);
}
INLINE __m256i codes_of(const int8_strip *w, size_t p, int word, int half)
{
    return _mm256_load_si256((const __m256i *)(const void *)w->codes[p][word][LANES * half]);
}

/* acc = sums of bytes of one part, or of piece i of it. */
INLINE void add_bytes(const int rows, const int i, const int pieces, __m256i acc[INT8_ROWS][HALVES],
                      const int8_strip *w, size_t p, const int8_part *a)
{
    const int n = INT8_WORDS / pieces;
    UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_set1_epi32(a->begin[i][r]);
    for (int k = i * n; k < (i + 1) * n; k++) {
        __m256i w0 = codes_of(w, p, k, 0), w1 = codes_of(w, p, k, 1);
        UNROLL for (int r = 0; r < rows; r++)
        {
            __m256i x = four(a->codes[k][r]);
            acc[r][0] = DPBUSD(acc[r][0], w0, x);
            acc[r][1] = DPBUSD(acc[r][1], w1, x);
        }
    }
}

/* A strip of one part: what its sums are before they are scaled by the rows'. */
INLINE void sum_part(const int rows, const int scales, __m256 part[INT8_ROWS][HALVES], const int8_strip *w, size_t p,
                     const int8_part *a)
{
    const int pieces = scales ? scales : 1;
    UNROLL for (int i = 0; i < pieces; i++)
    {
        __m256i acc[INT8_ROWS][HALVES];
        add_bytes(rows, i, pieces, acc, w, p, a);
        UNROLL for (int h = 0; h < HALVES; h++)
        {
            __m256 scale = scales ? _mm256_load_ps(w->scale[p][i] + LANES * h) : _mm256_setzero_ps();
            UNROLL for (int r = 0; r < rows; r++)
            {
                __m256 one = _mm256_cvtepi32_ps(acc[r][h]);
                part[r][h] = !scales ? one : i ? _mm256_fmadd_ps(one, scale, part[r][h]) : _mm256_mul_ps(one, scale);
            }
        }
    }
}

INLINE void multiply_strip(const int rows, const int scales, const int8_strip *w, const int8_part *a, size_t parts,
                           float *c, size_t ldc, int accumulate)
{
    __m256 sum[INT8_ROWS][HALVES], part[INT8_ROWS][HALVES];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++) sum[r][h] =
        accumulate ? _mm256_loadu_ps(c + (size_t)r * ldc + LANES * h) : _mm256_setzero_ps();
    for (size_t p = 0; p < parts; p++, a++) {
        sum_part(rows, scales, part, w, p, a);
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++) sum[r][h] =
            _mm256_fmadd_ps(part[r][h], _mm256_set1_ps(a->scale[r]), sum[r][h]);
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++)
        _mm256_storeu_ps(c + (size_t)r * ldc + LANES * h, sum[r][h]);
}

INLINE void multiply_as(const int rows, const int scales, const int8_strip *w, const int8_part *a, size_t parts,
                        float *c, size_t ldc, int accumulate, const lines *l)
{
    for (size_t p = 0; p < parts; p++) {
        fetch(l, p);
        for (size_t i = 0; i < sizeof *a; i += 64) _mm_prefetch((const char *)(a + p + l->stride) + i, _MM_HINT_T0);
    }
    for (int n = 0; n < 2; n++) multiply_strip(rows, scales, w + n, a, parts, c + INT8_STRIP * n, ldc, accumulate);
}

#include "backend/cpu/int8_rows.h"

const int8_kernels int8_kernels_avxvnni = {.name = "avxvnni",
                                           .linear = "int8:avxvnni",
                                           .transposed = "int8_transposed:avxvnni",
                                           .rows = INT8_ROWS,
                                           .part_bytes = sizeof(int8_part),
                                           .round_row = round_row,
                                           .unpack = unpack,
                                           .round_columns = round_columns,
                                           .round_blocks = round_blocks,
                                           .multiply = multiply};
