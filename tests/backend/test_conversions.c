/* test_conversions.c - how rows of floats are stored and read, at every level of the processor: each kernel table gives
 * the bits of the plain functions of dtype.h, for all bf16 and f16, for floats at every rounding edge, NaN, infinities,
 * -0 and subnormals, in rows of any length; and the functions of expressions are within a few units of libm's.
 */
#include "harness.h"

#include "backend/cpu/kernels.h"
#include "backend/philox_4x32.h"
#include "graph/expression.h"
#include "kiln/ops.h"
#include "kiln/plugin.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 77, EDGES = 1 << 16 };

static const cpu_kernels *tables[4];
static size_t n_tables;

static void find_tables(void)
{
    n_tables = 0;
    tables[n_tables++] = &kernels_plain;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables[n_tables++] = &kernels_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        tables[n_tables++] = &kernels_avx512;
    if (n_tables == 3 && __builtin_cpu_supports("avx512bf16")) tables[n_tables++] = &kernels_avx512bf16;
#endif
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint16_t plain(uint32_t dtype, float f) { return dtype == KILN_BF16 ? bf16_from_f32(f) : f16_from_f32(f); }
static float plain_back(uint32_t dtype, uint16_t h) { return dtype == KILN_BF16 ? bf16_to_f32(h) : f16_to_f32(h); }

/* n floats are stored as the plain function does it, one by one, and nothing behind them is touched. */
static int same_stores(const cpu_kernels *k, uint32_t dtype, const float *x, size_t n)
{
    uint16_t got[MOST + 1];
    got[n] = 0xA5A5;
    k->store(got, dtype, x, n);
    for (size_t i = 0; i < n; i++) {
        if (got[i] == plain(dtype, x[i])) continue;
        printf("  %s %s: %08x is stored as %04x, not %04x\n", k->name, dtype_name(dtype), bits_of(x[i]), got[i],
               plain(dtype, x[i]));
        return 0;
    }
    return got[n] == 0xA5A5;
}
static int same_loads(const cpu_kernels *k, uint32_t dtype, const uint16_t *x, size_t n)
{
    float got[MOST + 1];
    got[n] = 42;
    k->load(got, x, dtype, n);
    for (size_t i = 0; i < n; i++) {
        if (bits_of(got[i]) == bits_of(plain_back(dtype, x[i]))) continue;
        printf("  %s %s: %04x is read as %08x\n", k->name, dtype_name(dtype), x[i], bits_of(got[i]));
        return 0;
    }
    return got[n] == 42; /* NOLINT: as it was put there */
}

static void each_length(uint32_t dtype, uint32_t seed)
{
    float x[MOST];
    uint16_t h[MOST];
    for (size_t i = 0; i < MOST; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = of_bits(seed), h[i] = (uint16_t)(seed >> 16);
    }
    for (size_t t = 0; t < n_tables; t++)
        for (size_t n = 0; n <= MOST; n++)
            CHECK(same_stores(tables[t], dtype, x, n) && same_loads(tables[t], dtype, h, n));
}

/* Around every number of 16 bits: it, halfway to the next, and what lies one float beside them. */
static void each_edge(uint32_t dtype)
{
    for (size_t t = 0; t < n_tables; t++)
        for (uint32_t u = 0; u < EDGES; u += 8) {
            float x[64];
            uint16_t h[64];
            for (uint32_t i = 0; i < 8; i++) {
                uint32_t low = bits_of(plain_back(dtype, (uint16_t)(u + i))),
                         high = bits_of(plain_back(dtype, (uint16_t)(u + i + 1)));
                uint32_t half = low + (high - low) / 2;
                const uint32_t at[8] = {low, low + 1, low - 1, half, half + 1, half - 1, high, low ^ 0x1555u};
                for (uint32_t k = 0; k < 8; k++)
                    x[8 * i + k] = of_bits(at[k]), h[8 * i + k] = (uint16_t)(u + k * 8 + i);
            }
            if (!same_stores(tables[t], dtype, x, 64) || !same_loads(tables[t], dtype, h, 64)) {
                CHECK(0);
                return;
            }
        }
}

static void test_bf16_at_every_edge(void) { each_edge(KILN_BF16); }
static void test_f16_at_every_edge(void) { each_edge(KILN_F16); }
static void test_rows_of_any_length(void)
{
    for (uint32_t seed = 1; seed < 40; seed++) each_length(KILN_BF16, seed), each_length(KILN_F16, seed);
}

static void test_nan_infinity_zero_and_subnormals_stay(void)
{
    const float x[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 0x1p-130f, -0x1p-130f, 0x1.8p-127f, 3.4e38f};
    float row[64];
    for (size_t i = 0; i < 64; i++) row[i] = x[i % 10];
    for (size_t t = 0; t < n_tables; t++) {
        uint16_t h[64];
        float back[64];
        CHECK(same_stores(tables[t], KILN_BF16, row, 64));
        tables[t]->store(h, KILN_BF16, row, 64);
        tables[t]->load(back, h, KILN_BF16, 64);
        CHECK(isnan(back[0]) && isnan(back[1]) && isinf(back[2]) && back[3] < 0);
        CHECK_EQ(h[5], 0x8000);
        CHECK(back[6] > 0 && back[7] < 0);
    }
}

static void test_f16_saturates_where_asked(void)
{
    const float x[] = {1e6f, -1e6f, 65504, 65519, 65520, -65520, INFINITY, -INFINITY, NAN, -0.0f, 1, 3e-8f};
    for (size_t t = 0; t < n_tables; t++)
        for (size_t n = 12; n <= 60; n += 12) {
            float row[60];
            uint16_t h[60], wide[60], with[60];
            for (size_t i = 0; i < n; i++) row[i] = x[i % 12];
            tables[t]->store_saturating(h, KILN_F16, row, n);
            for (size_t i = 0; i < n; i++) {
                float v = f16_to_f32(h[i]), want = fabsf(row[i]) > 65504 ? copysignf(65504, row[i]) : 0;
                CHECK(isnan(row[i]) ? isnan(v) : want != 0 ? v == want : h[i] == f16_from_f32(row[i])); /* NOLINT */
            }
            tables[t]->store_saturating(wide, KILN_BF16, row, n);
            tables[t]->store(with, KILN_BF16, row, n);
            CHECK(memcmp(wide, with, n * sizeof *wide) == 0);
        }
}

/* ---- functions ---- */

static const struct {
    map_op op;
    double (*of)(double);
    double bound; /* relative, or absolute where the result is below 1e-3 of that of a step of the operand */
} functions[] = {
    {MAP_EXP, exp, 4e-7},   {MAP_EXP2, exp2, 4e-7},   {MAP_EXPM1, expm1, 4e-7}, {MAP_LOG, log, 4e-7},
    {MAP_LOG2, log2, 6e-7}, {MAP_LOG1P, log1p, 4e-7}, {MAP_SIN, sin, 4e-7},     {MAP_COS, cos, 4e-7},
    {MAP_TANH, tanh, 4e-7}, {MAP_ERF, erf, 4e-7},
};

static int is_near(float got, double want, float x, double bound)
{
    float rounded = (float)want;
    if (isnan(rounded)) return isnan(got);
    if (isinf(rounded)) return isinf(got) ? got * rounded > 0 : fabsf(got) > 3.4e38f;
    if (isinf(got)) return fabs(want) > 3.4e38;
    double scale = fmax(fabs(want), fabs(want) < 0.1 && fabsf(x) > 0.1f ? 0.1 : 0); /* near a root of sin or log */
    return fabs((double)got - want) <= bound * scale + 0x1p-148;
}

static void test_functions_are_near_libms(void)
{
    static const float special[] = {0,   -0.0f, INFINITY,  -INFINITY, NAN,   1,      -1,   88.8f, -104, 89,
                                    128, -150,  0x1p-149f, 0x1p-126f, 1e30f, -1e30f, 9000, 3e7f,  20,   -20};
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++)
        for (size_t t = 0; t < n_tables; t++) {
            float x[64], got[64];
            uint32_t seed = 7;
            for (int round = 0; round < 3000; round++) {
                for (size_t i = 0; i < 61; i++) {
                    seed = seed * 1664525u + 1013904223u;
                    x[i] = round == 0 ? special[i % 20]
                                      : (float)(int32_t)seed * 0x1p-31f * powf(2, (float)(round % 9) - 1);
                }
                tables[t]->map(functions[f].op, &(map_row){.x = {x, x, x},
                                                           .type = {KILN_F32, KILN_F32, KILN_F32},
                                                           .to = got,
                                                           .to_type = KILN_F32,
                                                           .n = 61});
                for (size_t i = 0; i < 61; i++) {
                    double want = functions[f].of((double)x[i]);
                    if (is_near(got[i], want, x[i], functions[f].bound)) continue;
                    printf("  %s, function %d of %.9g: %.9g, not %.9g\n", tables[t]->name, (int)functions[f].op,
                           (double)x[i], (double)got[i], want);
                    CHECK(0);
                    return;
                }
            }
        }
}

/* x Phi(x), x / (1 + e^-x), x / (1 + e^(-2u)), and so on, in double. */
static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double quick_gelu(double x) { return x / (1 + exp(-1.702 * x)); }
static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); }
static double root_inverse(double x) { return 1 / sqrt(x); }
static double gelu_tanh(double x) { return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); }

/* Functions of results that are stored in bf16: every one of its numbers within 2^-11, a quarter of its rounding,
 * its infinities and NaN as they should be; of what is below 2^-80 only that. */
static void test_short_functions_are_near_libms(void)
{
    static const struct {
        map_op op;
        double (*of)(double);
    } shorts[] = {
        {MAP_EXP, exp},
        {MAP_EXP2, exp2},
        {MAP_LOG, log},
        {MAP_LOG2, log2},
        {MAP_SIN, sin},
        {MAP_COS, cos},
        {MAP_TANH, tanh},
        {MAP_ERF, erf},
        {MAP_SIGMOID, sigmoid},
        {MAP_SILU, silu},
        {MAP_GELU, gelu},
        {MAP_GELU_TANH, gelu_tanh},
        {MAP_QUICK_GELU, quick_gelu},
        {MAP_SOFTPLUS, softplus},
        {MAP_SQRT, sqrt},
        {MAP_RSQRT, root_inverse},
    };
    for (size_t f = 0; f < sizeof shorts / sizeof shorts[0]; f++)
        for (size_t t = 1; t < n_tables; t++) /* the plain ones are those of f32 */
            for (uint32_t high = 0; high < 1 << 16; high += 16) {
                float x[16], got[16];
                for (uint32_t i = 0; i < 16; i++) x[i] = of_bits((high + i) << 16);
                map_row row = {.x = {x}, .type = {KILN_F32}, .to = got, .to_type = KILN_F32, .n = 16, .few_bits = 1};
                tables[t]->map((uint32_t)shorts[f].op, &row);
                for (size_t i = 0; i < 16; i++) {
                    double want = shorts[f].of((double)x[i]), bound = 0x1p-11 * fabs(want);
                    int tiny = fabs(want) < 0x1p-80, both_nan = isnan(want) && isnan(got[i]);
                    if (both_nan || (double)got[i] == want || fabs((double)got[i] - want) <= bound) continue;
                    if (tiny && fabs((double)got[i]) < 0x1p-80) continue;
                    if (fabs(want) > 3.4e38 && fabs((double)got[i]) > 3e38) continue;
                    if (isinf(x[i]) && isnan(want) && got[i] == 0) continue; /* -infinity times 0 */
                    printf("  %s, short function %d of %.9g: %.9g, not %.9g\n", tables[t]->name, (int)shorts[f].op,
                           (double)x[i], (double)got[i], want);
                    CHECK(0);
                    return;
                }
            }
}

/* Quotients of what is stored in bf16, by each of its numbers. */
static void test_short_quotients_are_near_quotients(void)
{
    static const uint16_t of[] = {0x0000, 0x8000, 0x0001, 0x0080, 0x2f31, 0x3f80,
                                  0xbfa7, 0x4049, 0x7f7f, 0x7f80, 0x7fc0};
    for (size_t f = 0; f < sizeof of / sizeof of[0]; f++)
        for (size_t t = 1; t < n_tables; t++)
            for (uint32_t high = 0; high < 1 << 16; high += 16) {
                uint16_t a[16], b[16];
                float got[16];
                map_row row = {.x = {a, b}, .type = {KILN_BF16, KILN_BF16}, .to = got, .n = 16, .few_bits = 1};
                row.to_type = KILN_F32;
                for (uint32_t i = 0; i < 16; i++) a[i] = of[f], b[i] = (uint16_t)(high + i);
                tables[t]->map(MAP_DIV, &row);
                for (size_t i = 0; i < 16; i++) {
                    float x = bf16_to_f32(a[i]), want = x / bf16_to_f32(b[i]);
                    if ((isnan(want) && isnan(got[i])) || got[i] == want) continue;
                    if (fabsf(want) < 0x1p-120f && fabsf(got[i]) < 0x1p-119f) continue; /* subnormal */
                    if (fabs((double)got[i] - (double)want) <= 0x1p-11 * fabs((double)want)) continue;
                    printf("  %s: %.9g / %.9g is %.9g\n", tables[t]->name, (double)x, (double)bf16_to_f32(b[i]),
                           (double)got[i]);
                    CHECK(0);
                    return;
                }
            }
}

/* Sines and cosines are those of doubles, rounded once, near 0 and far from it. */
static void test_waves_are_those_of_doubles(void)
{
    enum { COUNT = 1003 };
    static const float by[] = {0, 1, -3.5f, 1000, 31415.926f, 1e7f, INFINITY, NAN};
    float x[COUNT], made[2][COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = expf(-9.21034f * (float)i / (float)COUNT) * (i % 2 ? 1 : -1);
    for (size_t t = 0; t < n_tables; t++)
        for (size_t k = 0; k < sizeof by / sizeof by[0]; k++)
            for (int cosine = 0; cosine < 2; cosine++) {
                const float *got = made[cosine];
                tables[t]->waves(made[0], made[1], KILN_F32, x, by[k], COUNT);
                for (int i = 0; i < COUNT; i++) {
                    double angle = (double)(x[i] * by[k]), want = cosine ? cos(angle) : sin(angle);
                    if (isnan(want) ? isnan(got[i]) : fabs((double)got[i] - want) <= 6.1e-8 * fabs(want)) continue;
                    printf("  %s: %s %.9g is %.9g\n", tables[t]->name, cosine ? "cos" : "sin", angle, (double)got[i]);
                    CHECK(0);
                    return;
                }
            }
}

/* Random numbers are those of philox_4x32.h to the bit: from any word on, where the place passes 2^32, and of any
 * count.
 */
static void test_random_rows_are_the_formulas(void)
{
    enum { COUNT = 101 };
    static const uint64_t first[] = {0, 77, 0xffffffe0u, (uint64_t)5 << 32};
    float got[COUNT];
    for (size_t t = 0; t < n_tables; t++)
        for (uint32_t kind = 0; kind < 3; kind++)
            for (uint64_t offset = 0; offset < 5; offset++)
                for (size_t k = 0; k < sizeof first / sizeof first[0]; k++) {
                    const uint64_t seed = 0x123456789abcdef0u + k;
                    uint32_t bits, expected;
                    tables[t]->random_row(kind, got, seed, offset, first[k], COUNT);
                    for (uint64_t i = 0; i < COUNT; i++) {
                        float want = philox_number(kind, seed, offset, first[k] + i);
                        memcpy(&bits, &got[i], 4), memcpy(&expected, &want, 4);
                        CHECK_EQ(bits, expected);
                    }
                }
}

/* The greatest of bf16 in a row, and in windows by way of keys: NaN of either sign above all. */
static void test_greatest_of_halves(void)
{
    enum { COUNT = 131, ROWS = 3 };
    static const uint16_t rare[] = {0x7fc1, 0xffc1, 0x7f80, 0xff80, 0x8000, 0x0000};
    for (size_t t = 0; t < n_tables; t++)
        for (uint32_t turn = 0; turn < 7; turn++) {
            uint16_t x[ROWS][COUNT], key[COUNT], got[COUNT];
            const void *rows[ROWS] = {x[0], x[1], x[2]}, *keys[1] = {key};
            uint32_t state = 7 + turn;
            for (int i = 0; i < ROWS * COUNT; i++) {
                state = state * 1664525u + 1013904223u;
                x[i / COUNT][i % COUNT] = bf16_from_f32((float)(int32_t)state * 1e-9f);
            }
            if (turn) x[turn % ROWS][17 * turn] = rare[turn - 1];
            tables[t]->most_half(key, rows, ROWS, 1, COUNT, 0), tables[t]->most_half(got, keys, 1, 0, COUNT, 0);
            for (int i = 0; i < COUNT; i++) {
                float want = -INFINITY;
                for (int r = 0; r < ROWS; r++)
                    want = isnan(want) || bf16_to_f32(x[r][i]) < want ? want : bf16_to_f32(x[r][i]);
                CHECK(isnan(want) ? isnan(bf16_to_f32(got[i])) : bf16_to_f32(got[i]) == want);
            }
            for (size_t n = 1; n <= COUNT; n += 13) {
                float want = -INFINITY, own = tables[t]->fold_row_stored(KILN_REDUCE_MAX, x[1], KILN_BF16, n);
                for (size_t i = 0; i < n; i++)
                    want = isnan(want) || bf16_to_f32(x[1][i]) < want ? want : bf16_to_f32(x[1][i]);
                CHECK(isnan(want) ? isnan(own) : own == want);
            }
        }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_bf16_at_every_edge),
        CASE(test_f16_at_every_edge),
        CASE(test_rows_of_any_length),
        CASE(test_nan_infinity_zero_and_subnormals_stay),
        CASE(test_f16_saturates_where_asked),
        CASE(test_functions_are_near_libms),
        CASE(test_short_functions_are_near_libms),
        CASE(test_short_quotients_are_near_quotients),
        CASE(test_waves_are_those_of_doubles),
        CASE(test_random_rows_are_the_formulas),
        CASE(test_greatest_of_halves),
    };
    find_tables();
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
