/* ops_bench_rows.h - rows of `test_ops bench` for ops that wait for memory: the sizes of language models, transformers
 * of pictures and decoders, made so large that they do not stay in caches. Their count is 0: they are part of no pass,
 * and GB/s is what counts.
 */
#ifndef KILN_TESTS_OPS_BENCH_ROWS_H
#define KILN_TESTS_OPS_BENCH_ROWS_H

#define SPEED(...)                                                                                                     \
    {                                                                                                                  \
        __VA_ARGS__, 0, 5                                                                                              \
    }
/* One whose GFLOP/s count. */
#define RATE(...)                                                                                                      \
    {                                                                                                                  \
        __VA_ARGS__, 1, 3                                                                                              \
    }
#define SPEED_OF(kind_, label, result, ...)                                                                            \
    {                                                                                                                  \
        {label, {.kind = kind_, .out = result, __VA_ARGS__}, 0}, 0, 5                                                  \
    }
#define SPEED_ACT(act_)                                                                                                \
    SPEED_OF(OP_ACT, "act " #act_ " 16384 x 2048", X(16384, 2048), .n_in = 1, .in = {X(16384, 2048)},                  \
             .attr.act = {KILN_ACT_##act_})
#define SPEED_MAP(text) SPEED(MAP(text, X(16384, 2048), X(16384, 2048), X(16384, 2048), X(2048)))
#define SPEED_MAP1(text) SPEED(MAP(text, X(16384, 2048), X(16384, 2048)))
#define SPEED_ROWS                                                                                                     \
    SPEED(GROUP("1x256x256x320", 1, 256, 256, 320, 32, 1e-5f, .n_in = 3)),                                             \
        SPEED(                                                                                                         \
            GROUP("1x256x256x512 silu", 1, 256, 256, 512, 32, 1e-5f, .n_in = 3, .epilogue = {.act = KILN_ACT_SILU})),  \
        SPEED_OF(OP_LAYER_NORM, "layer_norm 65536 x 1024", X(65536, 1024), .n_in = 3,                                  \
                 .in = {X(65536, 1024), W(1024), W(1024)}, .attr.norm = {0, 1e-5f}),                                   \
        SPEED_OF(OP_SOFTMAX, "softmax log 512 x 131072", X(512, 131072), .n_in = 2, .in = {X(512, 131072), NONE},      \
                 .attr.softmax = {1}),                                                                                 \
        SPEED_OF(OP_REDUCE, "reduce argmax of rows 512 x 131072", IDS(512), .n_in = 1, .in = {X(512, 131072)},         \
                 .attr.reduce = {KILN_REDUCE_ARGMAX, 2, 0}),                                                           \
        SPEED_OF(OP_REDUCE, "reduce argmax of columns 65536 x 1024", IDS(1024), .n_in = 1, .in = {X(65536, 1024)},     \
                 .attr.reduce = {KILN_REDUCE_ARGMAX, 1, 0}),                                                           \
        SPEED(REDUCE("logsumexp of columns 65536 x 1024", LOGSUMEXP, 1, X(65536, 1024), X(1024))),                     \
        SPEED(SORT("8 of 64 experts, 1M rows", X(1048576, 64), X(1048576, 8), IDS(1048576, 8), 8, 0)),                 \
        SPEED_OF(OP_BINCOUNT, "bincount 32M", IDS(256), .n_in = 1, .in = {IDS(32, 1048576)}, .attr.bincount = {256}),  \
        SPEED_OF(OP_TAKE_ALONG, "take_along 16384 x 2048", X(16384, 2048), .n_in = 2,                                  \
                 .in = {X(16384, 2048), IDS(16384, 2048)}),                                                            \
        SPEED(SCATTER("set 16384 rows of 2048", X(16384, 2048), IDS(16384), X(16384, 2048), 0, 0)),                    \
        SPEED_OF(OP_EMBEDDING, "embedding 8192 of 4096", X(8192, 4096), .n_in = 2, .in = {W(5, 4096), IDS(8192)}),     \
        SPEED_OF(OP_GATHER, "gather 16384 of 2 x 2048", X(16384, 2048), .n_in = 2,                                     \
                 .in = {X(16384, 5, 2048), IDS(16384)}),                                                               \
        SPEED_OF(OP_TIMESTEP, "timestep 4096 x 1024", X(4096, 1024), .n_in = 1, .in = {X(4096)},                       \
                 .attr.timestep = {1024, 1, 0, 10000}),                                                                \
        SPEED_OF(OP_ADD, "add 16384 x 2048", X(16384, 2048), .n_in = 2, .in = {X(16384, 2048), X(16384, 2048)}),       \
        SPEED_OF(OP_ADD, "add a row 16384 x 2048", X(16384, 2048), .n_in = 2, .in = {X(16384, 2048), X(2048)}),        \
        SPEED_OF(OP_MUL, "mul 16384 x 2048", X(16384, 2048), .n_in = 2, .in = {X(16384, 2048), X(16384, 2048)}),       \
        SPEED_OF(OP_AFFINE, "affine 16384 x 2048", X(16384, 2048), .n_in = 1, .in = {X(16384, 2048)},                  \
                 .attr.affine = {0.18f, -0.25f}),                                                                      \
        SPEED_ACT(SILU), SPEED_ACT(GELU), SPEED_ACT(GELU_TANH), SPEED_ACT(QUICK_GELU), SPEED_ACT(RELU),                \
        SPEED_ACT(SIGMOID), SPEED_ACT(TANH),                                                                           \
        SPEED_OF(OP_GEGLU, "geglu 16384 x 2048", X(16384, 2048), .n_in = 1, .in = {X(16384, 4096)}),                   \
        SPEED_OF(OP_CONVERT, "convert f32, 16384 x 2048", X(16384, 2048), .n_in = 1, .in = {X(16384, 2048)}),          \
        SPEED_MAP("a + c * b"), SPEED(MAP("silu(a) * b", X(16384, 2048), X(16384, 2048), X(16384, 2048))),             \
        SPEED_MAP("a < b ? a : c"), SPEED_MAP("max(a, b) / c"), SPEED_MAP1("sqrt(a)"), SPEED_MAP1("exp(a)"),           \
        SPEED_MAP1("log(a)"), SPEED_MAP1("sin(a)"), SPEED_MAP1("tanh(a)"), SPEED_MAP1("erf(a)"),                       \
        SPEED_MAP1("softplus(a)"), SPEED_MAP1("floor(a)"),                                                             \
        SPEED_OF(OP_UPSAMPLE, "upsample_nearest 512 to 1024, 64 channels", X(1, 1024, 1024, 64), .n_in = 1,            \
                 .in = {X(1, 512, 512, 64)}, .attr.upsample = {1024, 1024}),                                           \
        SPEED_OF(OP_CONCAT, "concat channels 65536 x 320 + 640", X(65536, 960), .n_in = 2,                             \
                 .in = {X(65536, 320), X(65536, 640)}, .attr.concat = {1}),                                            \
        SPEED_OF(OP_SLICE, "slice 65536 x 640 of 1920", X(65536, 640), .n_in = 1, .in = {X(65536, 1920)},              \
                 .attr.slice = {1, 640, 640}),                                                                         \
        SPEED_OF(OP_RESHAPE, "reshape 16384 x 2048", X(2048, 16384), .n_in = 1, .in = {X(16384, 2048)}),               \
        SPEED_OF(OP_PERMUTE, "permute heads 16384 x 16 x 128", X(16, 16384, 128), .n_in = 1,                           \
                 .in = {X(16384, 16, 128)}, .attr.permute = {{1, 0, 2}}),                                              \
        SPEED_OF(OP_PERMUTE, "permute rows with columns 16384 x 2048", X(2048, 16384), .n_in = 1,                      \
                 .in = {X(16384, 2048)}, .attr.permute = {{1, 0}}),                                                    \
        SPEED_OF(OP_PERMUTE, "permute channels first 1024 x 1024 x 64", X(64, 1024, 1024), .n_in = 1,                  \
                 .in = {X(1024, 1024, 64)}, .attr.permute = {{2, 0, 1}}),                                              \
        SPEED_OF(OP_STATE_WRITE, "state_write 16384 x 2048", X(1, 16384, 2048), .n_in = 3,                             \
                 .in = {X(1, 16384, 2048), IDS(1), X(1, 16384, 2048)}, .attr.state_write = {1}),                       \
        SPEED(RESIZE("bicubic 512 to 1024, 64 channels", X(1, 512, 512, 64), X(1, 1024, 1024, 64), 1024, 1024, 3, 0,   \
                     0)),                                                                                              \
        SPEED(RESIZE("nearest 512 to 1024, 64 channels", X(1, 512, 512, 64), X(1, 1024, 1024, 64), 1024, 1024, 0, 0,   \
                     0)),                                                                                              \
        SPEED(RESIZE("area 1024 to 512, 64 channels", X(1, 1024, 1024, 64), X(1, 512, 512, 64), 512, 512, 4, 0, 0)),   \
        SPEED(RESIZE("bilinear 2048 to 4096, 3 channels", X(1, 2048, 2048, 3), X(1, 4096, 4096, 3), 4096, 4096, 2, 0,  \
                     0)),                                                                                              \
        SPEED_OF(OP_GRID_SAMPLE, "grid_sample bilinear 1024 x 1024 x 64", X(1, 1024, 1024, 64), .n_in = 2,             \
                 .in = {X(1, 1024, 1024, 64), X(1, 1024, 1024, 2)}, .attr.grid_sample = {0, 0, 0}),                    \
        SPEED(ANY_POOL("maximum 3 x 3", X(1, 1024, 1024, 64), X(1, 1024, 1024, 64), 1, 2, 0, {3, 3}, {1, 1}, {1, 1},   \
                       {1, 1})),                                                                                       \
        SPEED(ANY_CONV("depthwise causal 4, 32768 x 2048", X(1, 32768, 2048), W(2048, 1, 4), W(2048),                  \
                       X(1, 32768, 2048), 1, 0, 0, ONES, {3}, {0}, ONES, {0}, 2048)),                                  \
        SPEED(ATTEND_MORE("decode 8 heads of 128, 32768 keys", 1, 1, 32768, 8, 8, 128, 128, HEADS(8, 8, .causal = 0),  \
                          NONE)),                                                                                      \
        SPEED(ATTEND_MORE("decode 32 over 8 heads of 128, 32768 keys", 1, 1, 32768, 32, 8, 128, 128,                   \
                          HEADS(32, 8, .causal = 0), NONE)),                                                           \
        SPEED(ATTEND_MORE("decode 8 over 1 head of 128, 131072 keys", 1, 1, 131072, 8, 1, 128, 128,                    \
                          HEADS(8, 1, .causal = 0), NONE)),                                                            \
        SPEED(LINEAR_T("one row of 65536 x 1024", 1, 65536, 1024, NONE)),                                              \
        SPEED(NORM("rms 16384 x 3072", 0, X(16384, 3072), 3072, W(3072), NONE, NONE, NONE, .one_plus = 0)),            \
        SPEED(NORM("layer modulated 16384 x 3072", 1, X(1, 16384, 3072), 3072, NONE, NONE, X(1, 1, 3072),              \
                   X(1, 1, 3072), .one_plus = 0)),                                                                     \
        SPEED(NORM("rms by heads 16384 x 24 x 128", 0, X(16384, 3072), 128, W(128), NONE, NONE, NONE, .one_plus = 0)), \
        SPEED(ROPE("pairs 16384 x 24 x 128", X(1, 16384, 3072), X(1, 16384, 1, 64), 24, 128, 1)),                      \
        SPEED(ROPE("halves 16384 x 24 x 128", X(1, 16384, 3072), X(1, 16384, 1, 64), 24, 128, 0)),                     \
        SPEED(SOFTMAX("16384 x 2048", X(16384, 2048), NONE)),                                                          \
        SPEED(REDUCE("mean of columns 65536 x 1024", MEAN, 1, X(65536, 1024), X(1024))),                               \
        SPEED(REDUCE("max of rows 65536 x 1024", MAX, 2, X(65536, 1024), X(65536))),                                   \
        SPEED(REDUCE("logsumexp of rows 512 x 131072", LOGSUMEXP, 2, X(512, 131072), X(512))),                         \
        SPEED(SORT("40 of 262144", X(256, 262144), X(256, 40), IDS(256, 40), 40, 0)),                                  \
        SPEED(SORT("all of 262144", X(4, 262144), X(4, 262144), IDS(4, 262144), 262144, 0)),                           \
        SPEED(CUMSUM("rows 512 x 131072", X(512, 131072), 1, 0, 0)),                                                   \
        SPEED(CUMSUM("columns 16384 x 2048", X(16384, 2048), 0, 0, 0)),                                                \
        SPEED(TAKE("16384 rows of 2048", X(64, 2048), IDS(16384), 0, X(16384, 2048))),                                 \
        SPEED(SCATTER("add 16384 rows of 2048", X(16384, 2048), IDS(16384), X(16384, 2048), 0, 1)),                    \
        SPEED(RANDOM("normal 4M", NORMAL, 4, 1048576)), SPEED(RANDOM("uniform 4M", UNIFORM, 4, 1048576)),              \
        SPEED(RESIZE("bilinear 512 to 1024, 64 channels", X(1, 512, 512, 64), X(1, 1024, 1024, 64), 1024, 1024, 2, 0,  \
                     0)),                                                                                              \
        SPEED(ANY_POOL("average 2 x 2", X(1, 1024, 1024, 64), X(1, 512, 512, 64), 0, 2, 0, {2, 2}, {2, 2}, {0}, {0})), \
        SPEED(PADDED("reflected 1024 x 1024 x 64", X(1, 1024, 1024, 64), X(1, 1026, 1026, 64), 1, 0, {0, 1, 1},        \
                     {0, 1, 1})),                                                                                      \
        SPEED(ANY_CONV("depthwise 7 x 7, 512 x 512 x 256", X(1, 512, 512, 256), W(256, 1, 7, 7), W(256),               \
                       X(1, 512, 512, 256), 2, 0, 0, ONES, {3, 3}, {3, 3}, ONES, {0}, 256)),                           \
        RATE(ANY_CONV("causal 3 x 3 x 3, 4 x 64 x 64 x 128", X(1, 4, 64, 64, 128), W(128, 128, 3, 3, 3), W(128),       \
                      X(1, 4, 64, 64, 128), 3, 0, 0, ONES, {2, 1, 1}, {0, 1, 1}, ONES, {0}, 1)),                       \
        RATE(ANY_CONV("transposed 4 x 4, 64 x 64 x 128", X(1, 64, 64, 128), W(128, 128, 4, 4), W(128),                 \
                      X(1, 128, 128, 128), 2, 1, 0, {2, 2, 1}, {1, 1}, {1, 1}, ONES, {0}, 1)),                         \
        RATE(ANY_CONV("in 32 groups, 3 x 3, 64 x 64 x 1024", X(1, 64, 64, 1024), W(1024, 32, 3, 3), W(1024),           \
                      X(1, 64, 64, 1024), 2, 0, 0, ONES, {1, 1}, {1, 1}, ONES, {0}, 32)),                              \
        RATE(ANY_CONV("of rank 1, 7, 8192 x 512", X(1, 8192, 512), W(512, 512, 7), W(512), X(1, 8192, 512), 1, 0, 0,   \
                      ONES, {3}, {3}, ONES, {0}, 1)),                                                                  \
        RATE(CONV("3x3 beside conv, 128x128x128", 1, 128, 128, 128, 128, 3, 3, 128, 128, 1, 1, 1, 1, 1, .n_in = 3))

#endif
