/* samplers.h - the samplers of this plugin, as rows of "kiln.sampler/1". */
#ifndef KILN_SAMPLER_SAMPLERS_H
#define KILN_SAMPLER_SAMPLERS_H

#include "kiln/sampler.h"

extern const kiln_sampler *const sampler_rows[];
extern const size_t sampler_row_count;

#endif
