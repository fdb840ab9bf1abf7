/* beta_quantile.h - the inverse of the regularised incomplete beta function. */
#ifndef KILN_SAMPLER_BETA_QUANTILE_H
#define KILN_SAMPLER_BETA_QUANTILE_H

/* x with I_x(a, b) = p; p in 0..1, a and b > 0. Accurate to about 1e-12. */
double beta_quantile(double p, double a, double b);

#endif
