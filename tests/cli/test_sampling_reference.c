/* test_sampling_reference.c - what samplers are tried against by `kiln check-plugin`: the exact way of the probability
 * flow is the same by few levels and by many and keeps the law of the data, and latents are added as kiln/latent.h
 * says.
 */
#include "cli/sample_sampling.h"
#include "harness.h"

#include "kiln/denoiser.h"
#include "kiln/latent.h"
#include "kiln/kit.h"

#include <math.h>
#include <stdlib.h>

enum { COUNT = 4096, MANY = 64 };

static void levels(uint32_t process, size_t n, double *sigma)
{
    double high = process == KILN_PROCESS_FLOW ? 0.9 : 4, low = process == KILN_PROCESS_FLOW ? 0.1 : 0.2;
    for (size_t i = 0; i <= n; i++) sigma[i] = high * pow(low / high, (double)i / (double)n);
}

/* Fine steps are of order 4: few levels and many agree far better than any sampler is judged by. */
static void same_way(uint32_t process, const char *what)
{
    static double start[COUNT], few[4 * COUNT], many[MANY * COUNT];
    double sigma[MANY + 1], worst = 0;
    levels(process, MANY, sigma);
    sampling_start(process, sigma[0], 3, COUNT, start);
    REQUIRE(sampling_exact(process, sigma, MANY, start, COUNT, many));
    levels(process, 4, sigma);
    REQUIRE(sampling_exact(process, sigma, 4, start, COUNT, few));
    for (size_t i = 1; i <= 4; i++)
        for (size_t c = 0; c < COUNT; c++)
            worst = fmax(worst, fabs(few[(i - 1) * COUNT + c] - many[(i * MANY / 4 - 1) * COUNT + c]));
    CHECK_MSG(worst < 1e-5, "%s: %g apart", what, worst);
}

static void test_few_levels_lead_where_many_do(void)
{
    same_way(KILN_PROCESS_DIFFUSION, "diffusion");
    same_way(KILN_PROCESS_FLOW, "flow");
}

/* Noise of level s on data whose mean square is m: m + s^2. Of 4,096 numbers it is known to some 4 %. */
static void test_the_way_keeps_the_law(void)
{
    static double start[COUNT], way[MANY * COUNT];
    double sigma[MANY + 1], square, fourth, sum = 0;
    levels(KILN_PROCESS_DIFFUSION, MANY, sigma);
    sampling_start(KILN_PROCESS_DIFFUSION, sigma[0], 3, COUNT, start);
    REQUIRE(sampling_exact(KILN_PROCESS_DIFFUSION, sigma, MANY, start, COUNT, way));
    sampling_moments(&square, &fourth);
    for (size_t c = 0; c < COUNT; c++) sum += pow(way[(MANY - 1) * COUNT + c], 2) / COUNT;
    CHECK_NEAR(sum, square + sigma[MANY] * sigma[MANY], 0.08);
}

/* ---- arithmetic ---- */

static int sums; /* how many were right */

static kiln_status add(const kiln_sampling *s)
{
    const kiln_latents *l = s->latents;
    kiln_latent *a = s->slot(s, "a"), *b = s->slot(s, "b"), *out = s->slot(s, "out");
    if (!a || !b || !out) return KILN_ERR_NOMEM;
    double x = s->norm(s, s->x);
    s->lincomb(s, a, 1, (double[]){3}, (kiln_latent *[]){s->x});
    s->lincomb(s, b, 1, (double[]){2}, (kiln_latent *[]){s->x});
    l->add_difference(l, out, s->x, 0.5, a, b);
    sums += CHECK_NEAR(s->norm(s, out), 1.5 * x, 1e-12); /* x + (3 x - 2 x) / 2 */
    l->add_difference(l, out, s->x, 1, b, a);
    sums += CHECK_MSG(s->norm(s, out) <= 1e-12 * x, "x + 2 x - 3 x is not 0");
    l->lincomb(l, out, 3, (double[]){1, -1, 1}, (kiln_latent *[]){a, b, s->x});
    sums += CHECK_NEAR(s->norm(s, out), 2 * x, 1e-12);
    for (size_t i = 0; i < s->n; i++) TRY(s->step(s, i, s->x));
    return KILN_OK;
}

static void test_sums_of_latents(void)
{
    const kiln_sampler row = {.size = sizeof row, .name = "adds", .run = add};
    const double sigma[] = {1, 0};
    sampling_plan p =
        SAMPLING_PLAN(.row = &row, .process = KILN_PROCESS_DIFFUSION, .sigma = sigma, .n = 1, .side = 4, .seed = 5);
    sampled o;
    CHECK_EQ(sampling_try(&p, &o), KILN_OK);
    CHECK_EQ(o.status, KILN_OK);
    CHECK_EQ(o.bad_call, 0);
    CHECK_EQ(sums, 3);
    sampled_free(&o);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_few_levels_lead_where_many_do), CASE(test_the_way_keeps_the_law),
                                      CASE(test_sums_of_latents)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
