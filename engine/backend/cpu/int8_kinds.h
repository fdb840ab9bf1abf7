/* int8_kinds.h - multiply() of int8_kernels.h, by the form of the weight: of KIND(name, scales, minima, codes), which
 * the file that includes this defines before it, one function for each. codes: where they are (int8_strips.h).
 */
KIND(multiply_codes, 0, 0, UNPACKED)
KIND(multiply_parts, 1, 0, UNPACKED)
KIND(multiply_pieces, INT8_PIECES, 0, UNPACKED)
#ifdef INT8_WIDE
KIND(multiply_four_bits, INT8_PIECES, 0, FOUR_BITS)
KIND(multiply_five_bits, INT8_PIECES, 0, FIVE_BITS)
KIND(multiply_six_bits, 1, 0, SIX_BITS)
KIND(multiply_rounded, 1, 0, ROUNDED)
KIND(multiply_minima, INT8_PIECES, 1, FOUR_BITS)
KIND(multiply_five_bits_and_minima, INT8_PIECES, 1, FIVE_BITS)
#else
KIND(multiply_minima, INT8_PIECES, 1, UNPACKED)
#endif
#ifdef INT8_IN_PLACE
KIND(multiply_bytes, INT8_PIECES, 0, BYTES)
KIND(multiply_nibbles, INT8_PIECES, 1, NIBBLES)
#endif

static void multiply(const int8_form *f, const int8_strip *w, const int8_operand *a, float *c, size_t ldc,
                     int accumulate, const int8_ahead *next)
{
    void (*by)(const int8_strip *, const int8_operand *, float *, size_t, int, const int8_ahead *) =
        f->minima                  ? multiply_minima
        : f->scales == INT8_PIECES ? multiply_pieces
        : f->scales                ? multiply_parts
                                   : multiply_codes;
#ifdef INT8_WIDE
    if (f == &int8_form_rounded) by = multiply_rounded;
    if (f->zero == 8) by = multiply_four_bits;
    if (f->zero == 16) by = multiply_five_bits;
    if (f->scales == INT8_HALF_PIECES) by = multiply_six_bits;
    if (f->type == KILN_Q5_K && f->minima) by = multiply_five_bits_and_minima;
#endif
#ifdef INT8_IN_PLACE
    if (f->interleaved && f->minima) by = multiply_nibbles;
    if (f->interleaved && f->type == KILN_Q8_0) by = multiply_bytes;
#endif
    by(w, a, c, ldc, accumulate, next);
}
