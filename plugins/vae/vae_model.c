/* vae_model.c - SD1.x's autoencoder (Rombach et al. 2022), names as in diffusers' AutoencoderKL.
 *
 *   encode: conv_in; per level: layers x resnet, downsample; middle; norm, silu, conv_out; quant_conv -> mean | logvar
 *   decode: post_quant_conv; conv_in; middle; per level upwards: (layers+1) x resnet, upsample; norm, silu, conv_out
 *
 * Details that have caused bugs elsewhere: every norm has eps 1e-6; the encoder's downsample pads right and bottom
 * only; quant_conv and post_quant_conv, next to the latent, are easily forgotten; the middle attention has one head as
 * wide as its channels.
 */
#include "vae_model.h"

#include <stdio.h>

enum { NAME_CAPACITY = 160 };
#define EPS 1e-6f
#define LOG_VARIANCE_MIN (-30.0f) /* diffusers: DiagonalGaussianDistribution */
#define LOG_VARIANCE_MAX 20.0f
#define PART(what) (snprintf(part, sizeof part, "%s.%s", name, what), part)

static kiln_t weight(const vae_recorder *r, const char *name, const char *kind, uint32_t rank, const int64_t *dim)
{
    char full[NAME_CAPACITY];
    snprintf(full, sizeof full, "%s.%s", name, kind);
    return r->ops->weight(r->p, r->w, full, rank, dim);
}

static int64_t dim_of(const vae_recorder *r, kiln_t x, uint32_t i)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = r->ops->shape(r->p, x, dim, KILN_MAX_RANK);
    return i < rank && i < KILN_MAX_RANK ? dim[i] : 0;
}

enum { N, H, W, C }; /* of a picture */

static kiln_t conv(const vae_recorder *r, const char *name, kiln_t x, int64_t out, int32_t kernel, kiln_conv2d how)
{
    how.size = sizeof how;
    return r->ops->conv2d(r->p, x, weight(r, name, "weight", 4, KILN_DIMS(out, dim_of(r, x, C), kernel, kernel)),
                          weight(r, name, "bias", 1, &out), &how);
}

kiln_t vae_conv(const vae_recorder *r, const char *name, kiln_t x, int64_t out, int32_t kernel)
{
    int32_t p = kernel / 2;
    return conv(r, name, x, out, kernel, (kiln_conv2d){.pad = {p, p, p, p}});
}

static kiln_t group_norm(const vae_recorder *r, const char *name, kiln_t x)
{
    int64_t c = dim_of(r, x, C);
    return r->ops->group_norm(r->p, x, (int32_t)r->config->groups, EPS, weight(r, name, "weight", 1, &c),
                              weight(r, name, "bias", 1, &c));
}

static kiln_t norm_silu(const vae_recorder *r, const char *name, kiln_t x)
{
    return r->ops->act(r->p, group_norm(r, name, x), KILN_ACT_SILU);
}

kiln_t vae_resnet(const vae_recorder *r, const char *name, kiln_t x, int64_t out)
{
    char part[NAME_CAPACITY];
    r->ops->scope_push(r->p, name);
    kiln_t h = norm_silu(r, PART("norm1"), x);
    h = vae_conv(r, PART("conv1"), h, out, 3);
    h = norm_silu(r, PART("norm2"), h);
    h = vae_conv(r, PART("conv2"), h, out, 3);
    if (dim_of(r, x, C) != out) x = vae_conv(r, PART("conv_shortcut"), x, out, 1);
    h = r->ops->add(r->p, h, x);
    r->ops->scope_pop(r->p);
    return h;
}

static kiln_t linear(const vae_recorder *r, const char *name, kiln_t x, int64_t c)
{
    return r->ops->linear(r->p, x, weight(r, name, "weight", 2, KILN_DIMS(c, c)), weight(r, name, "bias", 1, &c));
}

kiln_t vae_attention(const vae_recorder *r, const char *name, kiln_t x)
{
    const kiln_ops *o = r->ops;
    int64_t n = dim_of(r, x, N), h = dim_of(r, x, H), w = dim_of(r, x, W), c = dim_of(r, x, C);
    char part[NAME_CAPACITY];
    o->scope_push(r->p, name);
    kiln_t y = o->reshape(r->p, group_norm(r, PART("group_norm"), x), 3, KILN_DIMS(n, h * w, c)); /* [N,T,C] */
    kiln_t q = linear(r, PART("to_q"), y, c), k = linear(r, PART("to_k"), y, c), v = linear(r, PART("to_v"), y, c);
    y = o->attention(r->p, q, k, v, &(kiln_attention){.size = sizeof(kiln_attention), .heads = 1});
    y = o->reshape(r->p, linear(r, PART("to_out.0"), y, c), 4, KILN_DIMS(n, h, w, c));
    y = o->add(r->p, y, x);
    o->scope_pop(r->p);
    return y;
}

kiln_t vae_middle(const vae_recorder *r, const char *name, kiln_t x)
{
    int64_t c = dim_of(r, x, C);
    char part[NAME_CAPACITY];
    x = vae_resnet(r, PART("resnets.0"), x, c);
    if (r->config->attention) x = vae_attention(r, PART("attentions.0"), x);
    return vae_resnet(r, PART("resnets.1"), x, c);
}

kiln_t vae_downsample(const vae_recorder *r, const char *name, kiln_t x)
{
    char part[NAME_CAPACITY];
    return conv(r, PART("conv"), x, dim_of(r, x, C), 3, (kiln_conv2d){.stride = {2, 2}, .pad = {0, 0, 1, 1}});
}

kiln_t vae_upsample(const vae_recorder *r, const char *name, kiln_t x)
{
    char part[NAME_CAPACITY];
    x = r->ops->upsample_nearest(r->p, x, 2 * dim_of(r, x, H), 2 * dim_of(r, x, W));
    return vae_conv(r, PART("conv"), x, dim_of(r, x, C), 3);
}

kiln_t vae_down_block(const vae_recorder *r, uint32_t i, kiln_t x)
{
    char name[80];
    for (uint32_t k = 0; k < r->config->layers; k++) {
        snprintf(name, sizeof name, "encoder.down_blocks.%u.resnets.%u", i, k);
        x = vae_resnet(r, name, x, r->config->channels[i]);
    }
    snprintf(name, sizeof name, "encoder.down_blocks.%u.downsamplers.0", i);
    return i + 1 < r->config->levels ? vae_downsample(r, name, x) : x;
}

kiln_t vae_up_block(const vae_recorder *r, uint32_t i, kiln_t x)
{
    char name[80];
    for (uint32_t k = 0; k <= r->config->layers; k++) {
        snprintf(name, sizeof name, "decoder.up_blocks.%u.resnets.%u", i, k);
        x = vae_resnet(r, name, x, r->config->channels[r->config->levels - 1 - i]);
    }
    snprintf(name, sizeof name, "decoder.up_blocks.%u.upsamplers.0", i);
    return i + 1 < r->config->levels ? vae_upsample(r, name, x) : x;
}

/* x within LOG_VARIANCE_MIN..MAX: max and min by way of relu. */
static kiln_t clamped(const vae_recorder *r, kiln_t x)
{
    x = r->ops->act(r->p, r->ops->affine(r->p, x, 1, -LOG_VARIANCE_MIN), KILN_ACT_RELU);
    x = r->ops->act(r->p, r->ops->affine(r->p, x, -1, LOG_VARIANCE_MAX - LOG_VARIANCE_MIN), KILN_ACT_RELU);
    return r->ops->affine(r->p, x, -1, LOG_VARIANCE_MAX);
}

void vae_record_encode(const vae_recorder *r, kiln_t image, kiln_latent_distribution *out)
{
    const vae_config *c = r->config;
    kiln_t x = vae_conv(r, "encoder.conv_in", image, c->channels[0], 3); /* [N,H,W,C0] */
    for (uint32_t i = 0; i < c->levels; i++) x = vae_down_block(r, i, x);
    x = vae_middle(r, "encoder.mid_block", x);
    x = norm_silu(r, "encoder.conv_norm_out", x);
    x = vae_conv(r, "encoder.conv_out", x, 2 * c->latent_channels, 3); /* [N,H/f,W/f,2C] */
    if (c->quant_conv) x = vae_conv(r, "quant_conv", x, 2 * c->latent_channels, 1);
    out->mean = r->ops->slice(r->p, x, C, 0, c->latent_channels);
    out->log_variance = clamped(r, r->ops->slice(r->p, x, C, c->latent_channels, c->latent_channels));
}

kiln_t vae_record_decode(const vae_recorder *r, kiln_t latent)
{
    const vae_config *c = r->config;
    kiln_t x = c->post_quant_conv ? vae_conv(r, "post_quant_conv", latent, c->latent_channels, 1) : latent;
    x = vae_conv(r, "decoder.conv_in", x, c->channels[c->levels - 1], 3);
    x = vae_middle(r, "decoder.mid_block", x);
    for (uint32_t i = 0; i < c->levels; i++) x = vae_up_block(r, i, x);
    x = norm_silu(r, "decoder.conv_norm_out", x);
    return vae_conv(r, "decoder.conv_out", x, c->out_channels, 3);
}
