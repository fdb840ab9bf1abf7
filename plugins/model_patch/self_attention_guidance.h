/* self_attention_guidance.h - SAG: guidance away from a guess whose salient parts are blurred (Hong et al. 2023,
 * arXiv:2210.00939). */
#ifndef KILN_MODEL_PATCH_SELF_ATTENTION_GUIDANCE_H
#define KILN_MODEL_PATCH_SELF_ATTENTION_GUIDANCE_H

#include "model_patch.h"

/* NULL: no memory. */
model_patch *sag_new(double scale, double blur_sigma);

#endif
