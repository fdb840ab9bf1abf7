/* latent_shape.c - latents whose cells move: scaling, flipping, turning, cutting, pasting.
 *
 * What is done to a picture is done to every frame of a video alike; a sound has no height, and is refused. Sizes are
 * given in pixels, eight to a cell. A noise mask is scaled with its latent only where the sampler would do
 * the same (it is resized to the latent when it is used), so here it is carried along. Names and defaults are
 * ComfyUI's.
 */
#include "latent.h"

#include "kiln/bislerp.h"
#include "kiln/kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const kiln_port out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The new latent."}};
static const kiln_port one[] = {{.name = "samples", .type = "LATENT", .doc = "What to change."}};

/* A latent of pictures, frame by frame. */
typedef struct {
    kiln_tensor t;
    kit_planes p;
} frames;

static kiln_status read_frames(const kiln_call *c, const kiln_value *latent, frames *to)
{
    TRY(kit_samples(c, latent, &to->t));
    to->p = kit_planes_of(&to->t);
    if (to->t.rank > 3) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "the latent has no height: its samples have 3 dimensions (a sound); this is done to pictures "
                         "and videos");
}

/* A latent like `a` with frames of h x w cells. */
static kiln_status new_frames(const kiln_call *c, const frames *a, int64_t h, int64_t w, kiln_value **samples,
                              kiln_tensor *r)
{
    int64_t dim[LATENT_RANK_MAX];
    memcpy(dim, a->t.dim, a->t.rank * sizeof *dim);
    dim[a->t.rank - 3] = h, dim[a->t.rank - 2] = w;
    return kit_new_f32(c, a->t.rank, dim, samples, r);
}

/* ---- scaling ---- */

static const kiln_choice method_choice[] = {
    {.name = "nearest-exact", .value = RESIZE_NEAREST},
    {.name = "bilinear", .value = RESIZE_BILINEAR},
    {.name = "area", .value = RESIZE_AREA},
    {.name = "bicubic", .value = RESIZE_BICUBIC},
    {.name = "bislerp", .value = RESIZE_BISLERP, .doc = "along the sphere of each cell's channels"},
    {0},
};

static kiln_status scaled(const kiln_call *c, int32_t method, int64_t h, int64_t w, int32_t centre)
{
    frames a;
    kiln_tensor r;
    kiln_value *samples;
    TRY(read_frames(c, c->in[0], &a));
    TRY(new_frames(c, &a, h, w, &samples, &r));
    if (kit_estimating(c)) return kit_latent(c, c->in[0], samples, &c->out[0]);
    const kit_planes *p = &a.p;
    resize_box box = centre ? resize_centre(p->rows, p->columns, h, w) : (resize_box){.h = p->rows, .w = p->columns};
    float *between = method == RESIZE_BISLERP
                         ? c->host->scratch(c->ctx, (size_t)(box.h * w * p->channels) * sizeof(float), KILN_CPU)
                         : NULL;
    if (method == RESIZE_BISLERP && !between) {
        c->host->unref(samples);
        return KILN_ERR_NOMEM;
    }
    for (int64_t n = 0; n < p->planes; n++) {
        const float *src = (const float *)a.t.data + ((n * p->rows + box.y) * p->columns + box.x) * p->channels;
        float *dst = (float *)r.data + n * h * w * p->channels;
        resize_source plane = {.data = src, .h = box.h, .w = box.w, .c = p->channels, .row = p->columns * p->channels};
        if (between)
            bislerp_plane(plane, between, dst, h, w);
        else
            resize_plane(plane, dst, h, w, method);
    }
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}

typedef struct {
    int32_t method, crop;
    int64_t width, height;
} upscale_params;
static const kiln_choice crop_choice[] = {{.name = "disabled", .value = 0}, {.name = "center", .value = 1}, {0}};
static const kiln_param upscale_param[] = {
    {.name = "upscale_method",
     .type = KILN_P_ENUM,
     .offset = offsetof(upscale_params, method),
     KILN_CHOICES(method_choice),
     .doc = "How cells between cells are made."},
    {.name = "width",
     .type = KILN_P_INT,
     .offset = offsetof(upscale_params, width),
     .def = 512,
     .min = 0,
     .max = 16384,
     .step = 8,
     .doc = "Pixels, 64 at least; 0 keeps the proportions."},
    {.name = "height",
     .type = KILN_P_INT,
     .offset = offsetof(upscale_params, height),
     .def = 512,
     .min = 0,
     .max = 16384,
     .step = 8,
     .doc = "Pixels, 64 at least; 0 keeps the proportions."},
    KIT_ENUM(upscale_params, crop, crop_choice, 0, "Cut the middle out first, so that proportions stay."),
};

static int64_t at_least_64(int64_t pixels) { return pixels < 64 ? 64 : pixels; }

/* A side that was asked for is not changed in silence. */
static void say_used(const kiln_call *c, const char *side, int64_t pixels)
{
    char line[100];
    int64_t used = at_least_64(pixels) / 8 * 8;
    if (pixels == 0 || pixels == used) return;
    snprintf(line, sizeof line, "LatentUpscale: %s %lld: %lld is used; a side is a multiple of 8, and 64 at least",
             side, (long long)pixels, (long long)used);
    c->host->log(KILN_LOG_WARN, line);
}

/* own * other / own_other pixels: rounded before cells are made of it, halves to even. */
static int64_t in_proportion(int64_t own, int64_t other, int64_t own_other)
{
    return at_least_64((int64_t)rint((double)own * (double)other / (double)own_other));
}

static kiln_status latent_upscale_run(const kiln_call *c)
{
    const upscale_params *p = c->params;
    frames a;
    TRY(read_frames(c, c->in[0], &a));
    if (p->height == 0 && p->width == 0) {
        c->out[0] = c->host->ref(c->in[0]);
        return KILN_OK;
    }
    say_used(c, "width", p->width);
    say_used(c, "height", p->height);
    int64_t h = at_least_64(p->height), w = at_least_64(p->width);
    if (p->width == 0) w = in_proportion(a.p.columns, h, a.p.rows);
    if (p->height == 0) h = in_proportion(a.p.rows, w, a.p.columns);
    return scaled(c, p->method, h / 8, w / 8, p->crop);
}
const kiln_node node_latent_upscale = {
    KIT_NODE_AT(2, "LatentUpscale", "Upscale Latent", "latent", "Scales a latent to a size in pixels."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(upscale_params, upscale_param),
    .run = latent_upscale_run,
};

typedef struct {
    int32_t method;
    double scale;
} by_params;
static const kiln_param by_param[] = {
    {.name = "upscale_method",
     .type = KILN_P_ENUM,
     .offset = offsetof(by_params, method),
     KILN_CHOICES(method_choice),
     .doc = "How cells between cells are made."},
    {.name = "scale_by",
     .type = KILN_P_FLOAT,
     .offset = offsetof(by_params, scale),
     .def = 1.5,
     .min = 0.01,
     .max = 8,
     .step = 0.01,
     .doc = "Factor on both sides."},
};

static kiln_status latent_upscale_by_run(const kiln_call *c)
{
    const by_params *p = c->params;
    frames a;
    TRY(read_frames(c, c->in[0], &a));
    int64_t h = (int64_t)rint((double)a.p.rows * p->scale),
            w = (int64_t)rint((double)a.p.columns * p->scale); /* halves to even */
    return scaled(c, p->method, h < 1 ? 1 : h, w < 1 ? 1 : w, 0);
}
const kiln_node node_latent_upscale_by = {
    KIT_NODE_AT(2, "LatentUpscaleBy", "Upscale Latent By", "latent", "Scales a latent by a factor."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(by_params, by_param),
    .run = latent_upscale_by_run,
};

/* ---- flip and rotate ---- */

typedef struct {
    int32_t kind;
} kind_params;

/* Cell (y, x) of the result comes from this cell of an h by w source. */
typedef struct {
    int64_t y, x;
} cell;
static cell turned(int32_t kind, int64_t y, int64_t x, int64_t h, int64_t w)
{
    switch (kind) {
    case 1: return (cell){h - 1 - x, y};         /* 90 degrees clockwise */
    case 2: return (cell){h - 1 - y, w - 1 - x}; /* 180                  */
    case 3: return (cell){x, w - 1 - y};         /* 270                  */
    case 4: return (cell){h - 1 - y, x};         /* flip vertically      */
    case 5: return (cell){y, w - 1 - x};         /* flip horizontally    */
    default: return (cell){y, x};
    }
}

static kiln_status turn(const kiln_call *c, int32_t kind)
{
    frames a;
    kiln_tensor r;
    kiln_value *samples;
    TRY(read_frames(c, c->in[0], &a));
    int sideways = kind == 1 || kind == 3;
    int64_t h = sideways ? a.p.columns : a.p.rows, w = sideways ? a.p.rows : a.p.columns, C = a.p.channels;
    TRY(new_frames(c, &a, h, w, &samples, &r));
    if (kit_estimating(c)) return kit_latent(c, c->in[0], samples, &c->out[0]);
    for (int64_t n = 0; n < a.p.planes; n++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++) {
                cell from = turned(kind, y, x, a.p.rows, a.p.columns);
                memcpy((float *)r.data + ((n * h + y) * w + x) * C,
                       (const float *)a.t.data + ((n * a.p.rows + from.y) * a.p.columns + from.x) * C,
                       (size_t)C * sizeof(float));
            }
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}

static const kiln_choice rotate_choice[] = {
    {.name = "none", .value = 0},
    {.name = "90 degrees", .value = 1},
    {.name = "180 degrees", .value = 2},
    {.name = "270 degrees", .value = 3},
    {0},
};
static const kiln_param rotate_param[] = {
    {.name = "rotation",
     .type = KILN_P_ENUM,
     .offset = offsetof(kind_params, kind),
     KILN_CHOICES(rotate_choice),
     .doc = "Clockwise."},
};
static const kiln_choice flip_choice[] = {
    {.name = "x-axis: vertically", .value = 4},
    {.name = "y-axis: horizontally", .value = 5},
    {0},
};
static const kiln_param flip_param[] = {
    {.name = "flip_method",
     .type = KILN_P_ENUM,
     .offset = offsetof(kind_params, kind),
     .def = 4,
     KILN_CHOICES(flip_choice),
     .doc = "Which way."},
};
static kiln_status latent_rotate_run(const kiln_call *c) { return turn(c, ((const kind_params *)c->params)->kind); }
static kiln_status latent_flip_run(const kiln_call *c) { return turn(c, ((const kind_params *)c->params)->kind); }
const kiln_node node_latent_rotate = {
    KIT_NODE("LatentRotate", "Rotate Latent", "latent", "Turns a latent by quarters."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(kind_params, rotate_param),
    .run = latent_rotate_run,
};
const kiln_node node_latent_flip = {
    KIT_NODE("LatentFlip", "Flip Latent", "latent", "Mirrors a latent."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(kind_params, flip_param),
    .run = latent_flip_run,
};

/* ---- crop and composite ---- */

typedef struct {
    int64_t width, height, x, y, feather;
} box_params;
#define PIXELS(field, default_, least, text)                                                                           \
    {                                                                                                                  \
        .name = #field, .type = KILN_P_INT, .offset = offsetof(box_params, field), .def = default_, .min = least,      \
        .max = 16384, .step = 8, .flags = KILN_PARAM_FLOORED, .doc = text                                              \
    }
static const kiln_param crop_param[] = {
    PIXELS(width, 512, 64, "Pixels."),
    PIXELS(height, 512, 64, "Pixels."),
    PIXELS(x, 0, 0, "Left edge, pixels."),
    PIXELS(y, 0, 0, "Top edge, pixels."),
};
static const kiln_param composite_param[] = {
    PIXELS(x, 0, 0, "Left edge, pixels."),
    PIXELS(y, 0, 0, "Top edge, pixels."),
    PIXELS(feather, 0, 0, "Pixels over which the pasted latent fades in."),
};

static int64_t at_most(int64_t v, int64_t most) { return v < most ? v : most; }

static kiln_status latent_crop_run(const kiln_call *c)
{
    const box_params *p = c->params;
    frames a;
    kiln_tensor r;
    kiln_value *samples;
    TRY(read_frames(c, c->in[0], &a));
    int64_t rows = a.p.rows, columns = a.p.columns, C = a.p.channels;
    int64_t y = at_most(p->y / 8, rows > 8 ? rows - 8 : 0), x = at_most(p->x / 8, columns > 8 ? columns - 8 : 0);
    int64_t h = at_most(p->height / 8, rows - y), w = at_most(p->width / 8, columns - x);
    TRY(new_frames(c, &a, h, w, &samples, &r));
    if (kit_estimating(c)) return kit_latent(c, c->in[0], samples, &c->out[0]);
    for (int64_t n = 0; n < a.p.planes; n++)
        for (int64_t i = 0; i < h; i++)
            memcpy((float *)r.data + (n * h + i) * w * C,
                   (const float *)a.t.data + ((n * rows + y + i) * columns + x) * C, (size_t)(w * C) * sizeof(float));
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}
const kiln_node node_latent_crop = {
    KIT_NODE("LatentCrop", "Crop Latent", "latent", "Cuts a rectangle out."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, one),
    KIT_PARAMS(box_params, crop_param),
    .run = latent_crop_run,
};

static const kiln_port composite_in[] = {
    {.name = "samples_to", .type = "LATENT", .doc = "What is pasted onto."},
    {.name = "samples_from", .type = "LATENT", .doc = "What is pasted."},
};

/* How much the pasted cell at distance d from an edge counts; edges that meet the border of the target do not fade. */
static float edge_gain(int64_t d, int64_t feather, int inner)
{
    return inner && d < feather ? (float)(d + 1) / (float)feather : 1.0f;
}

/* Which plane of `from` goes onto plane n of `to`: fewer pictures are repeated, and so is a single frame. */
static int64_t pasted_plane(const kit_planes *to, const kit_planes *from, int64_t n)
{
    int64_t picture = n / to->frames % (from->planes / from->frames);
    return picture * from->frames + (from->frames > 1 ? n % to->frames : 0);
}

static kiln_status check_pasted(const kiln_call *c, const frames *to, const frames *from)
{
    char first[LATENT_SIZE_MAX], second[LATENT_SIZE_MAX];
    if (to->p.channels != from->p.channels)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latents have %lld and %lld channels",
                             (long long)to->p.channels, (long long)from->p.channels);
    if (to->t.rank == from->t.rank && (from->p.frames == 1 || from->p.frames == to->p.frames)) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "samples_from is %s and samples_to %s; what is pasted onto a video is a video of one frame or "
                         "of as many",
                         latent_size_text(&from->t, first), latent_size_text(&to->t, second));
}

typedef struct {
    int64_t y, x, h, w, feather; /* of what is pasted, in cells */
} paste_box;

static void paste_plane(const paste_box *b, const kit_planes *to, const float *from, int64_t from_columns, float *onto)
{
    int64_t C = to->channels;
    for (int64_t y = 0; y < b->h; y++)
        for (int64_t x = 0; x < b->w; x++) {
            float gain =
                edge_gain(y, b->feather, b->y > 0) * edge_gain(b->h - 1 - y, b->feather, b->y + b->h < to->rows) *
                edge_gain(x, b->feather, b->x > 0) * edge_gain(b->w - 1 - x, b->feather, b->x + b->w < to->columns);
            float *d = onto + ((b->y + y) * to->columns + b->x + x) * C;
            const float *s = from + (y * from_columns + x) * C;
            for (int64_t k = 0; k < C; k++) d[k] = s[k] * gain + d[k] * (1 - gain);
        }
}

static kiln_status latent_composite_run(const kiln_call *c)
{
    const box_params *p = c->params;
    frames to, from;
    kiln_tensor r;
    kiln_value *samples;
    TRY(read_frames(c, c->in[0], &to));
    TRY(read_frames(c, c->in[1], &from));
    TRY(check_pasted(c, &to, &from));
    TRY(kit_new_f32(c, to.t.rank, to.t.dim, &samples, &r));
    if (kit_estimating(c)) return kit_latent(c, c->in[0], samples, &c->out[0]);
    memcpy(r.data, to.t.data, kit_count(&to.t) * sizeof(float));
    paste_box b = {.y = p->y / 8, .x = p->x / 8, .feather = p->feather / 8};
    b.h = at_most(from.p.rows, to.p.rows - b.y), b.w = at_most(from.p.columns, to.p.columns - b.x);
    int64_t own = from.p.rows * from.p.columns * from.p.channels, all = to.p.rows * to.p.columns * to.p.channels;
    for (int64_t n = 0; n < to.p.planes; n++)
        paste_plane(&b, &to.p, (const float *)from.t.data + pasted_plane(&to.p, &from.p, n) * own, from.p.columns,
                    (float *)r.data + n * all);
    return kit_latent(c, c->in[0], samples, &c->out[0]);
}
const kiln_node node_latent_composite = {
    KIT_NODE("LatentComposite", "Latent Composite", "latent", "Pastes one latent onto another."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, composite_in),
    KIT_PARAMS(box_params, composite_param),
    .run = latent_composite_run,
};

/* ---- LatentCompositeMasked ---- */

static const kiln_port masked_in[] = {
    {.name = "destination", .type = "LATENT", .doc = "What is pasted onto."},
    {.name = "source", .type = "LATENT", .doc = "What is pasted."},
    {.name = "mask",
     .type = "MASK",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "How much of the source counts; scaled to its size. Fewer are repeated."},
};
typedef struct {
    int64_t x, y;
    int32_t resize_source;
} masked_params;
static const kiln_param masked_param[] = {
    KIT_INT(masked_params, x, 0, 0, 16384, "Left edge, pixels; an eighth of it in cells."),
    KIT_INT(masked_params, y, 0, 0, 16384, "Top edge, pixels; an eighth of it in cells."),
    KIT_BOOL(masked_params, resize_source, 0, "Scale the source to the destination's size first."),
};

/* A plane of interleaved channels at h by w: itself, or scaled into scratch memory. NULL: no memory. */
static const float *plane_at(const kiln_call *c, const float *plane, int64_t ph, int64_t pw, int64_t channels,
                             int64_t h, int64_t w)
{
    if (ph == h && pw == w) return plane;
    float *made = c->host->scratch(c->ctx, (size_t)(h * w * channels) * sizeof *made, KILN_CPU);
    if (made)
        resize_plane((resize_source){.data = plane, .h = ph, .w = pw, .c = channels, .row = pw * channels}, made, h, w,
                     RESIZE_BILINEAR);
    return made;
}

typedef struct {
    const kiln_call *call;
    frames to, from;
    kiln_tensor mask;   /* rank 0: there is none */
    int64_t y, x, h, w; /* of the source, in the destination's cells */
} masked_paste;

static kiln_status paste_masked(const masked_paste *p, int64_t n, float *onto)
{
    const kit_planes *to = &p->to.p, *from = &p->from.p;
    int64_t C = to->channels, h = at_most(p->h, to->rows - p->y), w = at_most(p->w, to->columns - p->x);
    int64_t own = from->rows * from->columns * C, masks = p->mask.rank ? p->mask.dim[0] : 0;
    const float *source = plane_at(p->call, (const float *)p->from.t.data + pasted_plane(to, from, n) * own, from->rows,
                                   from->columns, C, p->h, p->w),
                *mask = NULL;
    if (masks)
        mask = plane_at(p->call, (const float *)p->mask.data + n / to->frames % masks * p->mask.dim[1] * p->mask.dim[2],
                        p->mask.dim[1], p->mask.dim[2], 1, p->h, p->w);
    if (!source || (masks && !mask)) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < h * w * C && h > 0; i++) {
        int64_t y = i / (w * C), x = i / C % w, k = i % C;
        float gain = mask ? mask[y * p->w + x] : 1, *d = onto + ((p->y + y) * to->columns + p->x + x) * C + k;
        *d = gain * source[(y * p->w + x) * C + k] + (1 - gain) * *d;
    }
    return KILN_OK;
}

static kiln_status latent_composite_masked_run(const kiln_call *c)
{
    const masked_params *p = c->params;
    masked_paste m = {.call = c, .y = p->y / 8, .x = p->x / 8};
    kiln_tensor r;
    kiln_value *samples;
    TRY(read_frames(c, c->in[0], &m.to));
    TRY(read_frames(c, c->in[1], &m.from));
    TRY(check_pasted(c, &m.to, &m.from));
    if (c->in[2]) TRY(kit_f32(c, c->in[2], 3, "mask", &m.mask));
    if (m.mask.rank && kit_count(&m.mask) == 0) return c->host->fail(c->ctx, KILN_ERR_INVALID, "mask is empty");
    m.h = p->resize_source ? m.to.p.rows : m.from.p.rows, m.w = p->resize_source ? m.to.p.columns : m.from.p.columns;
    TRY(kit_new_f32(c, m.to.t.rank, m.to.t.dim, &samples, &r));
    if (kit_estimating(c)) return kit_latent(c, c->in[0], samples, &c->out[0]);
    memcpy(r.data, m.to.t.data, kit_count(&m.to.t) * sizeof(float));
    kiln_status status = KILN_OK;
    for (int64_t n = 0; n < m.to.p.planes && status == KILN_OK && m.x < m.to.p.columns && m.y < m.to.p.rows; n++)
        status = paste_masked(&m, n, (float *)r.data + n * (int64_t)kit_count(&r) / m.to.p.planes);
    if (status == KILN_OK) return kit_latent(c, c->in[0], samples, &c->out[0]);
    c->host->unref(samples);
    return status;
}
const kiln_node node_latent_composite_masked = {
    KIT_NODE("LatentCompositeMasked", "Latent Composite Masked", "latent", "Pastes one latent onto another by a mask."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, masked_in),
    KIT_PARAMS(masked_params, masked_param),
    .run = latent_composite_masked_run,
};
