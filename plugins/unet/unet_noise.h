/* unet_noise.h - how a UNet's checkpoint counts noise: its levels, and what the network predicts. */
#ifndef KILN_UNET_NOISE_H
#define KILN_UNET_NOISE_H

#include "kiln/standard_sampling.h"
#include "unet_settings.h"

enum { NOISE_LEVELS_MAX = 10000 };

/* Reads the first of these that is there: scheduler/scheduler_config.json; marker tensors of single files (edm_mean and
 * edm_std, edm_vpred.sigma_max, v_pred, ztsnr); modelspec.prediction_type of a file's metadata; what the weights of SD2
 * give away; else noise is predicted. Writes the training levels, ascending, to sigma[NOISE_LEVELS_MAX], and keeps it.
 */
kiln_status unet_noise_read(const kiln_host *host, kiln_ctx *ctx, const unet_source *from, const unet_config *c,
                            double *sigma, kiln_standard_sampling *out);

#endif
