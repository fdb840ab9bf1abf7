/* upscale_stripes.h - a picture enlarged stage by stage, each stage stripe after stripe: the numbers of the whole
 * picture but for rounding, the memory of a few rows.
 *
 * A stripe reads as many rows more as its stage's convolutions reach, so there are no seams. What stages keep for each
 * other lies in a file (kiln_host.spill), so it costs disk and no memory.
 */
#ifndef KILN_NODES_UPSCALE_STRIPES_H
#define KILN_NODES_UPSCALE_STRIPES_H

#include "upscale_work.h"

typedef struct upscale_stripes upscale_stripes; /* lives as long as the call */

/* Finds how high the stripes of each stage may be. The upscaler says what its stages are (n_stage > 0). */
kiln_status upscale_stripes_new(upscale_work *u, upscale_stripes **out);
uint64_t upscale_stripes_runs(const upscale_stripes *s);
/* One picture. Both may be NULL in an estimate. */
kiln_status upscale_stripes_run(upscale_stripes *s, const float *x, float *y);

#endif
