/* model_patch_plugin.c - the entry table of the model_patch plugin: nodes that change what a UNet computes, or what is
 * made of its guesses, and nodes that merge weights. */
#include "model_patch_nodes.h"

KILN_PLUGIN("org.kiln.model_patch", KILN_PLUGIN_VERSION, "MIT", &node_apg, &node_cfg_zero_star, &node_cfg_norm,
            &node_renorm_cfg, &node_tcfg, &node_mahiro, &node_score_rescaling, &node_fresca, &node_pag, &node_sag,
            &node_seg, &node_nag, &node_epsilon_scaling, &node_video_linear_cfg, &node_video_triangle_cfg, &node_free_u,
            &node_free_u_v2, &node_hyper_tile, &node_tome, &node_deep_shrink, &node_self_attention_multiply,
            &node_cross_attention_multiply, &node_temporal_attention_multiply, &node_clip_attention_multiply,
            &node_model_merge_simple, &node_model_merge_blocks, &node_model_merge_subtract, &node_model_merge_add,
            &node_clip_merge_simple, &node_clip_merge_subtract, &node_clip_merge_add, &node_model_merge_sd1,
            &node_model_merge_sd2, &node_model_merge_sdxl);
