/* smoothed_energy.h - SEG: guidance away from a guess whose self-attention looks through a blur (Hong 2024,
 * arXiv:2408.00760). */
#ifndef KILN_MODEL_PATCH_SMOOTHED_ENERGY_H
#define KILN_MODEL_PATCH_SMOOTHED_ENERGY_H

#include "model_patch.h"
#include "perturbed_guidance.h"
#include "unet_block_list.h"

typedef struct {
    perturbed_settings added;
    double blur_sigma;             /* of the queries, in cells; below 0: each is their mean */
    double sigma_start, sigma_end; /* it acts from the one down to above the other          */
    unet_blocks blocks;            /* whose self-attentions                                 */
} smoothed_energy_settings;

/* NULL: no memory. */
model_patch *smoothed_energy_new(const smoothed_energy_settings *);

#endif
