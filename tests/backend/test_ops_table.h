/* test_ops_table.h - the ops that test_ops runs, as rows; and SD1.5's layers for its bench. */
#ifndef KILN_TESTS_TEST_OPS_TABLE_H
#define KILN_TESTS_TEST_OPS_TABLE_H

#include "ops_run.h"
#include "ops_bench_rows.h"
#include "ops_rows_picture.h"
#include "ops_rows_ranks.h"
#include "ops_rows_sequence.h"

#define SHAPE(...)                                                                                                     \
    {                                                                                                                  \
        .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = { __VA_ARGS__ }                             \
    }
#define X(...)                                                                                                         \
    {                                                                                                                  \
        .dtype = KILN_F32, .shape = SHAPE(__VA_ARGS__)                                                                 \
    }
#define W(...)                                                                                                         \
    {                                                                                                                  \
        .dtype = KILN_F32, .weight = 1, .shape = SHAPE(__VA_ARGS__)                                                    \
    }
#define IDS(...)                                                                                                       \
    {                                                                                                                  \
        .dtype = KILN_I32, .shape = SHAPE(__VA_ARGS__)                                                                 \
    }
#define NONE                                                                                                           \
    {                                                                                                                  \
        .dtype = 0                                                                                                     \
    }
#define PRODUCT 1e-5

#define CONV(label, n, h, w, i, o, kh, kw, oh, ow, st, p0, p1, p2, p3, ...)                                            \
    {                                                                                                                  \
        "conv2d " label,                                                                                               \
            {.kind = OP_CONV2D,                                                                                        \
             .in = {X(n, h, w, i), W(o, i, kh, kw), W(o), X(n, oh, ow, o)},                                            \
             .out = X(n, oh, ow, o),                                                                                   \
             .attr.conv2d = {{st, st}, {p0, p1, p2, p3}, {1, 1}, 1},                                                   \
             __VA_ARGS__},                                                                                             \
            PRODUCT                                                                                                    \
    }
#define TILED(label, r, k, w, o, ...)                                                                                  \
    {                                                                                                                  \
        "linear tiles, " label,                                                                                        \
            {.kind = OP_LINEAR, .in = {X(r, k), W(w, k), W(w), X(r, o)}, .out = X(r, o), __VA_ARGS__}, PRODUCT         \
    }
#define ATTEND(label, n, tq, tk, h, d, c, count, mask)                                                                 \
    {                                                                                                                  \
        "attention " label,                                                                                            \
            {.kind = OP_ATTENTION,                                                                                     \
             .n_in = count,                                                                                            \
             .in = {X(n, tq, (h) * (d)), X(n, tk, (h) * (d)), X(n, tk, (h) * (d)), mask},                              \
             .out = X(n, tq, (h) * (d)),                                                                               \
             .attr.attention = {.heads = h, .scale = 0.15f, .causal = c}},                                             \
            PRODUCT                                                                                                    \
    }
#define GROUP(label, n, h, w, c, g, e, ...)                                                                            \
    {                                                                                                                  \
        "group_norm " label,                                                                                           \
            {.kind = OP_GROUP_NORM,                                                                                    \
             .in = {X(n, h, w, c), W(c), W(c), X(n, h, w, c)},                                                         \
             .out = X(n, h, w, c),                                                                                     \
             .attr.norm = {g, e},                                                                                      \
             __VA_ARGS__},                                                                                             \
            0                                                                                                          \
    }
#define NORM_STATS(label, n, h, w, c, g)                                                                               \
    {                                                                                                                  \
        "group_norm_stats" label,                                                                                      \
            {.kind = OP_GROUP_NORM_STATS,                                                                              \
             .n_in = 1,                                                                                                \
             .in = {X(n, h, w, c)},                                                                                    \
             .out = X(n, h, g, 3),                                                                                     \
             .attr.norm = {g, 0}},                                                                                     \
            0                                                                                                          \
    }
/* h rows of a picture of `all` */
#define NORM_APPLY(label, n, h, all, w, c, g, ...)                                                                     \
    {                                                                                                                  \
        "group_norm by given stats" label,                                                                             \
            {.kind = OP_GROUP_NORM,                                                                                    \
             .in = {X(n, h, w, c), W(c), W(c), X(n, all, g, 3), X(n, h, w, c)},                                        \
             .out = X(n, h, w, c),                                                                                     \
             .attr.norm = {g, 1e-5f},                                                                                  \
             __VA_ARGS__},                                                                                             \
            0                                                                                                          \
    }
#define ACTS(kind_)                                                                                                    \
    {                                                                                                                  \
        "act T7 " #kind_,                                                                                              \
            {.kind = OP_ACT, .n_in = 1, .in = {X(3, 7, 21)}, .out = X(3, 7, 21), .attr.act = {KILN_ACT_##kind_}}, 0    \
    }

#define MAP(text, result, ...)                                                                                         \
    {                                                                                                                  \
        "map " text,                                                                                                   \
            {.kind = OP_MAP,                                                                                           \
             .n_in = sizeof((operand_desc[]){__VA_ARGS__}) / sizeof(operand_desc),                                     \
             .in = {__VA_ARGS__},                                                                                      \
             .out = result},                                                                                           \
            0                                                                                                          \
    }

#include "ops_rows_products.h"
#include "ops_rows_blocks.h"

#define WRITE(label, axis_, state_, at, ...)                                                                           \
    {                                                                                                                  \
        "state_write " label,                                                                                          \
            {.kind = OP_STATE_WRITE,                                                                                   \
             .n_in = 3,                                                                                                \
             .in = {state_, at, __VA_ARGS__},                                                                          \
             .out = state_,                                                                                            \
             .attr.state_write = {axis_}},                                                                             \
            0                                                                                                          \
    }

#define WRITE_PART(label, axis_, state_, at, count, ...)                                                               \
    {                                                                                                                  \
        "state_write " label,                                                                                          \
            {.kind = OP_STATE_WRITE,                                                                                   \
             .n_in = 4,                                                                                                \
             .in = {state_, at, __VA_ARGS__, count},                                                                   \
             .out = state_,                                                                                            \
             .attr.state_write = {axis_}},                                                                             \
            0                                                                                                          \
    }

/* What fuse_taken() makes, for backends that take it: CUDA's has no kernel for it. */
static inline int is_of_taken_rows(const op_case *c) { return c->op.kind == OP_GROUPED_LINEAR && c->op.n_in > 4; }

static const op_case cases[] = {
    WRITE("rows of one sequence", 1, X(1, 9, 37), IDS(1), X(1, 4, 37)),
    WRITE("round the end, one offset a sequence", 1, X(3, 5, 2, 19), IDS(3), X(3, 5, 2, 19)),
    WRITE("the first dimension", 0, X(7, 33), IDS(1), X(3, 33)),
    WRITE("the last dimension", 2, X(2, 3, 8), IDS(1), X(2, 3, 5)),
    WRITE_PART("as many as a number says", 1, X(2, 9, 7), IDS(1), IDS(1), X(2, 6, 7)),
    WRITE_PART("other lengths for each sequence", 1, X(3, 7, 2, 5), IDS(3), IDS(3), X(3, 4, 2, 5)),
    PRODUCTS_ROWS,
    BLOCKS_ROWS,
    CODES_ROWS,
    SEQUENCE_ROWS,
    PICTURE_ROWS,
    RANK_ROWS,
    {"linear plain",
     {.kind = OP_LINEAR, .n_in = 3, .in = {X(2, 37, 320), W(320, 320), W(320)}, .out = X(2, 37, 320)},
     PRODUCT},
    {"linear no bias",
     {.kind = OP_LINEAR, .n_in = 3, .in = {X(154, 768), W(320, 768), NONE}, .out = X(154, 320)},
     PRODUCT},
    {"linear odd sizes", {.kind = OP_LINEAR, .n_in = 3, .in = {X(5, 13), W(7, 13), W(7)}, .out = X(5, 7)}, PRODUCT},
    {"linear tails",
     {.kind = OP_LINEAR, .n_in = 3, .in = {X(131, 1027), W(333, 1027), W(333)}, .out = X(131, 333)},
     PRODUCT},
    {"linear two rows, silu",
     {.kind = OP_LINEAR,
      .n_in = 3,
      .in = {X(2, 320), W(1280, 320), W(1280)},
      .out = X(2, 1280),
      .epilogue = {.act = KILN_ACT_SILU}},
     PRODUCT},
    {"linear residual",
     {.kind = OP_LINEAR,
      .n_in = 4,
      .in = {X(70, 1280), W(320, 1280), W(320), X(70, 320)},
      .out = X(70, 320),
      .epilogue = {.residual = 1}},
     PRODUCT},
    {"linear geglu",
     {.kind = OP_LINEAR,
      .n_in = 3,
      .in = {X(70, 320), W(2560, 320), W(2560)},
      .out = X(70, 1280),
      .epilogue = {.geglu = 1}},
     PRODUCT},
    {"linear geglu, odd, residual",
     {.kind = OP_LINEAR,
      .n_in = 4,
      .in = {X(9, 50), W(66, 50), W(66), X(9, 33)},
      .out = X(9, 33),
      .epilogue = {.geglu = 1, .residual = 1}},
     PRODUCT},
    {"linear one row, short",
     {.kind = OP_LINEAR, .n_in = 3, .in = {X(1, 8), W(20, 8), NONE}, .out = X(1, 20)},
     PRODUCT},
    {"linear sixteen rows, long",
     {.kind = OP_LINEAR, .n_in = 3, .in = {X(2, 8, 2568), W(21, 2568), W(21)}, .out = X(2, 8, 21)},
     PRODUCT},
    {"linear nine rows, geglu, residual",
     {.kind = OP_LINEAR,
      .n_in = 4,
      .in = {X(9, 328), W(68, 328), W(68), X(9, 34)},
      .out = X(9, 34),
      .epilogue = {.geglu = 1, .residual = 1}},
     PRODUCT},
    {"linear five rows, tanh, residual",
     {.kind = OP_LINEAR,
      .n_in = 4,
      .in = {X(5, 60), W(33, 60), W(33), X(5, 33)},
      .out = X(5, 33),
      .epilogue = {.act = KILN_ACT_TANH, .residual = 1}},
     PRODUCT},
    {"linear seventeen rows",
     {.kind = OP_LINEAR, .n_in = 3, .in = {X(17, 64), W(24, 64), W(24)}, .out = X(17, 24)},
     PRODUCT},
    TILED("one row", 1, 96, 64, 64, .n_in = 3),
    TILED("a row more than a pair of tiles", 33, 64, 96, 96, .n_in = 4,
          .epilogue = {.act = KILN_ACT_SILU, .residual = 1}),
    TILED("bands, the last one of a few rows", 1091, 32, 64, 64, .n_in = 4, .epilogue = {.residual = 1}),
    TILED("geglu", 49, 1024, 96, 48, .n_in = 4, .epilogue = {.geglu = 1, .residual = 1}),
    TILED("geglu of few inputs", 77, 64, 192, 96, .n_in = 4, .epilogue = {.geglu = 1, .residual = 1}),
    TILED("geglu of 32 inputs, bands", 1100, 32, 64, 32, .n_in = 3, .epilogue = {.geglu = 1}),
    {"linear tiles, without a bias",
     {.kind = OP_LINEAR, .n_in = 2, .in = {X(40, 96), W(64, 96)}, .out = X(40, 64)},
     PRODUCT},
    TILED("several groups of outputs", 70, 1280, 512, 512, .n_in = 3),
    TILED("geglu of one set, a few rows", 7, 1056, 32, 16, .n_in = 3, .epilogue = {.geglu = 1}),
    CONV("tiles, 1x1", 2, 9, 7, 64, 32, 1, 1, 9, 7, 1, 0, 0, 0, 0, .n_in = 4, .epilogue = {.residual = 1}),
    CONV("1x1 of twelve places", 1, 3, 4, 40, 33, 1, 1, 3, 4, 1, 0, 0, 0, 0, .n_in = 3),
    {"linear gelu_tanh",
     {.kind = OP_LINEAR,
      .n_in = 3,
      .in = {X(33, 200), W(72, 200), W(72)},
      .out = X(33, 72),
      .epilogue = {.act = KILN_ACT_GELU_TANH}},
     PRODUCT},
    {"linear gelu_tanh, no bias",
     {.kind = OP_LINEAR,
      .n_in = 3,
      .in = {X(33, 200), W(72, 200), NONE},
      .out = X(33, 72),
      .epilogue = {.act = KILN_ACT_GELU_TANH}},
     PRODUCT},
    {"linear relu",
     {.kind = OP_LINEAR,
      .n_in = 3,
      .in = {X(33, 200), W(72, 200), W(72)},
      .out = X(33, 72),
      .epilogue = {.act = KILN_ACT_RELU}},
     PRODUCT},
    {"linear relu, no bias, residual",
     {.kind = OP_LINEAR,
      .n_in = 4,
      .in = {X(33, 200), W(72, 200), NONE, X(33, 72)},
      .out = X(33, 72),
      .epilogue = {.act = KILN_ACT_RELU, .residual = 1}},
     PRODUCT},
    {"linear no bias, residual",
     {.kind = OP_LINEAR,
      .n_in = 4,
      .in = {X(33, 203), W(72, 203), NONE, X(33, 72)},
      .out = X(33, 72),
      .epilogue = {.residual = 1}},
     PRODUCT},
    CONV("3x3", 2, 16, 16, 32, 48, 3, 3, 16, 16, 1, 1, 1, 1, 1, .n_in = 3),
    CONV("3x3 odd", 1, 13, 19, 5, 7, 3, 3, 13, 19, 1, 1, 1, 1, 1, .n_in = 3),
    CONV("3x3 row tiles", 1, 40, 33, 16, 16, 3, 3, 40, 33, 1, 1, 1, 1, 1, .n_in = 3),
    CONV("3x3 first layer", 2, 12, 12, 4, 320, 3, 3, 12, 12, 1, 1, 1, 1, 1, .n_in = 3),
    CONV("3x3 last layer", 2, 12, 12, 320, 4, 3, 3, 12, 12, 1, 1, 1, 1, 1, .n_in = 3),
    CONV("3x3 silu, residual", 2, 9, 8, 64, 64, 3, 3, 9, 8, 1, 1, 1, 1, 1, .n_in = 4,
         .epilogue = {.act = KILN_ACT_SILU, .residual = 1}),
    CONV("3x3 many channels", 1, 8, 8, 320, 384, 3, 3, 8, 8, 1, 1, 1, 1, 1, .n_in = 4, .epilogue = {.residual = 1}),
    CONV("3x3 odd squares", 1, 11, 14, 80, 96, 3, 3, 11, 14, 1, 1, 1, 1, 1, .n_in = 4, .epilogue = {.residual = 1}),
    CONV("3x3 wide, two channels too few", 1, 7, 37, 48, 62, 3, 3, 7, 37, 1, 1, 1, 1, 1, .n_in = 4,
         .epilogue = {.act = KILN_ACT_GELU, .residual = 1}),
    CONV("3x3 wide, seven blocks", 2, 9, 18, 80, 420, 3, 3, 9, 18, 1, 1, 1, 1, 1, .n_in = 4,
         .epilogue = {.residual = 1}),
    CONV("3x3 wide, more squares than a tile's", 1, 26, 70, 32, 64, 3, 3, 26, 70, 1, 1, 1, 1, 1, .n_in = 3),
    CONV("3x3 wide, rows of a stripe", 1, 10, 21, 32, 64, 3, 3, 8, 21, 1, 0, 1, 0, 1, .n_in = 3),
    CONV("3x3 wide, last rows of a stripe", 1, 7, 21, 32, 64, 3, 3, 6, 21, 1, 0, 1, 1, 1, .n_in = 3),
    CONV("3x3 wide, padded by two", 1, 8, 20, 16, 64, 3, 3, 9, 22, 1, 1, 2, 2, 2, .n_in = 3),
    CONV("3x3 last channels", 2, 5, 6, 16, 40, 3, 3, 5, 6, 1, 1, 1, 1, 1, .n_in = 3),
    CONV("tiles, few pixels", 2, 16, 16, 64, 64, 3, 3, 16, 16, 1, 1, 1, 1, 1, .n_in = 3),
    CONV("tiles, few pixels of odd images", 3, 5, 9, 64, 96, 3, 3, 5, 9, 1, 1, 1, 1, 1, .n_in = 4,
         .epilogue = {.residual = 1, .act = KILN_ACT_SILU}),
    CONV("tiles, bands", 2, 36, 32, 64, 32, 3, 3, 36, 32, 1, 1, 1, 1, 1, .n_in = 4, .epilogue = {.residual = 1}),
    CONV("tiles, bands that end within a tile", 1, 30, 43, 128, 32, 1, 3, 30, 43, 1, 0, 1, 0, 1, .n_in = 3),
    CONV("tiles, even taps, right and bottom", 1, 33, 34, 64, 64, 2, 2, 33, 34, 1, 0, 0, 1, 1, .n_in = 3),
    CONV("tiles, a column of taps", 1, 40, 32, 96, 32, 7, 1, 38, 32, 1, 2, 0, 2, 0, .n_in = 3),
    CONV("tiles, rows of a stripe", 1, 10, 21, 64, 64, 3, 3, 8, 21, 1, 0, 1, 0, 1, .n_in = 3),
    CONV("tiles, wider than high, no padding", 1, 5, 72, 64, 32, 5, 5, 1, 68, 1, 0, 0, 0, 0, .n_in = 3),
    CONV("stride 2", 1, 18, 18, 16, 16, 3, 3, 9, 9, 2, 1, 1, 1, 1, .n_in = 3),
    CONV("M3 right and bottom", 1, 16, 16, 16, 24, 3, 3, 8, 8, 2, 0, 0, 1, 1, .n_in = 3),
    CONV("1x1", 2, 9, 11, 48, 33, 1, 1, 9, 11, 1, 0, 0, 0, 0, .n_in = 3),
    CONV("1x1 residual", 2, 9, 11, 48, 40, 1, 1, 9, 11, 1, 0, 0, 0, 0, .n_in = 4, .epilogue = {.residual = 1}),
    CONV("5x1", 1, 12, 8, 8, 8, 5, 1, 12, 8, 1, 2, 0, 2, 0, .n_in = 3),
    ATTEND("small", 1, 5, 7, 2, 8, 0, 4, NONE),
    ATTEND("M15 head of 40", 2, 130, 130, 2, 40, 0, 4, NONE),
    ATTEND("M15 head of 80, text", 1, 70, 77, 2, 80, 0, 4, NONE),
    ATTEND("M15 head of 160", 1, 64, 64, 1, 160, 0, 4, NONE),
    ATTEND("head of 64", 1, 33, 129, 3, 64, 0, 3, NONE),
    ATTEND("head of 512", 1, 20, 66, 1, 512, 0, 4, NONE),
    ATTEND("head of 512, one key", 1, 3, 1, 1, 512, 0, 3, NONE),
    ATTEND("head of 504, causal", 1, 67, 67, 1, 504, 1, 3, NONE),
    ATTEND("head of 320, mask", 1, 9, 33, 1, 320, 0, 4, X(1, 1, 9, 33)),
    ATTEND("two heads of 256", 2, 65, 130, 2, 256, 0, 3, NONE),
    ATTEND("head of 248, mask a head", 1, 17, 63, 2, 248, 0, 4, X(1, 2, 17, 63)),
    ATTEND("head of 168, causal with mask", 1, 71, 71, 1, 168, 1, 4, X(1, 1, 71, 71)),
    ATTEND("head of 165", 1, 5, 9, 1, 165, 0, 3, NONE),
    ATTEND("N8 4096 positions", 1, 14, 4096, 1, 40, 0, 4, NONE),
    ATTEND("N2 scores are f32", 1, 30, 200, 1, 24, 0, 4, NONE),
    ATTEND("T6 causal", 2, 77, 77, 2, 16, 1, 4, NONE),
    ATTEND("T6 causal with mask", 2, 77, 77, 2, 16, 1, 4, X(1, 1, 77, 77)),
    ATTEND("mask a head", 2, 20, 70, 2, 16, 0, 4, X(2, 2, 20, 70)),
    GROUP("M4 population variance", 2, 2, 2, 8, 4, 1e-6f, .n_in = 3),
    GROUP("N1 many elements", 1, 64, 64, 40, 1, 1e-5f, .n_in = 3),
    GROUP("silu", 2, 9, 7, 96, 32, 1e-5f, .n_in = 3, .epilogue = {.act = KILN_ACT_SILU}),
    GROUP("wide", 1, 5, 5, 1920, 32, 1e-5f, .n_in = 3, .epilogue = {.act = KILN_ACT_SILU}),
    NORM_STATS("", 2, 5, 7, 96, 32),
    NORM_STATS(" of single pixels", 1, 9, 1, 8, 2),
    NORM_STATS(" of one group", 1, 3, 70, 40, 1),
    NORM_APPLY("", 2, 4, 9, 7, 96, 32, .n_in = 4),
    NORM_APPLY(" silu", 1, 1, 30, 11, 320, 32, .n_in = 4, .epilogue = {.act = KILN_ACT_SILU}),
    NORM_APPLY(" silu and residual", 2, 3, 3, 5, 24, 4, .n_in = 5, .epilogue = {.act = KILN_ACT_SILU, .residual = 1}),
    {"layer_norm",
     {.kind = OP_LAYER_NORM,
      .n_in = 3,
      .in = {X(3, 41, 320), W(320), W(320)},
      .out = X(3, 41, 320),
      .attr.norm = {0, 1e-5f}},
     0},
    {"layer_norm wide",
     {.kind = OP_LAYER_NORM,
      .n_in = 3,
      .in = {X(3, 2049), W(2049), W(2049)},
      .out = X(3, 2049),
      .attr.norm = {0, 1e-5f}},
     0},
    {"add", {.kind = OP_ADD, .n_in = 2, .in = {X(2, 5, 7, 33), X(2, 5, 7, 33)}, .out = X(2, 5, 7, 33)}, 0},
    {"add a row", {.kind = OP_ADD, .n_in = 2, .in = {X(2, 5, 7, 33), X(33)}, .out = X(2, 5, 7, 33)}, 0},
    {"add an image's row",
     {.kind = OP_ADD, .n_in = 2, .in = {X(2, 5, 7, 33), X(2, 1, 1, 33)}, .out = X(2, 5, 7, 33)},
     0},
    {"add positions", {.kind = OP_ADD, .n_in = 2, .in = {X(2, 77, 40), W(77, 40)}, .out = X(2, 77, 40)}, 0},
    {"add, act, residual",
     {.kind = OP_ADD,
      .n_in = 3,
      .in = {X(2, 9, 33), X(2, 1, 33), X(2, 9, 33)},
      .out = X(2, 9, 33),
      .epilogue = {.act = KILN_ACT_SILU, .residual = 1}},
     0},
    {"mul", {.kind = OP_MUL, .n_in = 2, .in = {X(4, 1030), X(4, 1030)}, .out = X(4, 1030)}, 0},
    {"mul a column", {.kind = OP_MUL, .n_in = 2, .in = {X(4, 30), X(4, 1)}, .out = X(4, 30)}, 0},
    {"mul a number", {.kind = OP_MUL, .n_in = 2, .in = {X(4, 30), X(1)}, .out = X(4, 30)}, 0},
    {"affine",
     {.kind = OP_AFFINE, .n_in = 1, .in = {X(3, 1500)}, .out = X(3, 1500), .attr.affine = {0.18215f, -0.25f}},
     0},
    ACTS(SILU),
    ACTS(GELU),
    ACTS(GELU_TANH),
    ACTS(QUICK_GELU),
    ACTS(RELU),
    ACTS(SIGMOID),
    ACTS(TANH),
    {"geglu", {.kind = OP_GEGLU, .n_in = 1, .in = {X(11, 74)}, .out = X(11, 37)}, 0},
    {"convert", {.kind = OP_CONVERT, .n_in = 1, .in = {X(11, 74)}, .out = X(11, 74)}, 0},
    {"upsample",
     {.kind = OP_UPSAMPLE, .n_in = 1, .in = {X(2, 3, 4, 5)}, .out = X(2, 7, 8, 5), .attr.upsample = {7, 8}},
     0},
    {"concat channels",
     {.kind = OP_CONCAT, .n_in = 3, .in = {X(2, 3, 4), X(2, 3, 7), X(2, 3, 1)}, .out = X(2, 3, 12), .attr.concat = {2}},
     0},
    {"concat rows",
     {.kind = OP_CONCAT, .n_in = 2, .in = {X(2, 3, 4), X(2, 5, 4)}, .out = X(2, 8, 4), .attr.concat = {1}},
     0},
    {"slice channels",
     {.kind = OP_SLICE, .n_in = 1, .in = {X(2, 3, 9)}, .out = X(2, 3, 4), .attr.slice = {2, 3, 4}},
     0},
    {"slice images", {.kind = OP_SLICE, .n_in = 1, .in = {X(5, 3, 9)}, .out = X(2, 3, 9), .attr.slice = {0, 2, 2}}, 0},
    {"reshape", {.kind = OP_RESHAPE, .n_in = 1, .in = {X(6, 20)}, .out = X(2, 5, 12)}, 0},
    {"permute",
     {.kind = OP_PERMUTE, .n_in = 1, .in = {X(2, 3, 4, 5)}, .out = X(2, 4, 3, 5), .attr.permute = {{0, 2, 1, 3}}},
     0},
    {"permute last",
     {.kind = OP_PERMUTE, .n_in = 1, .in = {X(2, 3, 4, 5)}, .out = X(2, 5, 3, 4), .attr.permute = {{0, 3, 1, 2}}},
     0},
    /* in f16 its numbers are beyond 65504 */
    {"matmul saturating",
     {.kind = OP_MATMUL,
      .n_in = 2,
      .in = {X(37, 40), X(40, 70)},
      .out = X(37, 70),
      .attr.matmul = {1e5f, 0},
      .saturate = 1},
     PRODUCT},
    {"map a * 200000 - b",
     {.kind = OP_MAP, .n_in = 2, .in = {X(5, 600), X(5, 600)}, .out = X(5, 600), .saturate = 1},
     0},
    {"affine saturating",
     {.kind = OP_AFFINE, .n_in = 1, .in = {X(3, 1500)}, .out = X(3, 1500), .attr.affine = {-2e5f, 1}, .saturate = 1},
     0},
    {"linear saturating, residual",
     {.kind = OP_LINEAR,
      .n_in = 4,
      .in = {X(70, 300), W(40, 300), W(40), X(70, 40)},
      .out = X(70, 40),
      .epilogue = {.residual = 1},
      .saturate = 1},
     PRODUCT},
    {"add, rank 7",
     {.kind = OP_ADD, .n_in = 2, .in = {X(2, 3, 2, 2, 3, 2, 5), X(3, 1, 2, 1, 2, 5)}, .out = X(2, 3, 2, 2, 3, 2, 5)},
     0},
    {"mul, rank 8",
     {.kind = OP_MUL,
      .n_in = 2,
      .in = {X(2, 3, 2, 1, 2, 3, 2, 5), X(2, 1, 2, 1, 1, 3, 1, 5)},
      .out = X(2, 3, 2, 1, 2, 3, 2, 5)},
     0},
    {"affine, rank 8",
     {.kind = OP_AFFINE,
      .n_in = 1,
      .in = {X(2, 3, 2, 1, 2, 3, 2, 5)},
      .out = X(2, 3, 2, 1, 2, 3, 2, 5),
      .attr.affine = {0.5f, 2}},
     0},
    {"concat, rank 7",
     {.kind = OP_CONCAT,
      .n_in = 2,
      .in = {X(2, 3, 2, 2, 3, 2, 5), X(2, 3, 2, 4, 3, 2, 5)},
      .out = X(2, 3, 2, 6, 3, 2, 5),
      .attr.concat = {3}},
     0},
    {"concat, rank 8",
     {.kind = OP_CONCAT,
      .n_in = 2,
      .in = {X(2, 3, 2, 1, 2, 3, 2, 5), X(2, 3, 2, 1, 2, 3, 2, 6)},
      .out = X(2, 3, 2, 1, 2, 3, 2, 11),
      .attr.concat = {7}},
     0},
    {"slice, rank 7",
     {.kind = OP_SLICE,
      .n_in = 1,
      .in = {X(2, 3, 2, 2, 3, 2, 5)},
      .out = X(2, 3, 2, 2, 2, 2, 5),
      .attr.slice = {4, 1, 2}},
     0},
    {"slice, rank 8",
     {.kind = OP_SLICE,
      .n_in = 1,
      .in = {X(2, 3, 2, 1, 2, 3, 2, 5)},
      .out = X(2, 3, 2, 1, 2, 3, 1, 5),
      .attr.slice = {6, 1, 1}},
     0},
    {"reshape, rank 8", {.kind = OP_RESHAPE, .n_in = 1, .in = {X(6, 60)}, .out = X(2, 3, 2, 1, 2, 3, 1, 5)}, 0},
    {"permute, rank 7",
     {.kind = OP_PERMUTE,
      .n_in = 1,
      .in = {X(2, 3, 4, 2, 3, 2, 5)},
      .out = X(2, 3, 2, 2, 3, 4, 5),
      .attr.permute = {{3, 1, 5, 0, 4, 2, 6}}},
     0},
    {"permute, rank 8",
     {.kind = OP_PERMUTE,
      .n_in = 1,
      .in = {X(2, 3, 4, 1, 2, 3, 2, 5)},
      .out = X(5, 2, 3, 2, 1, 4, 3, 2),
      .attr.permute = {{7, 6, 5, 4, 3, 2, 1, 0}}},
     0},
    {"layer_norm, rank 8",
     {.kind = OP_LAYER_NORM,
      .n_in = 3,
      .in = {X(2, 3, 1, 1, 2, 1, 2, 33), W(33), W(33)},
      .out = X(2, 3, 1, 1, 2, 1, 2, 33),
      .attr.norm = {0, 1e-5f}},
     0},
    {"group_norm, rank 7",
     {.kind = OP_GROUP_NORM,
      .n_in = 3,
      .in = {X(2, 3, 1, 2, 2, 2, 12), W(12), W(12)},
      .out = X(2, 3, 1, 2, 2, 2, 12),
      .attr.norm = {3, 1e-5f}},
     0},
    {"linear, rank 8",
     {.kind = OP_LINEAR,
      .n_in = 3,
      .in = {X(2, 3, 1, 1, 2, 1, 2, 24), W(16, 24), W(16)},
      .out = X(2, 3, 1, 1, 2, 1, 2, 16)},
     PRODUCT},
    {"embedding, rank 8",
     {.kind = OP_EMBEDDING, .n_in = 2, .in = {W(5, 24), IDS(2, 1, 1, 3, 1, 2, 2)}, .out = X(2, 1, 1, 3, 1, 2, 2, 24)},
     0},
    {"embedding", {.kind = OP_EMBEDDING, .n_in = 2, .in = {W(5, 24), IDS(2, 7)}, .out = X(2, 7, 24)}, 0},
    {"gather several", {.kind = OP_GATHER, .n_in = 2, .in = {X(3, 5, 24), IDS(3, 4)}, .out = X(3, 4, 24)}, 0},
    {"gather", {.kind = OP_GATHER, .n_in = 2, .in = {X(3, 5, 24), IDS(3)}, .out = X(3, 24)}, 0},
    {"timestep",
     {.kind = OP_TIMESTEP, .n_in = 1, .in = {X(3)}, .out = X(3, 320), .attr.timestep = {320, 1, 0, 10000}},
     0},
    {"timestep odd",
     {.kind = OP_TIMESTEP, .n_in = 1, .in = {X(3)}, .out = X(3, 33), .attr.timestep = {33, 0, 1, 10000}},
     0},
    {"timestep of frames",
     {.kind = OP_TIMESTEP, .n_in = 1, .in = {X(2, 5)}, .out = X(2, 5, 24), .attr.timestep = {24, 1, 0, 10000}},
     0},
    /* every operation of the expressions, in numbers and whole numbers */
    MAP("a + b", X(3, 5, 19), X(3, 5, 19), X(3, 5, 19)),
    MAP("a - tanh(c) * b", X(3, 5, 19), X(3, 5, 19), X(3, 5, 19), X(3, 1, 19)),
    MAP("a * b + c", X(2, 3, 4, 600), X(4, 1), X(2, 1, 1, 600), W(3, 1, 600)),
    MAP("-a / (b + 3) * a + a", X(7, 600), X(7, 600), W(600)),
    MAP("abs(a) + sign(b) * 2 + floor(a * 9) + ceil(b * 9) + round(a * 8)", X(5, 37), X(5, 37), X(5, 37)),
    MAP("sqrt(abs(a)) + rsqrt(b * b + 0.1)", X(5, 37), X(5, 37), X(5, 37)),
    MAP("exp(a) + exp2(b) + expm1(a) + log(b + 2) + log2(a + 2) + log1p(b * .5)", X(5, 37), X(5, 37), X(5, 37)),
    MAP("sin(a) + cos(b) + tan(a) + atan(b) + atan2(a, b + 2) + tanh(b)", X(5, 37), X(5, 37), X(5, 37)),
    MAP("pow(abs(a) + .1, b) + mod(a, b + 2) + erf(a)", X(5, 37), X(5, 37), X(5, 37)),
    MAP("sigmoid(a) + silu(b) + gelu(a) + gelu_tanh(b) + quick_gelu(a) + relu(b) + softplus(a * 30)", X(5, 37),
        X(5, 37), X(5, 37)),
    MAP("a < b ? a : c", X(5, 37), X(5, 37), X(5, 37), X(37)),
    MAP("(a <= b) + (a > b) * 2 + (a >= c) * 4 + (b == c) * 8 + (a != b) * 16", X(5, 37), X(5, 37), X(5, 37), X(37)),
    MAP("a > 0 && b > 0 || !(c < 0) ? min(a, b) : max(b, c)", X(5, 37), X(5, 37), X(5, 37), X(37)),
    MAP("b > 0 ? a : 0 / 0 * a", X(5, 37), X(5, 37), {.dtype = KILN_F32, .weight = 1, .shape = SHAPE(1)}),
    MAP("isnan(a / 0 * 0) + p * a + q + r * s", X(5, 37), X(5, 37)),
    MAP("a * 3 - b", IDS(4, 23), IDS(4, 23), IDS(23)),
    MAP("(a - 2) / (b + 1) + mod(a - 2, b + 1) * 100 + abs(a - 3) + sign(a - 2)", IDS(4, 23), IDS(4, 23), IDS(4, 1)),
    MAP("a == b ? -a : min(a, b) + max(a, 2) + !(a < b && b) + (a <= 1 || b != 2)", IDS(4, 23), IDS(4, 23), IDS(23)),
    MAP("a * 2.5 + b", X(4, 23), IDS(4, 23), X(4, 23)),
    MAP("a * 100", IDS(4, 23), X(4, 23)),
};

static const op_case embedding_case = {
    "embedding", {.kind = OP_EMBEDDING, .n_in = 2, .in = {W(5, 24), IDS(1)}, .out = X(1, 24)}, 0};
static const op_case groups_case = {"groups with an activation",
                                    {.kind = OP_CONV2D,
                                     .n_in = 3,
                                     .in = {X(1, 4, 4, 8), W(8, 4, 3, 3), NONE},
                                     .out = X(1, 4, 4, 8),
                                     .epilogue = {.act = KILN_ACT_SILU},
                                     .attr.conv2d = {{1, 1}, {1, 1, 1, 1}, {1, 1}, 2}},
                                    0};

/* ---- SD1.5 at 512x512: the layers that make a CFG step (batch 2) and the decoder, about as often as each comes ----
 */

typedef struct {
    op_case c;
    int count, repeat;
} bench_case;

#define CONV3(label, n, s, i, o, count)                                                                                \
    {                                                                                                                  \
        CONV(label, n, s, s, i, o, 3, 3, s, s, 1, 1, 1, 1, 1, .n_in = 3), count, 3                                     \
    }
#define DENSE(label, r, k, n, count)                                                                                   \
    {                                                                                                                  \
        {"linear " label, {.kind = OP_LINEAR, .n_in = 3, .in = {X(r, k), W(n, k), W(n)}, .out = X(r, n)}, 0}, count, 3 \
    }
#define GATED(label, r, k, n, count)                                                                                   \
    {                                                                                                                  \
        {"linear geglu " label,                                                                                        \
         {.kind = OP_LINEAR,                                                                                           \
          .n_in = 3,                                                                                                   \
          .in = {X(r, k), W(2 * (n), k), W(2 * (n))},                                                                  \
          .out = X(r, n),                                                                                              \
          .epilogue = {.geglu = 1}},                                                                                   \
         0},                                                                                                           \
            count, 3                                                                                                   \
    }

static const bench_case bench_cases[] = {
    PRODUCTS_BENCH,
    STORED_BENCH,
    SPEED_ROWS,
    CONV3("64x64 320-320", 2, 64, 320, 320, 7),
    CONV3("64x64 640-320", 2, 64, 640, 320, 2),
    CONV3("64x64 960-320", 2, 64, 960, 320, 1),
    CONV3("64x64 640-640 (upsampled)", 2, 64, 640, 640, 1),
    CONV3("32x32 640-640", 2, 32, 640, 640, 6),
    CONV3("32x32 1280-640", 2, 32, 1280, 640, 2),
    CONV3("32x32 1280-1280 (upsampled)", 2, 32, 1280, 1280, 1),
    CONV3("16x16 1280-1280", 2, 16, 1280, 1280, 7),
    CONV3("16x16 2560-1280", 2, 16, 2560, 1280, 2),
    CONV3("8x8 1280-1280", 2, 8, 1280, 1280, 11),
    CONV3("8x8 2560-1280", 2, 8, 2560, 1280, 3),
    DENSE("8192 320-320 (q k v o proj)", 8192, 320, 320, 40),
    DENSE("8192 1280-320 (ff out)", 8192, 1280, 320, 5),
    GATED("8192 320-1280", 8192, 320, 1280, 5),
    DENSE("2048 640-640", 2048, 640, 640, 40),
    DENSE("2048 2560-640 (ff out)", 2048, 2560, 640, 5),
    GATED("2048 640-2560", 2048, 640, 2560, 5),
    DENSE("512 1280-1280", 512, 1280, 1280, 40),
    DENSE("512 5120-1280 (ff out)", 512, 5120, 1280, 5),
    GATED("512 1280-5120", 512, 1280, 5120, 5),
    DENSE("128 1280-1280", 128, 1280, 1280, 8),
    GATED("128 1280-5120", 128, 1280, 5120, 1),
    {ATTEND("4096 x 4096, 8 heads of 40", 2, 4096, 4096, 8, 40, 0, 3, NONE), 5, 2},
    {ATTEND("1024 x 1024, 8 heads of 80", 2, 1024, 1024, 8, 80, 0, 3, NONE), 5, 2},
    {ATTEND("256 x 256, 8 heads of 160", 2, 256, 256, 8, 160, 0, 3, NONE), 5, 2},
    {ATTEND("4096 x 77, 8 heads of 40", 2, 4096, 77, 8, 40, 0, 3, NONE), 5, 2},
    {GROUP("64x64x320 silu", 2, 64, 64, 320, 32, 1e-5f, .n_in = 3, .epilogue = {.act = KILN_ACT_SILU}), 16, 3},
    {{"layer_norm 8192 x 320",
      {.kind = OP_LAYER_NORM,
       .n_in = 3,
       .in = {X(8192, 320), W(320), W(320)},
       .out = X(8192, 320),
       .attr.norm = {0, 1e-5f}},
      0},
     15,
     3},
    CONV3("decoder 64x64 512-512", 1, 64, 512, 512, 10),
    CONV3("decoder 128x128 512-512", 1, 128, 512, 512, 7),
    CONV3("decoder 256x256 512-512", 1, 256, 512, 512, 1),
    CONV3("decoder 256x256 256-256", 1, 256, 256, 256, 5),
    CONV3("decoder 256x256 512-256", 1, 256, 512, 256, 1),
    CONV3("decoder 512x512 256-256", 1, 512, 256, 256, 1),
    CONV3("decoder 512x512 256-128", 1, 512, 256, 128, 1),
    {ATTEND("decoder 4096 x 4096, a head of 512", 1, 4096, 4096, 1, 512, 0, 3, NONE), 1, 2},
    CONV3("decoder 512x512 128-128", 1, 512, 128, 128, 5),
};

#endif
