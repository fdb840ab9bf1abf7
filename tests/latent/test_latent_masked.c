/* test_latent_masked.c - LatentCompositeMasked, worked out cell by cell: where it lands, what the mask weighs, what is
 * repeated and what lies outside.
 */
#include "latent.h"
#include "node_kit.h"

enum { C = 4 };

/* n pictures of h x w cells; cell i of picture k is base + 100 k + i in all channels. */
static kiln_value *latent_of(int64_t n, int64_t h, int64_t w, double base)
{
    float *cells;
    kiln_value *map = value_map(), *samples = tensor_of(4, (const int64_t[]){n, h, w, C}, NULL, &cells);
    for (int64_t i = 0; i < n * h * w * C; i++)
        cells[i] = (float)(base + 100 * (double)(i / (h * w * C)) + (double)(i / C % (h * w)));
    if (!CHECK_EQ(value_api.map_set(map, "samples", samples), KILN_OK)) exit(1);
    value_unref(samples);
    return map;
}

static double cell(const kiln_value *latent, int64_t n, int64_t y, int64_t x)
{
    kiln_tensor t = view_of(value_api.map_get(latent, "samples"));
    return (double)((const float *)t.data)[((n * t.dim[1] + y) * t.dim[2] + x) * C];
}

static made paste(const char *settings, kiln_value *to, kiln_value *from, kiln_value *mask)
{
    made m = node_with(&node_latent_composite_masked, settings, to, from, mask);
    if (!CHECK_MSG(m.status == KILN_OK, "%s: %s", settings, m.why.message)) exit(1);
    return m;
}

static void test_without_a_mask(void)
{
    kiln_value *to = latent_of(2, 4, 5, 1000), *from = latent_of(1, 2, 3, 0);
    made m = paste("x=31; y=16", to, from, NULL); /* three cells right, two down */
    for (int n = 0; n < 2; n++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 5; x++) {
                int inside = y >= 2 && x >= 3;
                CHECK_NEAR(cell(m.out[0], n, y, x), inside ? (y - 2) * 3 + x - 3 : 1000 + 100 * n + y * 5 + x, 0);
            }
    made_free(&m);
    m = paste("x=40; y=0", to, from, NULL);
    CHECK_NEAR(cell(m.out[0], 1, 3, 4), 1119, 0); /* nothing of it lies inside */
    made_free(&m), value_unref(to), value_unref(from);
}

static void test_a_mask_for_each_picture(void)
{
    const float numbers[] = {1, 0.25f, 0, 0.5f, 0, 1, 1, 0};
    kiln_value *to = latent_of(3, 2, 2, 1000), *from = latent_of(2, 2, 2, 0), *mask = MASK_OF(2, 2, 2, numbers, NULL);
    made m = paste("", to, from, mask);
    for (int n = 0; n < 3; n++) /* the third picture has the first source and mask again */
        for (int i = 0; i < 4; i++) {
            double gain = (double)numbers[n % 2 * 4 + i], onto = 1000 + 100 * n + i, source = 100 * (n % 2) + i;
            CHECK_NEAR(cell(m.out[0], n, i / 2, i % 2), gain * source + (1 - gain) * onto, 1e-3);
        }
    made_free(&m), value_unref(to), value_unref(from), value_unref(mask);
}

/* The source grows to the destination, the mask to the source: both linearly. */
static void test_resized(void)
{
    const float numbers[] = {0, 1};
    kiln_value *to = latent_of(1, 1, 4, 1000), *from = latent_of(1, 1, 2, 0), *mask = MASK_OF(1, 1, 2, numbers, NULL);
    made m = paste("resize_source=true", to, from, mask);
    const double share[] = {0, 0.25, 0.75, 1}; /* of the second of two at four places */
    for (int x = 0; x < 4; x++)
        CHECK_NEAR(cell(m.out[0], 0, 0, x), share[x] * share[x] + (1 - share[x]) * (1000 + x), 1e-3);
    made_free(&m), value_unref(to), value_unref(from), value_unref(mask);
}

static void test_what_does_not_fit(void)
{
    float *x;
    kiln_value *to = latent_of(1, 2, 2, 0), *other = value_map(),
               *samples = tensor_of(4, (const int64_t[]){1, 2, 2, 8}, NULL, &x);
    memset(x, 0, 32 * sizeof *x);
    value_api.map_set(other, "samples", samples);
    made m = node_with(&node_latent_composite_masked, "", to, other, NULL);
    refused(&m, KILN_ERR_INVALID, "the latents have 4 and 8 channels");
    value_unref(to), value_unref(other), value_unref(samples);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_without_a_mask), CASE(test_a_mask_for_each_picture), CASE(test_resized),
                                      CASE(test_what_does_not_fit)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
