/* vae_encode.c - VAEEncode and VAEEncodeTiled, which take the mean that the encoder gives. */
#include "kiln/kit.h"
#include "vae_nodes.h"
#include "vae_pixels.h"
#include "vae_settings.h"

static const kiln_port encode_in[] = {
    {.name = "pixels", .type = "IMAGE", .doc = "The picture to be encoded; of a video's VAE all are its frames."},
    {.name = "vae", .type = "VAE", .doc = "The autoencoder."},
};
static const kiln_port encode_out[] = {
    {.name = "LATENT", .type = "LATENT", .doc = "The latent, the mean of what the encoder gives."},
};
enum { IN_DATA, IN_VAE };

static kiln_status encode(vae_converter *v, const tile_params *tiles)
{
    const kiln_call *c = v->call;
    kiln_tensor image;
    kiln_value *samples;
    vae_taking taking;
    vae_tiling tiling;
    TRY(kit_f32(c, c->in[IN_DATA], 4, "the picture", &image));
    TRY(vae_take(v, &image, tiles ? "VAEEncodeTiled" : "VAEEncode", &taking));
    if (tiles) TRY(vae_tiling_encode(v, tiles, &tiling));
    TRY(vae_encode_image(v, tiles ? &tiling : NULL, &image, &taking, &samples, NULL));
    return kit_latent(c, NULL, samples, &c->out[0]);
}

static kiln_status run(const kiln_call *c, const tile_params *tiles)
{
    vae_converter v;
    kiln_status status = vae_open(c, c->in[IN_VAE], 1, &v);
    if (status == KILN_OK) status = encode(&v, tiles);
    vae_close(&v);
    if (status == KILN_ERR_NOMEM && !tiles)
        c->host->log(KILN_LOG_WARN, "VAEEncode: a picture of this size does not fit; VAEEncodeTiled needs less memory");
    return status;
}

static kiln_status encode_run(const kiln_call *c) { return run(c, NULL); }
const kiln_node node_vae_encode = {
    KIT_NODE_FLAGS(
        KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "VAEEncode", "VAE Encode",
        "latent", "Turns a picture into a latent; its size is cut to a multiple of the VAE's factor, from the middle."),
    KILN_ARRAY(in, encode_in),
    KILN_ARRAY(out, encode_out),
    .run = encode_run,
};

static const kiln_param tiled_param[] = {TILE_PARAMS(64)};

static kiln_status encode_tiled_run(const kiln_call *c) { return run(c, c->params); }
const kiln_node node_vae_encode_tiled = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "VAEEncodeTiled",
                   "VAE Encode (Tiled)", "latent",
                   "Turns a picture into a latent tile by tile, for pictures that do not fit at once."),
    KILN_ARRAY(in, encode_in),
    KILN_ARRAY(out, encode_out),
    KIT_PARAMS(tile_params, tiled_param),
    .run = encode_tiled_run,
};
