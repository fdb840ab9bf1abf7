/* vae_tiles.h - a picture or video converted in tiles that overlap and fade into one another: the memory of a tile. */
#ifndef KILN_NODES_VAE_TILES_H
#define KILN_NODES_VAE_TILES_H

#include "vae_convert.h"

/* In cells of what goes in: latent cells when decoding, pixels when encoding. Tiles are larger than twice the overlap,
 * a video's frames than the overlap, which is 1 cell at least. */
typedef struct {
    int64_t frames, frame_overlap;
    int64_t side, overlap; /* rows and columns */
    /* 0: as ComfyUI's nodes have it: a picture is the mean of three tilings, of squares, of low and of tall tiles, and
     * tiles fade to their edges. Else one tiling of squares, all of one size; this many cells at a tile's edge inside
     * the picture count nothing, since what lies beyond is missing there, and the rest of the overlap fades. */
    int64_t margin;
} vae_tiling;

/* One picture or video at x gives the other shape at y. */
kiln_status vae_run_tiled(vae_converter *v, const vae_tiling *t, const vae_shape *in, float *x, float *y);
/* *fit: a tile of each tiling can run in the memory that there is. */
kiln_status vae_tiles_fit(vae_converter *v, const vae_tiling *t, const vae_shape *in, int *fit);
/* Bytes that the programs of a tile of each tiling take, with what goes in: the most of them. */
kiln_status vae_tiles_least(vae_converter *v, const vae_tiling *t, const vae_shape *in, uint64_t *bytes);
/* How many runs that are. */
uint64_t vae_tiled_runs(const vae_converter *v, const vae_tiling *t, const vae_shape *in);

#endif
