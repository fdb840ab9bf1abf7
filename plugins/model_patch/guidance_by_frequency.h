/* guidance_by_frequency.h - FreSca: Huang et al. 2025 (arXiv:2504.02154). The difference of the guesses with its low
 * and its high frequencies scaled, before they are combined. For kiln_guidance.apply; works on copies on the host.
 */
#ifndef KILN_MODEL_PATCH_GUIDANCE_BY_FREQUENCY_H
#define KILN_MODEL_PATCH_GUIDANCE_BY_FREQUENCY_H

#include "kiln/denoiser.h"

typedef struct {
    double scale_low, scale_high;
    int64_t freq_cutoff; /* frequencies from -freq_cutoff to freq_cutoff - 1 are low, in rows and columns */
} frequency_settings;

kiln_status guidance_frequencies(const frequency_settings *s, const kiln_guesses *g);

#endif
