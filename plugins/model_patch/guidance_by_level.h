/* guidance_by_level.h - guidance that moves the result towards or away from the noisy latent, by a factor that follows
 * from the noise level alone. For kiln_guidance.apply.
 */
#ifndef KILN_MODEL_PATCH_GUIDANCE_BY_LEVEL_H
#define KILN_MODEL_PATCH_GUIDANCE_BY_LEVEL_H

#include "kiln/denoiser.h"

/* The score times (s v + 1) / (s v / k + 1), s the signal's power over the noise's, v = sigma^2: temporal score
 * rescaling, arXiv:2510.01184, equation 6. */
kiln_status guidance_score_rescaling(double k, double sigma, const kiln_guesses *g);
/* The guessed noise divided by `factor`: Ning et al. 2023, arXiv:2308.15321. */
kiln_status guidance_epsilon_scaling(double factor, const kiln_guesses *g);

#endif
