/* test_sizes.c - structs in arrays that a plugin of another version made, and tensors of the most dimensions. */
#include "harness.h"
#include "rig.h"

#include "kiln/params.h"
#include "param/param_rows.h"
#include "weights/weights_kit.h"

#include <string.h>

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }
static const kiln_weights_api *sets(void) { return rig_host()->ability(KILN_WEIGHTS_ABILITY); }

static int says(const char *part)
{
    return CHECK_MSG(strstr(rig_message(), part) != NULL, "\"%s\" does not say \"%s\"", rig_message(), part);
}

/* ---- rules of a view ---- */

typedef struct {
    kiln_weight_rule known;
    uint64_t later[3]; /* what a newer contract may add */
} newer_rule;

static void test_rules_of_another_version(void)
{
    const float numbers[6] = {0, 1, 2, 3, 4, 5};
    const safetensors_source t[] = {{.name = "a", .dtype = KILN_F32, DIMS(2, 3), .data = numbers},
                                    {.name = "b", .dtype = KILN_F32, DIMS(3), .data = numbers}};
    kiln_weights *w = sets()->open(rig_ctx(), put_tensors("sizes.safetensors", t, 2));
    REQUIRE(w);
    newer_rule newer[] = {{KILN_RULE(.from = "a", .to = "x", .transpose = 1), {7, 7, 7}},
                          {KILN_RULE(.from = "b", .to = "y"), {7, 7, 7}}};
    newer[0].known.size = newer[1].known.size = sizeof newer[0];
    kiln_weights *v = sets()->view(rig_ctx(), w, &newer[0].known, 2);
    kiln_weight_info x = {.size = sizeof x}, y = {.size = sizeof y};
    REQUIRE(CHECK(v && sets()->find(v, "x", &x) == KILN_OK && sets()->find(v, "y", &y) == KILN_OK));
    CHECK(x.rank == 2 && x.dim[0] == 3 && x.dim[1] == 2 && y.rank == 1 && y.dim[0] == 3);
    sets()->unref(v);
    kiln_weight_rule none[] = {{.from = "a", .to = "x"}, KILN_RULE(.from = "b", .to = "y")};
    CHECK(!sets()->view(rig_ctx(), w, none, 2) && says("rule 0 of a view says it is 0 bytes, the first 0"));
    kiln_weight_rule mixed[] = {KILN_RULE(.from = "a", .to = "x"), KILN_RULE(.from = "b", .to = "y")};
    mixed[1].size += 8;
    CHECK(!sets()->view(rig_ctx(), w, mixed, 2) && says("make each with KILN_RULE"));
    kiln_weight_rule cut = KILN_RULE(.from = "a", .to = "x");
    cut.size = offsetof(kiln_weight_rule, squeeze);
    CHECK(!sets()->view(rig_ctx(), w, &cut, 1) && says("make each with KILN_RULE"));
    sets()->unref(w);
}

/* ---- binds ---- */

typedef struct {
    kiln_bind known;
    uint64_t later[2];
} newer_bind;

#define WINDOW(data_, n_)                                                                                              \
    {                                                                                                                  \
        .size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 1, .dim = (n_), .data = (data_)    \
    }

static void test_binds_of_another_version(void)
{
    const kiln_ops *o = ops();
    float x[3] = {1, 2, 3}, y[3] = {10, 20, 30}, z[3] = {0};
    static const int64_t three[] = {3};
    kiln_program *p = o->program_new(rig_ctx(), NULL);
    REQUIRE(p);
    o->output(p, "z", o->add(p, o->input(p, "x", KILN_F32, 1, three), o->input(p, "y", KILN_F32, 1, three)));
    REQUIRE(CHECK_EQ(o->plan(rig_ctx(), p, NULL), KILN_OK));
    newer_bind in[] = {{KILN_BIND("x", WINDOW(x, three)), {7, 7}}, {KILN_BIND("y", WINDOW(y, three)), {7, 7}}};
    kiln_bind out = KILN_BIND("z", WINDOW(z, three));
    in[0].known.size = in[1].known.size = sizeof in[0];
    CHECK_EQ(o->run(rig_ctx(), p, &in[0].known, 2, &out, 1), KILN_OK);
    CHECK(z[0] == 11 && z[1] == 22 && z[2] == 33);
    in[1].known.size = sizeof(kiln_bind);
    CHECK(o->run(rig_ctx(), p, &in[0].known, 2, &out, 1) == KILN_ERR_BUG &&
          says("bind 1 of 2 has no size, or not that"));
    kiln_bind plain[] = {KILN_BIND("x", WINDOW(x, three)), KILN_BIND("y", WINDOW(y, three))};
    out.size = 0;
    CHECK(o->run(rig_ctx(), p, plain, 2, &out, 1) == KILN_ERR_BUG && says("bind 0 of 1 has no size"));
    out.size = sizeof out, plain[1].tensor.dim = NULL;
    CHECK(o->run(rig_ctx(), p, plain, 2, &out, 1) == KILN_ERR_BUG && says("rank 1 without dimensions"));
    plain[1] = plain[0], plain[1].name = NULL;
    CHECK(o->run(rig_ctx(), p, plain, 2, &out, 1) == KILN_ERR_BUG && says("bind 1 has no name"));
    o->program_free(p);
}

/* ---- choices ---- */

typedef struct {
    kiln_choice known;
    const char *later;
} newer_choice;

static void test_choices_of_another_version(void)
{
    static const newer_choice ways[] = {{{"up", "Up.", 1}, "x"}, {{"down", "Down.", 2}, "x"}, {{NULL, NULL, 0}, NULL}};
    kiln_param row = {.name = "way", .doc = "Which.", .type = KILN_P_ENUM, .def = 2, .choice = &ways[0].known};
    kiln_param_table t = {
        .size = sizeof t, .param = &row, .n_param = 1, .param_stride = sizeof row, .params_size = sizeof(int32_t)};
    error e = {0};
    CHECK(param_rows_check(&t, &e) == KILN_ERR_INVALID && strstr(e.message, "declare them with KILN_CHOICES"));
    row.choice_stride = sizeof ways[0], e = (error){0};
    CHECK_MSG(param_rows_check(&t, &e) == KILN_OK, "%s", e.message);
    CHECK(kiln_choice_at(&row, 1).value == 2 && !kiln_choice_at(&row, 2).name);
    row.choice_stride = offsetof(kiln_choice, value), e = (error){0};
    CHECK(param_rows_check(&t, &e) == KILN_ERR_INVALID &&
          strstr(e.message, "stride of the choices of parameter 'way'"));
}

/* ---- the most dimensions ---- */

enum { DIMENSIONS = 8, NUMBERS = 2 * 3 * 4 * 1 * 2 * 3 * 2 * 5 };
static const int64_t dims[DIMENSIONS] = {2, 3, 4, 1, 2, 3, 2, 5};
static const uint32_t order[DIMENSIONS] = {6, 1, 4, 7, 0, 2, 5, 3};

/* Where element i of the permuted tensor comes from. */
static size_t permuted_from(size_t i)
{
    size_t stride[DIMENSIONS], step = 1, from = 0;
    for (int d = DIMENSIONS; d-- > 0; step *= (size_t)dims[d]) stride[d] = step;
    for (int d = DIMENSIONS; d-- > 0; i /= (size_t)dims[order[d]])
        from += i % (size_t)dims[order[d]] * stride[order[d]];
    return from;
}

/* The upper half of dimension 2, twice along dimension 6, plus one number for each place of dimension 5; permuted. */
static void test_eight_dimensions(void)
{
    const kiln_ops *o = ops();
    static float x[NUMBERS], y[NUMBERS];
    float five[3] = {100, 200, 300};
    for (int i = 0; i < NUMBERS; i++) x[i] = (float)i;
    kiln_program *p = o->program_new(rig_ctx(), NULL);
    REQUIRE(p);
    kiln_t in = o->input(p, "x", KILN_F32, DIMENSIONS, dims), half = o->slice(p, in, 2, 2, 2);
    kiln_t twice = o->concat(p, (const kiln_t[]){half, half}, 2, 6);
    kiln_t whole = o->reshape(p, twice, DIMENSIONS, dims);
    kiln_t sum = o->add(p, whole, o->constant(p, five, DIMENSIONS, KILN_DIMS(1, 1, 1, 1, 1, 3, 1, 1)));
    kiln_t out = o->permute(p, sum, order);
    int64_t got[DIMENSIONS];
    CHECK_EQ(o->shape(p, out, got, DIMENSIONS), DIMENSIONS);
    for (int d = 0; d < DIMENSIONS; d++) CHECK_EQ(got[d], dims[order[d]]);
    o->output(p, "y", out);
    REQUIRE(CHECK_MSG(o->plan(rig_ctx(), p, NULL) == KILN_OK, "%s", rig_message()));
    kiln_tensor a = {
        .size = sizeof a, .dtype = KILN_F32, .device = KILN_CPU, .rank = DIMENSIONS, .dim = dims, .data = x};
    kiln_tensor b = a;
    b.dim = got, b.data = y;
    kiln_bind from = KILN_BIND("x", a), to = KILN_BIND("y", b);
    REQUIRE(CHECK_MSG(o->run(rig_ctx(), p, &from, 1, &to, 1) == KILN_OK, "%s", rig_message()));
    size_t wrong = 0;
    for (size_t i = 0; i < NUMBERS; i++) {
        size_t at = permuted_from(i), five_at = at / 10 % 3;
        /* at is a place in [2,3,2,1,2,3,4,5], the half twice: of the 4, the third is the first again */
        size_t last = at % 5, six = at / 5 % 4, rest = at / 20, outer = rest / 12;
        size_t source = ((outer * 4 + 2) * 6 + rest % 12) * 10 + six % 2 * 5 + last;
        wrong += y[i] != x[source] + five[five_at];
    }
    CHECK_EQ(wrong, 0);
    o->program_free(p);
    p = o->program_new(rig_ctx(), NULL);
    o->output(p, "y", o->input(p, "x", KILN_F32, 9, KILN_DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1)));
    CHECK(o->plan(rig_ctx(), p, NULL) != KILN_OK && says("8"));
    o->program_free(p);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_rules_of_another_version), CASE(test_binds_of_another_version),
                                      CASE(test_choices_of_another_version), CASE(test_eight_dimensions)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
