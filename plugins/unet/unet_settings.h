/* unet_settings.h - what a checkpoint says about its UNet: sizes, noise levels, latents. */
#ifndef KILN_UNET_SETTINGS_H
#define KILN_UNET_SETTINGS_H

#include "kiln/standard_sampling.h"
#include "unet_model.h"

enum { NOISE_LEVELS_MAX = 10000 };

/* Reads config.json at `path`. path NULL: there is none; sizes come from the shapes of `view` (diffusers' names), the
 * rest is SD1.x's. Failures are recorded on ctx. */
kiln_status unet_settings_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                               const char *path, unet_config *out);
/* Writes the training sigmas, ascending, to sigma[NOISE_LEVELS_MAX]: from scheduler/scheduler_config.json, else SD1's.
 */
kiln_status unet_noise_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, double *sigma,
                            kiln_standard_sampling *out);
/* The latents' scale and shift from vae/config.json, else SD1's. `out` is not to be moved. */
typedef struct {
    double scale, shift;
    kiln_latent_scaling scaling;
    kiln_latent_format format;
} latent_numbers;
kiln_status unet_latent_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, int64_t channels,
                             latent_numbers *out);

#endif
