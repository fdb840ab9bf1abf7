/* model_patch_nodes.h - the rows of this folder. */
#ifndef KILN_NODES_MODEL_PATCH_NODES_H
#define KILN_NODES_MODEL_PATCH_NODES_H

#include "kiln/plugin.h"

extern const kiln_node node_apg, node_cfg_zero_star, node_cfg_norm, node_renorm_cfg, node_tcfg, node_mahiro,
    node_score_rescaling, node_fresca, node_pag, node_sag, node_seg, node_nag,
    node_epsilon_scaling;                                              /* guidance_nodes.c */
extern const kiln_node node_video_linear_cfg, node_video_triangle_cfg; /* video_guidance_nodes.c */
extern const kiln_node node_free_u, node_free_u_v2, node_hyper_tile, node_tome, node_deep_shrink; /* unet_nodes.c */
extern const kiln_node node_self_attention_multiply, node_cross_attention_multiply, node_temporal_attention_multiply,
    node_clip_attention_multiply; /* attention_multiply_nodes.c */
extern const kiln_node node_model_merge_simple, node_model_merge_blocks, node_model_merge_subtract,
    node_model_merge_add, node_clip_merge_simple, node_clip_merge_subtract, node_clip_merge_add; /* merge_nodes.c */
extern const kiln_node node_model_merge_sd1, node_model_merge_sd2, node_model_merge_sdxl;        /* merge_blocks.c */

#endif
