/* test_weight_rows.c - a tensor's rows as they are wanted (weights_f32_rows): the bits that the whole has, by any cut,
 * of stored, patched and sliced tensors; which tensors are not read so; every allocation failing.
 */
#include "weights_kit.h"

#include "base/memory_alloc.h"
#include "tensor/dtype.h"

enum { O = 150, I = 41, R = 21, MOST = O * I };

static float numbers[3][MOST];
static uint16_t halves[MOST];

static size_t two_rows(const kiln_weight_call *c) { return (void)c, 2; }
static void nothing(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    (void)c, (void)w, (void)row, (void)rows, (void)scratch;
}
static const kiln_weight_change in_pairs = {
    .size = sizeof in_pairs, .revision = 1, .name = "pairs", .rows = two_rows, .apply = nothing};

static kiln_weights *open_base(void)
{
    uint64_t state = 3;
    for (int i = 0; i < 3 * MOST; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        numbers[i / MOST][i % MOST] = (float)(int32_t)(state >> 32) * 0x1p-31f;
    }
    for (int i = 0; i < MOST; i++) halves[i] = bf16_from_f32(numbers[0][i]);
    const safetensors_source t[] = {{.name = "w", .dtype = KILN_BF16, DIMS(O, I), .data = halves},
                                    {.name = "up", .dtype = KILN_F32, DIMS(O, R), .data = numbers[1]},
                                    {.name = "down", .dtype = KILN_BF16, DIMS(R, I), .data = halves},
                                    {.name = "d", .dtype = KILN_F32, DIMS(O, I), .data = numbers[2]}};
    return opened(put_tensors("base.safetensors", t, 4));
}

#define TO_W(from_, ...)                                                                                               \
    (kiln_weight_patch)                                                                                                \
    {                                                                                                                  \
        .size = sizeof(kiln_weight_patch), .name = "w", .strength = 0.7, .scale = 0.3, .from = from_, __VA_ARGS__      \
    }

static kiln_weights *patched(kiln_weights *base, kiln_weights *from, const kiln_weight_change *change)
{
    kiln_weight_patch p[3] = {TO_W(from, .up = "up", .down = "down"), TO_W(from, .difference = "d"),
                              TO_W(from, .change = change)};
    error e = {0};
    kiln_weights *w = weights_patch(base, p, change ? 3 : 2, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static kiln_weights *viewed(kiln_weights *base, kiln_weight_rule rule)
{
    error e = {0};
    kiln_weights *w = weights_view(base, &rule, 1, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

/* All of "w" of `rows` rows, read `step` rows at a time. */
static void check_rows(kiln_weights *w, size_t rows, size_t step)
{
    static float got[MOST], want[MOST];
    error e = {0};
    weights_f32_rows *r = NULL;
    REQUIRE(w && weights_f32_rows_apart(w, "w", I) && weights_read_f32(w, "w", want, &e) == KILN_OK);
    REQUIRE(weights_f32_rows_open(w, "w", NULL, &r, &e) == KILN_OK);
    memset(got, 0x55, sizeof got);
    for (size_t row = 0; row < rows; row += step) {
        size_t n = rows - row < step ? rows - row : step;
        CHECK_MSG(weights_f32_rows_read(r, row * I, n * I, got + row * I, &e) == KILN_OK, "%s", e.message);
    }
    CHECK(memcmp(got, want, rows * I * sizeof *got) == 0);
    weights_f32_rows_close(r);
}

static void test_any_cut_gives_the_same_bits(void)
{
    kiln_weights *base = open_base(), *w = patched(base, base, NULL);
    kiln_weights *slice = viewed(w, (kiln_weight_rule)KILN_RULE(.from = "w", .to = "w", .row = 13, .rows = 100));
    REQUIRE(w && slice);
    for (size_t step = 1; step <= O; step += 37) {
        check_rows(base, O, step);
        check_rows(w, O, step);
        check_rows(slice, 100, step);
    }
    weights_unref(slice);
    weights_unref(w);
    weights_unref(base);
}

static void test_what_is_not_read_by_rows(void)
{
    kiln_weights *base = open_base(), *w = patched(base, base, NULL), *twice = patched(w, base, NULL),
                 *pairs = patched(base, base, &in_pairs);
    kiln_weights *turned = viewed(base, (kiln_weight_rule)KILN_RULE(.from = "w", .to = "w", .transpose = 1));
    REQUIRE(w && twice && pairs && turned);
    CHECK(weights_f32_rows_apart(w, "w", I) && weights_f32_rows_apart(w, "w", 2 * I) &&
          weights_f32_rows_apart(base, "w", 1));
    CHECK(!weights_f32_rows_apart(w, "w", I - 1) && !weights_f32_rows_apart(w, "none", I));
    CHECK(!weights_f32_rows_apart(twice, "w", I) && !weights_f32_rows_apart(pairs, "w", I));
    CHECK(!weights_f32_rows_apart(turned, "w", O));
    kiln_weights *all[] = {turned, pairs, twice, w, base};
    for (size_t i = 0; i < 5; i++) weights_unref(all[i]);
}

static void test_every_allocation_may_fail(void)
{
    static float got[MOST];
    kiln_weights *base = open_base(), *w = patched(base, base, NULL);
    REQUIRE(w);
    int64_t k = 0;
    for (kiln_status status = KILN_ERR_NOMEM; status != KILN_OK && k < 100; k++) {
        error e = {0};
        weights_f32_rows *r = NULL;
        mem_fail_at(k, 0);
        status = weights_f32_rows_open(w, "w", NULL, &r, &e);
        if (status == KILN_OK) status = weights_f32_rows_read(r, 0, MOST, got, &e);
        weights_f32_rows_close(r);
        mem_fail_at(-1, 0);
        CHECK_MSG(status == KILN_OK || (status == KILN_ERR_NOMEM && e.message[0]), "allocation %lld", (long long)k);
    }
    CHECK(k > 4 && k < 100);
    weights_unref(w);
    weights_unref(base);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_any_cut_gives_the_same_bits),
        CASE(test_what_is_not_read_by_rows),
        CASE(test_every_allocation_may_fail),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
