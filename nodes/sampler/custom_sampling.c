/* custom_sampling.c - SamplerCustom and SamplerCustomAdvanced, and the NOISE and GUIDER values they take.
 *
 * The same path as KSampler's (sample.h): a NOISE is a map {seed, none?, samples?, source?, blocks?}, a GUIDER a map
 * that guider.h describes, a SAMPLER one that options.h does. Names, defaults and ranges are ComfyUI's.
 */
#include "model_sampling.h"
#include "options.h"
#include "sample.h"
#include "sampler_nodes.h"
#include "sampler_rows.h"

#include <math.h>
#include <string.h>

static const kiln_port both_out[] = {
    {.name = "output", .type = "LATENT", .doc = "The latent at the last level."},
    {.name = "denoised_output", .type = "LATENT", .doc = "The last guess of the clean latent."}};
#define SAMPLING_NODE(id, text)                                                                                        \
    .size = sizeof(kiln_node), .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE, .devices = KILN_CPU,  \
    .revision = 2, .type = id, .title = id, .category = "sampling/custom_sampling", .doc = text

/* Runs it: levels from a SIGMAS value, sampler and options from a SAMPLER. */
static kiln_status sample_with(const kiln_call *c, sample_job *job, const kiln_value *sampler, const kiln_value *sigmas)
{
    double *sigma;
    size_t n;
    TRY(options_read(c, sampler, &job->sampler, &job->options));
    TRY(sigmas_read(c, sigmas, &sigma, &n));
    job->sigma = sigma;
    job->n = n ? n - 1 : 0;
    return sample_run(job, &c->out[0], &c->out[1]);
}

/* ---- SamplerCustom ---- */

typedef struct {
    int32_t add_noise;
    uint64_t noise_seed;
    double cfg;
    noise_options source;
} custom_params;

static const kiln_port custom_in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},
    {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."},
    {.name = "sampler", .type = "SAMPLER", .doc = "How a step is taken."},
    {.name = "sigmas", .type = "SIGMAS", .doc = "Noise levels."},
    {.name = "latent_image", .type = "LATENT", .doc = "What to start from; empty for a new picture."},
};
static const kiln_param custom_param[] = {
    KIT_BOOL(custom_params, add_noise, 1, "Off when the latent carries its noise already."),
    KIT_SEED(custom_params, noise_seed, "Of the noise."),
    KIT_FLOAT(custom_params, cfg, 8, 0, 100, 0.1, "How strongly the prompt is followed; 1 leaves the negative out."),
    NOISE_PARAMS(custom_params, source),
};

static kiln_status custom_run(const kiln_call *c)
{
    const custom_params *p = c->params;
    sample_job job = {.call = c,
                      .guider = guider_cfg(c->in[0], c->in[1], c->in[2], p->cfg),
                      .latent = c->in[5],
                      .seed = p->noise_seed,
                      .no_noise = !p->add_noise,
                      .source = p->source};
    return sample_with(c, &job, c->in[3], c->in[4]);
}

const kiln_node node_sampler_custom = {
    SAMPLING_NODE("SamplerCustom", "KSampler with a sampler and levels of your own."),
    KILN_ARRAY(in, custom_in),
    KILN_ARRAY(out, both_out),
    KILN_ARRAY(param, custom_param),
    .params_size = sizeof(custom_params),
    .run = custom_run};

/* ---- NOISE ---- */

static const kiln_port noise_out[] = {{.name = "NOISE", .type = "NOISE", .doc = "What the sampling begins with."}};

/* A seed's bits, as an INT value holds them. */
static kiln_value *seed_value(const kiln_call *c, uint64_t seed)
{
    int64_t bits;
    memcpy(&bits, &seed, sizeof bits);
    return kit_values(c)->new_int(c->ctx, bits);
}

static kiln_status noise_value(const kiln_call *c, uint64_t seed, int none, noise_options source)
{
    kiln_value *map = kit_values(c)->new_map(c->ctx);
    kiln_status status = map ? kit_set(c, map, "seed", seed_value(c, seed)) : KILN_ERR_NOMEM;
    if (status == KILN_OK && none) status = kit_set(c, map, "none", kit_values(c)->new_bool(c->ctx, 1));
    if (status == KILN_OK && source.kind)
        status = kit_set(c, map, "source", kit_values(c)->new_int(c->ctx, source.kind));
    if (status == KILN_OK && source.blocks)
        status = kit_set(c, map, "blocks", kit_values(c)->new_int(c->ctx, source.blocks));
    if (status == KILN_OK)
        c->out[0] = map;
    else
        c->host->unref(map);
    return status;
}

typedef struct {
    uint64_t noise_seed;
    noise_options source;
} noise_params;
static const kiln_param noise_param[] = {KIT_SEED(noise_params, noise_seed, "Of the noise."),
                                         NOISE_PARAMS(noise_params, source)};
static kiln_status random_noise_run(const kiln_call *c)
{
    const noise_params *p = c->params;
    return noise_value(c, p->noise_seed, 0, p->source);
}
static kiln_status disable_noise_run(const kiln_call *c) { return noise_value(c, 0, 1, (noise_options){0}); }

const kiln_node node_random_noise = {PLAIN_NODE("RandomNoise", "sampling/custom_sampling/noise", "Noise of a seed."),
                                     KILN_ARRAY(out, noise_out), KILN_ARRAY(param, noise_param),
                                     .params_size = sizeof(noise_params), .run = random_noise_run};
const kiln_node node_disable_noise = {
    PLAIN_NODE("DisableNoise", "sampling/custom_sampling/noise", "No noise: the latent carries its own."),
    KILN_ARRAY(out, noise_out), .run = disable_noise_run};

static kiln_status source_read(const kiln_call *c, const kiln_value *noise, noise_options *out)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *source = v->map_get(noise, "source"), *blocks = v->map_get(noise, "blocks");
    int64_t kind = 0, size = 0;
    if ((source && (v->get_int(source, &kind) != KILN_OK || kind < NOISE_AUTO || kind > NOISE_CUDA_ALL)) ||
        (blocks && (v->get_int(blocks, &size) != KILN_OK || size < 0 || size > NOISE_BLOCKS_MAX)))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "a NOISE's 'source' has to be 0 to %d, its 'blocks' 0 to %d",
                             NOISE_CUDA_ALL, NOISE_BLOCKS_MAX);
    *out = (noise_options){.kind = (int32_t)kind, .blocks = size};
    return KILN_OK;
}

static kiln_status noise_read(const kiln_call *c, const kiln_value *noise, sample_job *job)
{
    const kiln_value_api *v = kit_values(c);
    int64_t bits;
    if (v->get_int(v->map_get(noise, "seed"), &bits) != KILN_OK)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "a NOISE has to be a map with a 'seed'");
    memcpy(&job->seed, &bits, sizeof bits);
    if (v->map_get(noise, "none") && v->get_bool(v->map_get(noise, "none"), &job->no_noise) != KILN_OK)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "a NOISE's 'none' has to be true or false");
    job->noise = v->map_get(noise, "samples");
    return source_read(c, noise, &job->source);
}

/* ---- GUIDER ---- */

typedef struct {
    double cfg, cfg2;
    int32_t nested;
} guider_params;

static const kiln_port guider_out[] = {{.name = "GUIDER", .type = "GUIDER", .doc = "A model with its conditionings."}};
#define MODEL_PORT                                                                                                     \
    {                                                                                                                  \
        .name = "model", .type = "MODEL", .doc = "The denoiser."                                                       \
    }
static const kiln_port basic_in[] = {
    MODEL_PORT, {.name = "conditioning", .type = "CONDITIONING", .doc = "What the picture should show."}};
static const kiln_port cfg_in[] = {MODEL_PORT,
                                   {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},
                                   {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."}};
static const kiln_port dual_in[] = {MODEL_PORT,
                                    {.name = "cond1", .type = "CONDITIONING", .doc = "What the picture should show."},
                                    {.name = "cond2", .type = "CONDITIONING", .doc = "What it should show as well."},
                                    {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."}};
static const kiln_port perp_in[] = {
    MODEL_PORT,
    {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},
    {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."},
    {.name = "empty_conditioning", .type = "CONDITIONING", .doc = "The empty text."}};
#define CFG_PARAM                                                                                                      \
    KIT_FLOAT(guider_params, cfg, 8, 0, 100, 0.1, "How strongly the prompt is followed; 1 leaves the negative out.")
static const kiln_param cfg_param[] = {CFG_PARAM};
static const kiln_port models_in[] = {
    {.name = "model", .type = "MODEL", .doc = "Evaluates the positive."},
    {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},
    {.name = "model_negative",
     .type = "MODEL",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "Evaluates the negative; left out: `model` does."},
    {.name = "negative", .type = "CONDITIONING", .flags = KILN_PORT_OPTIONAL, .doc = "What it should not."}};
static const kiln_param models_param[] = {
    KIT_FLOAT(guider_params, cfg, 4, 0, 100, 0.1, "How strongly the prompt is followed; 1 leaves the negative out.")};
static const kiln_choice style_choice[] = {{.name = "regular", .value = 0}, {.name = "nested", .value = 1}, {0}};
static const kiln_param dual_param[] = {
    {.name = "cfg_conds",
     .type = KILN_P_FLOAT,
     .offset = offsetof(guider_params, cfg),
     .def = 8,
     .max = 100,
     .step = 0.1,
     .doc = "From cond2 towards cond1."},
    {.name = "cfg_cond2_negative",
     .type = KILN_P_FLOAT,
     .offset = offsetof(guider_params, cfg2),
     .def = 8,
     .max = 100,
     .step = 0.1,
     .doc = "From negative towards cond2; nested: towards what cond1 and cond2 make."},
    {.name = "style",
     .type = KILN_P_ENUM,
     .offset = offsetof(guider_params, nested),
     .choice = style_choice,
     .doc = "regular adds both directions; nested guides with the first's result."},
};
static const kiln_param perp_param[] = {CFG_PARAM,
                                        {.name = "neg_scale",
                                         .type = KILN_P_FLOAT,
                                         .offset = offsetof(guider_params, cfg2),
                                         .def = 1,
                                         .max = 100,
                                         .step = 0.01,
                                         .doc = "How strongly the negative is avoided."}};

static kiln_status basic_run(const kiln_call *c)
{
    return guider_value(c, &(guider){.kind = guider_named("basic"), .model = c->in[0], .conditioning = {c->in[1]}},
                        &c->out[0]);
}

static kiln_status cfg_run(const kiln_call *c)
{
    guider g = guider_cfg(c->in[0], c->in[1], c->in[2], ((const guider_params *)c->params)->cfg);
    return guider_value(c, &g, &c->out[0]);
}

/* ComfyUI takes a missing negative for no text at all, which only networks that can do without a context know how to
 * read. */
static kiln_status models_run(const kiln_call *c)
{
    const kiln_value *other = c->in[2];
    guider g = guider_cfg(c->in[0], c->in[1], c->in[3], ((const guider_params *)c->params)->cfg);
    if (!c->in[3])
        return c->host->fail(
            c->ctx, KILN_ERR_UNSUPPORTED,
            "negative is not wired: that means no text at all, and no model that kiln knows can be asked without one; "
            "wire a CLIPTextEncode of an empty text, or the positive through ConditioningZeroOut");
    if (other) g.kind = guider_named("dual-model"), g.other = other;
    return guider_value(c, &g, &c->out[0]);
}

static kiln_status dual_run(const kiln_call *c)
{
    const guider_params *p = c->params;
    guider g = {.kind = guider_named(p->nested ? "dual-cfg-nested" : "dual-cfg"),
                .model = c->in[0],
                .conditioning = {c->in[1], c->in[3], c->in[2]},
                .number = {p->cfg, p->cfg2}};
    return guider_value(c, &g, &c->out[0]);
}

static kiln_status perp_run(const kiln_call *c)
{
    const guider_params *p = c->params;
    guider g = {.kind = guider_named("perp-neg"),
                .model = c->in[0],
                .conditioning = {c->in[1], c->in[2], c->in[3]},
                .number = {p->cfg, p->cfg2}};
    return guider_value(c, &g, &c->out[0]);
}

#define GUIDER_NODE(id, text) PLAIN_NODE(id, "sampling/custom_sampling/guiders", text), KILN_ARRAY(out, guider_out)
const kiln_node node_basic_guider = {GUIDER_NODE("BasicGuider", "One conditioning as it is."), KILN_ARRAY(in, basic_in),
                                     .run = basic_run};
const kiln_node node_cfg_guider = {
    GUIDER_NODE("CFGGuider", "Classifier-free guidance (Ho and Salimans 2022), as KSampler's."), KILN_ARRAY(in, cfg_in),
    KILN_ARRAY(param, cfg_param), .params_size = sizeof(guider_params), .run = cfg_run};
const kiln_node node_dual_guider = {
    GUIDER_NODE("DualCFGGuider", "Two conditionings and a negative (Brooks et al. 2022)."), KILN_ARRAY(in, dual_in),
    KILN_ARRAY(param, dual_param), .params_size = sizeof(guider_params), .run = dual_run};
const kiln_node node_models_guider = {
    GUIDER_NODE("DualModelGuider", "CFGGuider with the negative evaluated by a model of its own."),
    KILN_ARRAY(in, models_in), KILN_ARRAY(param, models_param), .params_size = sizeof(guider_params),
    .run = models_run};
const kiln_node node_perp_guider = {
    GUIDER_NODE("PerpNegGuider",
                "Avoids only what of the negative is no part of the positive (Armandpour et al. 2023)."),
    KILN_ARRAY(in, perp_in), KILN_ARRAY(param, perp_param), .params_size = sizeof(guider_params), .run = perp_run};

/* ---- SamplerCustomAdvanced ---- */

static const kiln_port advanced_in[] = {
    {.name = "noise", .type = "NOISE", .doc = "What to begin with."},
    {.name = "guider", .type = "GUIDER", .doc = "A model with its conditionings."},
    {.name = "sampler", .type = "SAMPLER", .doc = "How a step is taken."},
    {.name = "sigmas", .type = "SIGMAS", .doc = "Noise levels."},
    {.name = "latent_image", .type = "LATENT", .doc = "What to start from; empty for a new picture."},
};

static kiln_status advanced_run(const kiln_call *c)
{
    sample_job job = {.call = c, .latent = c->in[4]};
    TRY(guider_read(c, c->in[1], &job.guider));
    TRY(noise_read(c, c->in[0], &job));
    return sample_with(c, &job, c->in[2], c->in[3]);
}

const kiln_node node_sampler_custom_advanced = {
    SAMPLING_NODE("SamplerCustomAdvanced", "Sampling from its parts: noise, guider, sampler, levels."),
    KILN_ARRAY(in, advanced_in), KILN_ARRAY(out, both_out), .run = advanced_run};

/* ---- AddNoise ---- */

static const kiln_port add_in[] = {
    {.name = "model", .type = "MODEL", .doc = "Whose latents and levels."},
    {.name = "noise", .type = "NOISE", .doc = "What to add."},
    {.name = "sigmas", .type = "SIGMAS", .doc = "The noise is that between the first level and the last."},
    {.name = "latent_image", .type = "LATENT", .doc = "What to add it to."},
};
static const kiln_port add_out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The noisy latent."}};

static kiln_status add_run(const kiln_call *c)
{
    sample_job job = {.call = c, .guider = {.model = c->in[0]}, .latent = c->in[3]};
    double *sigma;
    size_t n;
    TRY(noise_read(c, c->in[1], &job));
    TRY(sigmas_read(c, c->in[2], &sigma, &n));
    if (n == 0) {
        c->out[0] = c->host->ref(c->in[3]);
        return KILN_OK;
    }
    return sample_add_noise(&job, n > 1 ? fabs(sigma[0] - sigma[n - 1]) : sigma[0], &c->out[0]);
}

const kiln_node node_add_noise = {
    PLAIN_NODE("AddNoise", "sampling/custom_sampling/noise", "Noise for a latent that DisableNoise then samples."),
    KILN_ARRAY(in, add_in), KILN_ARRAY(out, add_out), .run = add_run};
