/* test_image_nodes.c - nodes that change pictures and masks, against torch, Pillow and scipy
 * (tests/golden/image.safetensors, written by scripts/golden/image.py).
 *
 * Tolerance: the goldens are float64 rounded to float32 (half an ulp, 6e-8 below 1); kiln computes in double and rounds
 * once or, where it multiplies floats, a few times: 5e-7 is eight ulps at 1. Lanczos gives bytes: equal ones, 1e-7.
 */
#include "golden_value.h"

#include "image.h"

#include <math.h>

#define SUMS 5e-7
#define BYTES 1e-7

static kiln_value *golden_value(const char *name) { return golden_of("image.safetensors", name); }

static void equals(made *m, int output, const char *name, double tolerance)
{
    if (!CHECK_MSG(m->status == KILN_OK, "%s: %s", name, m->why.message)) return;
    kiln_value *wanted = golden_value(name);
    kiln_tensor a = view_of(m->out[output]), b = view_of(wanted);
    size_t n = 1, wrong = a.rank != b.rank;
    for (uint32_t i = 0; i < a.rank; i++) wrong += a.dim[i] != b.dim[i], n *= (size_t)b.dim[i];
    double worst = 0;
    for (size_t i = 0; !wrong && i < n; i++)
        worst = fmax(worst, fabs((double)((const float *)a.data)[i] - (double)((const float *)b.data)[i]));
    CHECK_MSG(!wrong, "%s: another shape (%lld x %lld)", name, (long long)a.dim[2], (long long)a.dim[1]);
    CHECK_MSG(worst <= tolerance, "%s: off by %g", name, worst);
    value_unref(wanted);
    made_free(m);
}

/* Node `type` on goldens gives golden `name`. */
typedef struct {
    const kiln_node *type;
    const char *settings, *in[3], *name;
    double tolerance;
    int output;
} row;

static void check_rows(const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kiln_value *in[3] = {0};
        for (int k = 0; k < 3; k++) in[k] = rows[i].in[k] ? golden_value(rows[i].in[k]) : NULL;
        made m = node_with(rows[i].type, rows[i].settings, in[0], in[1], in[2]);
        equals(&m, rows[i].output, rows[i].name, rows[i].tolerance);
        for (int k = 0; k < 3; k++) value_unref(in[k]);
    }
}
#define CHECK_ROWS(rows) check_rows(rows, sizeof rows / sizeof rows[0])

static void test_scaling(void)
{
    static const char *const methods[] = {"nearest-exact", "bilinear", "area", "bicubic", "lanczos"}, *const crops[] = {
                                                                                                          "disabled",
                                                                                                          "center"};
    static const struct {
        const char *name;
        int h, w;
    } sizes[] = {{"up", 16, 21}, {"mixed", 13, 5}, {"down", 3, 4}, {"wide", 7, 23}};
    kiln_value *a = golden_value("a");
    for (size_t i = 0; i < 5 * 4 * 2; i++) {
        const char *method = methods[i / 8], *crop = crops[i % 2];
        char settings[200], name[100];
        snprintf(settings, sizeof settings, "upscale_method=%s; width=%d; height=%d; crop=%s", method,
                 sizes[i / 2 % 4].w, sizes[i / 2 % 4].h, crop);
        snprintf(name, sizeof name, "scale.%s.%s.%s", method, sizes[i / 2 % 4].name, crop);
        made m = node_with(&node_image_scale, settings, a, NULL, NULL);
        equals(&m, 0, name, i / 8 == 4 ? BYTES : SUMS);
    }
    value_unref(a);
}

static void test_turning(void)
{
    static const row rows[] = {{&node_image_rotate, "rotation=none", {"a"}, "rotate.0", 0, 0},
                               {&node_image_rotate, "rotation=90 degrees", {"a"}, "rotate.1", 0, 0},
                               {&node_image_rotate, "rotation=180 degrees", {"a"}, "rotate.2", 0, 0},
                               {&node_image_rotate, "rotation=270 degrees", {"a"}, "rotate.3", 0, 0},
                               {&node_image_flip, "flip_method=x-axis: vertically", {"a"}, "flip.x", 0, 0},
                               {&node_image_flip, "flip_method=y-axis: horizontally", {"a"}, "flip.y", 0, 0}};
    CHECK_ROWS(rows);
}

static void test_blending(void)
{
    static const char *const modes[] = {"normal", "multiply", "screen", "overlay", "soft_light", "difference"};
    for (int i = 0; i < 6; i++) {
        char settings[100], name[100];
        snprintf(settings, sizeof settings, "blend_factor=0.75; blend_mode=%s", modes[i]);
        snprintf(name, sizeof name, "blend.%s", modes[i]);
        check_rows(&(row){&node_image_blend, settings, {"a", "b"}, name, 2 * SUMS, 0},
                   1); /* the second picture is rounded when it is scaled */
    }
}

static void test_padding_pasting_feathering(void)
{
    static const row rows[] = {
        {&node_image_pad, "left=8; right=16; bottom=8; feathering=3", {"a"}, "pad", SUMS, 1},
        {&node_image_pad, "left=8; top=8; feathering=4", {"a"}, "pad_small", SUMS, 1},
        {&node_feather_mask, "left=3; top=2; right=4; bottom=8", {"m"}, "feather", SUMS, 0},
        {&node_image_composite, "x=3; y=2", {"a", "b", "m2"}, "paste", SUMS, 0},
        {&node_image_composite, "resize_source=true", {"a", "b", "m2"}, "paste_resized", SUMS, 0}};
    CHECK_ROWS(rows);
}

static void test_growing(void)
{
    static const int amounts[] = {1, 3, -2, 40};
    for (int i = 0; i < 8; i++) {
        char settings[100], name[100];
        snprintf(settings, sizeof settings, "expand=%d; tapered_corners=%s", amounts[i / 2], i % 2 ? "true" : "false");
        snprintf(name, sizeof name, "grow.%d.%s", amounts[i / 2], i % 2 ? "tapered" : "square");
        check_rows(&(row){&node_grow_mask, settings, {"m"}, name, 0, 0}, 1);
    }
}

/* ---- small ones, worked out by hand ---- */

/* The output is a tensor of this shape with these values. */
static void gives(made *m, int output, const int64_t *dim, uint32_t rank, const float *wanted)
{
    if (!CHECK_MSG(m->status == KILN_OK, "%s", m->why.message)) return;
    kiln_tensor t = view_of(m->out[output]);
    int64_t n = 1;
    CHECK_EQ(t.rank, rank);
    for (uint32_t i = 0; i < rank; i++) {
        CHECK_EQ(t.dim[i], dim[i]);
        n *= t.dim[i] == dim[i] ? dim[i] : 0;
    }
    for (int64_t i = 0; i < n; i++)
        CHECK_MSG(((const float *)t.data)[i] == wanted[i], "value %lld is %g, not %g", (long long)i,
                  (double)((const float *)t.data)[i], (double)wanted[i]);
}
#define GIVES(m, output, rank, dims, ...) gives(m, output, (const int64_t[])dims, rank, (const float[]){__VA_ARGS__})
#define D(...)                                                                                                         \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static const float six[6] = {0, 0.25f, 0.5f, 0.75f, 1, 0.125f};

static void test_mask_nodes(void)
{
    kiln_value *m23 = MASK_OF(1, 2, 3, six, NULL), *m12 = MASK_OF(1, 1, 2, ((const float[]){1, 0.25f}), NULL);
    made m = node_with(&node_crop_mask, "x=1; y=0; width=512; height=1", m23, NULL, NULL);
    GIVES(&m, 0, 3, D(1, 1, 2), 0.25f, 0.5f), made_free(&m);
    m = node_with(&node_crop_mask, "x=3", m23, NULL, NULL);
    refused(&m, KILN_ERR_INVALID, "outside the mask, which has 3 x 2 pixels");
    m = node_with(&node_threshold_mask, "value=0.5", m23, NULL, NULL);
    GIVES(&m, 0, 3, D(1, 2, 3), 0, 0, 0, 1, 1, 0), made_free(&m);
    m = node_with(&node_invert_mask, "", m23, NULL, NULL);
    GIVES(&m, 0, 3, D(1, 2, 3), 1, 0.75f, 0.5f, 0.25f, 0, 0.875f), made_free(&m);
    m = node_with(&node_solid_mask, "value=0.5; width=2; height=1", NULL, NULL, NULL);
    GIVES(&m, 0, 3, D(1, 1, 2), 0.5f, 0.5f), made_free(&m);
    m = node_with(&node_mask_to_image, "", m12, NULL, NULL);
    GIVES(&m, 0, 4, D(1, 1, 2, 3), 1, 1, 1, 0.25f, 0.25f, 0.25f), made_free(&m);
    static const struct {
        const char *operation;
        float row[3];
    } operations[] = {{"multiply", {0.75f, 0.25f, 0.125f}},
                      {"add", {1, 1, 0.125f}},
                      {"subtract", {0, 0.75f, 0.125f}},
                      {"and", {1, 0, 0.125f}},
                      {"or", {1, 1, 0.125f}},
                      {"xor", {0, 1, 0.125f}}};
    for (size_t i = 0; i < 6; i++) { /* the source covers 0.75 and 1 of the lower row */
        char settings[60];
        snprintf(settings, sizeof settings, "operation=%s; y=1", operations[i].operation);
        m = node_with(&node_mask_composite, settings, m23, m12, NULL);
        const float *r = operations[i].row;
        GIVES(&m, 0, 3, D(1, 2, 3), 0, 0.25f, 0.5f, r[0], r[1], r[2]), made_free(&m);
    }
    m = node_with(&node_mask_composite, "operation=add; x=2; y=1", m23, m12, NULL); /* reaches over the edge */
    GIVES(&m, 0, 3, D(1, 2, 3), 0, 0.25f, 0.5f, 0.75f, 1, 1), made_free(&m);
    m = node_with(&node_mask_composite, "operation=add; x=16384; y=16384", m23, m12, NULL);
    GIVES(&m, 0, 3, D(1, 2, 3), 0, 0.25f, 0.5f, 0.75f, 1, 0.125f), made_free(&m);
    value_unref(m23);
    value_unref(m12);
}

static void test_picture_nodes(void)
{
    kiln_value *image = IMAGE_OF(2, 1, 1, 3, six, NULL);
    made m = node_with(&node_image_invert, "", image, NULL, NULL);
    GIVES(&m, 0, 4, D(2, 1, 1, 3), 1, 0.75f, 0.5f, 0.25f, 0, 0.875f), made_free(&m);
    m = node_with(&node_empty_image, "width=1; height=1; batch_size=1; color=16711935", NULL, NULL, NULL);
    GIVES(&m, 0, 4, D(1, 1, 1, 3), 1, 0, 1), made_free(&m);
    m = node_with(&node_image_from_batch, "batch_index=-1; length=5", image, NULL, NULL);
    GIVES(&m, 0, 4, D(1, 1, 1, 3), 0.75f, 1, 0.125f), made_free(&m);
    m = node_with(&node_image_from_batch, "batch_index=-9; length=1", image, NULL, NULL);
    GIVES(&m, 0, 4, D(1, 1, 1, 3), 0, 0.25f, 0.5f), made_free(&m);
    m = node_with(&node_repeat_image_batch, "amount=2", image, NULL, NULL);
    GIVES(&m, 0, 4, D(4, 1, 1, 3), 0, 0.25f, 0.5f, 0.75f, 1, 0.125f, 0, 0.25f, 0.5f, 0.75f, 1, 0.125f), made_free(&m);
    m = node_with(&node_image_batch, "", image, image, NULL);
    CHECK(m.status == KILN_OK && view_of(m.out[0]).dim[0] == 4), made_free(&m);
    m = node_with(&node_image_to_mask, "channel=green", image, NULL, NULL);
    GIVES(&m, 0, 3, D(2, 1, 1), 0.25f, 1), made_free(&m);
    m = node_with(&node_image_to_mask, "channel=alpha", image, NULL, NULL);
    refused(&m, KILN_ERR_INVALID, "no alpha");
    m = node_with(&node_colour_to_mask, "color=16384", image, NULL, NULL); /* 0, 0.25, 0.5: bytes 0, 64, 128 */
    GIVES(&m, 0, 3, D(2, 1, 1), 0, 0), made_free(&m);
    m = node_with(&node_colour_to_mask, "color=16512", image, NULL, NULL);
    GIVES(&m, 0, 3, D(2, 1, 1), 1, 0), made_free(&m);
    m = node_with(&node_get_image_size, "", image, NULL, NULL);
    int64_t size[3] = {0};
    for (int i = 0; i < 3; i++) CHECK_EQ(value_api.get_int(m.out[i], &size[i]), KILN_OK);
    CHECK(size[0] == 1 && size[1] == 1 && size[2] == 2);
    made_free(&m);
    value_unref(image);
}

static void test_cropping_and_padding(void)
{
    float x[4 * 5 * 3];
    for (int i = 0; i < 60; i++) x[i] = (float)i / 64;
    kiln_value *image = IMAGE_OF(1, 4, 5, 3, x, NULL);
    made m = node_with(&node_image_crop, "x=3; y=3; width=512; height=512", image, NULL, NULL);
    GIVES(&m, 0, 4, D(1, 1, 2, 3), 54 / 64.0f, 55 / 64.0f, 56 / 64.0f, 57 / 64.0f, 58 / 64.0f, 59 / 64.0f),
        made_free(&m);
    m = node_with(&node_image_crop, "x=100; y=100; width=1; height=1", image, NULL, NULL); /* the last pixel */
    GIVES(&m, 0, 4, D(1, 1, 1, 3), 57 / 64.0f, 58 / 64.0f, 59 / 64.0f), made_free(&m);
    m = node_with(&node_image_pad, "top=8; right=8; feathering=0", image, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    kiln_tensor t = view_of(m.out[0]);
    CHECK(t.dim[1] == 12 && t.dim[2] == 13);
    const float *p = t.data;
    CHECK(p[0] == 0.5f && p[(7 * 13 + 4) * 3] == 0.5f && p[(8 * 13 + 5) * 3] == 0.5f && p[(8 * 13) * 3 + 1] == x[1] &&
          p[(11 * 13 + 4) * 3 + 2] == x[59]);
    made_free(&m);
    m = node_with(&node_image_pad, "left=16384", image, NULL, NULL);
    refused(&m, KILN_ERR_INVALID, "16384 a side is the most");
    value_unref(image);
}

static void test_transparency(void)
{
    kiln_value *image = IMAGE_OF(1, 1, 2, 3, six, NULL), *mask = MASK_OF(1, 1, 2, ((const float[]){0.25f, 1}), NULL);
    made joined = node_with(&node_join_alpha, "", image, mask, NULL);
    GIVES(&joined, 0, 4, D(1, 1, 2, 4), 0, 0.25f, 0.5f, 0.75f, 0.75f, 1, 0.125f, 0);
    REQUIRE(joined.status == KILN_OK);
    made m = node_with(&node_split_alpha, "", joined.out[0], NULL, NULL);
    GIVES(&m, 0, 4, D(1, 1, 2, 3), 0, 0.25f, 0.5f, 0.75f, 1, 0.125f);
    GIVES(&m, 1, 3, D(1, 1, 2), 0.25f, 1), made_free(&m);
    m = node_with(&node_split_alpha, "", image, NULL, NULL);
    GIVES(&m, 1, 3, D(1, 1, 2), 0, 0), made_free(&m);
    m = node_with(&node_image_batch, "", image, joined.out[0], NULL);
    refused(&m, KILN_ERR_INVALID, "transparency");
    made_free(&joined);
    value_unref(image);
    value_unref(mask);
}

static void test_sizes(void)
{
    float *x;
    kiln_value *image = IMAGE_OF(1, 5, 10, 3, NULL, &x);
    for (int i = 0; i < 150; i++) x[i] = 0.5f;
    static const struct {
        const kiln_node *type;
        const char *settings;
        int64_t h, w;
    } rows[] = {{&node_image_scale, "width=0; height=0", 5, 10},
                {&node_image_scale, "width=4; height=0", 2, 4},
                {&node_image_scale, "width=0; height=3", 3, 6},
                {&node_image_scale, "width=1; height=0", 1, 1},
                {&node_image_scale_by, "scale_by=0.5", 2, 5},
                {&node_image_scale_by, "scale_by=0.01", 1, 1},
                {&node_image_scale_by, "scale_by=1.5; upscale_method=lanczos", 8, 15},
                {&node_image_scale_total, "megapixels=0.01; resolution_steps=8", 72, 144}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made m = node_with(rows[i].type, rows[i].settings, image, NULL, NULL);
        if (!CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) continue;
        kiln_tensor t = view_of(m.out[0]);
        CHECK_MSG(t.dim[1] == rows[i].h && t.dim[2] == rows[i].w, "%s: %lld x %lld", rows[i].settings,
                  (long long)t.dim[2], (long long)t.dim[1]);
        made_free(&m);
    }
    value_unref(image);
}

/* A narrow picture cut to quite other proportions: ends with at least one row or column. */
static void test_the_centre_of_a_narrow_picture(void)
{
    static const struct {
        int h, w;
        const char *settings;
    } rows[] = {{2, 100, "width=400; height=2; crop=center"},
                {100, 2, "width=2; height=400; crop=center"},
                {1, 1, "width=64; height=1; crop=center"},
                {2, 50, "width=16384; height=1; crop=center"},
                {3, 1, "width=1; height=1; crop=center; upscale_method=lanczos"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float *x;
        kiln_value *image = IMAGE_OF(1, rows[i].h, rows[i].w, 3, NULL, &x);
        for (int k = 0; k < rows[i].h * rows[i].w * 3; k++) x[k] = 1;
        made m = node_with(&node_image_scale, rows[i].settings, image, NULL, NULL);
        CHECK_MSG(m.status == KILN_OK && floats_of(m.out[0])[0] == 1, "%s: %s", rows[i].settings, m.why.message);
        made_free(&m);
        value_unref(image);
    }
}

static void test_wrong_inputs_are_refused(void)
{
    kiln_value *mask = MASK_OF(1, 1, 2, ((const float[]){0, 0}), NULL), *image = IMAGE_OF(2, 1, 1, 3, six, NULL),
               *three = IMAGE_OF(3, 1, 1, 3, ((const float[9]){0}), NULL);
    made m = node_with(&node_image_invert, "", mask, NULL, NULL);
    refused(&m, KILN_ERR_INVALID, "input 'image'");
    m = node_with(&node_image_blend, "", image, three, NULL);
    refused(&m, KILN_ERR_INVALID, "batch of 2");
    value_unref(mask);
    value_unref(image);
    value_unref(three);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_scaling),
                                      CASE(test_turning),
                                      CASE(test_blending),
                                      CASE(test_padding_pasting_feathering),
                                      CASE(test_growing),
                                      CASE(test_mask_nodes),
                                      CASE(test_picture_nodes),
                                      CASE(test_cropping_and_padding),
                                      CASE(test_transparency),
                                      CASE(test_sizes),
                                      CASE(test_the_centre_of_a_narrow_picture),
                                      CASE(test_wrong_inputs_are_refused)};
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    weights_unref(goldens_of("image.safetensors"));
    return status;
}
