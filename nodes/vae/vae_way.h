/* vae_way.h - whole, or in tiles of its own accord: how a picture goes through the autoencoder in the memory there is.
 *
 * A picture that does not fit goes in the largest tile that does, of a few. What becomes of it depends on the memory
 * then: the node says that it is not to be kept, and says to people what it does. An estimate finds the same.
 */
#ifndef KILN_NODES_VAE_WAY_H
#define KILN_NODES_VAE_WAY_H

#include "vae_tiles.h"

typedef struct {
    int tiled;
    vae_tiling tiling;
    int64_t at_once; /* pictures of a batch; in tiles 1 */
} vae_way;

/* For n pictures (or videos) of the shape `one`, also how many runs are left. asked: the user's tiles, or NULL. */
kiln_status vae_choose_way(vae_converter *v, const vae_shape *one, int64_t n, const vae_tiling *asked, vae_way *out);

#endif
