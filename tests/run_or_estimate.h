/* run_or_estimate.h - for tests that run the same programs in an estimate first. */
#ifndef KILN_TESTS_RUN_OR_ESTIMATE_H
#define KILN_TESTS_RUN_OR_ESTIMATE_H

#include "backend/runtime.h"

static int estimating; /* 1: run_or_estimate computes nothing */

static inline void set_estimating(runtime *rt, int on)
{
    estimating = on;
    if (on) runtime_estimate_reset(rt);
}

/* program_run, or program_estimate with the same arguments. */
static inline kiln_status run_or_estimate(kiln_program *p, const kiln_bind *in, size_t n_in, const kiln_bind *out,
                                          size_t n_out, int (*cancelled)(void *), void *arg, error *e)
{
    return estimating ? program_estimate(p, in, n_in, out, n_out, e)
                      : program_run(p, in, n_in, out, n_out, cancelled, arg, e);
}

#endif
