/* network.h - one run of a model's denoiser network. Its programs are recorded once a shape and kept. */
#ifndef KILN_SAMPLER_NETWORK_H
#define KILN_SAMPLER_NETWORK_H

#include "kiln/model.h"

/* A batch: `pictures` of h x w cells, each with `length` tokens of `width` numbers. */
typedef struct {
    int64_t pictures, h, w, channels, length, width;
} network_batch;

/* x and prediction are on `device`, the others on the host. */
typedef struct {
    uint32_t device;
    float *x;                 /* [pictures, h, w, channels], scaled for the network */
    float *timestep, *tokens; /* [pictures], [pictures, length, width]              */
    float *prediction;        /* as x */
} network_data;

kiln_status network_run(const kiln_call *c, const kiln_model *model, const network_batch *b, const network_data *d);

#endif
