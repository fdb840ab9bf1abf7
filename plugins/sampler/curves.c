/* curves.c - see curves.h. */
#include "curves.h"

#include <math.h>

/* linspace(a, b, n)[i] */
static double between(double a, double b, size_t i, size_t n)
{
    return n < 2 ? a : a + (b - a) * (double)i / (double)(n - 1);
}

static size_t ended(size_t steps, double *out)
{
    out[steps] = 0;
    return steps + 1;
}

size_t curve_karras(size_t steps, double most, double least, double rho, double *out)
{
    double a = pow(most, 1 / rho), b = pow(least, 1 / rho);
    for (size_t i = 0; i < steps; i++) out[i] = pow(between(a, b, i, steps), rho);
    return ended(steps, out);
}

size_t curve_polyexponential(size_t steps, double most, double least, double rho, double *out)
{
    for (size_t i = 0; i < steps; i++) {
        double r = pow(between(1, 0, i, steps), rho);
        out[i] = exp(r * (log(most) - log(least)) + log(least));
    }
    return ended(steps, out);
}

size_t curve_laplace(size_t steps, double most, double least, double mu, double beta, double *out)
{
    const double no_log_of_zero = 1e-5;
    for (size_t i = 0; i < steps; i++) {
        double x = between(0, 1, i, steps), side = x < 0.5 ? 1 : x > 0.5 ? -1 : 0;
        double sigma = exp(mu - beta * side * log(1 - 2 * fabs(0.5 - x) + no_log_of_zero));
        out[i] = fmin(fmax(sigma, least), most);
    }
    return steps;
}

size_t curve_vp(size_t steps, double beta_d, double beta_min, double eps, double *out)
{
    for (size_t i = 0; i < steps; i++) {
        double t = between(1, eps, i, steps);
        out[i] = sqrt(expm1(beta_d * t * t / 2 + beta_min * t));
    }
    return ended(steps, out);
}

size_t curve_table(size_t steps, const double *table, size_t n, double *out)
{
    for (size_t i = 0; i < steps; i++) {
        double place = (double)i * (double)(n - 1) / (double)steps;
        size_t low = (size_t)place;
        double part = place - (double)low;
        out[i] = part == 0 ? table[low] : exp((1 - part) * log(table[low]) + part * log(table[low + 1]));
    }
    return ended(steps, out);
}
