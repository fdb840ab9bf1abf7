/* ksampler.c - KSampler and KSamplerAdvanced: rows and thin run()s over kiln/sampling.h.
 *
 * Names, defaults and ranges are ComfyUI's. Of a schedule's levels KSamplerAdvanced takes those from start_at_step to
 * end_at_step; unless leftover noise is asked for, the last one is made 0. noise_source and cuda_blocks are ours: their
 * defaults are ComfyUI's picture.
 */
#include "sampler_nodes.h"
#include "sampler_rows.h"

static const kiln_port in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},
    {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."},
    {.name = "latent_image", .type = "LATENT", .doc = "What to start from; empty for a new picture."},
};
static const kiln_port out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The denoised latent."}};
enum { IN_MODEL, IN_POSITIVE, IN_NEGATIVE, IN_LATENT };

#define SAMPLER_PARAMS(struct_)                                                                                        \
    KIT_INT(struct_, steps, 20, 1, 10000, "Denoising steps."),                                                         \
        KIT_FLOAT(struct_, cfg, 8, 0, 100, 0.1, "How strongly the prompt is followed; 1 leaves the negative out."),    \
        {.name = "sampler_name",                                                                                       \
         .type = KILN_P_NAME,                                                                                          \
         .offset = offsetof(struct_, sampler),                                                                         \
         .def_str = "euler",                                                                                           \
         .from = "sampler",                                                                                            \
         .doc = "How a step is taken."},                                                                               \
    {                                                                                                                  \
        .name = "scheduler", .type = KILN_P_NAME, .offset = offsetof(struct_, scheduler), .def_str = "simple",         \
        .from = "schedule", .doc = "How noise levels are spaced."                                                      \
    }
#define SAMPLING_FLAGS (KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES)

/* Samples the job's levels under a "cfg" guider of the node's inputs. */
static kiln_status sample(const kiln_call *c, const kiln_sampling_job *levels, double cfg)
{
    kiln_sampling_job job = *levels;
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    kiln_value *guider;
    kiln_session *session;
    TRY(cfg_guider_new(c, (kiln_value *const[]){c->in[IN_MODEL], c->in[IN_POSITIVE], c->in[IN_NEGATIVE]}, cfg,
                       &guider));
    job.size = sizeof job;
    job.guider = &guider, job.n_guider = 1;
    job.latent = c->in[IN_LATENT];
    kiln_status status = s->open(c, &job, &session);
    if (status == KILN_OK) status = s->run(session);
    if (status == KILN_OK) status = s->finish(session, &c->out[0], NULL);
    c->host->unref(guider);
    return status;
}

/* The levels of the schedule for the job's sampler. */
static kiln_status levels(const kiln_call *c, const kiln_sampling_job *job, kiln_sigma_options options, double **sigma,
                          size_t *n)
{
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    options.size = sizeof options;
    options.latent = c->in[IN_LATENT];
    options.drop_last_but_one = (job->sampler->flags & KILN_SAMPLER_EXTRA_STEP) != 0;
    return s->sigmas(c, c->in[IN_MODEL], &options, sigma, n);
}

/* ---- KSampler ---- */

typedef struct {
    int64_t steps;
    double cfg, denoise;
    const char *sampler, *scheduler;
    kiln_noise noise;
} ksampler_params;

static const kiln_param ksampler_param[] = {
    NOISE_SEED(ksampler_params, noise, "seed"),
    SAMPLER_PARAMS(ksampler_params),
    KIT_FLOAT(ksampler_params, denoise, 1, 0, 1, 0.01,
              "Share of the way that is denoised; below 1 the given latent shines through."),
    NOISE_PARAMS(ksampler_params, noise),
};

static kiln_status ksampler_run(const kiln_call *c)
{
    const ksampler_params *p = c->params;
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    kiln_noise noise = sized_noise(p->noise);
    kiln_sampling_job job = {.noise = &noise};
    double *sigma;
    TRY(s->find_sampler(c, p->sampler, &job.sampler));
    TRY(levels(c, &job, (kiln_sigma_options){.schedule = p->scheduler, .steps = p->steps, .denoise = p->denoise},
               &sigma, &job.n));
    job.sigma = sigma;
    return sample(c, &job, p->cfg);
}

const kiln_node node_ksampler = {KIT_NODE_FLAGS(SAMPLING_FLAGS, 3, "KSampler", "KSampler", "sampling",
                                                "Denoises a latent with a model, two conditionings and a sampler."),
                                 KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(ksampler_params, ksampler_param),
                                 .run = ksampler_run};

/* ---- KSamplerAdvanced ---- */

typedef struct {
    int32_t add_noise, leftover;
    int64_t steps, start, end;
    double cfg;
    const char *sampler, *scheduler;
    kiln_noise noise;
} advanced_params;

static const kiln_choice switch_choice[] = {{.name = "enable", .value = 1}, {.name = "disable", .value = 0}, {0}};

static const kiln_param advanced_param[] = {
    KIT_ENUM(advanced_params, add_noise, switch_choice, 1, "Off when the latent carries its noise already."),
    NOISE_SEED(advanced_params, noise, "noise_seed"),
    SAMPLER_PARAMS(advanced_params),
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
     KILN_CHOICES(switch_choice),
     .doc = "Stop at the last level instead of going on to a clean latent."},
    NOISE_PARAMS(advanced_params, noise),
};

static kiln_status advanced_run(const kiln_call *c)
{
    const advanced_params *p = c->params;
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    kiln_noise noise = sized_noise(p->noise);
    kiln_sampling_job job = {.noise = &noise};
    double *sigma;
    size_t n;
    noise.none = !p->add_noise;
    TRY(s->find_sampler(c, p->sampler, &job.sampler));
    TRY(levels(c, &job, (kiln_sigma_options){.schedule = p->scheduler, .steps = p->steps, .denoise = 1}, &sigma, &n));
    if ((size_t)p->end < n) {
        n = (size_t)p->end;
        if (!p->leftover) sigma[n] = 0;
    }
    size_t start = (size_t)p->start < n ? (size_t)p->start : n;
    job.sigma = sigma + start;
    job.n = n - start;
    return sample(c, &job, p->cfg);
}

const kiln_node node_ksampler_advanced = {
    KIT_NODE_FLAGS(SAMPLING_FLAGS, 4, "KSamplerAdvanced", "KSampler (Advanced)", "sampling",
                   "KSampler over part of a schedule, for jobs of several stages."),
    KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(advanced_params, advanced_param), .run = advanced_run};
