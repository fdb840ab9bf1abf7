/* test_image_quantize.c - ImageQuantize against Pillow (tests/golden/quantize.safetensors): equal pixels. */
#include "golden_value.h"

#include "image.h"
#include "median_cut.h"

static kiln_value *golden(const char *name) { return golden_of("quantize.safetensors", name); }

static void check_one(const char *picture, int colours, const char *dither)
{
    char settings[100], name[100];
    snprintf(settings, sizeof settings, "colors=%d; dither=%s", colours, dither);
    snprintf(name, sizeof name, "%s.%d.%s", picture, colours, dither);
    kiln_value *in = golden(picture), *wanted = golden(name);
    made m = node_with(&node_image_quantize, settings, in, NULL, NULL);
    if (CHECK_MSG(m.status == KILN_OK, "%s: %s", name, m.why.message)) {
        kiln_tensor a = view_of(m.out[0]), b = view_of(wanted);
        size_t n = (size_t)(b.dim[1] * b.dim[2] * 3), wrong = 0;
        CHECK(a.rank == 4 && a.dim[1] == b.dim[1] && a.dim[2] == b.dim[2] && a.dim[3] == 3);
        for (size_t i = 0; i < n; i++) wrong += ((const float *)a.data)[i] != ((const float *)b.data)[i];
        CHECK_MSG(wrong == 0, "%s: %zu of %zu differ", name, wrong, n);
        made_free(&m);
    }
    value_unref(in), value_unref(wanted);
}

static void test_as_pillow(void)
{
    static const char *const dither[] = {"none", "floyd-steinberg", "bayer-2", "bayer-4", "bayer-8", "bayer-16"},
                             *const picture[] = {"noise", "smooth"};
    static const struct {
        int colours, n;
    } rows[] = {{1, 1}, {5, 6}, {16, 3}, {256, 2}};
    for (int p = 0; p < 2; p++)
        for (int r = 0; r < 4; r++)
            for (int d = 0; d < rows[r].n; d++) check_one(picture[p], rows[r].colours, dither[d]);
}

/* A picture with so many colours that low bits are left out. */
static void test_many_colours(void)
{
    enum { N = 320 * 320 };
    uint8_t *pixels = malloc(N * 3);
    uint32_t x = 1;
    palette p;
    REQUIRE(pixels != NULL);
    for (size_t i = 0; i < N * 3; i++) x = x * 1664525u + 1013904223u, pixels[i] = (uint8_t)(x >> 24);
    REQUIRE(median_cut(pixels, N, 16, &p));
    kiln_value *wanted = golden("palette");
    kiln_tensor w = view_of(wanted);
    CHECK_EQ(p.n, 16);
    for (int i = 0; i < 48; i++) CHECK_EQ(p.rgb[i / 3][i % 3], (int)((const float *)w.data)[i]);
    value_unref(wanted);
    free(pixels);
}

/* Alpha stays as it is, and each picture has a palette of its own. */
static void test_alpha_and_batch(void)
{
    const int64_t dim[] = {2, 1, 2, 4};
    kiln_value *in;
    float *v;
    in = tensor_of(4, dim, NULL, &v);
    const float pixels[] = {1, 0, 0, 0.25f, 0, 1, 0, 0.5f, 0, 0, 1, 0.75f, 0, 0, 0.5019608f, 1};
    memcpy(v, pixels, sizeof pixels);
    made m = node_with(&node_image_quantize, "colors=2", in, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    const float *got = view_of(m.out[0]).data;
    for (int i = 0; i < 4; i++) CHECK(got[4 * i + 3] == pixels[4 * i + 3]);
    for (int i = 0; i < 16; i++) CHECK_NEAR(got[i], pixels[i], 1e-6);
    made_free(&m);
    value_unref(in);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_as_pillow), CASE(test_many_colours), CASE(test_alpha_and_batch)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
