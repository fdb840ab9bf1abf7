/* ops_rows_blocks.h - rows of test_ops_table.h: filters, wide and few rows of weights that are stored by blocks. */
#ifndef KILN_TESTS_OPS_ROWS_BLOCKS_H
#define KILN_TESTS_OPS_ROWS_BLOCKS_H

/* n pictures of s x s x i; a filter of k x k to o channels, of `to` x `to`. */
#define FILTER_Q(type, label, n, s, i, o, k, to, st, pad, ...)                                                         \
    {                                                                                                                  \
        "conv2d " #type " filter " label,                                                                              \
            {.kind = OP_CONV2D,                                                                                        \
             .in = {X(n, s, s, i), Q(type, o, i, k, k), W(o), X(n, to, to, o)},                                        \
             .out = X(n, to, to, o),                                                                                   \
             .attr.conv2d = {{st, st}, {pad, pad, pad, pad}, {1, 1}, 1},                                               \
             __VA_ARGS__},                                                                                             \
            PRODUCT                                                                                                    \
    }

#define BLOCKS_ROWS                                                                                                    \
    LINEAR_Q(KILN_Q8_0, 40, 72, 320), LINEAR_Q(KILN_Q5_K, 3, 70, 512), LINEAR_Q(KILN_Q6_K, 1, 9, 1280),                \
        LINEAR_Q(KILN_Q4_0, 16, 21, 2080), LINEAR_Q(KILN_Q5_1, 3, 8, 64), LINEAR_Q(KILN_Q3_K, 17, 16, 768),            \
        FILTER_Q(KILN_Q8_0, "3x3, silu, residual", 2, 9, 64, 50, 3, 9, 1, 1, .n_in = 4,                                \
                 .epilogue = {.act = KILN_ACT_SILU, .residual = 1}),                                                   \
        FILTER_Q(KILN_Q6_K, "3x3", 1, 5, 256, 40, 3, 5, 1, 1, .n_in = 3),                                              \
        FILTER_Q(KILN_Q4_0, "4x4, patches", 1, 16, 72, 37, 4, 4, 4, 0, .n_in = 3),                                     \
        FILTER_Q(KILN_Q8_0, "8x8, patches of 3", 1, 32, 3, 48, 8, 4, 8, 0, .n_in = 3),                                 \
        FILTER_Q(KILN_Q5_K, "1x1", 2, 5, 256, 70, 1, 5, 1, 0, .n_in = 3),                                              \
        FILTER_Q(KILN_Q8_0, "3x3, rows of broken blocks", 1, 6, 10, 32, 3, 6, 1, 1, .n_in = 3)

#endif
