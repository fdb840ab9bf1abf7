/* test_text_xl.c - the text encoders of SDXL, its refiner and SD2 against transformers (tests/golden/text_xl): chunks,
 * both paddings, weights, layers, pooled. Tolerance: 1e-4, the bound of the parity table for whole encoders. */
#include "clip_kit.h"
#include "text_encode.h"
#include "text_encode_sdxl.h"

#include <math.h>

#define WHOLE 1e-4
#define SDXL "tests/golden/tiny-sdxl-text"
#define SD2 "tests/golden/tiny-sd2-text"

enum { STRIDE = 5, L_WIDTH = 16 /* of the pair's 80 */ };

static const int lengths[] = {1, 75, 76, 77, 150, 300};
static const char weighted[] = "a (cute:1.4) cat, ((oil)) painting, (blurry:-0.5) background";

static const char *letters(int count)
{
    static char text[2 * 300 + 1];
    for (int i = 0; i < count; i++) {
        text[2 * i] = "abcdefghijklmnopqrstuvwxyz"[(7 * i + i * i) % 26];
        text[2 * i + 1] = ' ';
    }
    text[2 * count - 1] = 0;
    return text;
}

static const char *long_prompt(void)
{
    static char text[1000];
    text[0] = 0;
    for (int i = 0; i < 9; i++) strcat(text, "(a landscape:1.2) with mountains, ");
    return strcat(text, "a (small:0.7) ring");
}

/* Columns from..from+width of every fifth row of the golden's tokens, against all of the conditioning's. */
static void check_tokens(const kiln_value *conditioning, array wanted, int64_t from, const char *what)
{
    kiln_tensor t = entry_tensor(conditioning, "tokens");
    if (!CHECK_MSG(wanted.data && t.data, "%s: nothing to compare", what)) return;
    int64_t rows = (t.dim[1] + STRIDE - 1) / STRIDE, width = t.dim[2];
    CHECK_EQ(rows, wanted.dim[0]);
    CHECK(from + width <= wanted.dim[1]);
    float *got = malloc((size_t)(rows * width) * sizeof *got), *want = malloc((size_t)(rows * width) * sizeof *want);
    for (int64_t i = 0; i < rows && rows == wanted.dim[0]; i++) {
        memcpy(got + i * width, (const float *)t.data + i * STRIDE * width, (size_t)width * sizeof *got);
        memcpy(want + i * width, wanted.data + i * wanted.dim[1] + from, (size_t)width * sizeof *want);
    }
    if (rows == wanted.dim[0]) check_array(got, want, (size_t)(rows * width), WHOLE, what, __FILE__, __LINE__);
    free(got), free(want), free(wanted.data);
}

static void check_pooled(const kiln_value *conditioning, array wanted, const char *what)
{
    kiln_tensor t = entry_tensor(conditioning, "pooled");
    if (!CHECK_MSG(wanted.data && t.data, "%s: nothing to compare", what)) return;
    CHECK_EQ(t.rank, 2);
    CHECK_EQ(t.dim[1], wanted.n);
    if (t.dim[1] == (int64_t)wanted.n) check_array(t.data, wanted.data, wanted.n, WHOLE, what, __FILE__, __LINE__);
    free(wanted.data);
}

static void check_case(kiln_value *conditioning, const kiln_weights *g, int64_t from, const char *name)
{
    char what[80];
    CHECK_MSG(conditioning != NULL, "%s: %s", name, rig_message());
    if (!conditioning) return;
    snprintf(what, sizeof what, "%s tokens", name);
    check_tokens(conditioning, golden(g, "%s.tokens", name), from, what);
    snprintf(what, sizeof what, "%s pooled", name);
    check_pooled(conditioning, golden(g, "%s.pooled", name), what);
    rig_host()->unref(conditioning);
}

static kiln_value *encode(kiln_value *clip, const char *text)
{
    return call_node(&node_clip_text_encode, clip, &(setting){.name = "text", .text = text}, 1);
}

static kiln_value *at_layer(kiln_value *clip, int layer)
{
    return call_node(&node_clip_set_last_layer, clip, &(setting){.name = "stop_at_clip_layer", .number = layer}, 1);
}

static void every_length(const char *folder, const char *kind)
{
    kiln_weights *g = open_weights("tests/golden/text_xl.safetensors");
    kiln_value *clip = open_clip_at(folder);
    REQUIRE(g && clip);
    for (int i = 0; i < 6; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s.%d", kind, i);
        check_case(encode(clip, letters(lengths[i])), g, 0, name);
    }
    rig_host()->unref(clip);
    weights_unref(g);
}

static void test_T3_T4_T8_sdxl_at_every_length(void) { every_length(SDXL, "xl"); }
static void test_T3_T4_T8_sd2_at_every_length(void) { every_length(SD2, "h"); }

static void layers(const char *folder, const char *kind, const int *skip, size_t n)
{
    kiln_weights *g = open_weights("tests/golden/text_xl.safetensors");
    kiln_value *clip = open_clip_at(folder);
    REQUIRE(g && clip);
    for (size_t i = 0; i < n; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s.skip%d", kind, skip[i]);
        kiln_value *other = at_layer(clip, -skip[i]);
        REQUIRE(other);
        check_case(encode(other, weighted), g, 0, name);
        rig_host()->unref(other);
    }
    rig_host()->unref(clip);
    weights_unref(g);
}

static void test_T8_sdxl_at_other_layers(void) { layers(SDXL, "xl", (const int[]){1, 3}, 2); }
static void test_T8_sd2_at_other_layers(void) { layers(SD2, "h", (const int[]){2, 3, 4}, 3); }

static void test_weights_with_each_empty_prompt(void)
{
    static const char *const rows[][2] = {{SDXL, "xl.weighted"}, {SD2, "h.weighted"}};
    kiln_weights *g = open_weights("tests/golden/text_xl.safetensors");
    REQUIRE(g);
    for (size_t i = 0; i < 2; i++) {
        kiln_value *clip = open_clip_at(rows[i][0]);
        REQUIRE(clip);
        check_case(encode(clip, weighted), g, 0, rows[i][1]);
        rig_host()->unref(clip);
    }
    weights_unref(g);
}

/* ---- CLIPTextEncodeSDXL ---- */

static void test_a_prompt_for_each_and_the_shorter_is_filled_up(void)
{
    kiln_weights *g = open_weights("tests/golden/text_xl.safetensors");
    kiln_value *clip = open_clip_at(SDXL);
    REQUIRE(g && clip);
    const setting long_l[] = {{"text_l", long_prompt(), 0}, {"text_g", "a cat", 0}};
    const setting long_g[] = {{"text_l", "(a cat:1.3)", 0}, {"text_g", long_prompt(), 0}};
    check_case(call_node(&node_clip_text_encode_sdxl, clip, long_l, 2), g, 0, "xl.long_l");
    check_case(call_node(&node_clip_text_encode_sdxl, clip, long_g, 2), g, 0, "xl.long_g");
    rig_host()->unref(clip);
    weights_unref(g);
}

static void check_number(const kiln_value *conditioning, const char *key, double wanted)
{
    const kiln_value_api *v = rig_host()->ability(KILN_VALUE_ABILITY);
    const kiln_value *number = v->map_get(v->list_at(conditioning, 0), key);
    double got = NAN;
    CHECK_MSG(number && v->get_float(number, &got) == KILN_OK, "no number %s", key);
    CHECK_NEAR(got, wanted, 0);
}

static void test_sizes_and_score_are_keys_of_the_entry(void)
{
    kiln_value *clip = open_clip_at(SDXL);
    REQUIRE(clip);
    const setting base[] = {{"text_l", "a", 0},      {"text_g", "b", 0},      {"width", NULL, 640},
                            {"height", NULL, 512},   {"crop_w", NULL, 8},     {"crop_h", NULL, 16},
                            {"target_width", 0, 96}, {"target_height", 0, 80}};
    kiln_value *c = call_node(&node_clip_text_encode_sdxl, clip, base, sizeof base / sizeof *base);
    REQUIRE(c);
    for (size_t i = 2; i < sizeof base / sizeof *base; i++) check_number(c, base[i].name, base[i].number);
    rig_host()->unref(c);
    c = call_node(&node_clip_text_encode_sdxl, clip, base, 2);
    REQUIRE(c);
    check_number(c, "width", 1024), check_number(c, "crop_h", 0), check_number(c, "target_height", 1024);
    rig_host()->unref(c);
    const setting refiner[] = {{"text", "a", 0}, {"ascore", NULL, 2.5}, {"width", NULL, 768}};
    c = call_node(&node_clip_text_encode_sdxl_refiner, clip, refiner, 3);
    REQUIRE(c);
    check_number(c, "aesthetic_score", 2.5), check_number(c, "width", 768), check_number(c, "height", 1024);
    rig_host()->unref(c);
    rig_host()->unref(clip);
}

static void test_a_prompt_for_an_encoder_that_is_not_there(void)
{
    kiln_value *clip = open_clip_at(SD2);
    REQUIRE(clip);
    const setting two[] = {{"text_l", "a", 0}, {"text_g", "b", 0}};
    CHECK(call_node(&node_clip_text_encode_sdxl, clip, two, 2) == NULL);
    CHECK_MSG(strstr(rig_message(), "text encoder 'g'") && strstr(rig_message(), "this CLIP has h"), "%s",
              rig_message());
    rig_host()->unref(clip);
}

/* ---- what the encoders are ---- */

static void test_a_layer_too_deep_names_the_encoder(void)
{
    kiln_value *xl = open_clip_at(SDXL), *sd2 = open_clip_at(SD2);
    REQUIRE(xl && sd2);
    CHECK(at_layer(xl, -4) == NULL); /* G has three layers, L four */
    CHECK_MSG(strstr(rig_message(), "text encoder 'g' (CLIP text encoder, 64x3) has 3 layers"), "%s", rig_message());
    kiln_value *last = at_layer(sd2, -1); /* SD2's folders leave it out */
    REQUIRE(last);
    CHECK(encode(last, "a") == NULL);
    CHECK_MSG(strstr(rig_message(), "layers -2 (the last) to -4 (the first)"), "%s", rig_message());
    rig_host()->unref(last);
    rig_host()->unref(xl);
    rig_host()->unref(sd2);
}

/* The refiner's folder has text_encoder_2 alone: what it makes is the pair's second half. */
static void test_the_refiner_has_g_alone(void)
{
    static const char *const files[] = {"text_encoder_2/config.json", "text_encoder_2/model.safetensors",
                                        "tokenizer_2/vocab.json", "tokenizer_2/merges.txt",
                                        "tokenizer_2/special_tokens_map.json"};
    kiln_weights *g = open_weights("tests/golden/text_xl.safetensors");
    const char *folder = test_folder();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) copy_golden("tiny-sdxl-text", files[i], folder, files[i]);
    write_text(folder, "model_index.json",
               "{\"text_encoder\": [null, null], \"text_encoder_2\": [\"transformers\", "
               "\"CLIPTextModelWithProjection\"], \"tokenizer\": [null, null]}");
    kiln_value *clip = open_clip_in(folder);
    REQUIRE(g && clip);
    CHECK_EQ(clip_of(clip)->n_encoder, 1);
    CHECK_STR(kiln_clip_encoder_at(clip_of(clip), 0)->name, "g");
    check_case(encode(clip, letters(150)), g, L_WIDTH, "xl.4");
    check_case(call_node(&node_clip_text_encode_sdxl_refiner, clip, &(setting){.name = "text", .text = weighted}, 1), g,
               L_WIDTH, "xl.weighted");
    rig_host()->unref(clip);
    weights_unref(g);
}

int main(int argc, char **argv)
{
    if (!tokenizers()) return 1;
    static const test_case cases[] = {CASE(test_T3_T4_T8_sdxl_at_every_length),
                                      CASE(test_T3_T4_T8_sd2_at_every_length),
                                      CASE(test_T8_sdxl_at_other_layers),
                                      CASE(test_T8_sd2_at_other_layers),
                                      CASE(test_weights_with_each_empty_prompt),
                                      CASE(test_a_prompt_for_each_and_the_shorter_is_filled_up),
                                      CASE(test_sizes_and_score_are_keys_of_the_entry),
                                      CASE(test_a_prompt_for_an_encoder_that_is_not_there),
                                      CASE(test_a_layer_too_deep_names_the_encoder),
                                      CASE(test_the_refiner_has_g_alone)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
