/* rates.h - how fast a device computes a GEMM and how fast weights reach it: a quick look, for estimates. Layer:
 * backend.
 */
#ifndef KILN_BACKEND_RATES_H
#define KILN_BACKEND_RATES_H

#include "backend/runtime.h"

typedef struct {
    double flops; /* a second, of a GEMM of 1024 x 1024 x 1024 in the runtime's precision */
    double
        bytes; /* a second, of weights from the host's memory to the device's: a copy on the host, or over the link */
} device_rates;

/* Takes some tens of milliseconds and 64 MB beside the budget. [any thread, no program running] */
kiln_status device_rates_measure(runtime *rt, device_rates *out, error *e);

#endif
