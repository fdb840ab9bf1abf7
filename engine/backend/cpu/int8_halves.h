/* int8_halves.h - multiply_as() of int8_rows.h in vectors of 8 numbers, one strip at a time: sums of six rows by 16
 * outputs are twelve of the sixteen registers. The file that includes it has before it
 *     sum_bytes(rows, codes, minima, acc, w, p, g, first, n, a): acc = where group g of part p begins (0 with minima),
 *         and the products of words [first, first + n)
 */

INLINE __m256 add_minima(const int8_strip *w, size_t p, const operand_part *a, const int codes, int r, int h,
                         __m256 part)
{
    (void)codes;
    __m256i sum = _mm256_setzero_si256();
    UNROLL for (int i = 0; i < INT8_PIECES / 2; i++)
    {
        const __m256i two = _mm256_load_si256((const __m256i *)(const void *)w->minimum[p][i][LANES * h]);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(two, four(OPERAND(a, codes, sum)[i][r])));
    }
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_load_ps(w->least[p] + LANES * h), part);
}

/* A strip of one part: what its sums are before they are scaled by the rows'. */
INLINE void sum_part(const int rows, const int scales, const int minima, const int codes,
                     __m256 part[INT8_ROWS][HALVES], const int8_strip *w, size_t p, const operand_part *a,
                     size_t quarters)
{
    /* words of a scale */
    const size_t each = scales <= 1 ? INT8_QUARTER_WORDS * quarters : INT8_WORDS / INT8_PIECES;
    UNROLL for (int r = 0; r < rows; r++) part[r][0] = part[r][1] = _mm256_setzero_ps();
    for (size_t g = 0; g * each < INT8_QUARTER_WORDS * quarters; g++) {
        __m256i acc[INT8_ROWS][HALVES];
        sum_bytes(rows, codes, minima, acc, w, p, g, g * each, each, a);
        UNROLL for (int h = 0; h < HALVES; h++)
        {
            const float *of = codes == SIX_BITS ? w->least[p] : w->scale[p][g];
            __m256 scale = scales ? _mm256_load_ps(of + LANES * h) : _mm256_setzero_ps();
            UNROLL for (int r = 0; r < rows; r++)
            {
                __m256 one = _mm256_cvtepi32_ps(acc[r][h]);
                part[r][h] = scales ? _mm256_fmadd_ps(one, scale, part[r][h]) : one;
            }
        }
    }
    if (minima)
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++) part[r][h] =
            add_minima(w, p, a, codes, r, h, part[r][h]);
}

INLINE void multiply_strip(const int rows, const int scales, const int minima, const int codes, const int8_strip *w,
                           const operand_part *a, size_t quarters, float *c, size_t ldc, int accumulate)
{
    __m256 part[INT8_ROWS][HALVES];
    for (size_t p = 0, at = 0; at < quarters; p++, at += INT8_QUARTERS, a = parts_on(a, codes, 1)) {
        sum_part(rows, scales, minima, codes, part, w, p, a, least_of(quarters - at, INT8_QUARTERS));
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int h = 0; h < HALVES; h++)
        {
            float *to = c + (size_t)r * ldc + LANES * h;
            __m256 sum = p || accumulate ? _mm256_loadu_ps(to) : _mm256_setzero_ps();
            const __m256 scale = _mm256_set1_ps(OPERAND(a, codes, scale)[r]);
            _mm256_storeu_ps(to, _mm256_fmadd_ps(part[r][h], scale, sum));
        }
    }
}

INLINE void multiply_as(const int rows, const int scales, const int minima, const int codes, const int8_strip *w,
                        const operand_part *a, size_t stride, size_t quarters, float *c, size_t ldc, int accumulate,
                        const lines *l)
{
#ifndef INT8_WIDE /* by AVX2 products take so long that rows need not be asked for: 1.02 to 1.04 of the time */
    for (size_t p = 0; p * INT8_QUARTERS < quarters; p++)
        for (size_t i = 0; i < OPERAND_BYTES(codes); i += 64)
            _mm_prefetch((const char *)parts_on(a, codes, p + stride) + i, _MM_HINT_T0);
#else
    (void)stride;
#endif
    for (size_t n = 0; n < 2; n++) {
        for (size_t q = n; q < quarters || q == n; q += 2) fetch(l, q);
        multiply_strip(rows, scales, minima, codes, w + n, a, quarters, c + INT8_STRIP * n, ldc, accumulate);
    }
}
