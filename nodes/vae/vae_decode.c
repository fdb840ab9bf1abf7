/* vae_decode.c - VAEDecode, VAEDecodeTiled.
 *
 * A LATENT holds the autoencoder's own numbers, unscaled; the scale belongs to the denoiser. Pictures of a batch go
 * one after the other through one program: the memory is that of one picture, however long the batch. Of videos the
 * frames of all become one IMAGE.
 */
#include "kiln/kit.h"
#include "vae_nodes.h"
#include "vae_settings.h"
#include "vae_way.h"

#include <math.h>
#include <stdio.h>

static const kiln_port decode_in[] = {
    {.name = "samples", .type = "LATENT", .doc = "The latent to be decoded."},
    {.name = "vae", .type = "VAE", .doc = "The autoencoder."},
};
static const kiln_port decode_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The decoded picture."}};
enum { IN_DATA, IN_VAE };

/* -1..1 -> 0..1, clamped. False when a number is none. */
static int to_image(float *x, size_t n)
{
    int finite = 1;
    for (size_t i = 0; i < n; i++) {
        float v = (x[i] + 1) * 0.5f;
        finite &= isfinite(v) != 0;
        x[i] = v < 0 ? 0 : v > 1 ? 1 : v;
    }
    return finite;
}

static kiln_status read_latent(const vae_converter *v, const kiln_value *from, kiln_tensor *latent, vae_shape *cells)
{
    const kiln_call *c = v->call;
    TRY(kit_samples(c, from, latent));
    if (v->rank == 3 || v->image_channels < 3 || v->image_channels > 4)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "this VAE makes no pictures: its latents have %u dimensions, what it decodes %lld channels", v->rank,
            (long long)v->image_channels);
    if (latent->rank != v->rank)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the latent has %u dimensions, this VAE decodes %u; take the VAE of the latent's family",
                             latent->rank, v->rank);
    *cells = vae_shape_of(v, latent->dim);
    if (cells->channels != v->latent_channels)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent has %lld channels, this VAE decodes %lld",
                             (long long)cells->channels, (long long)v->latent_channels);
    if (!vae_count(cells)) return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent is empty: it has no cells");
    return KILN_OK;
}

/* All pictures; asked NULL: whole where they fit. Those that are not finite are made again. */
static kiln_status decode_all(vae_converter *v, const vae_tiling *asked, const vae_shape *cells, void *latent,
                              void *image)
{
    vae_shape one = *cells, pixels;
    vae_way way;
    one.n = 1;
    pixels = vae_pixels(v, &one);
    TRY(vae_choose_way(v, &one, cells->n, asked, &way));
    for (int64_t i = 0; i < cells->n;) {
        float *from = kit_at(latent, (size_t)i * vae_count(&one)), *to = kit_at(image, (size_t)i * vae_count(&pixels));
        vae_shape now = one;
        now.n = cells->n - i < way.at_once ? cells->n - i : way.at_once;
        TRY(vae_go(v, &way, &now, from, to, NULL));
        if (kit_estimating(v->call) || to_image(to, (size_t)now.n * vae_count(&pixels))) {
            i += now.n;
            continue;
        }
        if (!vae_goes_wider(v)) return vae_not_finite(v, "the decoded picture");
        TRY(vae_choose_way(v, &one, cells->n - i, asked, &way));
    }
    return KILN_OK;
}

static kiln_status decode(vae_converter *v, const tile_params *tiles, const kiln_value *from, kiln_value **out)
{
    const kiln_call *c = v->call;
    kiln_tensor latent, image;
    vae_shape cells, pixels;
    vae_tiling tiling;
    TRY(read_latent(v, from, &latent, &cells));
    if (tiles) TRY(vae_tiling_decode(v, tiles, &tiling));
    pixels = vae_pixels(v, &cells);
    int64_t frames = v->rank > 4 ? pixels.frames : 1;
    TRY(kit_new_f32(c, 4, KILN_DIMS(cells.n * frames, pixels.rows, pixels.columns, pixels.channels), out, &image));
    kiln_status status = decode_all(v, tiles ? &tiling : NULL, &cells, latent.data, image.data);
    if (status == KILN_OK) return KILN_OK;
    c->host->unref(*out);
    *out = NULL;
    return status;
}

static kiln_status open_and_decode(const kiln_call *c, const tile_params *tiles, const kiln_value *vae,
                                   const kiln_value *latent, kiln_value **image)
{
    vae_converter v;
    kiln_status status = vae_open(c, vae, 0, &v);
    if (status == KILN_OK) status = decode(&v, tiles, latent, image);
    vae_close(&v);
    return status;
}

kiln_status vae_decode(const kiln_call *c, const kiln_value *vae, const kiln_value *latent, kiln_value **image)
{
    return open_and_decode(c, NULL, vae, latent, image);
}

static kiln_status run(const kiln_call *c, const tile_params *tiles)
{
    kiln_status status = open_and_decode(c, tiles, c->in[IN_VAE], c->in[IN_DATA], &c->out[0]);
    if (status == KILN_ERR_NOMEM && !tiles)
        c->host->log(KILN_LOG_WARN, "VAEDecode: a picture of this size does not fit; VAEDecodeTiled with smaller tiles "
                                    "needs less memory");
    return status;
}

static kiln_status decode_run(const kiln_call *c) { return run(c, NULL); }
const kiln_node node_vae_decode = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "VAEDecode",
                   "VAE Decode", "latent", "Turns a latent into a picture, or into the frames of a video."),
    KILN_ARRAY(in, decode_in),
    KILN_ARRAY(out, decode_out),
    .run = decode_run,
};

/* ---- VAEDecodeTiled ---- */

static const kiln_param tiled_param[] = {TILE_PARAMS(32)};

static kiln_status decode_tiled_run(const kiln_call *c) { return run(c, c->params); }
const kiln_node node_vae_decode_tiled = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "VAEDecodeTiled",
                   "VAE Decode (Tiled)", "latent",
                   "Turns a latent into a picture tile by tile, for pictures that do not fit at once."),
    KILN_ARRAY(in, decode_in),
    KILN_ARRAY(out, decode_out),
    KIT_PARAMS(tile_params, tiled_param),
    .run = decode_tiled_run,
};
