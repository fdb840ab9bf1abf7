/* ops_bench_work.h - what rows of `test_ops bench` that wait for memory have to compute: vector instructions for 16
 * numbers of the result (of the first operand, of keys) with bf16 and with f32, counted by hand in the formulas of
 * kernels_short.h, kernels_math.h and the kernels that compute the row; see vector_work. Rows that are not here have no
 * such ceiling.
 */
#ifndef KILN_TESTS_OPS_BENCH_WORK_H
#define KILN_TESTS_OPS_BENCH_WORK_H

#include "ops_ceiling.h"

enum { RESULT, OPERAND, KEYS };
/* 2^x in bf16 has 4 multiplications and 4 others: what takes a fraction (vreduceps) and what scales by 2^n (vscalefps)
 * is started once in two cycles, measured alone and beside the others on Zen 4, as two of these are. e^x in f32 has 10
 * and 6, with one such and a comparison. What converts between numbers of 32 and 64 bits is one and a half. A counter
 * is a load and a store, of which one is finished a cycle. */
static const struct {
    const char *name;
    int per;
    vector_work half, whole;
    double passes; /* the operand is read as many times more, because all of it is measured first */
} bench_work[] = {
    {"group_norm 1x256x256x320", RESULT, {2, 8.5, 0, 0}, {2, 3, 0, 0}, 1},
    {"group_norm 1x256x256x512 silu", RESULT, {9, 13.5, 0, 0}, {13, 10.5, 1, 0}, 1},
    {"layer_norm", RESULT, {3, 8.5, 0, 0}, {3, 5, 0, 0}, 0},
    {"softmax log", RESULT, {5, 15.5, 0, 0}, {10, 12, 0, 0}, 0},
    {"softmax 16384", RESULT, {6, 11.5, 0, 0}, {11, 10, 0, 0}, 0},
    {"reduce logsumexp of columns",
     OPERAND,
     {5.4, 7, 0, 0},
     {10.7, 9.5, 0, 0},
     0}, /* for 16 rows one more exponential */
    {"reduce logsumexp of rows", OPERAND, {5, 9, 0, 0}, {10, 10, 0, 0}, 0},
    /* Networks of 19, 8 and 12 exchanges for 8 numbers; in words of 64 bits those are twice as many instructions. */
    {"sort 8 of 64", OPERAND, {0, 17, 0, 0}, {0, 26, 0, 0}, 0},
    {"bincount", OPERAND, {.counters = 16}, {.counters = 16}, 0},
    {"act GELU 16384", RESULT, {15, 10, 0, 0}, {21, 9, 1, 0}, 0},
    {"act GELU_TANH", RESULT, {9, 8.5, 0, 0}, {15, 7.5, 1, 0}, 0},
    {"act SILU", RESULT, {7, 8.5, 0, 0}, {11, 7.5, 1, 0}, 0},
    {"act TANH", RESULT, {9, 5.5, 0, 0}, {18, 9, 1, 0}, 0},
    {"geglu", RESULT, {16, 12, 0, 0}, {22, 9, 1, 0}, 0},
    {"map silu(a) * b", RESULT, {8, 10.5, 0, 0}, {12, 7.5, 1, 0}, 0},
    {"map a < b ? a : c", RESULT, {0, 8.5, 0, 0}, {0, 1, 0, 0}, 0},
    {"map max(a, b) / c", RESULT, {2, 11, 0, 0}, {0, 2, 1, 0}, 0},
    {"map log(a)", RESULT, {8, 8, 0, 0}, {14, 12, 0, 0}, 0},
    {"map sin(a)", RESULT, {9, 8, 0, 0}, {13, 16, 0, 0}, 0},
    {"map tanh(a)", RESULT, {9, 5.5, 0, 0}, {18, 9, 1, 0}, 0},
    {"map erf(a)", RESULT, {10, 5.5, 0, 0}, {28, 9, 2, 0}, 0},
    {"map softplus(a)", RESULT, {12, 9, 0, 0}, {27, 25, 1, 0}, 0},
    /* In doubles: a sine and a cosine of 8 angles together, 15.5 multiplications; which lanes are odd is asked where
     * multiplications are made (measured beside them). */
    {"timestep", RESULT, {16.5, 14.5, 0, 0}, {16.5, 13, 0, 0}, 0},
    {"interpolate bicubic", RESULT, {6, 5.5, 0, 0}, {6, 0, 0, 0}, 0},
    {"interpolate area", RESULT, {6, 9.5, 0, 0}, {6, 0, 0, 0}, 0},
    {"interpolate bilinear 2048 to 4096, 3 channels", RESULT, {3, 7.5, 0, 0}, {3, 4, 0, 0}, 0},
    {"interpolate bilinear 512", RESULT, {3, 3.5, 0, 0}, {3, 0, 0, 0}, 0},
    {"pool maximum", RESULT, {0, 9, 0, 0}, {0, 12, 0, 0}, 0},
    {"conv depthwise causal", RESULT, {4, 5, 0, 0}, {4, 1, 0, 0}, 0},
    {"conv depthwise 7 x 7", RESULT, {49, 27, 0, 0}, {49, 1, 0, 0}, 0},
    {"attention decode 32 over 8", KEYS, {6.2, 2.4, 0, 0}, {8.4, 1, 0, 0}, 0}, /* of k and of v */
    {"attention decode 8 over 1", KEYS, {12.4, 4.9, 0, 0}, {16.6, 2, 0, 0}, 0},
    {"norm layer modulated", RESULT, {3, 9.5, 0, 0}, {3, 6, 0, 0}, 0},
    {"norm rms by heads", RESULT, {3, 5.5, 0, 0}, {3, 1, 0, 0}, 0},
    {"cumsum rows", RESULT, {0, 15, 0, 0}, {0, 12, 0, 0}, 0}, /* four shifts and sums, and the sum so far in double */
    {"random uniform", RESULT, {41, 67, 0, 0}, {41, 67, 0, 0}, 0}, /* ten rounds of Philox: 4 products, 6 others */
    {"random normal",
     RESULT,
     {112, 156, 9, 0},
     {112, 156, 9, 0},
     0}, /* and a logarithm, a root and a sine in doubles */
};

#endif
