/* vae_inpaint.c - VAEEncodeForInpaint: a picture with a hole, and the noise mask that fills it.
 *
 * What is masked becomes grey before it is encoded, so that nothing of it reaches the cells around; the noise mask is
 * grown by some pixels, so that no seam shows.
 */
#include "kiln/kit.h"
#include "kiln/resize.h"
#include "vae_nodes.h"
#include "vae_pixels.h"

static const kiln_port in[] = {
    {.name = "pixels", .type = "IMAGE", .doc = "The picture to be encoded."},
    {.name = "vae", .type = "VAE", .doc = "The autoencoder."},
    {.name = "mask", .type = "MASK", .doc = "1 where the picture is drawn anew; scaled to the picture's size."},
};
static const kiln_port out[] = {
    {.name = "LATENT", .type = "LATENT", .doc = "The latent without what is masked, and the noise mask."},
};
enum { IN_PIXELS, IN_VAE, IN_MASK };

typedef struct {
    int64_t grow_mask_by;
} grow_params;
static const kiln_param param[] = {KIT_INT(grow_params, grow_mask_by, 6, 0, 64, "Pixels by which the mask grows.")};

/* A mask of the picture's size that is 0 or 1: halves to even, as torch rounds. */
static float *scaled_mask(const kiln_call *c, const kiln_tensor *mask, const kiln_tensor *image)
{
    int64_t h = image->dim[1], w = image->dim[2];
    float *made = c->host->scratch(c->ctx, (size_t)(mask->dim[0] * h * w) * sizeof *made, KILN_CPU);
    for (int64_t i = 0; made && i < mask->dim[0] && !kit_estimating(c); i++) {
        resize_source plane = {.data = (const float *)mask->data + i * mask->dim[1] * mask->dim[2],
                               .h = mask->dim[1],
                               .w = mask->dim[2],
                               .c = 1,
                               .row = mask->dim[2]};
        resize_plane(plane, made + i * h * w, h, w, RESIZE_BILINEAR);
        for (int64_t k = 0; k < h * w; k++) made[i * h * w + k] = rintf(made[i * h * w + k]);
    }
    return made;
}

/* The picture with grey where the mask is. */
static kiln_status hollowed(const kiln_call *c, const kiln_tensor *image, const float *mask, int64_t masks,
                            kiln_tensor *made)
{
    int64_t cells = image->dim[1] * image->dim[2], channels = image->dim[3];
    float *data = c->host->scratch(c->ctx, kit_count(image) * sizeof *data, KILN_CPU);
    if (!data) return KILN_ERR_NOMEM;
    *made = *image;
    made->data = data;
    for (int64_t i = 0; i < image->dim[0] * cells && !kit_estimating(c); i++) {
        float keep = 1 - mask[i / cells % masks * cells + i % cells];
        const float *from = (const float *)image->data + i * channels;
        for (int64_t k = 0; k < channels; k++)
            data[i * channels + k] = k < 3 ? (from[k] - 0.5f) * keep + 0.5f : from[k];
    }
    return KILN_OK;
}

/* 1 when the mask has a pixel in the box of `grow` pixels a side around (y, x); an even box reaches further up and
 * left. */
static float grown(const float *mask, int64_t h, int64_t w, int64_t y, int64_t x, int64_t grow)
{
    int64_t before = grow / 2; /* ceil((grow - 1) / 2) */
    if (!grow) return mask[y * w + x];
    for (int64_t i = y - before; i < y - before + grow; i++)
        for (int64_t k = x - before; k < x - before + grow; k++)
            if (i >= 0 && k >= 0 && i < h && k < w && mask[i * w + k] > 0) return 1;
    return 0;
}

/* Of the part that is encoded; the box is not wider than that part either. */
static kiln_status noise_mask(const kiln_call *c, const vae_taking *t, const kiln_tensor *image, const float *mask,
                              int64_t masks)
{
    int64_t h = t->pixels.rows, w = t->pixels.columns, grow = ((const grow_params *)c->params)->grow_mask_by;
    kiln_value *value;
    kiln_tensor m;
    float *part = c->host->scratch(c->ctx, (size_t)(h * w) * sizeof *part, KILN_CPU);
    if (!part) return KILN_ERR_NOMEM;
    TRY(kit_new_f32(c, 3, KILN_DIMS(masks, h, w), &value, &m));
    for (int64_t i = 0; i < masks && !kit_estimating(c); i++) {
        for (int64_t y = 0; y < h; y++)
            memcpy(part + y * w, mask + (i * image->dim[1] + t->top + y) * image->dim[2] + t->left,
                   (size_t)w * sizeof *part);
        for (int64_t k = 0; k < h * w; k++) ((float *)m.data)[i * h * w + k] = grown(part, h, w, k / w, k % w, grow);
    }
    return kit_set(c, c->out[0], "noise_mask", value);
}

static kiln_status encode(vae_converter *v)
{
    const kiln_call *c = v->call;
    kiln_tensor image, mask, hollow;
    kiln_value *samples;
    vae_taking taking;
    TRY(kit_f32(c, c->in[IN_PIXELS], 4, "the picture", &image));
    TRY(kit_f32(c, c->in[IN_MASK], 3, "the mask", &mask));
    TRY(vae_take(v, &image, "VAEEncodeForInpaint", &taking));
    if (kit_count(&mask) == 0 || (mask.dim[0] != 1 && mask.dim[0] != image.dim[0]))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%lld masks for %lld pictures; give one, or one for each",
                             (long long)mask.dim[0], (long long)image.dim[0]);
    float *rounded = scaled_mask(c, &mask, &image);
    if (!rounded) return KILN_ERR_NOMEM;
    TRY(hollowed(c, &image, rounded, mask.dim[0], &hollow));
    TRY(vae_encode_image(v, NULL, &hollow, &taking, &samples, NULL));
    TRY(kit_latent(c, NULL, samples, &c->out[0]));
    return noise_mask(c, &taking, &image, rounded, mask.dim[0]);
}

static kiln_status run(const kiln_call *c)
{
    vae_converter v;
    kiln_status status = vae_open(c, c->in[IN_VAE], 1, &v);
    if (status == KILN_OK) status = encode(&v);
    vae_close(&v);
    return status;
}

const kiln_node node_vae_encode_inpaint = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1,
                   "VAEEncodeForInpaint", "VAE Encode (for Inpainting)", "latent",
                   "Turns a picture without its masked part into a latent with a noise mask."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(grow_params, param),
    .run = run,
};
