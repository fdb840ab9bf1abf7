/* int8_rows.h - the multiply() of kernels whose rows stand side by side (operand_part), made of what the file that
 * includes this has before it: multiply_as(rows, scales, minima, codes, ...), of up to INT8_ROWS rows.
 */
#define ROWS_OF(n, scales, minima, codes)                                                                              \
    case n:                                                                                                            \
        multiply_as(n, scales, minima, codes, w, at, a->stride, a->quarters, c, ldc, accumulate, &l);                  \
        break;
#define KIND(name, scales, minima, codes)                                                                              \
    static void name(const int8_strip *w, const int8_operand *a, float *c, size_t ldc, int accumulate,                 \
                     const int8_ahead *next)                                                                           \
    {                                                                                                                  \
        lines l = lines_of(next, a->quarters);                                                                         \
        size_t tiles = (a->m + a->together - 1) / a->together, tile = 0;                                               \
        const operand_part *at = a->parts;                                                                             \
        for (size_t left = a->m, n; left; left -= n) {                                                                 \
            n = least_of(left, a->together), tile++;                                                                   \
            l.first = l.last, l.last = l.each * tile / tiles * 64;                                                     \
            switch (n) {                                                                                               \
                ROWS_OF(6, scales, minima, codes)                                                                      \
                ROWS_OF(5, scales, minima, codes)                                                                      \
                ROWS_OF(4, scales, minima, codes)                                                                      \
                ROWS_OF(3, scales, minima, codes)                                                                      \
                ROWS_OF(2, scales, minima, codes)                                                                      \
                ROWS_OF(1, scales, minima, codes)                                                                      \
            }                                                                                                          \
            at = parts_on(at, codes, a->stride), c += n * ldc;                                                         \
        }                                                                                                              \
    }
#include "backend/cpu/int8_kinds.h"
