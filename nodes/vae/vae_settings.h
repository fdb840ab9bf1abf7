/* vae_settings.h - tile sizes as VAEDecodeTiled and VAEEncodeTiled take them, in pixels and frames, and as tilings of
 * cells. Names, defaults and what is made of odd sizes are ComfyUI's. */
#ifndef KILN_NODES_VAE_SETTINGS_H
#define KILN_NODES_VAE_SETTINGS_H

#include "kiln/kit.h"
#include "vae_tiles.h"

typedef struct {
    int64_t tile_size, overlap, temporal_size, temporal_overlap;
} tile_params;

#define TILE_PARAM(field_, default_, least_, step_, doc_)                                                              \
    {                                                                                                                  \
        .name = #field_, .type = KILN_P_INT, .offset = offsetof(tile_params, field_), .def = (default_),               \
        .min = (least_), .max = 4096, .step = (step_), .doc = (doc_)                                                   \
    }
#define TILE_PARAMS(step_)                                                                                             \
    TILE_PARAM(tile_size, 512, 64, step_, "Pixels of a tile's sides."),                                                \
        TILE_PARAM(overlap, 64, 0, 32, "Pixels that a tile shares with its neighbour."),                               \
        TILE_PARAM(temporal_size, 64, 8, 4, "Of a video: frames of a tile."),                                          \
        TILE_PARAM(temporal_overlap, 8, 4, 4, "Of a video: frames that a tile shares with the next.")

/* In latent cells, and in pixels. */
kiln_status vae_tiling_decode(const vae_converter *v, const tile_params *p, vae_tiling *out);
kiln_status vae_tiling_encode(const vae_converter *v, const tile_params *p, vae_tiling *out);

#endif
