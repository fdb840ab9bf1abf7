/* schedules.h - the nine schedules ComfyUI names, as rows of "kiln.sampler/1". */
#ifndef KILN_SAMPLER_SCHEDULES_H
#define KILN_SAMPLER_SCHEDULES_H

#include "kiln/sampler.h"

extern const kiln_schedule *const schedule_rows[];
extern const size_t schedule_row_count;

/* The beta schedule with parameters of its own, both above 0; fewer levels than steps + 1 where quantiles fall
 * together. */
size_t schedule_beta(const kiln_schedule_input *in, double alpha, double beta, double *out, size_t capacity);

#endif
