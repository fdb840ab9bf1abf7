/* image_shape.c - pictures whose pixels move: scaling, cutting, turning, padding, picking from a batch. Names,
 * defaults, ranges and roundings are ComfyUI's (halves to even, as Python's round).
 */
#include "image.h"

#include "image_scale.h"

#include "kiln/kit.h"
#include "lanczos.h"

#include <math.h>
#include <string.h>

static const kiln_port image_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The new picture."}};
static const kiln_port image_in[] = {{.name = "image", .type = "IMAGE", .doc = "What to change."}};

#define PARAMS(name) KILN_ARRAY(param, name##_param), .params_size = sizeof(name##_params)

/* ---- scaling ---- */

enum { SIDE_MAX = 16384 };
static const kiln_choice method_choice[] = {
    {.name = "nearest-exact", .value = RESIZE_NEAREST},
    {.name = "bilinear", .value = RESIZE_BILINEAR},
    {.name = "area", .value = RESIZE_AREA},
    {.name = "bicubic", .value = RESIZE_BICUBIC},
    {.name = "lanczos", .value = METHOD_LANCZOS},
    {0},
};
static const kiln_choice crop_choice[] = {{.name = "disabled", .value = 0}, {.name = "center", .value = 1}, {0}};
#define METHOD_PARAM(struct_)                                                                                          \
    {                                                                                                                  \
        .name = "upscale_method", .type = KILN_P_ENUM, .offset = offsetof(struct_, method),                            \
        KILN_CHOICES(method_choice),                                                                                   \
        .doc = "How pixels between pixels are made; only area and lanczos look at all of them when a picture gets "    \
               "smaller."                                                                                              \
    }

/* A few rows at a time, so that it can be stopped. */
static kiln_status scale_plane(const kiln_call *c, resize_source s, float *dst, int64_t h, int64_t w, int32_t method)
{
    enum { ROWS = 2 };
    for (int64_t y = 0; y < h; y += ROWS) {
        TRY(c->host->progress(c->ctx, (uint64_t)y, (uint64_t)h, "row"));
        resize_rows(s, dst, h, w, method, y, y + ROWS < h ? y + ROWS : h);
    }
    return KILN_OK;
}

kiln_status image_scale_over(const kiln_call *c, const kiln_tensor *a, int32_t method, int64_t h, int64_t w,
                             int32_t centre, float *to)
{
    resize_box box = centre ? resize_centre(a->dim[1], a->dim[2], h, w) : (resize_box){.h = a->dim[1], .w = a->dim[2]};
    for (int64_t n = 0; n < a->dim[0]; n++) {
        resize_source s = {.data = (const float *)a->data + ((n * a->dim[1] + box.y) * a->dim[2] + box.x) * a->dim[3],
                           .h = box.h,
                           .w = box.w,
                           .c = a->dim[3],
                           .row = a->dim[2] * a->dim[3]};
        float *dst = to + n * h * w * a->dim[3];
        TRY(c->host->progress(c->ctx, (uint64_t)n, (uint64_t)a->dim[0], "scaling"));
        if (method == METHOD_LANCZOS)
            TRY(lanczos_resize(c, s, dst, h, w));
        else
            TRY(scale_plane(c, s, dst, h, w, method));
    }
    return KILN_OK;
}

kiln_status image_scale_into(const kiln_call *c, const kiln_tensor *a, int32_t method, int64_t h, int64_t w,
                             int32_t centre, float *to)
{
    size_t count = (size_t)(a->dim[0] * h * w * a->dim[3]);
    TRY(image_scale_over(c, a, method, h, w, centre, to));
    for (size_t i = 0; i < count; i++) { /* bicubic and lanczos overshoot */
        if (i % ((size_t)1 << 18) == 0) TRY(c->host->progress(c->ctx, i, count, "scaling"));
        to[i] = fminf(1, fmaxf(0, to[i]));
    }
    return KILN_OK;
}

kiln_status image_scale_to(const kiln_call *c, const kiln_tensor *a, int32_t method, int64_t h, int64_t w,
                           int32_t centre)
{
    kiln_tensor r;
    if (h > SIDE_MAX || w > SIDE_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the new picture would have %lld x %lld pixels; %d a side is the most", (long long)w,
                             (long long)h, SIDE_MAX);
    TRY(kit_new_f32(c, 4, (const int64_t[]){a->dim[0], h, w, a->dim[3]}, &c->out[0], &r));
    return kit_estimating(c) ? KILN_OK : image_scale_into(c, a, method, h, w, centre, r.data);
}

static int64_t at_least_1(double v) { return v < 1 ? 1 : (int64_t)rint(v); }

typedef struct {
    int32_t method, crop;
    int64_t width, height;
} scale_params;
static const kiln_param scale_param[] = {
    METHOD_PARAM(scale_params),
    KIT_INT(scale_params, width, 512, 0, SIDE_MAX, "Pixels; 0 keeps the proportions."),
    KIT_INT(scale_params, height, 512, 0, SIDE_MAX, "Pixels; 0 keeps the proportions."),
    KIT_ENUM(scale_params, crop, crop_choice, 0, "Cut the middle out first, so that proportions stay."),
};

static kiln_status image_scale_run(const kiln_call *c)
{
    const scale_params *p = c->params;
    kiln_tensor a;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    if (p->width == 0 && p->height == 0) {
        c->out[0] = c->host->ref(c->in[0]);
        return KILN_OK;
    }
    int64_t w = p->width ? p->width : at_least_1((double)a.dim[2] * (double)p->height / (double)a.dim[1]);
    int64_t h = p->height ? p->height : at_least_1((double)a.dim[1] * (double)p->width / (double)a.dim[2]);
    return image_scale_to(c, &a, p->method, h, w, p->crop);
}
const kiln_node node_image_scale = {
    KIT_NODE_AT(2, "ImageScale", "Upscale Image", "image", "Scales a picture to a size."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    PARAMS(scale),
    .run = image_scale_run,
};

typedef struct {
    int32_t method;
    double scale_by;
} by_params;
static const kiln_param by_param[] = {
    METHOD_PARAM(by_params),
    KIT_FLOAT(by_params, scale_by, 1, 0.01, 8, 0.01, "Times both sides."),
};

static kiln_status image_scale_by_run(const kiln_call *c)
{
    const by_params *p = c->params;
    kiln_tensor a;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    return image_scale_to(c, &a, p->method, at_least_1((double)a.dim[1] * p->scale_by),
                          at_least_1((double)a.dim[2] * p->scale_by), 0);
}
const kiln_node node_image_scale_by = {
    KIT_NODE_AT(2, "ImageScaleBy", "Upscale Image By", "image", "Scales a picture by a factor."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    PARAMS(by),
    .run = image_scale_by_run,
};

typedef struct {
    int32_t method;
    double megapixels;
    int64_t resolution_steps;
} total_params;
static const kiln_param total_param[] = {
    METHOD_PARAM(total_params),
    KIT_FLOAT(total_params, megapixels, 1, 0.01, 16, 0.01, "Of 1024 x 1024 pixels."),
    KIT_INT(total_params, resolution_steps, 1, 1, 256, "Both sides become multiples of this."),
};

static kiln_status image_scale_total_run(const kiln_call *c)
{
    const total_params *p = c->params;
    kiln_tensor a;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    double by = sqrt(p->megapixels * 1024 * 1024 / ((double)a.dim[1] * (double)a.dim[2])),
           step = (double)p->resolution_steps;
    int64_t h = at_least_1((double)a.dim[1] * by / step), w = at_least_1((double)a.dim[2] * by / step);
    return image_scale_to(c, &a, p->method, h * p->resolution_steps, w * p->resolution_steps, 0);
}
const kiln_node node_image_scale_total = {
    KIT_NODE_AT(2, "ImageScaleToTotalPixels", "Scale Image to Total Pixels", "image",
                "Scales a picture to a number of pixels."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    PARAMS(total),
    .run = image_scale_total_run,
};

/* ---- cutting, turning ---- */

typedef struct {
    int64_t width, height, x, y;
} crop_params;
static const kiln_param crop_param[] = {
    KIT_INT(crop_params, width, 512, 1, SIDE_MAX, "Pixels; less when the picture ends before."),
    KIT_INT(crop_params, height, 512, 1, SIDE_MAX, "Pixels; less when the picture ends before."),
    KIT_INT(crop_params, x, 0, 0, SIDE_MAX, "First column."),
    KIT_INT(crop_params, y, 0, 0, SIDE_MAX, "First row."),
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static kiln_status crop(const kiln_call *c, const crop_params *p)
{
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    int64_t x = least(p->x, a.dim[2] - 1), y = least(p->y, a.dim[1] - 1), w = least(p->width, a.dim[2] - x),
            h = least(p->height, a.dim[1] - y);
    TRY(kit_new_f32(c, 4, (const int64_t[]){a.dim[0], h, w, a.dim[3]}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    for (int64_t i = 0; i < a.dim[0] * h; i++)
        memcpy((float *)r.data + i * w * a.dim[3],
               (const float *)a.data + ((i / h * a.dim[1] + y + i % h) * a.dim[2] + x) * a.dim[3],
               (size_t)(w * a.dim[3]) * sizeof(float));
    return KILN_OK;
}
static kiln_status image_crop_run(const kiln_call *c) { return crop(c, c->params); }
const kiln_node node_image_crop = {
    KIT_NODE("ImageCrop", "Crop Image", "image", "Cuts a rectangle out."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    PARAMS(crop),
    .run = image_crop_run,
};

/* ---- ImageCropV2: a box as a value ---- */

static const kiln_port crop_region_in[] = {
    {.name = "image", .type = "IMAGE", .doc = "What to change."},
    {.name = "crop_region",
     .type = "BOUNDING_BOX",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "The rectangle, from PrimitiveBoundingBox; without it the numbers below say it."},
};
#define REGION(field_, default_, min_, doc_)                                                                           \
    {                                                                                                                  \
        .name = "crop_region." #field_, .type = KILN_P_INT, .offset = offsetof(crop_params, field_),                   \
        .def = (default_), .min = (min_), .max = SIDE_MAX, .step = 1, .doc = doc_                                      \
    }
static const kiln_param crop_region_param[] = {
    REGION(x, 0, 0, "First column."),
    REGION(y, 0, 0, "First row."),
    REGION(width, 512, 1, "Pixels; less when the picture ends before."),
    REGION(height, 512, 1, "Pixels; less when the picture ends before."),
};

static kiln_status box_side(const kiln_call *c, const char *key, int64_t least_, int64_t otherwise, int64_t *out)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *value = v->map_get(c->in[1], key);
    *out = otherwise;
    if ((!value || v->get_int(value, out) == KILN_OK) && *out >= least_ && *out <= SIDE_MAX) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "crop_region: its %s has to be a whole number from %lld to %d", key,
                         (long long)least_, (int)SIDE_MAX);
}

static kiln_status image_crop_region_run(const kiln_call *c)
{
    crop_params p = *(const crop_params *)c->params;
    if (c->in[1]) {
        TRY(box_side(c, "x", 0, 0, &p.x));
        TRY(box_side(c, "y", 0, 0, &p.y));
        TRY(box_side(c, "width", 1, 512, &p.width));
        TRY(box_side(c, "height", 1, 512, &p.height));
    }
    return crop(c, &p);
}
const kiln_node node_image_crop_region = {
    KIT_NODE("ImageCropV2", "Crop Image", "image/transform", "Cuts a rectangle out."),
    KILN_ARRAY(in, crop_region_in),
    KILN_ARRAY(out, image_out),
    KIT_PARAMS(crop_params, crop_region_param),
    .run = image_crop_region_run,
};

/* ---- motions ---- */

/* Where pixel (y, x) of the new picture comes from: row = y0 + yy y + yx x, column alike. */
typedef struct {
    int64_t y0, yy, yx, x0, xy, xx;
} motion;

static kiln_status move_pixels(const kiln_call *c, const kiln_tensor *a, int64_t h, int64_t w, motion m)
{
    kiln_tensor r;
    int64_t C = a->dim[3];
    TRY(kit_new_f32(c, 4, (const int64_t[]){a->dim[0], h, w, C}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    float *dst = r.data;
    for (int64_t n = 0; n < a->dim[0]; n++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++, dst += C)
                memcpy(dst,
                       (const float *)a->data +
                           ((n * a->dim[1] + m.y0 + m.yy * y + m.yx * x) * a->dim[2] + m.x0 + m.xy * y + m.xx * x) * C,
                       (size_t)C * sizeof(float));
    return KILN_OK;
}

typedef struct {
    int32_t how;
} turn_params;
static const kiln_choice rotation_choice[] = {
    {.name = "none", .value = 0},
    {.name = "90 degrees", .value = 1, .doc = "Clockwise."},
    {.name = "180 degrees", .value = 2},
    {.name = "270 degrees", .value = 3},
    {0},
};
static const kiln_choice flip_choice[] = {
    {.name = "x-axis: vertically", .value = 0, .doc = "Upside down."},
    {.name = "y-axis: horizontally", .value = 1, .doc = "Left to right."},
    {0},
};
static const kiln_param rotate_param[] = {
    {.name = "rotation",
     .type = KILN_P_ENUM,
     .offset = offsetof(turn_params, how),
     KILN_CHOICES(rotation_choice),
     .doc = "Clockwise."},
};
static const kiln_param flip_param[] = {
    {.name = "flip_method",
     .type = KILN_P_ENUM,
     .offset = offsetof(turn_params, how),
     KILN_CHOICES(flip_choice),
     .doc = "Which way."},
};

static kiln_status image_rotate_run(const kiln_call *c)
{
    kiln_tensor a;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    int64_t h = a.dim[1], w = a.dim[2];
    const motion way[] = {{.yy = 1, .xx = 1},
                          {.y0 = h - 1, .yx = -1, .xy = 1},
                          {.y0 = h - 1, .yy = -1, .x0 = w - 1, .xx = -1},
                          {.yx = 1, .x0 = w - 1, .xy = -1}};
    int32_t how = ((const turn_params *)c->params)->how;
    return move_pixels(c, &a, how % 2 ? w : h, how % 2 ? h : w, way[how]);
}
const kiln_node node_image_rotate = {
    KIT_NODE("ImageRotate", "Rotate Image", "image", "Turns a picture by quarters."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    KIT_PARAMS(turn_params, rotate_param),
    .run = image_rotate_run,
};

static kiln_status image_flip_run(const kiln_call *c)
{
    kiln_tensor a;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    const motion way[] = {{.y0 = a.dim[1] - 1, .yy = -1, .xx = 1}, {.yy = 1, .x0 = a.dim[2] - 1, .xx = -1}};
    return move_pixels(c, &a, a.dim[1], a.dim[2], way[((const turn_params *)c->params)->how]);
}
const kiln_node node_image_flip = {
    KIT_NODE("ImageFlip", "Flip Image", "image", "Mirrors a picture."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    KIT_PARAMS(turn_params, flip_param),
    .run = image_flip_run,
};

/* ---- ImagePadForOutpaint ---- */

typedef struct {
    int64_t left, top, right, bottom, feathering;
} pad_params;
#define SIDE(side)                                                                                                     \
    {                                                                                                                  \
        .name = #side, .type = KILN_P_INT, .offset = offsetof(pad_params, side), .def = 0, .min = 0, .max = SIDE_MAX,  \
        .step = 8, .doc = "Pixels to add."                                                                             \
    }
static const kiln_param pad_param[] = {
    SIDE(left),
    SIDE(top),
    SIDE(right),
    SIDE(bottom),
    KIT_INT(pad_params, feathering, 40, 0, SIDE_MAX,
            "Pixels of the old picture over which the mask fades; none when the picture is not twice as large."),
};
static const kiln_port pad_out[] = {
    {.name = "IMAGE", .type = "IMAGE", .doc = "The picture with grey around it."},
    {.name = "MASK", .type = "MASK", .doc = "1 where it is new, 0 where it is old."},
};

/* The mask at a pixel of the old picture: 1 at an edge that grew, falling with the square to 0. */
static float fade(const pad_params *p, int64_t h, int64_t w, int64_t y, int64_t x)
{
    int64_t near = h;
    if (p->feathering <= 0 || p->feathering * 2 >= h || p->feathering * 2 >= w) return 0;
    if (p->top) near = least(near, y);
    if (p->bottom) near = least(near, h - y);
    near = least(near, p->left ? x : w);
    near = least(near, p->right ? w - x : w);
    double v = near < p->feathering ? (double)(p->feathering - near) / (double)p->feathering : 0;
    return (float)(v * v);
}

static kiln_status image_pad_run(const kiln_call *c)
{
    const pad_params *p = c->params;
    kiln_tensor a, r, m;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    int64_t H = a.dim[1] + p->top + p->bottom, W = a.dim[2] + p->left + p->right, C = a.dim[3];
    if (H > SIDE_MAX || W > SIDE_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the new picture would have %lld x %lld pixels; %d a side is the most", (long long)W,
                             (long long)H, SIDE_MAX);
    TRY(kit_new_f32(c, 4, (const int64_t[]){a.dim[0], H, W, C}, &c->out[0], &r));
    TRY(kit_new_f32(c, 3, (const int64_t[]){1, H, W}, &c->out[1], &m));
    if (kit_estimating(c)) return KILN_OK;
    for (size_t i = 0; i < kit_count(&r); i++) ((float *)r.data)[i] = 0.5f;
    for (size_t i = 0; i < kit_count(&m); i++) ((float *)m.data)[i] = 1;
    for (int64_t i = 0; i < a.dim[0] * a.dim[1]; i++)
        memcpy((float *)r.data + ((i / a.dim[1] * H + p->top + i % a.dim[1]) * W + p->left) * C,
               (const float *)a.data + i * a.dim[2] * C, (size_t)(a.dim[2] * C) * sizeof(float));
    for (int64_t y = 0; y < a.dim[1]; y++)
        for (int64_t x = 0; x < a.dim[2]; x++)
            ((float *)m.data)[(p->top + y) * W + p->left + x] = fade(p, a.dim[1], a.dim[2], y, x);
    return KILN_OK;
}
const kiln_node node_image_pad = {
    KIT_NODE("ImagePadForOutpaint", "Pad Image for Outpainting", "image",
             "Adds room around a picture, and a mask of it."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, pad_out),
    PARAMS(pad),
    .run = image_pad_run,
};

/* ---- batches, sizes ---- */

/* c->out[0] = n pictures from `first` on, the batch over and over. */
static kiln_status pick(const kiln_call *c, const kiln_tensor *a, int64_t first, int64_t n)
{
    kiln_tensor r;
    size_t one = kit_count(a) / (size_t)a->dim[0];
    TRY(kit_new_f32(c, 4, (const int64_t[]){n, a->dim[1], a->dim[2], a->dim[3]}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    for (int64_t i = 0; i < n; i++)
        memcpy((float *)r.data + (size_t)i * one, (const float *)a->data + (size_t)((first + i) % a->dim[0]) * one,
               one * sizeof(float));
    return KILN_OK;
}

typedef struct {
    int64_t batch_index, length;
} from_params;
static const kiln_param from_param[] = {
    KIT_INT(from_params, batch_index, 0, -SIDE_MAX, SIDE_MAX, "First picture; negative counts from the end."),
    KIT_INT(from_params, length, 1, 1, 4096, "How many; less when the batch ends before."),
};
static kiln_status image_from_batch_run(const kiln_call *c)
{
    const from_params *p = c->params;
    kiln_tensor a;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    int64_t first = least(p->batch_index < 0 ? p->batch_index + a.dim[0] : p->batch_index, a.dim[0] - 1);
    first = first < 0 ? 0 : first;
    return pick(c, &a, first, least(p->length, a.dim[0] - first));
}
const kiln_node node_image_from_batch = {
    KIT_NODE("ImageFromBatch", "Image From Batch", "image", "Some pictures of a batch."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    PARAMS(from),
    .run = image_from_batch_run,
};

typedef struct {
    int64_t amount;
} repeat_params;
static const kiln_param repeat_param[] = {KIT_INT(repeat_params, amount, 1, 1, 4096, "How often.")};
static kiln_status repeat_image_batch_run(const kiln_call *c)
{
    kiln_tensor a;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    return pick(c, &a, 0, a.dim[0] * ((const repeat_params *)c->params)->amount);
}
const kiln_node node_repeat_image_batch = {
    KIT_NODE("RepeatImageBatch", "Repeat Image Batch", "image", "The batch several times over."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, image_out),
    PARAMS(repeat),
    .run = repeat_image_batch_run,
};

static const kiln_port size_out[] = {
    {.name = "width", .type = "INT", .doc = "Pixels."},
    {.name = "height", .type = "INT", .doc = "Pixels."},
    {.name = "batch_size", .type = "INT", .doc = "Pictures."},
};
static kiln_status get_image_size_run(const kiln_call *c)
{
    static const int which[] = {2, 1, 0};
    kiln_tensor a;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    for (size_t i = 0; i < COUNT(which); i++)
        if (!(c->out[i] = kit_values(c)->new_int(c->ctx, a.dim[which[i]]))) return KILN_ERR_NOMEM;
    return KILN_OK;
}
const kiln_node node_get_image_size = {
    KIT_NODE("GetImageSize", "Get Image Size", "image", "A picture's size as numbers."),
    KILN_ARRAY(in, image_in),
    KILN_ARRAY(out, size_out),
    .run = get_image_size_run,
};
