/* test_differential_diffusion.c - a noise mask that says when a cell begins, against samplings that begin there.
 *
 * The written-down network looks at one cell at a time, so a cell that is kept up to a level and drawn from there on is
 * that cell of a picture that was sampled from that level.
 */
#include "sampling_kit.h"

enum { STEPS = 6, FIRST = 1 }; /* the first level of all has noise of its own scale (sqrt(1 + sigma^2)) */

static kiln_value *latent_with_mask(const float *mask)
{
    float x[NUMBERS];
    pattern(x, 0.9, 1.1);
    kiln_value *latent = latent_of(x), *m;
    if (!mask) return latent;
    m = tensor_value(3, (const int64_t[]){1, 2, 2}, mask);
    CHECK_EQ(values()->map_set(latent, "noise_mask", m), KILN_OK);
    drop(m);
    return latent;
}

/* KSamplerAdvanced from that step on. Takes the latent. */
static kiln_value *drawn(kiln_value *m, kiln_value *latent, const char *sampler, int first)
{
    char text[200];
    kiln_value *in[] = {m, positive(), negative(), latent}, *out[1] = {NULL};
    snprintf(text, sizeof text,
             "noise_seed=7; steps=%d; cfg=2; scheduler=sgm_uniform; sampler_name=%s; start_at_step=%d", STEPS, sampler,
             first);
    CHECK_MSG(call(&node_ksampler_advanced, text, in, out) == KILN_OK, "%s", call_why.message);
    drop(in[1]), drop(in[2]), drop(latent);
    return out[0];
}

/* How much of the way is left at step i, in timesteps: 1 at FIRST. */
static double share_left(kiln_value *m, int i)
{
    char text[60];
    size_t n;
    snprintf(text, sizeof text, "steps=%d; scheduler=sgm_uniform", STEPS);
    kiln_value *sigmas = made(&node_basic_scheduler, text, m, NULL);
    const float *level = floats_of(sigmas, &n);
    const kiln_model_sampling *s = &network_sampling.base;
    double first = s->timestep(s, (double)level[FIRST]), end = s->timestep(s, table()[0]);
    double share = (s->timestep(s, (double)level[i]) - end) / (first - end);
    drop(sigmas);
    return share;
}

static void check_cell(const kiln_value *got, const kiln_value *want, int cell, const char *what)
{
    const float *a = samples_of(got), *b = samples_of(want);
    for (int p = 0; p < PICTURES; p++)
        for (int k = 0; k < CHANNELS; k++) {
            int i = (p * CELLS + cell) * CHANNELS + k;
            CHECK_MSG(fabs((double)a[i] - (double)b[i]) < 2e-5, "%s: number %d is %g and not %g", what, i, (double)a[i],
                      (double)b[i]);
        }
}

static void test_a_cell_is_drawn_from_its_level_on(void)
{
    static const char *const names[] = {"euler", "ddim", "heun"};
    kiln_value *m = network_model(), *ruled = made(&node_differential, "", m, NULL);
    const float mask[CELLS] = {1, (float)(share_left(m, 2) + 0.001), (float)(share_left(m, 3) - 0.001), 0.0f};
    const int from[CELLS] = {FIRST, 2, 4, STEPS}; /* 0 is never: the schedule's last level is above the table's end */
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        kiln_value *got = drawn(ruled, latent_with_mask(mask), names[k], FIRST);
        for (int cell = 0; cell < CELLS; cell++) {
            /* ddim gives what a mask keeps noise of another seed, heun looks at a level twice */
            if (from[cell] != FIRST && from[cell] != STEPS && strcmp(names[k], "euler") != 0) continue;
            kiln_value *want = drawn(m, latent_with_mask(NULL), names[k], from[cell]);
            check_cell(got, want, cell, names[k]);
            drop(want);
        }
        drop(got);
    }
    drop(m), drop(ruled);
}

/* A schedule whose last level is the table's end has nothing left there, so that every cell is free for one step. */
static void test_the_table_s_end_frees_all(void)
{
    static const char *const schedule[] = {"normal", "karras", "exponential"};
    const float mask[CELLS] = {1, 0, 0, 0};
    kiln_value *m = network_model(), *ruled = made(&node_differential, "", m, NULL), *given = latent_with_mask(mask);
    for (size_t k = 0; k < sizeof schedule / sizeof schedule[0]; k++)
        for (int last = 0; last < 2; last++) {
            char text[200];
            kiln_value *in[] = {ruled, positive(), negative(), given}, *out[1] = {NULL};
            snprintf(text, sizeof text, "steps=%d; cfg=2; sampler_name=euler; scheduler=%s; end_at_step=%d", STEPS,
                     schedule[k], last ? STEPS : STEPS - 1);
            CHECK_MSG(call(&node_ksampler_advanced, text, in, out) == KILN_OK, "%s", call_why.message);
            double moved = fabs((double)samples_of(out[0])[CHANNELS] - (double)samples_of(given)[CHANNELS]);
            CHECK_MSG(last ? moved > 1e-3 : moved < 1e-5, "%s: a cell with mask 0 moved by %g", text, moved);
            drop(in[1]), drop(in[2]), drop(out[0]);
        }
    drop(m), drop(ruled), drop(given);
}

static void test_strength(void)
{
    kiln_value *m = network_model(), *one = made(&node_differential, "", m, NULL),
               *none = made(&node_differential, "strength=0", m, NULL),
               *half = made(&node_differential, "strength=0.5", m, NULL);
    const float soft[CELLS] = {1, 0.7f, 0.4f, 0.2f}, hard[CELLS] = {1, 1, 0, 0};
    kiln_value *plain = drawn(m, latent_with_mask(soft), "euler", FIRST),
               *by_one = drawn(one, latent_with_mask(soft), "euler", FIRST),
               *by_none = drawn(none, latent_with_mask(soft), "euler", FIRST),
               *by_half = drawn(half, latent_with_mask(soft), "euler", FIRST);
    CHECK(!same_latent(plain, by_one) && !same_latent(by_half, by_one) && !same_latent(by_half, plain));
    CHECK(same_latent(by_one, by_none));
    drop(plain), drop(by_one), drop(by_none), drop(by_half);
    plain = drawn(m, latent_with_mask(NULL), "euler", FIRST),
    by_one = drawn(one, latent_with_mask(NULL), "euler", FIRST);
    CHECK(same_latent(plain, by_one)); /* without a mask there is nothing to change */
    drop(plain), drop(by_one);
    by_half = drawn(half, latent_with_mask(hard), "euler", FIRST),
    plain = drawn(m, latent_with_mask(hard), "euler", FIRST);
    check_cell(by_half, plain, 0, "a mask of 1 with strength 0.5");
    drop(plain), drop(by_half), drop(m), drop(one), drop(none), drop(half);
}

/* One level, and levels at the end of the table where no way is left: numbers, and what the mask frees is drawn. */
static void test_no_way_left_is_no_nan(void)
{
    kiln_value *m = network_model(), *ruled = made(&node_differential, "", m, NULL), *out[2] = {NULL};
    const float mask[CELLS] = {1, 0.5f, 0, 0};
    const double low[] = {0.02, 0.01, 0};
    for (int n = 2; n <= 3; n++) {
        kiln_value *latent = latent_with_mask(mask);
        const float *given = samples_of(latent), *x;
        kiln_value *kept = rig_host()->ref(latent);
        CHECK_MSG(sample((parts){.model = rig_host()->ref(ruled),
                                 .guider = cfg_guider(ruled, "cfg=2"),
                                 .sigmas = n == 2 ? sigmas_of(2, (const double[]){5, 0}) : sigmas_of(3, low),
                                 .latent = latent},
                         out) == KILN_OK,
                  "%s", call_why.message);
        x = samples_of(out[0]);
        for (int i = 0; i < NUMBERS; i++) CHECK(isfinite((double)x[i]));
        CHECK(fabs((double)x[0] - (double)given[0]) > 1e-5);                       /* cell 0 is drawn */
        CHECK(fabs((double)x[3 * CHANNELS] - (double)given[3 * CHANNELS]) < 1e-5); /* cell 3 is kept */
        drop(out[0]), drop(out[1]), drop(kept);
    }
    drop(m), drop(ruled);
}

/* The rule is part of what the MODEL is: results are kept under it. It goes along through other nodes. */
static void test_the_model_differs_by_its_rule(void)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *m = network_model(), *one = made(&node_differential, "", m, NULL),
               *again = made(&node_differential, "strength=1", m, NULL),
               *half = made(&node_differential, "strength=0.5", m, NULL),
               *both = made(&node_differential, "", half, NULL), *rescaled = made(&node_rescale_cfg, "", half, NULL);
    const char *(*name)(const kiln_value *) = values()->object_fingerprint;
    CHECK(strcmp(name(m), name(one)) != 0 && strcmp(name(one), name(half)) != 0);
    CHECK_STR(name(one), name(again));
    CHECK_STR(name(one), name(both)); /* the last one counts */
    CHECK(models->model(rig_ctx(), rescaled)->mask_rule == models->model(rig_ctx(), half)->mask_rule);
    drop(m), drop(one), drop(again), drop(half), drop(both), drop(rescaled);
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {
        CASE(test_a_cell_is_drawn_from_its_level_on),
        CASE(test_the_table_s_end_frees_all),
        CASE(test_strength),
        CASE(test_no_way_left_is_no_nan),
        CASE(test_the_model_differs_by_its_rule),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
