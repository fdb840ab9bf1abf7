/* test_cuda_ops.c - every op of the CUDA backend against its plain C reference: the table of tests/backend, in f32, bf16 and f16 storage, dense and
 * with distance between rows, on a chip that has all of the instructions and on sm_75, which has fewer, with the kernels run on the host (cu_shim.h) over a device that is none, under several orders of threads.
 * KILN_TEST_FULL=1 (make test-memory): several orders of threads and blocks, which must give equal bytes, and every way of making products.
 * With KILN_TEST_GPU=1 the same table runs on the GPU, with the library that `make` built (scripts/gpu-check).
 *
 * Tolerances are test_ops.c's; bf16 attention on tensor cores 2^-7, since the weights of the values are rounded to bf16 there (a rounding
 * of 2^-9 of each, and sums of their roundings), as in every implementation that uses them. f16 rounds eight times finer: 2^-10 there (measured
 * 3.3e-4), and for the rest 1e-4: a result on the edge of rounding may fall to its neighbour, 2^-10 away, so sixteen times that has to
 * be allowed an element; measured 1.5e-5 of the whole.
 */
#include "cu_emu.h"
#include "fake_cuda.h"

#include "../backend/ops_run.h"
#include "../backend/test_ops_table.h"
#include "../memory/fake_device.h"
#include "backend/cuda_load.h"
#include "base/memory_alloc.h"
#include "harness.h"
#include "tensor/dtype.h"

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
} variants[] = {{KILN_F32, 0}, {KILN_BF16, 0}, {KILN_F16, 0}, {KILN_F32, 8}, {KILN_BF16, 8}, {KILN_F16, 8}, {KILN_BF16, 3}, {KILN_F16, 3}};

static int on_gpu(void) { return getenv("KILN_TEST_GPU") != NULL; }

/* In short: the tensor-core kernels, which fall back on the plain ones for f32 and odd sizes; rows 0 and 3 apart, f16 0 and, on sm_75, 8. */
static int full(void) { return on_gpu() || getenv("KILN_TEST_FULL") != NULL; }

static const backend *the_backend(error *e) { return on_gpu() ? cuda_backend(e) : kiln_cuda_library.backend; }

static double tolerance_of(const op_case *c, uint32_t type)
{
    if (type == KILN_F32) return c->tolerance > 0 ? c->tolerance : 2e-6;
    if (type == KILN_F16) return c->op.kind == OP_ATTENTION ? 0x1p-10 : 1e-4;
    return c->op.kind == OP_ATTENTION ? 0x1p-7 : 1e-3;
}

static int run_variant(const backend *b, const op_case *c, uint32_t type, int64_t pad, int orders)
{
    char what[160];
    op_setup s;
    snprintf(what, sizeof what, "%s %s, rows %d apart", c->name, dtype_name(type), (int)pad);
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

/* The tensor cores did what is asked of them: those of sm_75 know neither bf16 nor the deeper product. */
static int right_instructions(const char *products, int sm)
{
    int plain = strcmp(products, "plain") == 0, old = sm < 80, fine = 1;
    fine &= (cu_emu_count(CU_EMU_MMA16_BF16) > 0) == (!plain && !old);
    fine &= (cu_emu_count(CU_EMU_MMA16_F16) > 0) == (!plain && !old);
    fine &= (cu_emu_count(CU_EMU_MMA8_F16) > 0) == (!plain && old);
    if (!fine) printf("  sm_%d, %s: not the instructions that belong there\n", sm, products);
    return fine;
}

static int in_table(size_t v, uint32_t only)
{
    if (only && variants[v].type != only) return 0;
    if (full()) return 1;
    if (variants[v].type == KILN_F16) return variants[v].pad == (only ? 8 : 0);
    return variants[v].pad != 8;
}

/* The table in a process of its own: the chip, and how products are made, is chosen once in each. only: a type, or 0 for all. */
static void table(const char *products, int sm, uint32_t only, int orders)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        error e = {0};
        int failed = 0, ran = 0;
        setenv("KILN_CUDA_PRODUCTS", products, 1);
        fake_cuda_chip(sm / 10, sm % 10);
        fake_device_open(&(fake_setting){.bytes = 256 << 20, .seed = 5, .fail_at = -1});
        const backend *b = the_backend(&e);
        if (!b) printf("  %s\n", e.message), _exit(101);
        for (size_t i = 0; i < N_CASES; i++)
            for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++)
                if (in_table(v, only)) ran++, failed += !run_variant(b, &cases[i], variants[v].type, variants[v].pad, orders);
        if (!on_gpu()) cu_emu_say_kernels();
        fake_report r = fake_device_close();
        printf("  %s: %d runs, %d failed, %u faults of kernels, %u of the host\n", b->features(), ran, failed, cu_emu_faults(), r.faults);
        failed += !on_gpu() && !right_instructions(products, sm);
        fflush(stdout);
        _exit(failed || cu_emu_faults() || r.faults || ran == 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_every_op_with_plain_products(void)
{
    if (full()) table("plain", 90, 0, 3);
    else test_skip("make test-memory");
}
static void test_every_op_on_tensor_cores(void) { table("mma", 90, 0, full() ? 5 : 1); }
static void test_every_op_on_sm_75(void)
{
    if (on_gpu()) test_skip("the chip is what it is");
    else table("library", 75, full() ? 0 : (uint32_t)KILN_F16, full() ? 3 : 1);
}
static void test_every_op_with_the_library(void)
{
    if (full()) table("library", 90, 0, 1);
    else test_skip("make test-memory");
}

/* What a device is asked for when nobody says: in a process each, which opens one chip. */
static void test_the_precision_that_suits_the_chip(void)
{
    static const struct {
        int sm;
        uint32_t best;
        const char *says;
    } chips[] = {{75, KILN_F16, "tensor cores for f16"}, {80, KILN_BF16, "tensor cores, "}, {86, KILN_BF16, "tensor cores, "}, {90, KILN_BF16, "tensor cores, "}};
    if (on_gpu()) {
        test_skip("the chip is what it is");
        return;
    }
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            error e = {0};
            memory_device *device = NULL;
            const backend *b = kiln_cuda_library.backend;
            unsetenv("KILN_CUDA_PRODUCTS");
            fake_cuda_chip(chips[i].sm / 10, chips[i].sm % 10);
            fake_device_open(&(fake_setting){.bytes = 1 << 20, .seed = 5, .fail_at = -1});
            int fine = b->open(0, &device, &e) == KILN_OK && b->best_precision() == chips[i].best && strstr(b->features(), chips[i].says) != NULL && b->precisions >> KILN_F16 & 1;
            if (!fine) printf("  sm_%d: %s, best in %s %s\n", chips[i].sm, b->features(), dtype_name(b->best_precision()), e.message);
            fflush(stdout);
            _exit(!fine);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_every_op_with_plain_products), CASE(test_every_op_on_tensor_cores), CASE(test_every_op_on_sm_75),
                                      CASE(test_every_op_with_the_library), CASE(test_the_precision_that_suits_the_chip)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
