/* test_view_refusals.c - rules of a view that their tensors do not fit: each is refused with the tensor's name and what
 * is wrong with it; those beside that do fit give the shapes they say, of tensors without elements and of one too.
 */
#include "weights_kit.h"

/* Names, types and shapes of the base; its numbers count up. */
static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[4,6],\"data_offsets\":[0,96]},"
                             "\"b\":{\"dtype\":\"F32\",\"shape\":[4,5],\"data_offsets\":[96,176]},"
                             "\"odd\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[176,224]},"
                             "\"one\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[224,228]},"
                             "\"ids\":{\"dtype\":\"I32\",\"shape\":[4,2],\"data_offsets\":[228,260]},"
                             "\"strange\":{\"dtype\":\"U16\",\"shape\":[4,2],\"data_offsets\":[260,276]},"
                             "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[276,276]},"
                             "\"e.0\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[276,284]},"
                             "\"e.1\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[284,292]},"
                             "\"deep\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[292,296]}}";

static kiln_weights *base(void)
{
    size_t n;
    error e = {0};
    uint8_t *bytes = raw_file(header, strlen(header), 296, &n);
    kiln_weights *w = weights_open(put_bytes("base.safetensors", bytes, n), &e);
    free(bytes);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

#define SHAPE(...)                                                                                                     \
    .reshape = (const int64_t[]) { __VA_ARGS__ }
#define ORDER(...)                                                                                                     \
    .permute = (const uint32_t[]) { __VA_ARGS__ }
#define WITH(...)                                                                                                      \
    .with = (const char *const[]) { __VA_ARGS__ }

typedef struct {
    kiln_weight_rule rule;
    const char *says;
} refused_rule;

static void check_refused(const refused_rule *row, size_t n)
{
    kiln_weights *w = base();
    REQUIRE(w);
    for (size_t i = 0; i < n; i++) {
        error e = {0};
        kiln_weights *v = weights_view(w, &row[i].rule, 1, &e);
        CHECK_MSG(!v && e.status != KILN_OK && strstr(e.message, row[i].says), "rule %zu: \"%s\", wanted \"%s\"", i,
                  e.message, row[i].says);
        weights_unref(v);
    }
    weights_unref(w);
}

static void test_slices(void)
{
    const refused_rule rows[] = {
        {KILN_RULE(.from = "a", .to = "x", .slice_axis = 2, .slices = 1), "'a' has 0 rows; 1 from row 0"},
        {KILN_RULE(.from = "a", .to = "x", .slice_axis = 1, .slice = 7, .slices = 1), "'a' has 6 rows; 1 from row 7"},
        {KILN_RULE(.from = "a", .to = "x", .slice = 3, .slices = 2), "'a' has 4 rows; 2 from row 3"},
        {KILN_RULE(.from = "one", .to = "x", .rows = 1), "'one' has 0 rows; 1 from row 0"},
        {KILN_RULE(.from = "a", .to = "x", .slice = -1, .slices = 2), "has negative rows"},
        {KILN_RULE(.from = "a", .to = "x", .slices = -2), "has negative rows"},
        {KILN_RULE(.from = "strange", .to = "x", .slice_axis = 1, .slices = 1), "'strange' (U16) are no whole bytes"},
        {KILN_RULE(.from = "ids", .to = "x", .slice_axis = 1, .slices = 1),
         "'ids' is of type I32; only floating-point"},
    };
    check_refused(rows, sizeof rows / sizeof rows[0]);
}

static void test_orders(void)
{
    const refused_rule rows[] = {
        {KILN_RULE(.from = "odd", .to = "x", .swap_halves = 1), "'odd' has no two halves of rows to exchange"},
        {KILN_RULE(.from = "one", .to = "x", .swap_halves = 1), "'one' has no two halves of rows to exchange"},
        {KILN_RULE(.from = "ids", .to = "x", .swap_halves = 1), "'ids' is of type I32; only floating-point"},
        {KILN_RULE(.from = "one", .to = "x", .unpermute_heads = 1), "'one' has no even number of rows a head"},
        {KILN_RULE(.from = "a", .to = "x", .unpermute_heads = 4), "'a' has no even number of rows a head"},
        {KILN_RULE(.from = "ids", .to = "x", .unpermute_heads = 2), "'ids' is of type I32; only floating-point"},
        {KILN_RULE(.from = "a", .to = "x", .permute_rank = 2), "'a' has another number of dimensions to permute"},
        {KILN_RULE(.from = "a", .to = "x", ORDER(0, 1, 2), .permute_rank = 3), "'a' has another number of dimensions"},
        {KILN_RULE(.from = "a", .to = "x", ORDER(0, 2), .permute_rank = 2), "cannot be permuted so: each dimension"},
        {KILN_RULE(.from = "a", .to = "x", ORDER(1, 1), .permute_rank = 2), "cannot be permuted so: each dimension"},
        {KILN_RULE(.from = "ids", .to = "x", ORDER(1, 0), .permute_rank = 2), "'ids' is of type I32"},
        {KILN_RULE(.from = "one", .to = "x", .transpose = 1), "'one' has 0 dimensions; only one of 2"},
    };
    check_refused(rows, sizeof rows / sizeof rows[0]);
}

static void test_shapes(void)
{
    const refused_rule rows[] = {
        {KILN_RULE(.from = "a", .to = "x", .reshape_rank = 2), "'a' cannot have so many dimensions"},
        {KILN_RULE(.from = "a", .to = "x", SHAPE(1, 1, 1, 1, 1, 1, 1, 24, 1), .reshape_rank = 9), "so many dimensions"},
        {KILN_RULE(.from = "a", .to = "x", SHAPE(-1, -1), .reshape_rank = 2), "'a' cannot be given that shape"},
        {KILN_RULE(.from = "a", .to = "x", SHAPE(-2, 12), .reshape_rank = 2), "'a' cannot be given that shape"},
        {KILN_RULE(.from = "a", .to = "x", SHAPE(INT64_MAX, INT64_MAX), .reshape_rank = 2), "cannot be given that"},
        {KILN_RULE(.from = "a", .to = "x", SHAPE(-1, 5), .reshape_rank = 2), "it has another number of elements"},
        {KILN_RULE(.from = "a", .to = "x", SHAPE(0, -1), .reshape_rank = 2), "it has another number of elements"},
        {KILN_RULE(.from = "a", .to = "x", SHAPE(5, 5), .reshape_rank = 2), "it has another number of elements"},
    };
    check_refused(rows, sizeof rows / sizeof rows[0]);
}

static void test_joins(void)
{
    const refused_rule rows[] = {
        {KILN_RULE(.from = "a", .to = "x", .join = 3, WITH("b"), .n_with = 1), "does not say which tensors are joined"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, .each = "e"), "does not say which tensors are joined"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, .n_with = 1), "does not say which tensors are joined"},
        {KILN_RULE(.from = "a", .to = "x", WITH("b"), .n_with = 1), "does not say which tensors are joined"},
        {KILN_RULE(.from = "a", .to = "x", .each = "e.#"), "does not say which tensors are joined"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, .each = "e.#", WITH("b"), .n_with = 1), "does not say which"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, .each = "{}.#"), "does not say which tensors are joined"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, WITH("{}"), .n_with = 1), "does not say which tensors"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, WITH(NULL), .n_with = 1), "does not say which tensors"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, WITH("gone"), .n_with = 1),
         "'a' is to be joined with 'gone', which is not there"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, WITH("b"), .n_with = 1), "'a' and 'b' have shapes that cannot"},
        {KILN_RULE(.from = "a", .to = "x", .join = 2, WITH("b"), .n_with = 1), "'a' and 'b' have shapes that cannot"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, WITH("one"), .n_with = 1), "'a' and 'one' have shapes that"},
        {KILN_RULE(.from = "a", .to = "x", .join = 1, .axis = 2, WITH("a"), .n_with = 1),
         "'a' has 2 dimensions and cannot be joined along dimension 2"},
        {KILN_RULE(.from = "deep", .to = "x", .join = 2, WITH("deep"), .n_with = 1), "'deep' has 8 dimensions"},
        {KILN_RULE(.from = "ids", .to = "x", .join = 1, WITH("ids"), .n_with = 1), "'ids' is of type I32"},
    };
    check_refused(rows, sizeof rows / sizeof rows[0]);
}

static void check_shape(kiln_weight_rule rule, const int64_t *dim, uint32_t rank)
{
    kiln_weights *w = base();
    error e = {0};
    kiln_weights *v = w ? weights_view(w, &rule, 1, &e) : NULL;
    kiln_weight_info info = {.size = sizeof info};
    if (CHECK_MSG(v && weights_at(v, 0, &info) == KILN_OK, "%s: %s", rule.from, e.message))
        CHECK_MSG(info.rank == rank && memcmp(info.dim, dim, rank * sizeof *dim) == 0, "%s has another shape",
                  rule.from);
    weights_unref(v), weights_unref(w);
}

static void test_that_fit(void)
{
    check_shape((kiln_weight_rule)KILN_RULE(.from = "a", .to = "x", .join = 1, .axis = 1, WITH("b"), .n_with = 1),
                (const int64_t[]){4, 11}, 2);
    check_shape((kiln_weight_rule)KILN_RULE(.from = "e.0", .to = "x", .join = 2, .axis = 1, .each = "e.#"),
                (const int64_t[]){2, 2}, 2);
    check_shape((kiln_weight_rule)KILN_RULE(.from = "one", .to = "x", .join = 2, WITH("one", "one"), .n_with = 2),
                (const int64_t[]){3}, 1);
    check_shape((kiln_weight_rule)KILN_RULE(.from = "none", .to = "x", .slices = 0, SHAPE(2, 0), .reshape_rank = 2),
                (const int64_t[]){2, 0}, 2);
    check_shape((kiln_weight_rule)KILN_RULE(.from = "none", .to = "x", .swap_halves = 1), (const int64_t[]){0, 4}, 2);
    check_shape((kiln_weight_rule)KILN_RULE(.from = "deep", .to = "x", .squeeze = 1), (const int64_t[]){1}, 1);
    check_shape((kiln_weight_rule)KILN_RULE(.from = "strange", .to = "x", .swap_halves = 1), (const int64_t[]){4, 2},
                2);
    check_shape((kiln_weight_rule)KILN_RULE(.from = "a", .to = "x", SHAPE(2, -1, 3), .reshape_rank = 3),
                (const int64_t[]){2, 4, 3}, 3);
}

/* One of a type that is not known makes the joined one such, which is refused where it is read. */
static void test_of_an_unknown_type(void)
{
    const kiln_weight_rule r = KILN_RULE(.from = "strange", .to = "x", .join = 1, WITH("ids"), .n_with = 1);
    kiln_weights *w = base(), *v = w ? weights_view(w, &r, 1, NULL) : NULL;
    float numbers[16];
    error e = {0};
    CHECK(v && weights_read_f32(v, "x", numbers, &e) != KILN_OK);
    CHECK_MSG(strstr(e.message, "U16") != NULL, "%s", e.message);
    CHECK_STR(v ? weights_type_name(v, "x") : "", "U16");
    CHECK_STR(v ? weights_type_name(v, "gone") : "", "?");
    weights_unref(v), weights_unref(w);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_slices), CASE(test_orders),   CASE(test_shapes),
                                      CASE(test_joins),  CASE(test_that_fit), CASE(test_of_an_unknown_type)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
