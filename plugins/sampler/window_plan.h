/* window_plan.h - the windows of a batch of pictures at one level, one after the other, as the MODEL's kiln_windows
 * says.
 */
#ifndef KILN_SAMPLER_WINDOW_PLAN_H
#define KILN_SAMPLER_WINDOW_PLAN_H

#include "conditions.h"
#include "kiln/sampler.h"

typedef struct {
    const kiln_windows *by;
    int64_t pictures, step;
    size_t i;        /* of the window                                             */
    kiln_window now; /* n 0: there is none                                        */
    double *total;   /* [pictures] the weights so far                             */
} window_plan;

/* The step of a sampling that an evaluation at sigma belongs to. */
int64_t window_step(const kiln_sampling *session, double sigma);
/* The first window of the model's, or none. Memory: the call's scratch. */
kiln_status window_first(window_plan *w, const kiln_call *c, const kiln_model *m, const kiln_latent_shape *s,
                         size_t streams, int64_t step);
kiln_status window_next(window_plan *w, const kiln_call *c);
/* The window's weights go to `total`. */
void window_count(window_plan *w);
/* Fails where a picture is in no window. */
kiln_status window_covers(const window_plan *w, const kiln_call *c);
/* 1: the window evaluates the i-th of n entries; NULL: all do. */
int window_has(const window_plan *w, size_t i, size_t n);
/* Fails for what cannot be evaluated in windows: a mask for each picture. */
kiln_status window_takes(const window_plan *w, const kiln_call *c, const condition *entry);

#endif
