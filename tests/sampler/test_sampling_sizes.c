/* test_sampling_sizes.c - what a node hands to "kiln.sampling/1" and to latents says its size: a newer maker's struct
 * works, one without a size is refused with a sentence, and what is filled is filled as far as its maker knew. */
#include "sampling_kit.h"

#include "kiln/sampling.h"

static const kiln_sampling_api *api(void) { return rig_host()->ability(KILN_SAMPLING_ABILITY); }

static kiln_call a_call(void)
{
    return (kiln_call){.size = sizeof(kiln_call), .device = KILN_CPU, .host = rig_host(), .ctx = rig_ctx()};
}

static void says(kiln_status status, const char *sentence)
{
    CHECK_EQ(status, KILN_ERR_BUG);
    CHECK_MSG(strstr(rig_message(), sentence) != NULL, "\"%s\" does not say \"%s\"", rig_message(), sentence);
}

static void test_noise(void)
{
    kiln_call c = a_call();
    struct {
        kiln_noise known;
        uint64_t later;
    } newer = {{.size = sizeof newer, .seed = 11, .source = KILN_NOISE_CPU}, 7}, back = {{.size = sizeof back}, 7};
    kiln_value *value = NULL;
    REQUIRE(CHECK_EQ(api()->noise_new(&c, &newer.known, &value), KILN_OK));
    CHECK_EQ(api()->noise_read(&c, value, &back.known), KILN_OK);
    CHECK(back.known.size == sizeof back && back.known.seed == 11 && back.known.source == KILN_NOISE_CPU);
    CHECK(back.later == 0); /* what the engine does not know of */
    says(api()->noise_read(&c, value, &(kiln_noise){0}), "noise_read(): a kiln_noise that does not say its size");
    drop(value);
    c = a_call();
    says(api()->noise_new(&c, &(kiln_noise){.seed = 11}, &value), "noise: a kiln_noise that does not say its size");
}

static void test_levels_of_a_model(void)
{
    kiln_call c = a_call();
    kiln_value *model = network_model();
    struct {
        kiln_schedule_input known;
        uint64_t later;
    } in = {{.size = sizeof in}, 7};
    CHECK_EQ(api()->schedule_input(&c, model, 4, &in.known), KILN_OK);
    CHECK(in.known.size == sizeof in && in.known.n_sigma == 1000 && in.later == 0);
    says(api()->schedule_input(&c, model, 4, &(kiln_schedule_input){0}), "schedule_input(): a kiln_schedule_input");
    drop(model);
}

/* An open sampling of two levels. The caller drops the guider. */
static const kiln_sampling *opened(kiln_call *c, kiln_sampling_job *job, kiln_session **session)
{
    static const double sigma[] = {3, 1};
    job->sigma = sigma, job->n = 1, job->n_guider = 1;
    if (!CHECK_MSG(api()->open(c, job, session) == KILN_OK, "%s", rig_message())) return NULL;
    return api()->view(*session);
}

static void test_jobs(void)
{
    kiln_call c = a_call();
    kiln_value *model = network_model(), *guider = cfg_guider(model, "cfg=3"), *latent = empty_latent();
    c = a_call();
    struct {
        kiln_sampling_job known;
        uint64_t later;
    } job = {{.size = sizeof job, .guider = &guider, .latent = latent}, 7};
    kiln_session *s;
    const kiln_sampling *x = opened(&c, &job.known, &s);
    CHECK(x && x->seed == 0); /* no noise is the noise of the seed 0 */
    const kiln_noise noise = {.size = sizeof noise, .seed = 5}, sizeless = {.seed = 5};
    job.known.noise = &noise;
    x = opened(&c, &job.known, &s);
    CHECK(x && x->seed == 5);
    job.known.noise = &sizeless;
    says(api()->open(&c, &job.known, &s), "noise: a kiln_noise that does not say its size");
    c = a_call();
    job.known.size = 0;
    says(api()->open(&c, &job.known, &s), "open(): a kiln_sampling_job that does not say its size");
    drop(latent), drop(guider), drop(model);
}

static void test_evaluations_and_dots(void)
{
    kiln_call c = a_call();
    kiln_value *model = network_model(), *guider = cfg_guider(model, "cfg=3"), *latent = empty_latent();
    c = a_call();
    kiln_sampling_job job = {.size = sizeof job, .guider = &guider, .latent = latent};
    kiln_session *s;
    const kiln_sampling *x = opened(&c, &job, &s);
    REQUIRE(x);
    const kiln_latents *l = x->latents;
    kiln_latent *guess = l->create(l, NULL), *again = l->create(l, NULL);
    struct {
        kiln_evaluation known;
        uint64_t later;
    } e = {{.size = sizeof e, .x = x->x, .sigma = 3}, 7};
    CHECK_EQ(api()->denoise(s, &e.known, guess), KILN_OK);
    e.known.size = sizeof e.known;
    CHECK_EQ(api()->denoise(s, &e.known, again), KILN_OK);
    CHECK(l->norm(l, guess) > 0 && l->norm(l, guess) == l->norm(l, again));
    double sums[PICTURES] = {-1, -1};
    kiln_latent_dot d = {.size = sizeof d, .n = 1, .a = (double[]){1}, .b = (double[]){1}, .x = &guess};
    l->dot(l, &d, sums);
    CHECK(sums[0] > 0 && sums[1] > 0);
    e.known.size = 0;
    says(api()->denoise(s, &e.known, again), "denoise(): a kiln_evaluation that does not say its size");
    rig_call.failure = (error){0};
    const kiln_model_evaluation m = {.x = x->x, .sigma = 3};
    says(api()->evaluate(s, &m, again), "evaluate(): a kiln_model_evaluation that does not say its size");
    rig_call.failure = (error){0};
    d.size = 0;
    l->dot(l, &d, sums); /* has no status: what returns one next says it */
    e.known.size = sizeof e.known;
    says(api()->denoise(s, &e.known, again), "dot(): a kiln_latent_dot that does not say its size");
    drop(latent), drop(guider), drop(model);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_noise), CASE(test_levels_of_a_model), CASE(test_jobs),
                                      CASE(test_evaluations_and_dots)};
    open_plugin();
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
