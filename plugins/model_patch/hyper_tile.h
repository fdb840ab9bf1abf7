/* hyper_tile.h - HyperTile: self-attention in tiles at the highest resolutions, as ComfyUI's node does it.
 *
 * Its details are kept, for the same picture: queries are cut into tiles, keys and values into as many runs of tokens;
 * of a picture that is not square, rows and columns are counted the other way round; and the number of tiles is the
 * first of swap_size that divide, but the last. Where ComfyUI draws among several at each step, here each attention
 * has one for all steps, drawn from its name: what is recorded cannot change from step to step.
 */
#ifndef KILN_MODEL_PATCH_HYPER_TILE_H
#define KILN_MODEL_PATCH_HYPER_TILE_H

#include "model_patch.h"

typedef struct {
    int64_t tile_size, swap_size, max_depth; /* tile_size in pixels */
    int scale_depth;
} hyper_tile_settings;

/* NULL: no memory. */
model_patch *hyper_tile_new(const hyper_tile_settings *s);

/* Into how many parts a side of `cells` is cut: each at least `least` long, one of the first `options` such numbers. */
int64_t hyper_tile_parts(int64_t cells, int64_t least, int64_t options, const char *place);

#endif
