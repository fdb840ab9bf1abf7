/* ops_rows_ranks.h - rows of the op table (test_ops_table.h): ops of any rank on tensors of eight dimensions, of which
 * no two neighbours fall together where operands broadcast.
 */
#ifndef KILN_TESTS_OPS_ROWS_RANKS_H
#define KILN_TESTS_OPS_ROWS_RANKS_H

#define EIGHT(last) X(2, 3, 2, 1, 2, 3, 2, last)

#define RANK_ROWS                                                                                                      \
    {"act of rank 8", {.kind = OP_ACT, .n_in = 1, .in = {EIGHT(5)}, .out = EIGHT(5), .attr.act = {KILN_ACT_GELU}}, 0}, \
        {"geglu of rank 8", {.kind = OP_GEGLU, .n_in = 1, .in = {EIGHT(10)}, .out = EIGHT(5)}, 0},                     \
        {"convert of rank 8", {.kind = OP_CONVERT, .n_in = 1, .in = {EIGHT(5)}, .out = EIGHT(5)}, 0},                  \
        MAP("a + b * c + a / 3", EIGHT(5), EIGHT(5), X(3, 1, 1, 2, 1, 2, 1), X(2, 1, 2, 1, 1, 3, 1, 5)),               \
        MAP("a < b ? c : -c", EIGHT(5), X(2, 1, 2, 1, 1, 3, 1, 5), X(1, 3, 1, 1, 2, 1, 2, 1), W(3, 2, 1)),             \
        NORM("rms of rank 8, modulated", 0, EIGHT(21), 21, W(21), NONE, X(2, 1, 2, 1, 1, 3, 1, 21),                    \
             X(3, 1, 1, 2, 1, 2, 1), .one_plus = 0),                                                                   \
        SOFTMAX("of rank 8, lengths", EIGHT(7), IDS(2, 3, 2, 1, 2, 3, 2)),                                             \
        REDUCE("sum of rank 8, every other", SUM, 0x55, EIGHT(5), X(3, 1, 3, 5)),                                      \
        REDUCE("max of rank 8, every other", MAX, 0xaa, EIGHT(5), X(2, 2, 2, 2)),                                      \
        REDUCE("logsumexp of rank 8, first and last", LOGSUMEXP, 0x81, EIGHT(5), X(3, 2, 1, 2, 3, 2)),                 \
        {"reduce argmin of rank 8",                                                                                    \
         {.kind = OP_REDUCE,                                                                                           \
          .n_in = 1,                                                                                                   \
          .in = {EIGHT(5)},                                                                                            \
          .out = IDS(2, 3, 2, 1, 2, 2, 5),                                                                             \
          .attr.reduce = {KILN_REDUCE_ARGMIN, 0x20, 0}},                                                               \
         0},                                                                                                           \
        CUMSUM("of rank 8, exclusive", EIGHT(5), 4, 1, 0), CUMSUM("of rank 8, last, reverse", EIGHT(37), 7, 0, 1),     \
        SORT("three of rank 8", EIGHT(9), EIGHT(3), IDS(2, 3, 2, 1, 2, 3, 2, 3), 3, 0),                                \
        {"bincount of rank 8",                                                                                         \
         {.kind = OP_BINCOUNT, .n_in = 1, .in = {IDS(2, 3, 2, 1, 2, 3, 2, 5)}, .out = IDS(6), .attr.bincount = {6}},   \
         0},                                                                                                           \
        TAKE("to rank 8", X(2, 3, 2, 1, 2, 5, 3), IDS(2, 2), 5, X(2, 3, 2, 1, 2, 2, 2, 3)),                            \
        {"take_along of rank 8",                                                                                       \
         {.kind = OP_TAKE_ALONG, .n_in = 2, .in = {EIGHT(9), IDS(2, 3, 2, 1, 2, 3, 2, 4)}, .out = EIGHT(4)},           \
         0},                                                                                                           \
        SCATTER("add of rank 8", X(2, 3, 7, 1, 2, 1, 2, 5), IDS(9), X(2, 3, 9, 1, 2, 1, 2, 5), 2, 1),                  \
        RANDOM("normal of rank 8", NORMAL, 2, 3, 2, 1, 2, 3, 2, 5),                                                    \
        MATMUL("of rank 8, broadcast", 0, 1, X(2, 1, 2, 1, 1, 3, 9, 13), X(1, 3, 2, 1, 2, 1, 13, 7),                   \
               X(2, 3, 2, 1, 2, 3, 9, 7)),                                                                             \
        {"linear_transposed of rank 8",                                                                                \
         {.kind = OP_LINEAR_T, .n_in = 3, .in = {EIGHT(13), W(13, 7), W(7)}, .out = EIGHT(7)},                         \
         PRODUCT},                                                                                                     \
        {"group_norm of rank 8",                                                                                       \
         {.kind = OP_GROUP_NORM,                                                                                       \
          .n_in = 3,                                                                                                   \
          .in = {EIGHT(12), W(12), W(12)},                                                                             \
          .out = EIGHT(12),                                                                                            \
          .attr.norm = {3, 1e-5f}},                                                                                    \
         0},                                                                                                           \
        {"timestep of rank 8",                                                                                         \
         {.kind = OP_TIMESTEP,                                                                                         \
          .n_in = 1,                                                                                                   \
          .in = {X(2, 3, 2, 1, 2, 3, 2)},                                                                              \
          .out = EIGHT(24),                                                                                            \
          .attr.timestep = {24, 1, 0, 10000}},                                                                         \
         0},                                                                                                           \
        PADDED("value, of rank 8", EIGHT(5), X(3, 4, 3, 2, 2, 6, 4, 8), 0, -2.5f, {0, 1, 1, 0, 0, 2, 1, 3},            \
               {1, 0, 0, 1, 0, 1, 1, 0}),                                                                              \
        PADDED("reflected, of rank 8", EIGHT(5), X(3, 3, 2, 1, 3, 5, 2, 9), 1, 0, {1, 0, 0, 0, 1, 2, 0, 1},            \
               {0, 0, 0, 0, 0, 0, 0, 3}),                                                                              \
        WRITE("of rank 8", 1, X(2, 7, 2, 1, 2, 1, 2, 5), IDS(2), X(2, 4, 2, 1, 2, 1, 2, 5))

#endif
