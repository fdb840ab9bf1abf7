/* ops_rows_upsampled.h - rows of conv2d over upsampled pictures (conv2d_attr.upsampled), for backends that take them:
 * [n,h,w,i] doubled, of which `rows` from `first` on are seen.
 */
#ifndef KILN_TESTS_OPS_ROWS_UPSAMPLED_H
#define KILN_TESTS_OPS_ROWS_UPSAMPLED_H

#include "test_ops_table.h"

#define UPSAMPLED(label, n, h, w, i, o, from, seen, above, below, ...)                                                 \
    {                                                                                                                  \
        "conv2d upsampled, " label,                                                                                    \
            {.kind = OP_CONV2D,                                                                                        \
             .in = {X(n, h, w, i), W(o, i, 3, 3), W(o), X(n, (seen) + (above) + (below)-2, 2 * (w), o)},               \
             .out = X(n, (seen) + (above) + (below)-2, 2 * (w), o),                                                    \
             .attr.conv2d = {{1, 1}, {above, 1, below, 1}, {1, 1}, 1, {from, seen}},                                   \
             __VA_ARGS__},                                                                                             \
            PRODUCT                                                                                                    \
    }

static const op_case upsampled_cases[] = {
    UPSAMPLED("few pixels", 2, 8, 8, 64, 64, 0, 16, 1, 1, .n_in = 3),
    UPSAMPLED("whole tiles", 1, 16, 16, 64, 32, 0, 32, 1, 1, .n_in = 4, .epilogue = {.residual = 1}),
    UPSAMPLED("bands", 2, 36, 32, 64, 32, 0, 72, 1, 1, .n_in = 4, .epilogue = {.residual = 1, .act = KILN_ACT_SILU}),
    UPSAMPLED("bands that end within a tile", 1, 60, 21, 96, 32, 0, 120, 1, 1, .n_in = 3),
    UPSAMPLED("first rows", 1, 6, 16, 64, 64, 0, 11, 1, 0, .n_in = 3),
    UPSAMPLED("rows from an odd one", 1, 6, 9, 64, 64, 1, 9, 0, 0, .n_in = 3),
    UPSAMPLED("rows from an even one", 2, 6, 16, 64, 64, 2, 8, 0, 0, .n_in = 3),
    UPSAMPLED("last rows", 1, 6, 16, 64, 64, 3, 9, 0, 1, .n_in = 3),
    UPSAMPLED("padded by two", 1, 6, 9, 64, 32, 0, 12, 2, 2, .n_in = 3),
    UPSAMPLED("one row, half of it padding", 1, 2, 16, 64, 32, 0, 1, 2, 0, .n_in = 3),
    UPSAMPLED("one row", 1, 4, 16, 64, 32, 3, 3, 0, 0, .n_in = 3),
};

#endif
