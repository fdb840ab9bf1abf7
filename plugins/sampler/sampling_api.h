/* sampling_api.h - the table of "kiln.sampling/1", which this plugin provides. */
#ifndef KILN_SAMPLER_SAMPLING_API_H
#define KILN_SAMPLER_SAMPLING_API_H

#include "kiln/sampling.h"

extern const kiln_sampling_api sampling_api;

#endif
