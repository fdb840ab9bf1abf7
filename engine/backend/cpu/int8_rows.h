/* int8_rows.h - the multiply() of kernels whose rows stand side by side (int8_part), made of what the file that
 * includes this has before it: multiply_as(rows, scales, ...), of up to INT8_ROWS rows.
 */
#define ROWS_OF(n, scales)                                                                                             \
    case n:                                                                                                            \
        multiply_as(n, scales, w, a, parts, c, ldc, accumulate, &l);                                                   \
        break;
#define KIND(name, scales)                                                                                             \
    static void name(const int8_strip *w, const int8_part *a, size_t stride, size_t m, size_t parts, float *c,         \
                     size_t ldc, int accumulate, const int8_ahead *next)                                               \
    {                                                                                                                  \
        lines l = {next->row, (2 * INT8_STRIP + parts - 1) / parts, 0, 0, stride};                                     \
        size_t each = (next->bytes + 63) / 64, tiles = (m + INT8_ROWS - 1) / INT8_ROWS, tile = 0;                      \
        for (size_t left = m, n; left; left -= n) {                                                                    \
            n = left >= INT8_ROWS ? INT8_ROWS : left, tile++;                                                          \
            l.first = l.last, l.last = each * tile / tiles * 64;                                                       \
            switch (n) {                                                                                               \
                ROWS_OF(6, scales)                                                                                     \
                ROWS_OF(5, scales)                                                                                     \
                ROWS_OF(4, scales)                                                                                     \
                ROWS_OF(3, scales)                                                                                     \
                ROWS_OF(2, scales)                                                                                     \
                ROWS_OF(1, scales)                                                                                     \
            }                                                                                                          \
            a += stride, c += n * ldc;                                                                                 \
        }                                                                                                              \
    }
KIND(multiply_whole, 1)
KIND(multiply_pieces, INT8_PIECES)
KIND(multiply_codes, 0)

static void multiply(const int8_form *f, const int8_strip *w, const void *a, size_t stride, size_t m, size_t parts,
                     float *c, size_t ldc, int accumulate, const int8_ahead *next)
{
    (f->scales > 1 ? multiply_pieces
     : f->scales   ? multiply_whole
                   : multiply_codes)(w, a, stride, m, parts, c, ldc, accumulate, next);
}
