/* mixture.h - a Gaussian mixture in the plane whose denoiser is known in closed form, for any number of points at once.
 *
 * p(x0) = sum_k weight_k N(mean_k, deviation_k^2 I). With noise of level sigma added, the guess of x0 at x is
 *     sum_k r_k(x) (mean_k + s_k^2 (x - mean_k) / (s_k^2 + sigma^2)),  r_k ~ weight_k N(x; mean_k, s_k^2 + sigma^2).
 * Flow: x = (1 - sigma) x0 + sigma noise is (1 - sigma) times x0 with noise of level sigma / (1 - sigma).
 * A latent is x and y of point 0, of point 1, ...
 */
#ifndef TESTS_MIXTURE_H
#define TESTS_MIXTURE_H

#include "sampling_rig.h"

enum { PARTS = 4 };
extern const double mixture_weight[PARTS], mixture_mean[PARTS][2], mixture_deviation[PARTS];

/* rig.guess for it: by the rig's prediction; the unconditional guess is the same one (so CFG++ is its plain form). */
void mixture_guess(const rig *r, const double *x, double sigma, double *d, double *u);
/* x at sigma[last] from x at sigma[0] on the probability flow ODE dx/dsigma = (x - D) / sigma: Runge-Kutta of order 4
 * in log sigma with steps of 1e-3 (error below 1e-12). */
void mixture_flow(double *x, size_t count, double from, double to);
/* mean[2] and covariance[3] (xx, xy, yy) of p(x0) with noise of level sigma. */
void mixture_moments(double sigma, double mean[2], double covariance[3]);

#endif
