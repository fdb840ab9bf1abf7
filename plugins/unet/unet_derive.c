/* unet_derive.c - the inputs that a UNet makes of an entry: kiln_denoiser.derive.
 *
 *   mask, masked_image   concat_mask, else the latent's noise_mask, brought to the latent's cells and rounded;
 *                        concat_latent_image, else what is sampled. Without any mask there is neither: the whole
 *                        picture is drawn, and a blank one stands beside it.
 *   image                concat_latent_image or concat_image, brought to the latent's cells; the x4 upscaler's with
 * noise noise_level          how much noise that is, in steps of the upscaler's own schedule guidance             as
 * LCM embeds it
 *   image_embedding      an unCLIP's, of unclip_conditioning (unet_unclip.h); SDXL has its first half as pooled
 *
 * Pictures of other proportions lose their edges, as ComfyUI's "center" does; a noise_mask, which belongs to the whole
 * latent, is stretched.
 */
#include "kiln/kit.h"
#include "kiln/resize.h"
#include "unet_inputs.h"
#include "unet_unclip.h"

#include <math.h>
#include <string.h>

#define LCM_GUIDANCE 8.5 /* diffusers' LatentConsistencyModelPipeline */
/* Noise on the x4 upscaler's picture, as stable-diffusion-x4-upscaler was trained: levels of the schedule below, of
 * which the first 350 are used. The seed is ComfyUI's (SD_X4Upscaler). */
#define AUGMENTATION_LEVELS 350
#define AUGMENTATION_STEPS 1000
#define AUGMENTATION_BETA_FIRST 1e-4
#define AUGMENTATION_BETA_LAST 2e-2
#define AUGMENTATION_SEED 10 /* so much below the sampling's */

const char *const unet_derive_keys[] = {"concat_mask", "concat_latent_image", "concat_image",
                                        "guidance",    "noise_augmentation",  "unclip_conditioning",
                                        NULL};

int unet_derives(const unet_config *c)
{
    return c->concat != UNET_PLAIN || c->guidance || c->beside == UNET_VECTOR || c->beside == UNET_SIZES ||
           c->beside == UNET_CLASS;
}

static const kiln_value_api *values(const kiln_derivation *d) { return d->host->ability(KILN_VALUE_ABILITY); }

/* ---- tensors of other sizes ---- */

/* A MASK, a LATENT or a tensor as [n,h,w,c]; `what` is its key. */
static kiln_status view_picture(const kiln_derivation *d, const char *what, const kiln_value *value, int64_t dim[4],
                                const float **data)
{
    const kiln_value_api *v = values(d);
    kiln_tensor t = {.size = sizeof t};
    if (v->kind(value) == KILN_V_MAP && v->map_get(value, "samples")) value = v->map_get(value, "samples");
    if (v->kind(value) != KILN_V_TENSOR)
        return d->host->fail(d->ctx, KILN_ERR_INVALID, "the conditioning's '%s' has to be a tensor", what);
    TRY(d->host->view(d->ctx, value, &t));
    if (t.dtype != KILN_F32 || (t.rank != 3 && t.rank != 4) || !kit_count(&t))
        return d->host->fail(d->ctx, KILN_ERR_INVALID, "the conditioning's '%s' is empty, or no picture of floats",
                             what);
    for (uint32_t i = 0; i < 4; i++) dim[i] = i < t.rank ? t.dim[i] : 1;
    *data = t.data;
    return KILN_OK;
}

/* A picture or a mask with as many cells as x; in an estimate without data. */
static kiln_status fit_picture(const kiln_derivation *d, const char *what, const kiln_value *value, int is_mask,
                               kiln_tensor *out)
{
    int64_t from[4];
    const float *data = NULL;
    TRY(view_picture(d, what, value, from, &data));
    int64_t h = d->dim[1], w = d->dim[2], c = is_mask ? 1 : from[3];
    int64_t *dim = d->host->scratch(d->ctx, 4 * sizeof *dim, KILN_CPU);
    if (!dim) return KILN_ERR_NOMEM;
    memcpy(dim, (const int64_t[]){from[0], h, w, c}, 4 * sizeof *dim);
    *out = kit_window(KILN_F32, KILN_CPU, NULL, 4, dim);
    float *made = d->host->scratch(d->ctx, kit_count(out) * sizeof *made, KILN_CPU);
    if (!made) return KILN_ERR_NOMEM;
    resize_box box = {0, 0, from[1], from[2]};
    if (strcmp(what, "noise_mask") != 0) box = resize_centre(from[1], from[2], h, w);
    for (int64_t i = 0; i < from[0] && !d->estimate; i++) {
        const float *plane = data + i * from[1] * from[2] * from[3];
        resize_source src = {plane + (box.y * from[2] + box.x) * from[3], box.h, box.w, from[3], from[2] * from[3]};
        resize_plane(src, made + i * h * w * c, h, w, RESIZE_BILINEAR);
    }
    for (size_t i = 0; is_mask && !d->estimate && i < kit_count(out); i++) made[i] = rintf(made[i]);
    if (!d->estimate) out->data = made;
    return KILN_OK;
}

/* Gives it as the input `name`. */
static kiln_status add_picture(const kiln_derivation *d, const char *name, const char *what, const kiln_value *value)
{
    kiln_tensor t;
    TRY(fit_picture(d, what, value, strcmp(name, "mask") == 0, &t));
    d->add(d, name, &t);
    return KILN_OK;
}

/* ---- each kind ---- */

static kiln_status derive_inpaint(const kiln_derivation *d)
{
    const kiln_value_api *v = values(d);
    const kiln_value *mask = v->map_get(d->conditioning, "concat_mask"),
                     *image = v->map_get(d->conditioning, "concat_latent_image");
    const char *name = "concat_mask";
    if (!mask) mask = v->map_get(d->latent, "noise_mask"), name = "noise_mask";
    if (!mask) return KILN_OK;
    TRY(add_picture(d, "mask", name, mask));
    return add_picture(d, "masked_image", image ? "concat_latent_image" : "samples", image ? image : d->latent);
}

static kiln_status derive_edit(const kiln_derivation *d)
{
    const char *key = "concat_latent_image";
    const kiln_value *image = values(d)->map_get(d->conditioning, key);
    return image ? add_picture(d, "image", key, image) : KILN_OK;
}

/* ---- the x4 upscaler ---- */

/* sqrt(alphas_cumprod) of a level; betas are squares of numbers at even distances (LDM's "linear"). */
static double signal_at(int64_t level)
{
    double kept = 1, first = sqrt(AUGMENTATION_BETA_FIRST), last = sqrt(AUGMENTATION_BETA_LAST);
    for (int64_t i = 0; i <= level; i++) {
        double root = first + (last - first) * (double)i / (AUGMENTATION_STEPS - 1);
        kept *= 1 - root * root;
    }
    return sqrt(kept);
}

/* x [n,h,w,c] = signal x + noise, drawn in torch's order [n,c,h,w]. */
static kiln_status add_noise(const kiln_derivation *d, int64_t level, kiln_tensor *x)
{
    float *data = x->data, *noise = d->host->scratch(d->ctx, kit_count(x) * sizeof *noise, KILN_CPU);
    int64_t cells = x->dim[1] * x->dim[2], channels = x->dim[3];
    double signal = signal_at(level);
    float of_x = (float)signal, of_noise = (float)sqrt(1 - signal * signal);
    if (!noise) return KILN_ERR_NOMEM;
    d->randn(d, d->seed - AUGMENTATION_SEED, noise, kit_count(x));
    for (int64_t p = 0; p < x->dim[0]; p++, data += cells * channels, noise += cells * channels)
        for (int64_t i = 0; i < cells; i++)
            for (int64_t k = 0; k < channels; k++)
                data[i * channels + k] = of_x * data[i * channels + k] + of_noise * noise[k * cells + i];
    return KILN_OK;
}

static kiln_status read_augmentation(const kiln_derivation *d, double *share)
{
    const kiln_value_api *v = values(d);
    const kiln_value *given = v->map_get(d->conditioning, "noise_augmentation");
    *share = 0;
    if (given && (v->get_float(given, share) != KILN_OK || !(*share >= 0 && *share <= 1)))
        return d->host->fail(d->ctx, KILN_ERR_INVALID,
                             "the conditioning's 'noise_augmentation' has to be a number from 0 to 1");
    return KILN_OK;
}

static kiln_status derive_small_picture(const kiln_derivation *d)
{
    static const char *const key = "concat_image";
    static const int64_t dim[2] = {1, 1};
    const kiln_value *image = values(d)->map_get(d->conditioning, key);
    int32_t *number = d->host->scratch(d->ctx, sizeof *number, KILN_CPU);
    kiln_tensor t;
    double share;
    if (!number) return KILN_ERR_NOMEM;
    TRY(read_augmentation(d, &share));
    *number = (int32_t)rint(AUGMENTATION_LEVELS * share);
    kiln_tensor id = kit_window(KILN_I32, KILN_CPU, d->estimate ? NULL : number, 2, dim);
    d->add(d, "noise_level", &id);
    if (!image) return KILN_OK;
    TRY(fit_picture(d, key, image, 0, &t));
    if (share > 0 && !d->estimate) TRY(add_noise(d, *number, &t));
    d->add(d, "image", &t);
    return KILN_OK;
}

static kiln_status derive_guidance(const kiln_derivation *d)
{
    const kiln_value_api *v = values(d);
    const kiln_value *given = v->map_get(d->conditioning, "guidance");
    static const int64_t one = 1;
    double scale = LCM_GUIDANCE;
    if (given && v->get_float(given, &scale) != KILN_OK)
        return d->host->fail(d->ctx, KILN_ERR_INVALID, "the conditioning's 'guidance' has to be a number");
    float *number = d->host->scratch(d->ctx, sizeof *number, KILN_CPU);
    if (!number) return KILN_ERR_NOMEM;
    *number = (float)((scale - 1) * 1000);
    kiln_tensor t = kit_window(KILN_F32, KILN_CPU, number, 1, &one);
    d->add(d, "guidance", &t);
    return KILN_OK;
}

/* SD2.1's unCLIP puts more noise on the sum of several pictures than SDXL does. */
static kiln_status derive_unclip(const unet_config *c, const kiln_derivation *d)
{
    kiln_tensor t;
    if (!values(d)->map_get(d->conditioning, UNCLIP_KEY)) return KILN_OK;
    if (c->beside == UNET_VECTOR) {
        TRY(unclip_embedding(d, c->embedded / 2, 0.05, &t));
        d->add(d, "image_embedding", &t);
        return KILN_OK;
    }
    int64_t *dim = d->host->scratch(d->ctx, 2 * sizeof *dim, KILN_CPU);
    if (!dim) return KILN_ERR_NOMEM;
    dim[0] = 1, dim[1] = c->embedded - c->n_number * c->sinusoid;
    TRY(unclip_embedding(d, dim[1], 0, &t));
    t.dim = dim;
    d->add(d, "pooled", &t);
    return KILN_OK;
}

kiln_status unet_derive(const unet_config *c, const kiln_derivation *d)
{
    if (c->beside == UNET_VECTOR || c->beside == UNET_SIZES) TRY(derive_unclip(c, d));
    if (c->guidance) TRY(derive_guidance(d));
    switch (c->concat) {
    case UNET_INPAINT: return derive_inpaint(d);
    case UNET_EDIT: return derive_edit(d);
    case UNET_UPSCALE: return derive_small_picture(d);
    default: return KILN_OK;
    }
}
