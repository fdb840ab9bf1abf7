/* preview.h - what a sampling looks like so far, a small picture of the latent's colours.
 *
 * A colour is linear in a latent's cell: model space times kiln_latent_format.rgb plus rgb_bias, or vae/latent_rgb.json
 * of the model
 * ({"factors": [[r, g, b] a channel], "bias": [r, g, b]}), -1..1. Of a batch the first picture, of a video the middle
 * frame.
 */
#ifndef KILN_SAMPLER_PREVIEW_H
#define KILN_SAMPLER_PREVIEW_H

#include "kiln/denoiser.h"
#include "latent_space.h"

typedef struct {
    uint32_t every; /* steps; 0: none */
    int has_colours;
    float factor[64][3], bias[3];
    float *latent; /* on the host */
    size_t capacity;
    uint8_t *rgb;
    size_t rgb_capacity;
} preview;

/* Of a model without colours there is none. */
void preview_begin(preview *p, const kiln_call *c, const kiln_model *m);
/* After step i of n. */
void preview_step(preview *p, latent_space *s, const kiln_latent *x, size_t i, size_t n);

#endif
