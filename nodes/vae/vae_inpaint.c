/* vae_inpaint.c - VAEEncodeForInpaint: a picture with a hole, and the noise mask that fills it.
 *
 * What is masked becomes grey before it is encoded, so that nothing of it reaches the cells around; the noise mask is
 * grown by some pixels, so that no seam shows.
 */
#include "kiln/kit.h"
#include "vae_hole.h"
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
    float *rounded;
    TRY(vae_hole_mask(c, &mask, &image, &rounded));
    vae_hole_round(c, rounded, &mask, &image);
    TRY(vae_hollow(c, &image, rounded, mask.dim[0], &hollow));
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
