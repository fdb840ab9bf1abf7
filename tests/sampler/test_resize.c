/* test_resize.c - a sampling whose latent changes its size on the way (SamplerLCMUpscale), against PyTorch
 * (denoise_tables.h, from scripts/golden/denoise.py), and bislerp by itself.
 *
 * Tolerance: as test_denoise.c's runs: float32 latents and a float32 network against float64, four evaluations at
 * guidance 3, and a scaling or two between: 1.2e-6 of the norm. bislerp alone is computed in double on both sides:
 * 2e-7.
 */
#include "kiln/bislerp.h" /* before the engine's headers: its locals have names of theirs */
#include "denoise_tables.h"
#include "sampling_kit.h"

static void check_grown(kiln_value *latent, const double *want, int64_t h, int64_t w, const char *what)
{
    float numbers[256];
    size_t n = (size_t)(PICTURES * h * w * CHANNELS);
    kiln_tensor t = {.size = sizeof t};
    REQUIRE(n <= 256 && latent && rig_host()->view(rig_ctx(), values()->map_get(latent, "samples"), &t) == KILN_OK);
    if (!CHECK_MSG(t.dim[0] == PICTURES && t.dim[1] == h && t.dim[2] == w && t.dim[3] == CHANNELS,
                   "%s: %lldx%lld cells", what, (long long)t.dim[1], (long long)t.dim[2]))
        return;
    for (size_t i = 0; i < n; i++) numbers[i] = (float)want[i];
    check_array(t.data, numbers, (int)n, 1.2e-6, what, __FILE__, __LINE__);
}

static void check_run(const char *settings, kiln_value *model, const double *want, int64_t h, int64_t w)
{
    kiln_value *out[2] = {NULL};
    CHECK_MSG(sample((parts){.model = model, .sampler = made(&node_sampler_lcm_upscale, settings, NULL, NULL)}, out) ==
                  KILN_OK,
              "%s: %s", settings, call_why.message);
    check_grown(out[0], want, h, w, settings);
    CHECK_MSG(same_latent(out[0], out[1]), "%s: the last guess is of another size", settings);
    drop(out[0]), drop(out[1]);
}

static void test_each_way_of_scaling(void)
{
    check_run("scale_ratio=2", network_model(), growing_bislerp_run, 4, 4);
    check_run("scale_ratio=2; scale_steps=2; upscale_method=nearest-exact", network_model(), growing_nearest_run, 4, 4);
    check_run("scale_ratio=2; upscale_method=bilinear", network_model(), growing_bilinear_run, 4, 4);
    check_run("scale_ratio=2; upscale_method=area", network_model(), growing_area_run, 4, 4);
    check_run("scale_ratio=2; upscale_method=bicubic", network_model(), growing_bicubic_run, 4, 4);
    check_run("scale_ratio=0.5; scale_steps=3; upscale_method=bilinear", network_model(), shrinking_run, 1, 1);
    kiln_value *base = network_model();
    check_run("scale_ratio=1.5; scale_steps=1", made(&node_sampling_sd3, "shift=3", base, NULL), growing_flow_run, 3,
              3);
    drop(base);
}

/* Without a change of size it is lcm but for where its noise comes from; with none of the steps it is that at any
 * ratio. */
static void test_no_change_of_size(void)
{
    static const char *const settings[] = {"scale_ratio=1", "scale_ratio=3; scale_steps=0",
                                           "scale_ratio=1; scale_steps=4; upscale_method=area"};
    kiln_value *first[2] = {NULL};
    for (int i = 0; i < 3; i++) {
        kiln_value *out[2] = {NULL};
        sample((parts){.model = network_model(), .sampler = made(&node_sampler_lcm_upscale, settings[i], NULL, NULL)},
               out);
        if (i == 0) memcpy(first, out, sizeof first);
        CHECK_MSG(same_latent(out[0], first[0]), "%s", settings[i]);
        if (i) drop(out[0]), drop(out[1]);
    }
    drop(first[0]), drop(first[1]);
}

static void test_a_mask_is_refused(void)
{
    static const float mask[CELLS] = {1, 0, 1, 0.5f};
    kiln_value *out[2] = {NULL}, *latent = empty_latent(), *m = tensor_value(3, (const int64_t[]){1, 2, 2}, mask);
    values()->map_set(latent, "noise_mask", m);
    CHECK_EQ(sample((parts){.model = network_model(),
                            .latent = rig_host()->ref(latent),
                            .sampler = made(&node_sampler_lcm_upscale, "scale_ratio=2", NULL, NULL)},
                    out),
             KILN_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(call_why.message, "noise_mask") != NULL, "%s", call_why.message);
    CHECK_EQ(sample((parts){.model = network_model(),
                            .latent = latent,
                            .sampler = made(&node_sampler_lcm_upscale, "", NULL, NULL)},
                    out),
             KILN_OK);
    drop(out[0]), drop(out[1]), drop(m);
}

/* Areas are read again at the new size: a share of the picture stays that share. */
static void test_areas_are_of_the_new_size(void)
{
    kiln_value *out[2][2] = {{NULL}};
    for (int with = 0; with < 2; with++) {
        kiln_value *m = network_model(), *yes = positive(), *no = negative(), *in[3] = {m, yes, no},
                   *guider[1] = {NULL};
        kiln_value *entry = values()->map_copy(NULL, values()->list_at(yes, 0)), *share = values()->new_list(NULL);
        static const double box[4] = {0.5, 1, 0.5, 0}; /* height, width, y, x: the lower half */
        for (int i = 0; i < 4; i++) {
            kiln_value *v = values()->new_float(NULL, box[i]);
            values()->list_push(share, v), drop(v);
        }
        values()->map_set(entry, "area_percent", share);
        if (with) values()->list_push(yes, entry);
        CHECK_EQ(call(&node_cfg_guider, "cfg=3", in, guider), KILN_OK);
        CHECK_MSG(sample((parts){.model = m,
                                 .guider = guider[0],
                                 .sampler = made(&node_sampler_lcm_upscale, "scale_ratio=2", NULL, NULL)},
                         out[with]) == KILN_OK,
                  "%s", call_why.message);
        drop(yes), drop(no), drop(entry), drop(share);
    }
    /* the same tokens with the same strength in both halves: nothing changes, whatever the size */
    size_t n = 0, k = 0;
    const float *a = floats_of(values()->map_get(out[0][0], "samples"), &n),
                *b = floats_of(values()->map_get(out[1][0], "samples"), &k);
    REQUIRE(a && b && n == k && n == 128);
    CHECK_ARRAY(b, a, 128, 1.2e-6);
    for (int i = 0; i < 4; i++) drop(out[i / 2][i % 2]);
}

static void check_plane(const float *from, int64_t h, int64_t w, int64_t to_h, int64_t to_w, const double *want,
                        const char *what)
{
    float between[256], have[256];
    bislerp_plane((resize_source){.data = from, .h = h, .w = w, .c = CHANNELS, .row = w * CHANNELS}, between, have,
                  to_h, to_w);
    for (int64_t i = 0; i < to_h * to_w * CHANNELS; i++)
        CHECK_MSG(fabs((double)have[i] - want[i]) <= 2e-7, "%s[%d]: %g, wanted %g", what, (int)i, (double)have[i],
                  want[i]);
}

static void test_bislerp(void)
{
    float x[NUMBERS], opposite[16], same[16];
    pattern(x, 0.9, 1.1);
    check_plane(x, 2, 2, 3, 5, bislerp_3x5, "bislerp");
    for (int row = 0; row < 2; row++)
        for (int k = 0; k < 8; k++) opposite[row * 8 + k] = k < 4 ? x[row * 8 + k] : -x[row * 8 + k - 4];
    check_plane(opposite, 2, 2, 2, 5, bislerp_opposite, "bislerp of opposite cells");
    bislerp_plane((resize_source){.data = x, .h = 2, .w = 2, .c = CHANNELS, .row = 2 * CHANNELS}, opposite, same, 2, 2);
    for (int i = 0; i < 16; i++)
        CHECK_MSG(fabs((double)same[i] - (double)x[i]) <= 2e-7, "to its own size: [%d] is %g, was %g", i,
                  (double)same[i], (double)x[i]);
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {
        CASE(test_each_way_of_scaling),       CASE(test_no_change_of_size), CASE(test_a_mask_is_refused),
        CASE(test_areas_are_of_the_new_size), CASE(test_bislerp),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
