/* ops_rows_picture.h - rows of the op table (test_ops_table.h) that work on pictures. */
#ifndef KILN_TESTS_OPS_ROWS_PICTURE_H
#define KILN_TESTS_OPS_ROWS_PICTURE_H

#define ANY_CONV(label, x, w, b, result, ...)                                                                          \
    {                                                                                                                  \
        "conv " label, {.kind = OP_CONV, .n_in = 3, .in = {x, w, b}, .out = result, .attr.conv = {__VA_ARGS__}},       \
            PRODUCT                                                                                                    \
    }
#define RESIZE(label, x, result, h_, w_, ...)                                                                          \
    {                                                                                                                  \
        "interpolate " label,                                                                                          \
            {.kind = OP_INTERPOLATE, .n_in = 1, .in = {x}, .out = result, .attr.interpolate = {__VA_ARGS__, h_, w_}},  \
            0                                                                                                          \
    }
#define ANY_POOL(label, x, result, ...)                                                                                \
    {                                                                                                                  \
        "pool " label, {.kind = OP_POOL, .n_in = 1, .in = {x}, .out = result, .attr.pool = {__VA_ARGS__}}, 0           \
    }
#define PADDED(label, x, result, ...)                                                                                  \
    {                                                                                                                  \
        "pad " label, {.kind = OP_PAD, .n_in = 1, .in = {x}, .out = result, .attr.pad = {__VA_ARGS__}}, 0              \
    }
#define GRID(label, mode_, padding_, align_)                                                                           \
    {                                                                                                                  \
        "grid_sample " label,                                                                                          \
            {.kind = OP_GRID_SAMPLE,                                                                                   \
             .n_in = 2,                                                                                                \
             .in = {X(2, 7, 9, 5), X(2, 6, 11, 2)},                                                                    \
             .out = X(2, 6, 11, 5),                                                                                    \
             .attr.grid_sample = {mode_, padding_, align_}},                                                           \
            1e-5                                                                                                       \
    }
#define ONES                                                                                                           \
    {                                                                                                                  \
        1, 1, 1                                                                                                        \
    }

#define PICTURE_ROWS                                                                                                   \
    ANY_CONV("of rank 1", X(2, 37, 20), W(33, 20, 3), W(33), X(2, 37, 33), 1, 0, 0, ONES, {1}, {1}, ONES, {0}, 1),     \
        ANY_CONV("of rank 1, depthwise, causal", X(2, 19, 24), W(24, 1, 4), W(24), X(2, 19, 24), 1, 0, 0, ONES, {3},   \
                 {0}, ONES, {0}, 24),                                                                                  \
        ANY_CONV("of rank 3, causal", X(1, 3, 7, 6, 9), W(17, 9, 3, 3, 3), W(17), X(1, 3, 7, 6, 17), 3, 0, 0, ONES,    \
                 {2, 1, 1}, {0, 1, 1}, ONES, {0}, 1),                                                                  \
        ANY_CONV("in groups, dilated, reflected", X(2, 9, 8, 12), W(20, 3, 3, 3), NONE, X(2, 9, 8, 20), 2, 0, 1, ONES, \
                 {2, 2}, {2, 2}, {2, 2, 1}, {0}, 4),                                                                   \
        ANY_CONV("with strides, circular", X(1, 9, 8, 5), W(6, 5, 3, 3), W(6), X(1, 5, 4, 6), 2, 0, 3, {2, 2, 1},      \
                 {1, 1}, {1, 1}, ONES, {0}, 1),                                                                        \
        ANY_CONV("depthwise 7 x 7", X(1, 9, 21, 40), W(40, 1, 7, 7), W(40), X(1, 9, 21, 40), 2, 0, 0, ONES, {3, 3},    \
                 {3, 3}, ONES, {0}, 40),                                                                               \
        ANY_CONV("depthwise 5 x 5, no bias", X(1, 6, 20, 35), W(35, 1, 5, 5), NONE, X(1, 6, 20, 35), 2, 0, 0, ONES,    \
                 {2, 2}, {2, 2}, ONES, {0}, 35),                                                                       \
        ANY_CONV("depthwise 3 x 3, strides", X(1, 9, 41, 300), W(300, 1, 3, 3), W(300), X(1, 5, 21, 300), 2, 0, 0,     \
                 {2, 2, 1}, {1, 1}, {1, 1}, ONES, {0}, 300),                                                           \
        ANY_CONV("depthwise, replicated", X(2, 6, 7, 21), W(21, 1, 5, 5), W(21), X(2, 6, 7, 21), 2, 0, 2, ONES,        \
                 {2, 2}, {2, 2}, ONES, {0}, 21),                                                                       \
        ANY_CONV("wide", X(1, 5, 5, 600), W(70, 600, 3, 3), W(70), X(1, 5, 5, 70), 2, 0, 2, ONES, {1, 1}, {1, 1},      \
                 ONES, {0}, 1),                                                                                        \
        ANY_CONV("transposed", X(2, 5, 4, 9), W(9, 11, 4, 4), W(11), X(2, 10, 8, 11), 2, 1, 0, {2, 2, 1}, {1, 1},      \
                 {1, 1}, ONES, {0}, 1),                                                                                \
        ANY_CONV("transposed, rank 1, groups, output_pad", X(1, 7, 6), W(6, 5, 3), NONE, X(1, 20, 10), 1, 1, 0,        \
                 {3, 1, 1}, {1}, {1}, ONES, {1}, 2),                                                                   \
        ANY_CONV("transposed, rank 3, dilated", X(1, 2, 3, 4, 5), W(5, 3, 2, 2, 2), W(3), X(1, 4, 7, 9, 3), 3, 1, 0,   \
                 {1, 2, 2}, {0}, {0}, {2, 2, 2}, {0, 0, 0}, 1),                                                        \
        RESIZE("nearest", X(2, 7, 5, 6), X(2, 11, 13, 6), 11, 13, 0, 0, 0),                                            \
        RESIZE("nearest-exact", X(2, 7, 5, 6), X(2, 3, 4, 6), 3, 4, 1, 0, 0),                                          \
        RESIZE("bilinear", X(2, 7, 5, 6), X(2, 11, 13, 6), 11, 13, 2, 0, 0),                                           \
        RESIZE("bilinear, corners", X(1, 7, 5, 1030), X(1, 3, 9, 1030), 3, 9, 2, 1, 0),                                \
        RESIZE("bilinear, 3 channels, wide", X(1, 5, 300, 3), X(1, 7, 601, 3), 7, 601, 2, 0, 0),                       \
        RESIZE("bicubic", X(2, 7, 5, 3), X(2, 15, 4, 3), 15, 4, 3, 0, 0),                                              \
        RESIZE("bicubic, corners", X(2, 7, 5, 3), X(2, 15, 4, 3), 15, 4, 3, 1, 0),                                     \
        RESIZE("area", X(2, 7, 9, 6), X(2, 3, 4, 6), 3, 4, 4, 0, 0),                                                   \
        RESIZE("bilinear, 1 channel", X(2, 7, 5, 1), X(2, 11, 13, 1), 11, 13, 2, 0, 0),                                \
        RESIZE("bilinear, antialias", X(2, 17, 19, 4), X(2, 5, 23, 4), 5, 23, 2, 0, 1),                                \
        RESIZE("bicubic, antialias", X(2, 17, 19, 4), X(2, 5, 8, 4), 5, 8, 3, 0, 1),                                   \
        ANY_POOL("average", X(2, 9, 7, 6), X(2, 5, 4, 6), 0, 2, 0, {3, 3}, {2, 2}, {1, 1}, {1, 1}),                    \
        ANY_POOL("average, padding counts", X(2, 9, 7, 6), X(2, 5, 4, 6), 0, 2, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}),    \
        ANY_POOL("max 3 x 3", X(2, 9, 11, 37), X(2, 9, 11, 37), 1, 2, 0, {3, 3}, {1, 1}, {1, 1}, {1, 1}),              \
        ANY_POOL("max, rank 1", X(2, 11, 1030), X(2, 6, 1030), 1, 1, 0, {3}, {2}, {1}, {1}),                           \
        ANY_POOL("max, rank 3", X(1, 4, 6, 5, 7), X(1, 2, 3, 4, 7), 1, 3, 0, {2, 2, 2}, {2, 2, 1}, {0}, {0}),          \
        PADDED("value", X(2, 5, 7), X(4, 5, 12), 0, 1.5f, {1, 0, 2}, {1, 0, 3}),                                       \
        PADDED("reflected", X(4, 5, 7), X(7, 6, 11), 1, 0, {3, 1, 1}, {0, 0, 3}),                                      \
        PADDED("replicated", X(2, 3, 2, 5), X(2, 6, 4, 5), 2, 0, {0, 1, 2}, {0, 2, 0}),                                \
        PADDED("circular", X(4, 5), X(6, 9), 3, 0, {1, 2}, {1, 2}),                                                    \
        PADDED("whole numbers", IDS(4, 5), IDS(5, 8), 0, -3, {1, 2}, {0, 1}), GRID("bilinear, zeros", 0, 0, 0),        \
        GRID("bilinear, border, corners", 0, 1, 1), GRID("bilinear, reflection", 0, 2, 0), GRID("nearest", 1, 0, 1),   \
        GRID("bicubic, zeros", 2, 0, 0), GRID("bicubic, reflection, corners", 2, 2, 1),                                \
        GRID("bicubic, border", 2, 1, 0)

#endif
