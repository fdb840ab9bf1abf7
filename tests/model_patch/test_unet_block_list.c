/* test_unet_block_list.c - lists of self-attentions as text: what they name, what they refuse and in which words, and
 * that nothing behind a list's end counts.
 */
#include "harness.h"

#include "unet_block_list.h"

#include <string.h>

static const char *const places[] = {"input.1.t0.attn1",  "input.2.t0.attn1",  "input.2.t1.attn1",
                                     "input.4.t0.attn1",  "middle.1.t0.attn1", "output.3.t0.attn1",
                                     "output.3.t1.attn1", "output.3.t2.attn1", "output.5.t0.attn1"};

static void list_places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    (void)d;
    fn(arg, "input.0", KILN_PLACE_BLOCK);
    fn(arg, "input.1.t0.attn2", KILN_PLACE_ATTENTION);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) fn(arg, places[i], KILN_PLACE_ATTENTION);
    fn(arg, "input.9.t64.attn1", KILN_PLACE_ATTENTION); /* more than a word has bits */
    fn(arg, "control.1.t0.attn1", KILN_PLACE_ATTENTION);
}

static const kiln_denoiser denoiser = {.size = sizeof denoiser, .places = list_places};
static const kiln_model model = {.size = sizeof model, .denoiser = &denoiser};

/* What lies behind its end are blocks too. */
static void all_of(unet_blocks *out)
{
    for (size_t i = 0; i < UNET_BLOCKS_MAX; i++) out->block[i] = (unet_block){"imo"[i % 3], 77, 1};
    unet_blocks_all(&model, out);
}

static void reads(const char *text, const char *wanted)
{
    unet_blocks all, found;
    char why[160] = "", shown[UNET_BLOCKS_TEXT] = "";
    all_of(&all);
    if (CHECK_MSG(unet_blocks_read(&all, text, &found, why), "'%s': %s", text, why)) unet_blocks_print(&found, shown);
    CHECK_STR(shown, wanted);
}

static void refuses(const char *text, const char *wanted)
{
    unet_blocks all, found;
    char why[160] = "";
    all_of(&all);
    CHECK_EQ(unet_blocks_read(&all, text, &found, why), 0);
    CHECK_STR(why, wanted);
}

static void test_all_of_a_model(void)
{
    unet_blocks all;
    char shown[UNET_BLOCKS_TEXT];
    all_of(&all);
    unet_blocks_print(&all, shown);
    CHECK_STR(shown, "i1:1,i2:3,i4:1,m1:1,o3:7,o5:1");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) CHECK(unet_blocks_have(&all, places[i]));
    CHECK(!unet_blocks_have(&all, "input.2.t2.attn1") && !unet_blocks_have(&all, "input.3.t0.attn1"));
    CHECK(!unet_blocks_have(&all, "output.77.t0.attn1") && !unet_blocks_have(&all, "input.1.t0.attn2"));
}

static void test_texts(void)
{
    reads("d0", "i1:1");
    reads("d1", "i2:3");
    reads("d1.1", "i2:2");
    reads("u0.1-2", "o3:6");
    reads("u0.0-2", "o3:7");
    reads("d0-2", "i1:1,i2:3,i4:1");
    reads("d2.0, m0 ,u1", "i4:1,m1:1,o5:1");
    reads(" u 0 . 2 ", "o3:4");
    reads("d1.0,d1.1", "i2:3"); /* of one block together */
}

static void test_refusals(void)
{
    refuses("d3", "'d3': this model has fewer such blocks with self-attention");
    refuses("m1", "'m1': this model has fewer such blocks with self-attention");
    refuses("u0-2", "'u0-2': this model has fewer such blocks with self-attention");
    refuses("d0.1", "'d0.1': the block has fewer transformers");
    refuses("u0.3", "'u0.3': the block has fewer transformers");
    refuses("u0.64", "'u0.64': the block has fewer transformers");
    refuses("d2-1", "'d2-1': the range ends before it begins");
    refuses("u0.2-1", "'u0.2-1': the range ends before it begins");
    refuses("x0", "'x0': a block begins with d, m or u: the way down, the middle, the way up");
    refuses("", "'': a block begins with d, m or u: the way down, the middle, the way up");
    refuses("d0,", "'': a block begins with d, m or u: the way down, the middle, the way up");
    refuses("d", "'d': a number is missing; blocks are written d2.0-1, m0, u3");
    refuses("d0.,m0", "'d0.': a number is missing; blocks are written d2.0-1, m0, u3");
    refuses("m0,d0 d1", "'d0 d1': blocks are written d2.0-1, m0, u3, with commas between");
    refuses("d99999999999", "'d99999999999': this model has fewer such blocks with self-attention");
}

static void test_one_by_its_source(void)
{
    unet_blocks all, one;
    char shown[UNET_BLOCKS_TEXT];
    all_of(&all);
    unet_blocks_one(&all, "output", 3, &one);
    unet_blocks_print(&one, shown);
    CHECK_STR(shown, "o3:7");
    unet_blocks_one(&all, "middle", 0, &one); /* the middle's attention is the second of its layers */
    unet_blocks_print(&one, shown);
    CHECK_STR(shown, "m1:1");
    unet_blocks_one(&all, "input", 77, &one);
    CHECK_EQ(one.n, 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_all_of_a_model), CASE(test_texts), CASE(test_refusals),
                                      CASE(test_one_by_its_source)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
