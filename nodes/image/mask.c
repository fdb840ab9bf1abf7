/* mask.c - masks: cutting, combining, feathering, growing, thresholds.
 *
 * Names, defaults and formulas are ComfyUI's, with one exception: FeatherMask fades the right and lower edge as it does
 * the left and upper one, where ComfyUI's counts are one off and touch the opposite edge.
 */
#include "image.h"

#include "kiln/kit.h"

#include <math.h>
#include <string.h>

static const kiln_port mask_out[] = {{.name = "MASK", .type = "MASK", .doc = "The new mask."}};
static const kiln_port mask_in[] = {{.name = "mask", .type = "MASK", .doc = "What to change."}};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* c->out[0] = a copy of the mask, still to be changed; in an estimate, its shape. */
static kiln_status copy_mask(const kiln_call *c, const kiln_tensor *a, kiln_tensor *r)
{
    TRY(kit_new_f32(c, 3, a->dim, &c->out[0], r));
    if (kit_estimating(c)) return KILN_OK;
    memcpy(r->data, a->data, kit_count(a) * sizeof(float));
    return KILN_OK;
}

/* ---- CropMask, ThresholdMask, ImageColorToMask ---- */

typedef struct {
    int64_t x, y, width, height;
} crop_params;
static const kiln_param crop_param[] = {
    KIT_INT(crop_params, x, 0, 0, 16384, "First column."),
    KIT_INT(crop_params, y, 0, 0, 16384, "First row."),
    KIT_INT(crop_params, width, 512, 1, 16384, "Pixels; less when the mask ends before."),
    KIT_INT(crop_params, height, 512, 1, 16384, "Pixels; less when the mask ends before."),
};

static kiln_status crop_mask_run(const kiln_call *c)
{
    const crop_params *p = c->params;
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 3, "mask", &a));
    if (p->x >= a.dim[2] || p->y >= a.dim[1])
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "x %lld, y %lld is outside the mask, which has %lld x %lld pixels", (long long)p->x,
                             (long long)p->y, (long long)a.dim[2], (long long)a.dim[1]);
    int64_t w = least(p->width, a.dim[2] - p->x), h = least(p->height, a.dim[1] - p->y);
    TRY(kit_new_f32(c, 3, (const int64_t[]){a.dim[0], h, w}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    for (int64_t i = 0; i < a.dim[0] * h; i++)
        memcpy((float *)r.data + i * w, (const float *)a.data + (i / h * a.dim[1] + p->y + i % h) * a.dim[2] + p->x,
               (size_t)w * sizeof(float));
    return KILN_OK;
}
const kiln_node node_crop_mask = {
    KIT_NODE("CropMask", "Crop Mask", "mask", "Cuts a rectangle out."),
    KILN_ARRAY(out, mask_out),
    KILN_ARRAY(in, mask_in),
    KIT_PARAMS(crop_params, crop_param),
    .run = crop_mask_run,
};

typedef struct {
    double value;
} threshold_params;
static const kiln_param threshold_param[] = {
    KIT_FLOAT(threshold_params, value, 0.5, 0, 1, 0.01, "Above it 1, else 0.")};
static kiln_status threshold_mask_run(const kiln_call *c)
{
    float limit = (float)((const threshold_params *)c->params)->value;
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 3, "mask", &a));
    TRY(kit_new_f32(c, 3, a.dim, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    for (size_t i = 0; i < kit_count(&a); i++) ((float *)r.data)[i] = ((const float *)a.data)[i] > limit;
    return KILN_OK;
}
const kiln_node node_threshold_mask = {
    KIT_NODE("ThresholdMask", "Threshold Mask", "mask", "Makes a mask of zeros and ones."),
    KILN_ARRAY(out, mask_out),
    KILN_ARRAY(in, mask_in),
    KIT_PARAMS(threshold_params, threshold_param),
    .run = threshold_mask_run,
};

static const kiln_port image_in[] = {{.name = "image", .type = "IMAGE", .doc = "A picture."}};
typedef struct {
    int64_t color;
} colour_params;
static const kiln_param colour_param[] = {KIT_INT(colour_params, color, 0, 0, 16777215, "0xRRGGBB as a number.")};
static kiln_status colour_to_mask_run(const kiln_call *c)
{
    int64_t wanted = ((const colour_params *)c->params)->color;
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    TRY(kit_new_f32(c, 3, a.dim, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    for (size_t i = 0; i < kit_count(&r); i++) {
        int64_t colour = 0;
        for (size_t k = 0; k < 3; k++)
            colour = colour << 8 |
                     (int64_t)rintf(fminf(1, fmaxf(0, ((const float *)a.data)[i * (size_t)a.dim[3] + k])) * 255);
        ((float *)r.data)[i] = colour == wanted;
    }
    return KILN_OK;
}
const kiln_node node_colour_to_mask = {
    KIT_NODE("ImageColorToMask", "Image Color to Mask", "mask", "1 where a picture has one colour exactly."),
    KILN_ARRAY(out, mask_out),
    KILN_ARRAY(in, image_in),
    KIT_PARAMS(colour_params, colour_param),
    .run = colour_to_mask_run,
};

/* ---- MaskComposite ---- */

static int on(float v) { return rintf(v) != 0; }
static float multiply(float d, float s) { return d * s; }
static float add(float d, float s) { return d + s; }
static float subtract(float d, float s) { return d - s; }
static float both(float d, float s) { return on(d) && on(s); }
static float either(float d, float s) { return on(d) || on(s); }
static float one_of(float d, float s) { return on(d) != on(s); }
static float (*const operations[])(float, float) = {multiply, add, subtract, both, either, one_of};

typedef struct {
    int64_t x, y;
    int32_t operation;
} composite_params;
static const kiln_choice operation_choice[] = {
    {.name = "multiply", .value = 0},
    {.name = "add", .value = 1},
    {.name = "subtract", .value = 2},
    {.name = "and", .value = 3},
    {.name = "or", .value = 4},
    {.name = "xor", .value = 5},
    {0},
};
static const kiln_param composite_param[] = {
    KIT_INT(composite_params, x, 0, 0, 16384, "Column of the source's left edge."),
    KIT_INT(composite_params, y, 0, 0, 16384, "Row of the source's upper edge."),
    KIT_ENUM(composite_params, operation, operation_choice, 0,
             "What becomes of the two; and, or, xor round to 0 or 1 first."),
};
static const kiln_port composite_in[] = {
    {.name = "destination", .type = "MASK", .doc = "What is changed."},
    {.name = "source", .type = "MASK", .doc = "By what; what reaches over the edge is cut off."},
};

static kiln_status mask_composite_run(const kiln_call *c)
{
    const composite_params *p = c->params;
    kiln_tensor d, s, r;
    TRY(kit_f32(c, c->in[0], 3, "destination", &d));
    TRY(kit_f32(c, c->in[1], 3, "source", &s));
    if (s.dim[0] != 1 && s.dim[0] != d.dim[0])
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "the destination is a batch of %lld masks and the source of %lld; they must be as many, or the source one",
            (long long)d.dim[0], (long long)s.dim[0]);
    TRY(copy_mask(c, &d, &r));
    if (kit_estimating(c)) return KILN_OK;
    for (int64_t n = 0; n < d.dim[0]; n++)
        for (int64_t y = 0; y < least(s.dim[1], d.dim[1] - p->y); y++)
            for (int64_t x = 0; x < least(s.dim[2], d.dim[2] - p->x); x++) {
                float *to = (float *)r.data + (n * d.dim[1] + p->y + y) * d.dim[2] + p->x + x;
                *to = operations[p->operation](*to,
                                               ((const float *)s.data)[(n % s.dim[0] * s.dim[1] + y) * s.dim[2] + x]);
            }
    for (size_t i = 0; i < kit_count(&r); i++) ((float *)r.data)[i] = fminf(1, fmaxf(0, ((float *)r.data)[i]));
    return KILN_OK;
}
const kiln_node node_mask_composite = {
    KIT_NODE("MaskComposite", "Mask Composite", "mask", "Combines two masks."),
    KILN_ARRAY(out, mask_out),
    KILN_ARRAY(in, composite_in),
    KIT_PARAMS(composite_params, composite_param),
    .run = mask_composite_run,
};

/* ---- FeatherMask ---- */

typedef struct {
    int64_t left, top, right, bottom;
} feather_params;
static const kiln_param feather_param[] = {
    KIT_INT(feather_params, left, 0, 0, 16384, "Pixels."),
    KIT_INT(feather_params, top, 0, 0, 16384, "Pixels."),
    KIT_INT(feather_params, right, 0, 0, 16384, "Pixels."),
    KIT_INT(feather_params, bottom, 0, 0, 16384, "Pixels."),
};

/* What a pixel `at` from an edge is multiplied by when `width` pixels fade. */
static float rate(int64_t at, int64_t width) { return at < width ? (float)((double)(at + 1) / (double)width) : 1; }

static kiln_status feather_mask_run(const kiln_call *c)
{
    const feather_params *p = c->params;
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 3, "mask", &a));
    TRY(copy_mask(c, &a, &r));
    if (kit_estimating(c)) return KILN_OK;
    int64_t H = a.dim[1], W = a.dim[2];
    for (int64_t i = 0; i < a.dim[0] * H * W; i++) {
        int64_t x = i % W, y = i / W % H;
        ((float *)r.data)[i] *= rate(x, least(p->left, W)) * rate(W - 1 - x, least(p->right, W)) *
                                rate(y, least(p->top, H)) * rate(H - 1 - y, least(p->bottom, H));
    }
    return KILN_OK;
}
const kiln_node node_feather_mask = {
    KIT_NODE("FeatherMask", "Feather Mask", "mask", "Lets a mask fade towards its edges."),
    KILN_ARRAY(out, mask_out),
    KILN_ARRAY(in, mask_in),
    KIT_PARAMS(feather_params, feather_param),
    .run = feather_mask_run,
};

/* ---- GrowMask ---- */

typedef struct {
    int64_t expand;
    int32_t tapered;
} grow_params;
static const kiln_param grow_param[] = {
    KIT_INT(grow_params, expand, 0, -16384, 16384, "Pixels; negative shrinks."),
    {.name = "tapered_corners",
     .type = KILN_P_BOOL,
     .offset = offsetof(grow_params, tapered),
     .def = 1,
     .doc = "Grow by diamonds instead of squares."},
};

/* The largest (sign 1) or smallest (sign -1) of a pixel and its neighbours; the mask goes on beyond its edges as it
 * ends. */
static float extreme(const float *m, int64_t H, int64_t W, int64_t y, int64_t x, int tapered, float sign)
{
    float best = m[y * W + x];
    for (int64_t dy = y > 0 ? -1 : 0; dy <= (y + 1 < H ? 1 : 0); dy++)
        for (int64_t dx = x > 0 ? -1 : 0; dx <= (x + 1 < W ? 1 : 0); dx++) {
            float v = m[(y + dy) * W + x + dx];
            if (!(tapered && dx && dy) && v * sign > best * sign) best = v;
        }
    return best;
}

/* One pixel of growth from a to r; 0 when nothing changed. */
static int grow(const float *a, float *r, int64_t H, int64_t W, int tapered, float sign)
{
    for (int64_t y = 0; y < H; y++)
        for (int64_t x = 0; x < W; x++) r[y * W + x] = extreme(a, H, W, y, x, tapered, sign);
    return memcmp(a, r, (size_t)(H * W) * sizeof(float)) != 0;
}

static kiln_status grow_mask_run(const kiln_call *c)
{
    const grow_params *p = c->params;
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 3, "mask", &a));
    TRY(copy_mask(c, &a, &r));
    if (kit_estimating(c)) return KILN_OK;
    size_t one = (size_t)(a.dim[1] * a.dim[2]);
    float *before = c->host->scratch(c->ctx, one * sizeof *before, KILN_CPU);
    if (!before) return KILN_ERR_NOMEM;
    int64_t steps = p->expand < 0 ? -p->expand : p->expand;
    for (int64_t n = 0; n < a.dim[0]; n++) {
        float *now = (float *)r.data + (size_t)n * one;
        for (int64_t i = 0, changed = 1; i < steps && changed; i++) {
            TRY(c->host->progress(c->ctx, (uint64_t)(n * steps + i), (uint64_t)(a.dim[0] * steps), "growing"));
            memcpy(before, now, one * sizeof *before);
            changed = grow(before, now, a.dim[1], a.dim[2], p->tapered, p->expand < 0 ? -1.0f : 1.0f);
        }
    }
    return KILN_OK;
}
const kiln_node node_grow_mask = {
    KIT_NODE("GrowMask", "Grow Mask", "mask", "Makes a mask wider or narrower."),
    KILN_ARRAY(out, mask_out),
    KILN_ARRAY(in, mask_in),
    KIT_PARAMS(grow_params, grow_param),
    .run = grow_mask_run,
};
