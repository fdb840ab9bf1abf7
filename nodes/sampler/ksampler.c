/* ksampler.c - KSampler and KSamplerAdvanced: rows and thin run()s over sample.h.
 *
 * Names, defaults and ranges are ComfyUI's. Of a schedule's levels KSamplerAdvanced takes those from
 * start_at_step to end_at_step; unless leftover noise is asked for, the last one is made 0. noise_source and
 * cuda_blocks are ours: their defaults are ComfyUI's picture.
 */
#include "sampler_nodes.h"

#include "kiln/kit.h"
#include "sample.h"

#define INPUTS                                                                                                         \
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},                                                        \
        {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},                          \
        {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."},                                    \
    {                                                                                                                  \
        .name = "latent_image", .type = "LATENT", .doc = "What to start from; empty for a new picture."                \
    }

static const kiln_port in[] = {INPUTS};
static const kiln_port out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The denoised latent."}};
enum { IN_MODEL, IN_POSITIVE, IN_NEGATIVE, IN_LATENT };

static sample_job job_of(const kiln_call *c, double cfg)
{
    return (sample_job){.call = c,
                        .latent = c->in[IN_LATENT],
                        .guider = guider_cfg(c->in[IN_MODEL], c->in[IN_POSITIVE], c->in[IN_NEGATIVE], cfg)};
}

static kiln_status model_of(const kiln_call *c, const kiln_model **model)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    *model = models->model(c->ctx, c->in[IN_MODEL]);
    return *model ? KILN_OK : KILN_ERR_INVALID;
}

/* ---- KSampler ---- */

typedef struct {
    uint64_t seed;
    int64_t steps;
    double cfg, denoise;
    const char *sampler, *scheduler;
    noise_options source;
} ksampler_params;

#define STEPS_PARAM(type_)                                                                                             \
    {.name = "steps",                                                                                                  \
     .type = KILN_P_INT,                                                                                               \
     .offset = offsetof(type_, steps),                                                                                 \
     .def = 20,                                                                                                        \
     .min = 1,                                                                                                         \
     .max = 10000,                                                                                                     \
     .step = 1,                                                                                                        \
     .doc = "Denoising steps."},                                                                                       \
        {.name = "cfg",                                                                                                \
         .type = KILN_P_FLOAT,                                                                                         \
         .offset = offsetof(type_, cfg),                                                                               \
         .def = 8,                                                                                                     \
         .min = 0,                                                                                                     \
         .max = 100,                                                                                                   \
         .step = 0.1,                                                                                                  \
         .doc = "How strongly the prompt is followed; 1 leaves the negative out."},                                    \
        {.name = "sampler_name",                                                                                       \
         .type = KILN_P_NAME,                                                                                          \
         .offset = offsetof(type_, sampler),                                                                           \
         .def_str = "euler",                                                                                           \
         .from = "sampler",                                                                                            \
         .doc = "How a step is taken."},                                                                               \
    {                                                                                                                  \
        .name = "scheduler", .type = KILN_P_NAME, .offset = offsetof(type_, scheduler), .def_str = "simple",           \
        .from = "schedule", .doc = "How noise levels are spaced."                                                      \
    }

static const kiln_param ksampler_param[] = {
    {.name = "seed", .type = KILN_P_SEED, .offset = offsetof(ksampler_params, seed), .doc = "Of the noise."},
    STEPS_PARAM(ksampler_params),
    {.name = "denoise",
     .type = KILN_P_FLOAT,
     .offset = offsetof(ksampler_params, denoise),
     .def = 1,
     .min = 0,
     .max = 1,
     .step = 0.01,
     .doc = "Share of the way that is denoised; below 1 the given latent shines through."},
    NOISE_PARAMS(ksampler_params, source),
};

static kiln_status ksampler_run(const kiln_call *c)
{
    const ksampler_params *p = c->params;
    const kiln_model *model;
    double *sigma;
    sample_job job = job_of(c, p->cfg);
    TRY(model_of(c, &model));
    TRY(sample_find(c, p->sampler, &job.sampler));
    TRY(sample_sigmas(
        c, model, &(sigma_options){p->scheduler, p->steps, p->denoise, job.sampler->flags & KILN_SAMPLER_EXTRA_STEP, 0},
        &sigma, &job.n));
    job.sigma = sigma;
    job.seed = p->seed;
    job.source = p->source;
    return sample_run(&job, &c->out[0], NULL);
}

const kiln_node node_ksampler = {.size = sizeof(kiln_node),
                                 .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE,
                                 .devices = KILN_CPU,
                                 .revision = 3,
                                 .type = "KSampler",
                                 .title = "KSampler",
                                 .category = "sampling",
                                 .doc = "Denoises a latent with a model, two conditionings and a sampler.",
                                 KILN_ARRAY(in, in),
                                 KILN_ARRAY(out, out),
                                 KILN_ARRAY(param, ksampler_param),
                                 .params_size = sizeof(ksampler_params),
                                 .run = ksampler_run};

/* ---- KSamplerAdvanced ---- */

typedef struct {
    int32_t add_noise, leftover;
    uint64_t seed;
    int64_t steps, start, end;
    double cfg;
    const char *sampler, *scheduler;
    noise_options source;
} advanced_params;

static const kiln_choice switch_choice[] = {{.name = "enable", .value = 1}, {.name = "disable", .value = 0}, {0}};

static const kiln_param advanced_param[] = {
    {.name = "add_noise",
     .type = KILN_P_ENUM,
     .offset = offsetof(advanced_params, add_noise),
     .def = 1,
     .choice = switch_choice,
     .doc = "Off when the latent carries its noise already."},
    {.name = "noise_seed", .type = KILN_P_SEED, .offset = offsetof(advanced_params, seed), .doc = "Of the noise."},
    STEPS_PARAM(advanced_params),
    {.name = "start_at_step",
     .type = KILN_P_INT,
     .offset = offsetof(advanced_params, start),
     .def = 0,
     .min = 0,
     .max = 10000,
     .step = 1,
     .doc = "First step to take, counted in the whole schedule."},
    {.name = "end_at_step",
     .type = KILN_P_INT,
     .offset = offsetof(advanced_params, end),
     .def = 10000,
     .min = 0,
     .max = 10000,
     .step = 1,
     .doc = "Step to stop before."},
    {.name = "return_with_leftover_noise",
     .type = KILN_P_ENUM,
     .offset = offsetof(advanced_params, leftover),
     .def = 0,
     .choice = switch_choice,
     .doc = "Stop at the last level instead of going on to a clean latent."},
    NOISE_PARAMS(advanced_params, source),
};

static kiln_status advanced_run(const kiln_call *c)
{
    const advanced_params *p = c->params;
    const kiln_model *model;
    double *sigma;
    size_t n;
    sample_job job = job_of(c, p->cfg);
    TRY(model_of(c, &model));
    TRY(sample_find(c, p->sampler, &job.sampler));
    TRY(sample_sigmas(c, model,
                      &(sigma_options){p->scheduler, p->steps, 1, job.sampler->flags & KILN_SAMPLER_EXTRA_STEP, 0},
                      &sigma, &n));
    if ((size_t)p->end < n) {
        n = (size_t)p->end;
        if (!p->leftover) sigma[n] = 0;
    }
    size_t start = (size_t)p->start < n ? (size_t)p->start : n;
    job.sigma = sigma + start;
    job.n = n - start;
    job.seed = p->seed;
    job.source = p->source;
    job.no_noise = !p->add_noise;
    return sample_run(&job, &c->out[0], NULL);
}

const kiln_node node_ksampler_advanced = {.size = sizeof(kiln_node),
                                          .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE,
                                          .devices = KILN_CPU,
                                          .revision = 3,
                                          .type = "KSamplerAdvanced",
                                          .title = "KSampler (Advanced)",
                                          .category = "sampling",
                                          .doc = "KSampler over part of a schedule, for jobs of several stages.",
                                          KILN_ARRAY(in, in),
                                          KILN_ARRAY(out, out),
                                          KILN_ARRAY(param, advanced_param),
                                          .params_size = sizeof(advanced_params),
                                          .run = advanced_run};
