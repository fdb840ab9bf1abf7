/* ops_rows_sequence.h - rows of the op table (test_ops_table.h) that work on rows and places. */
#ifndef KILN_TESTS_OPS_ROWS_SEQUENCE_H
#define KILN_TESTS_OPS_ROWS_SEQUENCE_H

/* gain, bias, scale, shift */
#define NORM(label, kind_, x, group_, g, b, s, t, ...)                                                                 \
    {                                                                                                                  \
        "norm " label,                                                                                                 \
            {.kind = OP_NORM,                                                                                          \
             .n_in = 5,                                                                                                \
             .in = {x, g, b, s, t},                                                                                    \
             .out = x,                                                                                                 \
             .attr.any_norm = {.kind = kind_, .eps = 1e-5f, .group = group_, __VA_ARGS__}},                            \
            0                                                                                                          \
    }
#define ROPE(label, x, table, heads_, rotary_, interleaved_)                                                           \
    {                                                                                                                  \
        "rope " label,                                                                                                 \
            {.kind = OP_ROPE,                                                                                          \
             .n_in = 3,                                                                                                \
             .in = {x, table, table},                                                                                  \
             .out = x,                                                                                                 \
             .attr.rope = {heads_, rotary_, interleaved_}},                                                            \
            0                                                                                                          \
    }
#define SOFTMAX(label, x, length)                                                                                      \
    {                                                                                                                  \
        "softmax " label, {.kind = OP_SOFTMAX, .n_in = 2, .in = {x, length}, .out = x}, 0                              \
    }
#define REDUCE(label, kind_, axes_, x, result)                                                                         \
    {                                                                                                                  \
        "reduce " label,                                                                                               \
            {.kind = OP_REDUCE, .n_in = 1, .in = {x}, .out = result, .attr.reduce = {KILN_REDUCE_##kind_, axes_, 0}},  \
            1e-5                                                                                                       \
    }
#define CUMSUM(label, x, axis_, exclusive_, reverse_)                                                                  \
    {                                                                                                                  \
        "cumsum " label,                                                                                               \
            {.kind = OP_CUMSUM, .n_in = 1, .in = {x}, .out = x, .attr.cumsum = {axis_, exclusive_, reverse_}}, 1e-5    \
    }

#define SORT(label, x, result, places_, ...)                                                                           \
    {                                                                                                                  \
        "sort " label,                                                                                                 \
            {.kind = OP_SORT,                                                                                          \
             .n_in = 1,                                                                                                \
             .in = {x},                                                                                                \
             .out = result,                                                                                            \
             .n_more = 1,                                                                                              \
             .more = {places_},                                                                                        \
             .attr.sort = {__VA_ARGS__}},                                                                              \
            0                                                                                                          \
    }
#define TAKE(label, x, index, axis_, result)                                                                           \
    {                                                                                                                  \
        "take " label, {.kind = OP_TAKE, .n_in = 2, .in = {x, index}, .out = result, .attr.take = {axis_}}, 0          \
    }
#define SCATTER(label, x, index, source, axis_, add_)                                                                  \
    {                                                                                                                  \
        "scatter " label,                                                                                              \
            {.kind = OP_SCATTER, .n_in = 3, .in = {x, index, source}, .out = x, .attr.scatter = {axis_, add_}}, 0      \
    }
#define RANDOM(label, kind_, ...)                                                                                      \
    {                                                                                                                  \
        "random " label,                                                                                               \
            {.kind = OP_RANDOM,                                                                                        \
             .n_in = 1,                                                                                                \
             .in = {IDS(4)},                                                                                           \
             .out = X(__VA_ARGS__),                                                                                    \
             .attr.random = {KILN_RANDOM_##kind_}},                                                                    \
            0                                                                                                          \
    }

#define SEQUENCE_ROWS                                                                                                  \
    NORM("rms, gain", 0, X(3, 7, 40), 40, W(40), NONE, NONE, NONE, .one_plus = 0),                                     \
        NORM("rms, none", 0, X(5, 33), 33, NONE, NONE, NONE, NONE, .one_plus = 0),                                     \
        NORM("layer, all of it", 1, X(2, 5, 24), 24, W(24), W(24), X(2, 1, 24), X(2, 1, 24), .one_plus = 0),           \
        NORM("layer, modulated by constants", 1, X(2, 3, 19), 19, NONE, NONE, W(19), W(1, 3, 19), .one_plus = 0),      \
        NORM("layer, computed gain", 1, X(9, 17), 17, X(17), X(17), NONE, X(9, 1), .one_plus = 0),                     \
        NORM("rms by heads, 1 + gain", 0, X(2, 3, 48), 16, W(16), NONE, NONE, NONE, .one_plus = 1),                    \
        NORM("rms by groups, gain of all", 0, X(6, 60), 12, W(60), W(12), NONE, X(60), .one_plus = 0),                 \
        NORM("l2", 2, X(4, 2, 21), 21, NONE, NONE, NONE, NONE, .one_plus = 0),                                         \
        NORM("l2, eps inside", 2, X(4, 30), 10, NONE, NONE, NONE, NONE, .eps_inside = 1),                              \
        NORM("layer, wide", 1, X(3, 2579), 2579, W(2579), W(2579), X(1), NONE, .one_plus = 0),                         \
        NORM("layer, modulated everywhere", 1, X(2, 3, 5, 11), 11, NONE, NONE, X(2, 1, 5, 11), X(3, 5, 1),             \
             .one_plus = 0),                                                                                           \
        ROPE("halves", X(2, 5, 48), X(1, 5, 1, 8), 3, 16, 0), ROPE("pairs", X(2, 5, 48), X(1, 5, 1, 8), 3, 16, 1),     \
        ROPE("halves, part of a head", X(2, 3, 66), X(2, 3, 1, 5), 3, 10, 0),                                          \
        ROPE("pairs, tables by head", X(1, 4, 76), X(1, 4, 2, 19), 2, 38, 1),                                          \
        ROPE("pairs, part of a head, all tables", X(2, 3, 100), X(2, 3, 2, 17), 2, 34, 1),                             \
        SOFTMAX("plain", X(3, 5, 37), NONE), SOFTMAX("one length", X(7, 9), IDS(1)),                                   \
        SOFTMAX("lengths", X(3, 4, 21), IDS(3, 4)), SOFTMAX("wide", X(2, 5000), NONE),                                 \
        {"softmax log",                                                                                                \
         {.kind = OP_SOFTMAX, .n_in = 2, .in = {X(4, 133), NONE}, .out = X(4, 133), .attr.softmax = {1}},              \
         0},                                                                                                           \
        REDUCE("sum, last", SUM, 4, X(3, 5, 37), X(3, 5)), REDUCE("mean, middle", MEAN, 2, X(3, 50, 19), X(3, 19)),    \
        REDUCE("sum, pictures", MEAN, 6, X(2, 23, 29, 21), X(2, 21)),                                                  \
        REDUCE("max, first and last", MAX, 5, X(3, 6, 21), X(6)), REDUCE("min, first", MIN, 1, X(33, 5), X(5)),        \
        REDUCE("prod, last, kept", PROD, 4, X(2, 3, 9), X(2, 3, 1)), REDUCE("l2, outer", L2, 3, X(3, 40, 35), X(35)),  \
        REDUCE("l2, all", L2, 7, X(3, 4, 35), X(1)), REDUCE("logsumexp, last", LOGSUMEXP, 2, X(7, 1100), X(7)),        \
        REDUCE("logsumexp, long", LOGSUMEXP, 2, X(2, 20000), X(2)),                                                    \
        REDUCE("logsumexp, first", LOGSUMEXP, 1, X(300, 7), X(7)),                                                     \
        REDUCE("logsumexp, first, wide", LOGSUMEXP, 1, X(307, 333), X(333)),                                           \
        REDUCE("mean, long columns", MEAN, 1, X(1200, 5), X(5)), REDUCE("max, long line", MAX, 3, X(70, 2200), X(1)),  \
        REDUCE("min, alternate", MIN, 5, X(4, 3, 5, 17), X(3, 17)),                                                    \
        {"reduce argmax, last",                                                                                        \
         {.kind = OP_REDUCE, .n_in = 1, .in = {X(9, 41)}, .out = IDS(9), .attr.reduce = {KILN_REDUCE_ARGMAX, 2, 0}},   \
         0},                                                                                                           \
        {"reduce argmin, columns",                                                                                     \
         {.kind = OP_REDUCE,                                                                                           \
          .n_in = 1,                                                                                                   \
          .in = {X(600, 2, 21)},                                                                                       \
          .out = IDS(2, 21),                                                                                           \
          .attr.reduce = {KILN_REDUCE_ARGMIN, 1, 0}},                                                                  \
         0},                                                                                                           \
        {"reduce argmax of whole numbers",                                                                             \
         {.kind = OP_REDUCE,                                                                                           \
          .n_in = 1,                                                                                                   \
          .in = {IDS(5, 2, 21)},                                                                                       \
          .out = IDS(5, 21),                                                                                           \
          .attr.reduce = {KILN_REDUCE_ARGMAX, 2, 0}},                                                                  \
         0},                                                                                                           \
        {"reduce sum of whole numbers",                                                                                \
         {.kind = OP_REDUCE,                                                                                           \
          .n_in = 1,                                                                                                   \
          .in = {IDS(5, 2, 21)},                                                                                       \
          .out = IDS(2, 1),                                                                                            \
          .attr.reduce = {KILN_REDUCE_SUM, 5, 1}},                                                                     \
         0},                                                                                                           \
        {"reduce prod of whole numbers",                                                                               \
         {.kind = OP_REDUCE, .n_in = 1, .in = {IDS(3, 6)}, .out = IDS(6), .attr.reduce = {KILN_REDUCE_PROD, 1, 0}},    \
         0},                                                                                                           \
        {"reduce mean of whole numbers",                                                                               \
         {.kind = OP_REDUCE, .n_in = 1, .in = {IDS(3, 6)}, .out = X(3), .attr.reduce = {KILN_REDUCE_MEAN, 2, 0}},      \
         0},                                                                                                           \
        CUMSUM("last", X(3, 2, 41), 2, 0, 0), CUMSUM("last, exclusive, reverse", X(2, 1100), 1, 1, 1),                 \
        CUMSUM("last, exclusive, long", X(2, 2500), 1, 1, 0), CUMSUM("middle", X(2, 9, 3, 11), 1, 0, 0),               \
        CUMSUM("first, exclusive, reverse", X(13, 5), 0, 1, 1), CUMSUM("first, wide", X(3, 1100), 0, 0, 1),            \
        CUMSUM("whole numbers, last", IDS(3, 300), 1, 0, 1), CUMSUM("whole numbers, middle", IDS(2, 7, 5), 1, 1, 0),   \
        SORT("all, largest first", X(3, 41), X(3, 41), IDS(3, 41), 41, 0),                                             \
        SORT("all, ascending, wide", X(2, 1300), X(2, 1300), IDS(2, 1300), 1300, 1),                                   \
        SORT("few of many", X(2, 3, 2100), X(2, 3, 7), IDS(2, 3, 7), 7, 0),                                            \
        SORT("few of many, ascending", X(2, 3000), X(2, 300), IDS(2, 300), 300, 1),                                    \
        SORT("one", X(5, 17), X(5, 1), IDS(5, 1), 1, 0), SORT("most of them", X(4, 33), X(4, 30), IDS(4, 30), 30, 0),  \
        SORT("whole numbers that are equal", IDS(3, 200), IDS(3, 50), IDS(3, 50), 50, 0),                              \
        SORT("whole numbers, few", IDS(2, 1100), IDS(2, 9), IDS(2, 9), 9, 1),                                          \
        {"bincount all",                                                                                               \
         {.kind = OP_BINCOUNT, .n_in = 1, .in = {IDS(7, 41)}, .out = IDS(6), .attr.bincount = {6}},                    \
         0},                                                                                                           \
        {"bincount some", {.kind = OP_BINCOUNT, .n_in = 1, .in = {IDS(300)}, .out = IDS(3), .attr.bincount = {3}}, 0}, \
        {"bincount by parts",                                                                                          \
         {.kind = OP_BINCOUNT, .n_in = 1, .in = {IDS(3, 90001)}, .out = IDS(5), .attr.bincount = {5}},                 \
         0},                                                                                                           \
        {"bincount many",                                                                                              \
         {.kind = OP_BINCOUNT, .n_in = 1, .in = {IDS(3, 70)}, .out = IDS(1025), .attr.bincount = {1025}},              \
         0},                                                                                                           \
        {"take_along wide", {.kind = OP_TAKE_ALONG, .n_in = 2, .in = {X(3, 9), IDS(3, 75)}, .out = X(3, 75)}, 0},      \
        TAKE("rows", X(5, 33), IDS(2, 3), 0, X(2, 3, 33)), TAKE("middle", X(2, 6, 3, 7), IDS(4), 1, X(2, 4, 3, 7)),    \
        TAKE("last", X(3, 11), IDS(2, 5), 1, X(3, 2, 5)), TAKE("whole numbers", IDS(7, 3), IDS(5), 0, IDS(5, 3)),      \
        {"take_along", {.kind = OP_TAKE_ALONG, .n_in = 2, .in = {X(2, 3, 9), IDS(2, 3, 5)}, .out = X(2, 3, 5)}, 0},    \
        SCATTER("set rows", X(7, 21), IDS(4), X(4, 21), 0, 0),                                                         \
        SCATTER("add rows", X(7, 21), IDS(40), X(40, 21), 0, 1),                                                       \
        SCATTER("add, places outside", X(2, 3, 1100), IDS(9), X(2, 9, 1100), 1, 1),                                    \
        SCATTER("set, last", X(3, 9), IDS(5), X(3, 5), 1, 0),                                                          \
        SCATTER("add, middle", X(2, 5, 3, 4), IDS(6), X(2, 6, 3, 4), 1, 1),                                            \
        SCATTER("add whole numbers", IDS(6, 3), IDS(9), IDS(9, 3), 0, 1), RANDOM("uniform", UNIFORM, 3, 333),          \
        RANDOM("normal", NORMAL, 7, 143), RANDOM("gumbel", GUMBEL, 1001)

#endif
