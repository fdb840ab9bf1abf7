/* unet_derive.c - the inputs that a UNet makes of an entry: kiln_denoiser.derive.
 *
 *   mask, masked_image   concat_mask, else the latent's noise_mask, brought to the latent's cells and rounded;
 *                        concat_latent_image, else what is sampled. Without any mask there is neither: the whole
 *                        picture is drawn, and a blank one stands beside it.
 *   image                concat_latent_image or concat_image, brought to the latent's cells
 *   guidance             as LCM embeds it
 *
 * Pictures of other proportions lose their edges, as ComfyUI's "center" does; a noise_mask, which belongs to the whole
 * latent, is stretched.
 */
#include "kiln/kit.h"
#include "kiln/resize.h"
#include "unet_inputs.h"

#include <math.h>
#include <string.h>

#define LCM_GUIDANCE 8.5 /* diffusers' LatentConsistencyModelPipeline */

const char *const unet_derive_keys[] = {"concat_mask", "concat_latent_image", "concat_image",
                                        "guidance",    "noise_augmentation",  "unclip_conditioning",
                                        NULL};

int unet_derives(const unet_config *c)
{
    return c->concat != UNET_PLAIN || c->guidance || c->beside == UNET_VECTOR || c->beside == UNET_CLASS;
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

/* Gives a picture or a mask as the input `name`, with as many cells as x. */
static kiln_status add_picture(const kiln_derivation *d, const char *name, const char *what, const kiln_value *value)
{
    int64_t from[4];
    const float *data = NULL;
    int is_mask = strcmp(name, "mask") == 0;
    TRY(view_picture(d, what, value, from, &data));
    int64_t h = d->dim[1], w = d->dim[2], c = is_mask ? 1 : from[3];
    int64_t *dim = d->host->scratch(d->ctx, 4 * sizeof *dim, KILN_CPU);
    if (!dim) return KILN_ERR_NOMEM;
    memcpy(dim, (const int64_t[]){from[0], h, w, c}, 4 * sizeof *dim);
    kiln_tensor out = kit_window(KILN_F32, KILN_CPU, NULL, 4, dim);
    float *made = d->host->scratch(d->ctx, kit_count(&out) * sizeof *made, KILN_CPU);
    if (!made) return KILN_ERR_NOMEM;
    resize_box box = {0, 0, from[1], from[2]};
    if (strcmp(what, "noise_mask") != 0) box = resize_centre(from[1], from[2], h, w);
    for (int64_t i = 0; i < from[0] && !d->estimate; i++) {
        const float *plane = data + i * from[1] * from[2] * from[3];
        resize_source src = {plane + (box.y * from[2] + box.x) * from[3], box.h, box.w, from[3], from[2] * from[3]};
        resize_plane(src, made + i * h * w * c, h, w, RESIZE_BILINEAR);
    }
    for (size_t i = 0; is_mask && !d->estimate && i < kit_count(&out); i++) made[i] = rintf(made[i]);
    if (!d->estimate) out.data = made;
    d->add(d, name, &out);
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

static kiln_status derive_image(const kiln_derivation *d, const char *key)
{
    const kiln_value *image = values(d)->map_get(d->conditioning, key);
    return image ? add_picture(d, "image", key, image) : KILN_OK;
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

/* What would be accepted and not be done. */
static kiln_status refuse(const unet_config *c, const kiln_derivation *d)
{
    const kiln_value_api *v = values(d);
    double noise = 0;
    if (c->beside == UNET_VECTOR && v->map_get(d->conditioning, "unclip_conditioning"))
        return d->host->fail(
            d->ctx, KILN_ERR_UNSUPPORTED,
            "the conditioning has a picture for unCLIP ('unclip_conditioning'), and the vision encoder "
            "that embeds it is not there yet; take the node away to draw from the prompt alone");
    const kiln_value *augmentation = v->map_get(d->conditioning, "noise_augmentation");
    if (c->beside == UNET_CLASS && augmentation && (v->get_float(augmentation, &noise) != KILN_OK || noise != 0))
        return d->host->fail(
            d->ctx, KILN_ERR_UNSUPPORTED,
            "noise on the picture to be enlarged ('noise_augmentation') is not supported; set it to 0");
    return KILN_OK;
}

kiln_status unet_derive(const unet_config *c, const kiln_derivation *d)
{
    TRY(refuse(c, d));
    if (c->guidance) TRY(derive_guidance(d));
    switch (c->concat) {
    case UNET_INPAINT: return derive_inpaint(d);
    case UNET_EDIT: return derive_image(d, "concat_latent_image");
    case UNET_UPSCALE: return derive_image(d, "concat_image");
    default: return KILN_OK;
    }
}
