/* test_sampler_law.c - S6: what stochastic samplers draw from a Gaussian mixture has its mean and covariance.
 *
 * All draws are one latent and run together. Mean and covariance at the last level (0.02, noise included) have to be
 * those of the mixture within 2 % of its deviations, over 20,000 draws and 320 steps (KILN_LAW_DRAWS=20000, `make
 * test-samplers`). The sampling error then is 0.7 % of a deviation in the mean and in xy, 0.45 % in xx and yy; noise
 * whose own mean and covariance are taken out makes it smaller. `make test` has 2,500 draws, whose sampling error is
 * sqrt(8) times that, and so is what is allowed.
 *
 * Brownian samplers get increments of one path: what overlaps the increment before is taken from it.
 */
#include "harness.h"
#include "mixture.h"
#include "samplers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 320, DRAWS_MAX = 20000 };

static const double last_level = 0.02;
static gauss source;

static size_t draws(void)
{
    const char *text = getenv("KILN_LAW_DRAWS");
    long n = text ? atol(text) : 2500;
    return n > 100 && n <= DRAWS_MAX ? (size_t)n : DRAWS_MAX;
}

/* Mean 0 and covariance I, exactly: what is left of x, divided by the root of its covariance (Cholesky). */
static void standardise(double *x, size_t n)
{
    double a = 0, b = 0, xx = 0, xy = 0, yy = 0;
    for (size_t i = 0; i < n; i++) a += x[2 * i] / (double)n, b += x[2 * i + 1] / (double)n;
    for (size_t i = 0; i < n; i++) {
        x[2 * i] -= a, x[2 * i + 1] -= b;
        xx += x[2 * i] * x[2 * i] / (double)n, xy += x[2 * i] * x[2 * i + 1] / (double)n,
            yy += x[2 * i + 1] * x[2 * i + 1] / (double)n;
    }
    double l = sqrt(xx), m = xy / l, k = sqrt(yy - m * m);
    for (size_t i = 0; i < n; i++) {
        x[2 * i] /= l;
        x[2 * i + 1] = (x[2 * i + 1] - m * x[2 * i]) / k;
    }
}

static void white(double *out, size_t count)
{
    for (size_t i = 0; i < count; i++) out[i] = gauss_next(&source);
    standardise(out, count / 2);
}

static void draw_white(rig *r, double from, double to, double *out)
{
    (void)from, (void)to;
    white(out, r->count);
}

/* The increment of the path last given, from level `from` to `to`, as unit noise. */
typedef struct {
    double from, to, *unit;
} increment;
static increment last;

/* One path: the next increment begins where the last began and goes further, or begins where it ended. */
static void draw_path(rig *r, double from, double to, double *out)
{
    white(out, r->count);
    if (last.unit && last.from == from && last.to > to) { /* W(from, to) = W(from, last) + W(last, to) */
        double known = sqrt((from - last.to) / (from - to)), rest = sqrt((last.to - to) / (from - to));
        for (size_t i = 0; i < r->count; i++) out[i] = known * last.unit[i] + rest * out[i];
    }
    last.from = from, last.to = to;
    if (!last.unit) last.unit = malloc(DRAWS_MAX * 2 * sizeof(double));
    if (last.unit) memcpy(last.unit, out, r->count * sizeof *out);
}

/* x0 of the mixture, plus noise of the first level; flow: blended. Parts are represented as their weights say. */
static void start(double *x, size_t n, double sigma, int flow)
{
    double *noise = malloc(2 * n * sizeof *noise), *own = malloc(2 * n * sizeof *own);
    white(noise, 2 * n);
    white(own, 2 * n);
    for (size_t i = 0; i < n; i++) {
        double place = (double)((i * 7919) % n) / (double)n; /* spread evenly over the parts */
        int part = 0;
        for (double up_to = mixture_weight[0]; part < PARTS - 1 && place >= up_to; up_to += mixture_weight[part])
            part++;
        for (int c = 0; c < 2; c++) {
            double x0 = mixture_mean[part][c] + mixture_deviation[part] * own[2 * i + (size_t)c];
            x[2 * i + (size_t)c] =
                flow ? (1 - sigma) * x0 + sigma * noise[2 * i + (size_t)c] : x0 + sigma * noise[2 * i + (size_t)c];
        }
    }
    free(noise);
    free(own);
}

static void make_levels(double *sigma, int flow)
{
    for (int i = 0; i <= STEPS; i++) {
        double way = (double)i / STEPS,
               karras = pow(pow(20, 1.0 / 7) + way * (pow(last_level, 1.0 / 7) - pow(20, 1.0 / 7)), 7);
        sigma[i] = flow ? karras / (1 + karras) : karras;
    }
}

static void judge(const char *name, const double *x, size_t n, double scale)
{
    double want_mean[2], want[3], mean[2] = {0, 0}, have[3] = {0, 0, 0};
    mixture_moments(last_level, want_mean, want);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 2; c++) mean[c] += x[2 * i + c] * scale / (double)n;
    for (size_t i = 0; i < n; i++) {
        double a = x[2 * i] * scale - mean[0], b = x[2 * i + 1] * scale - mean[1];
        have[0] += a * a / (double)n, have[1] += a * b / (double)n, have[2] += b * b / (double)n;
    }
    double dx = sqrt(want[0]), dy = sqrt(want[2]);
    double off[5] = {(mean[0] - want_mean[0]) / dx, (mean[1] - want_mean[1]) / dy, (have[0] - want[0]) / want[0],
                     (have[1] - want[1]) / (dx * dy), (have[2] - want[2]) / want[2]};
    for (int k = 0; k < 5; k++)
        CHECK_MSG(fabs(off[k]) <= 0.02 * sqrt(20000 / (double)n),
                  "%s: mean off by %.4f %.4f, covariance by %.4f %.4f %.4f", name, off[0], off[1], off[2], off[3],
                  off[4]);
    if (getenv("KILN_LAW_SHOW"))
        printf("# %-40s mean %+.4f %+.4f covariance %+.4f %+.4f %+.4f\n", name, off[0], off[1], off[2], off[3], off[4]);
}

static void check_law(const char *name, const char *options, uint32_t process)
{
    const kiln_sampler *row = rig_sampler(name, strlen(name));
    double sigma[STEPS + 1];
    size_t n = draws();
    int flow = process == KILN_PROCESS_FLOW;
    char label[128];
    REQUIRE(row);
    double *x = malloc(2 * n * sizeof *x);
    source = (gauss){.state = 11};
    make_levels(sigma, flow);
    start(x, n, sigma[0], flow);
    rig r;
    rig_open(&r, row, sigma, STEPS, x, 2 * n);
    r.api.process = process;
    last.from = -1;
    r.guess = mixture_guess, r.draw = row->flags & KILN_SAMPLER_BROWNIAN ? draw_path : draw_white;
    CHECK_MSG(rig_options(&r, row, options), "%s %s", name, options);
    CHECK_MSG(row->run(&r.api) == KILN_OK, "%s: %s", name, r.failure);
    CHECK_MSG(r.draws > STEPS / 4, "%s drew %zu times", name, r.draws);
    snprintf(label, sizeof label, "%s %s%s", name, options, flow ? " (flow)" : "");
    judge(label, r.x.v, n, flow ? 1 / (1 - sigma[STEPS]) : 1);
    rig_close(&r);
    free(x);
}

static const char *const stochastic[] = {"euler_ancestral",
                                         "euler_ancestral_cfg_pp",
                                         "dpm_2_ancestral",
                                         "dpmpp_2s_ancestral",
                                         "dpmpp_sde",
                                         "dpmpp_2m_sde",
                                         "dpmpp_2m_sde_heun",
                                         "dpmpp_3m_sde",
                                         "ddpm",
                                         "res_multistep_ancestral",
                                         "res_multistep_ancestral_cfg_pp",
                                         "er_sde",
                                         "seeds_2",
                                         "seeds_3",
                                         "exp_heun_2_x0_sde",
                                         "sa_solver",
                                         "sa_solver_pece"};
enum { N_STOCHASTIC = sizeof stochastic / sizeof stochastic[0] };

static void test_S6_mean_and_covariance(void)
{
    for (size_t i = 0; i < N_STOCHASTIC; i++) check_law(stochastic[i], "", KILN_PROCESS_DIFFUSION);
}

/* Noise by option: churn (much of it only where the step is of second order), half the noise. */
static void test_S6_with_options(void)
{
    static const char *const of[][2] = {{"euler", "s_churn=5"},
                                        {"heun", "s_churn=40"},
                                        {"dpm_2", "s_churn=40"},
                                        {"euler_ancestral", "eta=0.5"},
                                        {"dpmpp_2m_sde", "eta=0.5"},
                                        {"er_sde", "solver_type=Reverse-time SDE"},
                                        {"seeds_2", "eta=0.5,solver_type=phi_2"}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) check_law(of[i][0], of[i][1], KILN_PROCESS_DIFFUSION);
}

static void test_S6_flow(void)
{
    static const char *const of[] = {"euler_ancestral",
                                     "euler_ancestral_cfg_pp",
                                     "dpm_2_ancestral",
                                     "dpmpp_2s_ancestral",
                                     "dpmpp_sde",
                                     "dpmpp_2m_sde",
                                     "dpmpp_2m_sde_heun",
                                     "dpmpp_3m_sde",
                                     "er_sde",
                                     "seeds_2",
                                     "seeds_3",
                                     "exp_heun_2_x0_sde",
                                     "sa_solver"};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) check_law(of[i], "", KILN_PROCESS_FLOW);
}

/* Whoever asks for noise is above, but for: the _gpu names, LCM (a consistency model's guess, noised anew, is no draw
 * from another model's law), and dpmpp_2s_ancestral_cfg_pp (docs/samplers.md). */
static void test_no_sampler_is_left_out(void)
{
    for (size_t k = 0; k < sampler_row_count; k++) {
        const char *name = sampler_rows[k]->name;
        int found = !(sampler_rows[k]->flags & KILN_SAMPLER_STOCHASTIC) || strstr(name, "_gpu") ||
                    strncmp(name, "lcm", 3) == 0 || strcmp(name, "dpmpp_2s_ancestral_cfg_pp") == 0;
        for (size_t i = 0; i < N_STOCHASTIC; i++) found |= strcmp(name, stochastic[i]) == 0;
        CHECK_MSG(found, "%s", name);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_S6_mean_and_covariance), CASE(test_S6_with_options), CASE(test_S6_flow),
                                      CASE(test_no_sampler_is_left_out)};
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    free(last.unit);
    return status;
}
