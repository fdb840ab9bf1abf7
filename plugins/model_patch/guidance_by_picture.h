/* guidance_by_picture.h - guidance that is a linear combination of the guesses, with coefficients that inner products
 * over each picture give: APG, CFGZeroStar, TCFG, RenormCFG. For kiln_guidance.apply; cells are never looked at, so
 * latents stay where they are.
 */
#ifndef KILN_MODEL_PATCH_GUIDANCE_BY_PICTURE_H
#define KILN_MODEL_PATCH_GUIDANCE_BY_PICTURE_H

#include "kiln/denoiser.h"

/* Adaptive projected guidance, Sadat et al. 2024 (arXiv:2410.02416), as ComfyUI's APG: what the positive guess becomes
 * before the guesses are combined. d = positive - negative, with momentum added to what it was before; no longer than
 * norm_threshold (0: any length); of its part along the positive guess the share eta. */
typedef struct {
    double eta, norm_threshold, momentum;
} apg_settings;
kiln_status guidance_apg(const apg_settings *by, const kiln_guesses *g);

/* CFG-Zero*, Fan et al. 2025 (arXiv:2503.18886), section 3.2, as ComfyUI's CFGZeroStar: the negative guess scaled to
 * where it is nearest to the positive one; acts on what was combined. */
kiln_status guidance_zero_star(const kiln_guesses *g);

/* Tangential damping, Kwon et al. 2025 (arXiv:2503.18137): the negative guess becomes its part along the direction that
 * both guesses have in common, before they are combined. */
kiln_status guidance_tangential(const kiln_guesses *g);

/* Renormalised guidance of Lumina-Image 2.0 (Qin et al. 2025, arXiv:2503.21758), as ComfyUI's RenormCFG, in place of
 * n + cfg (p - n): each picture's result is at most renorm_cfg times as long as its positive guess (0: any length). At
 * cfg_trunc and above the positive guess itself. */
typedef struct {
    double cfg_trunc, renorm_cfg;
} renorm_settings;
kiln_status guidance_renorm(const renorm_settings *by, const kiln_guesses *g);

#endif
