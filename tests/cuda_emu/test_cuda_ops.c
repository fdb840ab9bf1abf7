/* test_cuda_ops.c - every op of the CUDA backend against its plain C reference: the table of tests/backend, in f32 and bf16 storage, dense and
 * with distance between rows, with the kernels run on the host (cu_shim.h) over a device that is none, under several orders of threads.
 * KILN_TEST_FULL=1 (make test-memory): several orders of threads and blocks, which must give equal bytes, and every way of making products.
 * With KILN_TEST_GPU=1 the same table runs on the GPU, with the library that `make` built (scripts/gpu-check).
 *
 * Tolerances are test_ops.c's; bf16 attention on tensor cores 2^-7, since the weights of the values are rounded to bf16 there (a rounding
 * of 2^-9 of each, and sums of their roundings), as in every implementation that uses them.
 */
#include "cu_emu.h"
#include "fake_cuda.h"

#include "../backend/ops_run.h"
#include "../backend/test_ops_table.h"
#include "../memory/fake_device.h"
#include "backend/cuda_load.h"
#include "base/memory_alloc.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const cuda_library kiln_cuda_library;
enum { N_CASES = sizeof cases / sizeof cases[0] };
static const struct {
    uint32_t type;
    int64_t pad;
} variants[] = {{KILN_F32, 0}, {KILN_BF16, 0}, {KILN_F32, 8}, {KILN_BF16, 8}, {KILN_BF16, 3}};

static int on_gpu(void) { return getenv("KILN_TEST_GPU") != NULL; }

/* In short: the tensor-core kernels, which fall back on the plain ones for f32 and odd sizes; rows 0 and 3 apart. */
static int full(void) { return on_gpu() || getenv("KILN_TEST_FULL") != NULL; }

static const backend *the_backend(error *e) { return on_gpu() ? cuda_backend(e) : kiln_cuda_library.backend; }

static double tolerance_of(const op_case *c, uint32_t type)
{
    if (type != KILN_BF16) return c->tolerance > 0 ? c->tolerance : 2e-6;
    return c->op.kind == OP_ATTENTION ? 0x1p-7 : 1e-3;
}

static int run_variant(const backend *b, const op_case *c, uint32_t type, int64_t pad, int orders)
{
    char what[160];
    op_setup s;
    snprintf(what, sizeof what, "%s %s, rows %d apart", c->name, type == KILN_F32 ? "f32" : "bf16", (int)pad);
    if (!setup_make(&s, c, type, pad)) return 0;
    void *expected = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL), *first = NULL;
    int ok = expected != NULL;
    for (int order = 0; order < orders && ok; order++) {
        cu_emu_seed((uint64_t)order * 77 + 1);
        void *got = setup_run(&s, b, NULL, 1, NULL, NULL, NULL);
        ok = got && setup_near(&s, got, expected, tolerance_of(c, type), what);
        if (ok && first && memcmp(first, got, setup_out_bytes(&s) + 256)) printf("  %s: other bytes under another order\n", what), ok = 0;
        if (!first) first = got;
        else mem_free(got);
    }
    mem_free(first), mem_free(expected);
    setup_free(&s);
    return ok;
}

/* Work on the backend in a process of its own: how products are made is chosen once in each. `work` says how many of its runs failed. */
static void in_process(const char *products, int orders, int (*work)(const backend *, int orders, int *ran))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        error e = {0};
        int ran = 0;
        setenv("KILN_CUDA_PRODUCTS", products, 1);
        fake_device_open(&(fake_setting){.bytes = 256 << 20, .seed = 5, .fail_at = -1});
        const backend *b = the_backend(&e);
        if (!b) printf("  %s\n", e.message), _exit(101);
        int failed = work(b, orders, &ran);
        fake_report r = fake_device_close();
        printf("  %s: %d runs, %d failed, %u faults of kernels, %u of the host\n", b->features(), ran, failed, cu_emu_faults(), r.faults);
        fflush(stdout);
        _exit(failed || cu_emu_faults() || r.faults || ran == 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int table(const backend *b, int orders, int *ran)
{
    int failed = 0;
    for (size_t i = 0; i < N_CASES; i++)
        for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++)
            if (full() || variants[v].pad != 8) (*ran)++, failed += !run_variant(b, &cases[i], variants[v].type, variants[v].pad, orders);
    if (!on_gpu()) cu_emu_say_kernels();
    return failed;
}

/* The table, and each kernel for tensor cores has had a part in it. */
static int table_on_tensor_cores(const backend *b, int orders, int *ran)
{
    static const char *const kernels[] = {"product_mma", "product_few_bf16", "product_few_f32", "attention_mma", "attention_wide"};
    int failed = table(b, orders, ran);
    for (size_t i = 0; !on_gpu() && i < sizeof kernels / sizeof kernels[0]; i++)
        if (!cu_emu_blocks(kernels[i])) printf("  no row of the table reached %s\n", kernels[i]), failed++;
    return failed;
}

/* Rows of a mask of 70 keys: of nothing, of all but the first 64 and all but the last 6 (whole tiles of a kernel are hidden), of one key. */
static int hidden_keys(const backend *b, int orders, int *ran)
{
    static const op_case masked[] = {ATTEND("hidden keys, head of 40", 1, 17, 70, 1, 40, 0, 4, X(1, 1, 17, 70)),
                                     ATTEND("hidden keys, head of 168", 1, 17, 70, 1, 168, 0, 4, X(1, 1, 17, 70)),
                                     ATTEND("hidden keys, head of 512", 1, 17, 70, 1, 512, 0, 4, X(1, 1, 17, 70))};
    static const struct { int row, from, to; } hidden[] = {{0, 0, 70}, {3, 0, 64}, {5, 64, 70}, {8, 0, 37}, {8, 38, 70}, {16, 0, 70}};
    int failed = 0;
    (void)orders;
    for (size_t i = 0; i < 2 * sizeof masked / sizeof masked[0]; i++) {
        const op_case *c = &masked[i / 2];
        uint32_t type = i % 2 ? KILN_BF16 : KILN_F32;
        op_setup s;
        if (!setup_make(&s, c, type, 0)) return failed + 1;
        for (size_t h = 0; h < sizeof hidden / sizeof hidden[0]; h++)
            for (int k = hidden[h].from; k < hidden[h].to; k++) ((float *)s.in[3])[hidden[h].row * 70 + k] = -INFINITY;
        void *expected = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL), *got = setup_run(&s, b, NULL, 1, NULL, NULL, NULL);
        (*ran)++, failed += !(expected && got && setup_near(&s, got, expected, tolerance_of(c, type), c->name));
        mem_free(expected), mem_free(got);
        setup_free(&s);
    }
    return failed;
}

static void test_every_op_with_plain_products(void)
{
    if (full()) in_process("plain", 3, table);
    else test_skip("make test-memory");
}
static void test_every_op_on_tensor_cores(void) { in_process("mma", full() ? 5 : 1, table_on_tensor_cores); }
static void test_every_op_with_the_library(void)
{
    if (full()) in_process("library", 1, table);
    else test_skip("make test-memory");
}
static void test_keys_hidden_by_a_mask(void) { in_process("mma", 1, hidden_keys); }

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_every_op_with_plain_products), CASE(test_every_op_on_tensor_cores), CASE(test_every_op_with_the_library),
                                      CASE(test_keys_hidden_by_a_mask)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
