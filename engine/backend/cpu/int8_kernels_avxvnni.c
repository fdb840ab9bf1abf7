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

/* Four bytes of a row, 8 times. */
INLINE __m256i four(const void *a)
{
    int32_t v;
    memcpy(&v, a, sizeof v);
    return _mm256_set1_epi32(v);
}
INLINE __m256i codes_of(const int8_strip *w, size_t p, size_t word, int half)
{
    return _mm256_load_si256((const __m256i *)(const void *)w->codes[p][word][LANES * half]);
}

/* The bytes of a part's words [first, first + n). */
INLINE void add_bytes(const int rows, __m256i acc[INT8_ROWS][HALVES], const int8_strip *w, size_t p, size_t first,
                      size_t n, const int8_part *a)
{
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

INLINE __m256 add_minima(const int8_strip *w, size_t p, const int8_part *a, int r, int h, __m256 part)
{
    __m256i sum = _mm256_setzero_si256();
    UNROLL for (int i = 0; i < INT8_PIECES / 2; i++)
    {
        const __m256i two = _mm256_load_si256((const __m256i *)(const void *)w->minimum[p][i][LANES * h]);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(two, four(a->sum[i][r])));
    }
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_load_ps(w->least[p] + LANES * h), part);
}

/* A strip of one part: what its sums are before they are scaled by the rows'. */
INLINE void sum_part(const int rows, const int scales, const int minima, __m256 part[INT8_ROWS][HALVES],
                     const int8_strip *w, size_t p, const int8_part *a, size_t quarters)
{
    /* words of a scale */
    const size_t each = scales <= 1 ? INT8_QUARTER_WORDS * quarters : INT8_WORDS / INT8_PIECES;
    UNROLL for (int r = 0; r < rows; r++) part[r][0] = part[r][1] = _mm256_setzero_ps();
    for (size_t g = 0; g * each < INT8_QUARTER_WORDS * quarters; g++) {
        __m256i acc[INT8_ROWS][HALVES];
        UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] =
            minima ? _mm256_setzero_si256() : _mm256_set1_epi32(a->begin[g][r]);
        add_bytes(rows, acc, w, p, g * each, each, a);
        UNROLL for (int h = 0; h < HALVES; h++)
        {
            __m256 scale = scales ? _mm256_load_ps(w->scale[p][g] + LANES * h) : _mm256_setzero_ps();
            UNROLL for (int r = 0; r < rows; r++)
            {
                __m256 one = _mm256_cvtepi32_ps(acc[r][h]);
                part[r][h] = scales ? _mm256_fmadd_ps(one, scale, part[r][h]) : one;
            }
        }
    }
    if (minima)
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++) part[r][h] =
            add_minima(w, p, a, r, h, part[r][h]);
}

INLINE void multiply_strip(const int rows, const int scales, const int minima, const int8_strip *w, const int8_part *a,
                           size_t quarters, float *c, size_t ldc, int accumulate)
{
    __m256 part[INT8_ROWS][HALVES];
    for (size_t p = 0, at = 0; at < quarters; p++, at += INT8_QUARTERS, a++) {
        sum_part(rows, scales, minima, part, w, p, a, least_of(quarters - at, INT8_QUARTERS));
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++)
        {
            float *to = c + (size_t)r * ldc + LANES * h;
            __m256 sum = p || accumulate ? _mm256_loadu_ps(to) : _mm256_setzero_ps();
            _mm256_storeu_ps(to, _mm256_fmadd_ps(part[r][h], _mm256_set1_ps(a->scale[r]), sum));
        }
    }
}

INLINE void multiply_as(const int rows, const int scales, const int minima, const int codes, const int8_strip *w,
                        const int8_part *a, size_t stride, size_t quarters, float *c, size_t ldc, int accumulate,
                        const lines *l)
{
    (void)codes;
    for (size_t q = 0; q < quarters; q++) fetch(l, q);
    for (size_t p = 0; p * INT8_QUARTERS < quarters; p++)
        for (size_t i = 0; i < sizeof *a; i += 64) _mm_prefetch((const char *)(a + p + stride) + i, _MM_HINT_T0);
    for (int n = 0; n < 2; n++)
        multiply_strip(rows, scales, minima, w + n, a, quarters, c + INT8_STRIP * n, ldc, accumulate);
}

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
