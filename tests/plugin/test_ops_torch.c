/* test_ops_torch.c - ops of "kiln.ops/1", recorded through the public table, against what torch makes of the same
 * numbers (scripts/golden/ops.py), in f32: each element within 2e-6 of max(1, |torch's|), whole numbers, infinities and
 * NaN the same.
 */
#include "golden_kit.h"

#include <math.h>

static kiln_weights *file;

static float shown(float v) { return v == 1e30f ? NAN : v == 2e30f ? INFINITY : v == -2e30f ? -INFINITY : v; }

static array given(const char *name, const char *what)
{
    array a = golden(file, "%s.%s", name, what);
    for (size_t i = 0; i < a.n; i++) a.data[i] = shown(a.data[i]);
    return a;
}

static int is_same(float a, float b, double tolerance)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs((double)a - (double)b) <= tolerance * fmax(1, fabs((double)b));
}

/* `out` holds numbers of `dtype`. */
static void compare(const char *name, const void *out, uint32_t dtype, array wanted, double tolerance)
{
    for (size_t i = 0; i < wanted.n; i++) {
        float got = dtype == KILN_I32 ? (float)((const int32_t *)out)[i] : ((const float *)out)[i];
        if (!CHECK_MSG(is_same(got, wanted.data[i], tolerance), "%s: number %zu is %.9g, torch's %.9g", name, i,
                       (double)got, (double)wanted.data[i]))
            return;
    }
}

/* Plans, runs and compares `out` and, where there is one, `more`. */
static void finish(piece *c, const char *name, kiln_t out, kiln_t more)
{
    static const char *const files[] = {"out", "more"};
    kiln_t result[] = {out, more};
    size_t n = more.id ? 2 : 1;
    array wanted[2] = {{0}};
    kiln_bind bind[2];
    void *got[2] = {0};
    int whole = 1;
    for (size_t i = 0; i < c->n_in; i++) c->in[i].tensor.dim = c->dim[i]; /* the piece was copied */
    for (size_t i = 0; i < n; i++) {
        wanted[i] = given(name, files[i]);
        got[i] = calloc(wanted[i].n + 1, 4);
        whole = CHECK_MSG(wanted[i].data && got[i], "%s.%s is not in the golden", name, files[i]) && whole;
        c->ops->output(c->p, files[i], result[i]);
        bind[i] = (kiln_bind)KILN_BIND(
            files[i], window_of(got[i], c->ops->dtype(c->p, result[i]), wanted[i].rank, wanted[i].dim));
    }
    kiln_status status = whole ? c->ops->plan(c->ctx, c->p, NULL) : KILN_ERR_BUG;
    if (status == KILN_OK) status = c->ops->run(c->ctx, c->p, c->in, c->n_in, bind, n);
    CHECK_MSG(status == KILN_OK, "%s: %s", name, rig_message());
    for (size_t i = 0; i < n; i++) {
        if (status == KILN_OK) compare(name, got[i], bind[i].tensor.dtype, wanted[i], 2e-6);
        free(got[i]), free(wanted[i].data);
    }
    for (size_t i = 0; i < c->n_owned; i++) free(c->owned[i]);
    c->ops->program_free(c->p);
}

/* The case's operands 0..n-1; those of the bits `whole` are i32. */
static piece begin(const char *name, int n, unsigned whole, kiln_t *in)
{
    char number[4];
    piece c = piece_new(KILN_F32);
    for (int i = 0; i < n; i++) {
        snprintf(number, sizeof number, "%d", i);
        in[i] = piece_input(&c, given(name, number), whole >> i & 1 ? KILN_I32 : KILN_F32);
    }
    return c;
}

static void norm_case(const char *name, int n, kiln_norm o)
{
    kiln_t in[5] = {{0}};
    piece c = begin(name, n, 0, in);
    o.size = sizeof o, o.eps = 1e-5f;
    o.gain = in[1], o.bias = in[2], o.scale = in[3], o.shift = in[4];
    finish(&c, name, c.ops->normalize(c.p, in[0], &o), (kiln_t){0});
}

static void test_norm(void)
{
    norm_case("norm.rms", 2, (kiln_norm){.kind = KILN_NORM_RMS});
    norm_case("norm.gemma", 2, (kiln_norm){.kind = KILN_NORM_RMS, .one_plus = 1});
    norm_case("norm.adaln", 5, (kiln_norm){.kind = KILN_NORM_LAYER});
    norm_case("norm.heads", 2, (kiln_norm){.kind = KILN_NORM_RMS, .group = 8});
    norm_case("norm.l2", 1, (kiln_norm){.kind = KILN_NORM_L2});
}

static void test_rope(void)
{
    static const char *const names[] = {"rope.halves", "rope.pairs"};
    for (uint32_t pairs = 0; pairs < 2; pairs++) {
        kiln_t in[3];
        piece c = begin(names[pairs], 3, 0, in);
        kiln_rope o = {.size = sizeof o, .heads = 3, .rotary = 8, .interleaved = pairs, .cos = in[1], .sin = in[2]};
        finish(&c, names[pairs], c.ops->rope(c.p, in[0], &o), (kiln_t){0});
    }
}

static void softmax_case(const char *name, int n, uint32_t log_of)
{
    kiln_t in[2] = {{0}};
    piece c = begin(name, n, 2, in);
    kiln_softmax o = {.size = sizeof o, .length = in[1], .log = log_of};
    finish(&c, name, c.ops->softmax(c.p, in[0], &o), (kiln_t){0});
}

static void test_softmax(void)
{
    softmax_case("softmax.plain", 1, 0);
    softmax_case("softmax.log", 1, 1);
    softmax_case("softmax.nothing", 1, 0);
    softmax_case("softmax.length", 2, 0);
    softmax_case("softmax.log_length", 2, 1);
}

static void test_reduce(void)
{
    static const struct {
        const char *name;
        uint32_t kind, axes, keep, whole;
    } row[] = {{"reduce.sum", KILN_REDUCE_SUM, 10, 0, 0},
               {"reduce.mean", KILN_REDUCE_MEAN, 5, 0, 0},
               {"reduce.max", KILN_REDUCE_MAX, 10, 1, 0},
               {"reduce.min", KILN_REDUCE_MIN, 3, 0, 0},
               {"reduce.prod", KILN_REDUCE_PROD, 8, 0, 0},
               {"reduce.l2", KILN_REDUCE_L2, 6, 0, 0},
               {"reduce.logsumexp", KILN_REDUCE_LOGSUMEXP, 8, 0, 0},
               {"reduce.argmax", KILN_REDUCE_ARGMAX, 2, 0, 0},
               {"reduce.argmin", KILN_REDUCE_ARGMIN, 2, 0, 0},
               {"reduce.argmax_first", KILN_REDUCE_ARGMAX, 1, 0, 0},
               {"reduce.whole", KILN_REDUCE_SUM, 2, 0, 1}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        kiln_t in[1];
        piece c = begin(row[i].name, 1, row[i].whole, in);
        finish(&c, row[i].name, c.ops->reduce(c.p, in[0], row[i].kind, row[i].axes, row[i].keep), (kiln_t){0});
    }
}

static void sort_case(const char *name, int64_t k, uint32_t ascending, unsigned whole)
{
    kiln_t in[1], places;
    piece c = begin(name, 1, whole, in);
    kiln_t out = c.ops->topk(c.p, in[0], k, ascending, &places);
    finish(&c, name, out, places);
}

static void test_sort(void)
{
    sort_case("sort.down", 0, 0, 0);
    sort_case("sort.up", 0, 1, 0);
    sort_case("sort.top", 4, 0, 0);
    sort_case("sort.few", 40, 0, 0);
    sort_case("sort.whole", 0, 1, 1);
}

static void cumsum_case(const char *name, uint32_t axis, uint32_t exclusive, uint32_t reverse)
{
    kiln_t in[1];
    piece c = begin(name, 1, 0, in);
    finish(&c, name, c.ops->cumsum(c.p, in[0], axis, exclusive, reverse), (kiln_t){0});
}

static void test_cumsum(void)
{
    cumsum_case("cumsum.last", 2, 0, 0);
    cumsum_case("cumsum.middle_exclusive", 1, 1, 0);
    cumsum_case("cumsum.reverse", 1, 0, 1);
}

static void test_places(void)
{
    kiln_t in[3];
    piece c = begin("take", 2, 2, in);
    finish(&c, "take", c.ops->take(c.p, in[0], in[1], 1), (kiln_t){0});
    c = begin("take_along", 2, 2, in);
    finish(&c, "take_along", c.ops->take_along(c.p, in[0], in[1]), (kiln_t){0});
    c = begin("scatter.add", 3, 2, in);
    finish(&c, "scatter.add", c.ops->scatter(c.p, in[0], in[1], in[2], 1, 1), (kiln_t){0});
    c = begin("scatter.set", 3, 2, in);
    finish(&c, "scatter.set", c.ops->scatter(c.p, in[0], in[1], in[2], 1, 0), (kiln_t){0});
    c = begin("bincount", 1, 1, in);
    finish(&c, "bincount", c.ops->bincount(c.p, in[0], 7), (kiln_t){0});
}

/* A place outside is an error that has its value. */
static void test_a_place_outside(void)
{
    float x[6] = {0}, out[2];
    int32_t place[2] = {1, 3};
    piece c = piece_new(KILN_F32);
    kiln_t made = c.ops->take(c.p, c.ops->input(c.p, "x", KILN_F32, 2, KILN_DIMS(2, 3)),
                              c.ops->input(c.p, "i", KILN_I32, 1, KILN_DIMS(1)), 1);
    c.ops->output(c.p, "out", made);
    CHECK_EQ(c.ops->plan(c.ctx, c.p, NULL), KILN_OK);
    for (int i = 0; i < 2; i++) {
        kiln_bind in[] = {KILN_BIND("x", window_of(x, KILN_F32, 2, KILN_DIMS(2, 3))),
                          KILN_BIND("i", window_of(&place[i], KILN_I32, 1, KILN_DIMS(1)))};
        kiln_bind to = KILN_BIND("out", window_of(out, KILN_F32, 2, KILN_DIMS(2, 1)));
        CHECK_EQ(c.ops->run(c.ctx, c.p, in, 2, &to, 1), i ? KILN_ERR_INVALID : KILN_OK);
    }
    CHECK_MSG(strstr(rig_message(), "place 3 is outside the 3") != NULL, "%s", rig_message());
    c.ops->program_free(c.p);
}

static void test_random(void)
{
    static const char *const names[] = {"random.uniform", "random.normal", "random.gumbel"};
    for (uint32_t kind = 0; kind < 3; kind++) {
        kiln_t in[1];
        piece c = begin(names[kind], 1, 1, in);
        finish(&c, names[kind], c.ops->random(c.p, in[0], kind, 1, KILN_DIMS(500)), (kiln_t){0});
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_norm),   CASE(test_rope),   CASE(test_softmax),         CASE(test_reduce), CASE(test_sort),
        CASE(test_cumsum), CASE(test_places), CASE(test_a_place_outside), CASE(test_random)};
    file = open_weights("tests/golden/ops.safetensors");
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
