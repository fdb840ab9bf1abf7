/* image_filters.c - ImageBlur and ImageSharpen, with ComfyUI's names, defaults and formulas, and three that make hints
 * for controls: ImageThreshold, ColorBlocks and LineArt. */
#include "image_filters.h"

#include "image.h"
#include "kiln/kit.h"

#include <math.h>
#include <string.h>

enum { RADIUS_MAX = 96, PRODUCTS_AT_ONCE = 1 << 19 };

/* ---- Gauss ---- */

typedef struct {
    filter_size size;
    const float *weight, *from;
    int64_t radius;
    int along_rows; /* 1: neighbours are in the same row */
    int64_t first;  /* row of the band that is filtered */
    float *to;
} pass;

static void filter_row(void *arg, size_t row)
{
    const pass *p = arg;
    int64_t w = p->size.w, channels = p->size.channels, y = p->first + (int64_t)row;
    float *to = p->to + y * w * channels;
    memset(to, 0, (size_t)(w * channels) * sizeof *to);
    for (int64_t i = -p->radius; i <= p->radius; i++) {
        float weight = p->weight[i + p->radius];
        int64_t from_row = p->along_rows ? y : filter_reflected(y + i, p->size.h);
        const float *from = p->from + from_row * w * channels;
        for (int64_t x = 0; x < w; x++) {
            int64_t from_x = p->along_rows ? filter_reflected(x + i, w) : x;
            for (int64_t k = 0; k < channels; k++)
                to[x * channels + k] = fmaf(weight, from[from_x * channels + k], to[x * channels + k]);
        }
    }
}

/* Some rows at a time, so that a large picture can be stopped. */
static kiln_status run_pass(const kiln_call *c, pass *p)
{
    int64_t row = p->size.w * p->size.channels * (2 * p->radius + 1), band = 1 + PRODUCTS_AT_ONCE / (row + 1);
    for (p->first = 0; p->first < p->size.h; p->first += band) {
        int64_t rows = p->size.h - p->first < band ? p->size.h - p->first : band;
        TRY(c->host->progress(c->ctx, (uint64_t)p->first, (uint64_t)p->size.h, "filtering"));
        c->host->parallel_for(c->ctx, (size_t)rows, filter_row, p);
    }
    return KILN_OK;
}

kiln_status filter_separable(const kiln_call *c, filter_size size, const float *weight, int64_t radius,
                             const float *from, float *between, float *to)
{
    pass p = {.size = size, .weight = weight, .radius = radius, .from = from, .to = between, .along_rows = 1};
    TRY(run_pass(c, &p));
    p.from = between, p.to = to, p.along_rows = 0;
    return run_pass(c, &p);
}

/* exp(-x^2 / (2 sigma^2)) at places that are `apart` from one another, of sum 1. */
static void gauss(double sigma, double apart, int64_t radius, float *out)
{
    double sum = 0;
    for (int64_t i = -radius; i <= radius; i++) sum += exp(-pow((double)i * apart / sigma, 2) / 2);
    for (int64_t i = -radius; i <= radius; i++)
        out[i + radius] = (float)(exp(-pow((double)i * apart / sigma, 2) / 2) / sum);
}

/* ---- a picture in, one of its size out ---- */

typedef struct {
    const kiln_call *c;
    filter_size size;
    const float *in;
    float *out, *work[2]; /* all of one size */
} filtering;

static kiln_status filter_pictures(const kiln_call *c, const char *what, kiln_status (*one)(const filtering *))
{
    kiln_tensor in, out;
    filtering f = {.c = c};
    TRY(kit_f32(c, c->in[0], 4, "image", &in));
    TRY(kit_new_f32(c, 4, in.dim, &c->out[0], &out));
    if (kit_estimating(c)) return KILN_OK;
    f.size = (filter_size){in.dim[1], in.dim[2], in.dim[3]};
    size_t n = (size_t)(f.size.h * f.size.w * f.size.channels);
    for (int i = 0; i < 2; i++)
        if (!(f.work[i] = c->host->scratch(c->ctx, n * sizeof(float), KILN_CPU))) return KILN_ERR_NOMEM;
    for (int64_t k = 0; k < in.dim[0]; k++) {
        TRY(c->host->progress(c->ctx, (uint64_t)k, (uint64_t)in.dim[0], what));
        f.in = (const float *)in.data + (size_t)k * n, f.out = (float *)out.data + (size_t)k * n;
        TRY(one(&f));
    }
    return KILN_OK;
}

static size_t numbers(const filtering *f) { return (size_t)(f->size.h * f->size.w * f->size.channels); }

static const kiln_port filter_in[] = {{.name = "image", .type = "IMAGE", .doc = "The picture, or a batch."}};
static const kiln_port filter_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The new picture."}};

#define FILTER(type_, title_, category_, doc_, struct_, params_, run_)                                                 \
    {                                                                                                                  \
        KIT_NODE(type_, title_, category_, doc_), KILN_ARRAY(in, filter_in), KILN_ARRAY(out, filter_out),              \
            KIT_PARAMS(struct_, params_), .run = run_                                                                  \
    }

/* ---- ImageBlur, ImageSharpen ---- */

typedef struct {
    int64_t blur_radius;
    double sigma;
} blur_params;
static const kiln_param blur_param[] = {
    KIT_INT(blur_params, blur_radius, 1, 1, 31, "Pixels on each side that count."),
    KIT_FLOAT(blur_params, sigma, 1, 0.1, 10, 0.1, "Of the Gauss curve, in radii."),
};

static kiln_status blur(const filtering *f, int64_t radius, double sigma, float *to)
{
    float weight[2 * RADIUS_MAX + 1];
    gauss(sigma, 1.0 / (double)radius, radius, weight);
    return filter_separable(f->c, f->size, weight, radius, f->in, f->work[0], to);
}

static kiln_status blur_one(const filtering *f)
{
    const blur_params *p = f->c->params;
    return blur(f, p->blur_radius, p->sigma, f->out);
}
static kiln_status blur_run(const kiln_call *c) { return filter_pictures(c, "blurring", blur_one); }
const kiln_node node_image_blur =
    FILTER("ImageBlur", "Image Blur", "image/filters", "Blurs a picture.", blur_params, blur_param, blur_run);

typedef struct {
    int64_t sharpen_radius;
    double sigma, alpha;
} sharpen_params;
static const kiln_param sharpen_param[] = {
    KIT_INT(sharpen_params, sharpen_radius, 1, 1, 31, "Pixels on each side that count."),
    KIT_FLOAT(sharpen_params, sigma, 1, 0.1, 10, 0.01, "Of the Gauss curve, in radii."),
    KIT_FLOAT(sharpen_params, alpha, 1, 0, 5, 0.01, "How much; 0 changes nothing."),
};

/* x + 10 alpha (x - blurred x), within 0..1. */
static kiln_status sharpen_one(const filtering *f)
{
    const sharpen_params *p = f->c->params;
    float much = (float)(10 * p->alpha);
    TRY(blur(f, p->sharpen_radius, p->sigma, f->work[1]));
    for (size_t i = 0; i < numbers(f); i++)
        f->out[i] = fminf(1, fmaxf(0, f->in[i] + much * (f->in[i] - f->work[1][i])));
    return KILN_OK;
}
static kiln_status sharpen_run(const kiln_call *c) { return filter_pictures(c, "sharpening", sharpen_one); }
const kiln_node node_image_sharpen = FILTER("ImageSharpen", "Image Sharpen", "image/filters", "Sharpens a picture.",
                                            sharpen_params, sharpen_param, sharpen_run);

/* ---- hints for controls ---- */

/* Rec. 601's weights. */
static float gray_of(const float *pixel) { return 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2]; }

/* The colours of a pixel; alpha stays as it is. */
static void set_colours(const filtering *f, size_t pixel, float value)
{
    size_t channels = (size_t)f->size.channels;
    float *to = f->out + pixel * channels;
    to[0] = to[1] = to[2] = value;
    if (channels > 3) to[3] = f->in[pixel * channels + 3];
}

typedef struct {
    double threshold;
    int32_t invert;
} threshold_params;
static const kiln_param threshold_param[] = {
    KIT_FLOAT(threshold_params, threshold, 0.5, 0, 1, 0.01, "Brightness from which on a pixel is white."),
    KIT_BOOL(threshold_params, invert, 0, "Black for white."),
};
static kiln_status threshold_one(const filtering *f)
{
    const threshold_params *p = f->c->params;
    for (size_t i = 0; i < numbers(f) / (size_t)f->size.channels; i++) {
        int white = gray_of(f->in + i * (size_t)f->size.channels) >= (float)p->threshold;
        set_colours(f, i, white != p->invert);
    }
    return KILN_OK;
}
static kiln_status threshold_run(const kiln_call *c) { return filter_pictures(c, "thresholding", threshold_one); }
const kiln_node node_image_threshold =
    FILTER("ImageThreshold", "Image Threshold", "image/preprocessors", "Makes a picture black and white by brightness.",
           threshold_params, threshold_param, threshold_run);

typedef struct {
    int64_t block_size;
} blocks_params;
static const kiln_param blocks_param[] = {
    KIT_INT(blocks_params, block_size, 64, 2, 1024, "Pixels a side of a block."),
};
static void fill_block(const filtering *f, int64_t top, int64_t left, int64_t h, int64_t w)
{
    int64_t channels = f->size.channels, row = f->size.w * channels;
    for (int64_t k = 0; k < channels; k++) {
        double sum = 0;
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++) sum += (double)f->in[(top + y) * row + (left + x) * channels + k];
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++)
                f->out[(top + y) * row + (left + x) * channels + k] = (float)(sum / (double)(h * w));
    }
}
static kiln_status blocks_one(const filtering *f)
{
    int64_t side = ((const blocks_params *)f->c->params)->block_size;
    for (int64_t y = 0; y < f->size.h; y += side)
        for (int64_t x = 0; x < f->size.w; x += side)
            fill_block(f, y, x, f->size.h - y < side ? f->size.h - y : side,
                       f->size.w - x < side ? f->size.w - x : side);
    return KILN_OK;
}
static kiln_status blocks_run(const kiln_call *c) { return filter_pictures(c, "averaging", blocks_one); }
const kiln_node node_colour_blocks =
    FILTER("ColorBlocks", "Color Blocks", "image/preprocessors",
           "Gives each block of a picture its mean colour, as a hint for a colour adapter.", blocks_params,
           blocks_param, blocks_run);

typedef struct {
    double sigma, ratio, gain;
} line_params;
static const kiln_param line_param[] = {
    KIT_FLOAT(line_params, sigma, 1, 0.3, 8, 0.1, "Of the narrow Gauss curve, in pixels: about half a line's width."),
    KIT_FLOAT(line_params, ratio, 1.6, 1.1, 4, 0.1, "Of the wide one to it."),
    KIT_FLOAT(line_params, gain, 8, 0.1, 100, 0.1, "Times the difference."),
};
static kiln_status gauss_of(const filtering *f, double sigma, float *to)
{
    float weight[2 * RADIUS_MAX + 1];
    int64_t radius = (int64_t)ceil(3 * sigma); /* what lies beyond is 0.3 % */
    gauss(sigma, 1, radius, weight);
    return filter_separable(f->c, f->size, weight, radius, f->in, f->work[0], to);
}

/* Where the narrow one is darker than the wide one (Marr and Hildreth 1980; as lines: Winnemoeller et al. 2012). */
static kiln_status lines_one(const filtering *f)
{
    const line_params *p = f->c->params;
    size_t channels = (size_t)f->size.channels;
    TRY(gauss_of(f, p->sigma, f->work[1]));
    TRY(gauss_of(f, p->sigma * p->ratio, f->out));
    for (size_t i = 0; i < numbers(f) / channels; i++) {
        float wide = gray_of(f->out + i * channels), narrow = gray_of(f->work[1] + i * channels);
        set_colours(f, i, fminf(1, fmaxf(0, (float)p->gain * (wide - narrow))));
    }
    return KILN_OK;
}
static kiln_status lines_run(const kiln_call *c) { return filter_pictures(c, "drawing lines", lines_one); }
const kiln_node node_line_art =
    FILTER("LineArt", "Line Art", "image/preprocessors",
           "Dark lines of a picture, white on black, by the difference of two Gauss curves.", line_params, line_param,
           lines_run);
