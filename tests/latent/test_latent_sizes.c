/* test_latent_sizes.c - how many cells LatentUpscale and LatentUpscaleBy make, from ComfyUI's rules worked out by hand:
 * a factor times the cells is rounded, halves to even; a side that is 0 is its proportion in pixels, rounded; then 64
 * pixels at least, and eight to a cell.
 */
#include "latent.h"
#include "node_kit.h"

static kiln_value *latent_of(int64_t h, int64_t w)
{
    float *cells;
    kiln_value *map = value_map(), *samples = tensor_of(4, (const int64_t[]){1, h, w, 4}, NULL, &cells);
    for (int64_t i = 0; i < h * w * 4; i++) cells[i] = (float)i;
    if (!CHECK_EQ(value_api.map_set(map, "samples", samples), KILN_OK)) exit(1);
    value_unref(samples);
    return map;
}

typedef struct {
    const char *settings;
    int64_t h, w, new_h, new_w; /* cells */
} size_case;

static void check_sizes(const kiln_node *type, const size_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kiln_value *in = latent_of(cases[i].h, cases[i].w);
        made m = node_with(type, cases[i].settings, in, NULL, NULL);
        if (CHECK_MSG(m.status == KILN_OK, "%s: %s", cases[i].settings, m.why.message)) {
            kiln_tensor t = view_of(value_api.map_get(m.out[0], "samples"));
            CHECK_MSG(t.dim[1] == cases[i].new_h && t.dim[2] == cases[i].new_w,
                      "%s of %lldx%lld cells: %lldx%lld, wanted %lldx%lld", cases[i].settings, (long long)cases[i].w,
                      (long long)cases[i].h, (long long)t.dim[2], (long long)t.dim[1], (long long)cases[i].new_w,
                      (long long)cases[i].new_h);
        }
        made_free(&m);
        value_unref(in);
    }
}

static void test_a_factor_rounds_halves_to_even(void)
{
    static const size_case cases[] = {
        {"scale_by=1.5", 15, 13, 22, 20}, /* 22.5 and 19.5 */
        {"scale_by=1.5", 8, 9, 12, 14},   /* 13.5 */
        {"scale_by=0.5", 5, 7, 2, 4},     /* 2.5 and 3.5 */
        {"scale_by=0.7", 9, 15, 6, 10},   /* 6.3 and 10.5, which is a little less in binary */
    };
    check_sizes(&node_latent_upscale_by, cases, sizeof cases / sizeof cases[0]);
}

static void test_a_side_left_out_is_rounded_in_pixels(void)
{
    static const size_case cases[] = {
        {"width=104; height=0", 9, 15, 8, 13},  /* 62.4 pixels are 62, and 64 the least */
        {"width=200; height=0", 9, 15, 15, 25}, /* 120 */
        {"width=184; height=0", 9, 15, 13, 23}, /* 110.4: 110 pixels are 13 cells; 13.8 cells would be 14 */
        {"width=0; height=88", 9, 15, 11, 18},  /* 146.67: 147 are 18; 18.33 cells */
        {"width=0; height=96", 9, 11, 12, 14},  /* 117.33 pixels: 14.67 cells would be 15 */
        {"width=0; height=0", 9, 15, 9, 15},
    };
    check_sizes(&node_latent_upscale, cases, sizeof cases / sizeof cases[0]);
}

static void test_no_side_is_below_64_pixels(void)
{
    static const size_case cases[] = {
        {"width=32; height=96", 9, 15, 12, 8},
        {"width=96; height=8", 9, 15, 8, 12},
        {"width=32; height=0", 9, 15, 8, 8},  /* 64 wide; 38.4 high */
        {"width=0; height=16", 9, 15, 8, 13}, /* 64 high, so 106.67 wide: 107 pixels */
    };
    check_sizes(&node_latent_upscale, cases, sizeof cases / sizeof cases[0]);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_a_factor_rounds_halves_to_even),
                                      CASE(test_a_side_left_out_is_rounded_in_pixels),
                                      CASE(test_no_side_is_below_64_pixels)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
