/* image_mix.c - pictures made of two: blending, pasting, and transparency. Names, defaults and formulas are ComfyUI's.
 */
#include "image.h"

#include "kiln/kit.h"
#include "kiln/resize.h"

#include <math.h>
#include <string.h>

static const kiln_port image_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The new picture."}};

/* Picture n (of a batch that repeats) of t at h by w; as it is when it has that size, else in scratch memory. */
static const float *sized(const kiln_call *c, const kiln_tensor *t, int64_t n, int64_t h, int64_t w, int method,
                          int centre)
{
    int64_t C = t->rank == 4 ? t->dim[3] : 1;
    const float *src = (const float *)t->data + n % t->dim[0] * t->dim[1] * t->dim[2] * C;
    if (t->dim[1] == h && t->dim[2] == w) return src;
    float *dst = c->host->scratch(c->ctx, (size_t)(h * w * C) * sizeof *dst, KILN_CPU);
    resize_box box = centre ? resize_centre(t->dim[1], t->dim[2], h, w) : (resize_box){.h = t->dim[1], .w = t->dim[2]};
    if (dst)
        resize_plane(
            (resize_source){
                .data = src + (box.y * t->dim[2] + box.x) * C, .h = box.h, .w = box.w, .c = C, .row = t->dim[2] * C},
            dst, h, w, method);
    return dst;
}

/* ---- ImageBlend ---- */

static double normal(double a, double b) { return (void)a, b; }
static double multiply(double a, double b) { return a * b; }
static double screen(double a, double b) { return 1 - (1 - a) * (1 - b); }
static double overlay(double a, double b) { return a <= 0.5 ? 2 * a * b : 1 - 2 * (1 - a) * (1 - b); }
static double soft_light(double a, double b)
{
    double g = a <= 0.25 ? ((16 * a - 12) * a + 4) * a : sqrt(a);
    return b <= 0.5 ? a - (1 - 2 * b) * a * (1 - a) : a + (2 * b - 1) * (g - a);
}
static double difference(double a, double b) { return a - b; }

static double (*const modes[])(double, double) = {normal, multiply, screen, overlay, soft_light, difference};
typedef struct {
    double factor;
    int32_t mode;
} blend_params;
static const kiln_choice mode_choice[] = {
    {.name = "normal", .value = 0, .doc = "The second."},
    {.name = "multiply", .value = 1, .doc = "Darker."},
    {.name = "screen", .value = 2, .doc = "Lighter."},
    {.name = "overlay", .value = 3, .doc = "More contrast."},
    {.name = "soft_light", .value = 4, .doc = "A little more contrast."},
    {.name = "difference", .value = 5, .doc = "First less second."},
    {0},
};
static const kiln_param blend_param[] = {
    {.name = "blend_factor",
     .type = KILN_P_FLOAT,
     .offset = offsetof(blend_params, factor),
     .def = 0.5,
     .min = 0,
     .max = 1,
     .step = 0.01,
     .doc = "Share of the blended picture."},
    {.name = "blend_mode",
     .type = KILN_P_ENUM,
     .offset = offsetof(blend_params, mode),
     KILN_CHOICES(mode_choice),
     .doc = "How the two are blended."},
};
static const kiln_port blend_in[] = {
    {.name = "image1", .type = "IMAGE", .doc = "The first."},
    {.name = "image2", .type = "IMAGE", .doc = "The second; cut and scaled to the first one's size."},
};

static kiln_status image_blend_run(const kiln_call *c)
{
    const blend_params *p = c->params;
    kiln_tensor a, b, r;
    TRY(kit_f32(c, c->in[0], 4, "image1", &a));
    TRY(kit_f32(c, c->in[1], 4, "image2", &b));
    if (b.dim[0] != 1 && b.dim[0] != a.dim[0])
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "image1 is a batch of %lld and image2 of %lld; they must be as many, or image2 one",
                             (long long)a.dim[0], (long long)b.dim[0]);
    TRY(kit_new_f32(c, 4, a.dim, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    int64_t C = a.dim[3], pixels = a.dim[1] * a.dim[2];
    for (int64_t n = 0; n < a.dim[0]; n++) {
        const float *x = (const float *)a.data + n * pixels * C,
                    *y = sized(c, &b, n, a.dim[1], a.dim[2], RESIZE_BICUBIC, 1);
        if (!y) return KILN_ERR_NOMEM;
        TRY(c->host->progress(c->ctx, (uint64_t)n, (uint64_t)a.dim[0], "blending"));
        for (int64_t i = 0; i < pixels * C; i++) {
            double first = (double)x[i],
                   second = i % C < b.dim[3] ? (double)y[i / C * b.dim[3] + i % C] : 1; /* no alpha: opaque */
            ((float *)r.data)[n * pixels * C + i] =
                (float)fmin(1, fmax(0, first * (1 - p->factor) + modes[p->mode](first, second) * p->factor));
        }
    }
    return KILN_OK;
}
const kiln_node node_image_blend = {
    KIT_NODE("ImageBlend", "Image Blend", "image", "Mixes two pictures."),
    KILN_ARRAY(in, blend_in),
    KILN_ARRAY(out, image_out),
    KIT_PARAMS(blend_params, blend_param),
    .run = image_blend_run,
};

/* ---- ImageCompositeMasked ---- */

typedef struct {
    int64_t x, y;
    int32_t resize;
} paste_params;
static const kiln_param paste_param[] = {
    KIT_INT(paste_params, x, 0, 0, 16384, "Column of the source's left edge."),
    KIT_INT(paste_params, y, 0, 0, 16384, "Row of the source's upper edge."),
    {.name = "resize_source",
     .type = KILN_P_BOOL,
     .offset = offsetof(paste_params, resize),
     .def = 0,
     .doc = "Scale the source to the destination's size first."},
};
static const kiln_port paste_in[] = {
    {.name = "destination", .type = "IMAGE", .doc = "What is pasted into."},
    {.name = "source", .type = "IMAGE", .doc = "What is pasted; what reaches over the edge is cut off."},
    {.name = "mask", .type = "MASK", .flags = KILN_PORT_OPTIONAL, .doc = "How much of the source; scaled to its size."},
};

/* One picture: dst is at the destination's pixel (x, y). m NULL: 1 everywhere. */
static void paste(float *dst, int64_t dst_row, int64_t C, const float *src, int64_t src_row, int64_t src_c,
                  const float *m, int64_t h, int64_t w)
{
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++) {
            float share = m ? m[y * src_row + x] : 1, *to = dst + (y * dst_row + x) * C;
            for (int64_t k = 0; k < C; k++)
                to[k] = share * (k < src_c ? src[(y * src_row + x) * src_c + k] : 1) + (1 - share) * to[k];
        }
}

static kiln_status image_composite_run(const kiln_call *c)
{
    const paste_params *p = c->params;
    kiln_tensor a, s, m = {0}, r;
    TRY(kit_f32(c, c->in[0], 4, "destination", &a));
    TRY(kit_f32(c, c->in[1], 4, "source", &s));
    if (c->in[2]) TRY(kit_f32(c, c->in[2], 3, "mask", &m));
    TRY(kit_new_f32(c, 4, a.dim, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    memcpy(r.data, a.data, kit_count(&a) * sizeof(float));
    int64_t sh = p->resize ? a.dim[1] : s.dim[1], sw = p->resize ? a.dim[2] : s.dim[2], H = a.dim[1], W = a.dim[2];
    int64_t h = sh < H - p->y ? sh : H - p->y, w = sw < W - p->x ? sw : W - p->x;
    for (int64_t n = 0; n < a.dim[0] && h > 0 && w > 0; n++) {
        const float *src = sized(c, &s, n, sh, sw, RESIZE_BILINEAR, 0),
                    *mask = c->in[2] ? sized(c, &m, n, sh, sw, RESIZE_BILINEAR, 0) : NULL;
        if (!src || (c->in[2] && !mask)) return KILN_ERR_NOMEM;
        TRY(c->host->progress(c->ctx, (uint64_t)n, (uint64_t)a.dim[0], "pasting"));
        paste((float *)r.data + ((n * H + p->y) * W + p->x) * a.dim[3], W, a.dim[3], src, sw, s.dim[3], mask, h, w);
    }
    return KILN_OK;
}
const kiln_node node_image_composite = {
    KIT_NODE("ImageCompositeMasked", "Image Composite Masked", "image", "Pastes one picture into another."),
    KILN_ARRAY(in, paste_in),
    KILN_ARRAY(out, image_out),
    KIT_PARAMS(paste_params, paste_param),
    .run = image_composite_run,
};

/* ---- transparency ---- */

static const kiln_port split_in[] = {{.name = "image", .type = "IMAGE", .doc = "A picture."}};
static const kiln_port split_out[] = {
    {.name = "IMAGE", .type = "IMAGE", .doc = "Its colours."},
    {.name = "MASK", .type = "MASK", .doc = "1 where it is transparent."},
};
static const kiln_port join_in[] = {
    {.name = "image", .type = "IMAGE", .doc = "The colours."},
    {.name = "alpha", .type = "MASK", .doc = "1 where it is transparent; scaled to the picture's size."},
};

static kiln_status split_alpha_run(const kiln_call *c)
{
    kiln_tensor a, r, m;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    TRY(kit_new_f32(c, 4, (const int64_t[]){a.dim[0], a.dim[1], a.dim[2], 3}, &c->out[0], &r));
    TRY(kit_new_f32(c, 3, a.dim, &c->out[1], &m));
    if (kit_estimating(c)) return KILN_OK;
    for (int64_t i = 0; i < (int64_t)kit_count(&m); i++) {
        const float *from = (const float *)a.data + i * a.dim[3];
        memcpy((float *)r.data + i * 3, from, 3 * sizeof(float));
        ((float *)m.data)[i] = a.dim[3] > 3 ? 1 - from[3] : 0;
    }
    return KILN_OK;
}
const kiln_node node_split_alpha = {
    KIT_NODE("SplitImageWithAlpha", "Split Image with Alpha", "image", "A picture's colours and its transparency."),
    KILN_ARRAY(in, split_in),
    KILN_ARRAY(out, split_out),
    .run = split_alpha_run,
};

static kiln_status join_alpha_run(const kiln_call *c)
{
    kiln_tensor a, m, r;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    TRY(kit_f32(c, c->in[1], 3, "alpha", &m));
    int64_t pixels = a.dim[1] * a.dim[2];
    TRY(kit_new_f32(c, 4, (const int64_t[]){a.dim[0], a.dim[1], a.dim[2], 4}, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    for (int64_t n = 0; n < a.dim[0]; n++) {
        const float *mask = sized(c, &m, n, a.dim[1], a.dim[2], RESIZE_BILINEAR, 0);
        if (!mask) return KILN_ERR_NOMEM;
        for (int64_t i = 0; i < pixels; i++) {
            float *to = (float *)r.data + (n * pixels + i) * 4;
            memcpy(to, (const float *)a.data + (n * pixels + i) * a.dim[3], 3 * sizeof(float));
            to[3] = 1 - mask[i];
        }
    }
    return KILN_OK;
}
const kiln_node node_join_alpha = {
    KIT_NODE("JoinImageWithAlpha", "Join Image with Alpha", "image", "A picture with transparency."),
    KILN_ARRAY(in, join_in),
    KILN_ARRAY(out, image_out),
    .run = join_alpha_run,
};
