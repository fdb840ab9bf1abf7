/* ops_level.c - see ops_level.h. */
#include "ops_level.h"

#include "ops_rows_upsampled.h"
#include "ops_run.h"

#include "backend/cpu/instructions.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/int8_kernels.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The ones of upsampled pictures follow: only with AMX there is a kernel. */
enum {
    N_PLAIN = sizeof cases / sizeof cases[0],
    N_CASES = N_PLAIN + sizeof upsampled_cases / sizeof upsampled_cases[0]
};
enum { VARIANTS = 9, STORED_PAST = 5 /* the first ones, past the caches */ };
/* mixed: every other operand is of this type, where the op reads any */
static const struct {
    uint32_t type;
    int64_t pad;
    uint32_t mixed;
    int odd, saturates;
} variants[VARIANTS] = {{KILN_F32, 0, 0, 0, 0},         {KILN_BF16, 0, 0, 0, 0},       {KILN_F32, 8, 0, 0, 0},
                        {KILN_BF16, 8, 0, 0, 0},        {KILN_F16, 8, 0, 0, 0},        {KILN_BF16, 3, KILN_F32, 0, 0},
                        {KILN_F32, 0, KILN_BF16, 1, 0}, {KILN_F16, 0, KILN_F32, 1, 0}, {KILN_F16, 3, 0, 0, 1}};
static pool *pools[5];
static void *expected_results[N_CASES][VARIANTS]; /* the reference's, made once and inherited by every child */

static const op_case *row_at(size_t i) { return i < N_PLAIN ? &cases[i] : &upsampled_cases[i - N_PLAIN]; }
/* Weights here are numbers of bf16, and sums of two and four of them are rounded to it: by 1.6e-3 of each on average,
 * and the result's last bit may be another. Measured 2.4e-3 to 2.6e-3 of the whole. */
static int is_upsampled(size_t i) { return i >= N_PLAIN; }
static int is_meant(size_t i, const char *level, const char *prefix)
{
    return strncmp(row_at(i)->name, prefix, strlen(prefix)) == 0 && (i < N_PLAIN || strcmp(level, "amx") == 0);
}

/* 0: the row has no such variant */
static int changed(op_setup *s, int v)
{
    if (variants[v].mixed) return setup_mix(s, variants[v].mixed, variants[v].odd);
    return variants[v].saturates ? setup_saturate(s) : 1;
}

static void expect(size_t row, int v)
{
    op_setup s;
    if (expected_results[row][v] || !setup_make(&s, row_at(row), variants[v].type, variants[v].pad)) return;
    if (changed(&s, v)) expected_results[row][v] = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL);
    setup_free(&s);
}

/* What products of integers (int8_product.h, int8_transposed.h) may err: test_block_int8.c says why. Of types whose
 * codes are rounded anew both sides are. 0: it is none. */
static double int8_tolerance(const op_case *c, uint32_t type)
{
    const operand_desc *w = &c->op.in[1];
    if (type != KILN_BF16 || cpu_blocks() == BLOCKS_WIDENED || c->op.kind == OP_EMBEDDING) return 0;
    const int64_t *d = w->shape.dim;
    int filter = c->op.kind == OP_CONV2D && d[2] == 1 && d[3] == 1;
    int rows = c->op.kind == OP_LINEAR || c->op.kind == OP_GROUPED_LINEAR || filter;
    if (w->rows.coding == WEIGHTS_INT8) return rows && d[filter ? 1 : w->shape.rank - 1] % 32 == 0 ? 1e-2 : 0;
    const int8_form *f = dtype_is_block(w->dtype) ? int8_form_of(w->dtype, INT8_MANY) : NULL;
    const int may_round = c->op.kind == OP_LINEAR_T || c->op.kind == OP_GROUPED_LINEAR; /* some of them */
    return !f ? 0 : f->scales == 1 || may_round ? 1.2e-2 : 1e-2;
}

/* Attention by products of pairs (attention_pairs.h): each exponential is rounded to bf16, by up to 2^-9 of it and
 * 0.8e-3 on average, as elsewhere (torch: 2.3e-3 against f64); then the result's last bit, 1.7e-3 on average, may be
 * another. Measured 2.1e-3 to 2.9e-3 of the whole. Of one query a head they are not rounded. */
static int rounds_exponentials(const op_desc *op, uint32_t type)
{
    return op->kind == OP_ATTENTION && type == KILN_BF16 && cpu_attention() != ATTEND_BY_F32 &&
           op->in[0].shape.dim[1] > 1;
}

static int run_variant(size_t row, int v)
{
    char what[160];
    op_setup s;
    const op_case *c = row_at(row);
    uint32_t type = variants[v].type;
    int64_t pad = variants[v].pad;
    void *expected = expected_results[row][v], *first = NULL;
    snprintf(what, sizeof what, "%s %s%s%s%s%s", c->name, dtype_name(type), pad ? " with row distance" : "",
             variants[v].mixed ? ", some " : "", variants[v].mixed ? dtype_name(variants[v].mixed) : "",
             variants[v].saturates ? ", saturating" : "");
    if (!setup_make(&s, c, type, pad)) return 0;
    if (!changed(&s, v)) return setup_free(&s), 1;
    if (is_upsampled(row) && type != KILN_BF16) return setup_free(&s), 1;
    double own = int8_tolerance(c, type), tolerance = own > 0 ? own : setup_tolerance(c, type);
    if (rounds_exponentials(&s.op, type) || is_upsampled(row)) tolerance = 3.5e-3;
    if (variants[v].saturates) tolerance *= SATURATED;
    int ok = expected != NULL;
    for (unsigned threads = 1; threads <= (v < STORED_PAST ? 4 : 2) && ok; threads++) {
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

static int n_variants(void) { return getenv("KILN_CPU_PAST") ? STORED_PAST : VARIANTS; }

int ops_run_level(const char *level, const char *products, const char *blocks, const char *prefix)
{
    for (size_t i = 0; i < N_CASES; i++)
        for (int v = 0; v < n_variants() && is_meant(i, level, prefix); v++) expect(i, v);
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        int failed = 0, ran = 0;
        setenv("KILN_CPU_FEATURES", level, 1);
        setenv("KILN_CPU_GEMM", products, 1), setenv("KILN_CPU_BLOCKS", blocks, 1); /* read once, by what comes next */
        for (unsigned t = 1; t <= 4; t++) pools[t] = pool_new(t);
        for (size_t i = 0; i < N_CASES; i++) {
            if (!is_meant(i, level, prefix)) continue;
            for (int v = 0; v < n_variants(); v++, ran++) failed += !run_variant(i, v);
        }
        printf("  %s (%s products): %d runs, %d failed\n", backend_cpu.features(), products, ran, failed);
        fflush(stdout);
        _exit(failed > 100 ? 100 : failed + (ran == 0));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

int ops_machine_has(const char *feature)
{
#if defined __x86_64__
    if (strcmp(feature, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(feature, "avx512") == 0) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (strcmp(feature, "avx512bf16") == 0) return __builtin_cpu_supports("avx512bf16");
    if (strcmp(feature, "amx") == 0) return (amx_found() & AMX_BF16) != 0;
#endif
    return strcmp(feature, "none") == 0;
}
