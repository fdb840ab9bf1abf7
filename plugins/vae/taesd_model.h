/* taesd_model.h - TAESD, a small autoencoder for Stable Diffusion's latents (Ollin Boer Bohan, 2023), as recorded
 * programs. Names as in diffusers' AutoencoderTiny. */
#ifndef KILN_TAESD_MODEL_H
#define KILN_TAESD_MODEL_H

#include "kiln/model.h"

typedef struct {
    int64_t width, latent_channels;
    double scale, shift; /* the network's latent is (latent - shift) * scale */
} taesd_config;

typedef struct {
    const taesd_config *config;
    const kiln_ops *ops;
    kiln_program *p;
    kiln_weights *w;
} taesd_recorder;

/* image [N,H,W,3] in -1..1 -> latent [N,H/8,W/8,C], unscaled */
kiln_t taesd_record_encode(const taesd_recorder *r, kiln_t image);
/* latent [N,h,w,C], unscaled -> image [N,8h,8w,3] about -1..1 */
kiln_t taesd_record_decode(const taesd_recorder *r, kiln_t latent);

#endif
