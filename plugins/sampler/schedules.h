/* schedules.h - the nine schedules ComfyUI names, as rows of "kiln.sampler/1". */
#ifndef KILN_SAMPLER_SCHEDULES_H
#define KILN_SAMPLER_SCHEDULES_H

#include "kiln/sampler.h"

extern const kiln_schedule *const schedule_rows[];
extern const size_t schedule_row_count;

/* Where sigma stands in the ascending table, by linear interpolation in log sigma, 0 .. n-1
 * (k-diffusion's DiscreteSchedule.sigma_to_t), and back. */
double sigma_to_t(const double *table, size_t n, double sigma);
double t_to_sigma(const double *table, size_t n, double t);

#endif
