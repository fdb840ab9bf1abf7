/* test_guidance_on_models.c - what guidance that hangs on a MODEL may do in a sampling: change the guesses before they
 * are combined, ask for further ones with hooks of its own, remember, and say why it cannot.
 */
#include "sampling_kit.h"

/* ---- a network with one place, and a hook for it ---- */

static kiln_t record_with_place(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                                const kiln_denoise_inputs *in)
{
    kiln_recording r = {.size = sizeof r, .ops = ops, .program = p, .in = in};
    kiln_place_info info = {.size = sizeof info, .place = "end"};
    return kiln_place(&r, network_record(d, ops, p, w, in), &info);
}

static void places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    (void)d;
    fn(arg, "end", KILN_PLACE_POINT);
}

static kiln_t one_more(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    (void)h, (void)info;
    return r->ops->affine(r->program, x, 1, 1);
}

static const char *const at_the_end[] = {"end", NULL}, *const nowhere[] = {"middle.1", NULL};
static const kiln_hook raises = {.size = sizeof raises, .identity = "raises", .place = at_the_end, .at = one_more},
                       lost = {.size = sizeof lost, .identity = "lost/1", .place = nowhere, .at = one_more};

/* ---- samplings ---- */

/* Four steps with the guidance on the model, by name of the sampler; NULL: it failed, and call_why says why. */
static kiln_value *drawn(const kiln_guidance *const *guidance, size_t n, const char *sampler, const char *cfg)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *plain = network_model(), *out[2] = {NULL};
    kiln_model m = *models->model(rig_ctx(), plain);
    char settings[60];
    m.guidance = guidance, m.n_guidance = n, m.base = plain;
    kiln_value *model = models->model_new(rig_ctx(), &m);
    drop(plain);
    snprintf(settings, sizeof settings, "sampler_name=%s", sampler);
    kiln_value *guider = cfg_guider(model, cfg);
    if (sample((parts){.model = model, .guider = guider, .sampler = made(&node_sampler_select, settings, NULL, NULL)},
               out) != KILN_OK)
        return NULL;
    drop(out[1]);
    return out[0];
}

static kiln_value *drawn_by(const kiln_guidance *g, const char *sampler, const char *cfg)
{
    return drawn(&g, g ? 1 : 0, sampler, cfg);
}

static int calls;

/* ---- before the guesses are combined ---- */

static kiln_status negative_alone(void *self, const kiln_guesses *g)
{
    (void)self;
    CHECK(g->x0 == NULL && g->positive && g->negative);
    g->latents->lincomb(g->latents, g->positive, 1, (double[]){1}, (kiln_latent *[]){g->negative});
    calls++;
    return KILN_OK;
}

static kiln_status is_negative(void *self, const kiln_guesses *g)
{
    (void)self;
    CHECK(g->x0 != NULL);
    /* what acts later sees what was changed: no difference is left */
    double difference[PICTURES];
    const double by[] = {1, -1};
    g->latents->dot(g->latents,
                    &(kiln_latent_dot){.size = sizeof(kiln_latent_dot),
                                       .n = 2,
                                       .a = by,
                                       .b = by,
                                       .x = (kiln_latent *[]){g->positive, g->negative}},
                    difference);
    CHECK(difference[0] == 0 && difference[1] == 0);
    calls++;
    return KILN_OK;
}

static const kiln_guidance flattens = {sizeof flattens, KILN_GUIDANCE_BEFORE, NULL, "flattens", NULL, negative_alone},
                           looks = {sizeof looks, 0, NULL, "looks", NULL, is_negative};

static void test_guesses_are_changed_before_they_are_combined(void)
{
    kiln_value *wanted = drawn_by(NULL, "euler", "cfg=0"); /* 0: the negative */
    const kiln_guidance *const both[] = {&looks, &flattens};
    calls = 0;
    kiln_value *got = drawn(both, 2, "euler", "cfg=7");
    CHECK_EQ(calls, 8);
    CHECK(wanted && got && same_latent(wanted, got));
    drop(wanted), drop(got);
}

static void test_it_is_not_called_without_a_negative(void)
{
    kiln_value *wanted = drawn_by(NULL, "euler", "cfg=1");
    calls = 0;
    kiln_value *got = drawn_by(&flattens, "euler", "cfg=1");
    CHECK_EQ(calls, 0);
    CHECK(wanted && got && same_latent(wanted, got));
    drop(wanted), drop(got);
}

/* ---- further guesses ---- */

static double distance(const kiln_guesses *g, kiln_latent *const x[3], const double by[3])
{
    double square[PICTURES];
    g->latents->dot(g->latents, &(kiln_latent_dot){.size = sizeof(kiln_latent_dot), .n = 3, .a = by, .b = by, .x = x},
                    square);
    return sqrt(square[0] + square[1]);
}

static kiln_status ask(void *self, const kiln_guesses *g)
{
    const kiln_hook *hooks[] = {&raises};
    kiln_latent *further, *ones = g->latents->create(g->latents, NULL);
    kiln_further_guess plain = {.size = sizeof plain}, unconditional = {.size = sizeof plain, .unconditional = 1},
                       hooked = {.size = sizeof plain, .hook = hooks, .n_hook = 1},
                       elsewhere = {.size = sizeof plain, .x = g->positive};
    float one[NUMBERS];
    kiln_level level = {.size = sizeof level};
    (void)self;
    for (int i = 0; i < NUMBERS; i++) one[i] = 1;
    g->latents->upload(g->latents, ones, one);
    g->sampling->level(g->sampling, g->sigma, &level);
    CHECK_EQ(g->evaluate(g, &plain, &further), KILN_OK);
    CHECK(distance(g, (kiln_latent *[]){further, g->positive, ones}, (double[]){1, -1, 0}) < 1e-5);
    CHECK_EQ(g->evaluate(g, &unconditional, &further), KILN_OK);
    CHECK(distance(g, (kiln_latent *[]){further, g->negative, ones}, (double[]){1, -1, 0}) < 1e-5);
    CHECK_EQ(g->evaluate(g, &hooked, &further), KILN_OK);
    CHECK(distance(g, (kiln_latent *[]){further, g->positive, ones}, (double[]){1, -1, -level.of_prediction}) < 1e-4);
    CHECK_EQ(g->evaluate(g, &elsewhere, &further), KILN_OK);
    CHECK(distance(g, (kiln_latent *[]){further, g->positive, ones}, (double[]){1, -1, 0}) > 1e-3);
    CHECK_EQ(g->evaluate(g, &plain, &further), KILN_OK); /* of x again */
    CHECK(distance(g, (kiln_latent *[]){further, g->positive, ones}, (double[]){1, -1, 0}) < 1e-5);
    calls++;
    return KILN_OK;
}

static const kiln_guidance asks = {sizeof asks, 0, NULL, "asks", NULL, ask};

/* It changes nothing, so the picture is what it is without. */
static void test_further_guesses(void)
{
    network.record = record_with_place, network.places = places;
    kiln_value *wanted = drawn_by(NULL, "heun", "cfg=3");
    calls = 0;
    kiln_value *got = drawn_by(&asks, "heun", "cfg=3");
    CHECK(calls > 4);
    CHECK(wanted && got && same_latent(wanted, got));
    drop(wanted), drop(got);
}

static kiln_status ask_wrongly(void *self, const kiln_guesses *g)
{
    static const kiln_input_spec input = {.size = sizeof input, .name = "tokens"};
    static const kiln_hook greedy = {.size = sizeof greedy, .identity = "greedy", .n_input = 1, .input = &input};
    const kiln_hook *hook[] = {*(const int *)self == 1 ? &lost : &greedy};
    kiln_further_guess asked = {.size = *(const int *)self == 3 ? 0 : sizeof asked,
                                .unconditional = *(const int *)self == 0,
                                .hook = hook,
                                .n_hook = *(const int *)self == 0 ? 0 : 1};
    kiln_latent *further;
    return g->evaluate(g, &asked, &further);
}

static void test_wrong_questions_have_answers(void)
{
    static const char *const words[] = {"not evaluated at cfg 1",
                                        "'lost' acts at 'middle.1', a place that this model does not have",
                                        "has inputs, which nobody reads", "without its size"};
    network.record = record_with_place, network.places = places;
    for (int i = 0; i < 4; i++) {
        kiln_guidance wrong = {sizeof wrong, 0, &i, "wrong", NULL, ask_wrongly};
        kiln_value *got = drawn_by(&wrong, "euler", i ? "cfg=3" : "cfg=1"); /* 0: there is no negative to ask for */
        CHECK_MSG(!got && strstr(call_why.message, words[i]), "%d: %s", i, call_why.message);
        drop(got);
    }
}

static kiln_status say(void *self, const kiln_guesses *g)
{
    (void)self;
    return g->fail(g, KILN_ERR_UNSUPPORTED, "no guidance on a %s", "Sunday");
}

static void test_it_says_why(void)
{
    const kiln_guidance says = {sizeof says, 0, NULL, "says", NULL, say};
    CHECK(drawn_by(&says, "euler", "cfg=3") == NULL);
    CHECK_MSG(strstr(call_why.message, "no guidance on a Sunday") != NULL, "%s", call_why.message);
}

/* ---- memory ---- */

static double last_sigma;

/* memory counts the evaluations: each of its numbers is how many there were before. */
static kiln_status count(void *self, const kiln_guesses *g)
{
    float seen[NUMBERS];
    (void)self;
    if (!CHECK(g->memory != NULL)) return KILN_ERR_BUG;
    g->latents->download(g->latents, g->memory, seen);
    CHECK_EQ(seen[0], calls), CHECK_EQ(seen[NUMBERS - 1], calls);
    CHECK_MSG(g->memory_sigma == last_sigma, "%g, and it was %g", g->memory_sigma, last_sigma);
    for (int i = 0; i < NUMBERS; i++) seen[i] += 1;
    g->latents->upload(g->latents, g->memory, seen);
    last_sigma = g->sigma;
    calls++;
    return KILN_OK;
}

static void test_it_remembers_within_a_sampling(void)
{
    const kiln_guidance counts = {sizeof counts, KILN_GUIDANCE_REMEMBERS, NULL, "counts", NULL, count};
    for (int again = 0; again < 2; again++) { /* the second sampling begins with nothing */
        calls = 0, last_sigma = 0;
        kiln_value *got = drawn_by(&counts, "heun", "cfg=3");
        CHECK_MSG(got && calls > 4, "%d: %s", calls, call_why.message);
        drop(got);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_guesses_are_changed_before_they_are_combined),
        CASE(test_it_is_not_called_without_a_negative),
        CASE(test_further_guesses),
        CASE(test_wrong_questions_have_answers),
        CASE(test_it_says_why),
        CASE(test_it_remembers_within_a_sampling),
    };
    open_plugin();
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
