/* vae_pixels.c - see vae_pixels.h. */
#include "vae_pixels.h"

#include "kiln/kit.h"
#include "vae_way.h"

#include <math.h>
#include <stdio.h>

static void say_cut(const kiln_call *c, const char *node, const kiln_tensor *image, const vae_shape *used)
{
    char text[240];
    if (image->dim[1] != used->rows || image->dim[2] != used->columns) {
        snprintf(text, sizeof text,
                 "%s: a picture of %lldx%lld pixels is cut to %lldx%lld, its middle; scale it before to keep all of it",
                 node, (long long)image->dim[2], (long long)image->dim[1], (long long)used->columns,
                 (long long)used->rows);
        c->host->log(KILN_LOG_WARN, text);
    }
    if (used->n == 1 && used->frames > 1 && image->dim[0] != used->frames) {
        snprintf(text, sizeof text, "%s: of %lld frames the first %lld are encoded; this VAE takes no others", node,
                 (long long)image->dim[0], (long long)used->frames);
        c->host->log(KILN_LOG_WARN, text);
    }
}

kiln_status vae_take(const vae_converter *v, const kiln_tensor *image, const char *node, vae_taking *out)
{
    const kiln_call *c = v->call;
    const int64_t *d = image->dim;
    if (v->rank == 3 || v->image_channels < 3 || v->image_channels > 4)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "this VAE takes no pictures: its latents have %u dimensions, what it encodes %lld channels", v->rank,
            (long long)v->image_channels);
    vae_shape all = {d[0], 1, d[1], d[2], v->image_channels};
    if (v->rank > 4) all.n = 1, all.frames = d[0];
    vae_shape cells = vae_cells(v, &all); /* what is over is cut off on both sides */
    if (!cells.rows || !cells.columns || d[3] < 3)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the picture is %lldx%lld with %lld channels; a VAE needs %lldx%lld with 3 at least",
                             (long long)d[2], (long long)d[1], (long long)d[3], (long long)v->factor,
                             (long long)v->factor);
    if (cells.frames < 1 || cells.n < 1)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%lld frames are too few for this VAE, which needs %lld",
                             (long long)d[0], (long long)vae_time_frames(v, 1));
    out->pixels = vae_pixels(v, &cells);
    out->top = (d[1] - out->pixels.rows) / 2, out->left = (d[2] - out->pixels.columns) / 2;
    say_cut(c, node, image, &out->pixels);
    return KILN_OK;
}

/* Planes first.. of the image, cut to the middle, 0..1 -> -1..1; alpha where the VAE takes it, opaque where the picture
 * has none. */
static void copy_pixels(const vae_taking *t, const kiln_tensor *image, int64_t first, int64_t planes, float *dst)
{
    int64_t channels = image->dim[3], wanted = t->pixels.channels;
    const float *src = image->data;
    for (int64_t i = first; i < first + planes; i++)
        for (int64_t y = 0; y < t->pixels.rows; y++)
            for (int64_t x = 0; x < t->pixels.columns; x++) {
                const float *p = src + ((i * image->dim[1] + t->top + y) * image->dim[2] + t->left + x) * channels;
                for (int64_t k = 0; k < wanted; k++) *dst++ = k < channels ? p[k] * 2 - 1 : 1;
            }
}

static int all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

/* Those that are not finite are made again. */
static kiln_status encode_all(vae_converter *v, const vae_tiling *asked, const kiln_tensor *image,
                              const vae_taking *taking, float *latent, float *variance)
{
    const kiln_call *c = v->call;
    int64_t n = taking->pixels.n;
    vae_shape one = taking->pixels;
    vae_way way;
    one.n = 1;
    vae_shape cells = vae_cells(v, &one);
    TRY(vae_choose_way(v, &one, n, asked, &way));
    int64_t room = way.at_once;
    float *pixels = c->host->scratch(c->ctx, (size_t)room * vae_count(&one) * sizeof *pixels, KILN_CPU);
    if (!pixels) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < n;) {
        vae_shape now = one;
        float *to = kit_at(latent, (size_t)i * vae_count(&cells)),
              *spread = kit_at(variance, (size_t)i * vae_count(&cells));
        now.n = n - i < way.at_once ? n - i : way.at_once;
        size_t made = (size_t)now.n * vae_count(&cells);
        if (!kit_estimating(c)) copy_pixels(taking, image, i * one.frames, now.n * one.frames, pixels);
        TRY(vae_go(v, &way, &now, pixels, to, spread));
        if (kit_estimating(c) || (all_finite(to, made) && (!spread || all_finite(spread, made)))) {
            i += now.n;
            continue;
        }
        if (!vae_goes_wider(v)) return vae_not_finite(v, "the encoded latent");
        TRY(vae_choose_way(v, &one, n - i, asked, &way));
        if (way.at_once > room) way.at_once = room;
    }
    return KILN_OK;
}

kiln_status vae_encode_image(vae_converter *v, const vae_tiling *tiling, const kiln_tensor *image,
                             const vae_taking *taking, kiln_value **samples, float *variance)
{
    const kiln_call *c = v->call;
    kiln_tensor latent;
    int64_t dim[5];
    vae_shape cells = vae_cells(v, &taking->pixels);
    vae_dims(v, &cells, dim);
    TRY(kit_new_f32(c, v->rank, dim, samples, &latent));
    kiln_status status = encode_all(v, tiling, image, taking, latent.data, variance);
    if (status != KILN_OK) c->host->unref(*samples);
    return status;
}
