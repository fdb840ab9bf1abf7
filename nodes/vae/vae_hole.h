/* vae_hole.h - a picture with a hole: what a mask frees becomes grey before it is encoded, so that nothing of it
 * reaches the cells around. Everything is in the call's scratch.
 */
#ifndef KILN_NODES_VAE_HOLE_H
#define KILN_NODES_VAE_HOLE_H

#include "kiln/plugin.h"

/* The masks [n,h,w] at the picture's size. Fails unless there is one, or one for each picture. */
kiln_status vae_hole_mask(const kiln_call *c, const kiln_tensor *mask, const kiln_tensor *image, float **out);
/* They become 0 or 1. `mask`, `image`: what they were made of. */
void vae_hole_round(const kiln_call *c, float *scaled, const kiln_tensor *mask, const kiln_tensor *image);
/* The picture with grey where the masks are 1; `masks` of them. */
kiln_status vae_hollow(const kiln_call *c, const kiln_tensor *image, const float *mask, int64_t masks,
                       kiln_tensor *made);

#endif
