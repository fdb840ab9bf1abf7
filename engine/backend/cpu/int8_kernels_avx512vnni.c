/* int8_kernels_avx512vnni.c - int8_kernels.h for AVX-512 with its byte products (VNNI). Only called on processors that
 * have them.
 */
#define LANES 16
#define INT8_INTERLEAVES
#define INT8_IN_PLACE
#include "backend/cpu/int8_strips.h"

/* ---- products ---- */

/* Word `at` of a part's codes; of nibbles what is that word's piece, high ones as 16 q. */
INLINE __m512i word_at(const int codes, const uint8_t *from, size_t at, const int piece)
{
    if (codes != NIBBLES) return _mm512_loadu_si512(from + 64 * at);
    __m512i both = _mm512_loadu_si512(from + 64 * (at / 16 * 8 + at % 8));
    return _mm512_and_si512(both, _mm512_set1_epi8(piece % 2 ? -16 : 15));
}

/* The bytes of a part's words [first, first + n). */
INLINE void add_bytes(const int rows, const int n, const int codes, const int piece, __m512i acc[INT8_ROWS][2],
                      const uint8_t *const from[2], size_t first, const int8_part *a)
{
    UNROLL for (int k = 0; k < n; k++)
    {
        const size_t at = first + (size_t)k;
        __m512i w0 = word_at(codes, from[0], at, piece), w1 = word_at(codes, from[1], at, piece);
        UNROLL for (int r = 0; r < rows; r++)
        {
            __m512i x = four(a->codes[at][r]);
            acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], w0, x);
            acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], w1, x);
        }
    }
}

INLINE void begin_sums(const int rows, const int minima, __m512i acc[INT8_ROWS][2], const int8_part *a, size_t group)
{
    UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] =
        minima ? _mm512_setzero_si512() : _mm512_set1_epi32(a->begin[group][r]);
}

/* part += sums that have one scale */
INLINE void scale_sums(const int rows, __m512 part[INT8_ROWS][2], __m512i acc[INT8_ROWS][2], const int8_strip *w,
                       size_t p, size_t group)
{
    UNROLL for (int n = 0; n < 2; n++)
    {
        __m512 scale = _mm512_load_ps(w[n].scale[p][group]);
        UNROLL for (int r = 0; r < rows; r++) part[r][n] =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[r][n]), scale, part[r][n]);
    }
}

/* part += minima by the sums of the rows, as integers */
INLINE void add_minima(const int rows, __m512 part[INT8_ROWS][2], const int8_strip *w, size_t p, const int8_part *a)
{
    __m512i acc[INT8_ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm512_setzero_si512();
    UNROLL for (int i = 0; i < INT8_PIECES / 2; i++)
    {
        __m512i w0 = _mm512_load_si512(w[0].minimum[p][i]), w1 = _mm512_load_si512(w[1].minimum[p][i]);
        UNROLL for (int r = 0; r < rows; r++)
        {
            __m512i x = four(a->sum[i][r]);
            acc[r][0] = _mm512_dpwssd_epi32(acc[r][0], w0, x);
            acc[r][1] = _mm512_dpwssd_epi32(acc[r][1], w1, x);
        }
    }
    UNROLL for (int n = 0; n < 2; n++)
    {
        __m512 least = _mm512_load_ps(w[n].least[p]);
        UNROLL for (int r = 0; r < rows; r++) part[r][n] =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[r][n]), least, part[r][n]);
    }
}

INLINE void multiply_as(const int rows, const int scales, const int minima, const int codes, const int8_strip *w,
                        const int8_part *a, size_t stride, size_t quarters, float *c, size_t ldc, int accumulate,
                        const lines *l)
{
    UNROLL for (int r = 0; r < INT8_ROWS; r++) UNROLL for (int n = 0; n < 2; n++)
        _mm_prefetch((const char *)(c + (size_t)(rows + r) * ldc + 16 * n), _MM_HINT_T0);
    for (size_t p = 0, at = 0; at < quarters; p++, a++) {
        const size_t here = least_of(quarters - at, INT8_QUARTERS);
        const uint8_t *const from[2] = {codes == UNPACKED ? w[0].codes[p][0][0] : w[0].in_place[p],
                                        codes == UNPACKED ? w[1].codes[p][0][0] : w[1].in_place[p]};
        __m512i acc[INT8_ROWS][2];
        __m512 part[INT8_ROWS][2];
        if (scales <= 1)
            begin_sums(rows, minima, acc, a, 0);
        else
            UNROLL for (int r = 0; r < rows; r++) part[r][0] = part[r][1] = _mm512_setzero_ps();
        for (size_t q = 0; q < here; q++) {
            fetch(l, at++);
            for (size_t i = 0; i < sizeof a->codes / INT8_QUARTERS; i += 64)
                _mm_prefetch((const char *)(a + stride)->codes[INT8_QUARTER_WORDS * q] + i, _MM_HINT_T0);
            const int groups = scales <= 1 ? 1 : INT8_PIECES / INT8_QUARTERS, n = INT8_QUARTER_WORDS / groups;
            UNROLL for (int g = 0; g < groups; g++)
            {
                const size_t group = (size_t)groups * q + (size_t)g;
                if (scales > 1) begin_sums(rows, minima, acc, a, group);
                add_bytes(rows, n, codes, g, acc, from, group * (size_t)n, a);
                if (scales > 1) scale_sums(rows, part, acc, w, p, group);
            }
        }
        if (minima) add_minima(rows, part, w, p, a);
        UNROLL for (int n = 0; n < 2; n++) UNROLL for (int r = 0; r < rows; r++)
        {
            float *to = c + (size_t)r * ldc + 16 * n;
            __m512 one = scales > 1 ? part[r][n] : _mm512_cvtepi32_ps(acc[r][n]);
            if (scales == 1) one = _mm512_mul_ps(one, _mm512_load_ps(w[n].scale[p][0]));
            __m512 sum = p || accumulate ? _mm512_loadu_ps(to) : _mm512_setzero_ps();
            _mm512_storeu_ps(to, _mm512_fmadd_ps(one, _mm512_set1_ps(a->scale[r]), sum));
        }
    }
}

#include "backend/cpu/int8_rows.h"

const int8_kernels int8_kernels_avx512vnni = {.name = "avx512vnni",
                                              .linear = "int8:vnni",
                                              .transposed = "int8_transposed:vnni",
                                              .rows = INT8_ROWS,
                                              .part_bytes = sizeof(int8_part),
                                              .spread = 1,
                                              .interleaves_all = 1,
                                              .round_row = round_row,
                                              .unpack = unpack,
                                              .interleave = interleave,
                                              .round_columns = round_columns,
                                              .round_blocks = round_blocks,
                                              .multiply = multiply};
