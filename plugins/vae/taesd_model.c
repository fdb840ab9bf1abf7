/* taesd_model.c - see taesd_model.h.
 *
 *   encode: conv; block; then three times: conv of stride 2, 3 blocks; conv
 *   decode: 3 tanh(x/3); conv, relu; three times: 3 blocks, upsample, conv; block; conv
 *   block:  relu(x + conv(relu(conv(relu(conv(x))))))
 *
 * Details that are easily missed: pictures are 0..1 in the network; the convolutions that change the size have no bias.
 */
#include "taesd_model.h"

#include <stdio.h>

enum { LEVELS = 3, BLOCKS = 3, NAME_CAPACITY = 96 };
#define LIMIT 3.0f /* of latents, by tanh */

/* A 3x3 convolution `in` -> `out`. */
static kiln_t conv(const taesd_recorder *r, const char *name, kiln_t x, const int64_t channels[2], int32_t stride,
                   int bias)
{
    char full[NAME_CAPACITY];
    snprintf(full, sizeof full, "%s.weight", name);
    kiln_t w = r->ops->weight(r->p, r->w, full, 4, KILN_DIMS(channels[1], channels[0], 3, 3)), b = {0};
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias) b = r->ops->weight(r->p, r->w, full, 1, &channels[1]);
    kiln_conv2d how = {.size = sizeof how, .stride = {stride, stride}, .pad = {1, 1, 1, 1}};
    return r->ops->conv2d(r->p, x, w, b, &how);
}

static kiln_t relu(const taesd_recorder *r, kiln_t x) { return r->ops->act(r->p, x, KILN_ACT_RELU); }

/* Layer number `at` of a half, a convolution. */
static kiln_t layer(const taesd_recorder *r, const char *half, int at, kiln_t x, const int64_t channels[2])
{
    char name[NAME_CAPACITY];
    snprintf(name, sizeof name, "%s.layers.%d", half, at);
    return conv(r, name, x, channels, 1, 1);
}

static kiln_t resize(const taesd_recorder *r, const char *half, int at, kiln_t x, int32_t stride)
{
    char name[NAME_CAPACITY];
    snprintf(name, sizeof name, "%s.layers.%d", half, at);
    return conv(r, name, x, KILN_DIMS(r->config->width, r->config->width), stride, 0);
}

static kiln_t block(const taesd_recorder *r, const char *half, int at, kiln_t x)
{
    char name[NAME_CAPACITY];
    kiln_t h = x;
    snprintf(name, sizeof name, "%s.layers.%d", half, at);
    r->ops->scope_push(r->p, name);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.layers.%d.conv.%d", half, at, 2 * i);
        if (i) h = relu(r, h);
        h = conv(r, name, h, KILN_DIMS(r->config->width, r->config->width), 1, 1);
    }
    h = relu(r, r->ops->add(r->p, h, x));
    r->ops->scope_pop(r->p);
    return h;
}

kiln_t taesd_record_encode(const taesd_recorder *r, kiln_t image)
{
    const taesd_config *c = r->config;
    int at = 0;
    kiln_t x = r->ops->affine(r->p, image, 0.5f, 0.5f);
    x = layer(r, "encoder", at++, x, KILN_DIMS(3, c->width));
    x = block(r, "encoder", at++, x);
    for (int i = 0; i < LEVELS; i++) {
        x = resize(r, "encoder", at++, x, 2);
        for (int k = 0; k < BLOCKS; k++) x = block(r, "encoder", at++, x);
    }
    x = layer(r, "encoder", at, x, KILN_DIMS(c->width, c->latent_channels));
    return r->ops->affine(r->p, x, (float)(1 / c->scale), (float)c->shift);
}

kiln_t taesd_record_decode(const taesd_recorder *r, kiln_t latent)
{
    const taesd_config *c = r->config;
    const kiln_ops *o = r->ops;
    int at = 0;
    kiln_t x = o->affine(r->p, latent, (float)(c->scale / LIMIT), (float)(-c->shift * c->scale / LIMIT));
    x = o->affine(r->p, o->act(r->p, x, KILN_ACT_TANH), LIMIT, 0);
    x = relu(r, layer(r, "decoder", at, x, KILN_DIMS(c->latent_channels, c->width)));
    at = 2; /* the relu is a layer */
    for (int i = 0; i < LEVELS; i++) {
        int64_t dim[4] = {0};
        for (int k = 0; k < BLOCKS; k++) x = block(r, "decoder", at++, x);
        o->shape(r->p, x, dim, 4);
        x = o->upsample_nearest(r->p, x, 2 * dim[1], 2 * dim[2]);
        at++; /* and so is the upsampling */
        x = resize(r, "decoder", at++, x, 1);
    }
    x = block(r, "decoder", at++, x);
    x = layer(r, "decoder", at, x, KILN_DIMS(c->width, 3));
    return o->affine(r->p, x, 2, -1);
}
