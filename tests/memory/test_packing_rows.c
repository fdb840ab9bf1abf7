/* test_packing_rows.c - what is patched or stacked is packed row by row: the account never holds a copy of the whole,
 * and the bytes are those of a file in which the sums are written out, on one thread and on several.
 */
#include "harness.h"
#include "tensor/dtype.h"
#include "weights/safetensors_write.h"
#include "weights/weights.h"

#include "backend/runtime.h"

#include <stdio.h>
#include <string.h>

enum { WIDE = 1024, IN = 256, RANK = 5, TOKENS = 3, STACKED = 3 };

static float base_data[WIDE * IN], up_data[WIDE * RANK], down_data[RANK * IN], x[TOKENS * IN], sum_data[WIDE * IN];

static kiln_weights *write_set(const char *name, const float *w)
{
    static const int64_t wide[] = {WIDE, IN}, up[] = {WIDE, RANK}, down[] = {RANK, IN};
    char path[600];
    error e = {0};
    const safetensors_source t[] = {{.name = "down", .dtype = KILN_F32, .rank = 2, .dim = down, .data = down_data},
                                    {.name = "up", .dtype = KILN_F32, .rank = 2, .dim = up, .data = up_data},
                                    {.name = "w", .dtype = KILN_F32, .rank = 2, .dim = wide, .data = w}};
    snprintf(path, sizeof path, "%s/%s.safetensors", test_folder(), name);
    CHECK_EQ(safetensors_write(path, t, 3, NULL, 0, &e), KILN_OK);
    kiln_weights *set = weights_open(path, &e);
    CHECK_MSG(set != NULL, "%s", e.message);
    return set;
}

static void fill(float *to, size_t n, uint32_t state)
{
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        to[i] = (float)(int32_t)state * 0x1p-33f;
    }
}

/* The base, and it with a product; then the same with the sums written out. */
static kiln_weights *base, *patched, *written;
static int open_sets(void)
{
    error e = {0};
    fill(base_data, WIDE * IN, 1), fill(up_data, WIDE * RANK, 2), fill(down_data, RANK * IN, 3),
        fill(x, TOKENS * IN, 4);
    if (!base && (base = write_set("base", base_data))) {
        const kiln_weight_patch p = {
            .size = sizeof p, .name = "w", .strength = 1, .scale = 0.5, .from = base, .up = "up", .down = "down"};
        patched = weights_patch(base, &p, 1, &e);
        if (patched && weights_read_f32(patched, "w", sum_data, &e) == KILN_OK) written = write_set("sum", sum_data);
    }
    return CHECK_MSG(written != NULL, "%s", e.message);
}

static kiln_program *make_program(runtime *rt, kiln_weights *const *set, int n)
{
    static const int64_t in[] = {1, TOKENS, IN}, wide[] = {WIDE, IN};
    error e = {0};
    kiln_program *p = program_new(rt, "net", 0, &e);
    recording *r = p ? program_recording(p) : NULL;
    if (!p) return NULL;
    kiln_t from = record_input(r, "x", KILN_F32, 3, in), none = {0}, y[STACKED];
    for (int i = 0; i < n; i++)
        y[i] = record_op(r, OP_LINEAR, &(op_attr){0}, (kiln_t[]){from, record_weight(r, set[i], "w", 2, wide, 0), none},
                         3);
    if (n > 1) y[0] = record_op(r, OP_ATTENTION, &(op_attr){.attention = {.heads = 4}}, y, 3);
    record_output(r, "y", y[0]);
    CHECK_MSG(program_plan(p, &e) == KILN_OK, "%s", e.message);
    return p;
}

static kiln_status run_it(kiln_program *p, float *y, error *e)
{
    static const int64_t in[] = {1, TOKENS, IN}, out[] = {1, TOKENS, WIDE};
    kiln_bind from = KILN_BIND(
        "x", {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 3, .dim = in, .data = x});
    kiln_bind to = KILN_BIND(
        "y", {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 3, .dim = out, .data = y});
    return program_run(p, &from, 1, &to, 1, NULL, NULL, e);
}

/* What is taken at most, and the result. */
static size_t peak_of(kiln_weights *const *set, int n, unsigned threads, float *y)
{
    error e = {0};
    runtime *rt = runtime_new(
        &(runtime_setting){
            .backend = backend_find("cpu"), .threads = threads, .precision = KILN_F32, .memory = 64 << 20},
        &e);
    kiln_program *p = rt ? make_program(rt, set, n) : NULL;
    CHECK_MSG(p && run_it(p, y, &e) == KILN_OK, "%s", e.message);
    size_t peak = rt ? budget_peak(residency_budget(runtime_residency(rt))) : 0;
    program_free(p);
    runtime_free(rt);
    return peak;
}

static void test_no_copy_of_what_is_patched(void)
{
    static float got[TOKENS * WIDE], want[TOKENS * WIDE];
    REQUIRE(open_sets());
    for (unsigned threads = 1; threads <= 2; threads++) {
        size_t plain = peak_of(&written, 1, threads, want), more = peak_of(&patched, 1, threads, got) - plain;
        CHECK(memcmp(got, want, sizeof got) == 0);
        CHECK_MSG(more < (WIDE + 2 * IN) * RANK * sizeof(float) + 4096, "%zu bytes more with %u threads", more,
                  threads);
    }
}

static void test_no_copy_of_what_is_stacked(void)
{
    static float got[TOKENS * WIDE], want[TOKENS * WIDE];
    REQUIRE(open_sets());
    kiln_weights *some[] = {base, patched, base}, *same[] = {base, written, base};
    for (unsigned threads = 1; threads <= 2; threads++) {
        size_t packed = STACKED * WIDE * IN * sizeof(float), plain = peak_of(same, STACKED, threads, want),
               with = peak_of(some, STACKED, threads, got);
        CHECK(memcmp(got, want, sizeof got) == 0);
        CHECK_MSG(plain < 2 * packed && with < 2 * packed, "%zu and %zu bytes for %zu", plain, with, packed);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_no_copy_of_what_is_patched), CASE(test_no_copy_of_what_is_stacked)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
