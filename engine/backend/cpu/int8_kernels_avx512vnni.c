/* int8_kernels_avx512vnni.c - int8_kernels.h for AVX-512 with its byte products (VNNI). Only called on processors that
 * have them.
 */
#define LANES 16
#include "backend/cpu/int8_strips.h"

/* ---- products ---- */

/* Four inputs of a row, 16 times. */
INLINE __m512i four(const int8_t *a)
{
    int32_t v;
    memcpy(&v, a, sizeof v);
    return _mm512_set1_epi32(v);
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

#include "backend/cpu/int8_rows.h"

const int8_kernels int8_kernels_avx512vnni = {.name = "avx512vnni",
                                              .linear = "int8:vnni",
                                              .transposed = "int8_transposed:vnni",
                                              .rows = INT8_ROWS,
                                              .part_bytes = sizeof(int8_part),
                                              .round_row = round_row,
                                              .unpack = unpack,
                                              .round_columns = round_columns,
                                              .round_blocks = round_blocks,
                                              .multiply = multiply};
