/* vae_model.h - SD1.x's autoencoder as recorded programs, and its configuration. */
#ifndef KILN_VAE_MODEL_H
#define KILN_VAE_MODEL_H

#include "kiln/model.h"

enum { VAE_LEVELS_MAX = 8 };

/* Names and meanings as in diffusers' AutoencoderKL. */
typedef struct {
    int64_t in_channels, out_channels, latent_channels, groups;
    int64_t channels[VAE_LEVELS_MAX];
    uint32_t levels, layers; /* layers: resnets of an encoder level; a decoder level has one more */
    uint32_t quant_conv, post_quant_conv, attention;
} vae_config;

typedef struct {
    const vae_config *config;
    const kiln_ops *ops;
    kiln_program *p;
    kiln_weights *w;
} vae_recorder;

/* image [N,H,W,3] -> mean and log-variance [N,H/f,W/f,C], the latter clamped to -30..20 as diffusers has it */
void vae_record_encode(const vae_recorder *r, kiln_t image, kiln_latent_distribution *out);
/* latent [N,h,w,C] -> image [N,h*f,w*f,3] */
kiln_t vae_record_decode(const vae_recorder *r, kiln_t latent);

/* The blocks, for tests; name is diffusers' name of the block. */
kiln_t vae_conv(const vae_recorder *r, const char *name, kiln_t x, int64_t out, int32_t kernel);
kiln_t vae_resnet(const vae_recorder *r, const char *name, kiln_t x, int64_t out);
kiln_t vae_attention(const vae_recorder *r, const char *name, kiln_t x);
kiln_t vae_middle(const vae_recorder *r, const char *name, kiln_t x);
kiln_t vae_downsample(const vae_recorder *r, const char *name, kiln_t x);
kiln_t vae_upsample(const vae_recorder *r, const char *name, kiln_t x);
kiln_t vae_down_block(const vae_recorder *r, uint32_t i, kiln_t x);
kiln_t vae_up_block(const vae_recorder *r, uint32_t i, kiln_t x);

#endif
