/* perturbed_guidance.h - how the difference of the positive guess and of one in which something is perturbed is added,
 * under the names that the sd-perturbed-attention nodes have for it. On copies on the host where cells are looked at.
 */
#ifndef KILN_MODEL_PATCH_PERTURBED_GUIDANCE_H
#define KILN_MODEL_PATCH_PERTURBED_GUIDANCE_H

#include "kiln/denoiser.h"

enum { RESCALE_FULL, RESCALE_PARTIAL, RESCALE_SNF };

/* d = scale (positive - perturbed).
 * full, partial: x0 += (rescale f + 1 - rescale) d, picture by picture, where f takes the spread of x0 + d, or of
 *     positive + d, to that of the positive guess (Lin et al. 2023, arXiv:2305.08891, on the guidance alone).
 * snf: negative + the one of x0 - negative and d that is the more salient in each number: whose size, blurred by 3x3
 *     cells, has the larger softmax over its plane (Wang et al. 2023, arXiv:2311.10329, section 3.3). Without a
 * negative guess x0 += d. */
typedef struct {
    double scale, rescale;
    int mode; /* RESCALE_... */
} perturbed_settings;

kiln_status perturbed_guidance(const perturbed_settings *by, const kiln_guesses *g, kiln_latent *perturbed);

#endif
