/* test_ops.c - every op of the CPU backend against its plain C reference: one table of cases, run in f32 and bf16
 * storage, dense and with distance between rows, at every level of the processor (each in a process of its own, since
 * the level is chosen once), with 1 to 4 threads, which must give the same bytes.
 *
 *     test_ops                    the test
 *     test_ops bench [f32|bf16 [NAME]]   GFLOP/s or GB/s of SD1.5's layers; see docs/numerics.md
 *
 * Tolerances. f32, 2e-6: exp, erf and the division in an activation are within a few units of 2^-24 = 6e-8 (erf 1.5e-7
 * absolute), sums of n terms within about sqrt(n) of them. Products: 1e-5, what is allowed a whole block of layers;
 * measured 4e-7 for sums of 3,000 terms in another order and 3.7e-6 through Winograd's transforms. bf16: operands are
 * exact in bf16 and sums are f32 on both sides, so only the final rounding may fall to the other neighbour: 2^-8 of an
 * element, for the few on the edge; 1e-3 of the whole.
 */
#include "harness.h"
#include "ops_run.h"
#include "test_ops_table.h"

#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_CASES = sizeof cases / sizeof cases[0], VARIANTS = 4 };
static const struct {
    uint32_t type;
    int64_t pad;
} variants[VARIANTS] = {{KILN_F32, 0}, {KILN_BF16, 0}, {KILN_F32, 8}, {KILN_BF16, 8}};
static pool *pools[5];
static void *expected_results[N_CASES][VARIANTS]; /* the reference's, made once and inherited by every child */

static void expect(size_t row, int v)
{
    op_setup s;
    if (expected_results[row][v] || !setup_make(&s, &cases[row], variants[v].type, variants[v].pad)) return;
    expected_results[row][v] = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL);
    setup_free(&s);
}

static int run_variant(size_t row, int v)
{
    char what[160];
    op_setup s;
    const op_case *c = &cases[row];
    uint32_t type = variants[v].type;
    int64_t pad = variants[v].pad;
    void *expected = expected_results[row][v], *first = NULL;
    snprintf(what, sizeof what, "%s %s%s", c->name, type == KILN_F32 ? "f32" : "bf16", pad ? " with row distance" : "");
    if (!setup_make(&s, c, type, pad)) return 0;
    double tolerance = setup_tolerance(c, type);
    int ok = expected != NULL;
    for (unsigned threads = 1; threads <= 4 && ok; threads++) {
        void *got = setup_run(&s, &backend_cpu, pools[threads], 1, NULL, NULL, NULL);
        if (!got) printf("  %s: no result\n", what);
        ok = got != NULL;
        if (ok && threads == 1) ok = setup_near(&s, got, expected, tolerance, what);
        if (ok && first && memcmp(first, got, setup_bytes(&s))) {
            printf("  %s: other bytes with %u threads\n", what, threads);
            ok = 0;
        }
        if (!first)
            first = got;
        else
            mem_free(got);
    }
    mem_free(first);
    setup_free(&s);
    return ok;
}

/* Runs the table (or the rows whose name begins with `prefix`) in a child at `level`; its failures. */
static int run_level(const char *level, const char *products, const char *prefix)
{
    for (size_t i = 0; i < N_CASES; i++)
        for (int v = 0; v < VARIANTS && strncmp(cases[i].name, prefix, strlen(prefix)) == 0; v++) expect(i, v);
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        int failed = 0, ran = 0;
        setenv("KILN_CPU_FEATURES", level, 1);
        setenv("KILN_CPU_GEMM", products, 1); /* read once, by what comes next */
        for (unsigned t = 1; t <= 4; t++) pools[t] = pool_new(t);
        for (size_t i = 0; i < N_CASES; i++) {
            if (strncmp(cases[i].name, prefix, strlen(prefix)) != 0) continue;
            for (int v = 0; v < VARIANTS; v++, ran++) failed += !run_variant(i, v);
        }
        printf("  %s (%s products): %d runs, %d failed\n", backend_cpu.features(), products, ran, failed);
        fflush(stdout);
        _exit(failed > 100 ? 100 : failed + (ran == 0));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

/* The level of this machine, asked in a child so that this process has chosen none. */
static int machine_has(const char *feature)
{
#if defined __x86_64__
    if (strcmp(feature, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(feature, "avx512") == 0) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (strcmp(feature, "avx512bf16") == 0) return __builtin_cpu_supports("avx512bf16");
#endif
    return strcmp(feature, "none") == 0;
}

static void level(const char *name, const char *products, const char *prefix)
{
    if (!machine_has(name)) {
        test_skip("this processor has no such level");
        return;
    }
    CHECK_EQ(run_level(name, products, prefix), 0);
}

static void test_plain(void) { level("none", "f32", ""); }
static void test_avx2(void) { level("avx2", "f32", ""); }
static void test_avx512(void) { level("avx512", "f32", ""); }
static void test_avx512bf16_f32_products(void) { level("avx512bf16", "f32", ""); }
static void test_avx512bf16_bf16_products(void) { level("avx512bf16", "bf16", ""); }

/* The traps, by name; rows of the table that begin so. */
static void test_N1_group_norm_statistics_are_f32(void) { level("avx2", "f32", "group_norm N1"); }
static void test_N2_attention_scores_are_f32(void) { level("avx2", "f32", "attention N2"); }
static void test_N8_attention_4096_positions(void) { level("avx2", "f32", "attention N8"); }
static void test_M3_pads_right_and_bottom_only(void) { level("avx2", "f32", "conv2d M3"); }
static void test_M4_group_norm_population_variance(void) { level("avx2", "f32", "group_norm M4"); }
static void test_M15_head_of_40(void) { level("avx2", "f32", "attention M15"); }
static void test_T6_causal_mask(void) { level("avx2", "f32", "attention T6"); }
static void test_T7_gelu_kinds(void) { level("avx2", "f32", "act T7"); }

/* Ids outside the table, and what no kernel is for, are errors with a message. */
static kiln_status status_of(const op_case *c, const int32_t *ids)
{
    op_setup s;
    kiln_status st = KILN_OK;
    if (!setup_make(&s, c, KILN_F32, 0)) return KILN_ERR_NOMEM;
    if (ids) memcpy(s.in[1], ids, sizeof *ids);
    mem_free(setup_run(&s, &backend_cpu, NULL, 1, NULL, NULL, &st));
    setup_free(&s);
    return st;
}
static void test_refusals(void)
{
    CHECK_EQ(status_of(&embedding_case, &(int32_t){5}), KILN_ERR_INVALID);
    CHECK_EQ(status_of(&embedding_case, &(int32_t){-1}), KILN_ERR_INVALID);
    CHECK_EQ(status_of(&embedding_case, &(int32_t){4}), KILN_OK);
    CHECK_EQ(status_of(&groups_case, NULL), KILN_ERR_UNSUPPORTED);
}

/* ---- the bench ---- */

static double operand_bytes(const operand_desc *d)
{
    return d->dtype ? (double)shape_count(&d->shape) * (double)dtype_size(d->dtype) : 0;
}

typedef struct {
    char *to;
    const char *from;
    size_t each;
} copying;

static void copy_part(void *arg, size_t part)
{
    const copying *c = arg;
    memcpy(c->to + part * c->each, c->from + part * c->each, c->each);
}

/* GB/s of the operands and results, and what part that is of copying as many bytes with as many threads. */
static void print_bandwidth(const op_setup *s, double seconds, pool *p)
{
    double bytes = operand_bytes(&s->op.out) + operand_bytes(&s->op.more[0]), copied = 1e9;
    for (uint32_t i = 0; i < s->op.n_in; i++) bytes += operand_bytes(&s->op.in[i]);
    size_t n = (size_t)(bytes / 2), parts = pool_threads(p);
    copying c = {mem_calloc(n + 1, 1), mem_calloc(n + 1, 1), n / parts};
    for (int i = 0; i < 5 && c.to && c.from; i++) {
        struct timespec a, b;
        memset((void *)(uintptr_t)c.from, i, n);
        clock_gettime(CLOCK_MONOTONIC, &a);
        pool_for(p, parts, copy_part, &c);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double t = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        if (t < copied) copied = t;
    }
    printf("%-46s %10.1f GB/s, %.2f of memcpy's %.1f\n", "", bytes / seconds * 1e-9, copied / seconds,
           bytes / copied * 1e-9);
    mem_free(c.to), mem_free((void *)(uintptr_t)c.from);
}

static void bench(uint32_t type, const char *filter)
{
    pool *p = pool_new(0);
    double total = 0;
    printf("%s, %s, %u threads\n%-46s %6s %10s %10s %10s %10s\n", backend_cpu.features(),
           type == KILN_F32 ? "f32" : "bf16", pool_threads(p), "op", "count", "ms", "GFLOP/s", "a core", "ms a pass");
    for (size_t i = 0; i < sizeof bench_cases / sizeof bench_cases[0]; i++) {
        const bench_case *b = &bench_cases[i];
        op_setup s;
        double seconds = 0, busy = 0;
        kernel *k = NULL;
        if (!strstr(b->c.name, filter)) continue;
        if (!setup_make(&s, &b->c, type, 0)) break;
        mem_free(setup_run(&s, &backend_cpu, p, b->repeat, &seconds, &busy, NULL));
        if (backend_cpu.prepare(&s.op, &k, NULL) == KILN_OK) {
            printf("%-46s %6d %10.2f %10.1f %10.1f %10.1f  %s\n", b->c.name, b->count, seconds * 1e3,
                   (double)k->flops / seconds * 1e-9, (double)k->flops / busy * 1e-9, seconds * 1e3 * b->count,
                   k->name);
            k->free(k);
            if (!b->count) print_bandwidth(&s, seconds, p);
        }
        fflush(stdout);
        total += seconds * b->count;
        setup_free(&s);
    }
    printf("sum of the pass: %.2f s\n", total);
    pool_free(p);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_plain),
        CASE(test_avx2),
        CASE(test_avx512),
        CASE(test_avx512bf16_f32_products),
        CASE(test_avx512bf16_bf16_products),
        CASE(test_N1_group_norm_statistics_are_f32),
        CASE(test_N2_attention_scores_are_f32),
        CASE(test_N8_attention_4096_positions),
        CASE(test_M3_pads_right_and_bottom_only),
        CASE(test_M4_group_norm_population_variance),
        CASE(test_M15_head_of_40),
        CASE(test_T6_causal_mask),
        CASE(test_T7_gelu_kinds),
        CASE(test_refusals),
    };
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        bench(argc > 2 && strcmp(argv[2], "f32") == 0 ? KILN_F32 : KILN_BF16, argc > 3 ? argv[3] : "");
        return 0;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
