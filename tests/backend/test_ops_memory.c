/* test_ops_memory.c - each row of test_ops_table.h prepared, packed and run with its k-th allocation failing, on the
 * CPU and the plain backend: it says that there is no memory, leaves nothing, or gives the bytes that it gives
 * otherwise. And what is packed in memory of the caller's, or from rows, has the bytes of what is packed from memory.
 */
#include "harness.h"
#include "ops_run.h"
#include "test_ops_table.h"

#include "base/memory_alloc.h"
#include "base/memory_fault.h"
#include "base/pool.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_CASES = sizeof cases / sizeof cases[0], TRIED = 40, LARGE = 1 << 18 };

typedef struct {
    op_setup s;
    kernel *k;
    void *packed[OP_MAX_IN], *result, *scratch, *more[OP_MAX_MORE];
    size_t bytes;
} work;

static size_t bytes_of(const operand_desc *d)
{
    int64_t columns = d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1;
    return columns ? (size_t)(shape_count(&d->shape) / columns * d->ld) * dtype_size(d->dtype) : 0;
}

/* Memory that the caller of a kernel has is not the kernel's. */
static void *own(size_t bytes)
{
    void *p = NULL;
    return posix_memalign(&p, 64, bytes + 64) ? NULL : memset(p, 0, bytes + 64);
}

static kiln_status pack(work *w, kernel_args *a, pool *p, error *e)
{
    for (uint32_t i = 0; i < w->s.op.n_in; i++) {
        const operand_desc *d = &w->s.op.in[i];
        a->in[i] = w->s.in[i];
        if (!d->dtype || !w->k->packed_bytes[i]) continue;
        if (!w->packed[i]) w->packed[i] = own(w->k->packed_bytes[i]);
        uint32_t type = d->stored ? d->stored : d->dtype;
        int stored = w->s.blocks[i] && !d->rows.coding && w->k->pack_copies[i] == type;
        a->in[i] = w->packed[i];
        if (w->k->pack_rows_as[i])
            memcpy(w->packed[i], w->s.blocks[i], w->k->packed_bytes[i]);
        else
            TRY(w->k->pack(w->k, i, stored ? w->s.blocks[i] : w->s.in[i], stored ? type : (uint32_t)KILN_F32,
                           w->packed[i], p, e));
    }
    return KILN_OK;
}

static kiln_status once(work *w, const backend *b, pool *p, error *e)
{
    kernel_args a = {.pool = p, .out = w->result};
    TRY(b->prepare(&w->s.op, &w->k, e));
    TRY(pack(w, &a, p, e));
    if (!w->scratch) w->scratch = own(w->k->scratch_bytes);
    a.scratch = w->scratch;
    for (uint32_t i = 0; i < w->s.op.n_more; i++) a.more[i] = w->more[i];
    return w->k->run(w->k, &a, e);
}

static void done(work *w)
{
    if (w->k) w->k->free(w->k);
    w->k = NULL;
    for (uint32_t i = 0; i < OP_MAX_IN; i++) free(w->packed[i]), w->packed[i] = NULL;
    free(w->scratch), w->scratch = NULL;
}

static int refused; /* how often it said that there is no memory */

static int fails_well(const char *name, const backend *b, work *w, const void *sound, pool *p, int64_t k)
{
    error e = {0};
    int64_t live = mem_live();
    memset(w->result, 0, w->bytes);
    mem_fail_at(k, 0);
    kiln_status status = once(w, b, p, &e);
    mem_fail_at(-1, 0);
    done(w);
    refused += status != KILN_OK;
    int ok = status == KILN_OK
                 ? CHECK_MSG(memcmp(w->result, sound, w->bytes) == 0, "%s: allocation %d: other bytes", name, (int)k)
                 : CHECK_MSG(status == KILN_ERR_NOMEM && strstr(e.message, "memory"), "%s: allocation %d: %s: %s", name,
                             (int)k, status_name(status), e.message);
    return ok & CHECK_MSG(mem_live() == live, "%s: allocation %d: %d blocks are left", name, (int)k,
                          (int)(mem_live() - live));
}

static int row(const op_case *c, const backend *b, uint32_t type, pool *p)
{
    int ok;
    char name[160];
    error e = {0};
    work w = {0};
    snprintf(name, sizeof name, "%s on %s in %s", c->name, b->name, dtype_name(type));
    if (!CHECK(setup_make(&w.s, c, type, 0))) return 0;
    w.bytes = bytes_of(&w.s.op.out);
    w.result = own(w.bytes);
    for (uint32_t i = 0; i < w.s.op.n_more; i++) w.more[i] = own(bytes_of(&w.s.op.more[i]));
    void *sound = own(w.bytes);
    mem_fail_at(-1, 0);
    kiln_status status = once(&w, b, p, &e);
    int64_t n = mem_count();
    done(&w);
    memcpy(sound, w.result, w.bytes);
    ok = CHECK_MSG(status == KILN_OK, "%s: %s", name, e.message);
    if (ok) {
        int64_t step = n <= TRIED || getenv("KILN_TEST_FULL") ? 1 : (n + TRIED - 1) / TRIED;
        for (int64_t k = 0; k < n && ok; k += step) ok = fails_well(name, b, &w, sound, p, k);
    }
    free(sound), free(w.result);
    for (uint32_t i = 0; i < w.s.op.n_more; i++) free(w.more[i]);
    setup_free(&w.s);
    return ok;
}

static int small(const op_case *c, const backend *b)
{
    int64_t n = shape_count(&c->op.out.shape);
    for (uint32_t i = 0; i < c->op.n_in; i++)
        if (c->op.in[i].dtype) n += shape_count(&c->op.in[i].shape);
    return b == &backend_cpu || n < LARGE / 16; /* plain loops take their time */
}

static void on(const backend *b, const char *level, const char *blocks)
{
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(CHECK(child >= 0));
    if (child == 0) {
        if (level) setenv("KILN_CPU_FEATURES", level, 1);
        setenv("KILN_CPU_BLOCKS", blocks, 1);
        pool *p = pool_new(1);
        int failed = 0;
        for (size_t i = 0; i < N_CASES; i++)
            for (uint32_t t = 0; t < 2; t++)
                if (small(&cases[i], b)) failed += !row(&cases[i], b, t ? KILN_BF16 : KILN_F32, p);
        pool_free(p);
        printf("  %s: refused %d times\n", b->features(), refused);
        failed += refused < 200;
        fflush(stdout);
        _exit(failed > 100 ? 100 : failed);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 1000, 0);
}

static kiln_status read_rows(const void *self, size_t first, size_t n, float *to, error *e)
{
    (void)e;
    memcpy(to, (const float *)self + first, n * sizeof *to);
    return KILN_OK;
}

/* 1: it has packing from rows, and all three ways give the same. */
static int packs_alike(const op_case *c, uint32_t type, pool *p)
{
    enum { OPERAND = 1 };
    op_setup s;
    kernel *k = NULL;
    error e = {0};
    if (!CHECK(setup_make(&s, c, type, 0))) return 0;
    int found = !s.blocks[OPERAND] && backend_cpu.prepare(&s.op, &k, &e) == KILN_OK && k->pack_rows;
    if (found) {
        size_t bytes = k->packed_bytes[OPERAND];
        char *want = own(bytes), *got = own(bytes), *scratch = own(k->pack_tiles[OPERAND] * k->pack_scratch[OPERAND]);
        const row_source rows = {read_rows, s.in[OPERAND]};
        CHECK_EQ(k->pack(k, OPERAND, s.in[OPERAND], KILN_F32, want, p, &e), KILN_OK);
        for (int from_rows = 0; from_rows < 2; from_rows++) {
            memset(got, 0, bytes);
            kiln_status status = from_rows ? k->pack_rows(k, OPERAND, &rows, got, scratch, p, &e)
                                           : k->pack_in(k, OPERAND, s.in[OPERAND], KILN_F32, got, scratch, p, &e);
            CHECK_MSG(status == KILN_OK && memcmp(want, got, bytes) == 0, "%s in %s, from %s: %s", c->name,
                      dtype_name(type), from_rows ? "rows" : "memory", e.message);
        }
        free(want), free(got), free(scratch);
    }
    if (k) k->free(k);
    setup_free(&s);
    return found;
}

static void test_packed_alike(void)
{
    pool *p = pool_new(2);
    int squares = 0, others = 0;
    for (size_t i = 0; i < N_CASES; i++)
        for (uint32_t t = 0; t < 2; t++) {
            int found = packs_alike(&cases[i], t ? KILN_BF16 : KILN_F32, p);
            if (strncmp(cases[i].name, "conv2d 3x3 wide", 15) == 0)
                squares += found;
            else
                others += found;
        }
    CHECK_MSG(squares >= 8 && others >= 20, "%d of wide convolutions, %d others", squares, others);
    pool_free(p);
}

static void test_cpu(void) { on(&backend_cpu, NULL, "widened"); }
static void test_cpu_by_byte_products(void) { on(&backend_cpu, NULL, "int8"); }
static void test_cpu_plain(void) { on(&backend_cpu, "none", "widened"); }
static void test_reference(void) { on(&backend_reference, NULL, "widened"); }

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_cpu), CASE(test_cpu_by_byte_products), CASE(test_cpu_plain),
                                      CASE(test_reference), CASE(test_packed_alike)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
