/* samplers_sde.c - DPM-Solver++ for the reverse SDE (Lu et al. 2022, arXiv:2211.01095, section 5 and appendix;
 * k-diffusion's sample_dpmpp_*_sde), in lambda = log(alpha / sigma): over a step of length h the drift is an
 * exponential integrator of (1 + eta) h and noise of deviation sigma sqrt(1 - exp(-2 eta h)) is added. The noise is
 * that of one Brownian path. The _gpu names are the same formulas with the path drawn as a GPU draws it.
 */
#include "samplers_common.h"

/* What a step is made of: x = shrink x + gain d + ... + noise. */
typedef struct {
    double h, h_eta, alpha, shrink, gain, noise;
} sde_step;

static double step_length(const kiln_sampling *s, size_t i)
{
    return level_lambda(s, level_at(s, i + 1)) - level_lambda(s, level_at(s, i));
}

static sde_step sde_step_of(const kiln_sampling *s, size_t i, double eta, double s_noise)
{
    double now = level_at(s, i), next = level_at(s, i + 1);
    sde_step p = {.h = step_length(s, i), .alpha = level_alpha(s, next)};
    p.h_eta = p.h * (1 + eta);
    p.shrink = next / now * exp(-p.h * eta);
    p.gain = -p.alpha * expm1(-p.h_eta);
    p.noise = next * sqrt(-expm1(-2 * p.h * eta)) * s_noise;
    return p;
}

/* alpha (1 - (1 - exp(-h_eta)) / h_eta): phi_2 of the step, the weight of the guess's change over it. */
static double change_weight(const sde_step *p) { return p->alpha * (expm1(-p->h_eta) / p->h_eta + 1); }

/* ---- dpmpp_sde: two stages, the first to lambda + r h; both go down and add noise as an ancestral step does ---- */

typedef struct {
    double eta, s_noise, r;
} sde_options;

static kiln_status sde_second_stage(const kiln_sampling *s, size_t i, kiln_latent *d)
{
    const sde_options *o = s->options;
    SLOT(s, d2, "denoised_2");
    SLOT(s, x2, "x_2");
    SLOT(s, noise, "noise");
    double now = level_at(s, i), next = level_at(s, i + 1), lambda = level_lambda(s, now), fac = 1 / (2 * o->r);
    double stage_lambda = lambda + o->r * step_length(s, i), stage = lambda_level(s, stage_lambda);
    double alpha_now = level_alpha(s, now), alpha_stage = level_alpha(s, stage), alpha = level_alpha(s, next), down, up;
    int noisy = o->eta > 0 && o->s_noise > 0;
    /* exp(-(lambda' - lambda)) = down alpha_now / now, where down = exp(-lambda') */
    ancestral_levels(exp(-lambda), exp(-stage_lambda), o->eta, &down, &up);
    double ratio = down * alpha_now / now;
    MIX(s, x2, {alpha_stage / alpha_now * ratio, s->x}, {alpha_stage * (1 - ratio), d});
    if (noisy) {
        TRY(s->noise(s, now, stage, noise));
        MIX(s, x2, {1, x2}, {alpha_stage * up * o->s_noise, noise});
    }
    TRY(s->denoise(s, x2, stage, d2));
    ancestral_levels(exp(-lambda), next / alpha, o->eta, &down, &up);
    ratio = down * alpha_now / now;
    MIX(s, s->x, {alpha / alpha_now * ratio, s->x}, {alpha * (1 - ratio) * (1 - fac), d},
        {alpha * (1 - ratio) * fac, d2});
    return noisy ? add_noise(s, now, next, alpha * up * o->s_noise) : KILN_OK;
}

static kiln_status run_dpmpp_sde(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, level_at(s, i), d));
        if (s->sigma[i + 1] == 0)
            COPY(s, s->x, d);
        else
            TRY(sde_second_stage(s, i, d));
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static const kiln_param sde_params[] = {
    ETA(sde_options),
    S_NOISE(sde_options),
    /* The second guess counts 1/(2r) times. */
    KIT_FLOAT(sde_options, r, 0.5, 1e-6, 100, 0.01, "Where in a step, in log-SNR, the second evaluation lies."),
};

/* ---- dpmpp_2m_sde: the guess's change from the step before, weighted by the midpoint rule or exactly (heun) ---- */

enum { MIDPOINT, HEUN };
static const kiln_choice solver_choices[] = {{"midpoint", "the slope in the step's middle", MIDPOINT},
                                             {"heun", "the slope integrated exactly", HEUN},
                                             {NULL, NULL, 0}};

typedef struct {
    double eta, s_noise;
    int32_t solver_type;
} sde_2m_options;

static kiln_status run_dpmpp_2m_sde(const kiln_sampling *s)
{
    const sde_2m_options *o = s->options;
    SLOT(s, d, "denoised");
    SLOT(s, old, "old_denoised");
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, level_at(s, i), d));
        if (s->sigma[i + 1] == 0) {
            COPY(s, s->x, d);
        } else {
            sde_step p = sde_step_of(s, i, o->eta, o->s_noise);
            double w = 0;
            if (i > 0) w = (o->solver_type == HEUN ? change_weight(&p) : p.gain / 2) * p.h / step_length(s, i - 1);
            MIX(s, s->x, {p.shrink, s->x}, {p.gain + w, d}, {-w, old});
            if (o->eta > 0 && o->s_noise > 0) TRY(add_noise(s, level_at(s, i), s->sigma[i + 1], p.noise));
        }
        COPY(s, old, d);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

#define SOLVER_PARAMS(kind)                                                                                            \
    {                                                                                                                  \
        ETA(sde_2m_options), S_NOISE(sde_2m_options),                                                                  \
            CHOICE(sde_2m_options, solver_type, kind, solver_choices, "How the change since the last step counts.")    \
    }
static const kiln_param midpoint_params[] = SOLVER_PARAMS(MIDPOINT);
static const kiln_param heun_params[] = SOLVER_PARAMS(HEUN);

/* ---- dpmpp_3m_sde: first and second differences of the guess from the last two steps. The second derivative is 2 D2,
 * and the published form (and everybody's) has phi_3 D2 where order 3 would want twice that: it is of order 2. ---- */

static kiln_status three_step(const kiln_sampling *s, size_t i, kiln_latent *d, kiln_latent *d1, kiln_latent *d2)
{
    const noise_options *o = s->options;
    sde_step p = sde_step_of(s, i, o->eta, o->s_noise);
    double w1 = 0, w2 = 0, w3 = 0; /* of d, of the guess before, of the one before that */
    if (i > 1) {
        double r0 = step_length(s, i - 1) / p.h, r1 = step_length(s, i - 2) / p.h;
        double phi_2 = change_weight(&p), phi_3 = phi_2 / p.h_eta - p.alpha / 2;
        /* D1 = a + (a - b) r0/(r0 + r1), D2 = (a - b)/(r0 + r1), a = (d - d1)/r0, b = (d1 - d2)/r1; x += phi_2 D1 -
         * phi_3 D2 */
        double of_ab = (phi_2 * r0 - phi_3) / (r0 + r1), of_a = (phi_2 + of_ab) / r0, of_b = -of_ab / r1;
        w1 = of_a, w2 = of_b - of_a, w3 = -of_b;
    } else if (i == 1) {
        w1 = change_weight(&p) * p.h / step_length(s, 0), w2 = -w1;
    }
    MIX(s, s->x, {p.shrink, s->x}, {p.gain + w1, d}, {w2, d1}, {w3, d2});
    return o->eta > 0 && o->s_noise > 0 ? add_noise(s, level_at(s, i), s->sigma[i + 1], p.noise) : KILN_OK;
}

static kiln_status run_dpmpp_3m_sde(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    SLOT(s, d1, "denoised_1");
    SLOT(s, d2, "denoised_2");
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, level_at(s, i), d));
        if (s->sigma[i + 1] == 0)
            COPY(s, s->x, d);
        else
            TRY(three_step(s, i, d, d1, d2));
        COPY(s, d2, d1);
        COPY(s, d1, d);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- rows ---- */

#define PATH (KILN_SAMPLER_STOCHASTIC | KILN_SAMPLER_BROWNIAN)
#define ORIGIN(what) "Lu et al. 2022 (arXiv:2211.01095); k-diffusion " what
#define SDE(id, on, text, from, params, type, degree, cost, function)                                                  \
    const kiln_sampler sampler_##id = {                                                                                \
        SAMPLER(id),     .flags = PATH | (on), .doc = text,          .source = ORIGIN(from),                           \
        .order = degree, .evaluations = cost,  PARAMS(params, type), .run = function}

SDE(dpmpp_sde, 0, "Two stages a step, noise of a Brownian path.", "sample_dpmpp_sde", sde_params, sde_options, 2, 2,
    run_dpmpp_sde);
SDE(dpmpp_sde_gpu, KILN_SAMPLER_BROWNIAN_CUDA, "dpmpp_sde with the path a GPU draws.", "sample_dpmpp_sde", sde_params,
    sde_options, 2, 2, run_dpmpp_sde);
SDE(dpmpp_2m_sde, 0, "dpmpp_2m with noise of a Brownian path.", "sample_dpmpp_2m_sde", midpoint_params, sde_2m_options,
    2, 1, run_dpmpp_2m_sde);
SDE(dpmpp_2m_sde_gpu, KILN_SAMPLER_BROWNIAN_CUDA, "dpmpp_2m_sde with the path a GPU draws.", "sample_dpmpp_2m_sde",
    midpoint_params, sde_2m_options, 2, 1, run_dpmpp_2m_sde);
SDE(dpmpp_2m_sde_heun, 0, "dpmpp_2m_sde with solver_type heun.", "sample_dpmpp_2m_sde", heun_params, sde_2m_options, 2,
    1, run_dpmpp_2m_sde);
SDE(dpmpp_2m_sde_heun_gpu, KILN_SAMPLER_BROWNIAN_CUDA, "dpmpp_2m_sde_heun with the path a GPU draws.",
    "sample_dpmpp_2m_sde", heun_params, sde_2m_options, 2, 1, run_dpmpp_2m_sde);
SDE(dpmpp_3m_sde, 0, "From the last two steps, with noise of a Brownian path; in its published form of second order.",
    "sample_dpmpp_3m_sde", noise_params, noise_options, 2, 1, run_dpmpp_3m_sde);
SDE(dpmpp_3m_sde_gpu, KILN_SAMPLER_BROWNIAN_CUDA, "dpmpp_3m_sde with the path a GPU draws.", "sample_dpmpp_3m_sde",
    noise_params, noise_options, 2, 1, run_dpmpp_3m_sde);
