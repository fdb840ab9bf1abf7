/* inpaint_conditioning.c - InpaintModelConditioning and InstructPixToPixConditioning: an encoded picture beside the
 * text, for networks with more input channels than the latent has.
 *
 * An entry gets "concat_latent_image", the samples of a LATENT (f32, [N,h,w,C] of a picture, in the autoencoder's own
 * numbers), and "concat_mask", a MASK in pixels (1: drawn anew). What a network makes of them is its own.
 */
#include "kiln/kit.h"
#include "vae_hole.h"
#include "vae_nodes.h"
#include "vae_pixels.h"

#define CONDITIONINGS                                                                                                  \
    {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},                              \
    {                                                                                                                  \
        .name = "negative", .type = "CONDITIONING", .doc = "What it should not."                                       \
    }
#define CONDITIONED                                                                                                    \
    {.name = "positive", .type = "CONDITIONING", .doc = "With the encoded picture."},                                  \
    {                                                                                                                  \
        .name = "negative", .type = "CONDITIONING", .doc = "With the encoded picture."                                 \
    }
enum { IN_POSITIVE, IN_NEGATIVE, IN_VAE, IN_PIXELS, IN_MASK };
enum { OUT_POSITIVE, OUT_NEGATIVE, OUT_LATENT };

/* Both conditionings with these keys. */
static kiln_status add_to_both(const kiln_call *c, size_t n, const char *const *key, kiln_value *const *item)
{
    TRY(kit_entries_with(c, c->in[IN_POSITIVE], n, key, item, &c->out[OUT_POSITIVE]));
    return kit_entries_with(c, c->in[IN_NEGATIVE], n, key, item, &c->out[OUT_NEGATIVE]);
}

static kiln_status with_vae(const kiln_call *c, kiln_status (*make)(vae_converter *))
{
    vae_converter v;
    kiln_status status = vae_open(c, c->in[IN_VAE], 1, &v);
    if (status == KILN_OK) status = make(&v);
    vae_close(&v);
    return status;
}

/* ---- InpaintModelConditioning ---- */

static const kiln_port inpaint_in[] = {
    CONDITIONINGS,
    {.name = "vae", .type = "VAE", .doc = "The autoencoder."},
    {.name = "pixels", .type = "IMAGE", .doc = "The picture to be changed."},
    {.name = "mask", .type = "MASK", .doc = "1 where it is drawn anew; scaled to the picture's size."},
};
static const kiln_port inpaint_out[] = {
    CONDITIONED,
    {.name = "latent", .type = "LATENT", .doc = "The whole picture encoded, to start from."},
};

typedef struct {
    int32_t noise_mask;
} inpaint_params;
static const kiln_param inpaint_param[] = {KIT_BOOL(
    inpaint_params, noise_mask, 1, "The latent has the mask as well, so that what is outside it stays as it is.")};

/* The part of the masks that the encoded part of the picture has. */
static kiln_status mask_value(const kiln_call *c, const vae_taking *t, const kiln_tensor *image, const float *scaled,
                              int64_t masks, kiln_value **out)
{
    int64_t h = t->pixels.rows, w = t->pixels.columns;
    kiln_tensor m;
    TRY(kit_new_f32(c, 3, KILN_DIMS(masks, h, w), out, &m));
    for (int64_t i = 0; i < masks * h && !kit_estimating(c); i++)
        memcpy((float *)m.data + i * w, scaled + (i / h * image->dim[1] + t->top + i % h) * image->dim[2] + t->left,
               (size_t)w * sizeof *scaled);
    return KILN_OK;
}

/* The picture as it is, as the LATENT to start from. */
static kiln_status whole_latent(vae_converter *v, const kiln_tensor *image, const vae_taking *taking, kiln_value *mask)
{
    const kiln_call *c = v->call;
    kiln_value *samples;
    v->done = 0;
    TRY(vae_encode_image(v, NULL, image, taking, &samples, NULL));
    TRY(kit_latent(c, NULL, samples, &c->out[OUT_LATENT]));
    if (!((const inpaint_params *)c->params)->noise_mask) return KILN_OK;
    return kit_values(c)->map_set(c->out[OUT_LATENT], "noise_mask", mask);
}

static kiln_status inpaint(vae_converter *v)
{
    static const char *const key[] = {"concat_latent_image", "concat_mask"};
    const kiln_call *c = v->call;
    kiln_tensor image, mask, hollow;
    kiln_value *item[2] = {NULL};
    vae_taking taking;
    float *scaled;
    TRY(kit_f32(c, c->in[IN_PIXELS], 4, "the picture", &image));
    TRY(kit_f32(c, c->in[IN_MASK], 3, "the mask", &mask));
    TRY(vae_take(v, &image, "InpaintModelConditioning", &taking));
    TRY(vae_hole_mask(c, &mask, &image, &scaled));
    TRY(mask_value(c, &taking, &image, scaled, mask.dim[0], &item[1]));
    vae_hole_round(c, scaled, &mask, &image);
    kiln_status status = vae_hollow(c, &image, scaled, mask.dim[0], &hollow);
    if (status == KILN_OK) status = vae_encode_image(v, NULL, &hollow, &taking, &item[0], NULL);
    if (status == KILN_OK) status = add_to_both(c, COUNT(key), key, item);
    if (status == KILN_OK) status = whole_latent(v, &image, &taking, item[1]);
    c->host->unref(item[0]), c->host->unref(item[1]);
    return status;
}

static kiln_status inpaint_run(const kiln_call *c) { return with_vae(c, inpaint); }

const kiln_node node_inpaint_conditioning = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1,
                   "InpaintModelConditioning", "InpaintModelConditioning", "conditioning/inpaint",
                   "Gives a network made for inpainting the picture without its masked part, and the mask."),
    KILN_ARRAY(in, inpaint_in),
    KILN_ARRAY(out, inpaint_out),
    KIT_PARAMS(inpaint_params, inpaint_param),
    .run = inpaint_run,
};

/* ---- InstructPixToPixConditioning ---- */

static const kiln_port instruct_in[] = {
    CONDITIONINGS,
    {.name = "vae", .type = "VAE", .doc = "The autoencoder."},
    {.name = "pixels", .type = "IMAGE", .doc = "The picture that the text says how to change."},
};
static const kiln_port instruct_out[] = {
    CONDITIONED,
    {.name = "latent", .type = "LATENT", .doc = "An empty latent of the picture's size."},
};

static kiln_status empty_like(const kiln_call *c, const kiln_value *samples)
{
    kiln_tensor t, zero;
    kiln_value *empty;
    kit_tensor_clear(&t);
    TRY(c->host->view(c->ctx, samples, &t));
    TRY(kit_new_f32(c, t.rank, t.dim, &empty, &zero));
    if (!kit_estimating(c)) memset(zero.data, 0, kit_count(&zero) * sizeof(float));
    return kit_latent(c, NULL, empty, &c->out[OUT_LATENT]);
}

static kiln_status instruct(vae_converter *v)
{
    static const char *const key[] = {"concat_latent_image"};
    const kiln_call *c = v->call;
    kiln_tensor image;
    kiln_value *samples;
    vae_taking taking;
    TRY(kit_f32(c, c->in[IN_PIXELS], 4, "the picture", &image));
    TRY(vae_take(v, &image, "InstructPixToPixConditioning", &taking));
    TRY(vae_encode_image(v, NULL, &image, &taking, &samples, NULL));
    kiln_status status = add_to_both(c, COUNT(key), key, &samples);
    if (status == KILN_OK) status = empty_like(c, samples);
    c->host->unref(samples);
    return status;
}

static kiln_status instruct_run(const kiln_call *c) { return with_vae(c, instruct); }

const kiln_node node_instruct_conditioning = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1,
                   "InstructPixToPixConditioning", "InstructPixToPixConditioning", "conditioning/instructpix2pix",
                   "Gives a network made for instructions (InstructPix2Pix) the picture that they change."),
    KILN_ARRAY(in, instruct_in),
    KILN_ARRAY(out, instruct_out),
    .run = instruct_run,
};
