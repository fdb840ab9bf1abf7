/* unet_latents.h - the latents that a UNet denoises: how large a cell is, and how the VAE's numbers become its own. */
#ifndef KILN_UNET_LATENTS_H
#define KILN_UNET_LATENTS_H

#include "unet_settings.h"

enum { LATENT_CHANNELS_MAX = 64 };

/* Not to be moved: its parts point to one another. */
typedef struct {
    double scale[LATENT_CHANNELS_MAX], shift[LATENT_CHANNELS_MAX];
    kiln_latent_scaling scaling;
    kiln_latent_format format;
} unet_latents;

/* From vae/config.json; from edm_mean and edm_std of a single file; else what the released model of this kind has. */
kiln_status unet_latents_read(const kiln_host *host, kiln_ctx *ctx, const unet_source *from, const unet_config *c,
                              unet_latents *out);

#endif
