/* upscale_conditioning.c - SD_4XUpscale_Conditioning: the small picture beside the text, for the upscaler of Stable
 * Diffusion 2.
 *
 * An entry gets "concat_image", the picture at the latent's size (f32 [N,h,w,3], -1..1), and "noise_augmentation", how
 * much noise the network is to think of on it, 0..1. Its latent has a quarter of the large picture's size, where others
 * have an eighth.
 */
#include "conditioning.h"

#include "kiln/kit.h"
#include "kiln/ops.h"
#include "kiln/resize.h"

enum { CELL = 4, CHANNELS = 4 }; /* pixels a cell; of the latent */

static const kiln_port in[] = {
    {.name = "images", .type = "IMAGE", .doc = "The picture to be enlarged."},
    {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},
    {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."},
};
static const kiln_port out[] = {
    {.name = "positive", .type = "CONDITIONING", .doc = "With the picture."},
    {.name = "negative", .type = "CONDITIONING", .doc = "With the picture."},
    {.name = "latent", .type = "LATENT", .doc = "An empty latent of the large picture's size."},
};
enum { IN_IMAGES, IN_POSITIVE, IN_NEGATIVE };
enum { OUT_POSITIVE, OUT_NEGATIVE, OUT_LATENT };

typedef struct {
    double scale_ratio, noise_augmentation;
} upscale_params;
static const kiln_param param[] = {
    KIT_FLOAT(upscale_params, scale_ratio, 4, 0, 10, 0.01, "Times both sides."),
    KIT_FLOAT(upscale_params, noise_augmentation, 0, 0, 1, 0.001, "Noise on the small picture: more lets go of it."),
};

/* Cells of so many pixels enlarged; halves to even, as Python rounds. */
static int64_t cells(int64_t pixels, double by) { return (int64_t)rint((double)pixels * by) / CELL; }

/* The pictures at h by w, the middle of their proportions, 0..1 -> -1..1. */
static kiln_status small_pictures(const kiln_call *c, const kiln_tensor *image, int64_t h, int64_t w, kiln_value **out_)
{
    int64_t wide = image->dim[3], row = image->dim[2] * wide;
    resize_box box = resize_centre(image->dim[1], image->dim[2], h, w);
    kiln_tensor t;
    TRY(kit_new_f32(c, 4, KILN_DIMS(image->dim[0], h, w, wide), out_, &t));
    if (kit_estimating(c)) return KILN_OK;
    for (int64_t i = 0; i < image->dim[0]; i++) {
        resize_source s = {.data = (const float *)image->data + (i * image->dim[1] + box.y) * row + box.x * wide,
                           .h = box.h,
                           .w = box.w,
                           .c = wide,
                           .row = row};
        resize_plane(s, (float *)t.data + i * h * w * wide, h, w, RESIZE_BILINEAR);
    }
    for (size_t i = 0; i < kit_count(&t); i++) ((float *)t.data)[i] = ((float *)t.data)[i] * 2 - 1;
    return KILN_OK;
}

static kiln_status empty_latent(const kiln_call *c, int64_t n, int64_t h, int64_t w)
{
    kiln_value *samples;
    kiln_tensor t;
    TRY(kit_new_f32(c, 4, KILN_DIMS(n, h, w, CHANNELS), &samples, &t));
    if (!kit_estimating(c)) memset(t.data, 0, kit_count(&t) * sizeof(float));
    return kit_latent(c, NULL, samples, &c->out[OUT_LATENT]);
}

static kiln_status run(const kiln_call *c)
{
    static const char *const key[] = {"concat_image", "noise_augmentation"};
    const upscale_params *p = c->params;
    kiln_tensor image;
    kiln_value *item[2] = {NULL};
    TRY(kit_f32(c, c->in[IN_IMAGES], 4, "images", &image));
    int64_t h = cells(image.dim[1], p->scale_ratio), w = cells(image.dim[2], p->scale_ratio);
    if (h < 1 || w < 1)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "scale_ratio %g makes less than %d pixels of a side of %lldx%lld; give a larger one",
                             p->scale_ratio, CELL, (long long)image.dim[2], (long long)image.dim[1]);
    TRY(small_pictures(c, &image, h, w, &item[0]));
    item[1] = kit_values(c)->new_float(c->ctx, p->noise_augmentation);
    kiln_status status = item[1] ? KILN_OK : KILN_ERR_NOMEM;
    if (status == KILN_OK)
        status = kit_entries_with(c, c->in[IN_POSITIVE], COUNT(key), key, item, &c->out[OUT_POSITIVE]);
    if (status == KILN_OK)
        status = kit_entries_with(c, c->in[IN_NEGATIVE], COUNT(key), key, item, &c->out[OUT_NEGATIVE]);
    c->host->unref(item[0]), c->host->unref(item[1]);
    return status == KILN_OK ? empty_latent(c, image.dim[0], h, w) : status;
}

const kiln_node node_upscale_conditioning = {
    KIT_NODE("SD_4XUpscale_Conditioning", "SD_4XUpscale_Conditioning", "conditioning/upscale_diffusion",
             "Gives Stable Diffusion's upscaler the picture to be enlarged."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(upscale_params, param),
    .run = run,
};
