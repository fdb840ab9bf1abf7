/* samplers_multistep.c - one evaluation a step, the rest from the steps before: linear multistep in sigma (lms, ipndm,
 * ipndm_v, deis), the refined exponential solver (res_multistep), gradient estimation.
 *
 * The linear ones share one loop: the slopes e = (x - d) / sigma of past steps are in slots, newest first, and a rule
 * gives the coefficients of x += sum c[k] e[k]. The step to 0 gives the guess.
 */
#include "samplers_common.h"

#include <stdio.h>

enum { PAST_MAX = 56 }; /* a sampling has 64 slots */

/* The slope of k steps ago; of this step when k is 0. */
static kiln_latent *past_slope(const kiln_sampling *s, size_t k)
{
    char name[32];
    snprintf(name, sizeof name, "slope_%zu", k);
    return s->slot(s, name);
}

/* Writes the coefficients for step i of `order` slopes, order <= i + 1. */
typedef void (*multistep_rule)(const kiln_sampling *s, size_t i, size_t order, double *c);

/* The slopes move one place down and this step's becomes the first. */
static kiln_status push_slope(const kiln_sampling *s, size_t i, size_t most, kiln_latent *d)
{
    for (size_t k = i < most - 1 ? i : most - 1; k > 0; k--) {
        kiln_latent *to = past_slope(s, k), *from = past_slope(s, k - 1);
        if (!to || !from) return KILN_ERR_NOMEM;
        COPY(s, to, from);
    }
    kiln_latent *now = past_slope(s, 0);
    if (!now) return KILN_ERR_NOMEM;
    MIX(s, now, {1 / s->sigma[i], s->x}, {-1 / s->sigma[i], d});
    return KILN_OK;
}

static kiln_status linear_multistep(const kiln_sampling *s, size_t most, multistep_rule rule)
{
    double c[PAST_MAX];
    SLOT(s, d, "denoised");
    if (most > s->n) most = s->n;
    if (most > PAST_MAX)
        return s->fail(s, KILN_ERR_INVALID, "an order of %zu wants more past steps than the %d that are kept", most,
                       PAST_MAX);
    for (size_t i = s->first; i < s->n; i++) {
        size_t order = i + 1 < most ? i + 1 : most;
        TRY(s->denoise(s, s->x, s->sigma[i], d));
        TRY(push_slope(s, i, most, d));
        if (s->sigma[i + 1] == 0) {
            COPY(s, s->x, d);
        } else {
            rule(s, i, order, c);
            for (size_t k = 0; k < order; k++) MIX(s, s->x, {1, s->x}, {c[k], past_slope(s, k)});
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* prod over k != j of (t - at[k]) / (at[j] - at[k]): Lagrange's polynomial. */
static double lagrange(const double *at, size_t n, size_t j, double t)
{
    double product = 1;
    for (size_t k = 0; k < n; k++)
        if (k != j) product *= (t - at[k]) / (at[j] - at[k]);
    return product;
}

/* ---- lms: Adams-Bashforth on the levels as they are: the polynomial through the past slopes, integrated over the step
 * (k-diffusion sample_lms). Gauss-Legendre with order/2 + 1 points is exact for it. ---- */

/* Node and weight k of n on [-1, 1]: Newton from the cosine guess. */
static void gauss_legendre(size_t n, size_t k, double *node, double *weight)
{
    double x = cos(acos(-1) * ((double)k + 0.75) / ((double)n + 0.5)), slope = 1;
    for (int tries = 0; tries < 20; tries++) {
        double p = 1, before = 0;
        for (size_t m = 1; m <= n; m++) {
            double next = ((2 * (double)m - 1) * x * p - ((double)m - 1) * before) / (double)m;
            before = p, p = next;
        }
        slope = (double)n * (x * p - before) / (x * x - 1);
        double move = p / slope;
        x -= move;
        if (fabs(move) < 1e-15) break;
    }
    *node = x, *weight = 2 / ((1 - x * x) * slope * slope);
}

static void lms_rule(const kiln_sampling *s, size_t i, size_t order, double *c)
{
    double at[PAST_MAX], middle = (s->sigma[i] + s->sigma[i + 1]) / 2, half = (s->sigma[i + 1] - s->sigma[i]) / 2;
    size_t points = order / 2 + 1;
    for (size_t k = 0; k < order; k++) at[k] = s->sigma[i - k], c[k] = 0;
    for (size_t p = 0; p < points; p++) {
        double node = 0, weight = 2;
        if (points > 1) gauss_legendre(points, p, &node, &weight);
        for (size_t k = 0; k < order; k++) c[k] += half * weight * lagrange(at, order, k, middle + half * node);
    }
}

typedef struct {
    int64_t order;
} lms_options;

static kiln_status run_lms(const kiln_sampling *s)
{
    return linear_multistep(s, (size_t)((const lms_options *)s->options)->order, lms_rule);
}

/* ---- ipndm: Adams-Bashforth's coefficients for equal steps, whatever the steps are (Liu et al. 2022, PNDM, with its
 * first steps of lower order; Zhang & Chen 2022, appendix) ---- */

static void ipndm_rule(const kiln_sampling *s, size_t i, size_t order, double *c)
{
    static const double adams[4][4] = {{1, 0, 0, 0},
                                       {3.0 / 2, -1.0 / 2, 0, 0},
                                       {23.0 / 12, -16.0 / 12, 5.0 / 12, 0},
                                       {55.0 / 24, -59.0 / 24, 37.0 / 24, -9.0 / 24}};
    for (size_t k = 0; k < order; k++) c[k] = (s->sigma[i + 1] - s->sigma[i]) * adams[order - 1][k];
}

typedef struct {
    int64_t max_order;
} past_options;

static size_t max_order(const kiln_sampling *s) { return (size_t)((const past_options *)s->options)->max_order; }
static kiln_status run_ipndm(const kiln_sampling *s) { return linear_multistep(s, max_order(s), ipndm_rule); }

/* ---- ipndm_v: the same for steps of different lengths, from divided differences (Zhang & Chen 2022;
 * zju-pi/diff-sampler solvers). On unequal steps its factors of the second and third difference are not
 * Adams-Bashforth's (lms has those), so that it is of order 2 there; on equal steps it is ipndm. ---- */

static void ipndm_v_rule(const kiln_sampling *s, size_t i, size_t order, double *c)
{
    double whole = s->sigma[i + 1] - s->sigma[i], h[4] = {whole, 0, 0, 0};
    for (size_t k = 1; k < order; k++) h[k] = s->sigma[i - k + 1] - s->sigma[i - k];
    c[0] = 1, c[1] = c[2] = c[3] = 0;
    if (order > 1) c[0] += h[0] / h[1] / 2, c[1] -= h[0] / h[1] / 2;
    if (order > 2) {
        double two = h[0] + h[1], back = h[1] / h[2];
        double t = (1 - h[0] / (3 * two) * (h[0] * two) / (h[1] * (h[1] + h[2]))) / 2;
        c[0] += t, c[1] -= (1 + back) * t, c[2] += back * t;
        if (order > 3) {
            double three = two + h[2], wide = h[1] * (h[1] + h[2]) / (h[2] * (h[2] + h[3]));
            double u = ((1 - h[0] / (3 * two)) / 2 + (1 - h[0] / (2 * two)) * h[0] / (6 * three)) *
                       (h[0] * two * three) / (h[1] * (h[1] + h[2]) * (h[1] + h[2] + h[3]));
            c[0] += u, c[1] -= (1 + back + wide) * u, c[2] += (back + wide * (1 + h[2] / h[3])) * u,
                c[3] -= wide * back * u;
        }
    }
    for (size_t k = 0; k < order; k++) c[k] *= whole;
}

static kiln_status run_ipndm_v(const kiln_sampling *s) { return linear_multistep(s, max_order(s), ipndm_v_rule); }

/* ---- deis: tAB-DEIS (Zhang & Chen 2022, arXiv:2204.13902, eq. 15): the polynomial is in the time of a VP process with
 * EDM's range of levels, and is integrated with its weight by a sum of 10,000 points (zju-pi/diff-sampler solver_utils)
 * -- */

enum { DEIS_POINTS = 10000 };

typedef struct {
    double slope, least; /* beta_1 - beta_0 and beta_0 */
} vp_process;

/* The process in which sigma is 0.002 at time 0.001 and 80 at time 1. */
static vp_process deis_process(void)
{
    double low = log(0.002 * 0.002 + 1), high = log(80.0 * 80 + 1);
    double slope = 2 * (low / 1e-3 - high) / (1e-3 - 1);
    return (vp_process){slope, high - slope / 2};
}

static double deis_time(vp_process p, double sigma)
{
    return (sqrt(p.least * p.least + 2 * p.slope * log1p(sigma * sigma)) - p.least) / p.slope;
}

/* -1/2 (d log abar / dt) / sqrt(abar (1 - abar)), abar = exp(-t^2 slope / 2 - t least): dsigma/dt in this time. */
static double deis_weight(vp_process p, double t)
{
    double abar = exp(-t * t * p.slope / 2 - t * p.least);
    return 0.5 * (t * p.slope + p.least) / sqrt(abar * (1 - abar));
}

static void deis_rule(const kiln_sampling *s, size_t i, size_t order, double *c)
{
    double at[4], end;
    vp_process p = deis_process();
    c[0] = s->sigma[i + 1] - s->sigma[i];
    if (order == 1) return;
    for (size_t k = 0; k < order; k++) at[k] = deis_time(p, s->sigma[i - k]), c[k] = 0;
    end = deis_time(p, s->sigma[i + 1]);
    for (int n = 0; n < DEIS_POINTS; n++) {
        double t = at[0] + (end - at[0]) * n / (DEIS_POINTS - 1), w = deis_weight(p, t) * (end - at[0]) / DEIS_POINTS;
        for (size_t k = 0; k < order; k++) c[k] += w * lagrange(at, order, k, t);
    }
}

static kiln_status run_deis(const kiln_sampling *s) { return linear_multistep(s, max_order(s), deis_rule); }

/* ---- res_multistep: the refined exponential solver, Zhang et al. 2023 (arXiv:2308.02157), algorithm 2, in t = -log
 * sigma; with eta down to sigma_down and noise up. CFG++ starts from x + (d - u) and goes by u ---- */

static kiln_status res_step(const kiln_sampling *s, size_t i, double down, double last_down, int cfg_pp, kiln_latent *d,
                            kiln_latent *u, kiln_latent *old)
{
    double now = s->sigma[i], ratio = down / now;
    if (i == 0 || down == 0) {
        if (cfg_pp)
            MIX(s, s->x, {1, d}, {ratio, s->x}, {-ratio, u});
        else
            euler_step(s, s->x, now, down, d);
        return KILN_OK;
    }
    double h = log(now / down), c2 = log(last_down / s->sigma[i - 1]) / h;
    double phi_1 = -expm1(-h) / h, phi_2 = (1 - phi_1) / h, b2 = h * phi_2 / c2, b1 = h * phi_1 - b2;
    if (!isfinite(b2)) b1 = b2 = 0; /* two equal levels: there is no slope */
    if (cfg_pp)
        MIX(s, s->x, {ratio, s->x}, {ratio, d}, {b1 - ratio, u}, {b2, old});
    else
        MIX(s, s->x, {ratio, s->x}, {b1, d}, {b2, old});
    return KILN_OK;
}

static kiln_status res_multistep(const kiln_sampling *s, double eta, double s_noise, int cfg_pp)
{
    SLOT(s, d, "denoised");
    SLOT(s, u, "unconditional");
    SLOT(s, old, "old_denoised");
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], next = s->sigma[i + 1], down, up, last_down = 0, last_up;
        ancestral_levels(now, next, eta, &down, &up);
        if (i > 0) ancestral_levels(s->sigma[i - 1], now, eta, &last_down, &last_up);
        TRY(s->denoise(s, s->x, now, d));
        if (cfg_pp) TRY(s->unconditional(s, u));
        TRY(res_step(s, i, down, last_down, cfg_pp, d, u, old));
        if (next > 0 && eta > 0) TRY(add_noise(s, now, next, up * s_noise));
        COPY(s, old, cfg_pp ? u : d);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status run_res_multistep(const kiln_sampling *s) { return res_multistep(s, 0, 0, 0); }
static kiln_status run_res_multistep_cfg_pp(const kiln_sampling *s) { return res_multistep(s, 0, 0, 1); }
static kiln_status run_res_multistep_ancestral(const kiln_sampling *s)
{
    const noise_options *o = s->options;
    return res_multistep(s, o->eta, o->s_noise, 0);
}
static kiln_status run_res_multistep_ancestral_cfg_pp(const kiln_sampling *s)
{
    const noise_options *o = s->options;
    return res_multistep(s, o->eta, o->s_noise, 1);
}

/* ---- gradient_estimation: Permenter & Yuan 2024 (arXiv:2306.04848), algorithm 2: the slope gamma e + (1 - gamma)
 * e_old - */

typedef struct {
    double ge_gamma;
} gradient_options;

static kiln_status gradient_estimation(const kiln_sampling *s, int cfg_pp)
{
    double gamma = ((const gradient_options *)s->options)->ge_gamma;
    SLOT(s, d, "denoised");
    SLOT(s, u, "unconditional");
    SLOT(s, slope, "slope");
    SLOT(s, old, "old_slope");
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], next = s->sigma[i + 1], dt = next - now;
        TRY(s->denoise(s, s->x, now, d));
        if (cfg_pp) TRY(s->unconditional(s, u));
        MIX(s, slope, {1 / now, s->x}, {-1 / now, cfg_pp ? u : d});
        double more = i > 0 ? (gamma - 1) * dt : 0;
        if (next == 0)
            COPY(s, s->x, d);
        else if (cfg_pp)
            MIX(s, s->x, {1, d}, {next + more, slope}, {-more, old});
        else
            MIX(s, s->x, {1, s->x}, {dt + more, slope}, {-more, old});
        COPY(s, old, slope);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status run_gradient_estimation(const kiln_sampling *s) { return gradient_estimation(s, 0); }
static kiln_status run_gradient_estimation_cfg_pp(const kiln_sampling *s) { return gradient_estimation(s, 1); }

/* ---- rows ---- */

static const kiln_param lms_params[] = {KIT_INT(lms_options, order, 4, 1, 100, "Past slopes used at most.")};
static const kiln_param ipndm_params[] = {KIT_INT(past_options, max_order, 4, 1, 4, "Past slopes used at most.")};
static const kiln_param deis_params[] = {KIT_INT(past_options, max_order, 3, 1, 4, "Past slopes used at most.")};
static const kiln_param gradient_params[] = {
    NUMBER(gradient_options, ge_gamma, 2, 0, 10, "Weight of this step's slope; 1 is Euler.")};

const kiln_sampler sampler_lms = {SAMPLER(lms),
                                  .doc = "Linear multistep (Adams-Bashforth) in sigma.",
                                  .source = "k-diffusion sample_lms",
                                  .order = 4,
                                  .evaluations = 1,
                                  PARAMS(lms_params, lms_options),
                                  .run = run_lms};
const kiln_sampler sampler_ipndm = {
    SAMPLER(ipndm),
    .doc = "Adams-Bashforth as for equal steps; order 4 where sigma falls evenly, else 2.",
    .source = "Liu et al. 2022 (arXiv:2202.09778); Zhang & Chen 2022 (arXiv:2204.13902)",
    .order = 4,
    .evaluations = 1,
    PARAMS(ipndm_params, past_options),
    .run = run_ipndm};
const kiln_sampler sampler_ipndm_v = {SAMPLER(ipndm_v),
                                      .doc = "ipndm for steps of different lengths.",
                                      .source = "Zhang & Chen 2022 (arXiv:2204.13902); zju-pi/diff-sampler",
                                      .order = 2,
                                      .evaluations = 1,
                                      PARAMS(ipndm_params, past_options),
                                      .run = run_ipndm_v};
const kiln_sampler sampler_deis = {SAMPLER(deis),
                                   .doc = "Exponential integrator with a polynomial in diffusion time.",
                                   .source = "Zhang & Chen 2022 (arXiv:2204.13902), eq. 15",
                                   .order = 3,
                                   .evaluations = 1,
                                   PARAMS(deis_params, past_options),
                                   .run = run_deis};
const kiln_sampler sampler_res_multistep = {SAMPLER(res_multistep),
                                            .doc = "Refined exponential solver, second order from the previous step.",
                                            .source = "Zhang et al. 2023 (arXiv:2308.02157), algorithm 2",
                                            .order = 2,
                                            .evaluations = 1,
                                            .run = run_res_multistep};
const kiln_sampler sampler_res_multistep_cfg_pp = {
    SAMPLER(res_multistep_cfg_pp),
    .flags = KILN_SAMPLER_UNCONDITIONAL,
    .doc = "res_multistep along the unconditional direction; wants a cfg of 1 to 2.",
    .source = "Zhang et al. 2023 (arXiv:2308.02157); Chung et al. 2024 (arXiv:2406.08070)",
    .order = 2,
    .evaluations = 1,
    .run = run_res_multistep_cfg_pp};
const kiln_sampler sampler_res_multistep_ancestral = {SAMPLER(res_multistep_ancestral),
                                                      .flags = KILN_SAMPLER_STOCHASTIC,
                                                      .doc = "res_multistep with fresh noise each step.",
                                                      .source = "Zhang et al. 2023 (arXiv:2308.02157); ComfyUI",
                                                      .order = 2,
                                                      .evaluations = 1,
                                                      PARAMS(noise_params, noise_options),
                                                      .run = run_res_multistep_ancestral};
const kiln_sampler sampler_res_multistep_ancestral_cfg_pp = {
    SAMPLER(res_multistep_ancestral_cfg_pp),
    .flags = KILN_SAMPLER_STOCHASTIC | KILN_SAMPLER_UNCONDITIONAL,
    .doc = "res_multistep_cfg_pp with fresh noise each step.",
    .source = "Zhang et al. 2023 (arXiv:2308.02157); Chung et al. 2024 (arXiv:2406.08070)",
    .order = 2,
    .evaluations = 1,
    PARAMS(noise_params, noise_options),
    .run = run_res_multistep_ancestral_cfg_pp};
const kiln_sampler sampler_gradient_estimation = {SAMPLER(gradient_estimation),
                                                  .doc = "Euler with the slope carried on beyond the last one.",
                                                  .source = "Permenter & Yuan 2024 (arXiv:2306.04848), algorithm 2",
                                                  .order = 1,
                                                  .evaluations = 1,
                                                  PARAMS(gradient_params, gradient_options),
                                                  .run = run_gradient_estimation};
const kiln_sampler sampler_gradient_estimation_cfg_pp = {
    SAMPLER(gradient_estimation_cfg_pp),
    .flags = KILN_SAMPLER_UNCONDITIONAL,
    .doc = "gradient_estimation along the unconditional direction; wants a cfg of 1 to 2.",
    .source = "Permenter & Yuan 2024 (arXiv:2306.04848); Chung et al. 2024 (arXiv:2406.08070)",
    .order = 1,
    .evaluations = 1,
    PARAMS(gradient_params, gradient_options),
    .run = run_gradient_estimation_cfg_pp};
