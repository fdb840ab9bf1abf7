/* test_sampling_nodes.c - SIGMAS, NOISE, SAMPLER and the custom samplers beside KSampler, on the written-down network.
 *
 * What is the same computation has to be the same bytes. SIGMAS that are arithmetic of a few numbers are compared with that
 * arithmetic, rounded to float once: 2e-7 of the value.
 */
#include "guide_tables.h"
#include "sampling_kit.h"

#define LEVEL 2e-7

/* ---- sigmas ---------------------------------------------------------------------------------------------- */

/* Takes the value. */
static void check_sigmas(kiln_value *sigmas, size_t n, const double *want, const char *what)
{
    size_t have;
    const float *s = floats_of(sigmas, &have);
    if (CHECK_MSG(s != NULL && have == n, "%s: %zu levels, wanted %zu", what, have, n))
        for (size_t i = 0; i < n; i++)
            CHECK_MSG(fabs((double)s[i] - want[i]) <= LEVEL * fabs(want[i]), "%s[%zu]: %.9g, wanted %.9g", what, i, (double)s[i], want[i]);
    drop(sigmas);
}

#define LIST(...) sizeof((const double[]){__VA_ARGS__}) / sizeof(double), (const double[]){__VA_ARGS__}

static void test_formulas_as_nodes(void)
{
    check_sigmas(made(&node_karras_scheduler, "steps=6; sigma_max=12; sigma_min=0.05; rho=5", NULL, NULL), 7, karras_5, "karras");
    check_sigmas(made(&node_polyexponential_scheduler, "steps=6; sigma_max=12; sigma_min=0.05; rho=2", NULL, NULL), 7, polyexponential_2, "polyexponential");
    check_sigmas(made(&node_exponential_scheduler, "steps=3; sigma_max=16; sigma_min=0.25", NULL, NULL), LIST(16, 2, 0.25, 0), "exponential");
    check_sigmas(made(&node_laplace_scheduler, "steps=6; sigma_max=14; sigma_min=0.03; mu=0.3; beta=0.7", NULL, NULL), 6, laplace_6, "laplace");
    check_sigmas(made(&node_vp_scheduler, "steps=6", NULL, NULL), 7, vp_6, "vp");
    check_sigmas(made(&node_align_scheduler, "", NULL, NULL), 11, align_10, "align your steps");
    check_sigmas(made(&node_align_scheduler, "steps=7", NULL, NULL), 8, align_7, "align your steps");
    check_sigmas(made(&node_align_scheduler, "steps=10; denoise=0.45", NULL, NULL), 5, align_10 + 6, "align your steps, half the way: 4.5 steps are 4");
    check_sigmas(made(&node_align_scheduler, "denoise=0", NULL, NULL), 0, NULL, "align your steps, none of the way");
    kiln_value *m = network_model();
    check_sigmas(made(&node_beta_scheduler, "steps=8; alpha=0.8; beta=1.5", m, NULL), 9, beta_8, "beta");
    const double *t = table();
    check_sigmas(made(&node_turbo_scheduler, "steps=3; denoise=0.8", m, NULL), LIST(t[799], t[699], t[599], 0), "turbo");
    check_sigmas(made(&node_turbo_scheduler, "steps=10; denoise=0.2", m, NULL), LIST(t[199], t[99], 0), "turbo, more steps than there are");
    check_sigmas(made(&node_basic_scheduler, "steps=5; denoise=0", m, NULL), 0, NULL, "basic, none of the way");
    drop(m);
}

/* 30 steps of ddim_uniform are 31, and BasicScheduler keeps the last 30; KSampler takes all. */
static void test_basic_scheduler_keeps_at_most_steps(void)
{
    size_t n;
    kiln_value *m = network_model(), *s = made(&node_basic_scheduler, "scheduler=ddim_uniform; steps=30", m, NULL);
    floats_of(s, &n);
    CHECK_EQ(n, 31);
    drop(s), s = made(&node_basic_scheduler, "scheduler=karras; steps=4; denoise=0.5", m, NULL);
    kiln_value *whole = made(&node_basic_scheduler, "scheduler=karras; steps=8", m, NULL);
    const float *all = floats_of(whole, &n), *part = floats_of(s, &n);
    if (CHECK_EQ(n, 5)) CHECK(memcmp(part, all + 4, 5 * sizeof *part) == 0);
    drop(s), drop(whole), drop(m);
}

static void check_split(const kiln_node *node, const char *settings, size_t n, size_t first, size_t second)
{
    static const double sigma[] = {8, 4, 2, 1, 0};
    kiln_value *in[1] = {sigmas_of(n, sigma)}, *out[2] = {NULL};
    CHECK_EQ(call(node, settings, in, out), KILN_OK);
    check_sigmas(out[0], first, sigma, settings);
    check_sigmas(out[1], second, sigma + n - second, settings);
    drop(in[0]);
}

static void test_splits(void)
{
    check_split(&node_split_sigmas, "step=0", 5, 1, 5);
    check_split(&node_split_sigmas, "step=2", 5, 3, 3);
    check_split(&node_split_sigmas, "step=4", 5, 5, 1);
    check_split(&node_split_sigmas, "step=9", 5, 5, 0);
    check_split(&node_split_sigmas, "step=1", 0, 0, 0);
    check_split(&node_split_sigmas_denoise, "denoise=1", 5, 1, 5);
    check_split(&node_split_sigmas_denoise, "denoise=0.5", 5, 3, 3);
    check_split(&node_split_sigmas_denoise, "denoise=0.3", 5, 4, 2);
    check_split(&node_split_sigmas_denoise, "denoise=0", 5, 5, 1);
}

static void test_other_sigmas(void)
{
    kiln_value *s = sigmas_of(4, (const double[]){8, 4, 1, 0}), *none = sigmas_of(0, NULL);
    check_sigmas(made(&node_flip_sigmas, "", s, NULL), LIST(0.0001, 1, 4, 8), "flip");
    check_sigmas(made(&node_flip_sigmas, "", none, NULL), 0, NULL, "flip nothing");
    check_sigmas(made(&node_set_first_sigma, "sigma=136", s, NULL), LIST(136, 4, 1, 0), "first");
    check_sigmas(made(&node_extend_sigmas, "steps=2; end_at_sigma=2", s, NULL), LIST(8, 6, 4, 2.5, 1, 0), "extend linear");
    check_sigmas(made(&node_extend_sigmas, "steps=2; start_at_sigma=5; end_at_sigma=0", s, NULL), LIST(8, 4, 2.5, 1, 0.5, 0), "extend from 5");
    check_sigmas(made(&node_extend_sigmas, "steps=2; end_at_sigma=8; spacing=cosine", s, NULL), LIST(8, 8 - 4 * sqrt(0.5), 4, 1, 0), "extend cosine");
    check_sigmas(made(&node_extend_sigmas, "steps=2; end_at_sigma=8; spacing=sine", s, NULL), LIST(8, 8 - 4 * (1 - sqrt(0.5)), 4, 1, 0), "extend sine");
    check_sigmas(made(&node_manual_sigmas, "sigmas=14.6,3 0.5,  0", NULL, NULL), LIST(14.6, 3, 0.5, 0), "manual");
    check_sigmas(made(&node_manual_sigmas, "sigmas=", NULL, NULL), 0, NULL, "manual nothing");
    drop(s), drop(none);
}

static void test_percent_to_sigma(void)
{
    static const struct {
        const char *settings;
        double want;
    } cases[] = {{"sampling_percent=0", 999999999.9}, {"sampling_percent=1", 0}, {"sampling_percent=0; return_actual_sigma=true", 14.6146412293},
                 {"sampling_percent=1; return_actual_sigma=true", 0.0291671582}};
    kiln_value *m = network_model();
    for (size_t i = 0; i < 4; i++) {
        double d = -1;
        kiln_value *v = made(&node_percent_to_sigma, cases[i].settings, m, NULL);
        CHECK_EQ(values()->get_float(v, &d), KILN_OK);
        CHECK_MSG(fabs(d - cases[i].want) <= 1e-6 * cases[i].want, "%s: %.9g", cases[i].settings, d);
        drop(v);
    }
    drop(m);
}

static void test_sigmas_refused(void)
{
    kiln_value *m = network_model(), *none = sigmas_of(0, NULL), *in[1] = {m}, *empty[1] = {none};
    refused(&node_karras_scheduler, "rho=0", in, "rho is 0");
    refused(&node_karras_scheduler, "sigma_min=0", in, "above 0");
    refused(&node_exponential_scheduler, "sigma_max=1; sigma_min=2", in, "sigma_max the larger");
    refused(&node_polyexponential_scheduler, "sigma_min=0", in, "above 0");
    refused(&node_vp_scheduler, "beta_d=5000", in, "no number to work with");
    refused(&node_beta_scheduler, "alpha=0", in, "above 0");
    refused(&node_set_first_sigma, "", empty, "empty");
    refused(&node_manual_sigmas, "sigmas=3, x", in, "'x' is no noise level");
    refused(&node_manual_sigmas, "sigmas=3, -1", in, "'-1' is no noise level");
    refused(&node_manual_sigmas, "sigmas=nan", in, "'nan'");
    refused(&node_basic_scheduler, "steps=10000; denoise=0.01", in, "at most");
    refused(&node_sampling_sd3, "shift=0", in, "shift of 0");
    refused(&node_sampling_edm, "sigma_max=1; sigma_min=2", in, "sigma_max above it");
    drop(m), drop(none);
}

/* ---- beside KSampler ---------------------------------------------------------------------------------------- */

typedef struct {
    kiln_value *model, *yes, *no;
} texts;

static texts texts_new(void) { return (texts){network_model(), positive(), negative()}; }
static void texts_drop(texts t) { drop(t.model), drop(t.yes), drop(t.no); }

static kiln_value *ksampler(texts t, kiln_value *latent, const kiln_node *node, const char *settings)
{
    kiln_value *in[] = {t.model, t.yes, t.no, latent}, *out[1] = {NULL};
    CHECK_MSG(call(node, settings, in, out) == KILN_OK, "%s: %s", settings, call_why.message);
    return out[0];
}

static int same(const kiln_value *a, const kiln_value *b) { return a && b && memcmp(samples_of(a), samples_of(b), NUMBERS * sizeof(float)) == 0; }

/* Both custom samplers with seed 7, cfg 3, this sampler and these levels; takes the levels. */
static void check_same(texts t, kiln_value *latent, kiln_value *want, const char *sampler, kiln_value *sigmas, int noise)
{
    char settings[100];
    snprintf(settings, sizeof settings, "sampler_name=%s", sampler);
    kiln_value *how = made(&node_sampler_select, settings, NULL, NULL), *out[2] = {NULL};
    kiln_value *in[] = {t.model, t.yes, t.no, how, sigmas, latent};
    CHECK_MSG(call(&node_sampler_custom, noise ? "noise_seed=7; cfg=3" : "noise_seed=7; cfg=3; add_noise=false", in, out) == KILN_OK, "%s: %s", sampler, call_why.message);
    CHECK_MSG(same(out[0], want), "SamplerCustom with %s is not KSampler", sampler);
    drop(out[0]), drop(out[1]), out[0] = out[1] = NULL;
    kiln_value *noised = noise ? made(&node_random_noise, "noise_seed=7", NULL, NULL) : made(&node_disable_noise, "", NULL, NULL);
    sample((parts){.model = rig_host()->ref(t.model), .guider = cfg_guider(t.model, "cfg=3"), .noise = noised, .sampler = how, .sigmas = sigmas, .latent = rig_host()->ref(latent)}, out);
    /* with no noise the seed of a stochastic sampler is the NOISE's: 0 */
    if (noise) CHECK_MSG(same(out[0], want), "SamplerCustomAdvanced with %s is not KSampler: %s", sampler, call_why.message);
    drop(out[0]), drop(out[1]);
}

static void test_custom_samplers_are_ksampler(void)
{
    const kiln_sampler_api *api = rig_host()->ability(KILN_SAMPLER_ABILITY);
    static const char *const schedule[] = {"normal", "karras", "beta"};
    texts t = texts_new();
    kiln_value *latent = empty_latent();
    for (size_t i = 0; i < api->sampler_count(); i++) {
        const kiln_sampler *row = api->sampler_at(i);
        char settings[200];
        if (row->flags & KILN_SAMPLER_EXTRA_STEP) continue; /* KSampler alone drops a level for them */
        snprintf(settings, sizeof settings, "seed=7; steps=4; cfg=3; sampler_name=%s; scheduler=%s", row->name, schedule[i % 3]);
        kiln_value *want = ksampler(t, latent, &node_ksampler, settings);
        snprintf(settings, sizeof settings, "steps=4; scheduler=%s", schedule[i % 3]);
        check_same(t, latent, want, row->name, made(&node_basic_scheduler, settings, t.model, NULL), 1);
        drop(want);
    }
    drop(latent), texts_drop(t);
}

/* A latent with all that can hang on one: a mask, batch places. */
static kiln_value *rich_latent(void)
{
    float x[NUMBERS], mask[64];
    pattern(x, 0.9, 1.1);
    for (int i = 0; i < 64; i++) mask[i] = (float)(i % 8) / 7;
    kiln_value *latent = latent_of(x), *m = tensor_value(3, (const int64_t[]){1, 8, 8}, mask), *index = values()->new_list(NULL);
    for (int64_t i = 3; i > 1; i--) {
        kiln_value *k = values()->new_int(NULL, i);
        values()->list_push(index, k);
        drop(k);
    }
    values()->map_set(latent, "noise_mask", m), values()->map_set(latent, "batch_index", index);
    drop(m), drop(index);
    return latent;
}

static kiln_value *entry_with(kiln_value *list, const char *const *key, const double *number, size_t n)
{
    kiln_value *entry = values()->map_copy(NULL, values()->list_at(list, 0)), *all = values()->list_copy(NULL, list);
    for (size_t i = 0; i < n; i++) {
        kiln_value *v = values()->new_float(NULL, number[i]);
        values()->map_set(entry, key[i], v);
        drop(v);
    }
    kiln_value *area = values()->new_list(NULL);
    for (int64_t i = 0; i < 4; i++) {
        kiln_value *v = values()->new_int(NULL, i < 2 ? 1 : i - 2);
        values()->list_push(area, v);
        drop(v);
    }
    values()->map_set(entry, "area", area);
    values()->list_push(all, entry);
    drop(area), drop(entry), drop(list);
    return all;
}

static void test_masks_areas_ranges_and_batches_in_both(void)
{
    static const char *const key[] = {"strength", "start_percent", "end_percent"};
    texts t = texts_new();
    t.yes = entry_with(t.yes, key, (const double[]){0.7, 0.1, 0.6}, 3);
    kiln_value *latent = rich_latent(), *want = ksampler(t, latent, &node_ksampler, "seed=7; steps=4; cfg=3; sampler_name=euler_ancestral; scheduler=karras; denoise=0.6");
    kiln_value *plain = empty_latent(), *other = ksampler(t, plain, &node_ksampler, "seed=7; steps=4; cfg=3; sampler_name=euler_ancestral; scheduler=karras; denoise=0.6");
    CHECK(!same(want, other)); /* the latent matters */
    kiln_value *how = made(&node_sampler_select, "sampler_name=euler_ancestral", NULL, NULL), *sigmas = made(&node_basic_scheduler, "scheduler=karras; steps=4; denoise=0.6", t.model, NULL);
    kiln_value *in[] = {t.model, t.yes, t.no, how, sigmas, latent}, *out[2] = {NULL};
    CHECK_EQ(call(&node_sampler_custom, "noise_seed=7; cfg=3", in, out), KILN_OK);
    CHECK(same(out[0], want));
    CHECK_MSG(values()->map_get(out[1], "noise_mask") != NULL, "the entries of the latent are lost");
    drop(out[0]), drop(out[1]), drop(how), drop(sigmas), drop(want), drop(other), drop(plain), drop(latent), texts_drop(t);
}

/* Two stages as KSamplerAdvanced cuts them, with leftover noise, and as SplitSigmas does. */
static void test_two_stages_in_both(void)
{
    texts t = texts_new();
    kiln_value *latent = empty_latent(), *halves[2] = {NULL}, *all[1] = {made(&node_basic_scheduler, "steps=4; scheduler=karras", t.model, NULL)};
    kiln_value *first = ksampler(t, latent, &node_ksampler_advanced,
                                 "noise_seed=7; steps=4; cfg=3; scheduler=karras; end_at_step=2; return_with_leftover_noise=enable");
    kiln_value *second = ksampler(t, first, &node_ksampler_advanced, "noise_seed=7; steps=4; cfg=3; scheduler=karras; start_at_step=2; add_noise=disable");
    kiln_value *once = ksampler(t, latent, &node_ksampler, "seed=7; steps=4; cfg=3; scheduler=karras");
    CHECK_EQ(call(&node_split_sigmas, "step=2", all, halves), KILN_OK);
    check_same(t, latent, first, "euler", halves[0], 1);
    check_same(t, first, second, "euler", halves[1], 0);
    /* through the autoencoder's numbers and back: one rounding of a latent of up to 80 */
    CHECK_ARRAY(samples_of(second), samples_of(once), NUMBERS, 1e-6);
    drop(all[0]), drop(first), drop(second), drop(once), drop(latent), texts_drop(t);
}

static void test_no_levels_no_change(void)
{
    float x[NUMBERS];
    pattern(x, 0.9, 1.1);
    for (size_t n = 0; n < 2; n++) {
        kiln_value *out[2] = {NULL}, *latent = latent_of(x);
        CHECK_EQ(sample((parts){.model = network_model(), .latent = rig_host()->ref(latent), .sigmas = sigmas_of(n, (const double[]){3})}, out), KILN_OK);
        CHECK(same(out[0], latent) && same(out[1], latent));
        drop(out[0]), drop(out[1]), drop(latent);
    }
}

/* The step to 0 of a first order sampler is the guess itself, so both outputs agree; before, they differ. */
static void test_denoised_output(void)
{
    kiln_value *out[2] = {NULL};
    sample((parts){.model = network_model()}, out);
    CHECK(same(out[0], out[1]));
    drop(out[0]), drop(out[1]), out[0] = out[1] = NULL;
    sample((parts){.model = network_model(), .sigmas = sigmas_of(3, (const double[]){14.6, 5, 1})}, out);
    CHECK(!same(out[0], out[1]));
    drop(out[0]), drop(out[1]);
}

/* FlipSigmas: up from a picture to the noise it came from, and down again. The network is told log(sigma)/4: as a timestep of 1000 it
 * turns too fast for any number of steps. */
static void test_up_and_down_again(void)
{
    float x[NUMBERS];
    pattern(x, 0.9, 1.1);
    kiln_value *base = network_model(), *m = made(&node_sampling_edm, "sampling=eps", base, NULL), *down = made(&node_karras_scheduler, "steps=60; sigma_max=4; sigma_min=0.001", NULL, NULL), *up = made(&node_flip_sigmas, "", down, NULL);
    kiln_value *out[2] = {NULL}, *again[2] = {NULL}, *latent = latent_of(x), *how = made(&node_sampler_select, "sampler_name=dpmpp_2m", NULL, NULL);
    CHECK_MSG(sample((parts){.model = rig_host()->ref(m), .noise = made(&node_disable_noise, "", NULL, NULL), .sigmas = up, .latent = latent, .guider = cfg_guider(m, "cfg=1"), .sampler = rig_host()->ref(how)}, out) == KILN_OK,
              "%s", call_why.message);
    CHECK_EQ(sample((parts){.model = rig_host()->ref(m), .noise = made(&node_disable_noise, "", NULL, NULL), .sigmas = down, .latent = rig_host()->ref(out[0]), .guider = cfg_guider(m, "cfg=1"), .sampler = how}, again), KILN_OK);
    CHECK(!same(out[0], again[0]));
    CHECK_ARRAY(samples_of(again[0]), x, NUMBERS, 3.4e-3); /* 60 steps of second order each way: measured 8.5e-4, times four */
    drop(out[0]), drop(out[1]), drop(again[0]), drop(again[1]), drop(m), drop(base);
}

/* ---- noise -------------------------------------------------------------------------------------------------- */

static void test_seeds_of_64_bits(void)
{
    static const char *const seed[] = {"noise_seed=1", "noise_seed=4294967297", "noise_seed=18446744073709551615", "noise_seed=4294967295"};
    kiln_value *out[4][2] = {{NULL}};
    for (int i = 0; i < 4; i++) sample((parts){.model = network_model(), .noise = made(&node_random_noise, seed[i], NULL, NULL)}, out[i]);
    CHECK(same(out[0][0], out[1][0])); /* torch's CPU generator sees the low 32 bits */
    CHECK(same(out[2][0], out[3][0]));
    CHECK(!same(out[0][0], out[2][0]));
    for (int i = 0; i < 4; i++) drop(out[i][0]), drop(out[i][1]);
}

static void check_refused(parts p, const char *part)
{
    kiln_value *out[2] = {NULL};
    if (!p.model) p.model = network_model();
    CHECK(sample(p, out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, part) != NULL, "'%s' does not say '%s'", call_why.message, part);
    drop(out[0]), drop(out[1]);
}

static kiln_value *noised(kiln_value *model, kiln_value *noise, kiln_value *sigmas, const float *x)
{
    kiln_value *in[] = {model, noise, sigmas, latent_of(x)}, *out[1] = {NULL};
    CHECK_MSG(call(&node_add_noise, "", in, out) == KILN_OK, "%s", call_why.message);
    drop(in[3]);
    return out[0];
}

/* In the network's numbers, half of (latent - 0.1): noise times the distance of the levels on top, for a flow blended in. */
static void test_add_noise(void)
{
    float x[NUMBERS], noise[NUMBERS], want[NUMBERS];
    kiln_value *base = network_model(), *pair[] = {base, made(&node_sampling_sd3, "", base, NULL)}, *n = pattern_noise(), *none = sigmas_of(0, NULL);
    pattern(x, 0.9, 1.1), pattern(noise, 1.7, 0.3);
    for (int k = 0; k < 2; k++) {
        const double sigma[] = {k ? 0.7 : 5, k ? 0.3 : 2}, s = sigma[0] - sigma[1];
        kiln_value *levels_ = sigmas_of(2, sigma), *out = noised(pair[k], n, levels_, x);
        for (int i = 0; i < NUMBERS; i++) want[i] = (float)((s * (double)noise[i] + (k ? 1 - s : 1) * 0.5 * ((double)x[i] - 0.1)) / 0.5 + 0.1);
        CHECK_ARRAY(samples_of(out), want, NUMBERS, 4e-7); /* levels and latents are rounded to float: a few times 6e-8 */
        drop(levels_), drop(out);
    }
    kiln_value *same_one = noised(base, n, none, x);
    CHECK(memcmp(samples_of(same_one), x, sizeof x) == 0);
    drop(same_one), drop(pair[1]), drop(base), drop(n), drop(none);
}

/* Noise added by itself, then none in the sampling, is the sampling's own: below the top level, by one rounding more. */
static void test_add_noise_and_then_none(void)
{
    float x[NUMBERS];
    pattern(x, 0.9, 1.1);
    kiln_value *m = network_model(), *n = made(&node_random_noise, "noise_seed=7", NULL, NULL), *sigmas = sigmas_of(3, (const double[]){5, 2, 0}), *want[2] = {NULL}, *out[2] = {NULL};
    kiln_value *added = noised(m, n, sigmas, x);
    sample((parts){.model = rig_host()->ref(m), .noise = n, .latent = latent_of(x), .sigmas = rig_host()->ref(sigmas)}, want);
    sample((parts){.model = m, .noise = made(&node_disable_noise, "", NULL, NULL), .latent = added, .sigmas = sigmas}, out);
    CHECK_ARRAY(samples_of(out[0]), samples_of(want[0]), NUMBERS, 1e-6);
    drop(want[0]), drop(want[1]), drop(out[0]), drop(out[1]);
}

static kiln_value *sampler_map(const char *name)
{
    return map_of("sampler", values()->new_string(NULL, name, strlen(name)));
}

static void test_samplings_refused(void)
{
    float data[8] = {0};
    kiln_value *small = map_of("samples", tensor_value(4, (const int64_t[]){1, 1, 2, 4}, data)), *seed = values()->new_int(NULL, 1);
    values()->map_set(small, "seed", seed);
    check_refused((parts){.noise = small}, "the noise is 1x1x2x4, the latent 2x2x2x4");
    check_refused((parts){.noise = map_of("sed", seed)}, "'seed'");
    check_refused((parts){.sigmas = sigmas_of(3, (const double[]){3, 0, 0})}, "sigmas[1] is 0");
    check_refused((parts){.sigmas = sigmas_of(3, (const double[]){3, NAN, 0})}, "sigmas[1] is nan");
    check_refused((parts){.sigmas = sigmas_of(3, (const double[]){3, -1, 0})}, "sigmas[1] is -1");
    check_refused((parts){.sigmas = sigmas_of(3, (const double[]){1, 3, 0}), .sampler = made(&node_sampler_select, "sampler_name=euler_ancestral", NULL, NULL)},
                  "sigmas[1] is 3, above the 1 before it; sampler 'euler_ancestral'");
    check_refused((parts){.sampler = sampler_map("eulr")}, "did you mean 'euler'?");
    check_refused((parts){.sampler = map_of("name", values()->new_int(NULL, 1))}, "name of a sampler");
    check_refused((parts){.guider = map_of("kind", values()->new_string(NULL, "cgf", 3))}, "kind is 'cgf'");
}

/* ---- options ------------------------------------------------------------------------------------------------ */

static void test_option_names_and_values_are_checked(void)
{
    static const struct {
        const char *settings, *part;
    } cases[] = {
        {"sampler_name=euler_ancestral; options=etta=1", "has no option 'etta'; did you mean 'eta'?"},
        {"sampler_name=euler_ancestral; options=eta=1000", "is 1000; it goes from 0 to 100"},
        {"sampler_name=euler_ancestral; options=eta=much", "wants a number"},
        {"sampler_name=euler_ancestral; options=eta", "is not NAME=VALUE"},
        {"sampler_name=euler_ancestral; options=eta=1, eta=0", "there twice"},
        {"sampler_name=euler_ancestral; options=eta=1,", "is not NAME=VALUE"},
        {"sampler_name=ddim; options=eta=1", "has no option"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) refused(&node_sampler_select, cases[i].settings, NULL, cases[i].part);
    drop(made(&node_sampler_select, "sampler_name=euler_ancestral; options=  ", NULL, NULL));
}

static const kiln_param *option_at(const kiln_sampler *row, size_t i) { return (const void *)((const char *)row->param + i * row->param_stride); }

/* The k-th value to try for an option, as NAME=VALUE; 0 when there are no more. */
static int other_value(const kiln_param *p, int k, char text[80])
{
    const double number[] = {p->def + 0.37, p->def * 0.63, 0.2, 1.9}, whole[] = {p->def - 1, p->def + 1, p->min};
    int choices = 0;
    while (p->type == KILN_P_ENUM && p->choice[choices].name) choices++;
    switch (p->type) {
    case KILN_P_BOOL: return k < 1 ? snprintf(text, 80, "%s=%s", p->name, p->def != 0 ? "false" : "true") : 0;
    case KILN_P_ENUM: return k < choices ? snprintf(text, 80, "%s=%s", p->name, p->choice[k].name) : 0;
    case KILN_P_INT: return k < 3 ? snprintf(text, 80, "%s=%d", p->name, (int)fmin(fmax(whole[k], p->min), p->max)) : 0;
    case KILN_P_FLOAT: return k < 4 ? snprintf(text, 80, "%s=%.17g", p->name, fmin(fmax(number[k], p->min), p->max)) : 0;
    default: return 0;
    }
}

/* Settings under which an option is tried as well, for those that act only beside another: all that is 0 made something (churn, the
 * parts of a step control), then each choice of each enum. 0 when there are no more. */
static int context_at(const kiln_param *param, size_t n, uint32_t stride, size_t but, int which, const char *between, char *text, size_t room)
{
    int seen = 0;
    char one[80];
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const kiln_param *p = (const void *)((const char *)param + i * stride);
        if (i == but) continue;
        if (which == 1 && p->type == KILN_P_FLOAT && p->def == 0 && other_value(p, 0, one)) snprintf(text + strlen(text), room - strlen(text), "%s%s", one, between);
        for (int k = 0; which > 1 && p->type == KILN_P_ENUM && other_value(p, k, one); k++)
            if (++seen == which - 1) return snprintf(text, room, "%s%s", one, between);
    }
    return which < 2;
}

/* NULL: refused. */
static kiln_value *sampled(kiln_value *how)
{
    kiln_value *out[2] = {NULL};
    sample((parts){.model = network_model(), .noise = made(&node_random_noise, "noise_seed=3", NULL, NULL), .sampler = how,
                   .sigmas = made(&node_karras_scheduler, "steps=7; sigma_max=14; sigma_min=0.03", NULL, NULL)}, out);
    drop(out[1]);
    return out[0];
}

static kiln_value *sampled_with(const char *sampler, const char *options)
{
    char settings[1024];
    snprintf(settings, sizeof settings, "sampler_name=%s; options=%s", sampler, options);
    return sampled(made(&node_sampler_select, settings, NULL, NULL));
}

/* Does one of its values give another latent, other things being as `context` says? */
static int changes(const kiln_sampler *row, size_t i, const char *context)
{
    char one[80], text[700];
    int changed = 0, length = (int)strlen(context) - 2; /* without the last comma */
    snprintf(text, sizeof text, "%.*s", length > 0 ? length : 0, context);
    kiln_value *usual = sampled_with(row->name, text);
    for (int k = 0; usual && !changed && other_value(option_at(row, i), k, one); k++) {
        snprintf(text, sizeof text, "%s%s", context, one);
        kiln_value *v = sampled_with(row->name, text);
        changed = v && !same(v, usual);
        drop(v);
    }
    drop(usual);
    return changed;
}

static int acts(const kiln_sampler *row, size_t i)
{
    char context[600];
    for (int which = 0; context_at(row->param, row->n_param, row->param_stride, i, which, ", ", context, sizeof context); which++)
        if (changes(row, i, context)) return 1;
    return 0;
}

static void test_S13_every_option_of_every_sampler_acts(void)
{
    const kiln_sampler_api *api = rig_host()->ability(KILN_SAMPLER_ABILITY);
    size_t options = 0;
    for (size_t r = 0; r < api->sampler_count(); r++) {
        const kiln_sampler *row = api->sampler_at(r);
        for (size_t i = 0; i < row->n_param; i++, options++)
            CHECK_MSG(acts(row, i), "option '%s' of sampler '%s' changes nothing", option_at(row, i)->name, row->name);
    }
    CHECK(options > 0);
}

/* ---- the Sampler nodes ------------------------------------------------------------------------------------------ */

static const struct {
    const kiln_node *node;
    const char *sampler;
} option_nodes[] = {
    {&node_sampler_euler_ancestral, "euler_ancestral"}, {&node_sampler_euler_ancestral_cfgpp, "euler_ancestral_cfg_pp"},
    {&node_sampler_dpmpp_2s, "dpmpp_2s_ancestral"}, {&node_sampler_dpmpp_2m_sde, "dpmpp_2m_sde_gpu"}, {&node_sampler_dpmpp_3m_sde, "dpmpp_3m_sde_gpu"},
    {&node_sampler_dpmpp_sde, "dpmpp_sde_gpu"}, {&node_sampler_lms, "lms"}, {&node_sampler_dpm_adaptive, "dpm_adaptive"},
    {&node_sampler_er_sde, "er_sde"}, {&node_sampler_seeds_2, "seeds_2"}, {&node_sampler_lcm, "lcm"}, {&node_sampler_sa_solver, "sa_solver"},
};

static kiln_value *node_sampled(const kiln_node *node, const char *settings) { return sampled(made(node, settings, NULL, NULL)); }

static int node_changes(const kiln_node *node, uint32_t i, const char *context)
{
    char one[80], text[700];
    int changed = 0;
    kiln_value *usual = node_sampled(node, context);
    for (int k = 0; usual && !changed && other_value(&node->param[i], k, one); k++) {
        snprintf(text, sizeof text, "%s%s", context, one);
        kiln_value *v = node_sampled(node, text);
        changed = v && !same(v, usual);
        drop(v);
    }
    drop(usual);
    return changed;
}

static int node_acts(const kiln_node *node, uint32_t i)
{
    char context[600];
    for (int which = 0; context_at(node->param, node->n_param, node->param_stride, i, which, "; ", context, sizeof context); which++)
        if (node_changes(node, i, context)) return 1;
    return 0;
}

static void test_S13_every_parameter_of_the_sampler_nodes_acts(void)
{
    const kiln_sampler_api *api = rig_host()->ability(KILN_SAMPLER_ABILITY);
    for (size_t i = 0; i < sizeof option_nodes / sizeof option_nodes[0]; i++) {
        const kiln_node *node = option_nodes[i].node;
        if (!CHECK_MSG(api->sampler(option_nodes[i].sampler) != NULL, "no sampler '%s' for %s", option_nodes[i].sampler, node->type)) continue;
        kiln_value *usual = node_sampled(node, ""), *plain = sampled_with(option_nodes[i].sampler, "");
        CHECK_MSG(usual != NULL, "%s: %s", node->type, call_why.message);
        CHECK_MSG(same(usual, plain), "%s at its defaults is not %s", node->type, option_nodes[i].sampler);
        drop(usual), drop(plain);
        for (uint32_t k = 0; k < node->n_param; k++)
            CHECK_MSG(node_acts(node, k), "parameter '%s' of %s changes nothing", node->param[k].name, node->type);
    }
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {
        CASE(test_formulas_as_nodes), CASE(test_basic_scheduler_keeps_at_most_steps), CASE(test_splits), CASE(test_other_sigmas), CASE(test_percent_to_sigma),
        CASE(test_sigmas_refused), CASE(test_custom_samplers_are_ksampler), CASE(test_masks_areas_ranges_and_batches_in_both), CASE(test_two_stages_in_both),
        CASE(test_no_levels_no_change), CASE(test_denoised_output), CASE(test_up_and_down_again), CASE(test_seeds_of_64_bits), CASE(test_add_noise), CASE(test_add_noise_and_then_none), CASE(test_samplings_refused),
        CASE(test_option_names_and_values_are_checked), CASE(test_S13_every_option_of_every_sampler_acts),
        CASE(test_S13_every_parameter_of_the_sampler_nodes_acts),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
