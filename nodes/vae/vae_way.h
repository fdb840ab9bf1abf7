/* vae_way.h - whole, in parts, in stripes or in tiles: how a picture goes through the autoencoder in the memory there
 * is.
 *
 * A video goes part by part in time where its autoencoder can, in as long parts as that says.
 *
 * A picture that does not fit goes in stripes of rows (vae_stripes.h), which gives the same numbers but for rounding;
 * where that does not fit either, or the autoencoder is none that can, in the largest tile that does, of a few. What
 * becomes of it depends on the memory then: the node says that it is not to be kept, and says to people what it does.
 * An estimate finds the same.
 */
#ifndef KILN_NODES_VAE_WAY_H
#define KILN_NODES_VAE_WAY_H

#include "vae_parts.h"
#include "vae_stripes.h"
#include "vae_tiles.h"

typedef struct {
    int tiled;
    vae_tiling tiling;
    vae_stripes *stripes; /* NULL: not in stripes */
    int64_t part_cells;   /* 0: not in parts */
    int64_t at_once;      /* pictures of a batch; in tiles and stripes 1 */
} vae_way;

/* For n pictures (or videos) of the shape `one`, also how many runs are left. asked: the user's tiles, or NULL. */
kiln_status vae_choose_way(vae_converter *v, const vae_shape *one, int64_t n, const vae_tiling *asked, vae_way *out);
/* One run of it: at_once pictures or fewer at x give y and, where the converter wants it, the log-variance. */
kiln_status vae_go(vae_converter *v, const vae_way *w, const vae_shape *in, float *x, float *y, float *variance);

#endif
