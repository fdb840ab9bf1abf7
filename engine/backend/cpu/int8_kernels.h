/* int8_kernels.h - products of integers with weights that are stored by blocks (tensor/block.h): rows of the operand
 * are rounded to 8 bits, 32 numbers to a scale, and multiplied by the codes themselves. Layer: backend.
 *
 * For an output o, a row r and 32 inputs b (a part) of a weight d q, or d q + m:
 *     sum[r][o] += a_scale[r][b] (scale[b][o] (the sum of a q) + minimum[b][o] (the sum of a))
 * A code is stored from 0 up, q = u - zero, since processors multiply unsigned by signed bytes: sums begin at -zero
 * times the sum of a. Integer sums are exact; the rest is f32, in the order above, each line one fused multiplication
 * and addition: so every implementation makes the same bits. Rows of int8 that have a scale of their own alone are
 * summed without it: who asked for the sums multiplies them by it.
 */
#ifndef KILN_BACKEND_CPU_INT8_KERNELS_H
#define KILN_BACKEND_CPU_INT8_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Which bits sums have: in result keys, and raised whenever they change. */
enum { INT8_REVISION = 2 };

enum { INT8_ROWS = 6, INT8_PART = 32, INT8_STRIP = 16, INT8_PARTS = 16, INT8_DEEP = INT8_PART * INT8_PARTS };

/* What int8 products know of a type. halves: scales of a part, 0: none; minima: it has them; zero: see above. */
typedef struct {
    uint32_t type;
    int zero, halves, minima;
    size_t bytes; /* of a block */
    int parts;    /* in a block */
} int8_form;

const int8_form *int8_form_of(uint32_t type); /* NULL: not such a type */
extern const int8_form int8_form_rows;        /* rows of int8 */

/* Up to INT8_PARTS parts of 16 outputs, in the nearest cache. codes: [part][8 x 4 inputs][16 outputs][4]. */
typedef struct {
    _Alignas(64) uint8_t codes[INT8_PARTS][8][INT8_STRIP][4];
    _Alignas(64) float scale[INT8_PARTS][2][INT8_STRIP];
    float minimum[INT8_PARTS][INT8_STRIP];
} int8_strip;

/* A part of up to INT8_ROWS rows of the operand, which are multiplied together: side by side, so that one address finds
 * them. `rest` holds for the part, or each half of it, where sums begin (int32), or for a form with minima the sum of a
 * (f32). */
typedef struct {
    int8_t codes[8][INT8_ROWS][4];
    float scale[INT8_ROWS];
    uint32_t rest[2][INT8_ROWS];
} int8_part;

/* What will be unpacked next: the same number of bytes of each of two strips' rows. It is asked for bit by bit while
 * products are made, since a processor waits for more than some dozen lines at once. */
typedef struct {
    const uint8_t *row[2 * INT8_STRIP];
    size_t bytes; /* 0: nothing */
} int8_ahead;

typedef struct {
    const char *name;
    /* n numbers, whole parts, to one of the rows of `to` and what follows it. A part that is not finite gets the scale
     * NaN. */
    void (*round_row)(const int8_form *f, int8_part *to, size_t row, const float *x, size_t n);
    /* `parts` parts of the rows, from whole blocks on. */
    void (*unpack)(const int8_form *f, int8_strip *to, const uint8_t *const row[INT8_STRIP], size_t parts);
    /* 32 inputs of 2 x 16 outputs, x[input][output] and ld numbers apart, to part `part` of two strips of Q8_0's form:
     * each output's are rounded as a row's part is. */
    void (*round_columns)(int8_strip to[2], size_t part, const float *x, size_t ld);
    /* m rows by two strips: c[m][2 x 16], rows ldc apart, or added to it. Each INT8_ROWS of a are `stride` parts after
     * those before. */
    void (*multiply)(const int8_form *f, const int8_strip *w, const int8_part *a, size_t stride, size_t m, size_t parts,
                     float *c, size_t ldc, int accumulate, const int8_ahead *next);
} int8_kernels;

extern const int8_kernels int8_kernels_plain, int8_kernels_avx512vnni;

#endif
