/* guidance_by_cell.h - guidance that looks at single cells of a latent: CFGNorm, Mahiro. Vector ops cannot, so it works
 * on copies on the host: a few hundred kilobytes a step. For kiln_guidance.apply.
 */
#ifndef KILN_MODEL_PATCH_GUIDANCE_BY_CELL_H
#define KILN_MODEL_PATCH_GUIDANCE_BY_CELL_H

#include "kiln/denoiser.h"

/* What was combined, cell by cell no longer (over channels) than the positive guess, times strength. */
kiln_status guidance_norm_after(double strength, const kiln_guesses *g);
/* Stands for the combination: that of the noise of the guesses, cell by cell as long as the positive one's; strength is
 * the share of it, and the rest is the usual sum. */
kiln_status guidance_norm_instead(double strength, const kiln_guesses *g);
/* ComfyUI's Mahiro: towards cfg times the positive guess, the more the less that differs from cfg times the negative
 * one in direction. */
kiln_status guidance_mahiro(const kiln_guesses *g);

#endif
