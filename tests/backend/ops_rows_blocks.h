/* ops_rows_blocks.h - rows of test_ops_table.h: filters, wide and few rows of weights that are stored by blocks or as
 * codes with scales. */
#ifndef KILN_TESTS_OPS_ROWS_BLOCKS_H
#define KILN_TESTS_OPS_ROWS_BLOCKS_H

#include "weights/packed_rows.h"

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

/* Rows of codes with a scale for each `per` columns (0: one a row), as packed_rows.h has them; plain f8. */
#define C(code, type, per, ...)                                                                                        \
    {                                                                                                                  \
        .dtype = KILN_F32, .weight = 1, .shape = SHAPE(__VA_ARGS__), .rows = {                                         \
            .coding = WEIGHTS_##code,                                                                                  \
            .dtype = type,                                                                                             \
            .scale_columns = per                                                                                       \
        }                                                                                                              \
    }
#define F8(type, ...)                                                                                                  \
    {                                                                                                                  \
        .dtype = KILN_F16, .weight = 1, .stored = type, .shape = SHAPE(__VA_ARGS__)                                    \
    }
#define LINEAR_C(label, r, o, i, w)                                                                                    \
    {                                                                                                                  \
        "linear " label, {.kind = OP_LINEAR, .n_in = 3, .in = {X(r, i), w, W(o)}, .out = X(r, o)}, PRODUCT             \
    }
/* n pictures of s x s x i; a filter of k x k to o channels, of `to` x `to`. */
#define FILTER_C(label, n, s, i, o, w, to, st, pad)                                                                    \
    {                                                                                                                  \
        "conv2d " label,                                                                                               \
            {.kind = OP_CONV2D,                                                                                        \
             .n_in = 3,                                                                                                \
             .in = {X(n, s, s, i), w, W(o)},                                                                           \
             .out = X(n, to, to, o),                                                                                   \
             .attr.conv2d = {{st, st}, {pad, pad, pad, pad}, {1, 1}, 1}},                                              \
            PRODUCT                                                                                                    \
    }
#define E4M3 KILN_F8_E4M3
#define E5M2 KILN_F8_E5M2

#define CODES_ROWS                                                                                                     \
    LINEAR_C("f8 scaled, one row", 1, 70, 333, C(F8, E4M3, 0, 70, 333)),                                               \
        LINEAR_C("f8 scaled, few rows", 7, 70, 320, C(F8, E4M3, 128, 70, 320)),                                        \
        LINEAR_C("f8 scaled, 40 rows", 40, 130, 2304, C(F8, E5M2, 0, 130, 2304)),                                      \
        LINEAR_C("f8 scaled, many rows", 300, 200, 320, C(F8, E4M3, 128, 200, 320)),                                   \
        LINEAR_C("plain f8, many rows", 150, 70, 96, F8(E5M2, 70, 96)),                                                \
        LINEAR_C("plain f8, 12 rows", 12, 33, 160, F8(E4M3, 33, 160)),                                                 \
        LINEAR_C("int8 by rows, few rows", 5, 33, 97, C(INT8, 0, 0, 33, 97)),                                          \
        LINEAR_C("int8 by rows, many rows", 130, 600, 512, C(INT8, 0, 0, 600, 512)),                                   \
        LINEAR_C("int8 by rows, one row", 1, 77, 544, C(INT8, 0, 0, 77, 544)),                                         \
        LINEAR_C("int8 by rows, 19 rows", 19, 50, 1056, C(INT8, 0, 0, 50, 1056)),                                      \
        {"grouped_linear int8 by rows",                                                                                \
         {.kind = OP_GROUPED_LINEAR,                                                                                   \
          .n_in = 4,                                                                                                   \
          .in = {X(90, 96), C(INT8, 0, 0, 4, 33, 96), W(4, 33), IDS(5)},                                               \
          .out = X(90, 33)},                                                                                           \
         PRODUCT},                                                                                                     \
        FILTER_C("int8 by rows 1x1", 2, 8, 64, 70, C(INT8, 0, 0, 70, 64, 1, 1), 8, 1, 0),                              \
        LINEAR_C("nf4, 3 rows", 3, 37, 192, C(NIBBLES, 0, 64, 37, 192)),                                               \
        LINEAR_C("nf4, many rows", 100, 37, 192, C(NIBBLES, 0, 64, 37, 192)),                                          \
        {"linear int8 by rows, geglu",                                                                                 \
         {.kind = OP_LINEAR,                                                                                           \
          .n_in = 3,                                                                                                   \
          .in = {X(90, 64), C(INT8, 0, 0, 140, 64), W(140)},                                                           \
          .out = X(90, 70),                                                                                            \
          .epilogue = {.geglu = 1}},                                                                                   \
         PRODUCT},                                                                                                     \
        {"linear_transposed f8 scaled, few rows",                                                                      \
         {.kind = OP_LINEAR_T, .n_in = 3, .in = {X(3, 300), C(F8, E4M3, 0, 300, 37), NONE}, .out = X(3, 37)},          \
         PRODUCT},                                                                                                     \
        {"linear_transposed nf4",                                                                                      \
         {.kind = OP_LINEAR_T, .n_in = 3, .in = {X(70, 130), C(NIBBLES, 0, 64, 130, 320), W(320)}, .out = X(70, 320)}, \
         PRODUCT},                                                                                                     \
        {"grouped_linear f8 scaled",                                                                                   \
         {.kind = OP_GROUPED_LINEAR,                                                                                   \
          .n_in = 4,                                                                                                   \
          .in = {X(90, 70), C(F8, E4M3, 0, 4, 33, 70), W(4, 33), IDS(5)},                                              \
          .out = X(90, 33)},                                                                                           \
         PRODUCT},                                                                                                     \
        {"embedding int8 by rows",                                                                                     \
         {.kind = OP_EMBEDDING, .n_in = 2, .in = {C(INT8, 0, 0, 5, 77), IDS(2, 7)}, .out = X(2, 7, 77)},               \
         1e-3},                                                                                                        \
        FILTER_C("f8 scaled 3x3", 1, 9, 64, 50, C(F8, E4M3, 0, 50, 64, 3, 3), 9, 1, 1),                                \
        FILTER_C("plain f8 3x3", 2, 6, 48, 70, F8(E4M3, 70, 48, 3, 3), 6, 1, 1),                                       \
        FILTER_C("int8 by rows 3x3, odd inputs", 1, 9, 7, 37, C(INT8, 0, 0, 37, 7, 3, 3), 5, 2, 1),                    \
        FILTER_C("nf4 3x3", 1, 7, 128, 40, C(NIBBLES, 0, 64, 40, 128, 3, 3), 7, 1, 1),                                 \
        FILTER_C("f8 scaled 1x1", 2, 8, 64, 70, C(F8, E4M3, 0, 70, 64, 1, 1), 8, 1, 0),                                \
        {"conv2d in groups",                                                                                           \
         {.kind = OP_CONV2D,                                                                                           \
          .n_in = 3,                                                                                                   \
          .in = {X(2, 9, 8, 12), W(20, 3, 3, 3), W(20)},                                                               \
          .out = X(2, 5, 4, 20),                                                                                       \
          .attr.conv2d = {{2, 2}, {1, 1, 1, 1}, {1, 1}, 4}},                                                           \
         PRODUCT},                                                                                                     \
        ANY_CONV("q8_0 of rank 1", X(2, 37, 32), Q(KILN_Q8_0, 200, 32, 3), W(200), X(2, 37, 200), 1, 0, 0, ONES, {1},  \
                 {1}, ONES, {0}, 1),                                                                                   \
        ANY_CONV("q4_k of rank 3, causal", X(1, 3, 7, 6, 256), Q(KILN_Q4_K, 150, 256, 3, 3, 3), W(150),                \
                 X(1, 3, 7, 6, 150), 3, 0, 0, ONES, {2, 1, 1}, {0, 1, 1}, ONES, {0}, 1),                               \
        ANY_CONV("int8 of rank 3, odd inputs", X(1, 3, 7, 6, 9), C(INT8, 0, 0, 17, 9, 3, 3, 3), W(17),                 \
                 X(1, 3, 7, 6, 17), 3, 0, 0, ONES, {2, 1, 1}, {0, 1, 1}, ONES, {0}, 1),                                \
        ANY_CONV("q8_0 in groups, reflected", X(2, 9, 8, 128), Q(KILN_Q8_0, 80, 32, 3, 3), NONE, X(2, 9, 8, 80), 2, 0, \
                 1, ONES, {1, 1}, {1, 1}, ONES, {0}, 4),                                                               \
        ANY_CONV("f8 scaled in groups", X(1, 9, 8, 60), C(F8, E4M3, 0, 300, 20, 3, 3), W(300), X(1, 9, 8, 300), 2, 0,  \
                 0, ONES, {1, 1}, {1, 1}, ONES, {0}, 3),                                                               \
        ANY_CONV("nf4 with strides", X(1, 9, 8, 64), C(NIBBLES, 0, 64, 33, 64, 3, 3), W(33), X(1, 5, 4, 33), 2, 0, 0,  \
                 {2, 2, 1}, {1, 1}, {1, 1}, ONES, {0}, 1),                                                             \
        ANY_CONV("q8_0 transposed", X(2, 5, 4, 24), Q(KILN_Q8_0, 24, 200, 4, 4), W(200), X(2, 10, 8, 200), 2, 1, 0,    \
                 {2, 2, 1}, {1, 1}, {1, 1}, ONES, {0}, 1),                                                             \
        ANY_CONV("q6_k transposed, 3x3", X(1, 6, 7, 10), Q(KILN_Q6_K, 10, 256, 3, 3), NONE, X(1, 12, 14, 256), 2, 1,   \
                 0, {2, 2, 1}, {1, 1}, {1, 1}, ONES, {1, 1, 0}, 1),                                                    \
        ANY_CONV("f8 scaled transposed, odd inputs, groups", X(1, 7, 22), C(F8, E4M3, 0, 22, 5, 3), NONE,              \
                 X(1, 20, 10), 1, 1, 0, {3, 1, 1}, {1}, {1}, ONES, {1}, 2),                                            \
        ANY_CONV("plain f8 transposed, rank 3, dilated", X(1, 2, 3, 4, 6), F8(E4M3, 6, 3, 2, 2, 2), W(3),              \
                 X(1, 4, 7, 9, 3), 3, 1, 0, {1, 2, 2}, {0}, {0}, {2, 2, 2}, {0, 0, 0}, 1),                             \
        ANY_CONV("transposed, stride beyond the kernel", X(1, 5, 6, 8), W(8, 20, 2, 2), W(20), X(1, 14, 17, 20), 2, 1, \
                 0, {3, 3, 1}, {0}, {0}, ONES, {0, 0, 0}, 1),                                                          \
        ANY_CONV("transposed, dilated with strides, cut", X(2, 6, 70, 6), W(6, 9, 3, 5), W(9), X(2, 10, 138, 9), 2, 1, \
                 0, {2, 2, 1}, {2, 3}, {1, 4}, {2, 1, 1}, {0, 0, 0}, 1)

/* GFLOP/s of weights as they are stored, beside given ones. */
#define STORED_BENCH                                                                                                   \
    RATE(LINEAR_C("given, 512 x 1280 x 1280", 512, 1280, 1280, W(1280, 1280))),                                        \
        RATE(LINEAR_C("f8 scaled by rows, 512 x 1280 x 1280", 512, 1280, 1280, C(F8, E4M3, 0, 1280, 1280))),           \
        RATE(LINEAR_C("plain f8, 512 x 1280 x 1280", 512, 1280, 1280, F8(E4M3, 1280, 1280))),                          \
        RATE(LINEAR_C("int8 by rows, 512 x 1280 x 1280", 512, 1280, 1280, C(INT8, 0, 0, 1280, 1280))),                 \
        RATE(LINEAR_C("nf4, 512 x 1280 x 1280", 512, 1280, 1280, C(NIBBLES, 0, 64, 1280, 1280))),                      \
        RATE(LINEAR_C("given, 1 x 4096 x 14336", 1, 14336, 4096, W(14336, 4096))),                                     \
        RATE(LINEAR_C("plain f8, 1 x 4096 x 14336", 1, 14336, 4096, F8(E4M3, 14336, 4096))),                           \
        RATE(LINEAR_C("int8 by rows, 1 x 4096 x 14336", 1, 14336, 4096, C(INT8, 0, 0, 14336, 4096))),                  \
        RATE(LINEAR_C("nf4, 1 x 4096 x 14336", 1, 14336, 4096, C(NIBBLES, 0, 64, 14336, 4096))),                       \
        RATE(FILTER_C("plain f8 3x3, 64x64 320-320", 2, 64, 320, 320, F8(E4M3, 320, 320, 3, 3), 64, 1, 1)),            \
        RATE(ANY_CONV("q8_0 causal 3 x 3 x 3, 4 x 64 x 64 x 128", X(1, 4, 64, 64, 128),                                \
                      Q(KILN_Q8_0, 128, 128, 3, 3, 3), W(128), X(1, 4, 64, 64, 128), 3, 0, 0, ONES, {2, 1, 1},         \
                      {0, 1, 1}, ONES, {0}, 1)),                                                                       \
        RATE(ANY_CONV("q8_0 transposed 4 x 4, 64 x 64 x 128", X(1, 64, 64, 128), Q(KILN_Q8_0, 128, 128, 4, 4), W(128), \
                      X(1, 128, 128, 128), 2, 1, 0, {2, 2, 1}, {1, 1}, {1, 1}, ONES, {0}, 1)),                         \
        RATE(ANY_CONV("q8_0 in 32 groups, 3 x 3, 64 x 64 x 1024", X(1, 64, 64, 1024), Q(KILN_Q8_0, 1024, 32, 3, 3),    \
                      W(1024), X(1, 64, 64, 1024), 2, 0, 0, ONES, {1, 1}, {1, 1}, ONES, {0}, 32)),                     \
        RATE(ANY_CONV("q8_0 of rank 1, 7, 8192 x 512", X(1, 8192, 512), Q(KILN_Q8_0, 512, 512, 7), W(512),             \
                      X(1, 8192, 512), 1, 0, 0, ONES, {3}, {3}, ONES, {0}, 1)),                                        \
        RATE(ANY_CONV("transposed, rank 1, 16 over 8, 1024 x 512", X(1, 1024, 512), W(512, 256, 16), W(256),           \
                      X(1, 8192, 256), 1, 1, 0, {8, 1, 1}, {4}, {4}, ONES, {0}, 1)),                                   \
        RATE(ANY_CONV("transposed, rank 3, 4 x 4 x 4 over 2, 4 x 32 x 32 x 128", X(1, 4, 32, 32, 128),                 \
                      W(128, 128, 4, 4, 4), W(128), X(1, 8, 64, 64, 128), 3, 1, 0, {2, 2, 2}, {1, 1, 1}, {1, 1, 1},    \
                      ONES, {0}, 1)),                                                                                  \
        RATE(ANY_CONV("transposed 3 x 3 over 2, 64 x 64 x 256", X(1, 64, 64, 256), W(256, 128, 3, 3), W(128),          \
                      X(1, 128, 128, 128), 2, 1, 0, {2, 2, 1}, {1, 1}, {1, 1}, ONES, {1, 1, 0}, 1)),                   \
        RATE(ANY_CONV("transposed 2 x 2 over 2, 64 x 64 x 256", X(1, 64, 64, 256), W(256, 128, 2, 2), W(128),          \
                      X(1, 128, 128, 128), 2, 1, 0, {2, 2, 1}, {0, 0}, {0, 0}, ONES, {0, 0, 0}, 1))

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
