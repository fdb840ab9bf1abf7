/* latent.h - the rows of latent.c, latent_shape.c and latent_join.c. */
#ifndef KILN_NODES_LATENT_H
#define KILN_NODES_LATENT_H

#include "kiln/plugin.h"

enum { LATENT_RANK_MAX = 5, LATENT_SIZE_MAX = 80 };

/* "2 pictures of 64x48 cells of 4 channels", for messages; returns `out`. */
const char *latent_size_text(const kiln_tensor *samples, char out[LATENT_SIZE_MAX]);

/* latent.c: arithmetic and batches */
extern const kiln_node node_empty_latent, node_latent_add, node_latent_subtract, node_latent_multiply,
    node_latent_interpolate, node_latent_blend, node_latent_from_batch, node_repeat_latent_batch, node_latent_batch,
    node_latent_batch_seed, node_set_noise_mask;
/* latent_shape.c: where the cells go */
extern const kiln_node node_latent_upscale, node_latent_upscale_by, node_latent_flip, node_latent_rotate,
    node_latent_crop, node_latent_composite, node_latent_composite_masked;
/* latent_join.c: side by side, one after the other in time */
extern const kiln_node node_latent_concat, node_latent_cut;
/* latent_operation.c, latent_list.c, latent_file.c */
extern const kiln_node node_latent_tonemap, node_latent_sharpen, node_latent_apply, node_latent_apply_cfg,
    node_rebatch_latents, node_batch_latents, node_trim_video, node_save_latent, node_load_latent;
/* latent_frames.c */
extern const kiln_node node_empty_sd3_latent, node_latent_cut_to_batch, node_replace_video_frames;

#endif
