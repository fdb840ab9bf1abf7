/* rates.h - how fast a device multiplies and how fast weights come to it: a quick look, for forecasts. Layer: backend.
 */
#ifndef KILN_BACKEND_RATES_H
#define KILN_BACKEND_RATES_H

#include "backend/runtime.h"

typedef struct {
    double flops; /* a second, of a dense product of 1024 x 1024 x 1024 in the runtime's precision */
    double bytes; /* a second, from where weights wait to where they are used: the host's memory to itself, or over the
                     link */
} device_rates;

/* Takes some tens of milliseconds and 64 MB beside the budget. [any thread, no program running] */
kiln_status device_rates_measure(runtime *rt, device_rates *out, error *e);

#endif
