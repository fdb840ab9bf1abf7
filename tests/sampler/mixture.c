/* mixture.c - see mixture.h. */
#include "mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double mixture_weight[PARTS] = {0.3, 0.25, 0.25, 0.2};
const double mixture_mean[PARTS][2] = {{1.5, 1.2}, {-1.4, 1.3}, {-1.5, -1.3}, {1.3, -1.5}};
const double mixture_deviation[PARTS] = {0.5, 0.4, 0.5, 0.6};

static void guess_point(const double *x, double sigma, double *d)
{
    double part[PARTS], scale[PARTS], most = -INFINITY, sum = 0;
    for (int k = 0; k < PARTS; k++) {
        double v = mixture_deviation[k] * mixture_deviation[k] + sigma * sigma;
        double a = x[0] - mixture_mean[k][0], b = x[1] - mixture_mean[k][1];
        part[k] = -(a * a + b * b) / (2 * v);
        scale[k] = mixture_weight[k] / v;
        most = fmax(most, part[k]);
    }
    for (int k = 0; k < PARTS; k++) sum += part[k] = scale[k] * exp(part[k] - most);
    d[0] = d[1] = 0;
    for (int k = 0; k < PARTS; k++) {
        double s = mixture_deviation[k] * mixture_deviation[k], keep = s / (s + sigma * sigma);
        for (int c = 0; c < 2; c++) d[c] += part[k] / sum * (mixture_mean[k][c] + keep * (x[c] - mixture_mean[k][c]));
    }
}

void mixture_guess(const rig *r, const double *x, double sigma, double *d, double *u)
{
    double alpha = r->api.process == KILN_PROCESS_FLOW ? 1 - sigma : 1;
    if (alpha < 1e-9) alpha = 1e-9; /* at flow's sigma 1 there is nothing of x0 in x */
    for (size_t i = 0; i + 1 < r->count; i += 2)
        guess_point((double[]){x[i] / alpha, x[i + 1] / alpha}, sigma / alpha, d + i);
    if (u) memcpy(u, d, r->count * sizeof *d);
}

/* dx/dlog sigma = x - D */
static void slope(const double *x, double log_sigma, double *out)
{
    double d[2];
    guess_point(x, exp(log_sigma), d);
    out[0] = x[0] - d[0], out[1] = x[1] - d[1];
}

static void runge_kutta(double *x, double t, double h)
{
    double k[4][2], y[2];
    static const double at[4] = {0, 0.5, 0.5, 1}, weight[4] = {1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0};
    for (int i = 0; i < 4; i++) {
        for (int c = 0; c < 2; c++) y[c] = x[c] + (i ? at[i] * h * k[i - 1][c] : 0);
        slope(y, t + at[i] * h, k[i]);
    }
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 2; c++) x[c] += weight[i] * h * k[i][c];
}

void mixture_flow(double *x, size_t count, double from, double to)
{
    int n = 1 + (int)(fabs(log(from / to)) / 1e-3);
    double h = log(to / from) / n;
    for (size_t i = 0; i + 1 < count; i += 2)
        for (int k = 0; k < n; k++) runge_kutta(x + i, log(from) + k * h, h);
}

void mixture_moments(double sigma, double mean[2], double covariance[3])
{
    mean[0] = mean[1] = 0;
    covariance[0] = covariance[1] = covariance[2] = 0;
    for (int k = 0; k < PARTS; k++)
        for (int c = 0; c < 2; c++) mean[c] += mixture_weight[k] * mixture_mean[k][c];
    for (int k = 0; k < PARTS; k++) {
        double a = mixture_mean[k][0] - mean[0], b = mixture_mean[k][1] - mean[1],
               s = mixture_deviation[k] * mixture_deviation[k] + sigma * sigma;
        covariance[0] += mixture_weight[k] * (a * a + s);
        covariance[1] += mixture_weight[k] * a * b;
        covariance[2] += mixture_weight[k] * (b * b + s);
    }
}
