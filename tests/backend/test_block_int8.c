/* test_block_int8.c - products of integers with weights that are stored by blocks (int8_kernels.h).
 *
 * The processor's kernels make the bits of the plain ones. Against sums in double of the numbers that the blocks stand
 * for, by rows, relative to their RMS: the largest of 256 normal numbers is 2.97 on average, so a step of 1/127 of it
 * errs by 2.97 / 127 / sqrt(12) = 6.8e-3, and by sqrt(2) of that, 9.6e-3, where the weight is rounded so, too; a fifth
 * more is allowed. One number of 97 that is a hundred times as large as the others leaves these with one digit:
 * measured 3.4e-2 at most, and bounded by 5e-2.
 */
#include "harness.h"
#include "int8_cases.h"

#include "backend/cpu/instructions.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/int8_kernels.h"
#include "base/memory_alloc.h"
#include "tensor/block.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Those that this processor has. */
static size_t fast_kernels(const int8_kernels *k[4])
{
    size_t n = 0;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) k[n++] = &int8_kernels_avx512vnni;
    if ((amx_found() & AMX_INT8) && __builtin_cpu_supports("avx512bf16")) k[n++] = &int8_kernels_amx;
    if (avx_vnni_found()) k[n++] = &int8_kernels_avxvnni;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) k[n++] = &int8_kernels_avx2;
#endif
    return n;
}

static void test_same_bits(void)
{
    const int8_kernels *k[4];
    size_t n = fast_kernels(k);
    if (!n) test_skip("this processor has no byte products");
    for (size_t i = 0; i < n; i++) int8_check_bits(k[i]);
}

static void test_errors(void)
{
    const int8_kernels *k[4];
    int8_check_errors(&int8_kernels_plain);
    for (size_t i = 0, n = fast_kernels(k); i < n; i++) int8_check_errors(k[i]);
}

/* Transposed weights, whose terms of a sum have scales of their own. */
static void test_columns(void)
{
    const int8_kernels *k[4];
    int8_check_columns(&int8_kernels_plain);
    for (size_t i = 0, n = fast_kernels(k); i < n; i++) int8_check_columns(k[i]), int8_check_blocks(k[i]);
}

static uint32_t seed = 1;
static float uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return ((float)(seed >> 8) + 0.5f) * 0x1p-24f;
}
static float normal(void)
{
    float radius = sqrtf(-2 * logf(uniform()));
    return radius * cosf(6.2831853f * uniform());
}

enum { T_ROWS = 23, T_DEEP = 4500, T_WIDTH = 512 };

static op_desc transposed(uint32_t type)
{
    op_desc d = {.kind = OP_LINEAR_T, .n_in = 3, .precision = KILN_BF16};
    d.in[0] = (operand_desc){.dtype = KILN_F32, .shape = {.rank = 2, .dim = {T_ROWS, T_DEEP}}, .ld = T_DEEP};
    d.in[1] = (operand_desc){.dtype = type, .shape = {.rank = 2, .dim = {T_DEEP, T_WIDTH}}, .ld = T_WIDTH, .weight = 1};
    d.out = (operand_desc){.dtype = KILN_F32, .shape = {.rank = 2, .dim = {T_ROWS, T_WIDTH}}, .ld = T_WIDTH};
    return d;
}

static int transposed_by(unsigned threads, uint32_t type, const uint8_t *blocks, const float *x, float *out)
{
    op_desc op = transposed(type);
    kernel *k = NULL;
    error e = {0};
    if (backend_cpu.prepare(&op, &k, &e) != KILN_OK) return 0;
    pool *p = pool_new(threads);
    void *scratch = mem_aligned(64, k->scratch_bytes + 64);
    int good = strncmp(k->name, "int8_transposed:", 16) == 0 &&
               k->run(k, &(kernel_args){.in = {x, blocks}, .out = out, .scratch = scratch, .pool = p}, &e) == KILN_OK;
    mem_free(scratch), pool_free(p), k->free(k);
    return good;
}

static double transposed_error(const float *x, const float *w, const float *out)
{
    double off = 0, all = 0;
    for (size_t r = 0; r < T_ROWS; r++)
        for (size_t c = 0; c < T_WIDTH; c++) {
            double sum = 0;
            for (size_t i = 0; i < T_DEEP; i++) sum += (double)x[r * T_DEEP + i] * w[i * T_WIDTH + c];
            off += (sum - out[r * T_WIDTH + c]) * (sum - out[r * T_WIDTH + c]), all += sum * sum;
        }
    return sqrt(off / all);
}

/* Both sides are rounded to 8 bits, so the error is sqrt(2) of a linear's; the same for any number of threads. In a
 * child: the variable is read once. */
static int transposed_in_child(void)
{
    static const uint32_t some[] = {KILN_Q6_K, KILN_Q4_K, KILN_Q8_0};
    float *x = mem_alloc(T_ROWS * T_DEEP * sizeof *x), *w = mem_alloc(T_DEEP * T_WIDTH * sizeof *w);
    float *out = mem_alloc(2 * T_ROWS * T_WIDTH * sizeof *out), *other = out + T_ROWS * T_WIDTH;
    uint8_t *blocks = mem_alloc(T_DEEP * T_WIDTH * 2);
    int good = 1;
    setenv("KILN_CPU_BLOCKS", "int8", 1);
    for (size_t t = 0; t < 3; t++) {
        for (size_t i = 0; i < T_DEEP * T_WIDTH; i++) w[i] = normal();
        for (size_t i = 0; i < T_ROWS * T_DEEP; i++) x[i] = normal();
        good &= block_write(some[t], w, blocks, T_DEEP * T_WIDTH) == KILN_OK;
        good &= block_read_plain(some[t], blocks, w, T_DEEP * T_WIDTH) == KILN_OK;
        good &= transposed_by(1, some[t], blocks, x, out) && transposed_by(3, some[t], blocks, x, other);
        double off = transposed_error(x, w, out);
        printf("  transposed, %s: %.2e\n", dtype_name(some[t]), off);
        good &= off <= 1.2e-2 && memcmp(out, other, T_ROWS * T_WIDTH * sizeof *out) == 0;
    }
    mem_free(x), mem_free(w), mem_free(out), mem_free(blocks);
    return good;
}

static void in_a_child(int (*good)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int status = good() ? 0 : 1;
        fflush(stdout);
        _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_transposed(void) { in_a_child(transposed_in_child); }

/* A table whose rows are of sizes from 2^-6 to 2^6, read a row at a time: each is as exact as any, though 256 of them
 * are rounded by one scale. */
static int rows_of_all_sizes(void)
{
    static const uint32_t some[] = {KILN_Q6_K, KILN_Q8_0};
    float *x = mem_calloc(T_ROWS * T_DEEP, sizeof *x), *w = mem_alloc(T_DEEP * T_WIDTH * sizeof *w),
          *out = mem_alloc(T_ROWS * T_WIDTH * sizeof *out);
    uint8_t *blocks = mem_alloc(T_DEEP * T_WIDTH * 2);
    int good = 1;
    setenv("KILN_CPU_BLOCKS", "int8", 1);
    for (size_t r = 0; r < T_ROWS; r++) x[r * T_DEEP + 193 * r + 5] = 1;
    for (size_t t = 0; t < 2; t++) {
        double worst = 0;
        for (size_t i = 0; i < T_DEEP * T_WIDTH; i++) w[i] = normal() * ldexpf(1, (int)(i / T_WIDTH % 13) - 6);
        good &= block_write(some[t], w, blocks, T_DEEP * T_WIDTH) == KILN_OK;
        good &= block_read_plain(some[t], blocks, w, T_DEEP * T_WIDTH) == KILN_OK;
        good &= transposed_by(2, some[t], blocks, x, out);
        for (size_t r = 0; r < T_ROWS; r++) {
            const float *row = w + (193 * r + 5) * T_WIDTH;
            double off = 0, all = 0;
            for (size_t c = 0; c < T_WIDTH; c++) {
                off += (row[c] - out[r * T_WIDTH + c]) * (row[c] - out[r * T_WIDTH + c]), all += row[c] * row[c];
            }
            worst = sqrt(off / all) > worst ? sqrt(off / all) : worst;
        }
        printf("  rows of all sizes, %s: %.2e\n", dtype_name(some[t]), worst);
        good &= worst <= 1.5e-2;
    }
    mem_free(x), mem_free(w), mem_free(out), mem_free(blocks);
    return good;
}

static void test_rows_of_all_sizes(void) { in_a_child(rows_of_all_sizes); }

/* ---- groups ---- */

/* The middle group has no rows; the last has more than a band; the last 32 columns are half there. */
enum { G_GROUPS = 3, G_FEW = 106, G_MANY = 170, G_DEEP = 768, G_WIDTH = 304, G_TOKENS = 29 };
static int32_t group_begins[G_GROUPS + 1] = {0, 5, 5, G_FEW};
static int32_t group_rows(void) { return group_begins[G_GROUPS]; }
/* In a child: so many rows a group that Q4_K's codes are rounded, with AMX or without. */
static void have_many_rows(void) { group_begins[1] = group_begins[2] = 41, group_begins[G_GROUPS] = G_MANY; }

static op_desc grouped(uint32_t type)
{
    op_desc d = {.kind = OP_GROUPED_LINEAR, .n_in = 4, .precision = KILN_BF16};
    d.in[0] = (operand_desc){.dtype = KILN_F32, .shape = {.rank = 2, .dim = {group_rows(), G_DEEP}}, .ld = G_DEEP};
    d.in[1] = (operand_desc){
        .dtype = type, .shape = {.rank = 3, .dim = {G_GROUPS, G_WIDTH, G_DEEP}}, .ld = G_DEEP, .weight = 1};
    d.in[3] = (operand_desc){.dtype = KILN_I32, .shape = {.rank = 1, .dim = {G_GROUPS + 1}}, .ld = G_GROUPS + 1};
    d.out = (operand_desc){.dtype = KILN_F32, .shape = {.rank = 2, .dim = {group_rows(), G_WIDTH}}, .ld = G_WIDTH};
    return d;
}

/* taken: NULL, or which of x's rows the groups' are. */
static int grouped_by(unsigned threads, uint32_t type, const uint8_t *blocks, const float *x, const int32_t *taken,
                      float *out)
{
    op_desc op = grouped(type);
    if (taken) {
        op.n_in = 5, op.in[0].shape.dim[0] = G_TOKENS;
        op.in[4] = (operand_desc){.dtype = KILN_I32, .shape = {.rank = 1, .dim = {group_rows()}}, .ld = group_rows()};
    }
    kernel *k = NULL;
    error e = {0};
    if (backend_cpu.prepare(&op, &k, &e) != KILN_OK) return 0;
    const int8_kernels *fast[4];
    const int interleaves =
        fast_kernels(fast) && cpu_int8_kernels(0)->interleave && int8_form_interleaved(type, INT8_FEW);
    pool *p = pool_new(threads);
    void *scratch = mem_aligned(64, k->scratch_bytes + 64), *packed = mem_aligned(64, k->packed_bytes[1]);
    int good =
        strncmp(k->name, "int8:", 5) == 0 && strncmp(k->pack_form[1], interleaves ? "interleaved:" : "rows:", 5) == 0 &&
        k->pack(k, 1, blocks, type, packed, p, &e) == KILN_OK &&
        k->run(k,
               &(kernel_args){.in = {x, packed, NULL, group_begins, taken}, .out = out, .scratch = scratch, .pool = p},
               &e) == KILN_OK;
    mem_free(scratch), mem_free(packed), pool_free(p), k->free(k);
    return good;
}

static double grouped_error(const float *x, const float *w, const float *out)
{
    double off = 0, all = 0;
    for (int32_t g = 0; g < G_GROUPS; g++)
        for (size_t r = (size_t)group_begins[g]; r < (size_t)group_begins[g + 1]; r++)
            for (size_t c = 0; c < G_WIDTH; c++) {
                const float *own = w + ((size_t)g * G_WIDTH + c) * G_DEEP;
                double sum = 0;
                for (size_t i = 0; i < G_DEEP; i++) sum += (double)x[r * G_DEEP + i] * own[i];
                off += (sum - out[r * G_WIDTH + c]) * (sum - out[r * G_WIDTH + c]), all += sum * sum;
            }
    return sqrt(off / all);
}

/* Experts, whose rows are interleaved where kernels do that. */
static int grouped_in_child(void)
{
    static const uint32_t some[] = {KILN_Q4_K, KILN_Q5_0, KILN_Q8_0, KILN_Q6_K};
    const size_t n = (size_t)G_GROUPS * G_WIDTH * G_DEEP;
    float *x = mem_alloc(G_MANY * G_DEEP * sizeof *x), *w = mem_alloc(n * sizeof *w);
    float *out = mem_alloc(2 * G_MANY * G_WIDTH * sizeof *out), *other = out + G_MANY * G_WIDTH;
    uint8_t *blocks = mem_alloc(n * 2);
    int good = 1;
    setenv("KILN_CPU_BLOCKS", "int8", 1);
    for (size_t t = 0; t < sizeof some / sizeof *some; t++) {
        for (size_t i = 0; i < n; i++) w[i] = normal();
        for (size_t i = 0; i < G_MANY * G_DEEP; i++) x[i] = normal();
        good &= block_write(some[t], w, blocks, n) == KILN_OK && block_read_plain(some[t], blocks, w, n) == KILN_OK;
        good &= grouped_by(1, some[t], blocks, x, NULL, out) && grouped_by(3, some[t], blocks, x, NULL, other);
        good &= memcmp(out, other, (size_t)group_rows() * G_WIDTH * sizeof *out) == 0;
        double off = grouped_error(x, w, out);
        const int kept = cpu_int8_kernels(0)->keep_codes || (group_rows() < G_MANY && !cpu_has_int8_tiles());
        const int rounded = some[t] == KILN_Q6_K || (some[t] == KILN_Q4_K && !kept);
        printf("  groups of %d rows, %s: %.2e\n", group_rows(), dtype_name(some[t]), off);
        good &= off <= (rounded ? 1.15e-2 : 8.2e-3) && (some[t] != KILN_Q4_K || (off > 8.2e-3) == rounded);
    }
    mem_free(x), mem_free(w), mem_free(out), mem_free(blocks);
    return good;
}

static int many_grouped_in_child(void)
{
    have_many_rows();
    return grouped_in_child();
}

static void test_groups(void)
{
    in_a_child(grouped_in_child);
    in_a_child(many_grouped_in_child);
}

/* Rows that are named by number make the bits of the same rows side by side. Some are not finite. */
static int taken_in_child(void)
{
    static const uint32_t some[] = {KILN_Q4_K, KILN_Q5_0, KILN_Q8_0, KILN_Q6_K, KILN_Q5_K, KILN_Q4_0, KILN_IQ4_NL};
    const size_t n = (size_t)G_GROUPS * G_WIDTH * G_DEEP;
    float *x = mem_alloc(G_MANY * G_DEEP * sizeof *x), *rows = mem_alloc(G_MANY * G_DEEP * sizeof *rows);
    float *w = mem_alloc(n * sizeof *w);
    float *out = mem_alloc(2 * G_MANY * G_WIDTH * sizeof *out), *other = out + G_MANY * G_WIDTH;
    uint8_t *blocks = mem_alloc(n * 2);
    int32_t taken[G_MANY];
    int good = 1;
    setenv("KILN_CPU_BLOCKS", "int8", 1);
    for (size_t i = 0; i < n; i++) w[i] = normal();
    for (size_t i = 0; i < G_TOKENS * G_DEEP; i++) x[i] = normal();
    x[3 * G_DEEP + 300] = INFINITY, x[7 * G_DEEP + 5] = NAN;
    for (int32_t r = 0; r < group_rows(); r++) {
        taken[r] = r * 11 % G_TOKENS;
        memcpy(rows + r * G_DEEP, x + taken[r] * G_DEEP, G_DEEP * sizeof *x);
    }
    for (size_t t = 0; t < sizeof some / sizeof *some; t++) {
        good &= block_write(some[t], w, blocks, n) == KILN_OK;
        good &= grouped_by(2, some[t], blocks, rows, NULL, out) && grouped_by(3, some[t], blocks, x, taken, other);
        good &= memcmp(out, other, (size_t)group_rows() * G_WIDTH * sizeof *out) == 0;
        taken[17] = t % 2 ? G_TOKENS : -1;
        good &= !grouped_by(1, some[t], blocks, x, taken, other);
        taken[17] = 17 * 11 % G_TOKENS;
    }
    mem_free(x), mem_free(rows), mem_free(w), mem_free(out), mem_free(blocks);
    return good;
}

static int many_taken_in_child(void)
{
    have_many_rows();
    return taken_in_child();
}

static void test_rows_by_number(void)
{
    in_a_child(taken_in_child);
    in_a_child(many_taken_in_child);
}

/* ---- which way is taken ---- */

static op_desc linear(uint32_t precision)
{
    op_desc d = {.kind = OP_LINEAR, .n_in = 3, .precision = precision};
    d.in[0] = (operand_desc){.dtype = precision, .shape = {.rank = 2, .dim = {20, 256}}, .ld = 256};
    d.in[1] = (operand_desc){.dtype = KILN_Q4_K, .shape = {.rank = 2, .dim = {40, 256}}, .ld = 256, .weight = 1};
    d.out = (operand_desc){.dtype = precision, .shape = {.rank = 2, .dim = {20, 40}}, .ld = 40};
    return d;
}

/* Does a linear in bf16, and none in f32, go by integers? -1: refused, by name and with what would do. */
static int way_taken(void)
{
    int found[2];
    for (int i = 0; i < 2; i++) {
        op_desc op = linear(i ? KILN_BF16 : KILN_F32);
        kernel *k = NULL;
        error e = {0};
        kiln_status status = backend_cpu.prepare(&op, &k, &e);
        if (status != KILN_OK)
            return status == KILN_ERR_INVALID && strstr(e.message, "KILN_CPU_BLOCKS=int4: it is int8 or widened, or")
                       ? -1
                       : -2;
        found[i] = strncmp(k->name, "int8:", 5) == 0;
        k->free(k);
    }
    int said = strstr(backend_cpu.numerics(), "blocks int8") != NULL;
    return found[0] || said != found[1] ? -2 : found[1];
}

/* In a child: the variable is read once. */
static int way_with(const char *blocks)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv("KILN_CPU_BLOCKS", blocks, 1);
        _exit(way_taken() + 2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) - 2 : -3;
}

/* Of a level: the kernels, whether anything is made of integers, and the precision that is taken by itself. */
static int has_level(const char *level, const int8_kernels *kernels, int integers, uint32_t precision)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv("KILN_CPU_FEATURES", level, 1);
        const int kept = strstr(backend_cpu.numerics(), "codes kept") != NULL;
        _exit(cpu_int8_kernels(0) == kernels && (cpu_blocks() != BLOCKS_WIDENED) == integers &&
              kept == (integers && kernels->keep_codes) && backend_cpu.best_precision() == precision);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status);
}

static void test_levels(void)
{
    CHECK(has_level("none", &int8_kernels_plain, 0, KILN_F32));
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        CHECK(has_level("avx2", avx_vnni_found() ? &int8_kernels_avxvnni : &int8_kernels_avx2, 1, KILN_BF16));
#endif
}

static void test_choice(void)
{
    CHECK_EQ(way_with("int8"), 1);
    CHECK_EQ(way_with("widened"), 0);
    CHECK_EQ(way_with("int4"), -1);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_same_bits),
                                      CASE(test_errors),
                                      CASE(test_columns),
                                      CASE(test_transposed),
                                      CASE(test_rows_of_all_sizes),
                                      CASE(test_groups),
                                      CASE(test_rows_by_number),
                                      CASE(test_choice),
                                      CASE(test_levels)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
