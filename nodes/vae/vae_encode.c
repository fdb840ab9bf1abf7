/* vae_encode.c - VAEEncode and VAEEncodeTiled.
 *
 * An encoder gives a mean and a variance for each number of the latent. The mean is the latent; VAEEncode can also draw
 * one, as networks are trained with.
 */
#include "kiln/kit.h"
#include "kiln/sampling.h"
#include "vae_nodes.h"
#include "vae_pixels.h"
#include "vae_settings.h"

#include <math.h>

static const kiln_port encode_in[] = {
    {.name = "pixels", .type = "IMAGE", .doc = "The picture to be encoded; of a video's VAE all are its frames."},
    {.name = "vae", .type = "VAE", .doc = "The autoencoder."},
};
static const kiln_port encode_out[] = {
    {.name = "LATENT", .type = "LATENT", .doc = "The latent: the mean of what the encoder gives, or drawn about it."},
};
enum { IN_DATA, IN_VAE };

typedef struct {
    int32_t from;
    uint64_t seed;
} encode_params;
enum { FROM_MEAN, FROM_SAMPLE };
static const kiln_choice from_choice[] = {
    {.name = "mean", .value = FROM_MEAN, .doc = "The mean that the encoder gives."},
    {.name = "sample", .value = FROM_SAMPLE, .doc = "Drawn from its distribution."},
    {0},
};
static const kiln_param encode_param[] = {
    {.name = "from",
     .type = KILN_P_ENUM,
     .flags = KILN_PARAM_OWN,
     .offset = offsetof(encode_params, from),
     .def = FROM_MEAN,
     KILN_CHOICES(from_choice),
     .doc = "What of the encoder's distribution the latent is."},
    {.name = "seed",
     .type = KILN_P_SEED,
     .flags = KILN_PARAM_OWN,
     .offset = offsetof(encode_params, seed),
     .doc = "Of what is drawn: torch's CPU generator. No matter for the mean."},
};

/* mean + exp(log variance / 2) n, n drawn for all pictures at once. */
static kiln_status draw(const kiln_call *c, uint64_t seed, const kiln_tensor *mean, const float *variance)
{
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    size_t n = kit_count(mean);
    float *noise = c->host->scratch(c->ctx, n * sizeof *noise, KILN_CPU), *out = mean->data;
    if (!s || !KILN_HAS(kiln_sampling_api, s, random))
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "a latent is drawn with the generator of plugin org.kiln.sampler, which is not there; "
                             "choose from: mean");
    if (!noise) return KILN_ERR_NOMEM;
    if (kit_estimating(c)) return KILN_OK;
    TRY(s->random(c, seed, mean->rank, mean->dim, noise));
    for (size_t i = 0; i < n; i++) out[i] = (float)((double)out[i] + exp((double)variance[i] / 2) * (double)noise[i]);
    return KILN_OK;
}

/* tiles NULL: the picture whole. */
static kiln_status encode(vae_converter *v, const encode_params *p, const tile_params *tiles, const kiln_value *from,
                          kiln_value **out)
{
    const kiln_call *c = v->call;
    kiln_tensor image, mean = {.size = sizeof mean};
    kiln_value *samples;
    vae_taking taking;
    vae_tiling tiling;
    float *variance = NULL;
    TRY(kit_f32(c, from, 4, "the picture", &image));
    TRY(vae_take(v, &image, tiles ? "VAEEncodeTiled" : "VAEEncode", &taking));
    if (tiles) TRY(vae_tiling_encode(v, tiles, &tiling));
    vae_shape cells = vae_cells(v, &taking.pixels);
    v->variance = p->from == FROM_SAMPLE;
    if (v->variance && !(variance = c->host->scratch(c->ctx, vae_count(&cells) * sizeof *variance, KILN_CPU)))
        return KILN_ERR_NOMEM;
    TRY(vae_encode_image(v, tiles ? &tiling : NULL, &image, &taking, &samples, variance));
    kiln_status status = v->variance ? c->host->view(c->ctx, samples, &mean) : KILN_OK;
    if (status == KILN_OK && v->variance) status = draw(c, p->seed, &mean, variance);
    if (status == KILN_OK) return kit_latent(c, NULL, samples, out);
    c->host->unref(samples);
    return status;
}

static const encode_params the_mean = {.from = FROM_MEAN};

static kiln_status open_and_encode(const kiln_call *c, const encode_params *p, const tile_params *tiles,
                                   const kiln_value *vae, const kiln_value *image, kiln_value **latent)
{
    vae_converter v;
    kiln_status status = vae_open(c, vae, 1, &v);
    if (status == KILN_OK) status = encode(&v, p, tiles, image, latent);
    vae_close(&v);
    return status;
}

kiln_status vae_encode(const kiln_call *c, const kiln_value *vae, const kiln_value *image, kiln_value **latent)
{
    return open_and_encode(c, &the_mean, NULL, vae, image, latent);
}

static kiln_status run(const kiln_call *c, const encode_params *p, const tile_params *tiles)
{
    kiln_status status = open_and_encode(c, p, tiles, c->in[IN_VAE], c->in[IN_DATA], &c->out[0]);
    if (status == KILN_ERR_NOMEM && !tiles)
        c->host->log(KILN_LOG_WARN, "VAEEncode: a picture of this size does not fit; VAEEncodeTiled with smaller tiles "
                                    "needs less memory");
    return status;
}

static kiln_status encode_run(const kiln_call *c) { return run(c, c->params, NULL); }
const kiln_node node_vae_encode = {
    KIT_NODE_FLAGS(
        KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "VAEEncode", "VAE Encode",
        "latent", "Turns a picture into a latent; its size is cut to a multiple of the VAE's factor, from the middle."),
    KILN_ARRAY(in, encode_in),
    KILN_ARRAY(out, encode_out),
    KIT_PARAMS(encode_params, encode_param),
    .run = encode_run,
};

static const kiln_param tiled_param[] = {TILE_PARAMS(64)};

static kiln_status encode_tiled_run(const kiln_call *c) { return run(c, &the_mean, c->params); }
const kiln_node node_vae_encode_tiled = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "VAEEncodeTiled",
                   "VAE Encode (Tiled)", "latent",
                   "Turns a picture into a latent tile by tile, for pictures that do not fit at once."),
    KILN_ARRAY(in, encode_in),
    KILN_ARRAY(out, encode_out),
    KIT_PARAMS(tile_params, tiled_param),
    .run = encode_tiled_run,
};
