/* samplers.c - the list of samplers, in ComfyUI's order, then lcm_upscale, which ComfyUI has as a node alone. Each is
 * in the file of its family: samplers_euler.c (first order, LCM), samplers_heun.c, samplers_dpm.c (DPM-Solver, with
 * levels of its own), samplers_dpmpp.c (DPM-Solver++), samplers_sde.c (its SDE forms), samplers_multistep.c (one
 * evaluation a step and history), samplers_exponential.c (SEEDS, ER-SDE), samplers_adams.c (SA-Solver),
 * samplers_unipc.c.
 */
#include "samplers.h"

#define ROWS                                                                                                           \
    ROW(euler)                                                                                                         \
    ROW(euler_cfg_pp)                                                                                                  \
    ROW(euler_ancestral)                                                                                               \
    ROW(euler_ancestral_cfg_pp)                                                                                        \
    ROW(heun)                                                                                                          \
    ROW(heunpp2)                                                                                                       \
    ROW(exp_heun_2_x0)                                                                                                 \
    ROW(exp_heun_2_x0_sde)                                                                                             \
    ROW(dpm_2)                                                                                                         \
    ROW(dpm_2_ancestral)                                                                                               \
    ROW(lms)                                                                                                           \
    ROW(dpm_fast)                                                                                                      \
    ROW(dpm_adaptive)                                                                                                  \
    ROW(dpmpp_2s_ancestral)                                                                                            \
    ROW(dpmpp_2s_ancestral_cfg_pp)                                                                                     \
    ROW(dpmpp_sde)                                                                                                     \
    ROW(dpmpp_sde_gpu)                                                                                                 \
    ROW(dpmpp_2m)                                                                                                      \
    ROW(dpmpp_2m_cfg_pp)                                                                                               \
    ROW(dpmpp_2m_sde)                                                                                                  \
    ROW(dpmpp_2m_sde_gpu)                                                                                              \
    ROW(dpmpp_2m_sde_heun)                                                                                             \
    ROW(dpmpp_2m_sde_heun_gpu)                                                                                         \
    ROW(dpmpp_3m_sde)                                                                                                  \
    ROW(dpmpp_3m_sde_gpu)                                                                                              \
    ROW(ddpm)                                                                                                          \
    ROW(lcm)                                                                                                           \
    ROW(ipndm)                                                                                                         \
    ROW(ipndm_v)                                                                                                       \
    ROW(deis)                                                                                                          \
    ROW(res_multistep)                                                                                                 \
    ROW(res_multistep_cfg_pp)                                                                                          \
    ROW(res_multistep_ancestral)                                                                                       \
    ROW(res_multistep_ancestral_cfg_pp)                                                                                \
    ROW(gradient_estimation)                                                                                           \
    ROW(gradient_estimation_cfg_pp)                                                                                    \
    ROW(er_sde)                                                                                                        \
    ROW(seeds_2) ROW(seeds_3) ROW(sa_solver) ROW(sa_solver_pece) ROW(ddim) ROW(uni_pc) ROW(uni_pc_bh2) ROW(lcm_upscale)

#define ROW(id) extern const kiln_sampler sampler_##id;
ROWS
#undef ROW

#define ROW(id) &sampler_##id,
    const kiln_sampler *const sampler_rows[] = {ROWS};
const size_t sampler_row_count = sizeof sampler_rows / sizeof sampler_rows[0];
