/* test_beta_quantile.c - quantiles of Beta(a,b) against those that have a closed form. */
#include "harness.h"

#include "beta_quantile.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* I_x(a,b), where it is an elementary function. */
static double power_law(double x, double a) { return pow(x, a); }
static double mirrored(double x, double b) { return 1 - pow(1 - x, b); }

static void test_one_side_is_one(void)
{
    static const double shape[] = {0.25, 0.5, 1, 1.5, 2, 7, 40};
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
        for (int k = 1; k < 20; k++) {
            const double p = k / 20.0;
            CHECK_NEAR(power_law(beta_quantile(p, shape[i], 1), shape[i]), p, 1e-12);
            CHECK_NEAR(mirrored(beta_quantile(p, 1, shape[i]), shape[i]), p, 1e-12);
        }
}

static void test_polynomials_and_the_arcsine(void)
{
    for (int k = 1; k < 50; k++) {
        const double p = k / 50.0;
        double x = beta_quantile(p, 2, 2);
        CHECK_NEAR(x * x * (3 - 2 * x), p, 1e-12);
        x = beta_quantile(p, 2, 3);
        CHECK_NEAR(x * x * (6 - 8 * x + 3 * x * x), p, 1e-12);
        x = beta_quantile(p, 3, 3);
        CHECK_NEAR(x * x * x * (10 - 15 * x + 6 * x * x), p, 1e-12);
        x = beta_quantile(p, 0.5, 0.5);
        CHECK_NEAR(x, pow(sin(pi * p / 2), 2), 1e-12);
    }
}

/* The quantile of 1 - p under Beta(b,a) is what is left. */
static void test_symmetry(void)
{
    static const double shape[] = {0.3, 0.6, 1, 2.5, 9};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            for (int k = 1; k < 10; k++)
                CHECK_NEAR(beta_quantile(k / 10.0, shape[i], shape[j]) +
                               beta_quantile(1 - k / 10.0, shape[j], shape[i]),
                           1, 1e-9);
}

static void test_ends(void)
{
    CHECK(beta_quantile(0, 0.6, 0.6) == 0 && beta_quantile(-1, 2, 3) == 0);
    CHECK(beta_quantile(1, 0.6, 0.6) == 1 && beta_quantile(2, 2, 3) == 1);
    CHECK(beta_quantile(0.5, 0.6, 0.6) == 0.5);
    for (int k = 1; k < 1000; k++)
        CHECK(beta_quantile(k / 1000.0, 0.6, 0.6) > beta_quantile((k - 1) / 1000.0, 0.6, 0.6));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_one_side_is_one), CASE(test_polynomials_and_the_arcsine),
                                      CASE(test_symmetry), CASE(test_ends)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
