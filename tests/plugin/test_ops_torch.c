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
    char number[12];
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

/* A place outside is an error that has its value; on a device it gives NaN. */
static void test_a_place_outside(void)
{
    float x[6] = {0}, out[2];
    int32_t place[2] = {1, 3};
    piece c = piece_new(KILN_F32);
    int on_device = c.ops->device(c.ctx) != KILN_CPU;
    kiln_t made = c.ops->take(c.p, c.ops->input(c.p, "x", KILN_F32, 2, KILN_DIMS(2, 3)),
                              c.ops->input(c.p, "i", KILN_I32, 1, KILN_DIMS(1)), 1);
    c.ops->output(c.p, "out", made);
    CHECK_EQ(c.ops->plan(c.ctx, c.p, NULL), KILN_OK);
    for (int i = 0; i < 2; i++) {
        kiln_bind in[] = {KILN_BIND("x", window_of(x, KILN_F32, 2, KILN_DIMS(2, 3))),
                          KILN_BIND("i", window_of(&place[i], KILN_I32, 1, KILN_DIMS(1)))};
        kiln_bind to = KILN_BIND("out", window_of(out, KILN_F32, 2, KILN_DIMS(2, 1)));
        CHECK_EQ(c.ops->run(c.ctx, c.p, in, 2, &to, 1), i && !on_device ? KILN_ERR_INVALID : KILN_OK);
    }
    CHECK_MSG(on_device ? isnan(out[0]) && isnan(out[1]) : strstr(rig_message(), "place 3 is outside the 3") != NULL,
              "%s", rig_message());
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

/* ---- pictures ---- */

static void conv_case(const char *name, int n, kiln_conv o)
{
    kiln_t in[3] = {{0}};
    piece c = piece_new(KILN_F32);
    array w = given(name, "1"), b = given(name, "2");
    o.size = sizeof o;
    in[0] = piece_input(&c, given(name, "0"), KILN_F32);
    in[1] = c.ops->constant(c.p, w.data, w.rank, w.dim);
    if (n > 2) in[2] = c.ops->constant(c.p, b.data, b.rank, b.dim);
    finish(&c, name, c.ops->conv(c.p, in[0], in[1], in[2], &o), (kiln_t){0});
    free(w.data), free(b.data);
}

static void test_conv(void)
{
    conv_case("conv.causal", 3, (kiln_conv){.rank = 1, .before = {4}, .dilation = {2}});
    conv_case(
        "conv.groups", 2,
        (kiln_conv){
            .rank = 2, .stride = {2, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 4, .pad_mode = KILN_PAD_REFLECT});
    conv_case("conv.depthwise", 2, (kiln_conv){.rank = 2, .before = {2, 1}, .after = {2, 1}, .groups = 8});
    conv_case("conv.rank3", 3, (kiln_conv){.rank = 3, .before = {2, 1, 1}, .after = {0, 1, 1}});
    conv_case("conv.transposed", 3,
              (kiln_conv){.rank = 2,
                          .stride = {2, 3},
                          .before = {1, 1},
                          .after = {1, 1},
                          .dilation = {1, 2},
                          .groups = 2,
                          .transposed = 1,
                          .output_pad = {1, 2}});
    conv_case("conv.transposed3", 2, (kiln_conv){.rank = 3, .stride = {1, 2, 2}, .transposed = 1});
}

static void resize_case(const char *name, uint32_t mode, int up, uint32_t corners, uint32_t antialias)
{
    kiln_t in[1];
    piece c = begin(name, 1, 0, in);
    kiln_interpolate o = {.size = sizeof o, .mode = mode, .align_corners = corners, .antialias = antialias};
    o.h = up ? 14 : 4, o.w = up ? 15 : 3;
    finish(&c, name, c.ops->interpolate(c.p, in[0], &o), (kiln_t){0});
}

static void test_interpolate(void)
{
    static const char *const modes[] = {"nearest", "nearest-exact", "bilinear", "bicubic", "area"};
    char name[80];
    for (uint32_t mode = 0; mode < 5; mode++)
        for (int up = 0; up < 2; up++)
            for (uint32_t how = 0; how < 4; how++) {
                int smooth = mode == KILN_INTERPOLATE_BILINEAR || mode == KILN_INTERPOLATE_BICUBIC;
                if (how && !smooth) continue;
                int n = snprintf(name, sizeof name, "resize.%s.%s", modes[mode], up ? "up" : "down");
                if (smooth) snprintf(name + n, sizeof name - (size_t)n, ".%u%u", how >> 1, how & 1);
                resize_case(name, mode, up, how >> 1, how & 1);
            }
}

static void pool_case(const char *name, kiln_pool o)
{
    kiln_t in[1];
    piece c = begin(name, 1, 0, in);
    o.size = sizeof o;
    finish(&c, name, c.ops->pool(c.p, in[0], &o), (kiln_t){0});
}

static void test_pool(void)
{
    const kiln_pool three = {.rank = 2, .window = {3, 3}, .stride = {2, 2}, .before = {1, 1}, .after = {1, 1}};
    kiln_pool o = three;
    pool_case("pool.average", o);
    o.window[1] = 2, o.count_include_pad = 1;
    pool_case("pool.average_all", o);
    o = three, o.kind = KILN_POOL_MAX;
    pool_case("pool.max", o);
    pool_case("pool.max1", (kiln_pool){.kind = KILN_POOL_MAX, .rank = 1, .window = {2}});
}

static void test_pad(void)
{
    static const char *const names[] = {"pad.constant", "pad.reflect", "pad.replicate", "pad.circular"};
    for (uint32_t mode = 0; mode < 4; mode++) {
        kiln_t in[1];
        piece c = begin(names[mode], 1, 0, in);
        finish(&c, names[mode], c.ops->pad(c.p, in[0], KILN_DIMS(0, 0, 2, 0), KILN_DIMS(0, 3, 1, 0), mode, 1.5f),
               (kiln_t){0});
    }
}

static void test_grid_sample(void)
{
    static const char *const modes[] = {"bilinear", "nearest", "bicubic"}, *const pads[] = {"zeros", "border",
                                                                                            "reflection"};
    for (uint32_t i = 0; i < 18; i++) {
        char name[80];
        kiln_t in[2];
        kiln_grid_sample o = {.size = sizeof o, .mode = i / 6, .padding = i / 2 % 3, .align_corners = i % 2};
        snprintf(name, sizeof name, "grid.%s.%s.%u", modes[o.mode], pads[o.padding], o.align_corners);
        piece c = begin(name, 2, 0, in);
        finish(&c, name, c.ops->grid_sample(c.p, in[0], in[1], &o), (kiln_t){0});
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_norm),   CASE(test_rope),       CASE(test_softmax),     CASE(test_reduce),
        CASE(test_sort),   CASE(test_cumsum),     CASE(test_places),      CASE(test_a_place_outside),
        CASE(test_random), CASE(test_conv),       CASE(test_interpolate), CASE(test_pool),
        CASE(test_pad),    CASE(test_grid_sample)};
    file = open_weights("tests/golden/ops.safetensors");
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
