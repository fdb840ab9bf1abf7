/* free_u.h - FreeU: Si et al. 2023 (arXiv:2309.11497). What comes up through a UNet is scaled, and the low frequencies
 * of the skip connections beside it are damped. Both versions, as ComfyUI has them: at the two lowest resolutions, told
 * by width (four and two times the UNet's own, a quarter of its time embedding's).
 */
#ifndef KILN_MODEL_PATCH_FREE_U_H
#define KILN_MODEL_PATCH_FREE_U_H

#include "model_patch.h"

/* numbers: b1, b2 (what comes up), s1, s2 (skips); version 1 or 2. NULL: no memory. */
model_patch *free_u_new(const double number[4], int version);

/* x [N,H,W,C] with the frequencies -1 and 0 along rows and columns times `scale`. */
kiln_t free_u_filter(const kiln_recording *r, kiln_t x, double scale);

#endif
