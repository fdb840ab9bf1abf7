/* schedulers.c - nodes that make SIGMAS: a schedule's row for a model, and formulas of a few numbers.
 *
 * Names, defaults and ranges are ComfyUI's. Levels go from high to low; a schedule may make fewer than steps + 1.
 */
#include "curves.h"
#include "model_sampling.h"
#include "sample.h"
#include "sampler_nodes.h"
#include "sampler_rows.h"
#include "schedules.h"

#include <math.h>

enum { STEPS_MOST = 10000 };
#define STEPS(type_, default_, high) KIT_INT(type_, steps, default_, 1, high, "Denoising steps.")
#define RANGE(type_, LEAST)                                                                                            \
    KIT_FLOAT(type_, sigma_max, 14.614642, 0, 5000, 0.01, "The first level."),                                         \
        LEAST(type_, sigma_min, 0.0291675, 0, 5000, 0.01, "The last level before 0.")
#define DENOISE(type_) KIT_FLOAT(type_, denoise, 1, 0, 1, 0.01, "Share of the way; below 1 only its last part.")

static const kiln_port model_in[] = {{.name = "model", .type = "MODEL", .doc = "Whose noise levels."}};
static const kiln_port out[] = {{.name = "SIGMAS", .type = "SIGMAS", .doc = "Noise levels."}};

static double *for_capacity(const kiln_call *c, size_t n)
{
    return c->host->scratch(c->ctx, n * sizeof(double), KILN_CPU);
}

/* ---- BasicScheduler ---- */

typedef struct {
    const char *scheduler;
    int64_t steps;
    double denoise;
} basic_params;

static const kiln_param basic_param[] = {
    {.name = "scheduler",
     .type = KILN_P_NAME,
     .offset = offsetof(basic_params, scheduler),
     .def_str = "simple",
     .from = "schedule",
     .doc = "How noise levels are spaced."},
    STEPS(basic_params, 20, STEPS_MOST),
    DENOISE(basic_params),
};

static kiln_status basic_run(const kiln_call *c)
{
    const basic_params *p = c->params;
    const kiln_sigma_options options = {
        .size = sizeof options, .schedule = p->scheduler, .steps = p->steps, .denoise = p->denoise, .at_most_steps = 1};
    double *sigma;
    size_t n;
    TRY(sample_sigmas(c, c->in[0], &options, &sigma, &n));
    return sigmas_new(c, sigma, sigma ? n + 1 : 0, &c->out[0]);
}

const kiln_node node_basic_scheduler = {
    PLAIN_NODE("BasicScheduler", "sampling/schedulers", "The levels of a schedule for a model."),
    KILN_ARRAY(in, model_in),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, basic_param),
    .params_size = sizeof(basic_params),
    .run = basic_run};

/* ---- formulas ---- */

typedef struct {
    int64_t steps;
    double sigma_max, sigma_min, rho, mu, beta;
} curve_params;

static kiln_status check_range(const kiln_call *c)
{
    const curve_params *p = c->params;
    if (p->sigma_max >= p->sigma_min) return KILN_OK;
    return kit_at_param(c,
                        c->host->fail(c->ctx, KILN_ERR_INVALID, "sigma_max (%g) is below sigma_min (%g); exchange them",
                                      p->sigma_max, p->sigma_min),
                        "sigma_max");
}

static kiln_status finite_levels(const kiln_call *c, const double *sigma, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(sigma[i]) || sigma[i] > 3e38)
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "these parameters make level %zu %g, which is no number to work with", i, sigma[i]);
    return sigmas_new(c, sigma, n, &c->out[0]);
}

static const kiln_param karras_param[] = {
    STEPS(curve_params, 20, STEPS_MOST), RANGE(curve_params, KIT_FLOAT_ABOVE),
    KIT_FLOAT_ABOVE(curve_params, rho, 7, 0, 100, 0.01, "The larger, the more steps at low noise.")};

static kiln_status karras_run(const kiln_call *c)
{
    const curve_params *p = c->params;
    double *sigma = for_capacity(c, (size_t)p->steps + 1);
    if (!sigma) return KILN_ERR_NOMEM;
    return finite_levels(c, sigma, curve_karras((size_t)p->steps, p->sigma_max, p->sigma_min, p->rho, sigma));
}

const kiln_node node_karras_scheduler = {
    PLAIN_NODE("KarrasScheduler", "sampling/schedulers", "sigma^(1/rho) evenly spaced (Karras et al. 2022)."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, karras_param),
    .params_size = sizeof(curve_params),
    .run = karras_run,
    .check = check_range};

static const kiln_param exponential_param[] = {STEPS(curve_params, 20, STEPS_MOST),
                                               RANGE(curve_params, KIT_FLOAT_ABOVE)};
static const kiln_param polyexponential_param[] = {
    STEPS(curve_params, 20, STEPS_MOST), RANGE(curve_params, KIT_FLOAT_ABOVE),
    KIT_FLOAT_ABOVE(curve_params, rho, 1, 0, 100, 0.01,
                    "1 is evenly spaced in log sigma; the larger, the more steps at low noise.")};

static kiln_status exponential(const kiln_call *c, double rho)
{
    const curve_params *p = c->params;
    double *sigma = for_capacity(c, (size_t)p->steps + 1);
    if (!sigma) return KILN_ERR_NOMEM;
    return finite_levels(c, sigma, curve_polyexponential((size_t)p->steps, p->sigma_max, p->sigma_min, rho, sigma));
}

static kiln_status exponential_run(const kiln_call *c) { return exponential(c, 1); }

static kiln_status polyexponential_run(const kiln_call *c)
{
    return exponential(c, ((const curve_params *)c->params)->rho);
}

const kiln_node node_exponential_scheduler = {
    PLAIN_NODE("ExponentialScheduler", "sampling/schedulers", "log sigma evenly spaced."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, exponential_param),
    .params_size = sizeof(curve_params),
    .run = exponential_run,
    .check = check_range};
const kiln_node node_polyexponential_scheduler = {
    PLAIN_NODE("PolyexponentialScheduler", "sampling/schedulers", "A power of evenly spaced places, in log sigma."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, polyexponential_param),
    .params_size = sizeof(curve_params),
    .run = polyexponential_run,
    .check = check_range};

static const kiln_param laplace_param[] = {
    STEPS(curve_params, 20, STEPS_MOST), RANGE(curve_params, KIT_FLOAT),
    KIT_FLOAT(curve_params, mu, 0, -10, 10, 0.1, "log sigma round which steps are dense."),
    KIT_FLOAT(curve_params, beta, 0.5, 0, 10, 0.1, "How far they spread.")};

static kiln_status laplace_run(const kiln_call *c)
{
    const curve_params *p = c->params;
    double *sigma = for_capacity(c, (size_t)p->steps + 1);
    if (!sigma) return KILN_ERR_NOMEM;
    return finite_levels(c, sigma, curve_laplace((size_t)p->steps, p->sigma_max, p->sigma_min, p->mu, p->beta, sigma));
}

const kiln_node node_laplace_scheduler = {
    PLAIN_NODE("LaplaceScheduler", "sampling/schedulers",
               "Quantiles of a Laplace law of log sigma. Makes `steps` levels, one step fewer, and does not end at 0."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, laplace_param),
    .params_size = sizeof(curve_params),
    .run = laplace_run,
    .check = check_range};

typedef struct {
    int64_t steps;
    double beta_d, beta_min, eps_s;
} vp_params;

static const kiln_param vp_param[] = {STEPS(vp_params, 20, STEPS_MOST),
                                      KIT_FLOAT(vp_params, beta_d, 19.9, 0, 5000, 0.01, "Growth of beta."),
                                      KIT_FLOAT(vp_params, beta_min, 0.1, 0, 5000, 0.01, "beta at time 0."),
                                      KIT_FLOAT(vp_params, eps_s, 0.001, 0, 1, 0.0001, "The last time before 0.")};

static kiln_status vp_run(const kiln_call *c)
{
    const vp_params *p = c->params;
    double *sigma = for_capacity(c, (size_t)p->steps + 1);
    if (!sigma) return KILN_ERR_NOMEM;
    return finite_levels(c, sigma, curve_vp((size_t)p->steps, p->beta_d, p->beta_min, p->eps_s, sigma));
}

const kiln_node node_vp_scheduler = {
    PLAIN_NODE("VPScheduler", "sampling/schedulers",
               "The levels of the variance-preserving SDE at even times (Song et al. 2021)."),
    KILN_ARRAY(out, out), KILN_ARRAY(param, vp_param), .params_size = sizeof(vp_params), .run = vp_run};

/* ---- BetaSamplingScheduler, SDTurboScheduler ---- */

typedef struct {
    int64_t steps;
    double alpha, beta;
} beta_params;

static const kiln_param beta_param[] = {
    STEPS(beta_params, 20, STEPS_MOST),
    KIT_FLOAT_ABOVE(beta_params, alpha, 0.6, 0, 50, 0.01, "Below 1: dense at high noise."),
    KIT_FLOAT_ABOVE(beta_params, beta, 0.6, 0, 50, 0.01, "Below 1: dense at low noise.")};

static kiln_status beta_run(const kiln_call *c)
{
    const beta_params *p = c->params;
    model_sampling counted;
    double *sigma = for_capacity(c, (size_t)p->steps + 1);
    TRY(sample_model_sampling(c, c->in[0], &counted));
    if (!sigma) return KILN_ERR_NOMEM;
    kiln_schedule_input in;
    TRY(model_sampling_schedule_input(c, &counted, (size_t)p->steps, &in));
    return sigmas_new(c, sigma, schedule_beta(&in, p->alpha, p->beta, sigma, (size_t)p->steps + 1), &c->out[0]);
}

const kiln_node node_beta_scheduler = {PLAIN_NODE("BetaSamplingScheduler", "sampling/schedulers",
                                                  "Timesteps at quantiles of a Beta law (Lee et al. 2024)."),
                                       KILN_ARRAY(in, model_in),
                                       KILN_ARRAY(out, out),
                                       KILN_ARRAY(param, beta_param),
                                       .params_size = sizeof(beta_params),
                                       .run = beta_run};

typedef struct {
    int64_t steps;
    double denoise;
} turbo_params;

static const kiln_param turbo_param[] = {STEPS(turbo_params, 1, 10), DENOISE(turbo_params)};

/* Turbo models are distilled at timesteps 999, 899, ... 99 (Sauer et al. 2023); steps are taken from the top one that
 * denoise leaves. */
static kiln_status turbo_run(const kiln_call *c)
{
    const turbo_params *p = c->params;
    model_sampling counted;
    double sigma[11];
    size_t n = 0;
    TRY(sample_model_sampling(c, c->in[0], &counted));
    for (int64_t at = 10 - (int64_t)(10 * p->denoise); at < 10 && (int64_t)n < p->steps; at++)
        sigma[n++] = model_sampling_sigma(&counted, (double)((10 - at) * 100 - 1));
    sigma[n++] = 0;
    return finite_levels(c, sigma, n);
}

const kiln_node node_turbo_scheduler = {
    PLAIN_NODE("SDTurboScheduler", "sampling/schedulers", "Timesteps 999, 899, ... as turbo models are trained for."),
    KILN_ARRAY(in, model_in),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, turbo_param),
    .params_size = sizeof(turbo_params),
    .run = turbo_run};

/* ---- AlignYourStepsScheduler: Sabour et al. 2024, the tables of its project page ---- */

enum { TABLE_STEPS = 10 };
static const double optimised[3][TABLE_STEPS + 1] = {
    {14.6146412293, 6.4745760956, 3.8636745985, 2.6946151520, 1.8841921177, 1.3943805092, 0.9642583904, 0.6523686016,
     0.3977456272, 0.1515232662, 0.0291671582},
    {14.6146412293, 6.3184485287, 3.7681790315, 2.1811480769, 1.3405244945, 0.8620721141, 0.5550693289, 0.3798540708,
     0.2332364134, 0.1114188177, 0.0291671582},
    {700.00, 54.5, 15.886, 7.977, 4.248, 1.789, 0.981, 0.403, 0.173, 0.034, 0.002},
};

typedef struct {
    int32_t model_type;
    int64_t steps;
    double denoise;
} align_params;

static const kiln_choice align_choice[] = {
    {.name = "SD1", .value = 0}, {.name = "SDXL", .value = 1}, {.name = "SVD", .value = 2}, {0}};
static const kiln_param align_param[] = {
    KIT_ENUM(align_params, model_type, align_choice, 0, "For which model the levels were found."),
    STEPS(align_params, 10, STEPS_MOST), DENOISE(align_params)};

static kiln_status align_run(const kiln_call *c)
{
    const align_params *p = c->params;
    size_t steps = (size_t)p->steps, kept = (size_t)rint((double)p->steps * p->denoise);
    double *sigma = for_capacity(c, steps + 1);
    if (!sigma) return KILN_ERR_NOMEM;
    if (p->denoise <= 0) return sigmas_new(c, sigma, 0, &c->out[0]);
    curve_table(steps, optimised[p->model_type], TABLE_STEPS + 1, sigma);
    return sigmas_new(c, sigma + (steps - kept), kept + 1, &c->out[0]);
}

const kiln_node node_align_scheduler = {PLAIN_NODE("AlignYourStepsScheduler", "sampling/schedulers",
                                                   "Levels found by optimising for the model (Sabour et al. 2024)."),
                                        KILN_ARRAY(out, out), KILN_ARRAY(param, align_param),
                                        .params_size = sizeof(align_params), .run = align_run};
