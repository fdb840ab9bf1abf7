/* vae_pixels.h - an IMAGE encoded: its middle, whole or in tiles, by VAEEncode and its relatives. */
#ifndef KILN_NODES_VAE_PIXELS_H
#define KILN_NODES_VAE_PIXELS_H

#include "vae_tiles.h"

/* What becomes of an IMAGE of n pictures: `pixels` of each, or of the one video that all frames are. */
typedef struct {
    vae_shape pixels;  /* of what is encoded: n is 1 for a video */
    int64_t top, left; /* of the part that is taken              */
} vae_taking;

/* Fails when the picture is too small, and warns when it is cut. `node`: its name, for the warning. */
kiln_status vae_take(const vae_converter *v, const kiln_tensor *image, const char *node, vae_taking *out);
/* Encodes the image; tiling NULL: each picture whole. *samples is the mean; `variance`, where the converter wants it,
 * memory of as many numbers. */
kiln_status vae_encode_image(vae_converter *v, const vae_tiling *tiling, const kiln_tensor *image,
                             const vae_taking *taking, kiln_value **samples, float *variance);

#endif
