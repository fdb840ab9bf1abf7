/* test_patches.c - tensors with something added: the numbers to the last bit, seen whole, in slices, transposed and
 * patched again; what a tensor's identity is; what is refused; bytes that stay as they are. */
#include "weights_kit.h"

#include "base/memory_alloc.h"
#include "tensor/dtype.h"
#include "weights/gemm_tile.h"

#include <math.h>

enum { O = 70, I = 75, R = 5, MOST = O * I * 9 };

static float numbers[4][MOST];   /* what files hold, of all types alike: sixteenths that bf16 has */
static uint16_t halves[4][MOST]; /* the same as bf16 */

static void make_numbers(void)
{
    uint64_t state = 7;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < MOST; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            numbers[k][i] = (float)((int)(state >> 58) - 32) / 16.0f;
            halves[k][i] = bf16_from_f32(numbers[k][i]);
        }
}

/* w [O,I] bf16, c [6,4,3,3] f32, q [6,4,1,1] f32, b [O] f32, n [4] i32 */
static kiln_weights *open_base(void)
{
    const safetensors_source t[] = {{.name = "w", .dtype = KILN_BF16, DIMS(O, I), .data = halves[0]},
                                    {.name = "c", .dtype = KILN_F32, DIMS(6, 4, 3, 3), .data = numbers[0]},
                                    {.name = "q", .dtype = KILN_F32, DIMS(6, 4, 1, 1), .data = numbers[0]},
                                    {.name = "b", .dtype = KILN_F32, DIMS(O), .data = numbers[1]},
                                    {.name = "n", .dtype = KILN_I32, DIMS(4), .data = numbers[0]},
                                    {.name = "z", .dtype = KILN_F32, DIMS(0, 4), .data = NULL}};
    return opened(put_tensors("base.safetensors", t, 6));
}

static kiln_weights *open_factors(void)
{
    static const float bad[2 * I] = {[3] = NAN}, huge[2 * I] = {[9] = 3e38f};
    const safetensors_source t[] = {
        {.name = "up", .dtype = KILN_F32, DIMS(O, R), .data = numbers[2]},
        {.name = "down", .dtype = KILN_BF16, DIMS(R, I), .data = halves[3]},
        {.name = "up2", .dtype = KILN_F32, DIMS(O, 2, 1, 1), .data = numbers[1]},
        {.name = "down2", .dtype = KILN_F32, DIMS(2, I, 1, 1), .data = numbers[0]},
        {.name = "cup", .dtype = KILN_F32, DIMS(6, R, 1, 1), .data = numbers[2]},
        {.name = "cdown", .dtype = KILN_F32, DIMS(R, 4, 3, 3), .data = numbers[3]},
        {.name = "qdown", .dtype = KILN_F32, DIMS(R, 4), .data = numbers[3]},
        {.name = "d", .dtype = KILN_F32, DIMS(O, I), .data = numbers[1]},
        {.name = "db", .dtype = KILN_F32, DIMS(O), .data = numbers[3]},
        {.name = "up0", .dtype = KILN_F32, DIMS(O, 0), .data = NULL},
        {.name = "down0", .dtype = KILN_F32, DIMS(0, I), .data = NULL},
        {.name = "integers", .dtype = KILN_I32, DIMS(O, I), .data = numbers[0]},
        {.name = "bad", .dtype = KILN_F32, DIMS(2, I), .data = bad},
        {.name = "huge", .dtype = KILN_F32, DIMS(2, I), .data = huge},
        {.name = "long", .dtype = KILN_F32, DIMS(R, I, 2), .data = numbers[0]},
        {.name = "upT", .dtype = KILN_F32, DIMS(R, O), .data = numbers[1]},
        {.name = "cup3", .dtype = KILN_F32, DIMS(6, R, 3, 3), .data = numbers[1]},
    };
    return opened(put_tensors("factors.safetensors", t, sizeof t / sizeof t[0]));
}

static kiln_weights *patched(kiln_weights *base, const kiln_weight_patch *p, size_t n)
{
    error e = {0};
    kiln_weights *w = weights_patch(base, p, n, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

#define PATCH(name_, from_, ...)                                                                                       \
    {                                                                                                                  \
        .size = sizeof(kiln_weight_patch), .name = name_, .strength = 1, .scale = 1, .from = from_, __VA_ARGS__        \
    }

/* to += factor * (up x down), as weights.h says it is computed */
static void reference(float *to, const float *up, const float *down, size_t rows, size_t columns, size_t rank,
                      float factor)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            float sum = 0;
            for (size_t k = 0; k < rank; k++) sum = fmaf(up[r * rank + k], down[k * columns + c], sum);
            to[r * columns + c] += factor * sum;
        }
}

static int same(const kiln_weights *w, const char *name, const float *want, size_t n)
{
    static float got[MOST];
    error e = {0};
    memset(got, 0x55, sizeof got);
    if (!CHECK_MSG(weights_read_f32(w, name, got, &e) == KILN_OK, "%s: %s", name, e.message)) return 0;
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            return CHECK_MSG(0, "%s: element %zu is %a, not %a", name, i, (double)got[i], (double)want[i]);
    return CHECK(memcmp(&got[n], "\x55\x55\x55\x55", 4) == 0); /* and not one more */
}

/* w with everything that can be added to it: both products' factors as f32 and the difference's strip at once */
enum { SCRATCH_W = ((O + I) * (R + 2) + 4096) * 4 };
static float want_w[MOST];
static kiln_weights *patch_w(kiln_weights *base, kiln_weights *from)
{
    const kiln_weight_patch p[] = {PATCH("w", from, .up = "up", .down = "down"),
                                   PATCH("w", from, .up = "up2", .down = "down2"), PATCH("w", from, .difference = "d")};
    kiln_weight_patch q[3];
    memcpy(q, p, sizeof q);
    q[0].strength = 0.7, q[0].scale = 0.3, q[1].strength = -2, q[2].strength = 0.1;
    memcpy(want_w, numbers[0], sizeof want_w);
    reference(want_w, numbers[2], numbers[3], O, I, R, (float)(0.7 * 0.3));
    reference(want_w, numbers[1], numbers[0], O, I, 2, -2.0f);
    for (int i = 0; i < O * I; i++) want_w[i] += 0.1f * numbers[1][i];
    return patched(base, q, 3);
}

static int never(void *arg)
{
    (void)arg;
    return 0;
}

static void test_numbers(void)
{
    static float want[MOST];
    kiln_weights *base = open_base(), *from = open_factors(), *w = NULL;
    REQUIRE(base && from && (w = patch_w(base, from)));
    CHECK(same(w, "w", want_w, O * I) && same(w, "b", numbers[1], O) && same(w, "c", numbers[0], 6 * 36));
    weights_unref(w);
    const kiln_weight_patch p[] = {PATCH("c", from, .up = "cup", .down = "cdown"), PATCH("b", from, .difference = "db"),
                                   PATCH("q", from, .up = "cup", .down = "qdown")};
    REQUIRE((w = patched(base, p, 3)));
    memcpy(want, numbers[0], sizeof want);
    reference(want, numbers[2], numbers[3], 6, 36, R, 1);
    CHECK(same(w, "c", want, 6 * 36));
    CHECK_EQ(weights_scratch_bytes(w, "c", 1), (R * 36 + R * 6 + R * 36) * 4); /* down and up as f32, rows of down */
    memcpy(want, numbers[0], sizeof want);
    reference(want, numbers[2], numbers[3], 6, 4, R, 1);
    CHECK(same(w, "q", want, 6 * 4));
    for (int i = 0; i < O; i++) want[i] = numbers[1][i] + numbers[3][i];
    CHECK(same(w, "b", want, O));
    CHECK(same(w, "w", numbers[0], O * I));
    weights_unref(w);
    weights_unref(from);
    weights_unref(base);
}

static void test_it_is_a_set_like_any_other(void)
{
    kiln_weights *base = open_base(), *from = open_factors(), *w = NULL;
    REQUIRE(base && from && (w = patch_w(base, from)));
    weights_unref(from); /* it keeps both */
    kiln_weight_info info = {.size = sizeof info};
    error e = {0};
    CHECK_EQ(weights_count(w), weights_count(base));
    CHECK_EQ(weights_find(w, "w", &info), KILN_OK);
    CHECK(info.dtype == KILN_F32 && info.rank == 2 && info.dim[0] == O && info.dim[1] == I && info.bytes == O * I * 4 &&
          strstr(info.file, "base.safetensors"));
    CHECK_EQ(weights_find(base, "w", &info), KILN_OK);
    CHECK(info.dtype == KILN_BF16 && info.bytes == O * I * 2);
    CHECK(weights_at(w, 0, &info) == KILN_OK && strcmp(info.name, "b") == 0);
    CHECK(weights_find(w, "nothing", &info) == KILN_ERR_INVALID);
    CHECK_STR(weights_text(w, "__metadata__/format", NULL), "pt");
    CHECK(!weights_map(w, "w", &e) && e.status == KILN_ERR_UNSUPPORTED);
    contains(e.message, "'w' is patched and has no bytes of its own");
    CHECK(!weights_bytes(w, "w", &info) && weights_bytes(w, "b", &info) == weights_bytes(base, "b", &info));
    CHECK(weights_map(w, "c", NULL) == weights_map(base, "c", NULL));
    CHECK_EQ(weights_scratch_bytes(w, "w", 1), SCRATCH_W);
    CHECK_EQ(weights_scratch_bytes(w, "b", 1), 0);
    CHECK_EQ(weights_unused(w, NULL, NULL), 5); /* all but c */
    weights_unref(base);
    CHECK(same(w, "w", want_w, O * I));
    CHECK_EQ(weights_unused(w, NULL, NULL), 4);
    weights_will_need(w, "w", &(page_reader){.stop = never});
    weights_release_pages(w, "w");
    CHECK(same(w, "w", want_w, O * I));
    weights_unref(w);
}

static kiln_weights *view_of(kiln_weights *base, const kiln_weight_rule *rule, size_t n)
{
    error e = {0};
    kiln_weights *v = weights_view(base, rule, n, &e);
    CHECK_MSG(v != NULL, "%s", e.message);
    return v;
}

static void transpose(float *to, const float *from, size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) to[c * rows + r] = from[r * columns + c];
}

/* Every window: rows, the whole transposed, rows transposed, a slice of a slice. */
static void test_views_of_patched_tensors(void)
{
    static float want[MOST];
    kiln_weights *base = open_base(), *from = open_factors(), *w = NULL, *v = NULL, *u = NULL;
    REQUIRE(base && from && (w = patch_w(base, from)));
    const kiln_weight_rule rule[] = {KILN_RULE(.from = "w", .to = "rows", .row = 3, .rows = 66, .more = 1),
                                     KILN_RULE(.from = "w", .to = "flip", .transpose = 1, .more = 1),
                                     KILN_RULE(.from = "w", .to = "part", .row = 65, .rows = 4, .transpose = 1),
                                     KILN_RULE(.from = "c", .to = "c")};
    REQUIRE((v = view_of(w, rule, 4)));
    CHECK(same(v, "rows", want_w + 3 * I, 66 * I));
    transpose(want, want_w, O, I);
    CHECK(same(v, "flip", want, O * I));
    transpose(want, want_w + 65 * I, 4, I);
    CHECK(same(v, "part", want, 4 * I));
    CHECK(!weights_bytes(v, "rows", NULL) && weights_bytes(v, "c", NULL) == weights_bytes(base, "c", NULL));
    CHECK_EQ(weights_scratch_bytes(v, "flip", 1), SCRATCH_W + 32 * I * 4);
    const kiln_weight_rule again[] = {KILN_RULE(.from = "rows", .to = "row", .row = 60, .rows = 1),
                                      KILN_RULE(.from = "flip", .to = "back", .transpose = 1)};
    REQUIRE((u = view_of(v, again, 2)));
    CHECK(same(u, "row", want_w + 63 * I, I) && same(u, "back", want_w, O * I));
    error e = {0};
    CHECK(!weights_view(v, &(kiln_weight_rule)KILN_RULE(.from = "flip", .to = "x", .rows = 1), 1,
                        &e)); /* as of any transposed tensor */
    contains(e.message, "take its rows in the view before");
    weights_unref(w), weights_unref(base), weights_unref(from), weights_unref(v);
    CHECK(same(u, "row", want_w + 63 * I, I));
    weights_unref(u);
}

/* A patch of slices and of transposed tensors, with factors that are views themselves; one row transposed, squeezed and
 * cut. */
static void test_patches_of_views(void)
{
    static float want[MOST], flipped[MOST];
    kiln_weights *base = open_base(), *from = open_factors(), *v = NULL, *f = NULL, *w = NULL, *u = NULL;
    const kiln_weight_rule rule[] = {KILN_RULE(.from = "w", .to = "top", .rows = 1, .transpose = 1, .more = 1),
                                     KILN_RULE(.from = "w", .to = "wT", .transpose = 1, .more = 1),
                                     KILN_RULE(.from = "w", .to = "low", .row = 40, .rows = 30)};
    const kiln_weight_rule factor[] = {KILN_RULE(.from = "up", .to = "upT", .transpose = 1),
                                       KILN_RULE(.from = "down", .to = "downT", .transpose = 1),
                                       KILN_RULE(.from = "d", .to = "dlow", .row = 1, .rows = 30, .more = 1),
                                       KILN_RULE(.from = "d", .to = "dtop", .row = 7, .rows = 1, .transpose = 1)};
    REQUIRE(base && from && (v = view_of(base, rule, 3)) && (f = view_of(from, factor, 4)));
    const kiln_weight_patch p[] = {PATCH("wT", f, .up = "downT", .down = "upT"), PATCH("low", f, .difference = "dlow"),
                                   PATCH("top", f, .difference = "dtop")};
    REQUIRE((w = patched(v, p, 3)));
    weights_unref(base), weights_unref(from), weights_unref(v), weights_unref(f);
    transpose(want, numbers[0], O, I);
    transpose(flipped, numbers[2], O, R);
    static float down[R * I];
    transpose(down, numbers[3], R, I);
    reference(want, down, flipped, I, O, R, 1);
    CHECK(same(w, "wT", want, O * I));
    for (int i = 0; i < 30 * I; i++) want[i] = numbers[0][40 * I + i] + numbers[1][I + i];
    CHECK(same(w, "low", want, 30 * I));
    const kiln_weight_rule cut[] = {KILN_RULE(.from = "top", .to = "top", .transpose = 1),
                                    KILN_RULE(.from = "wT", .to = "w", .row = 33, .rows = 9, .transpose = 1)};
    REQUIRE((u = view_of(w, cut, 2)));
    for (int i = 0; i < I; i++) want[i] = numbers[0][i] + numbers[1][7 * I + i];
    CHECK(same(w, "top", want, I) && same(u, "top", want, I));
    transpose(want, numbers[0], O, I);
    reference(want, down, flipped, I, O, R, 1);
    memmove(want, want + 33 * O, 9 * O * sizeof *want);
    transpose(flipped, want, 9, O);
    CHECK(same(u, "w", flipped, 9 * O));
    weights_unref(w);
    weights_unref(u);
}

/* [1,I] turned, squeezed to [I] and cut: part of one row of what is computed */
static void test_a_part_of_a_row(void)
{
    kiln_weights *base = open_base(), *from = open_factors(), *one = NULL, *f = NULL, *w = NULL, *line = NULL,
                 *part = NULL;
    REQUIRE(base && from &&
            (one = view_of(base, &(kiln_weight_rule)KILN_RULE(.from = "w", .to = "w", .row = 2, .rows = 1), 1)));
    REQUIRE((f = view_of(from,
                         (kiln_weight_rule[]){KILN_RULE(.from = "up", .to = "up", .row = 4, .rows = 1),
                                              KILN_RULE(.from = "down", .to = "down")},
                         2)));
    REQUIRE((w = patched(one, &(kiln_weight_patch)PATCH("w", f, .up = "up", .down = "down"), 1)));
    REQUIRE((line = view_of(w, &(kiln_weight_rule)KILN_RULE(.from = "w", .to = "w", .transpose = 1), 1)));
    kiln_weights *flat = view_of(line, &(kiln_weight_rule)KILN_RULE(.from = "w", .to = "w", .squeeze = 1), 1);
    REQUIRE(flat &&
            (part = view_of(flat, &(kiln_weight_rule)KILN_RULE(.from = "w", .to = "w", .row = 30, .rows = 40), 1)));
    float want[I];
    memcpy(want, numbers[0] + 2 * I, sizeof want);
    reference(want, numbers[2] + 4 * R, numbers[3], 1, I, R, 1);
    CHECK(same(flat, "w", want, I) && same(part, "w", want + 30, 40));
    weights_unref(base), weights_unref(from), weights_unref(one), weights_unref(f), weights_unref(w),
        weights_unref(line), weights_unref(flat), weights_unref(part);
}

/* One upon the other is the same as both at once. */
static void test_patches_add_up(void)
{
    kiln_weights *base = open_base(), *from = open_factors(), *w = NULL;
    const kiln_weight_patch p[] = {
        {.size = sizeof *p, .name = "w", .strength = 0.7, .scale = 0.3, .from = from, .up = "up", .down = "down"},
        {.size = sizeof *p, .name = "w", .strength = -2, .scale = 1, .from = from, .up = "up2", .down = "down2"},
        {.size = sizeof *p, .name = "w", .strength = 0.1, .scale = 1, .from = from, .difference = "d"}};
    REQUIRE(base && from && (w = patch_w(base, from)));
    kiln_weights *a = patched(base, &p[0], 1), *b = patched(a, &p[1], 1),
                 *v = view_of(b, &(kiln_weight_rule)KILN_RULE(.from = "*", .to = "*"), 1), *c = patched(v, &p[2], 1);
    REQUIRE(a && b && c);
    CHECK(same(c, "w", want_w, O * I));
    weights_unref(a), weights_unref(b), weights_unref(v), weights_unref(w), weights_unref(base), weights_unref(from);
    CHECK(same(c, "w", want_w, O * I));
    weights_unref(c);
}

static void identity_of(const kiln_weights *w, const char *name, char hex[33])
{
    error e = {0};
    CHECK_MSG(weights_tensor_identity(w, name, hex, &e) == KILN_OK, "%s", e.message);
}

static void test_identities(void)
{
    kiln_weights *base = open_base(), *from = open_factors(), *set[7] = {0};
    REQUIRE(base && from);
    const kiln_weight_patch p[] = {
        {.size = sizeof *p, .name = "w", .strength = 1, .scale = 0.5, .from = from, .up = "up", .down = "down"},
        {.size = sizeof *p, .name = "w", .strength = 1, .scale = 0.25, .from = from, .up = "up", .down = "down"},
        {.size = sizeof *p, .name = "w", .strength = 1, .scale = 0.5, .from = from, .up = "up2", .down = "down2"},
        {.size = sizeof *p, .name = "w", .strength = 1, .scale = 0.5, .from = from, .difference = "d"},
        {.size = sizeof *p, .name = "b", .strength = 1, .scale = 0.5, .from = from, .difference = "db"}};
    char whole[7][33], tensor[7][33], mine[33], other[33];
    set[0] = weights_ref(base);
    for (int i = 0; i < 5; i++) REQUIRE((set[i + 1] = patched(base, &p[i], 1)));
    REQUIRE((set[6] = patched(set[1], &p[0], 1)));
    identity_of(base, "c", other);
    for (int i = 0; i < 7; i++) {
        snprintf(whole[i], sizeof whole[i], "%s", weights_identity(set[i], NULL));
        identity_of(set[i], "w", tensor[i]);
        identity_of(set[i], "c", mine);
        CHECK_STR(mine, other); /* not patched: the base's */
        for (int k = 0; k < i; k++) {
            CHECK_MSG(strcmp(whole[i], whole[k]) != 0, "sets %d and %d have one identity", i, k);
            CHECK_MSG((strcmp(tensor[i], tensor[k]) == 0) == (i == 5 && k == 0), "'w' of sets %d and %d", i,
                      k); /* the fifth patches b */
        }
    }
    /* what strength and scale make together counts; nothing added is the base */
    kiln_weight_patch twice = p[0];
    twice.strength = 0.5, twice.scale = 1;
    kiln_weights *same_set = patched(base, &twice, 1);
    CHECK_STR(weights_identity(same_set, NULL), whole[1]);
    weights_unref(same_set);
    for (int i = 0; i < 3; i++) {
        twice.strength = i == 0 ? 0 : 1, twice.scale = i == 0 ? 1 : 0;
        kiln_weights *none = i == 2 ? patched(base, NULL, 0) : patched(base, &twice, 1);
        CHECK(none == base);
        weights_unref(none);
    }
    /* the same tensor under another name, and other rows of it */
    kiln_weights *v = view_of(set[1],
                              (kiln_weight_rule[]){KILN_RULE(.from = "w", .to = "v", .more = 1),
                                                   KILN_RULE(.from = "w", .to = "top", .rows = 5, .more = 1),
                                                   KILN_RULE(.from = "w", .to = "next", .row = 5, .rows = 5)},
                              3);
    REQUIRE(v);
    identity_of(v, "v", mine);
    CHECK_STR(mine, tensor[1]);
    identity_of(v, "top", mine);
    identity_of(v, "next", other);
    CHECK(strcmp(mine, other) != 0 && strcmp(mine, tensor[1]) != 0);
    CHECK(weights_tensor_identity(v, "nothing", mine, &(error){0}) == KILN_ERR_INVALID);
    weights_unref(v);
    for (int i = 0; i < 7; i++) weights_unref(set[i]);
    weights_unref(from);
    weights_unref(base);
}

static void test_what_is_refused(void)
{
    kiln_weights *base = open_base(), *from = open_factors();
    REQUIRE(base && from);
    const struct {
        kiln_weight_patch p;
        const char *says;
    } rows[] = {
        {PATCH("nothing", from, .up = "up", .down = "down"), "no tensor 'nothing'"},
        {PATCH(NULL, from, .up = "up", .down = "down"), "without the name"},
        {PATCH("w", from, .up = "upp", .down = "down"), "no tensor 'upp'; the nearest is 'up'"},
        {PATCH("w", from, .up = "up", .down = "gone"), "no tensor 'gone'"},
        {PATCH("w", from, .difference = "gone"), "no tensor 'gone'"},
        {PATCH("w", from, .up = "up"), "without the name"},
        {PATCH("w", from, .down = "down"), "without the name"},
        {PATCH("w", from, .up = "up", .down = "down", .difference = "d"), "either up and down or a difference"},
        {PATCH("w", from, .up = NULL), "either up and down"},
        {PATCH("w", NULL, .difference = "d"), "needs a set"},
        {PATCH("w", from, .up = "up", .down = "down2"), "'up' [70,5] x 'down2' [2,75,1,1] does not fit 'w' [70,75]"},
        {PATCH("c", from, .up = "up", .down = "cdown"), "does not fit 'c' [6,4,3,3]"},
        {PATCH("c", from, .up = "cup", .down = "qdown"), "does not fit"},
        {PATCH("c", from, .up = "cup3", .down = "cdown"), "'cup3' [6,5,3,3]"},
        {PATCH("w", from, .up = "up", .down = "long"), "'up' [70,5] x 'long' [5,75,2]"},
        {PATCH("w", from, .up = "down", .down = "up"), "does not fit"},
        {PATCH("w", from, .up = "upT", .down = "down"), "does not fit"},
        {PATCH("w", from, .up = "db", .down = "down"), "does not fit"},
        {PATCH("w", from, .difference = "db"), "'db' [70] does not fit 'w' [70,75]"},
        {PATCH("b", from, .difference = "d"), "does not fit"},
        {PATCH("w", from, .up = "up0", .down = "down0"), "'down0' is of rank 0"},
        {PATCH("w", from, .difference = "integers"), "'integers' is of type I32"},
        {PATCH("n", from, .difference = "integers"), "'n' is of type I32; patches are of floating-point tensors"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error e = {0};
        kiln_weights *w = weights_patch(base, &rows[i].p, 1, &e);
        CHECK_MSG(!w && (e.status == KILN_ERR_INVALID || e.status == KILN_ERR_UNSUPPORTED), "patch %zu was accepted",
                  i);
        contains(e.message, rows[i].says);
        weights_unref(w);
    }
    static const double bad[][2] = {{NAN, 1}, {1, INFINITY}, {1e30, 1e30}, {1e200, 1e200}, {0, NAN}};
    for (size_t i = 0; i < 5; i++) {
        error e = {0};
        kiln_weight_patch p = PATCH("w", from, .difference = "d");
        p.strength = bad[i][0], p.scale = bad[i][1];
        CHECK(!weights_patch(base, &p, 1, &e) && e.status == KILN_ERR_INVALID);
        contains(e.message, "their product must be a number that f32 holds");
    }
    error e = {0};
    CHECK(!weights_patch(NULL, NULL, 0, &e) && e.status == KILN_ERR_INVALID);
    kiln_weight_patch two[2] = {PATCH("w", from, .difference = "d"), PATCH("b", from, .difference = "db")};
    two[1].size = 8, e = (error){0};
    CHECK(!weights_patch(base, two, 2, &e) && e.status == KILN_ERR_BUG);
    weights_unref(from);
    weights_unref(base);
}

/* A struct that has grown at its end: the first's size is the distance. */
static void test_a_larger_struct_of_tomorrow(void)
{
    struct {
        kiln_weight_patch p;
        double more;
    } two[2];
    kiln_weights *base = open_base(), *from = open_factors();
    REQUIRE(base && from);
    for (int i = 0; i < 2; i++) {
        two[i].p = (kiln_weight_patch)PATCH(i ? "b" : "q", from, .difference = i ? "db" : "cup");
        two[i].p.size = sizeof two[0], two[i].more = 7;
    }
    two[0].p.difference = NULL, two[0].p.up = "cup", two[0].p.down = "qdown";
    kiln_weights *w = patched(base, &two[0].p, 2);
    float want[O];
    for (int i = 0; i < O; i++) want[i] = numbers[1][i] + numbers[3][i];
    CHECK(w && same(w, "b", want, O) && !weights_bytes(w, "q", NULL));
    weights_unref(w), weights_unref(from), weights_unref(base);
}

static void test_numbers_that_are_none(void)
{
    kiln_weights *base = open_base(), *from = open_factors(), *w = NULL;
    static float got[O * I];
    error e = {0};
    REQUIRE(base && from && (w = patched(base, &(kiln_weight_patch)PATCH("w", from, .up = "up2", .down = "bad"), 1)));
    CHECK_EQ(weights_scan_finite(w, "w", &e), KILN_ERR_INVALID);
    contains(e.message, "factors.safetensors: byte ");
    contains(e.message, "tensor 'bad' holds a NaN or infinity at element 3");
    CHECK_EQ(weights_scan_finite(w, "b", NULL), KILN_OK);
    e = (error){0};
    CHECK_EQ(weights_read_f32(w, "w", got, &e), KILN_ERR_INVALID);
    contains(e.message, "'w' comes out as a NaN or infinity at element 3 when it is patched");
    weights_unref(w);
    REQUIRE((w = patched(base, &(kiln_weight_patch)PATCH("w", from, .up = "up2", .down = "huge"), 1)));
    CHECK_EQ(weights_scan_finite(w, "w", NULL), KILN_OK);
    e = (error){0};
    CHECK_EQ(weights_read_f32(w, "w", got, &e), KILN_ERR_INVALID); /* it runs over */
    contains(e.message, "too strong or damaged");
    weights_unref(w), weights_unref(from), weights_unref(base);
}

/* The base's bytes are the same ones before and after; a file that changes under the patch is noticed. */
static void test_files(void)
{
    kiln_weights *base = open_base(), *from = open_factors(), *w = NULL;
    static float got[O * I];
    REQUIRE(base && from && (w = patch_w(base, from)));
    CHECK(same(w, "w", want_w, O * I));
    CHECK(same(base, "w", numbers[0], O * I));
    CHECK(memcmp(weights_bytes(base, "w", NULL), halves[0], O * I * 2) == 0);
    error e = {0};
    FILE *f = fopen(at_path("factors.safetensors"), "ab");
    REQUIRE(f && fwrite("x", 1, 1, f) == 1 && fclose(f) == 0);
    CHECK(weights_read_f32(w, "w", got, &e) != KILN_OK);
    contains(e.message, "factors.safetensors");
    CHECK_EQ(weights_read_f32(w, "b", got, NULL), KILN_OK);
    weights_unref(w), weights_unref(from), weights_unref(base);
}

/* All tiles make the bits of the plain loop, and touch nothing beside their columns. */
/* Of this processor. */
static size_t tilings(const gemm_tiling *to[3])
{
    size_t n = 0;
    to[n++] = &gemm_tiling_plain;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) to[n++] = &gemm_tiling_avx2;
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        to[n++] = &gemm_tiling_avx512;
#endif
    return n;
}

enum { LD = 35, DOWN_LD = 39, DEEP = 37 };

/* Numbers of many sizes and both signs, some of them equal but for the last bits: what rounding twice would show. */
static void fill_uneven(float *to, size_t n, uint64_t state)
{
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t exponent = 127 - 13 + (uint32_t)(state >> 60), sign = (uint32_t)(state >> 59 & 1);
        uint32_t fraction = (state >> 58 & 1) ? (uint32_t)(state >> 35 & 0x7fffff) : (uint32_t)(state >> 35 & 0x400001);
        uint32_t all = sign << 31 | exponent << 23 | fraction;
        memcpy(to + i, &all, sizeof all);
    }
}

static void check_tiling(const gemm_tiling *by, uint64_t seed)
{
    static float a[GEMM_TILE_ROWS * DEEP], b[DEEP * DOWN_LD], start[GEMM_TILE_ROWS * LD];
    float got[GEMM_TILE_ROWS * LD], want[GEMM_TILE_ROWS * LD];
    fill_uneven(a, GEMM_TILE_ROWS * DEEP, seed);
    fill_uneven(b, DEEP * DOWN_LD, seed + 1);
    fill_uneven(start, GEMM_TILE_ROWS * LD, seed + 2);
    for (int whole = 0; whole < 2; whole++) {
        size_t rows = whole ? by->rows : 3, columns = whole ? by->columns : by->columns - 3;
        gemm_tile_operands o = {got + 1, LD, a, DEEP, b, DOWN_LD, DEEP, 0.3f};
        memcpy(got, start, sizeof got);
        memcpy(want, start, sizeof want);
        if (whole)
            by->tile(&o);
        else
            by->rest(&o, rows, columns);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++) {
                float sum = 0;
                for (size_t k = 0; k < DEEP; k++) sum = fmaf(a[i * DEEP + k], b[k * DOWN_LD + j], sum);
                want[1 + i * LD + j] += 0.3f * sum;
            }
        CHECK_MSG(memcmp(got, want, sizeof got) == 0, "%zu columns, whole %d, seed %llu", by->columns, whole,
                  (unsigned long long)seed);
    }
}

static void test_tiles(void)
{
    const gemm_tiling *by[3];
    size_t n = tilings(by);
    for (size_t t = 0; t < n; t++) {
        CHECK(GEMM_TILE_ROWS % by[t]->rows == 0);
        for (uint64_t seed = 0; seed < 200; seed++) check_tiling(by[t], 3 * seed);
    }
}

/* What is infinite stays so, and a number too large becomes so, on every processor. */
static void test_tiles_of_what_is_too_large(void)
{
    const gemm_tiling *by[3];
    size_t n = tilings(by);
    for (size_t t = 0; t < n; t++) {
        float up[2] = {2, 1}, down[2 * 64] = {INFINITY, 3e38f, -3e38f, NAN}, got[64] = {0};
        down[64] = 1;
        by[t]->rest(&(gemm_tile_operands){got, 64, up, 2, down, 64, 2, 1}, 1, 5);
        CHECK(isinf(got[0]) && got[0] > 0 && isinf(got[1]) && got[1] > 0 && isinf(got[2]) && got[2] < 0);
        CHECK(isnan(got[3]) && got[4] == 0);
    }
}

static void test_every_allocation_may_fail(void)
{
    static float got[O * I];
    kiln_weights *base = open_base(), *from = open_factors();
    REQUIRE(base && from);
    int64_t k = 0;
    for (kiln_status status = KILN_ERR_NOMEM; status != KILN_OK && k < 400; k++) {
        error e = {0};
        char hex[33];
        mem_fail_at(k, 0);
        const kiln_weight_patch p[] = {PATCH("w", from, .up = "up", .down = "down"),
                                       PATCH("w", from, .difference = "d"), PATCH("b", from, .difference = "db")};
        kiln_weights *w = weights_patch(base, p, 3, &e);
        kiln_weights *v =
            w ? weights_view(w, &(kiln_weight_rule)KILN_RULE(.from = "w", .to = "w", .transpose = 1), 1, &e) : NULL;
        status = v ? weights_read_f32(v, "w", got, &e) : e.status;
        if (status == KILN_OK) status = weights_tensor_identity(v, "w", hex, &e);
        mem_fail_at(-1, 0);
        CHECK_MSG(status == KILN_OK || (status == KILN_ERR_NOMEM && e.message[0]), "allocation %lld: %s", (long long)k,
                  e.message);
        weights_unref(v);
        weights_unref(w);
    }
    CHECK(k > 8 && k < 400);
    weights_unref(from);
    weights_unref(base);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_numbers),
        CASE(test_it_is_a_set_like_any_other),
        CASE(test_views_of_patched_tensors),
        CASE(test_patches_of_views),
        CASE(test_a_part_of_a_row),
        CASE(test_patches_add_up),
        CASE(test_identities),
        CASE(test_what_is_refused),
        CASE(test_a_larger_struct_of_tomorrow),
        CASE(test_numbers_that_are_none),
        CASE(test_files),
        CASE(test_tiles),
        CASE(test_tiles_of_what_is_too_large),
        CASE(test_every_allocation_may_fail),
    };
    make_numbers();
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
