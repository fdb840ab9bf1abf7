/* test_image_filters.c - Canny, blurring, sharpening and hints for controls, against ComfyUI's nodes, numpy and scipy
 * (tests/golden/image_filters.safetensors, written by scripts/golden/image_filters.py).
 *
 * Tolerance: sums are f32 in another order than torch's; LineArt multiplies a difference of such sums by its gain.
 */
#include "golden_value.h"

#include "image.h"

#include <math.h>

#define SUMS 2e-6
#define LINES 2e-5

static kiln_value *golden_value(const char *name) { return golden_of("image_filters.safetensors", name); }

static void check(const kiln_node *type, const char *settings, const char *what, const char *of, double tolerance)
{
    char name[60];
    snprintf(name, sizeof name, "%s.%s", what, of);
    kiln_value *in = golden_value(of), *wanted = golden_value(name);
    made m = node_with(type, settings, in, NULL, NULL);
    if (CHECK_MSG(m.status == KILN_OK, "%s: %s", name, m.why.message)) {
        kiln_tensor a = view_of(m.out[0]), b = view_of(wanted);
        size_t n = 1, wrong = 0;
        for (uint32_t i = 0; i < 4; i++) n *= (size_t)b.dim[i], wrong += a.dim[i] != b.dim[i];
        double worst = 0;
        size_t off = 0;
        for (size_t i = 0; !wrong && i < n; i++) {
            double d = fabs((double)((const float *)a.data)[i] - (double)((const float *)b.data)[i]);
            worst = fmax(worst, d), off += d > tolerance;
        }
        CHECK_MSG(!wrong && !off, "%s: %zu numbers are off, by %g", name, off, worst);
    }
    value_unref(in), value_unref(wanted);
    made_free(&m);
}

static void test_filters_equal_their_goldens(void)
{
    static const char *const pictures[] = {"shapes", "soft"};
    for (int i = 0; i < 2; i++) {
        check(&node_canny, "", "canny", pictures[i], 0);
        check(&node_canny, "low_threshold=0.05; high_threshold=0.2", "canny_low", pictures[i], 0);
        check(&node_image_blur, "blur_radius=3; sigma=0.7", "blur", pictures[i], SUMS);
        check(&node_image_sharpen, "sharpen_radius=2; sigma=1.3; alpha=0.4", "sharpen", pictures[i], 10 * SUMS);
        check(&node_image_threshold, "threshold=0.35", "threshold", pictures[i], 0);
        check(&node_line_art, "sigma=1.2", "lines", pictures[i], LINES);
        check(&node_colour_blocks, "block_size=16", "blocks", pictures[i], SUMS);
    }
    check(&node_image_blur, "blur_radius=20; sigma=10", "blur_wide", "soft", SUMS);
}

/* What differs from what went in. */
static size_t changed(const kiln_node *type, const char *settings, uint32_t channels, int64_t side)
{
    float *into;
    kiln_value *in = tensor_of(4, (const int64_t[]){1, side, side, channels}, NULL, &into);
    size_t n = (size_t)(side * side) * channels, count = 0;
    for (size_t i = 0; i < n; i++) into[i] = (float)(i * 7 % 11) / 10;
    made m = node_with(type, settings, in, NULL, NULL);
    if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) {
        const float *out = view_of(m.out[0]).data;
        for (size_t i = 0; i < n; i++) {
            CHECK(isfinite(out[i]));
            count += out[i] != into[i];
            if (channels == 4 && i % 4 == 3 && type != &node_image_blur) CHECK_EQ(out[i], into[i]); /* alpha stays */
        }
    }
    value_unref(in);
    made_free(&m);
    return count;
}

static void test_small_pictures_and_channels(void)
{
    static const kiln_node *const all[] = {&node_image_blur, &node_image_threshold, &node_line_art};
    for (int64_t side = 1; side < 5; side++)
        for (uint32_t channels = 3; channels <= 4; channels++)
            for (size_t i = 0; i < 3; i++) changed(all[i], "", channels, side);
    CHECK_EQ(changed(&node_image_sharpen, "alpha=0", 3, 8), 0);
    CHECK(changed(&node_image_sharpen, "alpha=1", 3, 8) > 0);
    for (int64_t side = 1; side < 5; side++)
        for (uint32_t channels = 3; channels <= 4; channels++) {
            float *into;
            kiln_value *in = tensor_of(4, (const int64_t[]){2, side, side, channels}, NULL, &into);
            memset(into, 0, (size_t)(2 * side * side) * channels * sizeof *into);
            made m = node_with(&node_canny, "", in, NULL, NULL);
            CHECK_MSG(m.status == KILN_OK && view_of(m.out[0]).dim[3] == 3 && view_of(m.out[0]).dim[0] == 2, "%s",
                      m.why.message);
            value_unref(in);
            made_free(&m);
        }
}

static void test_thresholds_that_cross(void)
{
    float *into;
    kiln_value *in = tensor_of(4, (const int64_t[]){1, 4, 4, 3}, NULL, &into);
    made m = node_with(&node_canny, "low_threshold=0.9; high_threshold=0.5", in, NULL, NULL);
    CHECK(m.status != KILN_OK);
    CHECK_MSG(strstr(m.why.message, "low_threshold (0.9) is above high_threshold (0.5)") != NULL, "%s", m.why.message);
    value_unref(in);
    made_free(&m);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_filters_equal_their_goldens), CASE(test_small_pictures_and_channels),
                                      CASE(test_thresholds_that_cross)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
