/* test_image_resize.c - ResizeImageMaskNode: the size that each way gives, by ComfyUI's roundings, and that the pixels
 * are ImageScale's. */
#include "golden_value.h"

#include "image.h"

static kiln_value *ramp(uint32_t rank, int64_t h, int64_t w)
{
    const int64_t dim[] = {2, h, w, 3};
    float *v;
    kiln_value *t = tensor_of(rank, dim, NULL, &v);
    for (int64_t i = 0; i < 2 * h * w * (rank > 3 ? 3 : 1); i++) v[i] = (float)(i * 37 % 101) / 100;
    return t;
}

static void test_sizes(void)
{
    static const struct {
        const char *settings;
        int64_t h, w, to_h, to_w;
    } rows[] = {
        {"resize_type=scale dimensions; resize_type.width=9; resize_type.height=0", 20, 31, 6, 9},
        {"resize_type=scale dimensions; resize_type.width=0; resize_type.height=9", 20, 31, 9, 14},
        {"resize_type=scale dimensions; resize_type.width=0; resize_type.height=0", 20, 31, 20, 31},
        {"resize_type=scale dimensions; resize_type.width=7; resize_type.height=5", 20, 31, 5, 7},
        {"resize_type=scale by multiplier; resize_type.multiplier=0.5", 21, 31, 10, 16}, /* half to even */
        {"resize_type=scale by multiplier; resize_type.multiplier=0.01", 20, 31, 1, 1},
        {"resize_type=scale longer dimension; resize_type.longer_size=10", 20, 31, 6, 10},
        {"resize_type=scale longer dimension; resize_type.longer_size=10", 31, 20, 10, 6},
        {"resize_type=scale shorter dimension; resize_type.shorter_size=10", 20, 31, 10, 16},
        {"resize_type=scale shorter dimension; resize_type.shorter_size=10", 31, 20, 16, 10},
        {"resize_type=scale shorter dimension; resize_type.shorter_size=10", 20, 20, 10, 10},
        {"resize_type=scale width; resize_type.width=10", 20, 31, 6, 10},
        {"resize_type=scale height; resize_type.height=10", 20, 31, 10, 16},
        {"resize_type=scale height; resize_type.height=0", 20, 31, 20, 31},
        {"resize_type=scale total pixels; resize_type.megapixels=0.01", 20, 31, 82, 127}, /* of 10485 pixels */
        {"resize_type=scale to multiple; resize_type.multiple=8", 20, 31, 16, 24},
        {"resize_type=scale to multiple; resize_type.multiple=8", 31, 20, 24, 16},
        {"resize_type=scale to multiple; resize_type.multiple=64", 20, 31, 20, 31},
        {"resize_type=scale to multiple; resize_type.multiple=1", 20, 31, 20, 31},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        uint32_t rank = i % 2 ? 3 : 4;
        kiln_value *in = ramp(rank, rows[i / 2].h, rows[i / 2].w);
        made m = node_with(&node_resize_image_mask, rows[i / 2].settings, in, NULL, NULL);
        if (CHECK_MSG(m.status == KILN_OK, "%s: %s", rows[i / 2].settings, m.why.message)) {
            kiln_tensor t = view_of(m.out[0]);
            CHECK_MSG(t.rank == rank && t.dim[0] == 2 && t.dim[1] == rows[i / 2].to_h && t.dim[2] == rows[i / 2].to_w &&
                          (rank < 4 || t.dim[3] == 3),
                      "%s: %lld x %lld", rows[i / 2].settings, (long long)t.dim[1], (long long)t.dim[2]);
            made_free(&m);
        }
        value_unref(in);
    }
}

static void same_pixels(const char *settings, const char *scale)
{
    kiln_value *in = ramp(4, 20, 31);
    made a = node_with(&node_resize_image_mask, settings, in, NULL, NULL);
    made b = node_with(&node_image_scale, scale, in, NULL, NULL);
    REQUIRE(a.status == KILN_OK && b.status == KILN_OK);
    kiln_tensor x = view_of(a.out[0]), y = view_of(b.out[0]);
    CHECK_MSG(memcmp(x.dim, y.dim, 4 * sizeof *x.dim) == 0 &&
                  memcmp(x.data, y.data, (size_t)(x.dim[0] * x.dim[1] * x.dim[2] * 3) * sizeof(float)) == 0,
              "%s", settings);
    made_free(&a), made_free(&b);
    value_unref(in);
}

static void test_pixels(void)
{
    same_pixels("resize_type.width=9; resize_type.height=9; scale_method=bicubic",
                "width=9; height=9; crop=center; upscale_method=bicubic");
    same_pixels("resize_type.width=9; resize_type.height=9; resize_type.crop=disabled; scale_method=lanczos",
                "width=9; height=9; upscale_method=lanczos");
    same_pixels("resize_type=scale width; resize_type.width=62", "width=62; height=40; upscale_method=area");
}

static void test_like_another(void)
{
    kiln_value *in = ramp(3, 20, 31), *like = ramp(4, 5, 7);
    made m = node_with(&node_resize_image_mask, "resize_type=match size", in, like, NULL);
    REQUIRE(m.status == KILN_OK);
    kiln_tensor t = view_of(m.out[0]);
    CHECK(t.rank == 3 && t.dim[1] == 5 && t.dim[2] == 7);
    made_free(&m);
    m = node_with(&node_resize_image_mask, "resize_type=match size", in, NULL, NULL);
    CHECK(m.status == KILN_ERR_INVALID && strstr(m.why.message, "resize_type.match is missing"));
    made_free(&m);
    value_unref(in), value_unref(like);
}

/* The middle of what covers it: with a factor of 24/31 columns are cut off at both sides, rows at none. */
static void test_middle(void)
{
    const int64_t dim[] = {1, 4, 10};
    float *v;
    kiln_value *in = tensor_of(3, dim, NULL, &v);
    for (int i = 0; i < 40; i++) v[i] = (float)(i % 10) / 10;
    made m =
        node_with(&node_resize_image_mask,
                  "resize_type=scale to multiple; resize_type.multiple=4; scale_method=nearest-exact", in, NULL, NULL);
    REQUIRE(m.status == KILN_OK);
    kiln_tensor t = view_of(m.out[0]);
    CHECK(t.dim[1] == 4 && t.dim[2] == 8);
    const float *got = t.data;
    for (int i = 0; i < 32; i++) CHECK(got[i] == (float)(i % 8 + 1) / 10);
    made_free(&m);
    value_unref(in);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_sizes), CASE(test_pixels), CASE(test_like_another), CASE(test_middle)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
