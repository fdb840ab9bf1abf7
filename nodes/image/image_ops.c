/* image_ops.c - pictures and masks that need no file: making, inverting, batching, converting. */
#include "image.h"

#include "kiln/kit.h"
#include "kiln/resize.h"

#include <string.h>

static const kiln_port image_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The new picture."}};
static const kiln_port mask_out[] = {{.name = "MASK", .type = "MASK", .doc = "The new mask."}};
static const kiln_port image_in[] = {{.name = "image", .type = "IMAGE", .doc = "What to change."}};
static const kiln_port mask_in[] = {{.name = "mask", .type = "MASK", .doc = "What to change."}};

enum { TICK = 1 << 22 }; /* elements between two looks at whether to stop */

/* Every so often: may the loop go on? */
static kiln_status tick(const kiln_call *c, size_t i, size_t n)
{
    return i % TICK ? KILN_OK : c->host->progress(c->ctx, i, n, "pixels");
}

/* c->out[0] = f of every element of a tensor of this rank. */
static kiln_status each(const kiln_call *c, uint32_t rank, const char *what, float (*f)(float))
{
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], rank, what, &a));
    TRY(kit_new_f32(c, rank, a.dim, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    for (size_t i = 0, n = kit_count(&a); i < n; i++) {
        TRY(tick(c, i, n));
        ((float *)r.data)[i] = f(((const float *)a.data)[i]);
    }
    return KILN_OK;
}

static float invert(float x) { return 1 - x; }
static kiln_status image_invert_run(const kiln_call *c) { return each(c, 4, "image", invert); }
static kiln_status invert_mask_run(const kiln_call *c) { return each(c, 3, "mask", invert); }
const kiln_node node_image_invert = {
    KIT_NODE("ImageInvert", "Invert Image", "image", "1 - x, each channel."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    .run = image_invert_run,
};
const kiln_node node_invert_mask = {
    KIT_NODE("InvertMask", "Invert Mask", "mask", "1 - x."),
    KILN_ARRAY(in, mask_in),
    KILN_ARRAY(out, mask_out),
    .run = invert_mask_run,
};

typedef struct {
    int64_t width, height, batch_size, color;
} empty_params;
static const kiln_param empty_param[] = {
    KIT_INT(empty_params, width, 512, 1, 16384, "Pixels."),
    KIT_INT(empty_params, height, 512, 1, 16384, "Pixels."),
    KIT_INT(empty_params, batch_size, 1, 1, 4096, "Pictures."),
    KIT_INT(empty_params, color, 0, 0, 16777215, "0xRRGGBB as a number."),
};

static kiln_status empty_image_run(const kiln_call *c)
{
    const empty_params *p = c->params;
    kiln_tensor r;
    TRY(kit_new_f32(c, 4, (const int64_t[]){p->batch_size, p->height, p->width, 3}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    size_t pixels = kit_count(&r) / 3, each = 1 << 20;
    for (size_t i = 0; i < pixels; i++) {
        if (i % each == 0) TRY(c->host->progress(c->ctx, i, pixels, "filling"));
        for (unsigned k = 0; k < 3; k++)
            ((float *)r.data)[i * 3 + k] = (float)((p->color >> (16 - 8 * k)) & 255) / 255.0f;
    }
    return KILN_OK;
}
const kiln_node node_empty_image = {
    KIT_NODE("EmptyImage", "Empty Image", "image", "A picture of one colour."),
    KILN_ARRAY(out, image_out),
    KIT_PARAMS(empty_params, empty_param),
    .run = empty_image_run,
};

typedef struct {
    double value;
    int64_t width, height;
} solid_params;
static const kiln_param solid_param[] = {
    KIT_FLOAT(solid_params, value, 1, 0, 1, 0.01, "Of every pixel."),
    KIT_INT(solid_params, width, 512, 1, 16384, "Pixels."),
    KIT_INT(solid_params, height, 512, 1, 16384, "Pixels."),
};
static kiln_status solid_mask_run(const kiln_call *c)
{
    const solid_params *p = c->params;
    kiln_tensor r;
    TRY(kit_new_f32(c, 3, (const int64_t[]){1, p->height, p->width}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    size_t pixels = kit_count(&r), each = 1 << 22;
    for (size_t i = 0; i < pixels; i++) {
        if (i % each == 0) TRY(c->host->progress(c->ctx, i, pixels, "filling"));
        ((float *)r.data)[i] = (float)p->value;
    }
    return KILN_OK;
}
const kiln_node node_solid_mask = {
    KIT_NODE("SolidMask", "Solid Mask", "mask", "A mask of one value."),
    KILN_ARRAY(out, mask_out),
    KIT_PARAMS(solid_params, solid_param),
    .run = solid_mask_run,
};

static const kiln_port batch_in[] = {
    {.name = "image1", .type = "IMAGE", .doc = "First."},
    {.name = "image2", .type = "IMAGE", .doc = "Second; scaled to the first one's size."},
};
static kiln_status image_batch_run(const kiln_call *c)
{
    kiln_tensor a, b, r;
    TRY(kit_f32(c, c->in[0], 4, "image1", &a));
    TRY(kit_f32(c, c->in[1], 4, "image2", &b));
    if (a.dim[3] != b.dim[3])
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "one picture has transparency and the other has not");
    TRY(kit_new_f32(c, 4, (const int64_t[]){a.dim[0] + b.dim[0], a.dim[1], a.dim[2], a.dim[3]}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    memcpy(r.data, a.data, kit_count(&a) * sizeof(float));
    float *rest = (float *)r.data + kit_count(&a);
    resize_box box = resize_centre(b.dim[1], b.dim[2], a.dim[1], a.dim[2]);
    for (int64_t n = 0; n < b.dim[0]; n++)
        resize_plane(
            (resize_source){.data = (const float *)b.data + ((n * b.dim[1] + box.y) * b.dim[2] + box.x) * b.dim[3],
                            .h = box.h,
                            .w = box.w,
                            .c = b.dim[3],
                            .row = b.dim[2] * b.dim[3]},
            rest + n * a.dim[1] * a.dim[2] * a.dim[3], a.dim[1], a.dim[2], RESIZE_BILINEAR);
    return KILN_OK;
}
const kiln_node node_image_batch = {
    KIT_NODE("ImageBatch", "Batch Images", "image", "Two pictures, or batches, one after the other."),
    KILN_ARRAY(in, batch_in),
    KILN_ARRAY(out, image_out),
    .run = image_batch_run,
};

static kiln_status mask_to_image_run(const kiln_call *c)
{
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 3, "mask", &a));
    TRY(kit_new_f32(c, 4, (const int64_t[]){a.dim[0], a.dim[1], a.dim[2], 3}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    for (size_t i = 0; i < kit_count(&r); i++) ((float *)r.data)[i] = ((const float *)a.data)[i / 3];
    return KILN_OK;
}
const kiln_node node_mask_to_image = {
    KIT_NODE("MaskToImage", "Convert Mask to Image", "mask", "A grey picture of a mask."),
    KILN_ARRAY(in, mask_in),
    KILN_ARRAY(out, image_out),
    .run = mask_to_image_run,
};

typedef struct {
    int32_t channel;
} channel_params;
static const kiln_choice channel_choice[] = {
    {.name = "red", .value = 0},
    {.name = "green", .value = 1},
    {.name = "blue", .value = 2},
    {.name = "alpha", .value = 3},
    {0},
};
static const kiln_param channel_param[] = {KIT_ENUM(channel_params, channel, channel_choice, 0, "Which.")};
static kiln_status image_to_mask_run(const kiln_call *c)
{
    int32_t k = ((const channel_params *)c->params)->channel;
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    if (k >= a.dim[3]) return c->host->fail(c->ctx, KILN_ERR_INVALID, "this picture has no alpha channel");
    TRY(kit_new_f32(c, 3, (const int64_t[]){a.dim[0], a.dim[1], a.dim[2]}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    for (size_t i = 0; i < kit_count(&r); i++)
        ((float *)r.data)[i] = ((const float *)a.data)[(int64_t)i * a.dim[3] + k];
    return KILN_OK;
}
const kiln_node node_image_to_mask = {
    KIT_NODE("ImageToMask", "Convert Image to Mask", "mask", "One channel of a picture."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, mask_out),
    KIT_PARAMS(channel_params, channel_param),
    .run = image_to_mask_run,
};
