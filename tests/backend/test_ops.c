/* test_ops.c - every op of the CPU backend against its plain C reference: one table of cases, run in f32, bf16 and f16
 * storage, dense and with distance between rows, with operands of two types as regions of precision make them, and with
 * f16 that saturates, at every level of the processor (each in a process of its own, since the level is chosen once),
 * with 1 to 4 threads, which must give the same bytes.
 *
 *     test_ops                    the test
 *     test_ops bench [f32|bf16|f16 [NAME [THREADS]]]   GFLOP/s of SD1.5's layers, GB/s of ops that wait for memory
 *     test_ops bench bf16 memory 1 [PART PARTS]        the latter alone, and how many have 0.60 of a copy; every
 *                                                      PARTS-th row from PART (1 ..) on
 *
 * Tolerances. f32, 2e-6: exp, erf and the division in an activation are within a few units of 2^-24 = 6e-8 (erf 1.5e-7
 * absolute), sums of n terms within about sqrt(n) of them. Products: 1e-5, what is allowed a whole block of layers;
 * measured 4e-7 for sums of 3,000 terms in another order and 3.7e-6 through Winograd's transforms. bf16: operands are
 * exact in bf16 and sums are f32 on both sides, so only the final rounding may fall to the other neighbour: 2^-8 of an
 * element, for the few on the edge; 1e-3 of the whole.
 */
#include "busy_time.h"
#include "harness.h"
#include "ops_bench_work.h"
#include "ops_level.h"
#include "ops_near.h"
#include "ops_run.h"
#include "test_ops_table.h"

#include "backend/cpu/instructions.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/int8_kernels.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void level_by(const char *name, const char *products, const char *blocks, const char *prefix)
{
    if (!ops_machine_has(name)) {
        test_skip("this processor has no such level");
        return;
    }
    CHECK_EQ(ops_run_level(name, products, blocks, prefix), 0);
}
static void level(const char *name, const char *products, const char *prefix)
{
    level_by(name, products, "widened", prefix);
}

static void test_plain(void) { level("none", "f32", ""); }
static void test_avx2(void) { level("avx2", "f32", ""); }
static void test_avx512(void) { level("avx512", "f32", ""); }
static void test_avx512bf16_f32_products(void) { level("avx512bf16", "f32", ""); }
static void test_avx512bf16_bf16_products(void) { level("avx512bf16", "bf16", ""); }

/* By the plain loops, and by the processor's byte products where it has them. */
static void test_int8_plain(void)
{
    level_by("none", "f32", "int8", "linear KILN_");
    level_by("none", "f32", "int8", "linear int8 ");
    level_by("none", "f32", "int8", "grouped_linear KILN_");
    level_by("none", "f32", "int8", "grouped_linear int8 ");
    level_by("none", "f32", "int8", "conv2d int8 ");
    level_by("none", "f32", "int8", "linear_transposed KILN_");
}
static void test_int8(void)
{
    level_by("avx512", "f32", "int8", "linear ");
    level_by("avx512", "f32", "int8", "grouped_linear ");
    level_by("avx512", "f32", "int8", "linear_transposed KILN_");
    level_by("avx512", "f32", "int8", "conv2d ");
}

/* Where AMX is; over a model of it tests/instructions has rows anywhere. */
static void test_amx(void) { level("amx", "bf16", ""); }
static void test_amx_int8(void)
{
    for (int tiles = 0; tiles < 2; tiles++) {
        const char *blocks = tiles ? "tiles" : "int8";
        level_by("amx", "bf16", blocks, "linear ");
        level_by("amx", "bf16", blocks, "grouped_linear ");
        level_by("amx", "bf16", blocks, "linear_transposed KILN_");
        level_by("amx", "bf16", blocks, "conv2d ");
    }
}

/* Every result stored past the caches, as only large ones are. */
static void past(const char *name)
{
    setenv("KILN_CPU_PAST", "0", 1);
    level(name, "f32", "");
    unsetenv("KILN_CPU_PAST");
}
static void test_past_avx2(void) { past("avx2"); }
static void test_past_avx512(void) { past("avx512"); }
static void test_past_avx512bf16(void) { past("avx512bf16"); }

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
static kiln_status status_of_at(const op_case *c, const int32_t *ids, size_t at)
{
    op_setup s;
    kiln_status st = KILN_OK;
    if (!setup_make(&s, c, KILN_F32, 0)) return KILN_ERR_NOMEM;
    if (ids) memcpy((int32_t *)s.in[1] + at, ids, sizeof *ids);
    mem_free(setup_run(&s, &backend_cpu, NULL, 1, NULL, NULL, &st));
    setup_free(&s);
    return st;
}
static kiln_status status_of(const op_case *c, const int32_t *ids) { return status_of_at(c, ids, 0); }
static void test_refusals(void)
{
    static const op_case along = {
        "take_along", {.kind = OP_TAKE_ALONG, .n_in = 2, .in = {X(1, 9), IDS(1, 75)}, .out = X(1, 75)}, 0};
    for (size_t at = 0; at < 75; at++) { /* of whole vectors and of what is left of one */
        CHECK_EQ(status_of_at(&along, &(int32_t){9}, at), KILN_ERR_INVALID);
        CHECK_EQ(status_of_at(&along, &(int32_t){-1}, at), KILN_ERR_INVALID);
        CHECK_EQ(status_of_at(&along, &(int32_t){8}, at), KILN_OK);
    }
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

/* What a run reads and writes: a weight in the form in which it is packed. */
static double bytes_moved(const op_setup *s, const kernel *k)
{
    double bytes = operand_bytes(&s->op.out);
    for (uint32_t i = 0; i < s->op.n_more; i++) bytes += operand_bytes(&s->op.more[i]);
    for (uint32_t i = 0; i < s->op.n_in; i++)
        bytes += k->packed_bytes[i] ? (double)k->packed_bytes[i] : operand_bytes(&s->op.in[i]);
    return bytes;
}

typedef struct {
    char *to, *from;
    size_t each;
    pool *p;
} copying;

static void copy_part(void *arg, size_t part)
{
    const copying *c = arg;
    memcpy(c->to + part * c->each, c->from + part * c->each, c->each);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of a copy; `seconds` is its wall time. */
static double time_copy(copying *c, double *seconds)
{
    double busy = busy_time(c->p), t = now();
    pool_for(c->p, pool_threads(c->p), copy_part, c);
    *seconds = now() - t;
    return busy_time(c->p) - busy;
}

/* What a row that waits for memory has of its ceilings. */
typedef struct {
    double of_copy, of_work, of_near;
    const char *kind; /* of the other ceiling; NULL: there is none */
} shares;

/* Processor time that the row would take if what it reads and writes stayed in the processor's own cache; 0: not known.
 */
static double time_near(const op_case *c, uint32_t type, pool *p)
{
    enum { REPEATS = 40 };
    op_case small;
    op_setup s;
    double seconds, busy = 0, times = op_near(c, type, &small);
    if (times <= 0 || !setup_make(&s, &small, type, 0)) return 0;
    mem_free(setup_run(&s, &backend_cpu, p, REPEATS, &seconds, &busy, NULL));
    setup_free(&s);
    return busy * times;
}

/* A ceiling, each thread with its part of it: the instructions of n numbers, or the pieces of n results. */
enum { MOST_PARTS = 64 };
typedef struct {
    const vector_work *w; /* NULL: pieces */
    const copying *c;
    size_t pixel;
    double n, seconds[MOST_PARTS];
} ceiling;

static void ceiling_part(void *arg, size_t part)
{
    ceiling *j = arg;
    const copying *c = j->c;
    j->seconds[part] = j->w ? ceiling_time(j->w, j->n)
                            : ceiling_pieces_time(c->to + part * c->each, c->from + part * c->each, c->each,
                                                  2 * j->pixel, 2, j->pixel, (size_t)j->n);
}
static double ceiling_of_all(ceiling *j)
{
    size_t parts = pool_threads(j->c->p) < MOST_PARTS ? pool_threads(j->c->p) : MOST_PARTS;
    double sum = 0;
    j->n /= (double)parts;
    if (!j->w && j->n > (double)(j->c->each / j->pixel)) j->n = (double)(j->c->each / j->pixel);
    pool_for(j->c->p, parts, ceiling_part, j);
    for (size_t i = 0; i < parts; i++) sum += j->seconds[i];
    return sum;
}

/* Processor time of what the row has to do besides copying its bytes, or of copying more of them; 0: nothing is known.
 */
static double time_ceiling(const op_setup *s, const char *name, const copying *c, double copied, double bytes,
                           const char **kind)
{
    const operand_desc *out = &s->op.out, *x = &s->op.in[0];
    if (s->op.kind == OP_GRID_SAMPLE) { /* two rows of two pixels a result */
        ceiling pieces = {.c = c, .pixel = (size_t)x->shape.dim[3] * dtype_size(x->dtype)};
        pieces.n = (double)(shape_count(&out->shape) / x->shape.dim[3]);
        *kind = "of reading random pairs of pixels";
        return ceiling_of_all(&pieces);
    }
    for (size_t i = 0; i < sizeof bench_work / sizeof bench_work[0]; i++) {
        if (strncmp(bench_work[i].name, name, strlen(bench_work[i].name)) != 0) continue;
        const operand_desc *of = bench_work[i].per == RESULT ? out : bench_work[i].per == KEYS ? &s->op.in[1] : x;
        ceiling work = {.c = c, .n = (double)shape_count(&of->shape)};
        work.w = out->dtype == KILN_BF16 || x->dtype == KILN_BF16 ? &bench_work[i].half : &bench_work[i].whole;
        double t = ceiling_of_all(&work), moved = copied * (1 + bench_work[i].passes * operand_bytes(x) / bytes);
        *kind = t > moved ? "of its instructions" : "of copying what is read twice";
        if (t <= moved && bench_work[i].passes == 0) *kind = NULL;
        return t > moved ? t : moved;
    }
    return 0;
}

/* GB/s of what is read and written, and what part that is of copying as many bytes with as many threads, of another
 * ceiling (time_ceiling()) and of the same instructions on data that is near: in turns, by the least
 * processor time of each, so that other work on the machine counts little. */
static shares print_bandwidth(const op_setup *s, double bytes, pool *p, const op_case *row, uint32_t type)
{
    enum { TURNS = 5, REPEATS = 3 };
    const char *name = row->name;
    double busy = 1e9, seconds = 1e9, copied = 1e9, copy_seconds = 1e9, work = 1e9, near = 1e9;
    size_t n = (size_t)(bytes / 2);
    copying c = {mem_calloc(n + 1, 1), mem_calloc(n + 1, 1), n / pool_threads(p), p};
    shares share = {0};
    for (int i = 0; i < TURNS * REPEATS && c.to && c.from; i++) {
        double wall = 1e9, own = 1e9;
        if (i % REPEATS == 0) {
            memset(c.from, i, n);
            mem_free(setup_run(s, &backend_cpu, p, REPEATS, &wall, &own, NULL));
            busy = own < busy ? own : busy, seconds = wall < seconds ? wall : seconds;
        }
        own = time_copy(&c, &wall);
        copied = own < copied ? own : copied, copy_seconds = wall < copy_seconds ? wall : copy_seconds;
    }
    for (int i = 0; i < TURNS && c.to && c.from; i++) {
        double own = time_ceiling(s, name, &c, copied, bytes, &share.kind);
        work = own < work ? own : work;
        own = time_near(row, type, p);
        near = own < near ? own : near;
    }
    share.of_copy = copied / busy, share.of_work = share.kind ? work / busy : 0;
    if (near <= busy) share.of_near = near / busy; /* a small case that takes longer says nothing of a large one */
    printf("%-58s %8.1f GB/s %8.1f copied %6.2f of a copy", name, bytes / seconds * 1e-9, bytes / copy_seconds * 1e-9,
           share.of_copy);
    if (share.of_copy < 0.6 && share.of_near > 0) printf(", %.2f of the same near by", share.of_near);
    if (share.of_copy < 0.6 && share.kind) printf(", %.2f %s", share.of_work, share.kind);
    printf("\n");
    mem_free(c.to), mem_free(c.from);
    return share;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* An attention's rate by that of a linear of 4096 rows, 1280 by 1280, the two in turns: the median. 0: not known. */
static double share_of_dense(const op_setup *attention, double flops, uint32_t type, pool *p)
{
    enum { TURNS = 15, REPEATS = 2 };
    static const bench_case dense = DENSE("4096 1280-1280", 4096, 1280, 1280, 1);
    double ratio[TURNS] = {0}, dense_flops = 2.0 * 4096 * 1280 * 1280;
    op_setup s;
    if (!setup_make(&s, &dense.c, type, 0)) return 0;
    for (int i = 0; i < TURNS; i++) {
        double seconds = 0, whole = 0, busy;
        mem_free(setup_run(&s, &backend_cpu, p, REPEATS, &whole, &busy, NULL));
        mem_free(setup_run(attention, &backend_cpu, p, REPEATS, &seconds, &busy, NULL));
        if (seconds > 0) ratio[i] = flops / seconds * whole / dense_flops;
    }
    setup_free(&s);
    qsort(ratio, TURNS, sizeof ratio[0], ascending);
    return ratio[TURNS / 2];
}

/* What came of the rows so far: those that wait for memory, and those of them that have less than the aim. */
typedef struct {
    double pass; /* ms */
    int rows, below, missed;
} bench_sum;

static void bench_row(const bench_case *b, uint32_t type, pool *p, bench_sum *sum)
{
    op_setup s;
    double seconds = 0, busy = 0;
    kernel *k = NULL;
    error e = {0};
    if (!setup_make(&s, &b->c, type, 0)) return;
    if (backend_cpu.prepare(&s.op, &k, &e) != KILN_OK) {
        printf("%-46s %s\n", b->c.name, e.message);
    } else if (!b->count) {
        shares share = print_bandwidth(&s, bytes_moved(&s, k), p, &b->c, type);
        sum->rows++, sum->below += share.of_copy < 0.6,
            sum->missed += share.of_copy < 0.6 && share.of_work < 0.6 && share.of_near < 0.6;
    } else {
        mem_free(setup_run(&s, &backend_cpu, p, b->repeat, &seconds, &busy, NULL));
        printf("%-46s %6d %10.2f %10.1f %10.1f %10.1f  %s\n", b->c.name, b->count, seconds * 1e3,
               (double)k->flops / seconds * 1e-9, (double)k->flops / busy * 1e-9, seconds * 1e3 * b->count, k->name);
        if (s.op.kind == OP_ATTENTION)
            printf("%-46s %6.2f of a linear's rate, in turns\n", "", share_of_dense(&s, (double)k->flops, type, p));
    }
    fflush(stdout);
    if (k) k->free(k);
    setup_free(&s);
    sum->pass += seconds * 1e3 * b->count;
}

static void bench(const char *type_name, const char *filter, unsigned threads, size_t part, size_t parts)
{
    uint32_t type = dtype_from_name(type_name);
    pool *p = pool_new(threads);
    bench_sum sum = {0};
    int memory = strcmp(filter, "memory") == 0;
    size_t row = 0;
    printf("%s, %s, %u threads\n%-46s %6s %10s %10s %10s %10s\n", backend_cpu.features(), dtype_name(type),
           pool_threads(p), "op", "count", "ms", "GFLOP/s", "a core", "ms a pass");
    for (size_t i = 0; i < sizeof bench_cases / sizeof bench_cases[0]; i++)
        if ((memory ? !bench_cases[i].count : strstr(bench_cases[i].c.name, filter) != NULL) &&
            row++ % (parts ? parts : 1) == part - 1)
            bench_row(&bench_cases[i], type, p, &sum);
    printf("sum of the pass: %.2f s\n", sum.pass * 1e-3);
    printf("%d of %d rows that wait for memory are below 0.60 of a copy, %d of these of what else they wait for, too\n",
           sum.below, sum.rows, sum.missed);
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
        CASE(test_int8_plain),
        CASE(test_int8),
        CASE(test_amx),
        CASE(test_amx_int8),
        CASE(test_past_avx2),
        CASE(test_past_avx512),
        CASE(test_past_avx512bf16),
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
        bench(argc > 2 ? argv[2] : "bf16", argc > 3 ? argv[3] : "", argc > 4 ? (unsigned)atoi(argv[4]) : 0,
              argc > 6 ? (size_t)atoi(argv[5]) : 1, argc > 6 ? (size_t)atoi(argv[6]) : 1);
        return 0;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
