/* test_sampler_order.c - S5: how fast each sampler converges to the exact probability flow of a Gaussian mixture, in
 * double.
 *
 * The error at the end (root mean square over points) over 20, 40, 80, 160 and 320 steps; the slope of log(error) over
 * log(steps) between the last two has to be within 0.15 of the order the row states. What stands beside a sampler:
 *  - `grid`: karras (rho 7) or even in sigma. Some methods have their order only where the steps are equal.
 *  - `exact`: the first steps' results are replaced by the exact ones. A multistep method begins with steps of lower
 * order, whose error h^2 would be all one sees; its own order shows once the history is right.
 *  - `spare`: steps before the end that are judged no more, because the method makes them of lower order there.
 *  - `finer`: that many times the steps, where the leading error shows only then.
 *  - `options`: noise off, since the order is that of the equation without noise.
 * The levels run from 10 to 0.1 (even ones to 1: below, the steps would be larger than the level) and do not end at 0:
 * the step to 0 gives the guess, whatever came before.
 */
#include "harness.h"
#include "mixture.h"
#include "samplers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 6, COUNT = 2 * POINTS, STEPS_MAX = 16 * 320 };

typedef struct {
    const char *name, *options;
    int even, exact, spare;
    double order; /* 0: the row's */
    size_t finer; /* 0: 1         */
} order_case;

static const order_case cases_eps[] = {
    {"euler", "", 0, 0, 0, 0, 0},
    {"euler_cfg_pp", "", 0, 0, 0, 0, 0},
    {"euler_cfg_pp", "version=alternative", 0, 0, 0, 0, 0},
    {"euler_ancestral", "eta=0", 0, 0, 0, 0, 0},
    {"euler_ancestral_cfg_pp", "eta=0", 0, 0, 0, 0, 0},
    {"heun", "", 0, 0, 0, 0, 0},
    {"heunpp2", "", 0, 0, 0, 0, 0},
    {"exp_heun_2_x0", "", 0, 0, 0, 0, 0},
    {"exp_heun_2_x0_sde", "eta=0", 0, 0, 0, 0, 0},
    {"dpm_2", "", 0, 0, 0, 0, 0},
    {"dpm_2_ancestral", "eta=0", 0, 0, 0, 0, 0},
    {"lms", "", 0, 3, 0, 0, 0},
    {"dpm_fast", "", 0, 0, 0, 0, 0},
    {"dpmpp_2s_ancestral", "eta=0", 0, 0, 0, 0, 0},
    {"dpmpp_sde", "eta=0", 0, 0, 0, 0, 0},
    {"dpmpp_2m", "", 0, 0, 0, 0, 0},
    {"dpmpp_2m_cfg_pp", "", 0, 0, 0, 0, 0},
    {"dpmpp_2m_sde", "eta=0", 0, 0, 0, 0, 0},
    {"dpmpp_2m_sde_heun", "eta=0", 0, 0, 0, 0, 0},
    {"dpmpp_3m_sde", "eta=0", 0, 2, 0, 0, 0},
    {"ipndm", "", 1, 3, 0, 0, 4},
    {"ipndm", "", 0, 3, 0, 2, 0},
    {"ipndm_v", "", 0, 3, 0, 0, 4},
    {"deis", "", 0, 2, 0, 0, 0},
    {"res_multistep", "", 0, 0, 0, 0, 0},
    {"res_multistep_cfg_pp", "", 0, 0, 0, 0, 0},
    {"res_multistep_ancestral", "eta=0", 0, 0, 0, 0, 0},
    {"res_multistep_ancestral_cfg_pp", "eta=0", 0, 0, 0, 0, 0},
    {"gradient_estimation", "", 0, 0, 0, 0, 0},
    {"gradient_estimation_cfg_pp", "", 0, 0, 0, 0, 0},
    {"er_sde", "solver_type=ODE", 0, 2, 0, 0, 16},
    {"seeds_2", "eta=0", 0, 0, 0, 0, 0},
    {"seeds_2", "eta=0,solver_type=phi_2,r=0.7", 0, 0, 0, 0, 0},
    {"seeds_3", "eta=0", 0, 0, 0, 0, 0},
    {"sa_solver", "eta=0", 0, 3, 0, 0, 2},
    {"sa_solver", "eta=0,corrector_order=0", 0, 2, 0, 3, 0},
    {"sa_solver_pece", "eta=0", 0, 3, 0, 0, 2},
    {"ddim", "", 0, 0, 0, 0, 0},
    {"uni_pc", "", 0, 2, 2, 0, 2},
    {"uni_pc_bh2", "", 0, 2, 2, 0, 2},
};

static void make_levels(double *sigma, size_t n, int even)
{
    const double high = 10, low = even ? 1 : 0.1, rho = 7;
    for (size_t i = 0; i <= n; i++) {
        double way = (double)i / (double)n;
        sigma[i] = even ? high + way * (low - high)
                        : pow(pow(high, 1 / rho) + way * (pow(low, 1 / rho) - pow(high, 1 / rho)), rho);
    }
    sigma[0] = high, sigma[n] = low;
}

typedef struct {
    const order_case *c;
    double exact[STEPS_MAX + 1][COUNT]; /* the true x at each level that is asked for */
    size_t judged;                      /* the level x is compared at */
    double error;
} walk;

/* The exact x in the place of the step's; what a corrector keeps beside x as well. */
static void stepped(rig *r, size_t i)
{
    walk *w = (walk *)(uintptr_t)r->with;
    if (i + 1 == w->judged) {
        w->error = 0;
        for (size_t k = 0; k < COUNT; k++)
            w->error += (r->x.v[k] - w->exact[i + 1][k]) * (r->x.v[k] - w->exact[i + 1][k]);
        w->error = sqrt(w->error / COUNT);
    }
    if ((int)i >= w->c->exact) return;
    memcpy(r->x.v, w->exact[i + 1], sizeof w->exact[0]);
    double *corrected = rig_slot(r, "x_corrected");
    if (corrected) memcpy(corrected, w->exact[i], sizeof w->exact[0]);
}

/* With eta 0 noise may be drawn, and is added zero times. */
static void draw(rig *r, double from, double to, double *out)
{
    (void)from, (void)to;
    for (size_t k = 0; k < r->count; k++) out[k] = 1;
}

static void start(double *x)
{
    gauss g = {.state = 7};
    for (int k = 0; k < COUNT; k++) x[k] = 10 * gauss_next(&g);
}

static double error_of(const order_case *c, const kiln_sampler *row, size_t n, uint32_t process)
{
    static walk w;
    static double sigma[STEPS_MAX + 1];
    double x[COUNT];
    size_t judged = n - (size_t)c->spare;
    make_levels(sigma, n, c->even);
    w.c = c, w.judged = judged, w.error = NAN;
    start(w.exact[0]);
    for (size_t i = 1; i <= (size_t)c->exact; i++) {
        memcpy(w.exact[i], w.exact[i - 1], sizeof w.exact[0]);
        mixture_flow(w.exact[i], COUNT, sigma[i - 1], sigma[i]);
    }
    memcpy(w.exact[judged], w.exact[c->exact], sizeof w.exact[0]);
    mixture_flow(w.exact[judged], COUNT, sigma[c->exact], sigma[judged]);
    memcpy(x, w.exact[0], sizeof x);
    if (process == KILN_PROCESS_FLOW) { /* the same problem in flow's numbers: x / (1 + sigma) at sigma / (1 + sigma) */
        for (size_t i = 0; i <= n; i++) sigma[i] /= 1 + sigma[i];
        for (int k = 0; k < COUNT; k++) x[k] *= 1 - sigma[0], w.exact[judged][k] *= 1 - sigma[judged];
    }
    rig r;
    rig_open(&r, row, sigma, n, x, COUNT);
    r.api.process = process;
    r.guess = mixture_guess, r.draw = draw, r.stepped = stepped, r.with = &w;
    CHECK_MSG(rig_options(&r, row, c->options), "%s: %s", c->name, c->options);
    CHECK_MSG(row->run(&r.api) == KILN_OK, "%s: %s", c->name, r.failure);
    rig_close(&r);
    return w.error;
}

static void check_order(const order_case *c, uint32_t process)
{
    const kiln_sampler *row = rig_sampler(c->name, strlen(c->name));
    REQUIRE(row);
    static const size_t steps[5] = {20, 41, 80, 161, 320}; /* two of three end dpm_fast's with a step of order 2 */
    size_t scale = c->finer ? c->finer : 1;
    double error[5], order = c->order > 0 ? c->order : row->order;
    for (int k = 0; k < 5; k++) error[k] = error_of(c, row, steps[k] * scale, process);
    double slope = log(error[3] / error[4]) / log((double)steps[4] / (double)steps[3]);
    CHECK_MSG(fabs(slope - order) <= 0.15, "%s %s%s: slope %.3f, stated %g; errors %.2e %.2e %.2e %.2e %.2e", c->name,
              c->options, process == KILN_PROCESS_FLOW ? " (flow)" : "", slope, order, error[0], error[1], error[2],
              error[3], error[4]);
}

static void test_S5_order_on_the_probability_flow(void)
{
    for (size_t i = 0; i < sizeof cases_eps / sizeof cases_eps[0]; i++)
        check_order(&cases_eps[i], KILN_PROCESS_DIFFUSION);
}

static void test_S5_order_of_the_flow_forms(void)
{
    static const char *const of[] = {
        "euler_ancestral", "euler_ancestral_cfg_pp", "dpm_2_ancestral", "dpmpp_2s_ancestral",
        "dpmpp_sde",       "dpmpp_2m_sde",           "seeds_2",         "seeds_3",
        "exp_heun_2_x0"};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        order_case c = {of[i], strcmp(of[i], "exp_heun_2_x0") == 0 ? "" : "eta=0", 0, 0, 0, 0, 0};
        check_order(&c, KILN_PROCESS_FLOW);
    }
}

/* ddpm's noise cannot be turned off by an option. Without what it draws it follows the drift of its equation, dx = 2 (x
 * - D(x)) dsigma / sigma, and converges to that one's solution, which is here its own result after 5120 steps. With
 * that for the truth a method of order 1 shows a slope of log(1/161 - 1/5120) - log(1/320 - 1/5120) over
 * log(320/161): 1.05. */
static void draw_nothing(rig *r, double from, double to, double *out)
{
    (void)from, (void)to;
    memset(out, 0, r->count * sizeof *out);
}

static void drift(const kiln_sampler *row, size_t n, double *x)
{
    static double sigma[STEPS_MAX + 1];
    rig r;
    make_levels(sigma, n, 0);
    start(x);
    rig_open(&r, row, sigma, n, x, COUNT);
    r.guess = mixture_guess, r.draw = draw_nothing;
    CHECK_MSG(row->run(&r.api) == KILN_OK, "%s: %s", row->name, r.failure);
    memcpy(x, r.x.v, COUNT * sizeof *x);
    rig_close(&r);
}

static void test_S5_order_of_ddpms_drift(void)
{
    const kiln_sampler *row = rig_sampler("ddpm", 4);
    double truth[COUNT], coarse[COUNT], fine[COUNT], error[2] = {0, 0};
    REQUIRE(row);
    drift(row, STEPS_MAX, truth), drift(row, 161, coarse), drift(row, 320, fine);
    for (int k = 0; k < COUNT; k++) {
        error[0] += (coarse[k] - truth[k]) * (coarse[k] - truth[k]);
        error[1] += (fine[k] - truth[k]) * (fine[k] - truth[k]);
    }
    double slope = log(error[0] / error[1]) / 2 / log(320.0 / 161);
    CHECK_MSG(fabs(slope - row->order) <= 0.15, "ddpm: slope %.3f, stated %u", slope, row->order);
}

/* The rows named _gpu are the same method with noise from elsewhere. */
static void test_the_gpu_names_are_the_same_method(void)
{
    for (size_t k = 0; k < sampler_row_count; k++) {
        const char *name = sampler_rows[k]->name, *at = strstr(name, "_gpu");
        const kiln_sampler *other = at ? rig_sampler(name, (size_t)(at - name)) : NULL;
        if (at)
            CHECK_MSG(other && other->run == sampler_rows[k]->run && other->order == sampler_rows[k]->order, "%s",
                      name);
    }
}

/* ---- the adaptive one ---- */

static void run_adaptive(const char *options, double *error, size_t *evaluations, size_t *kept)
{
    const kiln_sampler *row = rig_sampler("dpm_adaptive", 12);
    double x[COUNT], exact[COUNT];
    rig r;
    start(x);
    memcpy(exact, x, sizeof x);
    mixture_flow(exact, COUNT, 10, 0.1);
    rig_open(&r, row, (const double[]){10, 1, 0.1}, 2, x, COUNT);
    r.guess = mixture_guess, r.draw = draw;
    CHECK(rig_options(&r, row, options));
    CHECK_MSG(row->run(&r.api) == KILN_OK, "%s: %s", options, r.failure);
    *error = 0;
    for (int k = 0; k < COUNT; k++) *error = fmax(*error, fabs(r.x.v[k] - exact[k]));
    *evaluations = r.evaluations, *kept = r.steps;
    rig_close(&r);
}

/* A step passes when the two orders differ by at most 1.54 (order 2) or 1.9 (order 3) tolerances: 1 + atan(e^(-1/order)
 * - 1) is 0.81 there. Steps add up, relative to an x that begins at 20, and the flow makes them smaller again: 4
 * tolerances at the end. Each attempt costs `order` evaluations. */
static void test_dpm_adaptive_meets_its_tolerance(void)
{
    static const double tolerance[] = {1e-2, 1e-3, 1e-4, 1e-5};
    size_t last = 0;
    for (int order = 2; order <= 3; order++, last = 0)
        for (int k = 0; k < 4; k++) {
            char options[96];
            double error;
            size_t evaluations, kept;
            snprintf(options, sizeof options, "order=%d,rtol=%g,atol=%g", order, tolerance[k], tolerance[k]);
            run_adaptive(options, &error, &evaluations, &kept);
            CHECK_MSG(error <= 4 * tolerance[k], "%s: error %g", options, error);
            CHECK_EQ(evaluations % (size_t)order, 0);
            CHECK_MSG(evaluations > last, "%s: %zu evaluations, %zu for a tenth of the tolerance", options, evaluations,
                      last);
            last = evaluations;
        }
}

static void test_dpm_adaptive_rejects_steps_that_are_too_long(void)
{
    double error;
    size_t evaluations, kept;
    run_adaptive("rtol=0.0001,atol=0.0001,h_init=4", &error, &evaluations, &kept);
    CHECK_MSG(evaluations > 3 * kept, "%zu evaluations for %zu steps: none was rejected", evaluations, kept);
    CHECK_MSG(error <= 1e-4, "error %g", error);
}

/* ---- for the plot (scripts/plot-samplers) ---- */

/* "name steps evaluations error" for each deterministic method as users run it: no exact history, judged at the end. */
static void test_write_the_curves(void)
{
    static const size_t steps[] = {5, 8, 11, 14, 20, 29, 41, 56, 80, 113, 161, 227, 320};
    const char *path = getenv("KILN_SAMPLER_CURVES");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out) {
        CHECK_MSG(!path, "cannot write %s", path);
        return;
    }
    for (size_t i = 0; i < sizeof cases_eps / sizeof cases_eps[0]; i++) {
        order_case plain = {cases_eps[i].name, cases_eps[i].options, 0, 0, 0, 0, 0};
        const kiln_sampler *row = rig_sampler(plain.name, strlen(plain.name));
        if (i && strcmp(plain.name, cases_eps[i - 1].name) == 0) continue;
        for (size_t k = 0; row && k < sizeof steps / sizeof steps[0]; k++)
            fprintf(out, "%s %zu %.0f %.6e\n", plain.name, steps[k], row->evaluations * (double)steps[k],
                    error_of(&plain, row, steps[k], KILN_PROCESS_DIFFUSION));
    }
    fclose(out);
}

/* Every deterministic method is in the table; the others are named. */
static void test_no_sampler_is_left_out(void)
{
    static const char *const elsewhere[] = {"dpm_adaptive",
                                            "lcm",
                                            "lcm_upscale",
                                            "ddpm",
                                            "dpmpp_2s_ancestral_cfg_pp",
                                            "dpmpp_sde_gpu",
                                            "dpmpp_2m_sde_gpu",
                                            "dpmpp_2m_sde_heun_gpu",
                                            "dpmpp_3m_sde_gpu"};
    for (size_t k = 0; k < sampler_row_count; k++) {
        int found = 0;
        for (size_t i = 0; i < sizeof cases_eps / sizeof cases_eps[0]; i++)
            found |= strcmp(cases_eps[i].name, sampler_rows[k]->name) == 0;
        for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
            found |= strcmp(elsewhere[i], sampler_rows[k]->name) == 0;
        CHECK_MSG(found, "%s", sampler_rows[k]->name);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_S5_order_on_the_probability_flow), CASE(test_S5_order_of_the_flow_forms),
        CASE(test_S5_order_of_ddpms_drift),          CASE(test_the_gpu_names_are_the_same_method),
        CASE(test_dpm_adaptive_meets_its_tolerance), CASE(test_dpm_adaptive_rejects_steps_that_are_too_long),
        CASE(test_no_sampler_is_left_out),           CASE(test_write_the_curves)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
