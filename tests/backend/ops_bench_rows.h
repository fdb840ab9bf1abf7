/* ops_bench_rows.h - rows of `test_ops bench` for ops that wait for memory: the sizes of language models, transformers
 * of pictures and decoders. Their count is 0: they are part of no pass, and GB/s is what counts.
 */
#ifndef KILN_TESTS_OPS_BENCH_ROWS_H
#define KILN_TESTS_OPS_BENCH_ROWS_H

#define SPEED(...)                                                                                                     \
    {                                                                                                                  \
        __VA_ARGS__, 0, 5                                                                                              \
    }
#define SPEED_ROWS                                                                                                     \
    SPEED(NORM("rms 4096 x 3072", 0, X(4096, 3072), 3072, W(3072), NONE, NONE, NONE, .one_plus = 0)),                  \
        SPEED(NORM("layer modulated 4096 x 3072", 1, X(1, 4096, 3072), 3072, NONE, NONE, X(1, 1, 3072), X(1, 1, 3072), \
                   .one_plus = 0)),                                                                                    \
        SPEED(NORM("rms by heads 4096 x 24 x 128", 0, X(4096, 3072), 128, W(128), NONE, NONE, NONE, .one_plus = 0)),   \
        SPEED(ROPE("pairs 4096 x 24 x 128", X(1, 4096, 3072), X(1, 4096, 1, 64), 24, 128, 1)),                         \
        SPEED(ROPE("halves 4096 x 24 x 128", X(1, 4096, 3072), X(1, 4096, 1, 64), 24, 128, 0)),                        \
        SPEED(SOFTMAX("4096 x 2048", X(4096, 2048), NONE)),                                                            \
        SPEED(REDUCE("mean of columns 8192 x 1024", MEAN, 1, X(8192, 1024), X(1024))),                                 \
        SPEED(REDUCE("max of rows 8192 x 1024", MAX, 2, X(8192, 1024), X(8192))),                                      \
        SPEED(REDUCE("logsumexp of rows 64 x 131072", LOGSUMEXP, 2, X(64, 131072), X(64))),                            \
        SPEED(SORT("40 of 262144", X(16, 262144), X(16, 40), IDS(16, 40), 40, 0)),                                     \
        SPEED(SORT("all of 262144", X(4, 262144), X(4, 262144), IDS(4, 262144), 262144, 0)),                           \
        SPEED(CUMSUM("rows 64 x 131072", X(64, 131072), 1, 0, 0)),                                                     \
        SPEED(CUMSUM("columns 4096 x 2048", X(4096, 2048), 0, 0, 0)),                                                  \
        SPEED(TAKE("4096 rows of 2048", X(64, 2048), IDS(4096), 0, X(4096, 2048))),                                    \
        SPEED(SCATTER("add 4096 rows of 2048", X(4096, 2048), IDS(4096), X(4096, 2048), 0, 1)),                        \
        SPEED(RANDOM("normal 4M", NORMAL, 4, 1048576)), SPEED(RANDOM("uniform 4M", UNIFORM, 4, 1048576)),              \
        SPEED(RESIZE("bilinear 256 to 512, 64 channels", X(1, 256, 256, 64), X(1, 512, 512, 64), 512, 512, 2, 0, 0)),  \
        SPEED(ANY_POOL("average 2 x 2", X(1, 512, 512, 64), X(1, 256, 256, 64), 0, 2, 0, {2, 2}, {2, 2})),             \
        SPEED(PADDED("reflected 512 x 512 x 64", X(1, 512, 512, 64), X(1, 514, 514, 64), 1, 0, {0, 1, 1}, {0, 1, 1})), \
        SPEED(ANY_CONV("depthwise 7 x 7, 128 x 128 x 256", X(1, 128, 128, 256), W(256, 1, 7, 7), W(256),               \
                       X(1, 128, 128, 256), 2, 0, 0, ONES, {3, 3}, {3, 3}, ONES, {0}, 256)),                           \
        SPEED(ANY_CONV("causal 3 x 3 x 3, 4 x 64 x 64 x 128", X(1, 4, 64, 64, 128), W(128, 128, 3, 3, 3), W(128),      \
                       X(1, 4, 64, 64, 128), 3, 0, 0, ONES, {2, 1, 1}, {0, 1, 1}, ONES, {0}, 1)),                      \
        SPEED(ANY_CONV("transposed 4 x 4, 64 x 64 x 128", X(1, 64, 64, 128), W(128, 128, 4, 4), W(128),                \
                       X(1, 128, 128, 128), 2, 1, 0, {2, 2, 1}, {1, 1}, {1, 1}, ONES, {0}, 1))

#endif
