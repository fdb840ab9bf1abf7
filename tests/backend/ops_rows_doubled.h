/* ops_rows_doubled.h - rows of conv2d over doubled pictures (conv2d_attr.doubled), for backends that take them:
 * [n,h,w,i] doubled, of which `rows` from `first` on are seen.
 */
#ifndef KILN_TESTS_OPS_ROWS_DOUBLED_H
#define KILN_TESTS_OPS_ROWS_DOUBLED_H

#include "test_ops_table.h"

#define DOUBLED(label, n, h, w, i, o, from, seen, above, below, ...)                                                   \
    {                                                                                                                  \
        "conv2d doubled, " label,                                                                                      \
            {.kind = OP_CONV2D,                                                                                        \
             .in = {X(n, h, w, i), W(o, i, 3, 3), W(o), X(n, (seen) + (above) + (below)-2, 2 * (w), o)},               \
             .out = X(n, (seen) + (above) + (below)-2, 2 * (w), o),                                                    \
             .attr.conv2d = {{1, 1}, {above, 1, below, 1}, {1, 1}, 1, {from, seen}},                                   \
             __VA_ARGS__},                                                                                             \
            PRODUCT                                                                                                    \
    }

static const op_case doubled_cases[] = {
    DOUBLED("few pixels", 2, 8, 8, 64, 64, 0, 16, 1, 1, .n_in = 3),
    DOUBLED("whole tiles", 1, 16, 16, 64, 32, 0, 32, 1, 1, .n_in = 4, .epilogue = {.residual = 1}),
    DOUBLED("bands", 2, 36, 32, 64, 32, 0, 72, 1, 1, .n_in = 4, .epilogue = {.residual = 1, .act = KILN_ACT_SILU}),
    DOUBLED("bands that end within a tile", 1, 60, 21, 96, 32, 0, 120, 1, 1, .n_in = 3),
    DOUBLED("first rows", 1, 6, 16, 64, 64, 0, 11, 1, 0, .n_in = 3),
    DOUBLED("rows from an odd one", 1, 6, 9, 64, 64, 1, 9, 0, 0, .n_in = 3),
    DOUBLED("rows from an even one", 2, 6, 16, 64, 64, 2, 8, 0, 0, .n_in = 3),
    DOUBLED("last rows", 1, 6, 16, 64, 64, 3, 9, 0, 1, .n_in = 3),
    DOUBLED("padded by two", 1, 6, 9, 64, 32, 0, 12, 2, 2, .n_in = 3),
    DOUBLED("one row, half of it padding", 1, 2, 16, 64, 32, 0, 1, 2, 0, .n_in = 3),
    DOUBLED("one row", 1, 4, 16, 64, 32, 3, 3, 0, 0, .n_in = 3),
};

#endif
