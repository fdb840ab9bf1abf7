/* test_sampling_nodes.c - the custom samplers beside KSampler, NOISE, and what is refused, on the written-down network.
 *
 * What is the same computation has to be the same bytes.
 */
#include "sampling_kit.h"

/* ---- beside KSampler ---- */

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

/* Both custom samplers with seed 7, cfg 3, this sampler and these levels; takes the levels. */
static void check_same(texts t, kiln_value *latent, kiln_value *want, const char *sampler, kiln_value *sigmas,
                       int noise)
{
    char settings[100];
    snprintf(settings, sizeof settings, "sampler_name=%s", sampler);
    kiln_value *how = made(&node_sampler_select, settings, NULL, NULL), *out[2] = {NULL};
    kiln_value *in[] = {t.model, t.yes, t.no, how, sigmas, latent};
    CHECK_MSG(call(&node_sampler_custom, noise ? "noise_seed=7; cfg=3" : "noise_seed=7; cfg=3; add_noise=false", in,
                   out) == KILN_OK,
              "%s: %s", sampler, call_why.message);
    CHECK_MSG(same_latent(out[0], want), "SamplerCustom with %s is not KSampler", sampler);
    drop(out[0]), drop(out[1]), out[0] = out[1] = NULL;
    kiln_value *noised =
        noise ? made(&node_random_noise, "noise_seed=7", NULL, NULL) : made(&node_disable_noise, "", NULL, NULL);
    sample((parts){.model = rig_host()->ref(t.model),
                   .guider = cfg_guider(t.model, "cfg=3"),
                   .noise = noised,
                   .sampler = how,
                   .sigmas = sigmas,
                   .latent = rig_host()->ref(latent)},
           out);
    /* with no noise the seed of a stochastic sampler is the NOISE's: 0 */
    if (noise)
        CHECK_MSG(same_latent(out[0], want), "SamplerCustomAdvanced with %s is not KSampler: %s", sampler,
                  call_why.message);
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
        snprintf(settings, sizeof settings, "seed=7; steps=4; cfg=3; sampler_name=%s; scheduler=%s", row->name,
                 schedule[i % 3]);
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
    kiln_value *latent = latent_of(x), *m = tensor_value(3, (const int64_t[]){1, 8, 8}, mask),
               *index = values()->new_list(NULL);
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
    kiln_value *latent = rich_latent(),
               *want = ksampler(t, latent, &node_ksampler,
                                "seed=7; steps=4; cfg=3; sampler_name=euler_ancestral; scheduler=karras; denoise=0.6");
    kiln_value *plain = empty_latent(),
               *other = ksampler(t, plain, &node_ksampler,
                                 "seed=7; steps=4; cfg=3; sampler_name=euler_ancestral; scheduler=karras; denoise=0.6");
    CHECK(!same_latent(want, other)); /* the latent matters */
    kiln_value *how = made(&node_sampler_select, "sampler_name=euler_ancestral", NULL, NULL),
               *sigmas = made(&node_basic_scheduler, "scheduler=karras; steps=4; denoise=0.6", t.model, NULL);
    kiln_value *in[] = {t.model, t.yes, t.no, how, sigmas, latent}, *out[2] = {NULL};
    CHECK_EQ(call(&node_sampler_custom, "noise_seed=7; cfg=3", in, out), KILN_OK);
    CHECK(same_latent(out[0], want));
    CHECK_MSG(values()->map_get(out[1], "noise_mask") != NULL, "the entries of the latent are lost");
    drop(out[0]), drop(out[1]), drop(how), drop(sigmas), drop(want), drop(other), drop(plain), drop(latent),
        texts_drop(t);
}

/* Two stages as KSamplerAdvanced cuts them, with leftover noise, and as SplitSigmas does. */
static void test_two_stages_in_both(void)
{
    texts t = texts_new();
    kiln_value *latent = empty_latent(), *halves[2] = {NULL},
               *all[1] = {made(&node_basic_scheduler, "steps=4; scheduler=karras", t.model, NULL)};
    kiln_value *first =
        ksampler(t, latent, &node_ksampler_advanced,
                 "noise_seed=7; steps=4; cfg=3; scheduler=karras; end_at_step=2; return_with_leftover_noise=enable");
    kiln_value *second = ksampler(t, first, &node_ksampler_advanced,
                                  "noise_seed=7; steps=4; cfg=3; scheduler=karras; start_at_step=2; add_noise=disable");
    kiln_value *once = ksampler(t, latent, &node_ksampler, "seed=7; steps=4; cfg=3; scheduler=karras");
    CHECK_EQ(call(&node_split_sigmas, "step=2", all, halves), KILN_OK);
    check_same(t, latent, first, "euler", halves[0], 1);
    check_same(t, first, second, "euler", halves[1], 0);
    CHECK(same_latent(second, once));
    drop(all[0]), drop(first), drop(second), drop(once), drop(latent), texts_drop(t);
}

static void test_no_levels_no_change(void)
{
    float x[NUMBERS];
    pattern(x, 0.9, 1.1);
    for (size_t n = 0; n < 2; n++) {
        kiln_value *out[2] = {NULL}, *latent = latent_of(x);
        CHECK_EQ(sample((parts){.model = network_model(),
                                .latent = rig_host()->ref(latent),
                                .sigmas = sigmas_of(n, (const double[]){3})},
                        out),
                 KILN_OK);
        CHECK(same_latent(out[0], latent) && same_latent(out[1], latent));
        drop(out[0]), drop(out[1]), drop(latent);
    }
}

/* The step to 0 of a first order sampler is the guess itself, so both outputs agree; before, they differ. */
static void test_denoised_output(void)
{
    kiln_value *out[2] = {NULL};
    sample((parts){.model = network_model()}, out);
    CHECK(same_latent(out[0], out[1]));
    drop(out[0]), drop(out[1]), out[0] = out[1] = NULL;
    sample((parts){.model = network_model(), .sigmas = sigmas_of(3, (const double[]){14.6, 5, 1})}, out);
    CHECK(!same_latent(out[0], out[1]));
    drop(out[0]), drop(out[1]);
}

/* FlipSigmas: up from a picture to the noise it came from, and down again. The network is given log(sigma)/4: as a
 * timestep of 1000 it turns too fast for any number of steps. */
static void test_up_and_down_again(void)
{
    float x[NUMBERS];
    pattern(x, 0.9, 1.1);
    kiln_value *base = network_model(), *m = made(&node_sampling_edm, "sampling=eps", base, NULL),
               *down = made(&node_karras_scheduler, "steps=60; sigma_max=4; sigma_min=0.001", NULL, NULL),
               *up = made(&node_flip_sigmas, "", down, NULL);
    kiln_value *out[2] = {NULL}, *again[2] = {NULL}, *latent = latent_of(x),
               *how = made(&node_sampler_select, "sampler_name=dpmpp_2m", NULL, NULL);
    CHECK_MSG(sample((parts){.model = rig_host()->ref(m),
                             .noise = made(&node_disable_noise, "", NULL, NULL),
                             .sigmas = up,
                             .latent = latent,
                             .guider = cfg_guider(m, "cfg=1"),
                             .sampler = rig_host()->ref(how)},
                     out) == KILN_OK,
              "%s", call_why.message);
    CHECK_EQ(sample((parts){.model = rig_host()->ref(m),
                            .noise = made(&node_disable_noise, "", NULL, NULL),
                            .sigmas = down,
                            .latent = rig_host()->ref(out[0]),
                            .guider = cfg_guider(m, "cfg=1"),
                            .sampler = how},
                    again),
             KILN_OK);
    CHECK(!same_latent(out[0], again[0]));
    CHECK_ARRAY(samples_of(again[0]), x, NUMBERS,
                3.4e-3); /* 60 steps of second order each way: measured 8.5e-4, times four */
    drop(out[0]), drop(out[1]), drop(again[0]), drop(again[1]), drop(m), drop(base);
}

/* ---- noise ---- */

static void test_seeds_of_64_bits(void)
{
    static const char *const seed[] = {"noise_seed=1", "noise_seed=4294967297", "noise_seed=18446744073709551615",
                                       "noise_seed=4294967295"};
    kiln_value *out[4][2] = {{NULL}};
    for (int i = 0; i < 4; i++)
        sample((parts){.model = network_model(), .noise = made(&node_random_noise, seed[i], NULL, NULL)}, out[i]);
    CHECK(same_latent(out[0][0], out[1][0])); /* torch's CPU generator sees the low 32 bits */
    CHECK(same_latent(out[2][0], out[3][0]));
    CHECK(!same_latent(out[0][0], out[2][0]));
    for (int i = 0; i < 4; i++) drop(out[i][0]), drop(out[i][1]);
}

/* Cells of a mask of 0 come back as they were given, but for the rounding of a scale and a shift; the others do not. */
static void test_outside_the_mask_is_kept(void)
{
    static const char *const names[] = {"euler", "dpmpp_2m", "ddim", "euler_ancestral"};
    float start[NUMBERS], mask[PICTURES * CELLS];
    pattern(start, 0.7, 0.1);
    for (int i = 0; i < PICTURES * CELLS; i++) mask[i] = (float)(i % 2);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char settings[64];
        kiln_value *latent = latent_of(start), *m = tensor_value(3, (const int64_t[]){PICTURES, 2, 2}, mask),
                   *out[2] = {NULL};
        CHECK_EQ(values()->map_set(latent, "noise_mask", m), KILN_OK);
        snprintf(settings, sizeof settings, "sampler_name=%s", names[k]);
        CHECK_EQ(sample((parts){.model = network_model(),
                                .latent = latent,
                                .sampler = made(&node_sampler_select, settings, NULL, NULL)},
                        out),
                 KILN_OK);
        const float *x = samples_of(out[0]);
        for (int i = 0; i < NUMBERS; i++) {
            double d = fabs((double)x[i] - (double)start[i]);
            CHECK_MSG(mask[i / CHANNELS] == 0 ? d < 1e-6 : d > 1e-4, "%s: element %d is %g from what was given",
                      names[k], i, d);
        }
        drop(m), drop(out[0]), drop(out[1]);
    }
}

/* ---- a sampler that breaks the rules for latents is stopped with a sentence ---- */

static int way;

static kiln_status breaking(const kiln_sampling *s)
{
    const kiln_latents *l = s->latents;
    kiln_latent *small = l->create(l, &(kiln_latent_shape){.height = 1}),
                *mask = l->create(l, &(kiln_latent_shape){.channels = 1});
    if (!small || !mask) return KILN_ERR_NOMEM;
    switch (way) {
    case 0: s->lincomb(s, s->x, 1, (double[]){1}, &small); break;
    case 1: l->blend(l, s->x, s->x, s->x, small); break;
    case 2: l->crop(l, small, s->x, (kiln_latent_place){2, 0}); break;
    case 3: l->accumulate(l, s->x, small, small, NULL, (kiln_latent_place){0, 0}); break;
    case 4: l->divide(l, small, mask); break;
    case 5: l->add_difference(l, s->x, s->x, 2, small, s->x); break;
    case 6: return s->denoise(s, small, s->sigma[0], small);
    default: return s->fail(s, KILN_ERR_INVALID, "no more ways");
    }
    return s->step(s, 0, s->x);
}

static const kiln_sampler breaking_row = {.size = sizeof breaking_row, .name = "test_breaking", .run = breaking};

static void test_latents_that_do_not_go_together(void)
{
    const kiln_sampler_api *samplers = rig_host()->ability(KILN_SAMPLER_ABILITY);
    size_t before = registry_mark();
    registry_owner_set("test", NULL);
    CHECK_EQ(samplers->register_sampler(&breaking_row), KILN_OK);
    registry_owner_set(NULL, NULL);
    for (way = 0; way <= 7; way++) {
        kiln_value *out[2] = {NULL};
        CHECK(sample((parts){.model = network_model(),
                             .sampler = made(&node_sampler_select, "sampler_name=test_breaking", NULL, NULL)},
                     out) != KILN_OK);
        const char *want = way == 2   ? "outside its picture"
                           : way == 6 ? "not of the sampling's size"
                           : way == 7 ? "no more ways"
                                      : "do not go together";
        CHECK_MSG(strstr(call_why.message, want) != NULL, "way %d: %s", way, call_why.message);
    }
    registry_rewind(before); /* the other tests run every sampler there is */
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

/* In the network's numbers, half of (latent - 0.1): noise times the distance of the levels on top, for a flow blended
 * in. */
static void test_add_noise(void)
{
    float x[NUMBERS], noise[NUMBERS], want[NUMBERS];
    kiln_value *base = network_model(), *pair[] = {base, made(&node_sampling_sd3, "", base, NULL)},
               *n = pattern_noise(), *none = sigmas_of(0, NULL);
    pattern(x, 0.9, 1.1), pattern(noise, 1.7, 0.3);
    for (int k = 0; k < 2; k++) {
        const double sigma[] = {k ? 0.7 : 5, k ? 0.3 : 2}, s = sigma[0] - sigma[1];
        kiln_value *levels_ = sigmas_of(2, sigma), *out = noised(pair[k], n, levels_, x);
        for (int i = 0; i < NUMBERS; i++)
            want[i] = (float)((s * (double)noise[i] + (k ? 1 - s : 1) * 0.5 * ((double)x[i] - 0.1)) / 0.5 + 0.1);
        CHECK_ARRAY(samples_of(out), want, NUMBERS,
                    4e-7); /* levels and latents are rounded to float: a few times 6e-8 */
        drop(levels_), drop(out);
    }
    kiln_value *same_one = noised(base, n, none, x);
    CHECK(memcmp(samples_of(same_one), x, sizeof x) == 0);
    drop(same_one), drop(pair[1]), drop(base), drop(n), drop(none);
}

/* Noise added by itself, then none in the sampling, is the sampling's own: below the top level, by one rounding more.
 */
static void test_add_noise_and_then_none(void)
{
    float x[NUMBERS];
    pattern(x, 0.9, 1.1);
    kiln_value *m = network_model(), *n = made(&node_random_noise, "noise_seed=7", NULL, NULL),
               *sigmas = sigmas_of(3, (const double[]){5, 2, 0}), *want[2] = {NULL}, *out[2] = {NULL};
    kiln_value *added = noised(m, n, sigmas, x);
    sample((parts){.model = rig_host()->ref(m), .noise = n, .latent = latent_of(x), .sigmas = rig_host()->ref(sigmas)},
           want);
    sample((parts){.model = m, .noise = made(&node_disable_noise, "", NULL, NULL), .latent = added, .sigmas = sigmas},
           out);
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
    kiln_value *small = map_of("samples", tensor_value(4, (const int64_t[]){1, 1, 2, 4}, data)),
               *seed = values()->new_int(NULL, 1);
    values()->map_set(small, "seed", seed);
    check_refused((parts){.noise = small}, "the noise is 1x1x2x4, the latent 2x2x2x4");
    check_refused((parts){.noise = map_of("sed", seed)}, "NOISE.seed is missing; it has to be a whole number");
    check_refused((parts){.sigmas = sigmas_of(3, (const double[]){3, 0, 0})}, "sigmas[1] is 0");
    check_refused((parts){.sigmas = sigmas_of(3, (const double[]){3, NAN, 0})}, "sigmas[1] is nan");
    check_refused((parts){.sigmas = sigmas_of(3, (const double[]){3, -1, 0})}, "sigmas[1] is -1");
    check_refused((parts){.sigmas = sigmas_of(3, (const double[]){1, 3, 0}),
                          .sampler = made(&node_sampler_select, "sampler_name=euler_ancestral", NULL, NULL)},
                  "sigmas[1] is 3, above the 1 before it; sampler 'euler_ancestral'");
    check_refused((parts){.sampler = sampler_map("eulr")}, "did you mean 'euler'?");
    check_refused((parts){.sampler = map_of("name", values()->new_int(NULL, 1))},
                  "SAMPLER.sampler is missing; it has to be a text");
    check_refused((parts){.guider = map_of("kind", values()->new_string(NULL, "cgf", 3))},
                  "kind 'cgf'; did you mean 'cfg'");
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {
        CASE(test_custom_samplers_are_ksampler),
        CASE(test_masks_areas_ranges_and_batches_in_both),
        CASE(test_two_stages_in_both),
        CASE(test_no_levels_no_change),
        CASE(test_denoised_output),
        CASE(test_up_and_down_again),
        CASE(test_seeds_of_64_bits),
        CASE(test_add_noise),
        CASE(test_add_noise_and_then_none),
        CASE(test_outside_the_mask_is_kept),
        CASE(test_latents_that_do_not_go_together),
        CASE(test_samplings_refused),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
