/* test_amx_model.c - the model of AMX against numbers that were worked out by hand from Intel's manual, and against
 * exact sums. A kernel over a wrong model proves nothing.
 */
#include "harness.h"

#include "amx_model.h"
#include "backend/cpu/amx_tiles.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int missing(void)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 0;
#endif
    test_skip("the model is compiled for AVX2");
    return 1;
}

/* Tiles 0, 1 and 2 of a product: c[rows][columns] of sums, `depth` words deep. */
static void shape(unsigned rows, unsigned columns, unsigned depth)
{
    amx_shapes s = {.palette = 1,
                    .row_bytes = {(uint16_t)(4 * columns), (uint16_t)(4 * depth), (uint16_t)(4 * columns)},
                    .rows = {(uint8_t)rows, (uint8_t)rows, (uint8_t)depth}};
    amx_model_config(&s);
}

static void test_loads_and_stores(void)
{
    if (missing()) return;
    uint8_t from[4 * 100], to[4 * 100];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * 7 + 1);
    amx_shapes s = {.palette = 1, .row_bytes = {12, 64}, .rows = {3, 16}};
    amx_model_config(&s);
    memset(to, 0xee, sizeof to);
    amx_model_load(0, from, 100), amx_model_store(0, to, 50);
    for (size_t r = 0; r < 3; r++) CHECK(memcmp(to + 50 * r, from + 100 * r, 12) == 0 && to[50 * r + 12] == 0xee);
    CHECK_EQ(to[150], 0xee);
    amx_model_load(0, from + 200, -100), amx_model_store(0, to, 12);
    CHECK(memcmp(to, from + 200, 12) == 0 && memcmp(to + 24, from, 12) == 0);
    amx_model_zero(0), amx_model_store(0, to, 12);
    for (size_t i = 0; i < 36; i++) CHECK_EQ(to[i], 0);
    CHECK(amx_model_in_use());
    amx_model_release();
    CHECK(!amx_model_in_use());
}

/* Signed bytes at their ends; a sum beyond 32 bits begins again. */
static void test_bytes(void)
{
    if (missing()) return;
    enum { M = 5, N = 3, K = 4 };
    int8_t a[M][4 * K], b[K][N][4];
    int32_t c[M][N], expected[M][N];
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof a; i++) a[i / (4 * K)][i % (4 * K)] = (int8_t)((seed = seed * 69069 + 1) >> 24);
    for (size_t i = 0; i < sizeof b; i++) b[i / (4 * N)][i / 4 % N][i % 4] = (int8_t)((seed = seed * 69069 + 1) >> 24);
    memset(a[0], -128, sizeof a[0]);
    for (int k = 0; k < K; k++) memset(b[k][0], -128, 4), memset(b[k][1], 127, 4);
    for (int r = 0; r < M; r++)
        for (int n = 0; n < N; n++) {
            int64_t sum = c[r][n] = r == 0 ? INT32_MAX - 5 : r * 1000 - n;
            for (int i = 0; i < 4 * K; i++) sum += a[r][i] * b[i / 4][n][i % 4];
            expected[r][n] = (int32_t)(uint32_t)sum;
        }
    CHECK_EQ(expected[0][0], INT32_MIN + 4 * K * 16384 - 6);
    shape(M, N, K);
    amx_model_load(0, c, sizeof c[0]), amx_model_load(1, a, sizeof a[0]), amx_model_load(2, b, sizeof b[0]);
    amx_model_dpbssd(0, 1, 2);
    amx_model_store(0, c, sizeof c[0]);
    CHECK(memcmp(c, expected, sizeof c) == 0);
    amx_model_release();
}

static uint16_t half_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* One sum: c + the products of two rows of numbers. */
static float sum_of(float c, const float *a, const float *b, unsigned depth)
{
    uint16_t left[32], right[32];
    for (unsigned i = 0; i < 2 * depth; i++) left[i] = half_of(a[i]), right[i] = half_of(b[i]);
    shape(1, 1, depth);
    amx_model_load(0, &c, 4), amx_model_load(1, left, 64), amx_model_load(2, right, 4);
    amx_model_dpbf16ps(0, 1, 2);
    amx_model_store(0, &c, 4);
    amx_model_release();
    return c;
}
static const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1};

static void test_order_of_pairs(void)
{
    if (missing()) return;
    const float large = 0x1p24f;
    /* Even and odd sums are apart until the end, so a 1 beside 2^24 is lost in its own sum alone. */
    CHECK_EQ(sum_of(0, (const float[]){large, 1, 1, 1, -large, 1}, ones, 3), 3);
    CHECK_EQ(sum_of(0, (const float[]){large, 1, 2, 1, -large, 1}, ones, 3), 5);
    /* What was there comes last: 2^24 + (1 + 1), and not 2^24 + 1 + 1. */
    CHECK_EQ(sum_of(large, (const float[]){1, 1}, ones, 1), 16777218);
    /* Products are no steps of their own: 2^127 2 - 2^127 does not overflow. */
    CHECK_EQ(sum_of(0, (const float[]){-0x1p127f, 0, 0x1p127f, 0}, (const float[]){1, 0, 2, 0}, 2) == 0x1p127f, 1);
    /* Nearest, a tie to even: 2^24 + 1 is 2^24, 2^24 + 3 is 2^24 + 4. */
    CHECK_EQ(sum_of(large, (const float[]){1, 0}, ones, 1), 16777216);
    CHECK_EQ(sum_of(large, (const float[]){3, 0}, ones, 1), 16777220);
}

static void test_subnormals_are_zeros(void)
{
    if (missing()) return;
    CHECK_EQ(sum_of(0, (const float[]){0x1p-127f, 0}, (const float[]){0x1p127f, 0}, 1), 0);     /* an operand */
    CHECK_EQ(sum_of(0x1p-130f, (const float[]){0, 0}, ones, 1) == 0, 1);                        /* what was there */
    CHECK_EQ(sum_of(0, (const float[]){0x1p-70f, 0}, (const float[]){0x1p-60f, 0}, 1) == 0, 1); /* a result */
    CHECK_EQ(sum_of(0, (const float[]){0x1p-126f, 0}, ones, 1) == 0x1p-126f, 1);
    CHECK(isnan(sum_of(0, (const float[]){INFINITY, 0}, (const float[]){0, 0}, 1)));
    CHECK(isinf(sum_of(0, (const float[]){INFINITY, 1}, ones, 1)));
}

/* ---- what a processor refuses ---- */

static void no_shapes(void) { amx_model_zero(0); }
static void other_depth(void)
{
    amx_shapes s = {.palette = 1, .row_bytes = {64, 64, 64}, .rows = {16, 16, 8}};
    amx_model_config(&s);
    amx_model_dpbssd(0, 1, 2);
}
static void other_rows(void)
{
    amx_shapes s = {.palette = 1, .row_bytes = {64, 64, 64}, .rows = {8, 16, 16}};
    amx_model_config(&s);
    amx_model_dpbf16ps(0, 1, 2);
}
static void same_tile(void)
{
    amx_shapes s = {.palette = 1, .row_bytes = {64, 64, 64}, .rows = {16, 16, 16}};
    amx_model_config(&s);
    amx_model_dpbssd(0, 1, 1);
}
static void too_large(void)
{
    amx_shapes s = {.palette = 1, .row_bytes = {65}, .rows = {16}};
    amx_model_config(&s);
}
static void released(void)
{
    shape(16, 16, 16);
    amx_model_release();
    amx_model_load(0, ones, 0);
}

static int ends(void (*mistake)(void))
{
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        mistake();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_refusals(void)
{
    if (missing()) return;
    static void (*const mistakes[])(void) = {no_shapes, other_depth, other_rows, same_tile, too_large, released};
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) CHECK(ends(mistakes[i]));
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_loads_and_stores), CASE(test_bytes), CASE(test_order_of_pairs),
                                      CASE(test_subnormals_are_zeros), CASE(test_refusals)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
