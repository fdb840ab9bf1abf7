/* sampler_plugin.c - the entry table of the sampler plugin: samplers, schedules, guiders, kiln.sampling/1, and the
 * nodes round them. */
#include "guider_registry.h"
#include "guiders.h"
#include "samplers.h"
#include "sampling_api.h"
#include "sampler_nodes.h"
#include "schedules.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampler_api *api = host->ability(KILN_SAMPLER_ABILITY);
    if (!api) return KILN_ERR_UNSUPPORTED;
    for (size_t i = 0; i < sampler_row_count; i++) {
        kiln_status status = api->register_sampler(sampler_rows[i]);
        if (status != KILN_OK) return status;
    }
    for (size_t i = 0; i < schedule_row_count; i++) {
        kiln_status status = api->register_schedule(schedule_rows[i]);
        if (status != KILN_OK) return status;
    }
    guider_registry_open(host);
    for (size_t i = 0; i < guider_row_count; i++) {
        kiln_status status = guider_register(guider_rows[i]);
        if (status != KILN_OK) return status;
    }
    return host->provide(KILN_SAMPLING_ABILITY, &sampling_api);
}

KILN_PLUGIN_OPEN("org.kiln.sampler", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_ksampler, &node_ksampler_advanced,
                 &node_sampler_custom, &node_sampler_custom_advanced, &node_random_noise, &node_disable_noise,
                 &node_basic_guider, &node_cfg_guider, &node_dual_guider, &node_models_guider, &node_perp_guider,
                 &node_add_noise, &node_basic_scheduler, &node_karras_scheduler, &node_exponential_scheduler,
                 &node_polyexponential_scheduler, &node_laplace_scheduler, &node_vp_scheduler, &node_beta_scheduler,
                 &node_turbo_scheduler, &node_align_scheduler, &node_gits_scheduler, &node_optimal_scheduler,
                 &node_split_sigmas, &node_split_sigmas_denoise, &node_flip_sigmas, &node_set_first_sigma,
                 &node_extend_sigmas, &node_manual_sigmas, &node_percent_to_sigma, &node_sampler_select,
                 &node_sampler_euler_ancestral, &node_sampler_euler_ancestral_cfgpp, &node_sampler_euler_cfgpp,
                 &node_sampler_dpmpp_2s, &node_sampler_dpmpp_2m_sde, &node_sampler_dpmpp_3m_sde,
                 &node_sampler_dpmpp_sde, &node_sampler_lms, &node_sampler_dpm_adaptive, &node_sampler_er_sde,
                 &node_sampler_seeds_2, &node_sampler_lcm, &node_sampler_lcm_upscale, &node_sampler_sa_solver,
                 &node_sampling_discrete, &node_sampling_edm, &node_sampling_v, &node_sampling_sd3, &node_sampling_aura,
                 &node_sampling_flux, &node_rescale_cfg, &node_perp_neg, &node_differential, &node_context_windows,
                 &node_model_range, &node_model_range_step, &node_image_add_noise);
