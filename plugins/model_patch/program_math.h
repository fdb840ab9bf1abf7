/* program_math.h - what hooks compute: a quotient, a mean, a size, a product with a constant. */
#ifndef KILN_MODEL_PATCH_PROGRAM_MATH_H
#define KILN_MODEL_PATCH_PROGRAM_MATH_H

#include "kiln/hook.h"

/* a / b; 0 where b is 0. */
kiln_t program_quotient(const kiln_recording *r, kiln_t a, kiln_t b);
/* max(x, least) of numbers */
kiln_t program_at_least(const kiln_recording *r, kiln_t x, float least);
/* a - b of one shape */
kiln_t program_minus(const kiln_recording *r, kiln_t a, kiln_t b);
/* x [...,C] -> [...,1]: the mean over channels, of x or of |x|. */
kiln_t program_mean(const kiln_recording *r, kiln_t x);
kiln_t program_mean_size(const kiln_recording *r, kiln_t x);
/* x [...,I] -> [...,O] by a constant [O,I] */
kiln_t program_product(const kiln_recording *r, kiln_t x, const float *by, int64_t out, int64_t in);
/* Dimension i of x; 0: it has none. */
int64_t program_dim(const kiln_recording *r, kiln_t x, uint32_t i);
uint32_t program_rank(const kiln_recording *r, kiln_t x);

#endif
