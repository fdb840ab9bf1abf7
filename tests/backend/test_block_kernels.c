/* test_block_kernels.c - the inner loops for weights stored by blocks (kernels_blocks.h): every type, by every table of
 * kernels that this processor can run, against the plain reader of tensor/block.h.
 *
 *     test_block_kernels          the test
 *     test_block_kernels bench    weights a second, one thread
 *
 * Numbers are the same bits; bf16 is their rounding. Products: 1e-6 of the sum of |w x|, for sums of some hundred terms
 * in another order.
 */
#include "harness.h"

#include "backend/cpu/cpu.h"
#include "base/memory_alloc.h"
#include "tensor/block.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const uint32_t types[] = {KILN_Q4_0, KILN_Q4_1, KILN_Q5_0, KILN_Q5_1,   KILN_Q8_0,   KILN_Q2_K,  KILN_Q3_K,
                                 KILN_Q4_K, KILN_Q5_K, KILN_Q6_K, KILN_IQ4_NL, KILN_IQ4_XS, KILN_MXFP4, KILN_NVFP4};
enum { TYPES = sizeof types / sizeof types[0], N = 1536, ROWS = 16 };

static const cpu_kernels *tables[3];
static size_t n_tables;

static void find_tables(void)
{
    tables[0] = &kernels_plain, n_tables = 1;
#if defined __x86_64__
    if (cpu_level_get() >= CPU_AVX2) tables[n_tables++] = &kernels_avx2;
    if (cpu_level_get() >= CPU_AVX512) tables[n_tables++] = &kernels_avx512;
#endif
}

static uint32_t seed = 1;
static float next_number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)seed * 0x1p-31f;
}

/* Codes and scales of every kind: numbers of several sizes were rounded to them. */
static void make_blocks(uint32_t type, uint8_t *blocks, float *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) numbers[i] = next_number() * ldexpf(1, (int)(i / 256 % 7) - 3);
    CHECK_EQ(block_write(type, numbers, blocks, n), KILN_OK);
    CHECK_EQ(block_read_plain(type, blocks, numbers, n), KILN_OK);
}

static void test_numbers(void)
{
    static uint8_t blocks[N * 2];
    static float expected[N], got[N + 1];
    static uint16_t rounded[N], half[N + 1];
    for (size_t i = 0; i < TYPES; i++) {
        make_blocks(types[i], blocks, expected, N);
        for (size_t k = 0; k < N; k++) rounded[k] = bf16_from_f32(expected[k]);
        for (size_t t = 0; t < n_tables; t++) {
            got[N] = 7, half[N] = 7;
            tables[t]->blocks_read(got, KILN_F32, types[i], blocks, N);
            tables[t]->blocks_read(half, KILN_BF16, types[i], blocks, N);
            if (memcmp(got, expected, sizeof expected) != 0 || memcmp(half, rounded, sizeof rounded) != 0)
                printf("  %s, %s: other numbers\n", tables[t]->name, dtype_name(types[i]));
            CHECK(memcmp(got, expected, sizeof expected) == 0 && got[N] == 7);
            CHECK(memcmp(half, rounded, sizeof rounded) == 0 && half[N] == 7);
        }
    }
}

static int near(const float *w, const float *x, size_t n, float got)
{
    double sum = 0, all = 0;
    for (size_t k = 0; k < n; k++) sum += (double)w[k] * x[k], all += fabs((double)w[k] * x[k]);
    return fabs(sum - got) <= 1e-6 * all;
}

static void test_dots(void)
{
    static uint8_t blocks[N * 2];
    static float w[N], x[ROWS * N];
    for (size_t k = 0; k < ROWS * N; k++) x[k] = next_number();
    for (size_t i = 0; i < TYPES; i++) {
        make_blocks(types[i], blocks, w, N);
        for (size_t t = 0; t < n_tables; t++)
            for (size_t m = 1; m <= ROWS; m++) {
                float sums[ROWS] = {0}, again[1] = {0};
                tables[t]->blocks_dots(sums, types[i], blocks, x, N, m, N);
                int ok = 1;
                for (size_t r = 0; r < ROWS; r++) ok &= r < m ? near(w, x + r * N, N, sums[r]) : sums[r] == 0;
                if (!ok) printf("  %s, %s, %zu rows: other sums\n", tables[t]->name, dtype_name(types[i]), m);
                CHECK(ok);
                /* a row's sum does not depend on how many there are */
                tables[t]->blocks_dots(again, types[i], blocks, x + (m - 1) * N, N, 1, N);
                CHECK(again[0] == sums[m - 1]);
            }
    }
}

static void test_turning(void)
{
    enum { COLUMNS = 37, LD = 41 };
    uint32_t rows[16 * LD], turned[COLUMNS * 16], pair[16];
    for (size_t i = 0; i < 16 * LD; i++) next_number(), rows[i] = seed;
    for (size_t t = 0; t < n_tables; t++) {
        int ok = 1;
        tables[t]->turn_words(turned, 16, rows, LD, COLUMNS);
        for (size_t r = 0; r < 16; r++)
            for (size_t k = 0; k < COLUMNS; k++) ok &= turned[k * 16 + r] == rows[r * LD + k];
        CHECK(ok);
        for (size_t low = 0; low < 2 * COLUMNS; low += 3)
            for (size_t high = 1; high < 2 * COLUMNS; high += 4) {
                tables[t]->pair_words(pair, turned, low, high);
                for (size_t r = 0; r < 16; r++) {
                    uint32_t a = rows[r * LD + low / 2] >> low % 2 * 16 & 0xffff;
                    uint32_t b = rows[r * LD + high / 2] >> high % 2 * 16 & 0xffff;
                    ok &= pair[r] == (a | b << 16);
                }
            }
        CHECK(ok);
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Rows of 4096 numbers from memory, each multiplied by m rows, in turns with copying half as many bytes, which moves as
 * many: GB/s by processor time. */
static void bench_memory(uint32_t type, size_t m)
{
    enum { COLUMNS = 4096, TURNS = 5 };
    static float x[ROWS * COLUMNS];
    size_t row = COLUMNS / dtype_block(type) * dtype_block_bytes(type), n = (256u << 20) / row;
    uint8_t *blocks = mem_pages(n * row), *copy = mem_pages(n * row / 2);
    float *numbers = mem_alloc(COLUMNS * sizeof *numbers);
    double best = 1e9, copied = 1e9;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) x[i] = next_number();
    make_blocks(type, blocks, numbers, COLUMNS);
    for (size_t r = 1; r < n; r++) memcpy(blocks + r * row, blocks, row);
    for (int turn = 0; turn < TURNS; turn++) {
        double a = seconds();
        for (size_t r = 0; r < n; r++) {
            float sums[ROWS] = {0};
            tables[n_tables - 1]->blocks_dots(sums, type, blocks + r * row, x, COLUMNS, m, COLUMNS);
            x[0] = sums[0] == 12345 ? 1 : x[0];
        }
        double b = seconds();
        memcpy(copy, blocks + (turn % 2 ? n * row / 2 : 0), n * row / 2);
        double c = seconds();
        if (b - a < best) best = b - a;
        if (c - b < copied) copied = c - b;
    }
    printf("%-8s %2zu rows: %6.2f GB/s, %.2f of memcpy's %.2f\n", dtype_name(type), m, (double)(n * row) / best * 1e-9,
           copied / best, (double)(n * row) / copied * 1e-9);
    mem_pages_free(blocks), mem_pages_free(copy), mem_free(numbers);
}

static void bench(void)
{
    enum { LONG = 8192, TIMES = 2000 };
    static uint8_t blocks[LONG * 2];
    static float w[LONG], x[8 * LONG];
    static uint32_t turned[LONG * 16];
    printf("%-10s %-8s %10s %10s %10s %10s  10^9 weights/s, one thread\n", "", "", "f32", "bf16", "dots of 1", "of 8");
    for (size_t t = 0; t < n_tables; t++) {
        for (size_t i = 0; i < TYPES; i++) {
            double took[4];
            make_blocks(types[i], blocks, w, LONG);
            for (int what = 0; what < 4; what++) {
                double start = seconds();
                for (int k = 0; k < TIMES; k++) {
                    float sums[8] = {0};
                    if (what < 2)
                        tables[t]->blocks_read(w, what ? KILN_BF16 : KILN_F32, types[i], blocks, LONG);
                    else
                        tables[t]->blocks_dots(sums, types[i], blocks, x, LONG, what == 2 ? 1 : 8, LONG);
                }
                took[what] = seconds() - start;
            }
            printf("%-10s %-8s", tables[t]->name, dtype_name(types[i]));
            for (int what = 0; what < 4; what++) printf(" %10.2f", (double)LONG * TIMES / took[what] * 1e-9);
            printf("\n");
        }
        double start = seconds();
        for (int k = 0; k < TIMES; k++) tables[t]->turn_words(turned, 16, turned, 256, 256);
        printf("%-10s turned   %10.2f\n", tables[t]->name, 256.0 * 16 * TIMES / (seconds() - start) * 1e-9);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_numbers), CASE(test_dots), CASE(test_turning)};
    find_tables();
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        static const size_t some[] = {1, 2, 4, 8, 16};
        bench();
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
            bench_memory(KILN_Q8_0, some[i]), bench_memory(KILN_Q6_K, some[i]), bench_memory(KILN_Q4_K, some[i]);
        return 0;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
