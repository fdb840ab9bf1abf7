/* pair_evaluator.h - kiln_sampling_api.evaluate: any model under any conditioning, on latents of a sampling. */
#ifndef KILN_SAMPLER_PAIR_EVALUATOR_H
#define KILN_SAMPLER_PAIR_EVALUATOR_H

#include "sample_session.h"

kiln_status pair_evaluate(kiln_session *s, const kiln_model_evaluation *e, kiln_latent *out);
/* After a change of size: conditionings are read anew. */
kiln_status pair_evaluators_resize(kiln_session *s);

#endif
