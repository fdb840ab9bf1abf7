/* unet_architecture.c - see unet_architecture.h. The table says what tells released networks apart: width, context,
 * what is embedded beside the time, and depths. */
#include "unet_architecture.h"

#include "kiln/kit.h"
#include "kiln/standard_sampling.h"
#include "unet_settings.h"

#include <stdio.h>
#include <string.h>

enum { ANY = 100 };

/* depth: of the first attention of each level, 0 where there is none. */
static const struct {
    const char *name;
    uint32_t beside, levels, linear, middle;
    int64_t width, context, embedded;
    uint32_t depth[4];
} released[] = {
    {"SD1.5", UNET_ALONE, 4, 0, 2, 320, 768, 0, {1, 1, 1, 0}},
    {"SD2.1", UNET_ALONE, 4, ANY, 2, 320, 1024, 0, {1, 1, 1, 0}},
    {"SD2.1 unCLIP-L", UNET_VECTOR, 4, ANY, 2, 320, 1024, 1536, {1, 1, 1, 0}},
    {"SD2.1 unCLIP-H", UNET_VECTOR, 4, ANY, 2, 320, 1024, 2048, {1, 1, 1, 0}},
    {"SDXL base", UNET_SIZES, 3, ANY, 2, 320, 2048, 2816, {0, 2, 10}},
    {"SDXL refiner", UNET_SIZES, 4, ANY, 2, 384, 1280, 2560, {0, 4, 4, 0}},
    {"SSD-1B", UNET_SIZES, 3, ANY, 1, 320, 2048, 2816, {0, 2, 4}},
    {"Segmind Vega", UNET_SIZES, 3, ANY, 1, 320, 2048, 2816, {0, 1, 2}},
    {"KOALA-700M", UNET_SIZES, 3, ANY, 0, 320, 2048, 2816, {0, 2, 5}},
    {"KOALA-1B", UNET_SIZES, 3, ANY, 2, 320, 2048, 2816, {0, 2, 6}},
    {"SD x4 upscaler", UNET_CLASS, 4, ANY, 2, 256, 1024, 1000, {0, 1, 1, 1}},
};

static const char *released_name(const unet_config *c)
{
    for (size_t i = 0; i < COUNT(released); i++) {
        int same = released[i].beside == c->beside && released[i].levels == c->levels &&
                   released[i].width == c->channels[0] && released[i].context == c->context &&
                   released[i].embedded == c->embedded &&
                   (released[i].linear == ANY || released[i].linear == c->linear) && released[i].middle == c->middle;
        for (uint32_t k = 0; same && k < c->levels; k++) same = released[i].depth[k] == c->down[k][0];
        if (same) return released[i].name;
    }
    return NULL;
}

int unet_is_released(const unet_config *c)
{
    unet_config usual = *c;
    if (!released_name(c)) return 0;
    unet_guess_heads(&usual);
    return memcmp(usual.heads, c->heads, sizeof c->heads) == 0 && c->groups == 32 && c->eps == 1e-5f && c->cos_first &&
           c->freq_shift == 0 && (c->beside != UNET_SIZES || c->sinusoid == 256);
}

static int is_refiner(const unet_config *c) { return c->beside == UNET_SIZES && c->n_number == 5; }

const char *unet_range_name(const unet_config *c)
{
    if (c->beside != UNET_SIZES) return NULL;
    return is_refiner(c) ? "refiner" : "base";
}

/* SD2 and its relatives; their scores leave what f16 holds, and diffusers computes them in f32 (upcast_attention). */
int unet_needs_range(const unet_config *c) { return c->beside != UNET_SIZES && c->linear; }

void unet_architecture(const unet_config *c, uint32_t prediction, char out[UNET_ARCHITECTURE_MAX])
{
    static const char *const more[] = {
        [UNET_PLAIN] = "", [UNET_INPAINT] = " inpainting", [UNET_EDIT] = " instruct-pix2pix", [UNET_UPSCALE] = ""};
    const char *name = released_name(c), *like = c->beside == UNET_SIZES ? is_refiner(c) ? "the SDXL refiner" : "SDXL"
                                                 : c->beside == UNET_VECTOR ? "unCLIP"
                                                 : c->beside == UNET_CLASS  ? "the x4 upscaler"
                                                 : c->linear                ? "SD2"
                                                                            : "SD1";
    /* SD2 comes both ways, and all others predict noise unless it is said. */
    int either = unet_needs_range(c) && c->concat == UNET_PLAIN && !c->encoder;
    const char *kind = prediction == KILN_PREDICT_V     ? " (v)"
                       : prediction == KILN_PREDICT_EDM ? " (EDM)"
                       : prediction == KILN_PREDICT_X0  ? " (x0)"
                       : either                         ? " (eps)"
                                                        : "";
    const char *guided = c->guidance ? " LCM" : "";
    if (name)
        snprintf(out, UNET_ARCHITECTURE_MAX, "%s%s%s%s", name, guided, more[c->concat], kind);
    else
        snprintf(out, UNET_ARCHITECTURE_MAX, "UNet like %s's%s%s%s, %lld to %lld channels", like, guided,
                 more[c->concat], kind, (long long)c->channels[0], (long long)c->channels[c->levels - 1]);
}
