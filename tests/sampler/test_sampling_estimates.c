/* test_sampling_estimates.c - the sampling nodes in an estimate (kiln/plugin.h): tensors have shapes and no data,
 * nothing is computed, and as much is counted as a run computes.
 */
#include "sampling_kit.h"

enum { STEPS = 6 };

static const kiln_sampler *row_at(size_t i)
{
    return ((const kiln_sampler_api *)rig_host()->ability(KILN_SAMPLER_ABILITY))->sampler_at(i);
}

static size_t rows(void)
{
    return ((const kiln_sampler_api *)rig_host()->ability(KILN_SAMPLER_ABILITY))->sampler_count();
}

static double runs_so_far(void) { return (double)runtime_usage_get(rig_runtime).runs; }

/* Estimated from here on, or computed again. */
static void estimating(int on)
{
    rig_ctx();
    rig_environment.estimate = on;
}

static kiln_value *masked_latent(void)
{
    float x[NUMBERS], mask[PICTURES * CELLS];
    pattern(x, 0.7, 0.1);
    for (int i = 0; i < PICTURES * CELLS; i++) mask[i] = (float)(i % 3) / 2;
    kiln_value *latent = latent_of(x), *m = tensor_value(3, (const int64_t[]){PICTURES, 2, 2}, mask);
    CHECK_EQ(values()->map_set(latent, "noise_mask", m), KILN_OK);
    drop(m);
    return latent;
}

/* What one call of KSampler counts or computes. */
static double ksampler(kiln_value *model, kiln_value *latent, const char *settings)
{
    kiln_value *in[4] = {model, positive(), negative(), latent}, *out[1] = {NULL};
    double before = runs_so_far();
    estimating(rig_environment.estimate);
    CHECK_MSG(call(&node_ksampler, settings, in, out) == KILN_OK, "%s: %s", settings, call_why.message);
    kiln_tensor t = {.size = sizeof t};
    CHECK(out[0] && rig_host()->view(NULL, values()->map_get(out[0], "samples"), &t) == KILN_OK &&
          t.dim[0] == PICTURES && t.dim[1] == 2 && t.dim[3] == CHANNELS);
    drop(in[1]), drop(in[2]), drop(out[0]);
    return runs_so_far() - before;
}

/* A sampler whose steps follow from what it computes takes fewer where nothing is. */
static int chooses_its_steps(const kiln_sampler *row) { return strcmp(row->name, "dpm_adaptive") == 0; }

static void test_every_sampler_counts_what_it_computes(void)
{
    kiln_value *model = network_model();
    for (size_t i = 0; i < rows(); i++) {
        char settings[128];
        snprintf(settings, sizeof settings, "seed=1; steps=%d; cfg=3; sampler_name=%s; scheduler=karras", STEPS,
                 row_at(i)->name);
        for (int masked = 0; masked < 2; masked++) {
            kiln_value *latent = masked ? masked_latent() : empty_latent();
            double computed = ksampler(model, latent, settings);
            estimating(1);
            double estimated = ksampler(model, latent, settings);
            estimating(0);
            CHECK_MSG(computed > 0 && estimated > 0, "%s counts nothing", row_at(i)->name);
            if (!chooses_its_steps(row_at(i)))
                CHECK_MSG(computed == estimated, "%s computes %g, estimated %g", row_at(i)->name, computed, estimated);
            drop(latent);
        }
    }
    drop(model);
}

/* The whole chain with what an estimate makes of each node: no value has data, and every node gives its outputs. */
static double custom_sampling(kiln_value *model, const kiln_node *sampler, const char *options, kiln_value *sigmas)
{
    double before = runs_so_far();
    kiln_value *out[2] = {NULL}, *noise = made(&node_random_noise, "noise_seed=4", NULL, NULL),
               *how = made(sampler, options, model, NULL);
    CHECK_MSG(sample((parts){.model = rig_host()->ref(model), .noise = noise, .sampler = how, .sigmas = sigmas}, out) ==
                  KILN_OK,
              "%s: %s", options, call_why.message);
    CHECK(out[0] && out[1]);
    drop(out[0]), drop(out[1]);
    return runs_so_far() - before;
}

static kiln_value *levels(kiln_value *model)
{
    return made(&node_basic_scheduler, "scheduler=karras; steps=6", model, NULL);
}

static void test_custom_sampling_counts_what_it_computes(void)
{
    static const struct {
        const kiln_node *sampler;
        const char *options;
    } cases[] = {{&node_sampler_select, "sampler_name=dpmpp_2m"},
                 {&node_sampler_sa_solver, ""},
                 {&node_sampler_lcm_upscale, "scale_ratio=2; scale_steps=3"},
                 {&node_sampler_lcm, "noise_clip_std=2"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kiln_value *model = network_model();
        double computed = custom_sampling(model, cases[i].sampler, cases[i].options, levels(model));
        estimating(1);
        double estimated = custom_sampling(model, cases[i].sampler, cases[i].options, levels(model));
        estimating(0);
        CHECK_MSG(computed > 0 && computed == estimated, "case %zu computes %g, estimated %g", i, computed, estimated);
        drop(model);
    }
}

static void test_levels_have_their_count(void)
{
    kiln_value *model = network_model();
    kiln_tensor t = {.size = sizeof t};
    estimating(1);
    kiln_value *all = levels(model), *in[1] = {all}, *out[2] = {NULL};
    CHECK_EQ(call(&node_split_sigmas, "step=2", in, out), KILN_OK);
    CHECK(rig_host()->view(NULL, out[1], &t) == KILN_OK && t.dim[0] == 5);
    drop(out[0]), drop(out[1]);
    kiln_value *more = made(&node_extend_sigmas, "steps=3; end_at_sigma=12", all, NULL);
    CHECK(rig_host()->view(NULL, more, &t) == KILN_OK && t.dim[0] == 19); /* as if every step were divided */
    kiln_value *manual = made(&node_manual_sigmas, "sigmas=3, 2, 1", NULL, NULL),
               *flipped = made(&node_flip_sigmas, "", manual, NULL),
               *first = made(&node_set_first_sigma, "", all, NULL);
    CHECK(rig_host()->view(NULL, flipped, &t) == KILN_OK && t.dim[0] == 3);
    drop(all), drop(more), drop(manual), drop(flipped), drop(first);
    estimating(0);
    drop(model);
}

static void test_noise_is_added_to_nothing(void)
{
    kiln_value *model = network_model(), *out[1] = {NULL};
    estimating(1);
    kiln_value *in[4] = {model, made(&node_random_noise, "", NULL, NULL), levels(model), empty_latent()};
    CHECK_MSG(call(&node_add_noise, "", in, out) == KILN_OK, "%s", call_why.message);
    for (int i = 1; i < 4; i++) drop(in[i]);
    drop(out[0]);
    estimating(0);
    drop(model);
}

int main(int argc, char **argv)
{
    open_plugin();
    const test_case cases[] = {CASE(test_every_sampler_counts_what_it_computes),
                               CASE(test_custom_sampling_counts_what_it_computes), CASE(test_levels_have_their_count),
                               CASE(test_noise_is_added_to_nothing)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
