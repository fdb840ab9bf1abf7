/* schedules.h - the nine schedules ComfyUI names, as rows of "kiln.sampler/1". */
#ifndef KILN_SAMPLER_SCHEDULES_H
#define KILN_SAMPLER_SCHEDULES_H

#include "kiln/sampler.h"

extern const kiln_schedule *const schedule_rows[];
extern const size_t schedule_row_count;

/* The beta schedule with parameters of its own, both above 0; fewer levels than steps + 1 where quantiles fall
 * together. */
size_t schedule_beta(const kiln_schedule_input *in, double alpha, double beta, double *out, size_t capacity);

/* Where sigma stands in the ascending table, by linear interpolation in log sigma, 0 .. n-1
 * (k-diffusion's DiscreteSchedule.sigma_to_t), and back. */
double sigma_to_t(const double *table, size_t n, double sigma);
double t_to_sigma(const double *table, size_t n, double t);

#endif
