/* int8_kinds.h - multiply() of int8_kernels.h, by the form of the weight: of KIND(name, scales, minima), which the file
 * that includes this defines before it, one function for each.
 */
KIND(multiply_codes, 0, 0)
KIND(multiply_parts, 1, 0)
KIND(multiply_quarters, INT8_QUARTERS, 0)
KIND(multiply_pieces, INT8_PIECES, 0)
KIND(multiply_minima, INT8_PIECES, 1)

static void multiply(const int8_form *f, const int8_strip *w, const int8_operand *a, float *c, size_t ldc,
                     int accumulate, const int8_ahead *next)
{
    (f->minima                    ? multiply_minima
     : f->scales == INT8_PIECES   ? multiply_pieces
     : f->scales == INT8_QUARTERS ? multiply_quarters
     : f->scales                  ? multiply_parts
                                  : multiply_codes)(w, a, c, ldc, accumulate, next);
}
