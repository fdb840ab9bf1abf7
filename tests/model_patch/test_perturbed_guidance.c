/* test_perturbed_guidance.c - guidance away from a perturbed guess, rescaled, against what the sd-perturbed-attention
 * nodes make of the same guesses (tests/golden/perturbed_guidance.safetensors, by
 * scripts/golden/perturbed_guidance.py); and lists of blocks. Tolerances are four times f32's error.
 */
#include "latents_kit.h"

#include "perturbed_guidance.h"
#include "unet_block_list.h"

#define TOLERANCE 2e-6

static kiln_latent x, positive, negative, perturbed, x0;

static kiln_status ignored(const kiln_guesses *g, kiln_status status, const char *fmt, ...)
{
    return (void)g, (void)fmt, status;
}

static kiln_guesses guesses(const kiln_weights *file)
{
    latent_read(file, "guidance.x", &x);
    latent_read(file, "guidance.positive", &positive);
    latent_read(file, "guidance.negative", &negative);
    latent_read(file, "guidance.perturbed", &perturbed);
    latent_read(file, "guidance.x0", &x0);
    kit_more = 0;
    return (kiln_guesses){.size = sizeof(kiln_guesses),
                          .latents = &kit_latents,
                          .sigma = 1,
                          .cfg = 4,
                          .x = &x,
                          .positive = &positive,
                          .negative = &negative,
                          .x0 = &x0,
                          .fail = ignored};
}

static void test_as_the_nodes_do(void)
{
    static const struct {
        perturbed_settings by;
        const char *name;
    } rows[] = {{{3, 0.3, RESCALE_FULL}, "guidance.full.0.3"},
                {{3, 1, RESCALE_FULL}, "guidance.full.1.0"},
                {{3, 0.3, RESCALE_PARTIAL}, "guidance.partial.0.3"},
                {{3, 1, RESCALE_PARTIAL}, "guidance.partial.1.0"},
                {{3, 0, RESCALE_SNF}, "guidance.snf"}};
    kiln_weights *file = open_weights("tests/golden/perturbed_guidance.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_guesses g = guesses(file);
        CHECK_EQ(perturbed_guidance(&rows[i].by, &g, &perturbed), KILN_OK);
        latent_check(file, rows[i].name, &x0, TOLERANCE);
    }
    weights_unref(file);
}

/* snf without a negative guess is the plain sum, and so is a share of 0. */
static void test_the_plain_sum(void)
{
    static kiln_latent want;
    kiln_weights *file = open_weights("tests/golden/perturbed_guidance.safetensors");
    for (int mode = 0; mode < 3; mode++) {
        kiln_guesses g = guesses(file);
        if (mode == RESCALE_SNF) g.negative = NULL;
        for (size_t i = 0; i < kit_numbers(); i++) want.v[i] = x0.v[i] + 3 * (positive.v[i] - perturbed.v[i]);
        CHECK_EQ(perturbed_guidance(&(perturbed_settings){3, 0, mode}, &g, &perturbed), KILN_OK);
        check_array(x0.v, want.v, kit_numbers(), TOLERANCE, "the plain sum", __FILE__, __LINE__);
    }
    kiln_guesses g = guesses(file);
    kit_more = 1;
    CHECK_EQ(perturbed_guidance(&(perturbed_settings){3, 1, RESCALE_FULL}, &g, &perturbed), KILN_ERR_UNSUPPORTED);
    weights_unref(file);
}

/* ---- lists ---- */

/* Down: blocks 1 and 2 of one transformer, 7 of three; the middle of two; up: 3 and 5. */
static void places(const kiln_denoiser *d, void (*fn)(void *, const char *, uint32_t), void *arg)
{
    static const char *const all[] = {"input.0",        "input.1.attn1.in",   "input.1.attn1",     "input.1.attn2",
                                      "input.2.attn1",  "input.7.attn1",      "input.7.t1.attn1",  "input.7.t2.attn1",
                                      "middle.0",       "middle.1.attn1",     "middle.1.t1.attn1", "middle",
                                      "output.3.attn1", "output.5.attn1.out", "output.5.attn1"};
    (void)d;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) fn(arg, all[i], 0);
}

static unet_blocks all_blocks(void)
{
    static const kiln_denoiser d = {.size = sizeof d, .places = places};
    unet_blocks all;
    unet_blocks_all(&(kiln_model){.size = sizeof(kiln_model), .denoiser = &d}, &all);
    return all;
}

static void test_lists(void)
{
    static const struct {
        const char *text, *want;
    } rows[] = {{"d0", "i1:1"},
                {"d2", "i7:7"},
                {"d2.0-1", "i7:3"},
                {"d2.2, m0.1", "i7:4,m1:2"},
                {"d0-2,u1", "i1:1,i2:1,i7:7,o5:1"},
                {" d1 - 2 . 0 ,m0", "i2:1,i7:1,m1:3"},
                {"m0.0,m0.1,m0.0", "m1:3"}};
    static const char *const wrong[] = {"",    "x1",  "d",      "d3",    "d0.1", "m1",  "u0-2",         "d2-1",
                                        "d0,", "d0;", "d2.1-3", "d2.70", "m0.",  "d0-", "d99999999999", "1"};
    unet_blocks all = all_blocks(), some;
    char text[UNET_BLOCKS_TEXT], why[160];
    unet_blocks_print(&all, text);
    CHECK_STR(text, "i1:1,i2:1,i7:7,m1:3,o3:1,o5:1");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_MSG(unet_blocks_read(&all, rows[i].text, &some, why), "%s: %s", rows[i].text, why);
        unet_blocks_print(&some, text);
        CHECK_STR(text, rows[i].want);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_MSG(!unet_blocks_read(&all, wrong[i], &some, why) && why[0], "'%s' is taken", wrong[i]);
}

static void test_what_is_among_them(void)
{
    unet_blocks all = all_blocks(), some;
    char why[160];
    CHECK(unet_blocks_read(&all, "d2.1-2,m0", &some, why));
    CHECK(unet_blocks_have(&some, "input.7.t1.attn1") && unet_blocks_have(&some, "middle.1.attn1"));
    CHECK(!unet_blocks_have(&some, "input.7.attn1") && !unet_blocks_have(&some, "input.7.t1.attn2") &&
          !unet_blocks_have(&some, "output.7.t1.attn1") && !unet_blocks_have(&some, "input.71.attn1"));
    unet_blocks_one(&all, "middle", 0, &some);
    CHECK(some.n == 1 && unet_blocks_have(&some, "middle.1.t1.attn1"));
    unet_blocks_one(&all, "output", 4, &some);
    CHECK(some.n == 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_as_the_nodes_do), CASE(test_the_plain_sum), CASE(test_lists),
                                      CASE(test_what_is_among_them)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
