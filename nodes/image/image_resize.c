/* image_resize.c - ResizeImageMaskNode: pictures and masks brought to a size in one of nine ways. Names, inputs,
 * defaults and roundings are ComfyUI's. Which of its parameters count is decided by `resize_type`: `from` names the
 * choices they belong to.
 */
#include "image.h"
#include "image_scale.h"

#include "kiln/kit.h"

#include <math.h>
#include <string.h>

enum { SIDE_MAX = 16384 };
enum { TO_SIZE, BY, LONGER, SHORTER, TO_WIDTH, TO_HEIGHT, TO_PIXELS, LIKE, TO_MULTIPLE };

typedef struct {
    int32_t way, crop, method;
    int64_t width, height, longer, shorter, multiple;
    double multiplier, megapixels;
} resize_params;

static const kiln_choice way_choice[] = {
    {.name = "scale dimensions", .value = TO_SIZE, .doc = "To a width and a height; 0 keeps the proportions."},
    {.name = "scale by multiplier", .value = BY, .doc = "Both sides by a factor."},
    {.name = "scale longer dimension", .value = LONGER, .doc = "The longer side; the other keeps proportion."},
    {.name = "scale shorter dimension", .value = SHORTER, .doc = "The shorter side; the other keeps proportion."},
    {.name = "scale width", .value = TO_WIDTH, .doc = "The width; the height keeps proportion."},
    {.name = "scale height", .value = TO_HEIGHT, .doc = "The height; the width keeps proportion."},
    {.name = "scale total pixels", .value = TO_PIXELS, .doc = "To a number of pixels."},
    {.name = "match size", .value = LIKE, .doc = "To the size of another picture or mask."},
    {.name = "scale to multiple", .value = TO_MULTIPLE, .doc = "Down to sides that a number divides; edges are cut."},
    {0}};
static const kiln_choice crop_choice[] = {{.name = "disabled", .value = 0, .doc = "Proportions change."},
                                          {.name = "center", .value = 1, .doc = "The middle is cut out first."},
                                          {0}};
static const kiln_choice method_choice[] = {{.name = "nearest-exact", .value = RESIZE_NEAREST},
                                            {.name = "bilinear", .value = RESIZE_BILINEAR},
                                            {.name = "area", .value = RESIZE_AREA},
                                            {.name = "bicubic", .value = RESIZE_BICUBIC},
                                            {.name = "lanczos", .value = METHOD_LANCZOS},
                                            {0}};

#define OF_WAY(name_, field_, ways_, type_, default_, min_, max_, step_, doc_)                                         \
    {                                                                                                                  \
        .name = "resize_type." name_, .type = type_, .offset = offsetof(resize_params, field_), .def = (default_),     \
        .min = (min_), .max = (max_), .step = (step_), .from = ways_, .doc = doc_                                      \
    }
#define PIXELS(name_, field_, ways_, doc_) OF_WAY(name_, field_, ways_, KILN_P_INT, 512, 0, SIDE_MAX, 1, doc_)
static const kiln_param resize_param[] = {
    {.name = "resize_type",
     .type = KILN_P_ENUM,
     .offset = offsetof(resize_params, way),
     .def = TO_SIZE,
     KILN_CHOICES(way_choice),
     .doc = "How the new size is found."},
    PIXELS("width", width, "scale dimensions|scale width", "Of `scale dimensions` and `scale width`: pixels."),
    PIXELS("height", height, "scale dimensions|scale height", "Of `scale dimensions` and `scale height`: pixels."),
    {.name = "resize_type.crop",
     .type = KILN_P_ENUM,
     .offset = offsetof(resize_params, crop),
     .def = 1,
     KILN_CHOICES(crop_choice),
     .from = "scale dimensions|match size",
     .doc = "Of `scale dimensions` and `match size`: what becomes of other proportions."},
    OF_WAY("multiplier", multiplier, "scale by multiplier", KILN_P_FLOAT, 1, 0.01, 8, 0.01,
           "Of `scale by multiplier`: times both sides."),
    PIXELS("longer_size", longer, "scale longer dimension", "Of `scale longer dimension`: pixels."),
    PIXELS("shorter_size", shorter, "scale shorter dimension", "Of `scale shorter dimension`: pixels."),
    OF_WAY("megapixels", megapixels, "scale total pixels", KILN_P_FLOAT, 1, 0.01, 16, 0.01,
           "Of `scale total pixels`: times 1024 x 1024."),
    OF_WAY("multiple", multiple, "scale to multiple", KILN_P_INT, 8, 1, SIDE_MAX, 1,
           "Of `scale to multiple`: what divides both sides."),
    {.name = "scale_method",
     .type = KILN_P_ENUM,
     .offset = offsetof(resize_params, method),
     .def = RESIZE_AREA,
     KILN_CHOICES(method_choice),
     .doc = "How pixels between pixels are made."},
};
static const kiln_port resize_in[] = {
    {.name = "input", .type = "*T", .doc = "The pictures, or masks."},
    {.name = "resize_type.match",
     .type = "*",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "Of `match size`: the picture or mask that has the size."},
};
static const kiln_port resize_out[] = {{.name = "resized", .type = "*T", .doc = "The same in the new size."}};

typedef struct {
    int64_t h, w;
} size;

/* To the nearest, half to even. */
static int64_t side(double v) { return v < 1 ? 1 : (int64_t)rint(v); }

static size by_longest(int64_t h, int64_t w, int64_t to, int shorter)
{
    if (h == w) return (size){side((double)to), side((double)to)};
    if ((h > w) != shorter) return (size){side((double)to), side((double)w / (double)h * (double)to)};
    return (size){side((double)h / (double)w * (double)to), side((double)to)};
}

/* 0 stands for what keeps proportion; both 0: nothing changes. */
static size to_sides(int64_t h, int64_t w, int64_t to_h, int64_t to_w)
{
    if (!to_h && !to_w) return (size){h, w};
    return (size){to_h ? to_h : side((double)h * (double)to_w / (double)w),
                  to_w ? to_w : side((double)w * (double)to_h / (double)h)};
}

static size to_pixels(int64_t h, int64_t w, double megapixels)
{
    double by = sqrt(floor(megapixels * 1024 * 1024) / ((double)h * (double)w));
    return (size){side((double)h * by), side((double)w * by)};
}

static kiln_status tensor_of(const kiln_call *c, uint32_t i, const char *what, kiln_tensor *t)
{
    TRY(kit_f32_between(c, c->in[i], 3, 4, what, t));
    if (t->dim[1] > 0 && t->dim[2] > 0) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s has no pixels", what);
}

static kiln_status find_size(const kiln_call *c, const kiln_tensor *a, size *out)
{
    const resize_params *p = c->params;
    int64_t h = a->dim[1], w = a->dim[2];
    kiln_tensor other;
    switch (p->way) {
    case BY: *out = (size){side((double)h * p->multiplier), side((double)w * p->multiplier)}; break;
    case LONGER:
    case SHORTER: *out = by_longest(h, w, p->way == LONGER ? p->longer : p->shorter, p->way == SHORTER); break;
    case TO_WIDTH: *out = to_sides(h, w, 0, p->width); break;
    case TO_HEIGHT: *out = to_sides(h, w, p->height, 0); break;
    case TO_PIXELS: *out = to_pixels(h, w, p->megapixels); break;
    case LIKE:
        TRY(tensor_of(c, 1, "resize_type.match", &other));
        *out = (size){other.dim[1], other.dim[2]};
        break;
    default: *out = to_sides(h, w, p->height, p->width); break;
    }
    return KILN_OK;
}

/* The size whose middle has sides that `multiple` divides; 0: they are so already, or too short. */
static int cover(int64_t h, int64_t w, int64_t multiple, size *whole, size *middle)
{
    *middle = (size){h / multiple * multiple, w / multiple * multiple};
    if (!middle->h || !middle->w || (middle->h == h && middle->w == w)) return 0;
    double by_h = (double)middle->h / (double)h, by_w = (double)middle->w / (double)w;
    *whole = *middle;
    if (by_w >= by_h)
        whole->h = (int64_t)fmax(ceil((double)h * by_w), (double)middle->h);
    else
        whole->w = (int64_t)fmax(ceil((double)w * by_h), (double)middle->w);
    return 1;
}

static kiln_status new_like(const kiln_call *c, const kiln_tensor *a, size to, kiln_tensor *r)
{
    int64_t dim[4] = {a->dim[0], to.h, to.w, a->rank > 3 ? a->dim[3] : 1};
    if (to.h > SIDE_MAX || to.w > SIDE_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "it would have %lld x %lld pixels; %d a side is the most",
                             (long long)to.w, (long long)to.h, SIDE_MAX);
    return kit_new_f32(c, a->rank, dim, &c->out[0], r);
}

static kiln_status same(const kiln_call *c)
{
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}

static kiln_status to_multiple(const kiln_call *c, const kiln_tensor *a, const kiln_tensor *four)
{
    const resize_params *p = c->params;
    size whole, middle;
    kiln_tensor r;
    if (!cover(a->dim[1], a->dim[2], p->multiple, &whole, &middle)) return same(c);
    TRY(new_like(c, a, middle, &r));
    if (kit_estimating(c)) return KILN_OK;
    int64_t n = four->dim[0], channels = four->dim[3], row = whole.w * channels;
    float *scaled = c->host->scratch(c->ctx, (size_t)(n * whole.h * row) * sizeof *scaled, KILN_CPU), *to = r.data;
    if (!scaled) return KILN_ERR_NOMEM;
    TRY(image_scale_into(c, four, p->method, whole.h, whole.w, 0, scaled));
    scaled += (whole.h - middle.h) / 2 * row + (whole.w - middle.w) / 2 * channels;
    for (int64_t i = 0; i < n; i++)
        for (int64_t y = 0; y < middle.h; y++)
            memcpy(to + (i * middle.h + y) * middle.w * channels, scaled + (i * whole.h + y) * row,
                   (size_t)(middle.w * channels) * sizeof *to);
    return KILN_OK;
}

static kiln_status resize_run(const kiln_call *c)
{
    const resize_params *p = c->params;
    kiln_tensor a, r;
    size to;
    TRY(tensor_of(c, 0, "input", &a));
    int64_t dim[4] = {a.dim[0], a.dim[1], a.dim[2], a.rank > 3 ? a.dim[3] : 1};
    kiln_tensor four = kit_window(KILN_F32, KILN_CPU, a.data, 4, dim);
    if (p->way == TO_MULTIPLE) return to_multiple(c, &a, &four);
    TRY(find_size(c, &a, &to));
    if ((p->way == TO_SIZE && !p->width && !p->height) || (p->way == TO_WIDTH && !p->width) ||
        (p->way == TO_HEIGHT && !p->height))
        return same(c);
    TRY(new_like(c, &a, to, &r));
    int32_t crop = p->way == TO_SIZE || p->way == LIKE ? p->crop : 0;
    return kit_estimating(c) ? KILN_OK : image_scale_into(c, &four, p->method, to.h, to.w, crop, r.data);
}
const kiln_node node_resize_image_mask = {
    KIT_NODE("ResizeImageMaskNode", "Resize Image/Mask", "image", "Brings pictures or masks to another size."),
    KILN_ARRAY(in, resize_in),
    KILN_ARRAY(out, resize_out),
    KIT_PARAMS(resize_params, resize_param),
    .run = resize_run,
};
