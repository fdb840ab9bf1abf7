/* model_guidance_run.h - lets the guidance that hangs on a guider's first model (kiln_guidance) act in an evaluation.
 *
 * Some acts before the guesses are combined, one may stand for their combination, the rest acts on what came out. What
 * guidance remembers lies in the sampling's slots, so that a saved state has it; within an evaluation it works on a
 * copy, for an evaluation may be made twice (a result that is not finite).
 */
#ifndef KILN_SAMPLER_MODEL_GUIDANCE_RUN_H
#define KILN_SAMPLER_MODEL_GUIDANCE_RUN_H

#include "denoise.h"

/* After the guider was read. */
kiln_status model_guidance_open(evaluator *e);
/* Round every combination of guesses: begin() before, end() when its result is to be used. */
kiln_status model_guidance_begin(evaluator *e);
kiln_status model_guidance_end(evaluator *e);

/* kiln_guider_step.guided and .patch; self is the evaluator. */
kiln_status model_guidance_guided(const kiln_guider_step *g, kiln_latent *positive, kiln_latent *negative, double cfg,
                                  kiln_latent *out);
kiln_status model_guidance_patch(const kiln_guider_step *g, kiln_latent *positive, kiln_latent *negative, double cfg,
                                 kiln_latent *out);

#endif
