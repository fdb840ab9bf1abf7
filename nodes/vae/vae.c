/* vae.c - VAEDecode and VAEEncode.
 *
 * A LATENT holds the autoencoder's own numbers, unscaled; the scale belongs to the denoiser. Pictures of a batch go
 * one after the other through one program: the memory is that of one picture, however long the batch.
 */
#include "vae.h"

#include "kiln/kit.h"
#include "kiln/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const kiln_port decode_in[] = {
    {.name = "samples", .type = "LATENT", .doc = "The latent to be decoded."},
    {.name = "vae", .type = "VAE", .doc = "The autoencoder."},
};
static const kiln_port decode_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The decoded picture."}};
static const kiln_port encode_in[] = {
    {.name = "pixels", .type = "IMAGE", .doc = "The picture to be encoded."},
    {.name = "vae", .type = "VAE", .doc = "The autoencoder."},
};
static const kiln_port encode_out[] = {
    {.name = "LATENT", .type = "LATENT", .doc = "The latent, the mean of what the encoder gives."},
};
enum { IN_DATA, IN_VAE };

/* ---- one program for one picture ---- */

typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    const kiln_vae *vae;
    kiln_program *program;
    int encode;
    int64_t in[4], out[4]; /* shapes of one picture; in[0] = out[0] = 1 */
} conversion;

static kiln_status record(const conversion *v)
{
    const kiln_autoencoder *a = v->vae->autoencoder;
    kiln_t x = v->ops->input(v->program, "x", KILN_F32, 4, v->in);
    kiln_latent_distribution d = {.size = sizeof d};
    if (v->encode)
        a->record_encode(a, v->ops, v->program, v->vae->weights, x, &d);
    else
        d.mean = a->record_decode(a, v->ops, v->program, v->vae->weights, x);
    v->ops->output(v->program, "y", d.mean);
    return v->ops->plan(v->call->ctx, v->program, NULL);
}

static kiln_status open_program(conversion *v)
{
    const kiln_weights_api *w = v->call->host->ability(KILN_WEIGHTS_ABILITY);
    const char *identity = w->identity(v->call->ctx, v->vae->weights), *what = v->encode ? "vae encode" : "vae decode";
    char key[640];
    int fresh = 0;
    if (!identity) return KILN_ERR_IO;
    snprintf(key, sizeof key, "%s:%s:%s:%lldx%lld", what, v->vae->autoencoder->family, identity, (long long)v->in[1],
             (long long)v->in[2]);
    kiln_program_options options = {.size = sizeof options, .name = what};
    v->program = v->ops->program_keep(v->call->ctx, key, &options, &fresh);
    if (!v->program) return KILN_ERR_NOMEM;
    return fresh ? record(v) : KILN_OK;
}

static kiln_status run(const conversion *v, float *x, float *y)
{
    kiln_bind in = KILN_BIND("x", kit_window(KILN_F32, KILN_CPU, x, 4, v->in)),
              out = KILN_BIND("y", kit_window(KILN_F32, KILN_CPU, y, 4, v->out));
    return v->ops->run(v->call->ctx, v->program, &in, 1, &out, 1);
}

static size_t count4(const int64_t dim[4]) { return (size_t)(dim[0] * dim[1] * dim[2] * dim[3]); }

static kiln_status vae_of(const kiln_call *c, const kiln_vae **vae)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    *vae = models->vae(c->ctx, c->in[IN_VAE]);
    return *vae ? KILN_OK : KILN_ERR_INVALID;
}

/* ---- VAEDecode ---- */

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

static kiln_status decode_all(const conversion *v, const kiln_tensor *latent, float *image)
{
    const kiln_call *c = v->call;
    size_t one_in = count4(v->in), one_out = count4(v->out);
    for (int64_t i = 0; i < latent->dim[0]; i++) {
        TRY(c->host->progress(c->ctx, (uint64_t)i, (uint64_t)latent->dim[0], "decoding"));
        TRY(run(v, kit_at(latent->data, (size_t)i * one_in), kit_at(image, (size_t)i * one_out)));
        if (!kit_estimating(c) && !to_image(image + (size_t)i * one_out, one_out))
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "the decoded picture has values that are not finite; the latent or the VAE "
                                 "is broken, or try --precision f32");
    }
    return KILN_OK;
}

static kiln_status decode_run(const kiln_call *c)
{
    kiln_tensor latent, image;
    conversion v = {.call = c, .ops = c->host->ability(KILN_OPS_ABILITY)};
    kiln_value *out = NULL;
    TRY(vae_of(c, &v.vae));
    TRY(kit_samples(c, c->in[IN_DATA], &latent));
    const kiln_latent_format *f = v.vae->autoencoder->latent;
    if (latent.dim[3] != f->channels)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent has %lld channels, this VAE decodes %d",
                             (long long)latent.dim[3], f->channels);
    memcpy(v.in, KILN_DIMS(1, latent.dim[1], latent.dim[2], f->channels), sizeof v.in);
    memcpy(v.out, KILN_DIMS(1, latent.dim[1] * f->factor, latent.dim[2] * f->factor, 3), sizeof v.out);
    kiln_status status = kit_new_f32(c, 4, KILN_DIMS(latent.dim[0], v.out[1], v.out[2], 3), &out, &image);
    if (status == KILN_OK) status = open_program(&v);
    if (status == KILN_OK) status = decode_all(&v, &latent, image.data);
    if (v.program) v.ops->program_free(v.program);
    if (status != KILN_OK) c->host->unref(out);
    c->out[0] = status == KILN_OK ? out : NULL;
    return status;
}

const kiln_node node_vae_decode = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "VAEDecode",
                   "VAE Decode", "latent", "Turns a latent into a picture."),
    KILN_ARRAY(in, decode_in),
    KILN_ARRAY(out, decode_out),
    .run = decode_run,
};

/* ---- VAEEncode ---- */

/* Picture i, cut to the middle v->in[1] x v->in[2], its first three channels, 0..1 -> -1..1. */
static void take_picture(const conversion *v, const kiln_tensor *pixels, int64_t i, float *dst)
{
    int64_t top = (pixels->dim[1] - v->in[1]) / 2, left = (pixels->dim[2] - v->in[2]) / 2, channels = pixels->dim[3];
    const float *src = pixels->data;
    for (int64_t y = 0; y < v->in[1]; y++)
        for (int64_t x = 0; x < v->in[2]; x++) {
            const float *p = src + ((i * pixels->dim[1] + top + y) * pixels->dim[2] + left + x) * channels;
            for (int k = 0; k < 3; k++) *dst++ = p[k] * 2 - 1;
        }
}

static kiln_status encode_all(const conversion *v, const kiln_tensor *pixels, float *latent)
{
    const kiln_call *c = v->call;
    float *picture = c->host->scratch(c->ctx, count4(v->in) * sizeof *picture, KILN_CPU);
    if (!picture) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < pixels->dim[0]; i++) {
        TRY(c->host->progress(c->ctx, (uint64_t)i, (uint64_t)pixels->dim[0], "encoding"));
        if (!kit_estimating(c)) take_picture(v, pixels, i, picture);
        TRY(run(v, picture, kit_at(latent, (size_t)i * count4(v->out))));
    }
    return KILN_OK;
}

static void say_cut(const kiln_call *c, const kiln_tensor *pixels, int64_t width, int64_t height)
{
    char text[200];
    snprintf(
        text, sizeof text,
        "VAEEncode: a picture of %lldx%lld pixels is cut to %lldx%lld, its middle; scale it before to keep all of it",
        (long long)pixels->dim[2], (long long)pixels->dim[1], (long long)width, (long long)height);
    c->host->log(KILN_LOG_WARN, text);
}

static kiln_status encode_run(const kiln_call *c)
{
    kiln_tensor pixels, latent;
    const kiln_value_api *values = kit_values(c);
    conversion v = {.call = c, .ops = c->host->ability(KILN_OPS_ABILITY), .encode = 1};
    kiln_value *samples = NULL, *map = NULL;
    TRY(vae_of(c, &v.vae));
    TRY(kit_f32(c, c->in[IN_DATA], 4, "the picture", &pixels));
    const kiln_latent_format *f = v.vae->autoencoder->latent;
    int64_t h = pixels.dim[1] / f->factor, w = pixels.dim[2] / f->factor; /* what is over is cut off on both sides */
    if (h < 1 || w < 1 || pixels.dim[3] < 3)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID, "the picture is %lldx%lld with %lld channels; a VAE needs %dx%d with 3 at least",
            (long long)pixels.dim[2], (long long)pixels.dim[1], (long long)pixels.dim[3], f->factor, f->factor);
    if (h * f->factor != pixels.dim[1] || w * f->factor != pixels.dim[2])
        say_cut(c, &pixels, w * f->factor, h * f->factor);
    memcpy(v.in, KILN_DIMS(1, h * f->factor, w * f->factor, 3), sizeof v.in);
    memcpy(v.out, KILN_DIMS(1, h, w, f->channels), sizeof v.out);
    kiln_status status = kit_new_f32(c, 4, KILN_DIMS(pixels.dim[0], h, w, f->channels), &samples, &latent);
    if (status == KILN_OK) status = open_program(&v);
    if (status == KILN_OK) status = encode_all(&v, &pixels, latent.data);
    if (v.program) v.ops->program_free(v.program);
    if (status == KILN_OK) {
        map = values->new_map(c->ctx);
        status = map ? values->map_set(map, "samples", samples) : KILN_ERR_NOMEM;
    }
    c->host->unref(samples);
    if (status != KILN_OK) c->host->unref(map);
    c->out[0] = status == KILN_OK ? map : NULL;
    return status;
}

const kiln_node node_vae_encode = {
    KIT_NODE_FLAGS(
        KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "VAEEncode", "VAE Encode",
        "latent", "Turns a picture into a latent; its size is cut to a multiple of the VAE's factor, from the middle."),
    KILN_ARRAY(in, encode_in),
    KILN_ARRAY(out, encode_out),
    .run = encode_run,
};
