/* test_conditioning_nodes.c - ConditioningSetModelRange and SD_4XUpscale_Conditioning: the keys they set, and what is
 * refused. */
#include "conditioning.h"
#include "node_kit.h"

static kiln_value *text(float number)
{
    kiln_value *list = value_list(), *entry = value_map(),
               *tokens = tensor_of(3, (const int64_t[]){1, 1, 1}, &number, NULL);
    CHECK_EQ(value_api.map_set(entry, "tokens", tokens), KILN_OK);
    CHECK_EQ(value_api.list_push(list, entry), KILN_OK);
    value_unref(tokens), value_unref(entry);
    return list;
}

static const kiln_value *entry_of(const kiln_value *list) { return value_api.list_at(list, 0); }

static void test_a_range_is_bound(void)
{
    kiln_value *given = text(3);
    made m = node_with(&node_conditioning_set_model_range, "model_range=low noise", given, NULL, NULL);
    if (!CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) exit(1);
    CHECK_STR(value_api.get_string(value_api.map_get(entry_of(m.out[0]), "model_range"), NULL), "low noise");
    CHECK_NEAR((double)*floats_of(value_api.map_get(entry_of(m.out[0]), "tokens")), 3, 0);
    CHECK(!value_api.map_get(entry_of(given), "model_range")); /* what was given stays */
    made_free(&m);
    m = node_with(&node_conditioning_set_model_range, "model_range=", given, NULL, NULL);
    refused(&m, KILN_ERR_INVALID, "model_range is empty");
    value_unref(given);
}

/* 12x9 pixels times 4: 48x36, so 12x9 cells, and the picture as it is. */
static void test_the_small_picture(void)
{
    enum { W = 12, H = 9, N = 2 };
    float *x;
    kiln_value *image = IMAGE_OF(N, H, W, 3, NULL, &x), *yes = text(1), *no = text(2);
    for (int i = 0; i < N * H * W * 3; i++) x[i] = (float)(i % 101) / 100;
    made m = node_with(&node_upscale_conditioning, "noise_augmentation=0.25", image, yes, no);
    if (!CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) exit(1);
    for (int k = 0; k < 2; k++) {
        const kiln_value *e = entry_of(m.out[k]), *small = value_api.map_get(e, "concat_image");
        double augmentation = 0;
        kiln_tensor t = view_of(small);
        CHECK(t.rank == 4 && t.dim[0] == N && t.dim[1] == H && t.dim[2] == W && t.dim[3] == 3);
        for (int i = 0; i < N * H * W * 3; i++)
            CHECK_NEAR((double)((const float *)t.data)[i], 2 * (double)x[i] - 1, 1e-6);
        CHECK(value_api.get_float(value_api.map_get(e, "noise_augmentation"), &augmentation) == KILN_OK);
        CHECK_NEAR(augmentation, 0.25, 0);
        CHECK_NEAR((double)*floats_of(value_api.map_get(e, "tokens")), k + 1, 0);
    }
    kiln_tensor latent = view_of(value_api.map_get(m.out[2], "samples"));
    CHECK(latent.dim[0] == N && latent.dim[1] == H && latent.dim[2] == W && latent.dim[3] == 4);
    for (int i = 0; i < N * H * W * 4; i++) CHECK(((const float *)latent.data)[i] == 0);
    made_free(&m), value_unref(image), value_unref(yes), value_unref(no);
}

/* Sizes that are no multiple of a cell: 35x30 times 1.1 is 38x33 (halves to even: 38.5 is 38), so 9x8 cells; the
 * picture loses what is wider than these proportions. */
static void test_other_sizes(void)
{
    float *x;
    kiln_value *image = IMAGE_OF(1, 30, 35, 3, NULL, &x), *yes = text(1), *no = text(2);
    for (int i = 0; i < 30 * 35 * 3; i++) x[i] = (float)(i / 3 % 35) / 34; /* from left to right */
    made m = node_with(&node_upscale_conditioning, "scale_ratio=1.1", image, yes, no);
    if (!CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) exit(1);
    kiln_tensor t = view_of(value_api.map_get(entry_of(m.out[0]), "concat_image"));
    const float *row = t.data;
    CHECK(t.dim[1] == 8 && t.dim[2] == 9);
    for (int i = 0; i < 9; i++) CHECK_NEAR((double)(row[i * 3] + row[(8 - i) * 3]), 0, 1e-5); /* the middle is kept */
    made_free(&m);
    m = node_with(&node_upscale_conditioning, "scale_ratio=0.1", image, yes, no);
    refused(&m, KILN_ERR_INVALID, "scale_ratio 0.1 makes less than 4 pixels of a side");
    value_unref(image), value_unref(yes), value_unref(no);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_a_range_is_bound), CASE(test_the_small_picture),
                                      CASE(test_other_sizes)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
