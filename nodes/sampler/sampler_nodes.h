/* sampler_nodes.h - the rows of this folder. */
#ifndef KILN_NODES_SAMPLER_NODES_H
#define KILN_NODES_SAMPLER_NODES_H

#include "kiln/plugin.h"

extern const kiln_node node_ksampler, node_ksampler_advanced; /* ksampler.c         */
extern const kiln_node node_sampler_custom, node_sampler_custom_advanced, node_random_noise, node_disable_noise,
    node_basic_guider, node_cfg_guider, node_dual_guider, node_models_guider, node_perp_guider,
    node_add_noise; /* custom_sampling.c  */
extern const kiln_node node_basic_scheduler, node_karras_scheduler, node_exponential_scheduler,
    node_polyexponential_scheduler, node_laplace_scheduler, node_vp_scheduler, node_beta_scheduler,
    node_turbo_scheduler, node_align_scheduler;                     /* schedulers.c */
extern const kiln_node node_gits_scheduler, node_optimal_scheduler; /* scheduler_tables.c */
extern const kiln_node node_split_sigmas, node_split_sigmas_denoise, node_flip_sigmas, node_set_first_sigma,
    node_extend_sigmas, node_manual_sigmas, node_percent_to_sigma; /* sigmas.c  */
extern const kiln_node node_sampler_select, node_sampler_euler_ancestral, node_sampler_euler_ancestral_cfgpp,
    node_sampler_euler_cfgpp, node_sampler_dpmpp_2s, node_sampler_dpmpp_2m_sde, node_sampler_dpmpp_3m_sde,
    node_sampler_dpmpp_sde, node_sampler_lms, node_sampler_dpm_adaptive, node_sampler_er_sde, node_sampler_seeds_2,
    node_sampler_lcm, node_sampler_lcm_upscale, node_sampler_sa_solver; /* sampler_select.c */
extern const kiln_node node_sampling_discrete, node_sampling_edm, node_sampling_v, node_sampling_sd3,
    node_sampling_aura, node_sampling_flux, node_rescale_cfg, node_perp_neg; /* model_sampling_nodes.c   */
extern const kiln_node node_differential;                                    /* differential_diffusion.c */
extern const kiln_node node_context_windows;                                 /* context_windows_node.c */
extern const kiln_node node_model_range, node_model_range_step;              /* model_range_nodes.c      */

/* image_noise.c */
extern const kiln_node node_image_add_noise;

#endif
