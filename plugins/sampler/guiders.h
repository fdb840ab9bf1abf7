/* guiders.h - the kinds of GUIDER that kiln brings, as rows of "kiln.sampling/1". */
#ifndef KILN_SAMPLER_GUIDERS_H
#define KILN_SAMPLER_GUIDERS_H

#include "kiln/sampling.h"

extern const kiln_guider *const guider_rows[];
extern const size_t guider_row_count;

#endif
