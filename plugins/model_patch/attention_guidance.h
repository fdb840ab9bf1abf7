/* attention_guidance.h - guidance by what attention does: PAG (a guess with the attention of the middle block taken
 * away, to move away from) and NAG (attention's results moved away from those of the negative).
 */
#ifndef KILN_MODEL_PATCH_ATTENTION_GUIDANCE_H
#define KILN_MODEL_PATCH_ATTENTION_GUIDANCE_H

#include "model_patch.h"

/* Perturbed-attention guidance, Ahn et al. 2024 (arXiv:2403.17377): x0 + scale (positive - a guess under the same
 * conditioning in which self-attention of the middle block gives its values). One more evaluation a step. NULL: no
 * memory. */
model_patch *pag_new(double scale);

/* Normalized attention guidance, Chen et al. 2025 (arXiv:2505.21179), at each self-attention, as ComfyUI's NAGuidance:
 * z = scale positive - (scale - 1) negative, its size held below tau times the positive's, mixed with that by alpha.
 * It acts where both are evaluated in one batch. NULL: no memory. */
model_patch *nag_new(double scale, double alpha, double tau);

#endif
