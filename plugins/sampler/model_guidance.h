/* model_guidance.h - the guidance that this plugin hangs on models: RescaleCFG and PerpNeg. */
#ifndef KILN_SAMPLER_MODEL_GUIDANCE_H
#define KILN_SAMPLER_MODEL_GUIDANCE_H

#include "kiln/model.h"

/* x0 = extra + cfg (p - scale q), p = positive - extra, q = the part of (negative - extra) that is perpendicular to p,
 * picture by picture. negative or extra NULL: zero. Armandpour et al. 2023 (Perp-Neg), eq. 8. */
kiln_status perpendicular(const kiln_guesses *g, double scale);

/* The usual guided guess with the spread of the conditional one: x0 = m (s_positive / s_guided) guided + (1 - m)
 * guided, taken of v (flow: of x0), s the standard deviation over a picture. Lin et al. 2023, section 3.4. */
kiln_status rescaled(const kiln_guesses *g, double multiplier);

#endif
