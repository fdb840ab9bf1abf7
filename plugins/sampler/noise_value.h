/* noise_value.h - NOISE values: maps { seed, none?, samples?, source?, blocks? }. */
#ifndef KILN_SAMPLER_NOISE_VALUE_H
#define KILN_SAMPLER_NOISE_VALUE_H

#include "kiln/sampling.h"

/* What a caller's noise says; KILN_ERR_BUG with a sentence when that does not say its size. */
kiln_status noise_copy(const kiln_call *c, const kiln_noise *given, kiln_noise *out);
kiln_status noise_new(const kiln_call *c, const kiln_noise *noise, kiln_value **out);
kiln_status noise_read(const kiln_call *c, const kiln_value *value, kiln_noise *out);

#endif
