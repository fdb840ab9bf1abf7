/* samplers_dpmpp.c - DPM-Solver++ (Lu et al. 2022, arXiv:2211.01095): the exponential integrator in the guess d,
 * without noise inside its steps: one-step 2S (with ancestral noise between), two-step 2M, and their CFG++ forms. In t
 * = -log sigma a step of length h is x = exp(-h) x + (1 - exp(-h)) d; exp(-h) = next/now.
 */
#include "samplers_common.h"

/* ---- dpmpp_2s_ancestral: algorithm 1 (2S) with r = 1/2, down to sigma_down, then noise ---- */

/* x at `to` from x at `from`, with the guess at `middle` in the place of d. */
static kiln_status two_stage_step(const kiln_sampling *s, double from, double middle, double to, kiln_latent *d)
{
    SLOT(s, d2, "denoised_2");
    SLOT(s, x2, "x_2");
    euler_step(s, x2, from, middle, d);
    TRY(s->denoise(s, x2, middle, d2));
    euler_step(s, s->x, from, to, d2);
    return KILN_OK;
}

/* Flow: the middle is that of lambda = log((1 - sigma) / sigma), which at sigma 1 is not finite. */
static kiln_status flow_2s_step(const kiln_sampling *s, double now, double next, const noise_options *o, kiln_latent *d)
{
    if (next == 0) {
        COPY(s, s->x, d);
        return KILN_OK;
    }
    flow_ancestral f = flow_ancestral_levels(now, next, o->eta);
    double middle = now == 1 ? 0.9999 : lambda_level(s, (level_lambda(s, now) + level_lambda(s, f.down)) / 2);
    TRY(two_stage_step(s, now, middle, f.down, d));
    if (o->eta <= 0) return KILN_OK;
    MIX(s, s->x, {f.keep, s->x});
    return add_noise(s, now, next, f.up * o->s_noise);
}

static kiln_status ancestral_2s_step(const kiln_sampling *s, double now, double next, const noise_options *o,
                                     kiln_latent *d)
{
    double down, up;
    ancestral_levels(now, next, o->eta, &down, &up);
    if (down == 0)
        COPY(s, s->x, d);
    else
        TRY(two_stage_step(s, now, sqrt(now * down), down, d));
    return next > 0 ? add_noise(s, now, next, up * o->s_noise) : KILN_OK;
}

static kiln_status run_dpmpp_2s_ancestral(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, s->sigma[i], d));
        TRY((is_flow(s) ? flow_2s_step : ancestral_2s_step)(s, s->sigma[i], s->sigma[i + 1], s->options, d));
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- dpmpp_2s_ancestral_cfg_pp: each stage starts from x + (d - u), u the last unconditional guess: the second stage
 * has that of the evaluation in the middle (ComfyUI sample_dpmpp_2s_ancestral_cfg_pp). What is left of d - u there is
 * of the order of a step even where guided and unconditional guess agree: it does not converge to a solution as steps
 * get more. ---- */

static kiln_status cfg_pp_2s_step(const kiln_sampling *s, double now, double down, kiln_latent *d, kiln_latent *u)
{
    SLOT(s, d2, "denoised_2");
    SLOT(s, x2, "x_2");
    double half = sqrt(down / now), whole = down / now;
    MIX(s, x2, {half, s->x}, {1, d}, {-half, u});
    TRY(s->denoise(s, x2, sqrt(now * down), d2));
    TRY(s->unconditional(s, u));
    MIX(s, s->x, {whole, s->x}, {whole, d}, {-whole, u}, {1 - whole, d2});
    return KILN_OK;
}

static kiln_status run_dpmpp_2s_ancestral_cfg_pp(const kiln_sampling *s)
{
    const noise_options *o = s->options;
    SLOT(s, d, "denoised");
    SLOT(s, u, "unconditional");
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], next = s->sigma[i + 1], down, up;
        ancestral_levels(now, next, o->eta, &down, &up);
        TRY(s->denoise(s, s->x, now, d));
        TRY(s->unconditional(s, u));
        if (down == 0)
            COPY(s, s->x, d);
        else
            TRY(cfg_pp_2s_step(s, now, down, d, u));
        if (next > 0) TRY(add_noise(s, now, next, up * o->s_noise));
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- dpmpp_2m: algorithm 2 (2M): the guess extrapolated from the last two ---- */

/* 1/(2r) of the step i, r = the last step's length over this one's. */
static double two_step_weight(const kiln_sampling *s, size_t i)
{
    double h = log(s->sigma[i] / s->sigma[i + 1]), h_last = log(s->sigma[i - 1] / s->sigma[i]);
    return h / (2 * h_last);
}

static kiln_status run_dpmpp_2m(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    SLOT(s, old, "old_denoised");
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], next = s->sigma[i + 1], ratio = next / now, gain = 1 - ratio;
        TRY(s->denoise(s, s->x, now, d));
        if (i == 0 || next == 0) {
            euler_step(s, s->x, now, next, d);
        } else {
            double w = two_step_weight(s, i);
            MIX(s, s->x, {ratio, s->x}, {gain * (1 + w), d}, {-gain * w, old});
        }
        COPY(s, old, d);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- dpmpp_2m_cfg_pp: exp(-h) (x - u) is the noise that stays; the difference is taken from the last unconditional
 * guess (ComfyUI sample_dpmpp_2m_cfg_pp after Chung et al. 2024) ---- */

static kiln_status run_dpmpp_2m_cfg_pp(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    SLOT(s, u, "unconditional");
    SLOT(s, old, "old_unconditional");
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], next = s->sigma[i + 1], ratio = next / now;
        TRY(s->denoise(s, s->x, now, d));
        TRY(s->unconditional(s, u));
        if (next == 0) {
            COPY(s, s->x, d);
        } else if (i == 0) {
            MIX(s, s->x, {1, d}, {ratio, s->x}, {-ratio, u});
        } else {
            double w = (1 - ratio) * two_step_weight(s, i);
            MIX(s, s->x, {1 + w, d}, {ratio, s->x}, {-ratio, u}, {-w, old});
        }
        COPY(s, old, u);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- rows ---- */

const kiln_sampler sampler_dpmpp_2s_ancestral = {SAMPLER(dpmpp_2s_ancestral),
                                                 .flags = KILN_SAMPLER_STOCHASTIC,
                                                 .doc = "Second order in one step, with fresh noise each step.",
                                                 .source =
                                                     "Lu et al. 2022 (arXiv:2211.01095), algorithm 1; k-diffusion",
                                                 .order = 2,
                                                 .evaluations = 2,
                                                 PARAMS(noise_params, noise_options),
                                                 .run = run_dpmpp_2s_ancestral};
const kiln_sampler sampler_dpmpp_2s_ancestral_cfg_pp = {
    SAMPLER(dpmpp_2s_ancestral_cfg_pp),
    .flags = KILN_SAMPLER_STOCHASTIC | KILN_SAMPLER_UNCONDITIONAL,
    .doc = "dpmpp_2s_ancestral along the unconditional direction; wants a cfg of 1 to 2.",
    .source = "Chung et al. 2024 (arXiv:2406.08070); ComfyUI",
    .order = 0,
    .evaluations = 2,
    PARAMS(noise_params, noise_options),
    .run = run_dpmpp_2s_ancestral_cfg_pp};
const kiln_sampler sampler_dpmpp_2m = {SAMPLER(dpmpp_2m),
                                       .doc = "Second order from the previous step.",
                                       .source = "Lu et al. 2022 (arXiv:2211.01095), algorithm 2",
                                       .order = 2,
                                       .evaluations = 1,
                                       .run = run_dpmpp_2m};
const kiln_sampler sampler_dpmpp_2m_cfg_pp = {SAMPLER(dpmpp_2m_cfg_pp),
                                              .flags = KILN_SAMPLER_UNCONDITIONAL,
                                              .doc =
                                                  "dpmpp_2m along the unconditional direction; wants a cfg of 1 to 2.",
                                              .source = "Chung et al. 2024 (arXiv:2406.08070); ComfyUI",
                                              .order = 2,
                                              .evaluations = 1,
                                              .run = run_dpmpp_2m_cfg_pp};
