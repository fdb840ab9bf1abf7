/* latent_plugin.c - the entry table of the latent plugin: nodes that make and change latents. */
#include "latent.h"

KILN_PLUGIN("org.kiln.latent", KILN_PLUGIN_VERSION, "MIT", &node_empty_latent, &node_latent_add, &node_latent_subtract,
            &node_latent_multiply, &node_latent_interpolate, &node_latent_blend, &node_latent_from_batch,
            &node_repeat_latent_batch, &node_latent_batch, &node_latent_batch_seed, &node_set_noise_mask,
            &node_latent_upscale, &node_latent_upscale_by, &node_latent_flip, &node_latent_rotate, &node_latent_crop,
            &node_latent_composite, &node_latent_composite_masked, &node_latent_concat, &node_latent_cut,
            &node_latent_tonemap, &node_latent_sharpen, &node_latent_apply, &node_latent_apply_cfg,
            &node_rebatch_latents, &node_batch_latents, &node_trim_video, &node_save_latent, &node_load_latent,
            &node_empty_sd3_latent, &node_latent_cut_to_batch, &node_replace_video_frames);
