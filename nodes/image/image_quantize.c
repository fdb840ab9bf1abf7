/* image_quantize.c - ImageQuantize: a picture of few colours, as ComfyUI makes it with Pillow: a palette by median cut,
 * and a dither that is none, Floyd and Steinberg's, or a Bayer matrix.
 */
#include "image.h"
#include "median_cut.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdlib.h>

enum { PLAIN, FLOYD_STEINBERG, BAYER_2, BAYER_4, BAYER_8, BAYER_16, BAYER_MAX = 16, ROWS_A_REPORT = 64 };

typedef struct {
    int64_t colors;
    int32_t dither;
} quantize_params;
static const kiln_choice dither_choice[] = {{.name = "none", .value = PLAIN},
                                            {.name = "floyd-steinberg", .value = FLOYD_STEINBERG},
                                            {.name = "bayer-2", .value = BAYER_2},
                                            {.name = "bayer-4", .value = BAYER_4},
                                            {.name = "bayer-8", .value = BAYER_8},
                                            {.name = "bayer-16", .value = BAYER_16},
                                            {0}};
static const kiln_param quantize_param[] = {
    KIT_INT(quantize_params, colors, 256, 1, PALETTE_MAX, "How many."),
    KIT_ENUM(quantize_params, dither, dither_choice, PLAIN, "How the colours between them are mixed."),
};

typedef struct {
    const kiln_call *c;
    int64_t h, w;
    uint8_t *pixels; /* [h][w][3] */
    float *out;      /* [h][w][channels] */
    int64_t channels;
    palette colours;
    palette_map *map;
} quantizing;

static void put_colour(const quantizing *q, int64_t y, int64_t x, int index)
{
    for (int k = 0; k < 3; k++) q->out[(y * q->w + x) * q->channels + k] = (float)q->colours.rgb[index][k] / 255.0f;
}

static kiln_status report(const quantizing *q, int64_t y)
{
    return y % ROWS_A_REPORT ? KILN_OK : q->c->host->progress(q->c->ctx, (uint64_t)y, (uint64_t)q->h, "rows");
}

static kiln_status map_plain(quantizing *q)
{
    for (int64_t y = 0; y < q->h; y++) {
        TRY(report(q, y));
        for (int64_t x = 0; x < q->w; x++) put_colour(q, y, x, palette_nearest(q->map, q->pixels + (y * q->w + x) * 3));
    }
    return KILN_OK;
}

/* ---- Bayer ---- */

/* Each matrix of twice the size has the smaller one in each quarter, around these. */
static void bayer_matrix(int order, float m[BAYER_MAX][BAYER_MAX])
{
    m[0][0] = 0;
    for (int n = 1; n < order; n *= 2) {
        float q = (float)(4 * n * n);
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                float small = q * m[y][x];
                m[y][x] = (small - 1.5f) / q, m[y][x + n] = (small + 0.5f) / q;
                m[y + n][x] = (small + 1.5f) / q, m[y + n][x + n] = (small - 0.5f) / q;
            }
    }
}

static kiln_status map_bayer(quantizing *q, int order)
{
    float m[BAYER_MAX][BAYER_MAX], spread = (float)(512.0 / q->colours.n);
    bayer_matrix(order, m);
    for (int64_t y = 0; y < q->h; y++)
        for (int64_t x = 0; x < q->w; x++)
            for (int k = 0; k < 3; k++) {
                uint8_t *p = q->pixels + (y * q->w + x) * 3 + k;
                *p = (uint8_t)fminf(255, fmaxf(0, (float)*p + (spread * m[y % order][x % order] + 0.5f)));
            }
    return map_plain(q);
}

/* ---- Floyd and Steinberg (1976) ---- */

static uint8_t clipped(int v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

/* What the row above gives pixel x, in sixteenths. Pillow gives the last pixel of a row what is blue's. */
static int from_above(const int (*above)[3], int64_t x, int64_t w, int channel)
{
    if (x + 1 == w) return channel ? above[x][2] : 5 * above[x][2] + (x > 0 ? above[x - 1][2] : 0);
    return 3 * above[x + 1][channel] + 5 * above[x][channel] + (x > 0 ? above[x - 1][channel] : 0);
}

static void diffuse_row(quantizing *q, int64_t y, const int (*above)[3], int (*error)[3])
{
    for (int64_t x = 0; x < q->w; x++) {
        uint8_t wanted[3];
        for (int k = 0; k < 3; k++) {
            int left = x > 0 ? 7 * error[x - 1][k] : 0;
            wanted[k] = clipped(q->pixels[(y * q->w + x) * 3 + k] + (left + from_above(above, x, q->w, k)) / 16);
        }
        int index = palette_nearest(q->map, wanted);
        for (int k = 0; k < 3; k++) error[x][k] = wanted[k] - q->colours.rgb[index][k];
        put_colour(q, y, x, index);
    }
}

static kiln_status map_diffused(quantizing *q)
{
    size_t row = (size_t)q->w * 3 * sizeof(int);
    int(*error)[3] = q->c->host->scratch(q->c->ctx, 2 * row, KILN_CPU);
    if (!error) return KILN_ERR_NOMEM;
    memset(error, 0, 2 * row);
    for (int64_t y = 0; y < q->h; y++) {
        TRY(report(q, y));
        diffuse_row(q, y, (const int(*)[3])(error + (y % 2 ? 0 : q->w)), error + (y % 2 ? q->w : 0));
    }
    return KILN_OK;
}

/* ---- */

static kiln_status quantize_one(quantizing *q, const float *in)
{
    const quantize_params *p = q->c->params;
    for (int64_t i = 0; i < q->h * q->w; i++) {
        for (int k = 0; k < 3; k++) q->pixels[i * 3 + k] = (uint8_t)fminf(255, fmaxf(0, in[i * q->channels + k] * 255));
        if (q->channels > 3) q->out[i * q->channels + 3] = in[i * q->channels + 3];
    }
    if (!median_cut(q->pixels, (size_t)(q->h * q->w), (int)p->colors, &q->colours)) return KILN_ERR_NOMEM;
    palette_map_begin(q->map, &q->colours);
    if (p->dither == PLAIN) return map_plain(q);
    return p->dither == FLOYD_STEINBERG ? map_diffused(q) : map_bayer(q, 2 << (p->dither - BAYER_2));
}

static kiln_status quantize_run(const kiln_call *c)
{
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    TRY(kit_new_f32(c, 4, a.dim, &c->out[0], &r));
    if (kit_estimating(c)) return KILN_OK;
    quantizing q = {.c = c, .h = a.dim[1], .w = a.dim[2], .channels = a.dim[3]};
    size_t each = (size_t)(q.h * q.w * q.channels);
    q.pixels = c->host->scratch(c->ctx, (size_t)(q.h * q.w) * 3, KILN_CPU);
    q.map = c->host->scratch(c->ctx, sizeof *q.map, KILN_CPU);
    if (!q.pixels || !q.map) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < a.dim[0] && each; i++) {
        TRY(c->host->progress(c->ctx, (uint64_t)i, (uint64_t)a.dim[0], "quantizing"));
        q.out = (float *)r.data + (size_t)i * each;
        TRY(quantize_one(&q, (const float *)a.data + (size_t)i * each));
    }
    return KILN_OK;
}

static const kiln_port quantize_in[] = {{.name = "image", .type = "IMAGE", .doc = "The picture, or a batch."}};
static const kiln_port quantize_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The new picture."}};
const kiln_node node_image_quantize = {
    KIT_NODE("ImageQuantize", "Quantize Image", "image/filters",
             "Leaves a picture so many colours, each picture of a batch its own; alpha stays."),
    KILN_ARRAY(in, quantize_in),
    KILN_ARRAY(out, quantize_out),
    KIT_PARAMS(quantize_params, quantize_param),
    .run = quantize_run,
};
