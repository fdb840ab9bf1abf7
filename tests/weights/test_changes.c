/* test_changes.c - patches that a plugin computes (kiln_weight_change): rows alone, rows in runs and all rows together,
 * seen whole, in slices, transposed, on top of one another and of sums, on one thread and on several; identities, what
 * they take from the heap, what is refused, every allocation failing.
 */
#include "weights_kit.h"

#include "base/memory_alloc.h"
#include "base/pool.h"

#include <math.h>

enum { O = 3000, I = 33, RUN = 12, MOST = O * I };

static float numbers[3][MOST];

static void make_numbers(void)
{
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < MOST; i++) numbers[k][i] = (float)((i * 7 + k * 5 + i / 31) % 29) / 16.0f - 0.8f;
}

/* w [O,I], c [8,3,2,2]; v [I], s [O], bad [I] with a NaN, n [4] integers */
static kiln_weights *open_file(void)
{
    static float bad[I] = {[5] = NAN};
    const safetensors_source t[] = {{.name = "bad", .dtype = KILN_F32, DIMS(I), .data = bad},
                                    {.name = "c", .dtype = KILN_F32, DIMS(8, 3, 2, 2), .data = numbers[0]},
                                    {.name = "d", .dtype = KILN_F32, DIMS(O, I), .data = numbers[2]},
                                    {.name = "n", .dtype = KILN_I32, DIMS(4), .data = numbers[0]},
                                    {.name = "s", .dtype = KILN_F32, DIMS(O), .data = numbers[1]},
                                    {.name = "v", .dtype = KILN_F32, DIMS(I), .data = numbers[2]},
                                    {.name = "w", .dtype = KILN_F32, DIMS(O, I), .data = numbers[0]}};
    return opened(put_tensors("changes.safetensors", t, sizeof t / sizeof t[0]));
}

/* ---- three changes ---- */

/* Row o times 1 + strength * scale * s[o], plus option[0] * v; v's squares are prepared. */
static size_t rows_prepared(const kiln_weight_call *c) { return c->columns; }

static void rows_prepare(const kiln_weight_call *c, float *to)
{
    for (size_t i = 0; i < c->columns; i++) to[i] = c->factor[1].data[i] * c->factor[1].data[i];
}

static size_t rows_scratch(const kiln_weight_call *c, size_t rows) { return rows * c->columns; }

static void rows_apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    for (size_t i = 0; i < rows * c->columns; i++) scratch[i] = w[i];
    for (size_t i = 0; i < rows * c->columns; i++) {
        float by = 1 + (float)(c->strength * c->scale) * c->factor[0].data[row + i / c->columns];
        w[i] = scratch[i] * by + (float)c->option[0] * c->prepared[i % c->columns];
    }
}

static const kiln_weight_change by_rows = {.size = sizeof by_rows,
                                           .revision = 1,
                                           .name = "rows",
                                           .prepared = rows_prepared,
                                           .prepare = rows_prepare,
                                           .scratch = rows_scratch,
                                           .apply = rows_apply};

/* Rows in runs of RUN: each becomes the sum of its run's rows so far. */
static size_t runs_rows(const kiln_weight_call *c) { return (void)c, RUN; }

static void runs_apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    (void)scratch;
    CHECK(row % RUN == 0 && (rows % RUN == 0 || row + rows == c->rows));
    for (size_t i = 1; i < rows; i++)
        for (size_t k = 0; k < c->columns && i % RUN; k++) w[i * c->columns + k] += w[(i - 1) * c->columns + k];
}

static const kiln_weight_change by_runs = {
    .size = sizeof by_runs, .revision = 1, .name = "runs", .rows = runs_rows, .apply = runs_apply};

/* All rows: each minus the row before it, by threads, columns at a time. */
static size_t all_rows(const kiln_weight_call *c) { return c->rows; }

typedef struct {
    const kiln_weight_call *c;
    float *w;
} columns;

static void one_column(void *arg, size_t k)
{
    const columns *x = arg;
    for (size_t i = x->c->rows; i-- > 1;) x->w[i * x->c->columns + k] -= x->w[(i - 1) * x->c->columns + k];
}

static void all_apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    columns x = {c, w};
    (void)scratch;
    CHECK(row == 0 && rows == c->rows);
    c->each(c, c->columns, one_column, &x);
}

static const kiln_weight_change by_all = {
    .size = sizeof by_all, .revision = 1, .name = "all", .rows = all_rows, .apply = all_apply};

/* ---- what they give ---- */

static void want_rows(float *w, double factor, float more)
{
    for (int i = 0; i < MOST; i++)
        w[i] = w[i] * (1 + (float)factor * numbers[1][i / I]) + more * (numbers[2][i % I] * numbers[2][i % I]);
}

static void want_runs(float *w)
{
    for (int i = 1; i < O; i++)
        for (int k = 0; k < I && i % RUN; k++) w[i * I + k] += w[(i - 1) * I + k];
}

static void want_all(float *w)
{
    for (int i = O; i-- > 1;)
        for (int k = 0; k < I; k++) w[i * I + k] -= w[(i - 1) * I + k];
}

static const char *const factors[] = {"s", "v"};
static const double options[] = {0.25};

static kiln_weight_patch change_of(const kiln_weight_change *change, kiln_weights *from)
{
    return (kiln_weight_patch){.size = sizeof(kiln_weight_patch),
                               .name = "w",
                               .strength = 0.5,
                               .scale = 0.75,
                               .from = from,
                               .change = change,
                               .factor = factors,
                               .n_factor = 2,
                               .option = options,
                               .n_option = 1};
}

static kiln_weights *patched(kiln_weights *base, const kiln_weight_patch *p, size_t n)
{
    error e = {0};
    kiln_weights *w = weights_patch(base, p, n, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static void same(const kiln_weights *w, const char *name, const float *want, size_t n, pool *threads)
{
    static float got[MOST];
    error e = {0};
    if (!CHECK_MSG(weights_read_f32_by(w, name, got, threads, &e) == KILN_OK, "%s: %s", name, e.message)) return;
    for (size_t i = 0; i < n; i++)
        if (!CHECK_MSG(memcmp(&got[i], &want[i], sizeof *got) == 0, "%s: element %zu is %a, not %a", name, i,
                       (double)got[i], (double)want[i]))
            return;
}

static pool *threads_of_three(void)
{
    static pool *p;
    if (!p) p = pool_new(3);
    return p;
}

/* In one set: rows, a difference, runs, all, rows again. */
static kiln_weights *all_of_them(kiln_weights *base)
{
    kiln_weight_patch p[5] = {
        change_of(&by_rows, base),
        {.size = sizeof *p, .name = "w", .strength = 2, .scale = 1, .from = base, .difference = "d"},
        change_of(&by_runs, base),
        change_of(&by_all, base),
        change_of(&by_rows, base)};
    p[4].strength = -1;
    return patched(base, p, 5);
}

static float want[MOST];
static void want_all_of_them(void)
{
    memcpy(want, numbers[0], sizeof want);
    want_rows(want, 0.5 * 0.75, 0.25f);
    for (int i = 0; i < MOST; i++) want[i] += 2 * numbers[2][i];
    want_runs(want);
    want_all(want);
    want_rows(want, -0.75, 0.25f);
}

static void test_numbers(void)
{
    kiln_weights *base = open_file(), *w = base ? all_of_them(base) : NULL;
    REQUIRE(w);
    want_all_of_them();
    same(w, "w", want, MOST, NULL);
    same(w, "w", want, MOST, threads_of_three());
    weights_unref(base);
    same(w, "w", want, MOST, threads_of_three());
    weights_unref(w);
}

static void test_each_alone(void)
{
    static const kiln_weight_change *const all[] = {&by_rows, &by_runs, &by_all};
    kiln_weights *base = open_file();
    REQUIRE(base);
    for (int i = 0; i < 3; i++) {
        kiln_weight_patch p = change_of(all[i], base);
        kiln_weights *w = patched(base, &p, 1);
        memcpy(want, numbers[0], sizeof want);
        i == 0 ? want_rows(want, 0.375, 0.25f) : i == 1 ? want_runs(want) : want_all(want);
        same(w, "w", want, MOST, NULL);
        same(w, "w", want, MOST, threads_of_three());
        weights_unref(w);
    }
    weights_unref(base);
}

static void test_views(void)
{
    static float flipped[MOST];
    const kiln_weight_rule rule[] = {KILN_RULE(.from = "w", .to = "rows", .row = 7, .rows = 100, .more = 1),
                                     KILN_RULE(.from = "w", .to = "flip", .transpose = 1)};
    kiln_weights *base = open_file(), *w = base ? all_of_them(base) : NULL, *v = NULL;
    REQUIRE(w && (v = weights_view(w, rule, 2, NULL)));
    want_all_of_them();
    same(v, "rows", want + 7 * I, 100 * I, threads_of_three());
    for (int i = 0; i < O; i++)
        for (int k = 0; k < I; k++) flipped[k * O + i] = want[i * I + k];
    same(v, "flip", flipped, MOST, threads_of_three());
    weights_unref(base), weights_unref(w), weights_unref(v);
}

/* On a slice of a patched tensor, and on the turned whole of it. */
static void test_on_top_of_views(void)
{
    static float turned[MOST];
    const kiln_weight_rule slice[] = {KILN_RULE(.from = "w", .to = "w", .row = 5, .rows = 24),
                                      KILN_RULE(.from = "*", .to = "*")},
                           turn[] = {KILN_RULE(.from = "w", .to = "w", .transpose = 1),
                                     KILN_RULE(.from = "*", .to = "*")};
    kiln_weights *base = open_file(), *w = base ? all_of_them(base) : NULL, *v = NULL, *t = NULL;
    REQUIRE(w && (v = weights_view(w, slice, 2, NULL)) && (t = weights_view(w, turn, 2, NULL)));
    want_all_of_them();
    kiln_weight_patch p = change_of(&by_all, base);
    kiln_weights *on_slice = patched(v, &p, 1), *on_turned = patched(t, &p, 1);
    for (int i = 0; i < O; i++)
        for (int k = 0; k < I; k++) turned[k * O + i] = want[i * I + k];
    for (int i = I; i-- > 1;)
        for (int k = 0; k < O; k++) turned[i * O + k] -= turned[(i - 1) * O + k];
    same(on_turned, "w", turned, MOST, threads_of_three());
    memmove(want, want + 5 * I, sizeof *want * 24 * I);
    for (int i = 24; i-- > 1;)
        for (int k = 0; k < I; k++) want[i * I + k] -= want[(i - 1) * I + k];
    same(on_slice, "w", want, 24 * I, NULL);
    weights_unref(on_slice), weights_unref(on_turned), weights_unref(v), weights_unref(t), weights_unref(w);
    weights_unref(base);
}

static void test_identities(void)
{
    kiln_weights *base = open_file();
    REQUIRE(base);
    kiln_weight_change renamed = by_rows, newer = by_rows;
    static const char *const others[] = {"s", NULL};
    static const double other = 0.5;
    renamed.name = "other", newer.revision = 2;
    kiln_weight_patch p[7];
    for (int i = 0; i < 7; i++) p[i] = change_of(&by_rows, base);
    p[1].strength = 0.25, p[2].scale = 0.5, p[3].change = &renamed, p[4].change = &newer;
    p[5].option = &other, p[6].factor = others;
    char id[8][33];
    for (int i = 0; i < 8; i++) {
        kiln_weights *w = patched(base, &p[i % 7], 1);
        CHECK_EQ(weights_tensor_identity(w, "w", id[i], NULL), KILN_OK);
        for (int k = 0; k < i; k++) CHECK_MSG((strcmp(id[i], id[k]) == 0) == (i == 7 && k == 0), "%d and %d", i, k);
        weights_unref(w);
    }
    weights_unref(base);
}

/* What is promised beforehand is what is taken, of a change's factors, what it prepares and what a block works in. */
static void test_scratch(void)
{
    kiln_weights *base = open_file();
    REQUIRE(base);
    kiln_weight_patch p = change_of(&by_rows, base);
    kiln_weights *w = patched(base, &p, 1);
    size_t one = weights_scratch_bytes(w, "w", 1), three = weights_scratch_bytes(w, "w", 3),
           own = (O + I + I) * sizeof(float);
    CHECK_MSG(one >= own + 8 * I * sizeof(float) && one < own + MOST * sizeof(float), "%zu", one);
    CHECK_MSG(three > one && three <= own + 200 + 3 * (one - own), "%zu, %zu", one, three);
    weights_unref(w);
    weights_unref(base);
}

static void change_refused(kiln_weights *base, kiln_weight_patch p, const char *what)
{
    error e = {0};
    kiln_weights *w = weights_patch(base, &p, 1, &e);
    CHECK_MSG(!w && strstr(e.message, what), "'%s' does not say '%s'", e.message, what);
    weights_unref(w);
}

static void test_what_is_refused(void)
{
    static const char *const missing[] = {"s", "nothing"}, *const integers[] = {"n"}, *const nan[] = {"s", "bad"};
    static const double infinite = INFINITY;
    kiln_weights *base = open_file();
    REQUIRE(base);
    kiln_weight_patch p = change_of(&by_rows, base);
    kiln_weight_change none = by_rows;
    none.apply = NULL;
    p.factor = missing;
    change_refused(base, p, "no tensor 'nothing'");
    p.factor = integers, p.n_factor = 1;
    change_refused(base, p, "of type I32");
    p = change_of(&by_rows, base), p.option = &infinite;
    change_refused(base, p, "must be a number");
    p = change_of(&by_rows, base), p.difference = "d";
    change_refused(base, p, "or a difference or a change");
    p = change_of(&by_rows, base), p.factor = NULL;
    change_refused(base, p, "or a difference or a change");
    p = change_of(&none, base);
    change_refused(base, p, "no apply()");
    p = change_of(&by_rows, base), p.factor = nan;
    kiln_weights *w = patched(base, &p, 1);
    static float got[MOST];
    error e = {0};
    CHECK(weights_read_f32(w, "w", got, &e) == KILN_ERR_INVALID && strstr(e.message, "NaN or infinity at element 5 "));
    e = (error){0};
    CHECK(weights_read_f32_by(w, "w", got, threads_of_three(), &e) == KILN_ERR_INVALID &&
          strstr(e.message, "NaN or infinity at element 5 "));
    e = (error){0};
    CHECK(weights_scan_finite(w, "w", &e) == KILN_ERR_INVALID && strstr(e.message, "'bad'"));
    weights_unref(w);
    weights_unref(base);
}

static void test_strength_0_is_the_base(void)
{
    kiln_weights *base = open_file();
    REQUIRE(base);
    kiln_weight_patch p = change_of(&by_all, base);
    p.strength = 0;
    kiln_weights *w = patched(base, &p, 1);
    CHECK(w == base);
    weights_unref(w);
    weights_unref(base);
}

static void test_every_allocation_may_fail(void)
{
    static float got[MOST];
    kiln_weights *base = open_file();
    REQUIRE(base);
    want_all_of_them();
    int64_t k = 0;
    for (kiln_status status = KILN_ERR_NOMEM; status != KILN_OK && k < 4000; k += 1 + k / 40) {
        error e = {0};
        mem_fail_at(k, 0);
        kiln_weight_patch p[] = {change_of(&by_rows, base), change_of(&by_all, base)};
        kiln_weights *w = weights_patch(base, p, 2, &e);
        status = w ? weights_read_f32(w, "w", got, &e) : e.status;
        mem_fail_at(-1, 0);
        CHECK_MSG(status == KILN_OK || (status == KILN_ERR_NOMEM && e.message[0]), "allocation %lld: %s", (long long)k,
                  e.message);
        weights_unref(w);
    }
    CHECK(k > 8 && k < 4000);
    weights_unref(base);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_numbers),
        CASE(test_each_alone),
        CASE(test_views),
        CASE(test_on_top_of_views),
        CASE(test_identities),
        CASE(test_scratch),
        CASE(test_what_is_refused),
        CASE(test_strength_0_is_the_base),
        CASE(test_every_allocation_may_fail),
    };
    make_numbers();
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    pool_free(threads_of_three());
    return status;
}
