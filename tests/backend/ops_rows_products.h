/* ops_rows_products.h - rows of test_ops_table.h: attention with all that it knows, products of matrices. */
#ifndef KILN_TESTS_OPS_ROWS_PRODUCTS_H
#define KILN_TESTS_OPS_ROWS_PRODUCTS_H

/* k, kv, d, dv: keys, heads of k and v, sizes of a head. `attr` and operands follow, and lse is a second result. */
#define ATTEND_MORE(label, n, q, k, h, kv, d, dv, attr_, ...)                                                          \
    {                                                                                                                  \
        "attention " label,                                                                                            \
            {.kind = OP_ATTENTION,                                                                                     \
             .n_in = 12,                                                                                               \
             .in = {X(n, q, (h) * (d)), X(n, k, (kv) * (d)), X(n, k, (kv) * (dv)), __VA_ARGS__},                       \
             .out = X(n, q, (h) * (dv)),                                                                               \
             .n_more = 1,                                                                                              \
             .more = {X(n, h, q)},                                                                                     \
             .attr.attention = attr_},                                                                                 \
            PRODUCT                                                                                                    \
    }
/* k and v are pages of `page` keys. */
#define ATTEND_PAGES_OF(label, n, q, pages, page, h, kv, d, attr_, ...)                                                \
    {                                                                                                                  \
        "attention " label,                                                                                            \
            {.kind = OP_ATTENTION,                                                                                     \
             .n_in = 12,                                                                                               \
             .in = {X(n, q, (h) * (d)), X(pages, page, (kv) * (d)), X(pages, page, (kv) * (d)), __VA_ARGS__},          \
             .out = X(n, q, (h) * (d)),                                                                                \
             .n_more = 1,                                                                                              \
             .more = {X(n, h, q)},                                                                                     \
             .attr.attention = attr_},                                                                                 \
            PRODUCT                                                                                                    \
    }
#define HEADS(h, kv, ...)                                                                                              \
    {                                                                                                                  \
        .heads = h, .kv_heads = kv, .scale = 0.15f, __VA_ARGS__                                                        \
    }

/* A weight that is stored by blocks */
#define Q(type, ...)                                                                                                   \
    {                                                                                                                  \
        .dtype = type, .weight = 1, .shape = SHAPE(__VA_ARGS__)                                                        \
    }
#define CONV_Q(type, label, n, s, i, o, k, to, st, pad, ...)                                                           \
    {                                                                                                                  \
        "conv2d " #type " " label,                                                                                     \
            {.kind = OP_CONV2D,                                                                                        \
             .in = {X(n, s, s, i), Q(type, o, i, k, k), W(o), X(n, to, to, o)},                                        \
             .out = X(n, to, to, o),                                                                                   \
             .attr.conv2d = {{st, st}, {pad, pad, pad, pad}, {1, 1}, 1},                                               \
             __VA_ARGS__},                                                                                             \
            PRODUCT                                                                                                    \
    }
#define LINEAR_Q(type, r, o, i)                                                                                        \
    {                                                                                                                  \
        "linear " #type " " #r " rows",                                                                                \
            {.kind = OP_LINEAR, .n_in = 3, .in = {X(r, i), Q(type, o, i), W(o)}, .out = X(r, o)}, PRODUCT              \
    }

/* a, b, result */
#define MATMUL(label, turned, by, a, b, c)                                                                             \
    {                                                                                                                  \
        "matmul " label, {.kind = OP_MATMUL, .n_in = 2, .in = {a, b}, .out = c, .attr.matmul = {by, turned}}, PRODUCT  \
    }
#define LINEAR_T(label, r, o, i, bias)                                                                                 \
    {                                                                                                                  \
        "linear_transposed " label, {.kind = OP_LINEAR_T, .n_in = 3, .in = {X(r, o), W(o, i), bias}, .out = X(r, i)},  \
            PRODUCT                                                                                                    \
    }
#define GROUPED(label, r, e, o, i, bias)                                                                               \
    {                                                                                                                  \
        "grouped_linear " label,                                                                                       \
            {.kind = OP_GROUPED_LINEAR, .n_in = 4, .in = {X(r, i), W(e, o, i), bias, IDS(e + 1)}, .out = X(r, o)},     \
            PRODUCT                                                                                                    \
    }
#define GROUPED_TAKEN(label, r, rows, e, o, i, w)                                                                      \
    {                                                                                                                  \
        "grouped_linear " label,                                                                                       \
            {.kind = OP_GROUPED_LINEAR, .n_in = 5, .in = {X(rows, i), w, NONE, IDS(e + 1), IDS(r)}, .out = X(r, o)},   \
            PRODUCT                                                                                                    \
    }

#define PRODUCTS_ROWS                                                                                                  \
    ATTEND_MORE("of three queries a key", 2, 9, 70, 6, 2, 24, 24, HEADS(6, 2, .causal = 0), NONE),                     \
        ATTEND_MORE("of one query, 8 heads over 1", 3, 1, 131, 8, 1, 40, 24, HEADS(8, 1, .causal = 1), NONE, IDS(3)),  \
        ATTEND_MORE("wide v", 1, 70, 33, 2, 2, 16, 40, HEADS(2, 2, .causal = 0), X(1, 1, 70, 33)),                     \
        ATTEND_MORE("absorbed, 6 over 1", 2, 5, 66, 6, 1, 72, 64, HEADS(6, 1, .causal = 1), NONE, IDS(1)),             \
        ATTEND_MORE("soft cap", 1, 37, 131, 2, 1, 24, 24, HEADS(2, 1, .softcap = 0.7f, .causal = 1), NONE, IDS(1)),    \
        ATTEND_MORE("soft cap, mask", 2, 5, 19, 2, 2, 8, 8, HEADS(2, 2, .softcap = 30), X(2, 1, 5, 19)),               \
        ATTEND_MORE("causal, offset by image", 3, 70, 150, 2, 2, 16, 16, HEADS(2, 2, .causal = 1), NONE, IDS(3)),      \
        ATTEND_MORE("window", 2, 150, 150, 2, 1, 16, 16, HEADS(2, 1, .window = 1, .left = 20, .right = 7), NONE),      \
        ATTEND_MORE("window, causal, offset", 2, 67, 300, 2, 1, 16, 16,                                                \
                    HEADS(2, 1, .window = 1, .left = 70, .right = 500, .causal = 1), NONE, IDS(2)),                    \
        ATTEND_MORE("window of nothing", 1, 9, 5, 1, 1, 8, 8, HEADS(1, 1, .window = 1, .left = 0, .right = 0), NONE),  \
        ATTEND_MORE("lengths", 3, 20, 140, 2, 1, 24, 16, HEADS(2, 1, .causal = 0), NONE, NONE, IDS(3)),                \
        ATTEND_MORE("one length, causal, offset", 2, 20, 140, 2, 1, 24, 16, HEADS(2, 1, .causal = 1), NONE, IDS(2),    \
                    IDS(1)),                                                                                           \
        ATTEND_MORE("segments", 2, 90, 75, 2, 1, 8, 8, HEADS(2, 1, .causal = 0), NONE, NONE, NONE, IDS(2, 90),         \
                    IDS(2, 75)),                                                                                       \
        ATTEND_MORE("segments for all", 2, 7, 75, 2, 2, 8, 8, HEADS(2, 2, .causal = 1), NONE, IDS(1), NONE, IDS(1, 7), \
                    IDS(1, 75)),                                                                                       \
        ATTEND_MORE("a ring", 2, 5, 150, 4, 2, 16, 8, HEADS(4, 2, .causal = 1, .window = 1, .left = 60), NONE, IDS(2), \
                    NONE, NONE, NONE, IDS(2, 150)),                                                                    \
        ATTEND_MORE("a ring for all, length", 2, 70, 80, 2, 1, 16, 8, HEADS(2, 1, .causal = 1), NONE, IDS(1), IDS(1),  \
                    NONE, NONE, IDS(1, 80)),                                                                           \
        ATTEND_MORE("bias table", 2, 70, 300, 3, 3, 16, 16, HEADS(3, 3, .bidirectional = 1, .max_distance = 128),      \
                    NONE, NONE, NONE, NONE, NONE, NONE, W(32, 3)),                                                     \
        ATTEND_MORE("bias table, one way, offset", 1, 70, 300, 3, 1, 16, 16,                                           \
                    HEADS(3, 1, .max_distance = 100, .causal = 1), NONE, IDS(1), NONE, NONE, NONE, NONE, X(20, 3)),    \
        ATTEND_MORE("bias table, ring", 1, 7, 80, 2, 1, 8, 8, HEADS(2, 1, .bidirectional = 1, .max_distance = 20),     \
                    NONE, IDS(1), NONE, NONE, NONE, IDS(1, 80), X(8, 2)),                                              \
        ATTEND_MORE("sinks", 2, 70, 77, 4, 2, 16, 8, HEADS(4, 2, .causal = 1), NONE, NONE, NONE, NONE, NONE, NONE,     \
                    NONE, W(4)),                                                                                       \
        ATTEND_MORE("sinks without keys", 2, 3, 7, 2, 2, 8, 8, HEADS(2, 2, .causal = 0), NONE, NONE, IDS(2), NONE,     \
                    NONE, NONE, NONE, X(2)),                                                                           \
        ATTEND_PAGES_OF("pages", 2, 5, 19, 16, 4, 2, 16, HEADS(4, 2, .causal = 1), NONE, IDS(2), NONE, NONE, NONE,     \
                        NONE, NONE, NONE, IDS(2, 9)),                                                                  \
        ATTEND_PAGES_OF("pages, lengths", 3, 66, 30, 7, 2, 1, 16, HEADS(2, 1, .causal = 1), NONE, IDS(3), IDS(3),      \
                        NONE, NONE, NONE, NONE, NONE, IDS(3, 10)),                                                     \
        MATMUL("small", 0, 0.5f, X(5, 13), X(13, 7), X(5, 7)),                                                         \
        MATMUL("small, turned", 1, 1, X(3, 5, 13), X(3, 7, 13), X(3, 5, 7)),                                           \
        MATMUL("broadcast", 0, 1, X(2, 1, 9, 33), X(3, 33, 20), X(2, 3, 9, 20)),                                       \
        MATMUL("broadcast, turned", 1, -2, X(9, 33), X(2, 1, 3, 20, 33), X(2, 1, 3, 9, 20)),                           \
        MATMUL("large", 0, 1, X(2, 150, 300), X(2, 300, 270), X(2, 150, 270)),                                         \
        MATMUL("large, turned", 1, 0.125f, X(2, 1, 150, 300), X(1, 2, 270, 300), X(2, 2, 150, 270)),                   \
        MATMUL("few rows, turned", 1, 1, X(2, 3, 1300), X(2, 70, 1300), X(2, 3, 70)),                                  \
        MATMUL("deep", 0, 1, X(70, 2500), X(2500, 36), X(70, 36)),                                                     \
        MATMUL("deep, turned", 1, 1, X(70, 2500), X(36, 2500), X(70, 36)), LINEAR_T("few rows", 3, 300, 37, W(37)),    \
        LINEAR_T("odd", 5, 13, 7, NONE), LINEAR_T("rows", 1100, 70, 40, W(40)),                                        \
        LINEAR_T("deep", 35, 2300, 160, W(160)), GROUPED("few rows", 13, 5, 33, 40, W(5, 33)),                         \
        GROUPED("odd", 90, 4, 7, 13, NONE), GROUPED("rows", 400, 4, 150, 96, W(4, 150)),                               \
        GROUPED("deep", 100, 3, 70, 2300, NONE), GROUPED("one of many", 2, 60, 24, 32, NONE),                          \
        GROUPED_TAKEN("of 20 rows taken", 150, 20, 4, 70, 96, W(4, 70, 96)),                                           \
        GROUPED_TAKEN("of 3 rows taken", 13, 3, 5, 33, 40, W(5, 33, 40)),                                              \
        GROUPED_TAKEN("KILN_Q4_K, taken", 90, 12, 4, 64, 768, Q(KILN_Q4_K, 4, 64, 768)),                               \
        GROUPED_TAKEN("KILN_Q8_0, deep, taken", 150, 150, 3, 70, 2336, Q(KILN_Q8_0, 3, 70, 2336)),                     \
        GROUPED_TAKEN("KILN_Q6_K, few rows taken", 7, 2, 5, 33, 512, Q(KILN_Q6_K, 5, 33, 512)),                        \
        LINEAR_Q(KILN_Q8_0, 3, 37, 320), LINEAR_Q(KILN_Q8_0, 70, 130, 2304), LINEAR_Q(KILN_Q4_0, 9, 37, 96),           \
        LINEAR_Q(KILN_Q4_K, 5, 33, 512), LINEAR_Q(KILN_Q5_K, 130, 33, 256), LINEAR_Q(KILN_Q6_K, 16, 600, 512),         \
        LINEAR_Q(KILN_IQ4_NL, 2, 9, 1376), LINEAR_Q(KILN_MXFP4, 2, 9, 64), LINEAR_Q(KILN_Q8_0, 700, 200, 320),         \
        LINEAR_Q(KILN_Q4_1, 33, 1030, 160), LINEAR_Q(KILN_Q5_1, 8, 40, 64), LINEAR_Q(KILN_Q2_K, 40, 70, 768),          \
        LINEAR_Q(KILN_Q3_K, 7, 70, 768), LINEAR_Q(KILN_IQ4_XS, 12, 20, 512), LINEAR_Q(KILN_NVFP4, 50, 70, 192),        \
        LINEAR_Q(KILN_Q6_K, 20, 70, 5120), LINEAR_Q(KILN_Q5_0, 1, 70, 2048),                                           \
        CONV_Q(KILN_Q8_0, "3x3, silu, residual", 2, 9, 64, 50, 3, 9, 1, 1, .n_in = 4,                                  \
               .epilogue = {.act = KILN_ACT_SILU, .residual = 1}),                                                     \
        CONV_Q(KILN_Q8_0, "3x3, several pieces", 1, 12, 320, 390, 3, 12, 1, 1, .n_in = 3),                             \
        CONV_Q(KILN_Q4_0, "3x3, half as large", 1, 17, 32, 37, 3, 9, 2, 1, .n_in = 3),                                 \
        CONV_Q(KILN_Q6_K, "3x3, blocks across channels", 1, 14, 1280, 70, 3, 14, 1, 1, .n_in = 3),                     \
        CONV_Q(KILN_Q4_K, "3x3", 1, 7, 256, 33, 3, 7, 1, 1, .n_in = 3),                                                \
        CONV_Q(KILN_Q8_0, "1x1", 2, 5, 96, 70, 1, 5, 1, 0, .n_in = 3),                                                 \
        CONV_Q(KILN_Q5_0, "4x4 patches", 1, 32, 8, 70, 4, 8, 4, 0, .n_in = 3),                                         \
        CONV_Q(KILN_Q8_0, "8x8 patches of 3", 1, 32, 3, 48, 8, 4, 8, 0, .n_in = 3),                                    \
        CONV_Q(KILN_Q8_0, "3x3, rows of broken blocks", 1, 6, 10, 32, 3, 6, 1, 1, .n_in = 3),                          \
        {"linear KILN_Q8_0 geglu, residual",                                                                           \
         {.kind = OP_LINEAR,                                                                                           \
          .n_in = 4,                                                                                                   \
          .in = {X(70, 320), Q(KILN_Q8_0, 1300, 320), W(1300), X(70, 650)},                                            \
          .out = X(70, 650),                                                                                           \
          .epilogue = {.geglu = 1, .residual = 1}},                                                                    \
         PRODUCT},                                                                                                     \
        {"linear KILN_Q4_K geglu, silu, few rows",                                                                     \
         {.kind = OP_LINEAR,                                                                                           \
          .n_in = 3,                                                                                                   \
          .in = {X(4, 256), Q(KILN_Q4_K, 180, 256), NONE},                                                             \
          .out = X(4, 90),                                                                                             \
          .epilogue = {.geglu = 1}},                                                                                   \
         PRODUCT},                                                                                                     \
        {"linear KILN_Q8_0 act, residual",                                                                             \
         {.kind = OP_LINEAR,                                                                                           \
          .n_in = 4,                                                                                                   \
          .in = {X(70, 64), Q(KILN_Q8_0, 50, 64), W(50), X(70, 50)},                                                   \
          .out = X(70, 50),                                                                                            \
          .epilogue = {.act = KILN_ACT_SILU, .residual = 1}},                                                          \
         PRODUCT},                                                                                                     \
        {"linear of a table",                                                                                          \
         {.kind = OP_LINEAR, .n_in = 3, .in = {X(3, 8), W(24600, 8), NONE}, .out = X(3, 24600)},                       \
         PRODUCT},                                                                                                     \
        {"linear_transposed KILN_Q8_0",                                                                                \
         {.kind = OP_LINEAR_T, .n_in = 3, .in = {X(20, 300), Q(KILN_Q8_0, 300, 320), NONE}, .out = X(20, 320)},        \
         PRODUCT},                                                                                                     \
        {"linear_transposed KILN_Q6_K",                                                                                \
         {.kind = OP_LINEAR_T, .n_in = 3, .in = {X(70, 130), Q(KILN_Q6_K, 130, 768), W(768)}, .out = X(70, 768)},      \
         PRODUCT},                                                                                                     \
        {"grouped_linear KILN_Q4_K",                                                                                   \
         {.kind = OP_GROUPED_LINEAR,                                                                                   \
          .n_in = 4,                                                                                                   \
          .in = {X(90, 256), Q(KILN_Q4_K, 4, 33, 256), W(4, 33), IDS(5)},                                              \
          .out = X(90, 33)},                                                                                           \
         PRODUCT},                                                                                                     \
        {"grouped_linear KILN_Q8_0, deep",                                                                             \
         {.kind = OP_GROUPED_LINEAR,                                                                                   \
          .n_in = 4,                                                                                                   \
          .in = {X(150, 2336), Q(KILN_Q8_0, 3, 70, 2336), W(3, 70), IDS(4)},                                           \
          .out = X(150, 70)},                                                                                          \
         PRODUCT},                                                                                                     \
        {"grouped_linear KILN_Q6_K, few rows",                                                                         \
         {.kind = OP_GROUPED_LINEAR,                                                                                   \
          .n_in = 4,                                                                                                   \
          .in = {X(7, 512), Q(KILN_Q6_K, 5, 33, 512), NONE, IDS(6)},                                                   \
          .out = X(7, 33)},                                                                                            \
         PRODUCT},                                                                                                     \
        {"embedding KILN_Q5_K",                                                                                        \
         {.kind = OP_EMBEDDING, .n_in = 2, .in = {Q(KILN_Q5_K, 5, 512), IDS(2, 7)}, .out = X(2, 7, 512)},              \
         0},                                                                                                           \
    {                                                                                                                  \
        "layer_norm KILN_Q8_0",                                                                                        \
            {.kind = OP_LAYER_NORM,                                                                                    \
             .n_in = 3,                                                                                                \
             .in = {X(3, 64), Q(KILN_Q8_0, 64), W(64)},                                                                \
             .out = X(3, 64),                                                                                          \
             .attr.norm = {0, 1e-5f}},                                                                                 \
            0                                                                                                          \
    }
#define BENCH_Q(type, r, o, i)                                                                                         \
    {                                                                                                                  \
        LINEAR_Q(type, r, o, i), 1, 3                                                                                  \
    }
#define PRODUCTS_BENCH                                                                                                 \
    BENCH_Q(KILN_Q8_0, 1, 4096, 14336), BENCH_Q(KILN_Q4_K, 1, 4096, 14336), BENCH_Q(KILN_Q8_0, 8, 4096, 14336),        \
        BENCH_Q(KILN_Q4_K, 8, 4096, 14336), BENCH_Q(KILN_Q8_0, 16, 4096, 14336), BENCH_Q(KILN_Q4_K, 16, 4096, 14336),  \
        BENCH_Q(KILN_Q8_0, 8192, 320, 320), BENCH_Q(KILN_Q8_0, 2048, 640, 640), BENCH_Q(KILN_Q8_0, 512, 1280, 1280),   \
        BENCH_Q(KILN_Q4_K, 512, 1280, 1280), BENCH_Q(KILN_Q8_0, 512, 1280, 5120), BENCH_Q(KILN_Q8_0, 128, 1280, 1280), \
        {CONV_Q(KILN_Q8_0, "64x64 320-320", 2, 64, 320, 320, 3, 64, 1, 1, .n_in = 3), 7, 3},                           \
        {CONV_Q(KILN_Q5_0, "64x64 320-320", 2, 64, 320, 320, 3, 64, 1, 1, .n_in = 3), 7, 3},                           \
        {CONV_Q(KILN_Q8_0, "32x32 640-640", 2, 32, 640, 640, 3, 32, 1, 1, .n_in = 3), 6, 3},                           \
        {CONV_Q(KILN_Q8_0, "16x16 1280-1280", 2, 16, 1280, 1280, 3, 16, 1, 1, .n_in = 3), 6, 3},                       \
        {CONV_Q(KILN_Q4_K, "16x16 1280-1280", 2, 16, 1280, 1280, 3, 16, 1, 1, .n_in = 3), 6, 3},                       \
        {CONV_Q(KILN_Q8_0, "8x8 2560-1280", 2, 8, 2560, 1280, 3, 8, 1, 1, .n_in = 3), 3, 3},                           \
        {MATMUL("8 of 512 x 512 x 512", 0, 1, X(8, 512, 512), X(8, 512, 512), X(8, 512, 512)), 1, 5},                  \
        {MATMUL("8 of 512 x 512 x 512, turned", 1, 1, X(8, 512, 512), X(8, 512, 512), X(8, 512, 512)), 1, 5},          \
        {MATMUL("32 of 128 x 64 x 128", 0, 1, X(32, 128, 64), X(32, 64, 128), X(32, 128, 128)), 1, 5},                 \
        {LINEAR_T("128 of 32768 x 1024", 128, 32768, 1024, NONE), 1, 3},                                               \
        {LINEAR_T("1 of 32768 x 1024", 1, 32768, 1024, NONE), 1, 3},                                                   \
        {GROUPED("16 over 32 of 1408 x 1024", 16, 32, 1408, 1024, NONE), 1, 3},                                        \
        {GROUPED("2048 over 16 of 1408 x 1024", 2048, 16, 1408, 1024, NONE), 1, 3},                                    \
        {ATTEND("SDXL 4096 x 4096, 10 heads of 64", 2, 4096, 4096, 10, 64, 0, 3, NONE), 1, 2},                         \
        {ATTEND("SDXL 1024 x 1024, 20 heads of 64", 2, 1024, 1024, 20, 64, 0, 3, NONE), 1, 3},                         \
        {ATTEND_MORE("decode 32 over 8 heads of 128, 4096 keys", 1, 1, 4096, 32, 8, 128, 128,                          \
                     HEADS(32, 8, .causal = 0), NONE),                                                                 \
         1, 5},                                                                                                        \
        {ATTEND_MORE("decode absorbed, 16 over 1, 4096 keys", 1, 1, 4096, 16, 1, 576, 512, HEADS(16, 1, .causal = 0),  \
                     NONE),                                                                                            \
         1, 5},                                                                                                        \
        {ATTEND_MORE("prefill 1024, 16 over 4 heads of 128", 1, 1024, 1024, 16, 4, 128, 128,                           \
                     HEADS(16, 4, .causal = 1), NONE),                                                                 \
         1, 2},                                                                                                        \
        {ATTEND_MORE("prefill 528, 16 over 8 heads of 256", 1, 528, 528, 16, 8, 256, 256, HEADS(16, 8, .causal = 1),   \
                     NONE),                                                                                            \
         1, 2},                                                                                                        \
        {ATTEND_MORE("window 512 of 4096, 8 over 4 heads of 64", 1, 4096, 4096, 8, 4, 64, 64,                          \
                     HEADS(8, 4, .causal = 1, .window = 1, .left = 512), NONE),                                        \
         1, 2},                                                                                                        \
    {                                                                                                                  \
        ATTEND_MORE("t5 512, 16 heads of 64", 1, 512, 512, 16, 16, 64, 64,                                             \
                    HEADS(16, 16, .bidirectional = 1, .max_distance = 128), NONE, NONE, NONE, NONE, NONE, NONE,        \
                    W(32, 16)),                                                                                        \
            1, 2                                                                                                       \
    }

#endif
