/* curves.h - noise levels that are formulas of a few numbers and ask no model.
 *
 * Each writes its levels, high to low, into out[steps + 1] and returns how many there are. linspace(a, b, 1) is a.
 */
#ifndef KILN_SAMPLER_CURVES_H
#define KILN_SAMPLER_CURVES_H

#include <stddef.h>

/* sigma^(1/rho) evenly spaced, then 0: Karras et al. 2022, eq. 5. */
size_t curve_karras(size_t steps, double most, double least, double rho, double *out);
/* log sigma = log least + r^rho log(most/least), r from 1 to 0, then 0: k-diffusion; rho 1 is "exponential". */
size_t curve_polyexponential(size_t steps, double most, double least, double rho, double *out);
/* Quantiles of a Laplace law of log sigma about mu, held between least and most; `steps` levels without a 0 at the end:
 * Hang et al. 2024 (Improved noise schedule for diffusion training), table 1, as ComfyUI reads it. */
size_t curve_laplace(size_t steps, double most, double least, double mu, double beta, double *out);
/* sigma(t) = sqrt(exp(beta_d t^2/2 + beta_min t) - 1), t from 1 to eps, then 0: Song et al. 2021 (VP SDE). */
size_t curve_vp(size_t steps, double beta_d, double beta_min, double eps, double *out);
/* A table of n levels read at steps + 1 places, log sigma linear in between; the last becomes 0. */
size_t curve_table(size_t steps, const double *table, size_t n, double *out);

#endif
