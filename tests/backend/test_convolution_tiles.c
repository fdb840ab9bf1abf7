/* test_convolution_tiles.c - convolutions and linears by AMX's tiles (convolution_tiles.h, linear_tiles.h): a pixel's
 * bits are the same alone and in a batch, in a stripe of its picture and in the whole, by one thread and by several;
 * filters of every type, and those that come row by row, are packed into the same bytes.
 */
#include "harness.h"
#include "ops_rows_upsampled.h"
#include "ops_run.h"

#include "backend/cpu/cpu.h"
#include "base/memory_alloc.h"
#include "base/pool.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

enum { GUARD = 256 };

static int missing(void)
{
    if (cpu_level_get() == CPU_AMX) return 0;
    test_skip("this processor has no AMX");
    return 1;
}

typedef struct {
    int64_t w, i, o, high, images; /* the second: so many rows, of one image; then images of them */
} sizes;

/* Rows of whole tiles, and others; few pixels of an image and many of a batch; several bands. */
static const sizes shapes[] = {{16, 64, 64, 12, 8}, {8, 128, 32, 8, 20}, {21, 64, 96, 9, 6}, {48, 320, 32, 30, 2}};

static op_case picture(const sizes *z, int64_t images, int64_t h, int top, int bottom)
{
    int64_t w = z->w, i = z->i, o = z->o, out = h + top + bottom - 2;
    return (op_case)CONV("", images, h, w, i, o, 3, 3, out, w, 1, top, 1, bottom, 1, .n_in = 4,
                         .epilogue = {.residual = 1});
}

static const char *result(void *run) { return (const char *)run + GUARD; }

/* What lies in `from` becomes the operands of a part: filter and bias whole, the picture and what is added in part. */
static void share(op_setup *part, const op_setup *whole, size_t pixels_from, size_t added_from)
{
    memcpy(part->in[1], whole->in[1], (size_t)shape_count(&whole->op.in[1].shape) * sizeof(float));
    memcpy(part->in[2], whole->in[2], (size_t)shape_count(&whole->op.in[2].shape) * sizeof(float));
    memcpy(part->in[0], (const uint16_t *)whole->in[0] + pixels_from, (size_t)shape_count(&part->op.in[0].shape) * 2);
    memcpy(part->in[3], (const uint16_t *)whole->in[3] + added_from, (size_t)shape_count(&part->op.in[3].shape) * 2);
}

static void *run(const op_setup *s, pool *p)
{
    kiln_status status;
    return setup_run(s, &backend_cpu, p, 1, NULL, NULL, &status);
}

static void compare(const sizes *z, const char *what, const void *got, const char *wanted, size_t n)
{
    if (CHECK_MSG(got != NULL, "%s: no result", what))
        CHECK_MSG(memcmp(result((void *)(uintptr_t)got), wanted, 2 * n) == 0, "%lld wide, %lld to %lld: %s: other bits",
                  (long long)z->w, (long long)z->i, (long long)z->o, what);
}

static void check(const sizes *z, pool *several)
{
    op_case batch = picture(z, z->images, z->high, 1, 1), one = picture(z, 1, z->high, 1, 1),
            stripe = picture(z, 1, z->high - 2, 0, 0);
    op_setup all, alone, rows;
    size_t row = (size_t)(z->w * z->i), out_row = (size_t)(z->w * z->o), high = (size_t)z->high;
    REQUIRE(setup_make(&all, &batch, KILN_BF16, 0) && setup_make(&alone, &one, KILN_BF16, 0) &&
            setup_make(&rows, &stripe, KILN_BF16, 0));
    void *whole = run(&all, NULL), *by_threads = run(&all, several);
    REQUIRE(whole);
    compare(z, "several threads", by_threads, result(whole), (size_t)z->images * high * out_row);
    for (size_t n = 0; n < (size_t)z->images; n += (size_t)z->images - 1) {
        const char *of_image = result(whole) + n * high * out_row * 2;
        share(&alone, &all, n * high * row, n * high * out_row);
        void *got = run(&alone, several);
        compare(z, "one of a batch", got, of_image, high * out_row);
        mem_free(got);
        share(&rows, &all, (n * high + 1) * row, (n * high + 2) * out_row); /* rows 2 to high - 2 */
        got = run(&rows, NULL);
        compare(z, "a stripe", got, of_image + 2 * out_row * 2, (high - 4) * out_row);
        mem_free(got);
    }
    mem_free(whole), mem_free(by_threads);
    setup_free(&all), setup_free(&alone), setup_free(&rows);
}

static void test_bits_depend_on_nothing_else(void)
{
    if (missing()) return;
    pool *several = pool_new(3);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) check(&shapes[i], several);
    pool_free(several);
}

/* Rows of the result of an upsampled picture, from an even one and from an odd one, as a stripe makes them and as the
 * whole does; `seen` rows of it, of which the result has two less. */
static void check_upsampled_rows(const op_setup *all, const char *whole, int64_t from, int64_t seen, pool *several)
{
    const int64_t *x = all->op.in[0].shape.dim, *o = all->op.out.shape.dim;
    op_case c = {.op = all->op};
    op_setup s;
    c.op.attr.conv2d.upsampled.first = from - 1, c.op.attr.conv2d.upsampled.rows = seen;
    c.op.attr.conv2d.pad[0] = c.op.attr.conv2d.pad[2] = 0;
    c.op.out.shape.dim[1] = seen - 2;
    REQUIRE(setup_make(&s, &c, KILN_BF16, 0));
    for (int k = 1; k < 3; k++) memcpy(s.in[k], all->in[k], (size_t)shape_count(&s.op.in[k].shape) * sizeof(float));
    memcpy(s.in[0], all->in[0], (size_t)(x[1] * x[2] * x[3]) * 2);
    void *got = run(&s, several);
    size_t row = (size_t)(o[2] * o[3]) * 2;
    CHECK_MSG(got && memcmp(result(got), whole + (size_t)from * row, (size_t)(seen - 2) * row) == 0,
              "rows %lld to %lld: other bits", (long long)from, (long long)(from + seen - 2));
    mem_free(got);
    setup_free(&s);
}

static void test_upsampled_pictures(void)
{
    static const int64_t width[] = {21, 32, 8};
    if (missing()) return;
    pool *several = pool_new(3);
    for (size_t i = 0; i < 3; i++) {
        op_case c = UPSAMPLED("", 1, 40, width[i], 64, 64, 0, 80, 1, 1, .n_in = 3);
        op_setup s;
        REQUIRE(setup_make(&s, &c, KILN_BF16, 0));
        void *whole = run(&s, NULL), *by_threads = run(&s, several);
        REQUIRE(whole && by_threads);
        CHECK(memcmp(whole, by_threads, setup_bytes(&s)) == 0);
        check_upsampled_rows(&s, result(whole), 2, 10, several),
            check_upsampled_rows(&s, result(whole), 7, 13, several);
        check_upsampled_rows(&s, result(whole), 40, 3, several),
            check_upsampled_rows(&s, result(whole), 1, 70, several);
        mem_free(whole), mem_free(by_threads);
        setup_free(&s);
    }
    pool_free(several);
}

/* Of filters whose sums are numbers of bf16 nothing is rounded but the result, as of any convolution. */
static void test_upsampled_pictures_are_exact_where_filters_are(void)
{
    if (missing()) return;
    for (size_t i = 0; i < sizeof upsampled_cases / sizeof upsampled_cases[0]; i++) {
        op_setup s;
        REQUIRE(setup_make(&s, &upsampled_cases[i], KILN_BF16, 0));
        for (size_t k = 0; k < (size_t)shape_count(&s.op.in[1].shape); k++)
            ((float *)s.in[1])[k] = (float)((int)(k * 37 % 63) - 31) / 512;
        void *got = run(&s, NULL), *wanted = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL);
        CHECK(got && wanted &&
              setup_near(&s, got, wanted, setup_tolerance(&upsampled_cases[i], KILN_BF16), upsampled_cases[i].name));
        mem_free(got), mem_free(wanted);
        setup_free(&s);
    }
}

/* Padding beside rows that were left out would be none of theirs. */
static void test_upsampled_pictures_refused(void)
{
    if (missing()) return;
    static const op_case wrong[] = {UPSAMPLED("", 1, 8, 16, 64, 32, 2, 14, 1, 1, .n_in = 3),
                                    UPSAMPLED("", 1, 8, 16, 64, 32, 0, 14, 1, 1, .n_in = 3),
                                    UPSAMPLED("", 1, 8, 16, 48, 32, 0, 16, 1, 1, .n_in = 3),
                                    UPSAMPLED("", 1, 8, 4, 64, 32, 0, 16, 1, 1, .n_in = 3)};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        op_setup s;
        kernel *k = NULL;
        error e = {0};
        REQUIRE(setup_make(&s, &wrong[i], KILN_BF16, 0));
        CHECK(!backend_cpu.takes(&s.op));
        CHECK_EQ(backend_cpu.prepare(&s.op, &k, &e), KILN_ERR_UNSUPPORTED);
        setup_free(&s);
    }
}

/* Bands of a picture are low where it is large, so that a budget which holds the picture holds its convolution. */
static void test_scratch_is_part_of_a_picture(void)
{
    if (missing()) return;
    const sizes z = {.w = 128, .i = 64, .o = 64, .high = 64 * cpu_slots()};
    op_case c = picture(&z, 1, z.high, 1, 1);
    op_setup s;
    kernel *k = NULL;
    error e = {0};
    REQUIRE(setup_make(&s, &c, KILN_BF16, 0) && backend_cpu.prepare(&s.op, &k, &e) == KILN_OK);
    size_t taken = (size_t)(z.w * z.high * z.i) * 2;
    CHECK_MSG(k->scratch_bytes < taken / 2, "%zu of %zu bytes", k->scratch_bytes, taken);
    k->free(k);
    setup_free(&s);
}

/* A linear's rows are those of a picture of one column, by themselves and in a batch. */
static void check_rows(int64_t rows, int64_t k, int geglu, pool *several)
{
    op_case all = TILED("", rows, k, 96, 96, .n_in = 3), few = TILED("", 5, k, 96, 96, .n_in = 3);
    if (geglu)
        all.op.epilogue.geglu = few.op.epilogue.geglu = 1, all.op.out.shape.dim[1] = few.op.out.shape.dim[1] = 48,
        all.op.out.ld = few.op.out.ld = 48;
    op_setup whole, part;
    size_t width = geglu ? 48 : 96;
    REQUIRE(setup_make(&whole, &all, KILN_BF16, 0) && setup_make(&part, &few, KILN_BF16, 0));
    void *wanted = run(&whole, NULL), *by_threads = run(&whole, several);
    CHECK(wanted && by_threads && memcmp(result(wanted), result(by_threads), (size_t)rows * width * 2) == 0);
    for (int64_t first = 0; wanted && first + 5 <= rows; first += 29) {
        memcpy(part.in[1], whole.in[1], (size_t)shape_count(&whole.op.in[1].shape) * sizeof(float));
        memcpy(part.in[2], whole.in[2], (size_t)shape_count(&whole.op.in[2].shape) * sizeof(float));
        memcpy(part.in[0], (const uint16_t *)whole.in[0] + first * k, (size_t)(5 * k) * 2);
        void *got = run(&part, several);
        CHECK_MSG(got && memcmp(result(got), result(wanted) + (size_t)first * width * 2, 5 * width * 2) == 0,
                  "%lld rows of %lld, from %lld: other bits", (long long)rows, (long long)k, (long long)first);
        mem_free(got);
    }
    mem_free(wanted), mem_free(by_threads);
    setup_free(&whole), setup_free(&part);
}

static void test_rows_depend_on_nothing_else(void)
{
    if (missing()) return;
    pool *several = pool_new(3);
    check_rows(70, 64, 0, several), check_rows(1200, 320, 0, several), check_rows(200, 5120, 0, several);
    check_rows(70, 1024, 1, several);
    pool_free(several);
}

/* ---- packing ---- */

typedef struct {
    const float *numbers;
} given;
static kiln_status give_rows(const void *self, size_t first, size_t n, float *to, error *e)
{
    (void)e;
    memcpy(to, ((const given *)self)->numbers + first, n * sizeof *to);
    return KILN_OK;
}

static void test_filters_are_packed_alike(void)
{
    if (missing()) return;
    op_case c = picture(&shapes[2], 1, 9, 1, 1);
    op_setup s;
    error e = {0};
    kernel *k = NULL;
    pool *several = pool_new(3);
    REQUIRE(setup_make(&s, &c, KILN_BF16, 0));
    REQUIRE(backend_cpu.prepare(&s.op, &k, &e) == KILN_OK);
    CHECK_STR(k->name, "tiles:amx_bf16");
    size_t n = (size_t)shape_count(&s.op.in[1].shape), bytes = k->packed_bytes[1];
    CHECK_EQ(bytes, 2 * n);
    char *wanted = mem_aligned(64, bytes), *got = mem_aligned(64, bytes);
    void *scratch = mem_aligned(64, 3 * k->pack_scratch[1]), *stored = mem_alloc(8 * n);
    float *numbers = mem_alloc(n * sizeof *numbers);
    static const uint32_t types[] = {KILN_F32, KILN_BF16, KILN_F16, KILN_F64};
    dtype_convert(stored, KILN_BF16, s.in[1], KILN_F32, n); /* numbers that each type holds, but for f16 */
    dtype_convert(numbers, KILN_F32, stored, KILN_BF16, n);
    for (size_t i = 0; i < n; i++) numbers[i] = (float)(int)(numbers[i] * 64) / 64;
    CHECK_EQ(k->pack(k, 1, numbers, KILN_F32, wanted, NULL, &e), KILN_OK);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        memset(got, 0xff, bytes);
        CHECK_EQ(dtype_convert(stored, types[t], numbers, KILN_F32, n), KILN_OK);
        CHECK_EQ(k->pack_in(k, 1, stored, types[t], got, scratch, several, &e), KILN_OK);
        CHECK_MSG(memcmp(got, wanted, bytes) == 0, "%s: other bytes", dtype_name(types[t]));
    }
    memset(got, 0xff, bytes);
    CHECK_EQ(k->pack_rows(k, 1, &(row_source){give_rows, &(given){numbers}}, got, scratch, several, &e), KILN_OK);
    CHECK(memcmp(got, wanted, bytes) == 0);
    /* output 37, channel 50, tap 1, 2: [o / 16][c / 32][tap] tiles of [c / 2 % 16][o % 16][c % 2] */
    size_t at = (((37 / 16 * 2 + 50 / 32) * 9 + 5) * 16 + 50 / 2 % 16) * 32 + 37 % 16 * 2;
    float one;
    dtype_convert(&one, KILN_F32, wanted + 2 * at, KILN_BF16, 1);
    CHECK(one == numbers[(37 * 64 + 50) * 9 + 5]);
    CHECK_EQ(k->pack_in(k, 1, stored, KILN_I32 + 1000, got, scratch, NULL, &e), KILN_ERR_UNSUPPORTED);
    mem_free(wanted), mem_free(got), mem_free(scratch), mem_free(stored), mem_free(numbers);
    k->free(k);
    setup_free(&s);
    pool_free(several);
}

int main(int argc, char **argv)
{
    static const test_case these[] = {
        CASE(test_bits_depend_on_nothing_else), CASE(test_rows_depend_on_nothing_else),
        CASE(test_upsampled_pictures),          CASE(test_upsampled_pictures_are_exact_where_filters_are),
        CASE(test_upsampled_pictures_refused),  CASE(test_scratch_is_part_of_a_picture),
        CASE(test_filters_are_packed_alike)};
    return test_main(argc, argv, these, sizeof these / sizeof these[0]);
}
