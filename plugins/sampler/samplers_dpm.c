/* samplers_dpm.c - DPM-Solver (Lu et al. 2022, arXiv:2206.00927): the k-diffusion midpoint forms dpm_2, and the
 * solvers proper, in eps = (x - d) / sigma and t = -log sigma, with levels of their own: dpm_fast and dpm_adaptive.
 */
#include "samplers_common.h"

/* ---- dpm_2, dpm_2_ancestral: the slope at the geometric mean of the two levels (Karras et al. 2022, algorithm 2's
 * midpoint kin; k-diffusion sample_dpm_2) ---- */

static kiln_status midpoint_step(const kiln_sampling *s, double from, double to, kiln_latent *d)
{
    SLOT(s, d2, "denoised_2");
    SLOT(s, x2, "x_2");
    if (to == 0) {
        COPY(s, s->x, d);
        return KILN_OK;
    }
    double middle = sqrt(from * to), a = (to - from) / middle;
    euler_step(s, x2, from, middle, d);
    TRY(s->denoise(s, x2, middle, d2));
    MIX(s, s->x, {1, s->x}, {a, x2}, {-a, d2});
    return KILN_OK;
}

static kiln_status run_dpm_2(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        double hat;
        TRY(churn(s, i, &hat));
        TRY(s->denoise(s, s->x, hat, d));
        TRY(midpoint_step(s, hat, s->sigma[i + 1], d));
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status run_dpm_2_ancestral(const kiln_sampling *s)
{
    const noise_options *o = s->options;
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], next = s->sigma[i + 1];
        flow_ancestral f = {.keep = 1};
        if (is_flow(s))
            f = flow_ancestral_levels(now, next, o->eta);
        else
            ancestral_levels(now, next, o->eta, &f.down, &f.up);
        TRY(s->denoise(s, s->x, now, d));
        TRY(midpoint_step(s, now, f.down, d));
        if (f.down > 0) {
            if (f.keep != 1) MIX(s, s->x, {f.keep, s->x});
            TRY(add_noise(s, now, next, f.up * o->s_noise));
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- DPM-Solver-1, -2, -3 (algorithms 1 and 2 of the paper's appendix, eqs. 4.1 to 4.3) ---- */

/* eps = (x - D(x, sigma)) / sigma, and the guess itself in d. */
static kiln_status eps_at(const kiln_sampling *s, kiln_latent *x, double sigma, kiln_latent *d, kiln_latent *eps)
{
    TRY(s->denoise(s, x, sigma, d));
    MIX(s, eps, {1 / sigma, x}, {-1 / sigma, d});
    return KILN_OK;
}

static void solver_1(const kiln_sampling *s, kiln_latent *out, double t, double t_next, kiln_latent *eps)
{
    MIX(s, out, {1, s->x}, {-exp(-t_next) * expm1(t_next - t), eps});
}

/* Evaluates at t + r1 h into eps1 on the way. */
static kiln_status solver_2(const kiln_sampling *s, kiln_latent *out, double t, double t_next, double r1,
                            kiln_latent *eps, kiln_latent *eps1)
{
    SLOT(s, u, "stage");
    SLOT(s, d, "denoised_stage");
    double h = t_next - t, s1 = t + r1 * h, whole = exp(-t_next) * expm1(h);
    MIX(s, u, {1, s->x}, {-exp(-s1) * expm1(r1 * h), eps});
    TRY(eps_at(s, u, exp(-s1), d, eps1));
    MIX(s, out, {1, s->x}, {-whole * (1 - 1 / (2 * r1)), eps}, {-whole / (2 * r1), eps1});
    return KILN_OK;
}

/* eps1 is that of t + h / 3, from solver_2 with r1 = 1/3. */
static kiln_status solver_3(const kiln_sampling *s, kiln_latent *out, double t, double t_next, kiln_latent *eps,
                            kiln_latent *eps1)
{
    SLOT(s, u, "stage");
    SLOT(s, d, "denoised_stage");
    SLOT(s, eps2, "eps_2");
    const double r1 = 1.0 / 3, r2 = 2.0 / 3;
    double h = t_next - t, s2 = t + r2 * h;
    double slope = exp(-s2) * (r2 / r1) * (expm1(r2 * h) / (r2 * h) - 1), last = exp(-t_next) / r2 * (expm1(h) / h - 1);
    MIX(s, u, {1, s->x}, {slope - exp(-s2) * expm1(r2 * h), eps}, {-slope, eps1});
    TRY(eps_at(s, u, exp(-s2), d, eps2));
    MIX(s, out, {1, s->x}, {last - exp(-t_next) * expm1(h), eps}, {-last, eps2});
    return KILN_OK;
}

/* Both run from sigma[0] to the last level that is above 0: in t from *start to *end, which is before where levels
 * rise. */
static kiln_status solver_range(const kiln_sampling *s, double eta, double *start, double *end)
{
    double last = s->sigma[s->n] > 0 ? s->sigma[s->n] : s->sigma[s->n - 1];
    *start = -log(s->sigma[0]), *end = -log(last);
    if (last == s->sigma[0])
        return s->fail(s, KILN_ERR_INVALID,
                       "this sampler works from the first noise level to the last above 0, and here both are "
                       "%g; give it two steps or more",
                       last);
    if (last > s->sigma[0] && eta > 0)
        return s->fail(s, KILN_ERR_INVALID,
                       "the noise levels rise from %g to %g: eta %g would add noise, only 0 goes there", s->sigma[0],
                       last, eta);
    return KILN_OK;
}

/* An ancestral step in t, with eta 0 the step itself: *to is where the solver goes, the returned deviation brings x up
 * to t. */
static double solver_ancestral(double t, double t_next, double end, double eta, double *to)
{
    double down, up;
    *to = t_next;
    if (eta <= 0) return 0;
    ancestral_levels(exp(-t), exp(-t_next), eta, &down, &up);
    *to = fmin(end, -log(down));
    return sqrt(fmax(0, exp(-2 * t_next) - exp(-2 * *to)));
}

/* ---- dpm_fast: section 3.4: as many steps of order 3 as n evaluations allow, then of order 2 or 1, evenly in t ----
 */

static size_t fast_order(size_t evaluations, size_t k)
{
    size_t m = evaluations / 3 + 1;
    if (evaluations % 3 == 0) return k + 2 < m ? 3 : m - k; /* ... 3, 2, 1 */
    return k + 1 < m ? 3 : evaluations % 3;
}

static kiln_status fast_step(const kiln_sampling *s, size_t order, double t, double to, kiln_latent *d)
{
    SLOT(s, eps, "eps");
    SLOT(s, eps1, "eps_1");
    SLOT(s, low, "x_low");
    TRY(eps_at(s, s->x, exp(-t), d, eps));
    if (order == 1) solver_1(s, s->x, t, to, eps);
    if (order == 2) return solver_2(s, s->x, t, to, 0.5, eps, eps1);
    if (order == 3) {
        TRY(solver_2(s, low, t, to, 1.0 / 3, eps, eps1));
        return solver_3(s, s->x, t, to, eps, eps1);
    }
    return KILN_OK;
}

static kiln_status run_dpm_fast(const kiln_sampling *s)
{
    const noise_options *o = s->options;
    double start, end;
    SLOT(s, d, "denoised");
    TRY(solver_range(s, o->eta, &start, &end));
    size_t m = s->n / 3 + 1, spent = 0;
    for (size_t k = 0; k < m; k++) {
        size_t order = fast_order(s->n, k);
        spent += order;
        if (spent <= s->first) continue; /* done before the run was taken up again */
        double t = start + (end - start) * (double)k / (double)m,
               next = start + (end - start) * (double)(k + 1) / (double)m, to;
        if (k + 1 == m) next = end;
        double up = solver_ancestral(t, next, end, o->eta, &to);
        TRY(fast_step(s, order, t, to, d));
        if (o->eta > 0) TRY(add_noise(s, exp(-t), exp(-next), up * o->s_noise));
        TRY(s->step(s, spent - 1, d));
    }
    return KILN_OK;
}

static const kiln_param fast_params[] = {
    NUMBER(noise_options, eta, 0, 0, 100, "How much of the noise is made anew each step; 0: none."),
    S_NOISE(noise_options),
};

/* ---- rows ---- */

const kiln_sampler sampler_dpm_2 = {SAMPLER(dpm_2),
                                    .flags = KILN_SAMPLER_EXTRA_STEP | KILN_SAMPLER_CONTINUES_NOISE,
                                    .doc = "Second order, two evaluations a step.",
                                    .source = "k-diffusion sample_dpm_2; Lu et al. 2022 (arXiv:2206.00927)",
                                    .order = 2,
                                    .evaluations = 2,
                                    PARAMS(churn_params, churn_options),
                                    .run = run_dpm_2};
const kiln_sampler sampler_dpm_2_ancestral = {SAMPLER(dpm_2_ancestral),
                                              .flags = KILN_SAMPLER_EXTRA_STEP | KILN_SAMPLER_STOCHASTIC,
                                              .doc = "dpm_2 with fresh noise each step.",
                                              .source = "k-diffusion sample_dpm_2_ancestral",
                                              .order = 2,
                                              .evaluations = 2,
                                              PARAMS(noise_params, noise_options),
                                              .run = run_dpm_2_ancestral};
const kiln_sampler sampler_dpm_fast = {
    SAMPLER(dpm_fast),
    .doc = "Third order with as many evaluations as there are steps; stops at the last level above 0.",
    .source = "Lu et al. 2022 (arXiv:2206.00927), section 3.4",
    .order = 3,
    .evaluations = 1,
    PARAMS(fast_params, noise_options),
    .run = run_dpm_fast};

/* ---- dpm_adaptive: DPM-Solver-12 and -23 (appendix C), the step's length by a PID controller ---- */

typedef struct {
    double rtol, atol, h_init, pcoeff, icoeff, dcoeff, accept_safety, eta, s_noise;
    int64_t order;
} adaptive_options;

/* What survives from step to step. */
typedef struct {
    double begun, t, h, inverse[3], accepted, rejected, share;
} adaptive_state;

enum { REJECTIONS_MAX = 200 }; /* in a row; from h = 0.05 each at least takes a third of the step: 1e-95 */

/* 1 + atan(x - 1) keeps the factor within 0.21 .. 2.57; a step is accepted when it is accept_safety or more. */
static int propose(adaptive_state *a, const adaptive_options *o, double error)
{
    double order = o->eta > 0 ? 1.5 : (double)o->order, inverse = 1 / (error + 1e-8);
    double b1 = (o->pcoeff + o->icoeff + o->dcoeff) / order, b2 = -(o->pcoeff + 2 * o->dcoeff) / order,
           b3 = o->dcoeff / order;
    if (a->inverse[1] == 0) a->inverse[1] = a->inverse[2] = inverse;
    a->inverse[0] = inverse;
    double factor = 1 + atan(pow(a->inverse[0], b1) * pow(a->inverse[1], b2) * pow(a->inverse[2], b3) - 1);
    int accepted = factor >= o->accept_safety;
    if (accepted) a->inverse[2] = a->inverse[1], a->inverse[1] = a->inverse[0];
    a->h *= factor;
    return accepted;
}

/* One attempt from a->t to t: low and high are x there by the lower and the higher order. */
static kiln_status attempt(const kiln_sampling *s, int64_t order, double from, double to, kiln_latent *d,
                           kiln_latent *low, kiln_latent *high)
{
    SLOT(s, eps, "eps");
    SLOT(s, eps1, "eps_1");
    TRY(eps_at(s, s->x, exp(-from), d, eps));
    if (order == 2) {
        solver_1(s, low, from, to, eps);
        return solver_2(s, high, from, to, 0.5, eps, eps1);
    }
    TRY(solver_2(s, low, from, to, 1.0 / 3, eps, eps1));
    return solver_3(s, high, from, to, eps, eps1);
}

static kiln_status adaptive_step(const kiln_sampling *s, adaptive_state *a, double end, kiln_latent *d)
{
    const adaptive_options *o = s->options;
    SLOT(s, before, "x_before");
    SLOT(s, low, "x_low");
    SLOT(s, high, "x_high");
    for (int tries = 0; tries < REJECTIONS_MAX; tries++) {
        double t = end > a->t ? fmin(end, a->t + a->h) : fmax(end, a->t + a->h), to,
               up = solver_ancestral(a->t, t, end, o->eta, &to);
        if (t == a->t) break;
        TRY(attempt(s, o->order, a->t, to, d, low, high));
        double error = s->error(s, low, high, before, o->atol, o->rtol);
        if (isnan(error))
            return s->fail(s, KILN_ERR_INVALID,
                           "dpm_adaptive cannot judge its step at sigma %g: the model gave values that are not finite, "
                           "or atol and rtol are both 0",
                           exp(-a->t));
        if (!propose(a, o, error)) {
            a->rejected++;
            continue;
        }
        COPY(s, before, low);
        COPY(s, s->x, high);
        if (o->eta > 0) TRY(add_noise(s, exp(-a->t), exp(-t), up * o->s_noise));
        a->accepted++;
        a->t = t;
        return KILN_OK;
    }
    return s->fail(s, KILN_ERR_INVALID,
                   "dpm_adaptive found no step at sigma %g that rtol %g, atol %g and accept_safety %g let pass",
                   exp(-a->t), o->rtol, o->atol, o->accept_safety);
}

static kiln_status run_dpm_adaptive(const kiln_sampling *s)
{
    const adaptive_options *o = s->options;
    double start, end;
    SLOT(s, d, "denoised");
    SLOT(s, before, "x_before");
    adaptive_state *a = (adaptive_state *)(void *)s->scalars(s, "adaptive", sizeof *a / sizeof(double));
    if (!a) return KILN_ERR_NOMEM;
    TRY(solver_range(s, o->eta, &start, &end));
    double way = end > start ? 1 : -1;
    if (a->begun == 0) {
        *a = (adaptive_state){.begun = 1, .t = start, .h = way * o->h_init};
        COPY(s, before, s->x);
    }
    while (way * (end - a->t) > 1e-5) {
        TRY(adaptive_step(s, a, end, d));
        double share = floor((a->t - start) / (end - start) * (double)s->n) - 1;
        share = way * (end - a->t) > 1e-5 ? fmin(share, (double)s->n - 2) : (double)s->n - 1;
        a->share = fmax(a->share, share); /* at least 0 */
        TRY(s->step(s, (size_t)a->share, d));
    }
    return KILN_OK;
}

static const kiln_param adaptive_params[] = {
    KIT_INT(adaptive_options, order, 3, 2, 3, "Of the step that is kept; also the evaluations each attempt costs."),
    NUMBER(adaptive_options, rtol, 0.05, 0, 100, "Error allowed in a step, relative to the value."),
    NUMBER(adaptive_options, atol, 0.0078, 0, 100, "Error allowed in a step, absolute."),
    NUMBER(adaptive_options, h_init, 0.05, 0, 100, "The first step to try, in log sigma."),
    NUMBER(adaptive_options, pcoeff, 0, 0, 100, "Controller: weight of the error's change."),
    NUMBER(adaptive_options, icoeff, 1, 0, 100, "Controller: weight of the error."),
    NUMBER(adaptive_options, dcoeff, 0, 0, 100, "Controller: weight of the change of the error's change."),
    NUMBER(adaptive_options, accept_safety, 0.81, 0, 100,
           "A step is kept when the controller would not make it shorter than this times."),
    NUMBER(adaptive_options, eta, 0, 0, 100, "How much of the noise is made anew each step; 0: none."),
    S_NOISE(adaptive_options),
};

const kiln_sampler sampler_dpm_adaptive = {
    SAMPLER(dpm_adaptive),
    .doc = "Third order, chooses its own steps to keep rtol and atol; `steps` matters only through the lowest level.",
    .source = "Lu et al. 2022 (arXiv:2206.00927), appendix C",
    .order = 3,
    .evaluations = 3,
    PARAMS(adaptive_params, adaptive_options),
    .run = run_dpm_adaptive};
