/* test_guidance.c - guidance that hangs on a MODEL, against what ComfyUI's nodes make of the same guesses
 * (tests/golden/model_patch.safetensors, by scripts/golden/model_patch.py). Tolerances are four times f32's error.
 */
#include "latents_kit.h"

#include "attention_guidance.h"
#include "guidance_by_cell.h"
#include "guidance_by_frequency.h"
#include "guidance_by_level.h"
#include "guidance_by_picture.h"
#include "kiln/standard_sampling.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define TOLERANCE 1e-6

static kiln_latent x, positive, negative, x0, memory, further;
static kiln_weights *file;
static char said[400];

static kiln_status note(const kiln_guesses *g, kiln_status status, const char *fmt, ...)
{
    va_list args;
    (void)g;
    va_start(args, fmt);
    vsnprintf(said, sizeof said, fmt, args);
    va_end(args);
    return status;
}

/* The guesses of the golden at cfg 4. */
static kiln_guesses guesses(void)
{
    file = file ? file : open_weights("tests/golden/model_patch.safetensors");
    latent_read(file, "guidance.x", &x);
    latent_read(file, "guidance.positive", &positive);
    latent_read(file, "guidance.negative", &negative);
    latent_read(file, "guidance.x0", &x0);
    kit_more = 0, said[0] = 0;
    return (kiln_guesses){.size = sizeof(kiln_guesses),
                          .latents = &kit_latents,
                          .sigma = 1,
                          .cfg = 4,
                          .x = &x,
                          .positive = &positive,
                          .negative = &negative,
                          .x0 = &x0,
                          .fail = note};
}

/* ---- against ComfyUI ---- */

static void check_apg(const char *name, double eta, double threshold)
{
    kiln_guesses g = guesses();
    CHECK_EQ(guidance_apg(&(apg_settings){eta, threshold, 0}, &g), KILN_OK);
    latent_check(file, name, &positive, TOLERANCE);
}

static void test_apg(void)
{
    check_apg("guidance.apg", 0.3, 5);
    check_apg("guidance.apg_any_length", -0.5, 0);
    check_apg("guidance.apg_long", 0.3, 500);
}

/* Levels 5, 3, 3 and then up to 4, where it begins anew. */
static void test_apg_momentum(void)
{
    const double level[] = {5, 3, 3, 4};
    double before = 0;
    memset(&memory, 0, sizeof memory);
    for (int i = 0; i < 4; i++) {
        char name[60];
        kiln_guesses g = guesses();
        g.memory = &memory, g.memory_sigma = before, g.sigma = level[i];
        CHECK_EQ(guidance_apg(&(apg_settings){0.2, 6, -0.75}, &g), KILN_OK);
        snprintf(name, sizeof name, "guidance.apg_momentum.%d", i);
        latent_check(file, name, &positive, TOLERANCE);
        before = level[i];
    }
}

static void test_tangential(void)
{
    kiln_guesses g = guesses();
    CHECK_EQ(guidance_tangential(&g), KILN_OK);
    latent_check(file, "guidance.tcfg", &negative, TOLERANCE);
}

static void test_zero_star(void)
{
    kiln_guesses g = guesses();
    CHECK_EQ(guidance_zero_star(&g), KILN_OK);
    latent_check(file, "guidance.zero_star", &x0, TOLERANCE);
}

static void test_mahiro(void)
{
    kiln_guesses g = guesses();
    CHECK_EQ(guidance_mahiro(&g), KILN_OK);
    latent_check(file, "guidance.mahiro", &x0, TOLERANCE);
}

static void test_norm(void)
{
    kiln_guesses g = guesses();
    CHECK_EQ(guidance_norm_after(0.9, &g), KILN_OK);
    latent_check(file, "guidance.norm_after", &x0, TOLERANCE);
    g = guesses();
    CHECK_EQ(guidance_norm_instead(0.4, &g), KILN_OK);
    latent_check(file, "guidance.norm_instead", &x0, TOLERANCE);
}

static void test_renorm(void)
{
    const renorm_settings s[] = {{100, 1}, {100, 2.1}, {1, 1}};
    for (int i = 0; i < 3; i++) {
        char name[60];
        kiln_guesses g = guesses();
        CHECK_EQ(guidance_renorm(&s[i], &g), KILN_OK);
        snprintf(name, sizeof name, "guidance.renorm.%d", i);
        latent_check(file, name, &x0, TOLERANCE);
    }
    kiln_guesses g = guesses();
    kiln_latent plain = x0;
    CHECK_EQ(guidance_renorm(&(renorm_settings){100, 0}, &g), KILN_OK); /* any length: as CFG */
    check_array(x0.v, plain.v, kit_numbers(), TOLERANCE, "any length", __FILE__, __LINE__);
}

static void test_frequencies(void)
{
    const frequency_settings s[] = {{0.8, 1.6, 2}, {1.3, 0.5, 20}};
    for (int i = 0; i < 2; i++) {
        char name[60];
        kiln_guesses g = guesses();
        CHECK_EQ(guidance_frequencies(&s[i], &g), KILN_OK);
        snprintf(name, sizeof name, "guidance.fresca.%d", i);
        latent_check(file, name, &positive, TOLERANCE);
    }
}

/* Equation 6 by hand, of a diffusion and of a flow, at level 0.5. */
static void test_score_rescaling(void)
{
    kiln_standard_sampling flow, diffusion;
    double sigma[2] = {0.1, 10};
    kiln_standard_sampling_init(&flow,
                                &(kiln_sampling_row){.prediction = KILN_PREDICT_FLOW, .n_sigma = 2, .sigma = sigma});
    kiln_standard_sampling_init(&diffusion,
                                &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = 2, .sigma = sigma});
    const struct {
        const kiln_model_sampling *by;
        double clean, power;
    } row[] = {{&flow.base, 0.5, 1}, {&diffusion.base, 1, 4}};
    for (size_t i = 0; i < 2; i++) {
        kiln_guesses g = guesses();
        kiln_latent wanted;
        double v = row[i].power * 1.5 * 1.5, factor = (v + 1) / (v / 0.8 + 1);
        g.sampling = row[i].by, g.sigma = 0.5;
        kit_latents.lincomb(&kit_latents, &wanted, 2, (double[]){(1 - factor) / row[i].clean, factor},
                            (kiln_latent *[]){&x, &x0});
        CHECK_EQ(guidance_score_rescaling(0.8, 1.5, &g), KILN_OK);
        check_array(x0.v, wanted.v, kit_numbers(), TOLERANCE, "equation 6", __FILE__, __LINE__);
        wanted = x0;
        CHECK_EQ(guidance_score_rescaling(1, 1.5, &g), KILN_OK);
        CHECK(memcmp(&wanted, &x0, sizeof x0) == 0);
    }
}

/* ---- what has to hold whatever the numbers are ---- */

/* Nothing taken away: the usual sum at a cfg that is one higher. */
static void test_apg_neutral(void)
{
    kiln_guesses g = guesses();
    kiln_latent wanted;
    kit_latents.add_difference(&kit_latents, &wanted, &negative, 5, &positive, &negative);
    CHECK_EQ(guidance_apg(&(apg_settings){1, 0, 0}, &g), KILN_OK);
    kit_latents.add_difference(&kit_latents, &x0, &negative, 4, &positive, &negative);
    check_array(x0.v, wanted.v, kit_numbers(), TOLERANCE, "eta 1, any length", __FILE__, __LINE__);
}

/* Equal guesses have all in common. */
static void test_equal_guesses(void)
{
    kiln_guesses g = guesses();
    kiln_latent wanted = positive;
    negative = positive;
    CHECK_EQ(guidance_tangential(&g), KILN_OK);
    check_array(negative.v, wanted.v, kit_numbers(), TOLERANCE, "tcfg", __FILE__, __LINE__);
    negative = positive, x0 = positive;
    CHECK_EQ(guidance_zero_star(&g), KILN_OK);
    check_array(x0.v, wanted.v, kit_numbers(), TOLERANCE, "zero star", __FILE__, __LINE__);
}

/* Guesses of zero noise, or of nothing at all, make no NaN. */
static void test_guesses_of_nothing(void)
{
    kiln_guesses g = guesses();
    int finite = 1;
    memset(&x, 0, sizeof x), positive = negative = x0 = x;
    CHECK_EQ(guidance_apg(&(apg_settings){0.5, 5, 0}, &g), KILN_OK);
    CHECK_EQ(guidance_tangential(&g), KILN_OK);
    CHECK_EQ(guidance_zero_star(&g), KILN_OK);
    CHECK_EQ(guidance_norm_after(1, &g), KILN_OK);
    CHECK_EQ(guidance_norm_instead(1, &g), KILN_OK);
    CHECK_EQ(guidance_renorm(&(renorm_settings){100, 1}, &g), KILN_OK);
    CHECK_EQ(guidance_mahiro(&g), KILN_OK);
    for (size_t i = 0; i < kit_numbers(); i++)
        finite &= isfinite(positive.v[i]) && isfinite(negative.v[i]) && isfinite(x0.v[i]);
    CHECK(finite);
}

/* At cfg 1 there is no negative guess: what needs one leaves x0 as it is. */
static void test_without_a_negative(void)
{
    kiln_guesses g = guesses();
    kiln_latent wanted;
    g.negative = NULL, g.cfg = 1, x0 = wanted = positive;
    CHECK_EQ(guidance_zero_star(&g), KILN_OK);
    CHECK_EQ(guidance_mahiro(&g), KILN_OK);
    check_array(x0.v, wanted.v, kit_numbers(), 1e-7, "cfg 1", __FILE__, __LINE__);
}

/* ---- what it refuses ---- */

static void test_refusals(void)
{
    kiln_guesses g = guesses();
    g.cfg = 0;
    CHECK_EQ(guidance_apg(&(apg_settings){1, 5, 0}, &g), KILN_ERR_INVALID);
    CHECK_MSG(strstr(said, "APG divides by cfg") != NULL, "%s", said);
    g = guesses();
    CHECK_EQ(guidance_apg(&(apg_settings){1, 5, -0.5}, &g), KILN_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(said, "set momentum to 0") != NULL, "%s", said);
    g = guesses();
    kit_more = 8;
    CHECK_EQ(guidance_mahiro(&g), KILN_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(said, "several streams") != NULL, "%s", said);
}

/* ---- PAG: one more guess, with a hook ---- */

static const kiln_hook *asked_hook;

static kiln_status give_further(const kiln_guesses *g, const kiln_further_guess *asked, kiln_latent **out)
{
    (void)g;
    CHECK_EQ(asked->unconditional, 0);
    CHECK(!asked->x && asked->n_hook == 1);
    asked_hook = asked->hook[0];
    *out = &further;
    return KILN_OK;
}

static char failure[400];
static kiln_t note_failure(kiln_program *p, const char *fmt, ...)
{
    va_list args;
    (void)p;
    va_start(args, fmt);
    vsnprintf(failure, sizeof failure, fmt, args);
    va_end(args);
    return (kiln_t){0};
}

static void test_pag(void)
{
    kiln_guesses g = guesses();
    kiln_latent wanted;
    model_patch *p = pag_new(1.5);
    g.evaluate = give_further;
    latent_read(file, "guidance.negative", &further);
    kit_latents.add_difference(&kit_latents, &wanted, &x0, 1.5, &positive, &further);
    CHECK_EQ(p->n_hook, 0); /* nothing hangs on the model itself */
    CHECK_EQ(p->guidance.apply(p->guidance.self, &g), KILN_OK);
    check_array(x0.v, wanted.v, kit_numbers(), 1e-7, "pag", __FILE__, __LINE__);
    kiln_attention_info a = {.size = sizeof a, .v = {7}};
    const struct {
        const char *place;
        uint32_t id;
    } at[] = {{"middle.1.attn1", 7}, {"middle.1.t3.attn1", 7}, {"middle.1.attn2", 0}, {"input.4.attn1", 0}};
    for (size_t i = 0; i < COUNT(at); i++) {
        a.place = at[i].place;
        CHECK_EQ(asked_hook->attention(asked_hook, NULL, &a).id, at[i].id);
    }
    kiln_attention grouped = {.size = sizeof grouped, .kv_heads = 1};
    kiln_ops ops = {.size = sizeof ops, .fail = note_failure};
    a.place = "middle.1.attn1", a.more = &grouped;
    CHECK_EQ(asked_hook->attention(asked_hook, &(kiln_recording){.size = sizeof(kiln_recording), .ops = &ops}, &a).id,
             0);
    CHECK_MSG(strstr(failure, "PerturbedAttentionGuidance: the attention at 'middle.1.attn1'") != NULL, "%s", failure);
    free(p);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_apg),
        CASE(test_apg_momentum),
        CASE(test_tangential),
        CASE(test_zero_star),
        CASE(test_mahiro),
        CASE(test_norm),
        CASE(test_renorm),
        CASE(test_frequencies),
        CASE(test_score_rescaling),
        CASE(test_apg_neutral),
        CASE(test_equal_guesses),
        CASE(test_refusals),
        CASE(test_pag),
        CASE(test_without_a_negative),
        CASE(test_guesses_of_nothing),
    };
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    weights_unref(file);
    return status;
}
