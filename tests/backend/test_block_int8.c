/* test_block_int8.c - products of integers with weights that are stored by blocks (int8_kernels.h).
 *
 * The processor's kernels make the bits of the plain ones. Against sums in double of the numbers that the blocks stand
 * for, by rows, relative to their RMS: rounding to 8 bits errs by at most half a step of 1/127 of the largest of 32,
 * which for normal numbers is 4.7e-3 on average; 1e-2 is allowed. One number of 32 that is a hundred times as large as
 * the others leaves these with one digit: stated, and bounded by 8e-2.
 */
#include "harness.h"

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

static const uint32_t types[] = {KILN_Q8_0, KILN_Q4_0, KILN_Q4_1,   KILN_Q5_0,   KILN_Q5_1, KILN_Q4_K,
                                 KILN_Q5_K, KILN_Q6_K, KILN_IQ4_NL, KILN_IQ4_XS, 0};
enum { TYPES = sizeof types / sizeof types[0], OUTPUTS = 2 * INT8_STRIP, DEPTH = 2 * INT8_DEEP, ROWS = 13 };

static const int8_kernels *fast_kernels(void)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) return &int8_kernels_avx512vnni;
#endif
    return NULL;
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

static const char *name_of(uint32_t type) { return type ? dtype_name(type) : "rows of int8"; }

typedef struct {
    const int8_form *form;
    size_t row;
    uint8_t *blocks;
    float *numbers; /* [OUTPUTS][DEPTH] */
} weights;

/* Codes of every value, the least among them. */
static weights rows_of_codes(void)
{
    weights w = {.form = &int8_form_rows, .row = DEPTH};
    w.blocks = mem_alloc(OUTPUTS * DEPTH), w.numbers = mem_alloc(OUTPUTS * DEPTH * sizeof(float));
    for (size_t i = 0; i < OUTPUTS * DEPTH; i++) {
        w.blocks[i] = (uint8_t)(uniform() * 256);
        w.numbers[i] = (float)(int8_t)w.blocks[i];
    }
    return w;
}

/* Of type 0: rows of int8, whose sums have no scale. */
static weights weights_new(uint32_t type)
{
    if (!type) return rows_of_codes();
    weights w = {.form = int8_form_of(type)};
    w.row = DEPTH / dtype_block(type) * dtype_block_bytes(type);
    w.blocks = mem_alloc(OUTPUTS * w.row), w.numbers = mem_alloc(OUTPUTS * DEPTH * sizeof(float));
    for (size_t i = 0; i < OUTPUTS * DEPTH; i++) w.numbers[i] = normal();
    CHECK_EQ(block_write(type, w.numbers, w.blocks, OUTPUTS * DEPTH), KILN_OK);
    CHECK_EQ(block_read_plain(type, w.blocks, w.numbers, OUTPUTS * DEPTH), KILN_OK);
    return w;
}
static void weights_free(weights *w) { mem_free(w->blocks), mem_free(w->numbers); }

enum { PARTS = DEPTH / INT8_PART, TILES = (ROWS + INT8_ROWS - 1) / INT8_ROWS };

static int8_part *rows_new(void) { return mem_calloc(TILES * PARTS, sizeof(int8_part)); }

static void round_rows(const int8_kernels *k, const int8_form *f, int8_part *to, const float *x)
{
    for (size_t r = 0; r < ROWS; r++) k->round_row(f, to + r / INT8_ROWS * PARTS, r % INT8_ROWS, x + r * DEPTH, DEPTH);
}

/* c[rows][OUTPUTS], piece after piece of the depth; the last piece is shorter. */
static void multiply(const int8_kernels *k, const weights *w, const int8_part *a, size_t rows, size_t depth, float *c)
{
    int8_strip *strip = mem_aligned(64, 2 * sizeof *strip);
    for (size_t from = 0; from < depth; from += INT8_DEEP) {
        size_t n = depth - from < INT8_DEEP ? depth - from : INT8_DEEP, parts = from / INT8_PART;
        for (size_t s = 0; s < 2; s++) {
            const uint8_t *row[INT8_STRIP];
            for (size_t i = 0; i < INT8_STRIP; i++)
                row[i] = w->blocks + (s * INT8_STRIP + i) * w->row + parts / (size_t)w->form->parts * w->form->bytes;
            k->unpack(w->form, strip + s, row, n / INT8_PART);
        }
        k->multiply(w->form, strip, a + parts, PARTS, rows, n / INT8_PART, c, OUTPUTS, from > 0,
                    &(int8_ahead){.bytes = 0});
    }
    mem_free(strip);
}

static double error_of(const weights *w, const float *x, const float *c, size_t rows)
{
    double off = 0, all = 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < OUTPUTS; o++) {
            double sum = 0;
            for (size_t i = 0; i < DEPTH; i++) sum += (double)w->numbers[o * DEPTH + i] * x[r * DEPTH + i];
            off += (sum - c[r * OUTPUTS + o]) * (sum - c[r * OUTPUTS + o]), all += sum * sum;
        }
    return sqrt(off / all);
}

static void check_errors(const int8_kernels *k)
{
    float *x = mem_alloc(ROWS * DEPTH * sizeof *x), c[ROWS * OUTPUTS];
    int8_part *a = rows_new();
    for (size_t t = 0; t < TYPES; t++) {
        weights w = weights_new(types[t]);
        double off[2];
        for (int outliers = 0; outliers < 2; outliers++) {
            for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = normal() * (outliers && i % 97 == 5 ? 100 : 1);
            round_rows(k, w.form, a, x);
            multiply(k, &w, a, ROWS, DEPTH, c);
            off[outliers] = error_of(&w, x, c, ROWS);
        }
        printf("  %s, %s: %.2e, with outliers %.2e\n", k->name, name_of(types[t]), off[0], off[1]);
        CHECK(off[0] <= 1e-2);
        CHECK(off[1] <= 8e-2);
        weights_free(&w);
    }
    mem_free(x), mem_free(a);
}

static void test_errors(void)
{
    check_errors(&int8_kernels_plain);
    if (fast_kernels()) check_errors(fast_kernels());
}

/* Numbers of every size, and such as are 0 or not finite. */
static void make_rows(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = normal() * ldexpf(1, (int)(i / 640 % 9) - 4);
    memset(x + 64, 0, 32 * sizeof *x);
    for (size_t i = 96; i < 128; i++) x[i] *= 0x1p-120f;
    x[DEPTH + 3] = INFINITY, x[2 * DEPTH + 40] = NAN, x[3 * DEPTH + 7] = -0.0f;
}

static void test_same_bits(void)
{
    if (!fast_kernels()) {
        test_skip("this processor has no AVX-512 VNNI");
        return;
    }
    float *x = mem_alloc(ROWS * DEPTH * sizeof *x), expected[ROWS * OUTPUTS], got[ROWS * OUTPUTS];
    int8_part *a = rows_new(), *b = rows_new();
    make_rows(x, ROWS * DEPTH);
    for (size_t t = 0; t < TYPES; t++) {
        weights w = weights_new(types[t]);
        round_rows(&int8_kernels_plain, w.form, a, x), round_rows(fast_kernels(), w.form, b, x);
        CHECK(memcmp(a, b, TILES * PARTS * sizeof *a) == 0);
        for (size_t rows = 1; rows <= ROWS; rows++) {
            size_t depth = rows % 2 ? DEPTH : DEPTH - 256;
            multiply(&int8_kernels_plain, &w, a, rows, depth, expected);
            multiply(fast_kernels(), &w, b, rows, depth, got);
            int same = 1;
            for (size_t i = 0; i < rows * OUTPUTS; i++)
                same &= isnan(expected[i]) ? isnan(got[i]) : memcmp(expected + i, got + i, sizeof *got) == 0;
            CHECK_MSG(same, "%s, %zu rows: other sums", name_of(types[t]), rows);
            for (size_t o = 0; o < OUTPUTS && rows > 2; o++)
                CHECK(isfinite(got[o]) && isnan(got[OUTPUTS + o]) && isnan(got[2 * OUTPUTS + o]));
        }
        weights_free(&w);
    }
    mem_free(x), mem_free(a), mem_free(b);
}

/* ---- transposed weights: terms of a sum have scales of their own ---- */

/* Columns of every size, of nothing, of hardly anything, and such as are not finite. */
static void make_columns(float *x, size_t ld)
{
    for (size_t i = 0; i < INT8_PART * ld; i++) x[i] = normal() * ldexpf(1, (int)(i % ld % 9) - 4);
    for (size_t i = 0; i < INT8_PART; i++) x[i * ld + 3] = 0, x[i * ld + 20] *= 0x1p-120f;
    x[5 * ld + 7] = NAN, x[31 * ld + 30] = -INFINITY, x[6 * ld + 11] = -0.0f;
}

static void test_columns(void)
{
    enum { LD = 40 };
    float x[INT8_PART * LD];
    int8_strip *plain = mem_aligned(64, 2 * sizeof *plain), *fast = mem_aligned(64, 2 * sizeof *fast);
    make_columns(x, LD);
    int8_kernels_plain.round_columns(plain, 3, x, LD);
    for (size_t o = 0; o < OUTPUTS; o++) {
        const int8_strip *s = plain + o / INT8_STRIP;
        float scale = s->scale[3][0][o % INT8_STRIP];
        CHECK_EQ(isnan(scale) != 0, o == 7 || o == 30);
        for (size_t i = 0; i < INT8_PART && !isnan(scale) && o != 20; i++) {
            float code = (float)s->codes[3][i / 4][o % INT8_STRIP][i % 4] - 128;
            CHECK(fabsf(code * scale - x[i * LD + o]) <= 0.5001f * scale);
        }
    }
    if (fast_kernels()) {
        fast_kernels()->round_columns(fast, 3, x, LD);
        for (size_t s = 0; s < 2; s++) {
            CHECK(memcmp(plain[s].codes[3], fast[s].codes[3], sizeof plain[s].codes[3]) == 0);
            for (size_t i = 0; i < INT8_STRIP; i++) {
                float a = plain[s].scale[3][0][i], b = fast[s].scale[3][0][i];
                CHECK(isnan(a) ? isnan(b) : memcmp(&a, &b, sizeof a) == 0);
            }
        }
    }
    mem_free(plain), mem_free(fast);
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

static void test_transposed(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int good = transposed_in_child();
        fflush(stdout);
        _exit(good ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
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
            return status == KILN_ERR_INVALID && strstr(e.message, "KILN_CPU_BLOCKS=int4: it is int8 or widened") ? -1
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

static void test_choice(void)
{
    CHECK_EQ(way_with("int8"), 1);
    CHECK_EQ(way_with("widened"), 0);
    CHECK_EQ(way_with("int4"), -1);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_same_bits), CASE(test_errors), CASE(test_columns),
                                      CASE(test_transposed), CASE(test_choice)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
