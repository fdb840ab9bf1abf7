/* control_apart.h - a control in a program of its own, whose results are inputs of the denoiser's program.
 *
 * What such a network gives, and of which shapes, is known when it has been recorded once; the results stay where
 * programs run.
 */
#ifndef KILN_SAMPLER_CONTROL_APART_H
#define KILN_SAMPLER_CONTROL_APART_H

#include "network.h"

enum { APART_RESULTS_MAX = 64 };

/* One control at one shape. */
typedef struct apart_results {
    struct apart_results *next;
    const kiln_network *network;
    const char *key;
    size_t n;
    struct {
        char place[64], name[48]; /* name: of the denoiser's input, "control.0.result.3" */
        uint32_t rank;
        int64_t dim[KILN_MAX_RANK];
        float *data;
    } result[APART_RESULTS_MAX];
} apart_results;

static inline int control_is_apart(const control_use *u) { return (u->net->network->flags & KILN_NETWORK_APART) != 0; }

/* Runs the control on the batch's x, timestep and its own inputs. `known`: what was found before in this call. */
kiln_status control_apart_run(const kiln_call *c, const network_batch *b, const control_use *u, apart_results **known,
                              const apart_results **out);

#endif
