/* test_unet_architecture.c - what released UNets are called by their configurations: each number that is another makes
 * it another network, and nothing behind the last level counts; and which inputs they have. Figures: the models'
 * config.json.
 */
#include "harness.h"

#include "kiln/standard_sampling.h"
#include "unet_architecture.h"
#include "unet_inputs.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t beside, levels, linear, middle;
    int64_t width, context, embedded;
    uint32_t depth[4];
} released[] = {{"SD1.5", UNET_ALONE, 4, 0, 2, 320, 768, 0, {1, 1, 1, 0}},
                {"SD2.1 (eps)", UNET_ALONE, 4, 1, 2, 320, 1024, 0, {1, 1, 1, 0}},
                {"SD2.1 unCLIP-L (eps)", UNET_VECTOR, 4, 1, 2, 320, 1024, 1536, {1, 1, 1, 0}},
                {"SD2.1 unCLIP-H (eps)", UNET_VECTOR, 4, 1, 2, 320, 1024, 2048, {1, 1, 1, 0}},
                {"SDXL base", UNET_SIZES, 3, 1, 2, 320, 2048, 2816, {0, 2, 10}},
                {"SDXL refiner", UNET_SIZES, 4, 1, 2, 384, 1280, 2560, {0, 4, 4, 0}},
                {"SSD-1B", UNET_SIZES, 3, 1, 1, 320, 2048, 2816, {0, 2, 4}},
                {"Segmind Vega", UNET_SIZES, 3, 1, 1, 320, 2048, 2816, {0, 1, 2}},
                {"KOALA-700M", UNET_SIZES, 3, 1, 0, 320, 2048, 2816, {0, 2, 5}},
                {"KOALA-1B", UNET_SIZES, 3, 1, 2, 320, 2048, 2816, {0, 2, 6}}};
enum { RELEASED = sizeof released / sizeof released[0] };

/* What no level is: numbers that would be noticed. */
static unet_config config_of(size_t i)
{
    unet_config c;
    memset(&c, 0x55, sizeof c);
    c.encoder = 0, c.concat = UNET_PLAIN, c.guidance = 0, c.n_number = i == 5 ? 5 : 6;
    c.beside = released[i].beside, c.levels = released[i].levels, c.linear = released[i].linear;
    c.middle = released[i].middle, c.context = released[i].context, c.embedded = released[i].embedded;
    for (uint32_t k = 0; k < c.levels; k++) c.channels[k] = released[i].width << k, c.down[k][0] = released[i].depth[k];
    return c;
}

static void is_called(const unet_config *c, uint32_t prediction, const char *wanted)
{
    char called[UNET_ARCHITECTURE_MAX] = "";
    unet_architecture(c, prediction, called);
    CHECK_STR(called, wanted);
}

static void test_released(void)
{
    for (size_t i = 0; i < RELEASED; i++) {
        unet_config c = config_of(i);
        is_called(&c, KILN_PREDICT_EPS, released[i].name);
    }
}

static void test_every_number_tells(void)
{
    for (size_t i = 0; i < RELEASED; i++)
        for (uint32_t k = 0; k < 5 + released[i].levels; k++) {
            unet_config c = config_of(i);
            char called[UNET_ARCHITECTURE_MAX] = "";
            if (k == 0) c.channels[0]++;
            if (k == 1) c.context++;
            if (k == 2) c.embedded++;
            if (k == 3) c.middle = 3;
            if (k == 4) c.levels++;
            if (k > 4) c.down[k - 5][0] += 20;
            unet_architecture(&c, KILN_PREDICT_EPS, called);
            CHECK_MSG(strncmp(called, "UNet like ", 10) == 0, "%s with another %u is called %s", released[i].name, k,
                      called);
        }
}

static void test_what_is_said_behind_the_name(void)
{
    unet_config c = config_of(0);
    is_called(&c, KILN_PREDICT_V, "SD1.5 (v)");
    is_called(&c, KILN_PREDICT_X0, "SD1.5 (x0)");
    c.concat = UNET_INPAINT;
    is_called(&c, KILN_PREDICT_EPS, "SD1.5 inpainting");
    c.concat = UNET_EDIT, c.guidance = 256;
    is_called(&c, KILN_PREDICT_EPS, "SD1.5 LCM instruct-pix2pix");
    c = config_of(1);
    is_called(&c, KILN_PREDICT_V, "SD2.1 (v)");
    c.concat = UNET_INPAINT; /* was trained one way only */
    is_called(&c, KILN_PREDICT_EPS, "SD2.1 inpainting");
    c = config_of(4);
    is_called(&c, KILN_PREDICT_EDM, "SDXL base (EDM)");
    c.channels[0] = 32, c.channels[2] = 64;
    is_called(&c, KILN_PREDICT_EPS, "UNet like SDXL's, 32 to 64 channels");
    c = config_of(5), c.channels[0] = 32, c.channels[3] = 128;
    is_called(&c, KILN_PREDICT_EPS, "UNet like the SDXL refiner's, 32 to 128 channels");
    c = config_of(0), c.channels[0] = 32, c.channels[3] = 64;
    is_called(&c, KILN_PREDICT_EPS, "UNet like SD1's, 32 to 64 channels");
}

static void test_ranges(void)
{
    for (size_t i = 0; i < RELEASED; i++) {
        const unet_config c = config_of(i);
        const char *name = unet_range_name(&c), *wanted = c.beside != UNET_SIZES ? NULL : i == 5 ? "refiner" : "base";
        CHECK_MSG(wanted ? name && strcmp(name, wanted) == 0 : !name, "%s: %s", released[i].name, name ? name : "none");
        CHECK_EQ(unet_needs_range(&c), c.beside != UNET_SIZES && c.linear);
    }
}

/* A row for each input and no other, in order. */
static void check_rows(const unet_config *c, const char *wanted)
{
    kiln_input_spec row[64];
    char names[400] = "";
    const uint32_t n = unet_input_rows(c, 0, row);
    for (uint32_t i = 0; i < n && i < 64; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "", row[i].name);
    CHECK_STR(names, wanted);
}

static void test_inputs(void)
{
    static const char *const base[] = {"height", "width", "crop_h", "crop_w", "target_height", "target_width"},
                             *const refiner[] = {"height", "width", "crop_h", "crop_w", "aesthetic_score"};
    unet_config c = config_of(0);
    check_rows(&c, "context");
    c.concat = UNET_INPAINT, c.guidance = 256;
    check_rows(&c, "context guidance mask masked_image");
    c = config_of(4), memcpy(c.number, base, sizeof base), c.sinusoid = 256;
    check_rows(&c, "context pooled height width crop_h crop_w target_height target_width");
    kiln_input_spec row[UNET_INPUTS_MAX];
    unet_input_rows(&c, 0, row);
    CHECK(row[1].width == 1280 && row[6].fallback_from && strcmp(row[6].fallback_from, "height") == 0 &&
          row[4].fallback == 0);
    c = config_of(5), memcpy(c.number, refiner, sizeof refiner), c.sinusoid = 256, c.concat = UNET_EDIT;
    check_rows(&c, "context pooled height width crop_h crop_w aesthetic_score image");
    c = config_of(3);
    check_rows(&c, "context image_embedding");
    c = config_of(3), c.beside = UNET_CLASS, c.concat = UNET_UPSCALE;
    check_rows(&c, "context noise_level image");
    c = config_of(0), c.encoder = 1, c.context = 0;
    check_rows(&c, "");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_released), CASE(test_every_number_tells),
                                      CASE(test_what_is_said_behind_the_name), CASE(test_ranges), CASE(test_inputs)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
