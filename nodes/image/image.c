/* image.c - LoadImage, LoadImageMask, LoadImageOutput. */
#include "image.h"

#include "kiln/kit.h"
#include "picture_io.h"

/* ---- LoadImage ---- */

typedef struct {
    const char *image;
} load_params;
static const kiln_param load_param[] = {
    {.name = "image",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(load_params, image),
     .from = "input",
     .doc = "A PNG, JPEG, WebP or AVIF file, below the workflow's folder or --input."},
};
static const kiln_port load_out[] = {
    {.name = "IMAGE", .type = "IMAGE", .doc = "The colours."},
    {.name = "MASK", .type = "MASK", .doc = "1 where the picture is transparent; zeros 64x64 without transparency."},
};

static kiln_status load_mask(const kiln_call *c, const picture *p)
{
    int alpha = p->channels == 4;
    int64_t h = alpha ? p->height : 64, w = alpha ? p->width : 64;
    kiln_tensor t;
    TRY(kit_new_f32(c, 3, (const int64_t[]){p->frames, h, w}, &c->out[1], &t));
    for (int64_t i = 0; !kit_estimating(c) && i < p->frames * h * w; i++)
        ((float *)t.data)[i] = alpha ? 1.0f - picture_value(p, i * 4 + 3) : 0.0f;
    return KILN_OK;
}

static kiln_status load_image_run(const kiln_call *c)
{
    picture p;
    kiln_tensor t;
    TRY(picture_read(c, ((const load_params *)c->params)->image, &p));
    kiln_status status = kit_new_f32(c, 4, (const int64_t[]){p.frames, p.height, p.width, 3}, &c->out[0], &t);
    for (int64_t i = 0; status == KILN_OK && !kit_estimating(c) && i < p.frames * p.height * p.width; i++)
        for (int k = 0; k < 3; k++) ((float *)t.data)[i * 3 + k] = picture_value(&p, i * p.channels + k);
    if (status == KILN_OK) status = load_mask(c, &p);
    picture_free(&p);
    return status;
}

/* `kiln check` looks at the first bytes; a run that follows says it itself. */
static kiln_status load_image_check(const kiln_call *c)
{
    return kit_estimating(c) ? KILN_OK
                             : kit_at_param(c, picture_check(c, ((const load_params *)c->params)->image), "image");
}

const kiln_node node_load_image = {
    KIT_NODE_AT(
        3, "LoadImage", "Load Image", "image",
        "Reads a picture (PNG, JPEG, WebP, AVIF), turned as its EXIF orientation says; all frames of an animation."),
    KILN_ARRAY(out, load_out),
    KIT_PARAMS(load_params, load_param),
    .run = load_image_run,
    .check = load_image_check,
};

const kiln_node node_load_image_output = {
    KIT_NODE("LoadImageOutput", "Load Image (from Outputs)", "image", "Reads a picture, as LoadImage does."),
    KILN_ARRAY(out, load_out),
    KIT_PARAMS(load_params, load_param),
    .run = load_image_run,
    .check = load_image_check,
};

typedef struct {
    const char *image;
    int32_t channel;
} load_mask_params;
static const kiln_choice channel_choice[] = {
    {.name = "alpha", .value = 3, .doc = "1 where it is transparent."},
    {.name = "red", .value = 0},
    {.name = "green", .value = 1},
    {.name = "blue", .value = 2},
    {0},
};
static const kiln_param load_mask_param[] = {
    {.name = "image",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(load_mask_params, image),
     .from = "input",
     .doc = "A PNG, JPEG, WebP or AVIF file, below the workflow's folder or --input."},
    KIT_ENUM(load_mask_params, channel, channel_choice, 3, "Which."),
};
static const kiln_port load_mask_out[] = {
    {.name = "MASK", .type = "MASK", .doc = "The channel; zeros 64x64 where the picture has none such."},
};

static kiln_status load_image_mask_run(const kiln_call *c)
{
    const load_mask_params *p = c->params;
    picture seen;
    kiln_tensor t;
    TRY(picture_read(c, p->image, &seen));
    int there = p->channel < seen.channels; /* of an animation the first frame, as in ComfyUI */
    int64_t h = there ? seen.height : 64, w = there ? seen.width : 64;
    kiln_status status = kit_new_f32(c, 3, (const int64_t[]){1, h, w}, &c->out[0], &t);
    for (int64_t i = 0; status == KILN_OK && !kit_estimating(c) && i < h * w; i++) {
        float v = there ? picture_value(&seen, i * seen.channels + p->channel) : 0.0f;
        ((float *)t.data)[i] = there && p->channel == 3 ? 1.0f - v : v;
    }
    picture_free(&seen);
    return status;
}

static kiln_status load_image_mask_check(const kiln_call *c)
{
    return kit_estimating(c) ? KILN_OK
                             : kit_at_param(c, picture_check(c, ((const load_mask_params *)c->params)->image), "image");
}

const kiln_node node_load_image_mask = {
    KIT_NODE_AT(3, "LoadImageMask", "Load Image as Mask", "mask", "Reads one channel of a picture."),
    KILN_ARRAY(out, load_mask_out),
    KIT_PARAMS(load_mask_params, load_mask_param),
    .run = load_image_mask_run,
    .check = load_image_mask_check,
};
