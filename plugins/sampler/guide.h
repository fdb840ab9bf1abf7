/* guide.h - what stands between a sampler and a network: x at a noise level -> x0.
 *
 * Scales the input, turns sigma into a timestep, evaluates every conditioning that holds (all of one
 * size as one batch, conditional and unconditional together), blends them by area, and applies
 * classifier-free guidance: x0 = uncond + cfg (cond - uncond).
 */
#ifndef KILN_SAMPLER_GUIDE_H
#define KILN_SAMPLER_GUIDE_H

#include "conditions.h"

typedef struct {
    const kiln_call *call;
    const kiln_model *model;
    conditions positive, negative;
    int64_t batch, height, width, channels;
    double cfg;
    int always_unconditional; /* CFG++ wants it even at cfg 1 */
    float *positive_out, *negative_out, *total; /* [batch,height,width,channels], [height,width] */
    float *work;
    size_t work_room;
} guide;

kiln_status guide_init(guide *g); /* after the fields above the buffers are set */
/* x, out: [batch,height,width,channels]; out may be x. */
kiln_status guide_denoise(guide *g, const float *x, double sigma, float *out);

#endif
