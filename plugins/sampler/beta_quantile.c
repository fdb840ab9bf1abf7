/* beta_quantile.c - I_x(a,b) by its continued fraction (DLMF 8.17.22, modified Lentz), inverted by
 * bisection: it is called a few times a run, so sure is better than fast.
 */
#include "beta_quantile.h"

#include <math.h>

static double nonzero(double v) { return fabs(v) < 1e-300 ? 1e-300 : v; }

static double continued_fraction(double x, double a, double b)
{
    double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), f = d;
    for (int m = 1; m < 500; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 / nonzero(1 + even * d);
        c = nonzero(1 + even / c);
        f *= d * c;
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / nonzero(1 + odd * d);
        c = nonzero(1 + odd / c);
        f *= d * c;
        if (fabs(d * c - 1) < 1e-16) break;
    }
    return f;
}

static double incomplete_beta(double x, double a, double b)
{
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * continued_fraction(x, a, b) / a;
    return 1 - front * continued_fraction(1 - x, b, a) / b;
}

double beta_quantile(double p, double a, double b)
{
    if (p <= 0) return 0;
    if (p >= 1) return 1;
    double low = 0, high = 1;
    for (int i = 0; i < 200 && high - low > 1e-16; i++) {
        double middle = (low + high) / 2;
        if (incomplete_beta(middle, a, b) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}
