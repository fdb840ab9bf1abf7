/* samplers_euler.c - first-order steps: Euler's, with churn, ancestral, CFG++; DDPM; LCM. */
#include "samplers_common.h"

/* ---- euler, ddim: Karras et al. 2022, algorithm 2 without its second-order half. DDIM with eta 0 (Song et al. 2020,
 * eq. 13) is the same step in sigma. ---- */

static kiln_status euler_from(const kiln_sampling *s, int with_churn)
{
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        double hat = s->sigma[i];
        if (with_churn) TRY(churn(s, i, &hat));
        TRY(s->denoise(s, s->x, hat, d));
        euler_step(s, s->x, hat, s->sigma[i + 1], d);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status run_euler(const kiln_sampling *s) { return euler_from(s, 1); }
static kiln_status run_ddim(const kiln_sampling *s) { return euler_from(s, 0); }

/* ---- euler_ancestral, ddpm ---- */

/* Flow: a step down, the signal scaled to what it is at `next`, and the noise that is missing there. */
static kiln_status flow_ancestral_step(const kiln_sampling *s, double now, double next, const noise_options *o,
                                       kiln_latent *d)
{
    flow_ancestral f = flow_ancestral_levels(now, next, o->eta);
    double ratio = f.down / now;
    if (next == 0) {
        COPY(s, s->x, d);
    } else if (o->eta > 0) {
        MIX(s, s->x, {f.keep * ratio, s->x}, {f.keep * (1 - ratio), d});
        return add_noise(s, now, next, f.up * o->s_noise);
    } else {
        euler_step(s, s->x, now, f.down, d);
    }
    return KILN_OK;
}

/* A step down to sigma_down, then fresh noise up to the next level. At sigma_down 0 nothing is drawn. */
static kiln_status ancestral_step(const kiln_sampling *s, double now, double next, const noise_options *o,
                                  kiln_latent *d)
{
    double down, up;
    ancestral_levels(now, next, o->eta, &down, &up);
    euler_step(s, s->x, now, down, d);
    return down > 0 ? add_noise(s, now, next, up * o->s_noise) : KILN_OK;
}

static kiln_status euler_ancestral_from(const kiln_sampling *s, const noise_options *o, int flow)
{
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, s->sigma[i], d));
        TRY((flow ? flow_ancestral_step : ancestral_step)(s, s->sigma[i], s->sigma[i + 1], o, d));
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status run_euler_ancestral(const kiln_sampling *s)
{
    return euler_ancestral_from(s, s->options, is_flow(s));
}

/* Ho et al. 2020, algorithm 2 with the posterior's variance. With x / sqrt(1 + sigma^2) for x and abar = 1 / (1 +
 * sigma^2) its step is x = (next/now)^2 x + (1 - (next/now)^2) d and noise next sqrt(now^2 - next^2) / now: the
 * ancestral step of eta 1. */
static kiln_status run_ddpm(const kiln_sampling *s) { return euler_ancestral_from(s, &(const noise_options){1, 1}, 0); }

/* ---- euler_cfg_pp, euler_ancestral_cfg_pp: CFG++, Chung et al. 2024, algorithm 2: the guided guess, renoised along
 * the unconditional direction ---- */

static kiln_status euler_cfg_pp_from(const kiln_sampling *s, const noise_options *o)
{
    SLOT(s, d, "denoised");
    SLOT(s, u, "unconditional");
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], next = s->sigma[i + 1], down, up;
        double alpha_now = level_alpha(s, now), alpha = level_alpha(s, next);
        TRY(s->denoise(s, s->x, now, d));
        TRY(s->unconditional(s, u));
        if (next == 0) {
            COPY(s, s->x, d);
        } else {
            ancestral_levels(now / alpha_now, next / alpha, o->eta, &down, &up);
            double k = alpha * down / now; /* of x - alpha u, the noise */
            MIX(s, s->x, {alpha, d}, {k, s->x}, {-k * alpha_now, u});
            if (o->eta > 0 && o->s_noise > 0) TRY(add_noise(s, now, next, alpha * up * o->s_noise));
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

enum { CFG_PP_REGULAR, CFG_PP_ALTERNATIVE };
typedef struct {
    int32_t version;
} cfg_pp_options;

/* ComfyUI's SamplerEulerCFGpp, version "alternative": an Euler step whose slope is that of x - d + u towards d,
 * (x - 2 d + u) / now. The step to 0 gives 2 d - u. */
static kiln_status alternative_cfg_pp(const kiln_sampling *s)
{
    SLOT(s, d, "denoised");
    SLOT(s, u, "unconditional");
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], k = (s->sigma[i + 1] - now) / now;
        TRY(s->denoise(s, s->x, now, d));
        TRY(s->unconditional(s, u));
        MIX(s, s->x, {1 + k, s->x}, {-2 * k, d}, {k, u});
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status run_euler_cfg_pp(const kiln_sampling *s)
{
    if (((const cfg_pp_options *)s->options)->version == CFG_PP_ALTERNATIVE) return alternative_cfg_pp(s);
    return euler_cfg_pp_from(s, &(const noise_options){0, 0});
}

static const kiln_choice cfg_pp_choice[] = {
    {.name = "regular", .value = CFG_PP_REGULAR, .doc = "the paper's"},
    {.name = "alternative", .value = CFG_PP_ALTERNATIVE, .doc = "steps along (x - 2 d + u) / s"},
    {0}};
static const kiln_param cfg_pp_params[] = {
    CHOICE(cfg_pp_options, version, CFG_PP_REGULAR, cfg_pp_choice, "Which way the unconditional guess is used.")};

static kiln_status run_euler_ancestral_cfg_pp(const kiln_sampling *s) { return euler_cfg_pp_from(s, s->options); }

/* ---- lcm: multistep consistency sampling, Luo et al. 2023, algorithm 3: each guess is noised anew to the next level
 * ---- */

typedef struct {
    double s_noise, s_noise_end, noise_clip_std;
} lcm_options;

static kiln_status run_lcm(const kiln_sampling *s)
{
    const lcm_options *o = s->options;
    SLOT(s, d, "denoised");
    SLOT(s, noise, "noise");
    for (size_t i = s->first; i < s->n; i++) {
        double next = s->sigma[i + 1];
        TRY(s->denoise(s, s->x, s->sigma[i], d));
        if (next > 0) {
            double way = s->n > 1 ? (double)i / (double)(s->n - 1) : 0;
            double gain = o->s_noise + (o->s_noise_end - o->s_noise) * way;
            TRY(s->noise(s, s->sigma[i], next, noise));
            if (o->noise_clip_std > 0) s->clip(s, noise, o->noise_clip_std);
            if (s->process == KILN_PROCESS_IMAGE)
                COPY(s, s->x, d); /* it is given no noise */
            else
                MIX(s, s->x, {level_alpha(s, next), d}, {next * gain, noise});
        } else {
            COPY(s, s->x, d);
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

/* ---- lcm_upscale: the same, the guess scaled up before it is noised, in even steps over the first steps of the run.
 * ComfyUI has it as the node SamplerLCMUpscale alone. ---- */

typedef struct {
    double scale_ratio;
    int64_t scale_steps;
    int32_t upscale_method;
} upscale_options;

/* Over how many steps the size grows: those asked for, at most all (and one that would come after the last). */
static size_t upscale_steps(const kiln_sampling *s, int64_t asked)
{
    size_t half = (s->n + 1) / 2, least = half > 1 ? half : 1;
    if (asked < 0) return least;
    return (size_t)asked < s->n + 1 ? (size_t)asked : s->n + 1;
}

static kiln_status run_lcm_upscale(const kiln_sampling *s)
{
    const upscale_options *o = s->options;
    size_t growing = upscale_steps(s, o->scale_steps);
    SLOT(s, d, "denoised");
    for (size_t i = s->first; i < s->n; i++) {
        double next = s->sigma[i + 1];
        TRY(s->denoise(s, s->x, s->sigma[i], d));
        COPY(s, s->x, d);
        if (i < growing)
            TRY(s->resize(s, 1 + (o->scale_ratio - 1) * (double)(i + 1) / (double)growing,
                          (uint32_t)o->upscale_method));
        if (next > 0) {
            MIX(s, s->x, {level_alpha(s, next), s->x});
            TRY(add_noise(s, s->sigma[i], next, next));
        }
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static const kiln_choice upscale_choice[] = {
    {.name = "bislerp", .value = KILN_RESIZE_BISLERP, .doc = "along the sphere of each cell's channels"},
    {.name = "nearest-exact", .value = KILN_RESIZE_NEAREST},
    {.name = "bilinear", .value = KILN_RESIZE_BILINEAR},
    {.name = "area", .value = KILN_RESIZE_AREA},
    {.name = "bicubic", .value = KILN_RESIZE_BICUBIC},
    {0}};
static const kiln_param upscale_params[] = {
    NUMBER(upscale_options, scale_ratio, 1, 0.1, 20, "Size at the end, as a multiple of the size at the start."),
    KIT_INT(upscale_options, scale_steps, -1, -1, 1000, "Steps over which the size changes; -1: the first half."),
    CHOICE(upscale_options, upscale_method, KILN_RESIZE_BISLERP, upscale_choice, "How the guess is scaled."),
};

static const kiln_param lcm_params[] = {
    NUMBER(lcm_options, s_noise, 1, 0, 64, "Scale of the noise at the first step."),
    NUMBER(lcm_options, s_noise_end, 1, 0, 64, "Scale of the noise at the last step; it changes evenly between."),
    NUMBER(lcm_options, noise_clip_std, 0, 0, 10,
           "The noise is held within this many standard deviations; 0: it is not."),
};

/* ---- rows ---- */

const kiln_sampler sampler_euler = {SAMPLER(euler),
                                    .flags = KILN_SAMPLER_CONTINUES_NOISE,
                                    .doc = "First order, deterministic.",
                                    .source = "Karras et al. 2022 (arXiv:2206.00364), algorithm 2 (first order)",
                                    .order = 1,
                                    .evaluations = 1,
                                    PARAMS(churn_params, churn_options),
                                    .run = run_euler};
const kiln_sampler sampler_euler_cfg_pp = {
    SAMPLER(euler_cfg_pp),
    .flags = KILN_SAMPLER_UNCONDITIONAL,
    .doc = "Euler that renoises along the unconditional direction; wants a cfg of 1 to 2.",
    .source = "Chung et al. 2024 (arXiv:2406.08070), algorithm 2",
    .order = 1,
    .evaluations = 1,
    PARAMS(cfg_pp_params, cfg_pp_options),
    .run = run_euler_cfg_pp};
const kiln_sampler sampler_euler_ancestral = {
    SAMPLER(euler_ancestral),
    .flags = KILN_SAMPLER_STOCHASTIC,
    .doc = "Euler with fresh noise each step.",
    .source = "k-diffusion sample_euler_ancestral; Song et al. 2020 (arXiv:2010.02502), eq. 16",
    .order = 1,
    .evaluations = 1,
    PARAMS(noise_params, noise_options),
    .run = run_euler_ancestral};
const kiln_sampler sampler_euler_ancestral_cfg_pp = {SAMPLER(euler_ancestral_cfg_pp),
                                                     .flags = KILN_SAMPLER_STOCHASTIC | KILN_SAMPLER_UNCONDITIONAL,
                                                     .doc = "euler_cfg_pp with fresh noise each step.",
                                                     .source = "Chung et al. 2024 (arXiv:2406.08070), algorithm 2",
                                                     .order = 1,
                                                     .evaluations = 1,
                                                     PARAMS(noise_params, noise_options),
                                                     .run = run_euler_ancestral_cfg_pp};
const kiln_sampler sampler_ddpm = {SAMPLER(ddpm),
                                   .flags = KILN_SAMPLER_STOCHASTIC,
                                   .doc = "The sampler diffusion models began with; wants many steps.",
                                   .source = "Ho et al. 2020 (arXiv:2006.11239), algorithm 2",
                                   .order = 1,
                                   .evaluations = 1,
                                   .run = run_ddpm};
const kiln_sampler sampler_lcm = {
    SAMPLER(lcm),
    .flags = KILN_SAMPLER_STOCHASTIC,
    .doc = "For consistency models (LCM) and their LoRAs, 1 to 8 steps; other models it blurs.",
    .source = "Luo et al. 2023 (arXiv:2310.04378), algorithm 3",
    .order = 0,
    .evaluations = 1,
    PARAMS(lcm_params, lcm_options),
    .run = run_lcm};
const kiln_sampler sampler_lcm_upscale = {
    SAMPLER(lcm_upscale),
    .flags = KILN_SAMPLER_STOCHASTIC | KILN_SAMPLER_CONTINUES_NOISE | KILN_SAMPLER_RESIZES,
    .doc = "lcm that scales the picture up on the way (SamplerLCMUpscale).",
    .source = "Luo et al. 2023 (arXiv:2310.04378), algorithm 3; ComfyUI SamplerLCMUpscale",
    .order = 0,
    .evaluations = 1,
    PARAMS(upscale_params, upscale_options),
    .run = run_lcm_upscale};
const kiln_sampler sampler_ddim = {SAMPLER(ddim),
                                   .flags = KILN_SAMPLER_FRESH_MASK_NOISE,
                                   .doc = "DDIM with eta 0, which is Euler in sigma.",
                                   .source = "Song et al. 2020 (arXiv:2010.02502), eq. 13",
                                   .order = 1,
                                   .evaluations = 1,
                                   .run = run_ddim};
