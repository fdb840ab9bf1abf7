/* test_model_ranges.c - one schedule drawn by two models: in two stages with leftover noise, and as one sampling of a
 * MODEL with ranges.
 *
 * Which levels a model is asked at is what its own description of noise is asked for: each of the two networks here has
 * one that takes notes.
 */
#include "sampling_kit.h"

enum { STEPS = 6, NOTES = 64, BASE = 0, REFINER = 1 };

/* ---- two networks that take notes ---- */

static kiln_t refiner_record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                             const kiln_denoise_inputs *in)
{
    return ops->affine(p, network_record(d, ops, p, w, in), 0.75f, 0.125f);
}

static struct {
    double sigma[NOTES];
    size_t n;
} notes[2];

static double (*true_timestep)(const kiln_model_sampling *, double);

static double note(int who, const kiln_model_sampling *s, double sigma)
{
    if (notes[who].n < NOTES) notes[who].sigma[notes[who].n++] = sigma;
    return true_timestep(s, sigma);
}
static double base_timestep(const kiln_model_sampling *s, double sigma) { return note(BASE, s, sigma); }
static double refiner_timestep(const kiln_model_sampling *s, double sigma) { return note(REFINER, s, sigma); }

static kiln_value *model_of_kind(int who)
{
    static kiln_standard_sampling sampling[2];
    static kiln_denoiser refiner;
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *plain = network_model();
    kiln_model m = *models->model(rig_ctx(), plain);
    sampling[who] = network_sampling;
    true_timestep = network_sampling.base.timestep;
    sampling[who].base.timestep = who == BASE ? base_timestep : refiner_timestep;
    sampling[who].base.self = &sampling[who];
    refiner = network;
    refiner.family = "written-down refiner", refiner.record = refiner_record;
    if (who == REFINER) m.denoiser = &refiner;
    m.sampling = &sampling[who].base;
    m.base = plain, m.owned = NULL, m.release = NULL;
    kiln_value *v = models->model_new(rig_ctx(), &m);
    if (!CHECK_MSG(v != NULL, "%s", rig_message())) exit(1);
    drop(plain);
    return v;
}

static void forget_notes(void) { memset(notes, 0, sizeof notes); }

/* The levels noted, each once, are these. */
static void check_notes(int who, const double *sigma, size_t n, const char *what)
{
    size_t have = 0;
    double once[NOTES];
    for (size_t i = 0; i < notes[who].n; i++)
        if (!have || once[have - 1] != notes[who].sigma[i]) once[have++] = notes[who].sigma[i];
    CHECK_MSG(have == n && memcmp(once, sigma, n * sizeof *sigma) == 0,
              "%s: %zu levels of %zu, the first %.17g and not %.17g", what, have, n, have ? once[0] : 0,
              n ? sigma[0] : 0);
}

/* ---- samplings ---- */

static kiln_value *bound(kiln_value *list, const char *range)
{
    kiln_value *all = values()->new_list(NULL), *entry = values()->map_copy(NULL, values()->list_at(list, 0)),
               *name = values()->new_string(NULL, range, strlen(range));
    values()->map_set(entry, "model_range", name), values()->list_push(all, entry);
    drop(entry), drop(name), drop(list);
    return all;
}

static kiln_value *joined(kiln_value *a, kiln_value *b)
{
    kiln_value *all = values()->list_copy(NULL, a);
    values()->list_push(all, (kiln_value *)(uintptr_t)values()->list_at(b, 0));
    drop(a), drop(b);
    return all;
}

static kiln_value *stage(kiln_value *m, kiln_value *yes, kiln_value *no, kiln_value *latent, const char *settings)
{
    char text[400];
    kiln_value *in[] = {m, yes, no, latent}, *out[1] = {NULL};
    snprintf(text, sizeof text, "noise_seed=7; steps=%d; cfg=3; scheduler=karras; %s", STEPS, settings);
    if (!CHECK_MSG(call(&node_ksampler_advanced, text, in, out) == KILN_OK, "%s: %s", text, call_why.message)) exit(1);
    return out[0];
}

static const char *settings_of(const char *format, const char *sampler, int step)
{
    static char text[200];
    snprintf(text, sizeof text, format, sampler, step);
    return text;
}
static const char *first_part(const char *sampler, int step)
{
    return settings_of("sampler_name=%s; end_at_step=%d; return_with_leftover_noise=enable", sampler, step);
}
static const char *last_part(const char *sampler, int step)
{
    return settings_of("sampler_name=%s; start_at_step=%d; add_noise=disable", sampler, step);
}

/* The schedule that KSamplerAdvanced has. */
static kiln_value *levels(kiln_value *m)
{
    char text[60];
    snprintf(text, sizeof text, "steps=%d; scheduler=karras", STEPS);
    return made(&node_basic_scheduler, text, m, NULL);
}

static void read_levels(kiln_value *sigmas, double out[STEPS + 1])
{
    size_t n;
    const float *x = floats_of(sigmas, &n);
    if (!CHECK_EQ(n, STEPS + 1)) exit(1);
    for (size_t i = 0; i < n; i++) out[i] = (double)x[i];
}

/* SamplerCustomAdvanced with cfg 3 and the noise of seed 7. Takes yes and no. */
static kiln_value *at_once(kiln_value *m, kiln_value *yes, kiln_value *no, const char *sampler, kiln_value *sigmas)
{
    char text[100];
    snprintf(text, sizeof text, "sampler_name=%s", sampler);
    kiln_value *by[3] = {m, yes, no}, *guider[1] = {NULL}, *out[2] = {NULL};
    if (!CHECK_EQ(call(&node_cfg_guider, "cfg=3", by, guider), KILN_OK)) exit(1);
    kiln_value *in[] = {made(&node_random_noise, "noise_seed=7", NULL, NULL), guider[0],
                        made(&node_sampler_select, text, NULL, NULL), sigmas, empty_latent()};
    CHECK_MSG(call(&node_sampler_custom_advanced, "", in, out) == KILN_OK, "%s: %s", sampler, call_why.message);
    drop(in[0]), drop(in[1]), drop(in[2]), drop(in[4]), drop(out[1]), drop(yes), drop(no);
    return out[0];
}

static kiln_value *ranged(kiln_value *m, kiln_value *other, kiln_value *sigmas, int step)
{
    char text[60];
    kiln_value *in[] = {m, other, sigmas}, *out[1] = {NULL};
    snprintf(text, sizeof text, "start_at_step=%d", step);
    if (!CHECK_MSG(call(&node_model_range_step, text, in, out) == KILN_OK, "%s", call_why.message)) exit(1);
    return out[0];
}

/* ---- in two stages ---- */

/* Samplers whose step knows nothing of the one before it. */
static const char *const one_step[] = {"euler", "heun", "dpm_2", "ddim", "euler_cfg_pp", "exp_heun_2_x0"};

static void test_split_anywhere_is_one_pass(void)
{
    kiln_value *m = network_model(), *yes = positive(), *no = negative(), *empty = empty_latent();
    for (size_t k = 0; k < sizeof one_step / sizeof one_step[0]; k++) {
        char plain[100];
        snprintf(plain, sizeof plain, "sampler_name=%s", one_step[k]);
        kiln_value *once = stage(m, yes, no, empty, plain);
        for (int step = 1; step < STEPS; step++) {
            kiln_value *begun = stage(m, yes, no, empty, first_part(one_step[k], step)),
                       *done = stage(m, yes, no, begun, last_part(one_step[k], step));
            CHECK_MSG(same_latent(once, done), "%s split at step %d gives other bytes", one_step[k], step);
            CHECK(!same_latent(once, begun));
            CHECK(!values()->map_get(done, "model_samples")); /* nothing goes on from a clean latent */
            drop(begun), drop(done);
        }
        drop(once);
    }
    drop(m), drop(yes), drop(no), drop(empty);
}

/* Many pieces, one after the other. */
static void test_split_at_every_step_is_one_pass(void)
{
    kiln_value *m = network_model(), *yes = positive(), *no = negative(), *at = empty_latent(),
               *once = stage(m, yes, no, at, "sampler_name=euler");
    for (int step = 0; step < STEPS; step++) {
        char text[200];
        snprintf(text, sizeof text, "start_at_step=%d; end_at_step=%d; return_with_leftover_noise=enable; add_noise=%s",
                 step, step + 1, step ? "disable" : "enable");
        kiln_value *next = stage(m, yes, no, at, text);
        drop(at);
        at = next;
    }
    CHECK(same_latent(once, at));
    drop(m), drop(yes), drop(no), drop(at), drop(once);
}

/* What a stage leaves beside its samples counts as long as they are its own. */
static void test_changed_samples_are_what_counts(void)
{
    kiln_value *m = network_model(), *yes = positive(), *no = negative(), *empty = empty_latent(),
               *begun = stage(m, yes, no, empty, first_part("euler", 3)), *other = values()->map_copy(NULL, begun),
               *plain = values()->map_copy(NULL, begun);
    float changed[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) changed[i] = -samples_of(begun)[i];
    kiln_value *samples = tensor_value(4, (const int64_t[]){PICTURES, 2, 2, CHANNELS}, changed);
    CHECK(values()->map_get(begun, "model_samples") != NULL);
    values()->map_set(other, "samples", samples), values()->map_set(plain, "samples", samples);
    values()->map_set(plain, "model_samples", NULL);
    kiln_value *a = stage(m, yes, no, other, last_part("euler", 3)),
               *b = stage(m, yes, no, plain, last_part("euler", 3)),
               *c = stage(m, yes, no, begun, last_part("euler", 3));
    CHECK(same_latent(a, b));
    CHECK(!same_latent(a, c));
    drop(a), drop(b), drop(c), drop(samples), drop(other), drop(plain), drop(begun), drop(empty);
    drop(m), drop(yes), drop(no);
}

/* The refiner's first level is the one that the base's last step led to: to the bit, at every split. */
static void test_M13_the_refiner_begins_where_the_base_stopped(void)
{
    kiln_value *base = model_of_kind(BASE), *refiner = model_of_kind(REFINER), *yes = positive(), *no = negative(),
               *empty = empty_latent(), *sigmas = levels(base);
    double level[STEPS + 1];
    read_levels(sigmas, level);
    for (int step = 1; step < STEPS; step++) {
        forget_notes();
        kiln_value *begun = stage(base, yes, no, empty, first_part("euler", step));
        check_notes(BASE, level, (size_t)step, "the base's levels");
        kiln_value *done = stage(refiner, yes, no, begun, last_part("euler", step));
        check_notes(BASE, level, (size_t)step, "the base's levels, afterwards");
        check_notes(REFINER, level + step, (size_t)(STEPS - step), "the refiner's levels");
        drop(begun), drop(done);
    }
    drop(base), drop(refiner), drop(yes), drop(no), drop(empty), drop(sigmas);
}

/* ---- as one sampling ---- */

/* A model that hands over to itself is that model, whatever the sampler keeps from step to step and draws. */
static void test_a_model_and_itself_are_one(void)
{
    const kiln_sampler_api *api = rig_host()->ability(KILN_SAMPLER_ABILITY);
    kiln_value *m = network_model(), *sigmas = levels(m);
    for (size_t i = 0; i < api->sampler_count(); i++) {
        const char *name = api->sampler_at(i)->name;
        kiln_value *once = at_once(m, positive(), negative(), name, sigmas);
        for (int step = 0; step <= STEPS; step += 2) {
            kiln_value *two = ranged(m, m, sigmas, step), *out = at_once(two, positive(), negative(), name, sigmas);
            CHECK_MSG(same_latent(once, out), "%s handed over at step %d gives other bytes", name, step);
            drop(two), drop(out);
        }
        drop(once);
    }
    drop(m), drop(sigmas);
}

static kiln_value *yes_of_both(void) { return joined(bound(positive(), "base"), bound(third(), "refiner")); }
static kiln_value *no_of_both(void) { return joined(bound(negative(), "base"), bound(positive(), "refiner")); }

/* Two models with prompts of their own: one sampling is the two stages, at every split. */
static void test_by_step_is_two_stages(void)
{
    kiln_value *base = model_of_kind(BASE), *refiner = model_of_kind(REFINER), *empty = empty_latent(),
               *sigmas = levels(base), *yes[2] = {positive(), third()}, *no[2] = {negative(), positive()}, *last = NULL;
    double level[STEPS + 1];
    read_levels(sigmas, level);
    for (int step = 1; step < STEPS; step++) {
        kiln_value *begun = stage(base, yes[0], no[0], empty, first_part("euler", step)),
                   *want = stage(refiner, yes[1], no[1], begun, last_part("euler", step)),
                   *both = ranged(base, refiner, sigmas, step);
        forget_notes();
        kiln_value *out = at_once(both, yes_of_both(), no_of_both(), "euler", sigmas);
        CHECK_MSG(same_latent(out, want), "split at step %d", step);
        CHECK(!last || !same_latent(out, last)); /* where they change matters */
        check_notes(BASE, level, (size_t)step, "the base's levels");
        check_notes(REFINER, level + step, (size_t)(STEPS - step), "the refiner's levels");
        drop(begun), drop(want), drop(both), drop(last);
        last = out;
    }
    drop(base), drop(refiner), drop(empty), drop(sigmas), drop(last);
    for (int i = 0; i < 2; i++) drop(yes[i]), drop(no[i]);
}

static void test_none_and_all_of_the_steps(void)
{
    kiln_value *base = model_of_kind(BASE), *refiner = model_of_kind(REFINER), *sigmas = levels(base);
    for (int step = 0; step <= STEPS; step += STEPS) {
        kiln_value *both = ranged(base, refiner, sigmas, step),
                   *out = at_once(both, positive(), negative(), "heun", sigmas),
                   *want = at_once(step ? base : refiner, positive(), negative(), "heun", sigmas);
        CHECK_MSG(same_latent(out, want), "%d steps of the base", step);
        drop(both), drop(out), drop(want);
    }
    drop(base), drop(refiner), drop(sigmas);
}

/* By a share of the way: the other has its level too. */
static void test_by_percent(void)
{
    kiln_value *base = model_of_kind(BASE), *refiner = model_of_kind(REFINER),
               *both = made(&node_model_range, "start_percent=0.6", base, refiner), *at[2] = {base}, *found[1] = {NULL};
    double sigma;
    CHECK_EQ(call(&node_percent_to_sigma, "sampling_percent=0.6", at, found), KILN_OK);
    CHECK_EQ(values()->get_float(found[0], &sigma), KILN_OK);
    sigma = (double)(float)sigma;
    const double level[] = {9, (double)nextafterf((float)sigma, 99), (double)nextafterf((float)sigma, 0), 0.1f, 0};
    kiln_value *sigmas = sigmas_of(5, level);
    forget_notes();
    kiln_value *out = at_once(both, positive(), negative(), "euler", sigmas);
    const double of_base[] = {9, level[1]}, of_refiner[] = {level[2], (double)0.1f};
    check_notes(BASE, of_base, 2, "the base's levels");
    check_notes(REFINER, of_refiner, 2, "the refiner's levels");
    drop(out), drop(both), drop(sigmas), drop(found[0]), drop(base), drop(refiner);
}

/* Three in a row, made in either order. */
static void test_three_models(void)
{
    kiln_value *base = model_of_kind(BASE), *refiner = model_of_kind(REFINER), *sigmas = levels(base);
    kiln_value *in[] = {base, refiner, sigmas}, *out[1] = {NULL};
    CHECK_EQ(call(&node_model_range_step, "start_at_step=2; name=middle", in, out), KILN_OK);
    kiln_value *down = out[0];
    in[0] = down, in[1] = base;
    CHECK_EQ(call(&node_model_range_step, "start_at_step=4; name=end", in, out), KILN_OK);
    kiln_value *first = out[0];
    in[0] = base, in[1] = base;
    CHECK_EQ(call(&node_model_range_step, "start_at_step=4; name=end", in, out), KILN_OK);
    kiln_value *up = out[0];
    in[0] = up, in[1] = refiner;
    CHECK_EQ(call(&node_model_range_step, "start_at_step=2; name=middle", in, out), KILN_OK);
    kiln_value *a = at_once(first, positive(), negative(), "euler", sigmas), *b;
    forget_notes();
    b = at_once(out[0], positive(), negative(), "euler", sigmas);
    CHECK(same_latent(a, b));
    double level[STEPS + 1], of_base[4];
    read_levels(sigmas, level);
    memcpy(of_base, level, 2 * sizeof *level), memcpy(of_base + 2, level + 4, 2 * sizeof *level);
    check_notes(BASE, of_base, 4, "the first two levels and the last");
    check_notes(REFINER, level + 2, 2, "the levels between");
    drop(a), drop(b), drop(out[0]), drop(up), drop(first), drop(down), drop(base), drop(refiner), drop(sigmas);
}

static void test_ranges_refused(void)
{
    kiln_value *base = model_of_kind(BASE), *refiner = model_of_kind(REFINER), *sigmas = levels(base),
               *both = ranged(base, refiner, sigmas, 3), *rising = sigmas_of(3, (const double[]){1, 2, 0});
    kiln_value *in[] = {both, refiner, sigmas};
    refused(&node_model_range_step, "start_at_step=4", in, "has a range 'refiner' already");
    refused(&node_model_range_step, "start_at_step=4; name=base", in, "has a range 'base' already");
    refused(&node_model_range_step, "start_at_step=4; name=", in, "name is empty");
    refused(&node_model_range_step, "start_at_step=3; name=third", in, "begins at the same level");
    in[0] = base, in[1] = both;
    refused(&node_model_range_step, "start_at_step=4", in, "ranges of its own");
    in[1] = refiner;
    refused(&node_model_range_step, "start_at_step=7", in, "start_at_step is 7, and sigmas has 6 steps");
    in[2] = rising;
    refused(&node_model_range_step, "start_at_step=1", in, "sigmas[1] is 2 after 1");
    drop(base), drop(refiner), drop(sigmas), drop(both), drop(rising);
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {
        CASE(test_split_anywhere_is_one_pass),
        CASE(test_split_at_every_step_is_one_pass),
        CASE(test_changed_samples_are_what_counts),
        CASE(test_M13_the_refiner_begins_where_the_base_stopped),
        CASE(test_a_model_and_itself_are_one),
        CASE(test_by_step_is_two_stages),
        CASE(test_none_and_all_of_the_steps),
        CASE(test_by_percent),
        CASE(test_three_models),
        CASE(test_ranges_refused),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
