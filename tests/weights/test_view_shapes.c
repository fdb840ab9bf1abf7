/* test_view_shapes.c - what rules of a view do to shapes: joins, slices of any dimension, halves, heads, other orders.
 * Each against plain loops over the base's numbers, by whole and in ranges, of plain and of block types.
 */
#include "gguf_kit.h"

#include "tensor/block.h"
#include "tensor/dtype.h"

#include <math.h>

enum { O = 8, I = 64, ALL = O * I };

static float x[3][ALL];

/* q, k, v of f32 [8,64]; e.0.w, e.1.w, e.2.w of q8_0 [8,64]; c of f32 [2,4,8,8]. */
static kiln_weights *base(void)
{
    static int made;
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < ALL; i++) x[t][i] = (float)((i * 13 + t * 101) % 253 - 126);
    if (!made) {
        gguf_bytes g = gguf_begin(3, 7, 0);
        static const char *const names[] = {"q", "k", "v", "e.0.w", "e.1.w", "e.2.w", "c"};
        uint64_t at = 0;
        for (int t = 0; t < 7; t++) {
            put_tensor(&g, names[t], t == 6 ? (const uint64_t[]){8, 8, 4, 2, 0} : (const uint64_t[]){I, O, 0},
                       t >= 3 && t < 6 ? 8 : 0, at);
            at += t >= 3 && t < 6 ? ALL / 32 * 34 : ALL * 4;
        }
        put_data(&g, 32, at);
        uint8_t *p = g.b + g.n - at;
        for (int t = 0; t < 7; t++) {
            if (t >= 3 && t < 6)
                block_write(KILN_Q8_0, x[t - 3], p, ALL), p += ALL / 32 * 34;
            else
                memcpy(p, x[t % 3], ALL * 4), p += ALL * 4;
        }
        put_bytes("base.gguf", g.b, g.n);
        made = 1;
    }
    return opened(at_path("base.gguf"));
}

static const float *numbers(const kiln_weights *w, const char *name, float *to)
{
    CHECK_EQ(weights_read_f32(w, name, to, NULL), KILN_OK);
    return to;
}

/* The view's only tensor has this shape, and in every range the number that at() says. */
static void check_view(const kiln_weight_rule *r, size_t n_rules, const int64_t *dim, uint32_t rank,
                       float (*at)(const kiln_weights *, size_t i))
{
    static float all[4 * ALL], part[4 * ALL];
    kiln_weights *w = base();
    error e = {0};
    kiln_weights *v = w ? weights_view(w, r, n_rules, &e) : NULL;
    kiln_weight_info info = {.size = sizeof info};
    CHECK_MSG(v != NULL, "%s", e.message);
    REQUIRE(v && weights_at(v, 0, &info) == KILN_OK && weights_count(v) == 1);
    CHECK(info.rank == rank && memcmp(info.dim, dim, rank * sizeof *dim) == 0);
    size_t n = 1, wrong = 0;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    REQUIRE(n <= 4 * ALL);
    CHECK_MSG(weights_read_f32(v, info.name, all, &e) == KILN_OK, "%s", e.message);
    for (size_t i = 0; i < n; i++) wrong += all[i] != at(w, i);
    CHECK_MSG(wrong == 0, "%s: %zu of %zu numbers are wrong", r->from, wrong, n);
    /* rows of it, in a view of the view */
    const kiln_weight_rule rows = KILN_RULE(.from = info.name, .to = "rows", .row = 1, .rows = dim[0] - 1);
    kiln_weights *u = weights_view(v, &rows, 1, &e);
    CHECK_MSG(u != NULL, "%s", e.message);
    REQUIRE(u && weights_read_f32(u, "rows", part, &e) == KILN_OK);
    CHECK(memcmp(part, all + n / (size_t)dim[0], (n - n / (size_t)dim[0]) * 4) == 0);
    if (!weights_bytes(v, info.name, NULL)) { /* the way of devices */
        CHECK_EQ(weights_stored_bytes(v, info.name), n * 4);
        CHECK(weights_read_stored(v, info.name, part, NULL, NULL) == KILN_OK && memcmp(part, all, n * 4) == 0);
    }
    CHECK_EQ(weights_scan_finite(v, info.name, NULL), KILN_OK);
    char a[33], b[33];
    CHECK(weights_tensor_identity(v, info.name, a, NULL) == KILN_OK &&
          weights_tensor_identity(w, "q", b, NULL) == KILN_OK);
    CHECK(strcmp(a, b) != 0 && weights_identity(v, NULL));
    weights_unref(u), weights_unref(v), weights_unref(w);
}

/* ---- joins ---- */

static float rows_of_three(const kiln_weights *w, size_t i)
{
    (void)w;
    return x[i / ALL][i % ALL];
}

static void test_q_k_and_v_become_one(void)
{
    static const char *const with[] = {"k", "v"};
    const kiln_weight_rule r = KILN_RULE(.from = "q", .to = "qkv", .join = KILN_JOIN_CAT, .with = with, .n_with = 2);
    check_view(&r, 1, (const int64_t[]){3 * O, I}, 2, rows_of_three);
}

static float columns_of_three(const kiln_weights *w, size_t i)
{
    (void)w;
    return x[i % (3 * I) / I][i / (3 * I) * I + i % I];
}

static void test_joined_along_columns(void)
{
    static const char *const with[] = {"k", "v"};
    const kiln_weight_rule r =
        KILN_RULE(.from = "q", .to = "qkv", .join = KILN_JOIN_CAT, .axis = 1, .with = with, .n_with = 2);
    check_view(&r, 1, (const int64_t[]){O, 3 * I}, 2, columns_of_three);
}

static float experts(const kiln_weights *w, size_t i)
{
    static float got[3][ALL];
    static const char *const names[] = {"e.0.w", "e.1.w", "e.2.w"};
    if (i == 0)
        for (int t = 0; t < 3; t++) numbers(w, names[t], got[t]);
    return got[i / ALL][i % ALL];
}

static void test_experts_become_a_bank(void)
{
    const kiln_weight_rule r =
        KILN_RULE(.from = "{}.0.{}", .to = "{}.bank.{}", .join = KILN_JOIN_STACK, .each = "{}.#.{}");
    check_view(&r, 1, (const int64_t[]){3, O, I}, 3, experts);
}

static float stacked_last(const kiln_weights *w, size_t i)
{
    (void)w;
    return x[i % 3][i / 3];
}

static void test_stacked_as_the_last_dimension(void)
{
    static const char *const with[] = {"k", "v"};
    const kiln_weight_rule r =
        KILN_RULE(.from = "q", .to = "qkv", .join = KILN_JOIN_STACK, .axis = 2, .with = with, .n_with = 2);
    check_view(&r, 1, (const int64_t[]){O, I, 3}, 3, stacked_last);
}

static void test_every_part_is_marked_as_used(void)
{
    static const char *const with[] = {"k", "v"};
    const kiln_weight_rule r = KILN_RULE(.from = "q", .to = "qkv", .join = KILN_JOIN_CAT, .with = with, .n_with = 2);
    kiln_weights *w = base(), *v = weights_view(w, &r, 1, NULL);
    REQUIRE(v);
    CHECK_EQ(weights_unused(w, NULL, NULL), 7);
    weights_mark_used(v, "qkv");
    CHECK_EQ(weights_unused(w, NULL, NULL), 4);
    CHECK_EQ(weights_unused(v, NULL, NULL), 0);
    weights_unref(v), weights_unref(w);
}

/* ---- slices and orders ---- */

static float columns(const kiln_weights *w, size_t i)
{
    (void)w;
    return x[0][i / 10 * I + 5 + i % 10];
}

static void test_a_slice_of_columns(void)
{
    const kiln_weight_rule r = KILN_RULE(.from = "q", .to = "part", .slice_axis = 1, .slice = 5, .slices = 10);
    check_view(&r, 1, (const int64_t[]){O, 10}, 2, columns);
}

static float blocks_of_columns(const kiln_weights *w, size_t i)
{
    static float got[ALL];
    if (i == 0) numbers(w, "e.1.w", got);
    return got[i / 33 * I + 20 + i % 33];
}

static void test_a_slice_across_blocks(void)
{
    const kiln_weight_rule r = KILN_RULE(.from = "e.1.w", .to = "part", .slice_axis = 1, .slice = 20, .slices = 33);
    check_view(&r, 1, (const int64_t[]){O, 33}, 2, blocks_of_columns);
}

static float halves(const kiln_weights *w, size_t i)
{
    (void)w;
    return x[1][(i + ALL / 2) % ALL];
}

static void test_halves_change_places(void)
{
    const kiln_weight_rule r = KILN_RULE(.from = "k", .to = "swapped", .swap_halves = 1);
    check_view(&r, 1, (const int64_t[]){O, I}, 2, halves);
}

/* Two heads of four rows, which llama.cpp stores as (0,2,1,3): in pairs, where halves are wanted. */
static float heads(const kiln_weights *w, size_t i)
{
    static const size_t from[] = {0, 2, 1, 3};
    size_t row = i / I;
    (void)w;
    return x[2][(row / 4 * 4 + from[row % 4]) * I + i % I];
}

static void test_heads_are_put_back(void)
{
    const kiln_weight_rule r = KILN_RULE(.from = "v", .to = "v", .unpermute_heads = 2);
    check_view(&r, 1, (const int64_t[]){O, I}, 2, heads);
}

static float permuted(const kiln_weights *w, size_t i) /* [2,4,8,8] -> [8,2,8,4] */
{
    size_t d = i % 4, c = i / 4 % 8, b = i / 32 % 2, a = i / 64;
    (void)w;
    return x[0][((b * 4 + d) * 8 + a) * 8 + c];
}

static void test_permuted(void)
{
    const kiln_weight_rule r =
        KILN_RULE(.from = "c", .to = "c", .permute = (const uint32_t[]){2, 0, 3, 1}, .permute_rank = 4);
    check_view(&r, 1, (const int64_t[]){8, 2, 8, 4}, 4, permuted);
}

static float same(const kiln_weights *w, size_t i)
{
    (void)w;
    return x[0][i];
}

static void test_reshaped(void)
{
    const kiln_weight_rule r =
        KILN_RULE(.from = "q", .to = "r", .reshape = (const int64_t[]){4, -1, 2}, .reshape_rank = 3);
    check_view(&r, 1, (const int64_t[]){4, 64, 2}, 3, same);
    kiln_weights *w = base(), *v = weights_view(w, &r, 1, NULL);
    CHECK(v && weights_bytes(v, "r", NULL)); /* it still lies in the file */
    weights_unref(v), weights_unref(w);
}

static float everything(const kiln_weights *w, size_t i) /* join, rows 1 to 16, columns 1 to 62, reshape, turned */
{
    size_t row = i % 16, column = i / 16;
    (void)w;
    return x[(row + 1) / O][(row + 1) % O * I + column + 1];
}

static void test_all_at_once(void)
{
    static const char *const with[] = {"k", "v"};
    const kiln_weight_rule r =
        KILN_RULE(.from = "q", .to = "all", .join = KILN_JOIN_CAT, .with = with, .n_with = 2, .row = 1, .rows = 16,
                  .slice_axis = 1, .slice = 1, .slices = 62, .permute = (const uint32_t[]){1, 0}, .permute_rank = 2);
    check_view(&r, 1, (const int64_t[]){62, 16}, 2, everything);
}

/* ---- what makes no sense ---- */

static void refuses(const kiln_weight_rule *r, const char *why)
{
    error e = {0};
    kiln_weights *w = base(), *v = weights_view(w, r, 1, &e);
    CHECK_MSG(!v, "accepted, not refused with '%s'", why);
    contains(e.message, why);
    weights_unref(v), weights_unref(w);
}

static void test_rules_that_make_no_sense(void)
{
    static const char *const none[] = {"absent"}, *const other[] = {"c"}, *const k[] = {"k"};
    refuses(&(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .join = KILN_JOIN_CAT, .with = none, .n_with = 1),
            "'q' is to be joined with 'absent', which is not there");
    refuses(&(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .join = KILN_JOIN_CAT, .with = other, .n_with = 1),
            "have shapes that cannot be joined");
    refuses(
        &(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .join = KILN_JOIN_CAT, .axis = 2, .with = k, .n_with = 1),
        "cannot be joined along dimension 2");
    refuses(&(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .with = k, .n_with = 1), "does not say which tensors");
    refuses(&(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .join = 1, .each = "q"), "does not say which tensors");
    refuses(&(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .slice_axis = 2, .slices = 1), "were asked for");
    refuses(&(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .slice_axis = 1, .slice = 60, .slices = 5),
            "were asked for");
    refuses(&(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .unpermute_heads = 3),
            "no even number of rows a head");
    refuses(&(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .reshape = (const int64_t[]){5}, .reshape_rank = 1),
            "another number of elements");
    refuses(
        &(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .reshape = (const int64_t[]){-1, -1}, .reshape_rank = 2),
        "cannot be given that shape");
    refuses(
        &(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .permute = (const uint32_t[]){0, 0}, .permute_rank = 2),
        "each dimension stands once");
    refuses(&(kiln_weight_rule)KILN_RULE(.from = "q", .to = "a", .permute = (const uint32_t[]){0}, .permute_rank = 1),
            "another number of dimensions");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_q_k_and_v_become_one),
                                      CASE(test_joined_along_columns),
                                      CASE(test_experts_become_a_bank),
                                      CASE(test_stacked_as_the_last_dimension),
                                      CASE(test_every_part_is_marked_as_used),
                                      CASE(test_a_slice_of_columns),
                                      CASE(test_a_slice_across_blocks),
                                      CASE(test_halves_change_places),
                                      CASE(test_heads_are_put_back),
                                      CASE(test_permuted),
                                      CASE(test_reshaped),
                                      CASE(test_all_at_once),
                                      CASE(test_rules_that_make_no_sense)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
