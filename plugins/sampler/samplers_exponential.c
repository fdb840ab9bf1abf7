/* samplers_exponential.c - exponential integrators in lambda = log(alpha / sigma) with several evaluations a step, for
 * the reverse SDE (eta > 0) or the ODE (eta 0): SEEDS-2, SEEDS-3 and exponential Heun; and ER-SDE, which goes back two
 * steps.
 *
 * Over a step of length h: x = (next/now) exp(-eta h) x + alpha (1 - exp(-(1 + eta) h)) d + ... The noise of the stages
 * is one path: what has been drawn up to a stage is carried on and completed, so the stages agree.
 */
#include "samplers_common.h"

/* ---- SEEDS: Gonzalez et al. 2023 (arXiv:2305.14267), data prediction: stages at lambda + r h ---- */

typedef struct {
    double eta, s_noise, r;
    int32_t solver_type;
} seeds_options;

enum { PHI_1 = 1, PHI_2 };
static const kiln_choice phi_choices[] = {{"phi_1", "one weight for both guesses together", PHI_1},
                                          {"phi_2", "weights that meet the second-order conditions", PHI_2},
                                          {NULL, NULL, 0}};

/* A step between two levels, in lambda. */
typedef struct {
    double now, next, lambda, h, eta, s_noise;
} span;

static span span_of(const kiln_sampling *s, size_t i, double eta, double s_noise)
{
    span p = {.now = level_at(s, i), .next = level_at(s, i + 1), .eta = eta, .s_noise = eta > 0 ? s_noise : 0};
    p.lambda = level_lambda(s, p.now);
    p.h = level_lambda(s, p.next) - p.lambda;
    return p;
}

/* out = x at the level a share r on, by the guesses a and b with weights w_a and w_b. */
static void stage(const kiln_sampling *s, const span *p, double r, double level, kiln_latent *out, double w_a,
                  kiln_latent *a, double w_b, kiln_latent *b)
{
    double alpha = level_alpha(s, level);
    MIX(s, out, {level / p->now * exp(-r * p->h * p->eta), s->x}, {alpha * w_a, a}, {alpha * w_b, b});
}

/* 1 - exp(-z), and (exp(-z) - 1 + z)/z: the weights of a constant and of a rising guess over z = r h (1 + eta). */
static double phi_1(double z) { return -expm1(-z); }
static double phi_2(double z) { return (expm1(-z) + z) / z; }

/* The path's noise from the start of the step to share r, from that up to share r_last; added to x at `level`. */
static kiln_status path_noise(const kiln_sampling *s, const span *p, double r_last, double r, double from, double level,
                              kiln_latent *path, kiln_latent *x)
{
    if (p->s_noise <= 0) return KILN_OK;
    SLOT(s, noise, "noise");
    double keep = exp((r_last - r) * p->h * p->eta);
    TRY(s->noise(s, from, level, noise));
    MIX(s, path, {r_last > 0 ? keep : 0, path}, {sqrt(-expm1(2 * (r_last - r) * p->h * p->eta)), noise});
    MIX(s, x, {1, x}, {level * p->s_noise, path});
    return KILN_OK;
}

static kiln_status seeds_2_step(const kiln_sampling *s, const span *p, double r, int phi, kiln_latent *d)
{
    SLOT(s, d2, "denoised_2");
    SLOT(s, x2, "x_2");
    SLOT(s, path, "path");
    double z = p->h * (1 + p->eta), level = lambda_level(s, p->lambda + r * p->h);
    stage(s, p, r, level, x2, phi_1(r * z), d, 0, d);
    TRY(path_noise(s, p, 0, r, p->now, level, path, x2));
    TRY(s->denoise(s, x2, level, d2));
    double w2 = phi == PHI_1 ? phi_1(z) / (2 * r) : phi_2(z) / r;
    stage(s, p, 1, p->next, s->x, phi_1(z) - w2, d, w2, d2);
    return path_noise(s, p, r, 1, level, p->next, path, s->x);
}

static kiln_status seeds_2(const kiln_sampling *s, double eta, double s_noise, double r, int phi)
{
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, level_at(s, i), d));
        if (s->sigma[i + 1] == 0) {
            COPY(s, s->x, d);
        } else {
            span p = span_of(s, i, eta, s_noise);
            TRY(seeds_2_step(s, &p, r, phi, d));
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status run_seeds_2(const kiln_sampling *s)
{
    const seeds_options *o = s->options;
    return seeds_2(s, o->eta, o->s_noise, o->r, o->solver_type);
}

static const kiln_param seeds_2_params[] = {
    CHOICE(seeds_options, solver_type, PHI_1, phi_choices, "How the two guesses are weighted."),
    ETA(seeds_options),
    S_NOISE(seeds_options),
    NUMBER(seeds_options, r, 0.5, 0.01, 1, "Where in a step, in log-SNR, the second evaluation lies."),
};

/* Exponential Heun: SEEDS-2 with the second evaluation at the step's end. */
static kiln_status run_exp_heun_2_x0(const kiln_sampling *s)
{
    return seeds_2(s, 0, 0, 1, ((const seeds_options *)s->options)->solver_type);
}
static kiln_status run_exp_heun_2_x0_sde(const kiln_sampling *s)
{
    const seeds_options *o = s->options;
    return seeds_2(s, o->eta, o->s_noise, 1, o->solver_type);
}

static const kiln_param heun_params[] = {
    CHOICE(seeds_options, solver_type, PHI_2, phi_choices, "How the two guesses are weighted.")};
static const kiln_param heun_sde_params[] = {
    CHOICE(seeds_options, solver_type, PHI_2, phi_choices, "How the two guesses are weighted."),
    ETA(seeds_options),
    S_NOISE(seeds_options),
};

typedef struct {
    double eta, s_noise, r_1, r_2;
} seeds_3_options;

static kiln_status seeds_3_step(const kiln_sampling *s, const span *p, const seeds_3_options *o, kiln_latent *d)
{
    SLOT(s, d2, "denoised_2");
    SLOT(s, d3, "denoised_3");
    SLOT(s, x2, "x_2");
    SLOT(s, path, "path");
    double z = p->h * (1 + p->eta), r1 = o->r_1, r2 = o->r_2;
    double level_1 = lambda_level(s, p->lambda + r1 * p->h), level_2 = lambda_level(s, p->lambda + r2 * p->h);
    stage(s, p, r1, level_1, x2, phi_1(r1 * z), d, 0, d);
    TRY(path_noise(s, p, 0, r1, p->now, level_1, path, x2));
    TRY(s->denoise(s, x2, level_1, d2));
    double w = r2 / r1 * phi_2(r2 * z);
    stage(s, p, r2, level_2, x2, phi_1(r2 * z) - w, d, w, d2);
    TRY(path_noise(s, p, r1, r2, level_1, level_2, path, x2));
    TRY(s->denoise(s, x2, level_2, d3));
    w = phi_2(z) / r2;
    stage(s, p, 1, p->next, s->x, phi_1(z) - w, d, w, d3);
    return path_noise(s, p, r2, 1, level_2, p->next, path, s->x);
}

static kiln_status run_seeds_3(const kiln_sampling *s)
{
    const seeds_3_options *o = s->options;
    SLOT(s, d, "denoised");
    if (!(o->r_1 < o->r_2))
        return s->fail(s, KILN_ERR_INVALID, "seeds_3 has r_1 %g and r_2 %g; r_1 has to be the smaller one", o->r_1,
                       o->r_2);
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, level_at(s, i), d));
        if (s->sigma[i + 1] == 0) {
            COPY(s, s->x, d);
        } else {
            span p = span_of(s, i, o->eta, o->s_noise);
            TRY(seeds_3_step(s, &p, o, d));
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static const kiln_param seeds_3_params[] = {
    ETA(seeds_3_options),
    S_NOISE(seeds_3_options),
    NUMBER(seeds_3_options, r_1, 1.0 / 3, 0.01, 1, "Where in a step, in log-SNR, the second evaluation lies."),
    NUMBER(seeds_3_options, r_2, 2.0 / 3, 0.01, 1, "Where in a step, in log-SNR, the third evaluation lies."),
};

/* ---- er_sde: extended reverse-time SDE, Cui et al. 2023 (arXiv:2309.06169), algorithm 3, in lambda = sigma / alpha;
 * the scaler says how much noise the SDE has. Its integrals are sums of 200 points, lower end included, as in the
 * authors' code; their error, 1/400 of the slope's part of a step, makes it first order in the end. ---- */

enum { ER_SDE, REVERSE_SDE, ODE, ER_POINTS = 200 };
static const kiln_choice er_choices[] = {{"ER-SDE", "the paper's noise scale; eta has no part in it", ER_SDE},
                                         {"Reverse-time SDE", "noise by eta", REVERSE_SDE},
                                         {"ODE", "no noise", ODE},
                                         {NULL, NULL, 0}};

typedef struct {
    double eta, s_noise;
    int64_t max_stage;
    int32_t solver_type;
} er_options;

static double er_scale(const er_options *o, double lambda)
{
    if (o->solver_type == ER_SDE) return lambda * (exp(pow(lambda, 0.3)) + 10);
    return pow(lambda, 1 + (o->solver_type == ODE ? 0 : o->eta));
}

static double er_lambda(const kiln_sampling *s, size_t i) { return exp(-level_lambda(s, level_at(s, i))); }

/* Sums of 1/scale and of (lambda - now)/scale over the step. */
static void er_integrals(const er_options *o, double now, double next, double *plain, double *moment)
{
    double width = (now - next) / ER_POINTS;
    *plain = *moment = 0;
    for (int k = 0; k < ER_POINTS; k++) {
        double at = next + k * width, scale = er_scale(o, at);
        *plain += width / scale;
        *moment += width * (at - now) / scale;
    }
}

/* Slots: the guess before, and its divided difference then. */
static kiln_status er_step(const kiln_sampling *s, size_t i, kiln_latent *d, kiln_latent *old, kiln_latent *slope,
                           kiln_latent *old_slope)
{
    const er_options *o = s->options;
    double now = er_lambda(s, i), next = er_lambda(s, i + 1), dt = next - now, plain, moment;
    double alpha_now = level_alpha(s, level_at(s, i)), alpha = level_alpha(s, level_at(s, i + 1)),
           ratio = er_scale(o, next) / er_scale(o, now);
    int64_t stages = (int64_t)i + 1 < o->max_stage ? (int64_t)i + 1 : o->max_stage;
    MIX(s, s->x, {alpha / alpha_now * ratio, s->x}, {alpha * (1 - ratio), d});
    if (stages >= 2) {
        double last = er_lambda(s, i - 1);
        er_integrals(o, now, next, &plain, &moment);
        MIX(s, slope, {1 / (now - last), d}, {-1 / (now - last), old});
        MIX(s, s->x, {1, s->x}, {alpha * (dt + plain * er_scale(o, next)), slope});
        if (stages >= 3) {
            double w = alpha * (dt * dt / 2 + moment * er_scale(o, next)) * 2 / (now - er_lambda(s, i - 2));
            MIX(s, s->x, {1, s->x}, {w, slope}, {-w, old_slope});
        }
        COPY(s, old_slope, slope);
    }
    double variance = next * next - now * now * ratio * ratio;
    if (o->s_noise <= 0 || o->solver_type == ODE || (o->solver_type == REVERSE_SDE && o->eta <= 0)) return KILN_OK;
    return add_noise(s, s->sigma[i], s->sigma[i + 1], alpha * o->s_noise * (variance > 0 ? sqrt(variance) : 0));
}

static kiln_status run_er_sde(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    SLOT(s, old, "old_denoised");
    SLOT(s, slope, "slope");
    SLOT(s, old_slope, "old_slope");
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, level_at(s, i), d));
        if (s->sigma[i + 1] == 0)
            COPY(s, s->x, d);
        else
            TRY(er_step(s, i, d, old, slope, old_slope));
        COPY(s, old, d);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static const kiln_param er_params[] = {
    CHOICE(er_options, solver_type, ER_SDE, er_choices, "Which equation is solved."),
    KIT_INT(er_options, max_stage, 3, 1, 3, "Order: 1 uses this step's guess, 2 and 3 those before as well."),
    NUMBER(er_options, eta, 1, 0, 100, "Noise of the Reverse-time SDE; 0 makes it the ODE."),
    S_NOISE(er_options),
};

/* ---- rows ---- */

#define SEEDS "Gonzalez et al. 2023 (arXiv:2305.14267)"
const kiln_sampler sampler_exp_heun_2_x0 = {SAMPLER(exp_heun_2_x0),
                                            .doc = "Exponential Heun on the guess, in log-SNR.",
                                            .source = SEEDS ", with r 1 and eta 0",
                                            .order = 2,
                                            .evaluations = 2,
                                            PARAMS(heun_params, seeds_options),
                                            .run = run_exp_heun_2_x0};
const kiln_sampler sampler_exp_heun_2_x0_sde = {SAMPLER(exp_heun_2_x0_sde),
                                                .flags = KILN_SAMPLER_STOCHASTIC,
                                                .doc = "exp_heun_2_x0 with noise.",
                                                .source = SEEDS ", with r 1",
                                                .order = 2,
                                                .evaluations = 2,
                                                PARAMS(heun_sde_params, seeds_options),
                                                .run = run_exp_heun_2_x0_sde};
const kiln_sampler sampler_seeds_2 = {SAMPLER(seeds_2),
                                      .flags = KILN_SAMPLER_STOCHASTIC,
                                      .doc = "Two stages a step whose noise is one path.",
                                      .source = SEEDS ", SEEDS-2",
                                      .order = 2,
                                      .evaluations = 2,
                                      PARAMS(seeds_2_params, seeds_options),
                                      .run = run_seeds_2};
const kiln_sampler sampler_seeds_3 = {SAMPLER(seeds_3),
                                      .flags = KILN_SAMPLER_STOCHASTIC,
                                      .doc = "Three stages a step whose noise is one path.",
                                      .source = SEEDS ", SEEDS-3",
                                      .order = 3,
                                      .evaluations = 3,
                                      PARAMS(seeds_3_params, seeds_3_options),
                                      .run = run_seeds_3};
const kiln_sampler sampler_er_sde = {SAMPLER(er_sde),
                                     .flags = KILN_SAMPLER_STOCHASTIC,
                                     .doc = "From the last two steps, with the paper's noise scale; near third order "
                                            "for the usual numbers of steps, first in the limit.",
                                     .source = "Cui et al. 2023 (arXiv:2309.06169), algorithm 3",
                                     .order = 1,
                                     .evaluations = 1,
                                     PARAMS(er_params, er_options),
                                     .run = run_er_sde};
