/* custom_sampling.c - SamplerCustom and SamplerCustomAdvanced, and the NOISE and GUIDER values they take: rows and thin
 * run()s over kiln/sampling.h, as KSampler's. Names, defaults and ranges are ComfyUI's.
 */
#include "sampler_nodes.h"
#include "sampler_rows.h"

#include <math.h>

static const kiln_port both_out[] = {
    {.name = "output", .type = "LATENT", .doc = "The latent at the last level."},
    {.name = "denoised_output", .type = "LATENT", .doc = "The last guess of the clean latent."}};
#define SAMPLING_NODE(id, text)                                                                                        \
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 3, id, id,           \
                   "sampling/custom_sampling", text)

static const kiln_sampling_api *sampling(const kiln_call *c) { return c->host->ability(KILN_SAMPLING_ABILITY); }

/* Samples under `guider`: levels from a SIGMAS value, sampler and options from a SAMPLER. */
static kiln_status sample_with(const kiln_call *c, kiln_sampling_job *job, kiln_value *guider,
                               kiln_value *const sampler_sigmas[2])
{
    const kiln_sampling_api *s = sampling(c);
    kiln_session *session;
    double *sigma;
    size_t n;
    TRY(s->sampler_read(c, sampler_sigmas[0], &job->sampler, &job->options));
    TRY(s->sigmas_read(c, sampler_sigmas[1], kit_values(c)->map_get(guider, "model"), &sigma, &n));
    job->size = sizeof *job;
    job->guider = &guider, job->n_guider = 1;
    job->sigma = sigma;
    job->n = n ? n - 1 : 0;
    job->wants_denoised = 1;
    TRY(s->open(c, job, &session));
    TRY(s->run(session));
    return s->finish(session, &c->out[0], &c->out[1]);
}

kiln_status cfg_guider_new(const kiln_call *c, kiln_value *const model_positive_negative[3], double cfg,
                           kiln_value **out)
{
    static const char *const name[] = {"model", "positive", "negative"};
    const kiln_value_api *v = kit_values(c);
    kiln_value *parts = v->new_map(c->ctx);
    kiln_status status = parts ? kit_set(c, parts, "cfg", v->new_float(c->ctx, cfg)) : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < COUNT(name); i++)
        status = v->map_set(parts, name[i], model_positive_negative[i]);
    if (status == KILN_OK) return sampling(c)->guider_new(c, "cfg", parts, out);
    c->host->unref(parts);
    return status;
}

/* ---- SamplerCustom ---- */

typedef struct {
    int32_t add_noise;
    double cfg;
    kiln_noise noise;
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
    NOISE_SEED(custom_params, noise, "noise_seed"),
    KIT_FLOAT(custom_params, cfg, 8, 0, 100, 0.1, "How strongly the prompt is followed; 1 leaves the negative out."),
    NOISE_PARAMS(custom_params, noise),
};

static kiln_status custom_run(const kiln_call *c)
{
    const custom_params *p = c->params;
    kiln_noise noise = sized_noise(p->noise);
    kiln_sampling_job job = {.latent = c->in[5], .noise = &noise};
    kiln_value *guider;
    noise.none = !p->add_noise;
    TRY(cfg_guider_new(c, c->in, p->cfg, &guider));
    kiln_status status = sample_with(c, &job, guider, &c->in[3]);
    c->host->unref(guider);
    return status;
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

typedef struct {
    kiln_noise noise;
} noise_params;
static const kiln_param noise_param[] = {NOISE_SEED(noise_params, noise, "noise_seed"),
                                         NOISE_PARAMS(noise_params, noise)};
static kiln_status random_noise_run(const kiln_call *c)
{
    kiln_noise noise = sized_noise(((const noise_params *)c->params)->noise);
    return sampling(c)->noise_new(c, &noise, &c->out[0]);
}
static kiln_status disable_noise_run(const kiln_call *c)
{
    return sampling(c)->noise_new(c, &(kiln_noise){.size = sizeof(kiln_noise), .none = 1}, &c->out[0]);
}

const kiln_node node_random_noise = {PLAIN_NODE("RandomNoise", "sampling/custom_sampling/noise", "Noise of a seed."),
                                     KILN_ARRAY(out, noise_out), KILN_ARRAY(param, noise_param),
                                     .params_size = sizeof(noise_params), .run = random_noise_run};
const kiln_node node_disable_noise = {
    PLAIN_NODE("DisableNoise", "sampling/custom_sampling/noise", "No noise: the latent carries its own."),
    KILN_ARRAY(out, noise_out), .run = disable_noise_run};

/* ---- GUIDER ---- */

typedef struct {
    double cfg, cfg2;
    int32_t nested;
} guider_params;

typedef struct {
    const char *name; /* NULL: the last */
    double value;
} guider_setting;

/* A GUIDER of that kind: its models and conditionings are the node's inputs of the same names. */
static kiln_status guider_of_inputs(const kiln_call *c, const char *kind, const kiln_port *port, size_t n,
                                    const guider_setting *settings, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *parts = v->new_map(c->ctx);
    kiln_status status = parts ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < n; i++)
        if (c->in[i]) status = v->map_set(parts, port[i].name, c->in[i]);
    for (; status == KILN_OK && settings && settings->name; settings++)
        status = kit_set(c, parts, settings->name, v->new_float(c->ctx, settings->value));
    if (status == KILN_OK) return sampling(c)->guider_new(c, kind, parts, out);
    c->host->unref(parts);
    return status;
}

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
     KILN_CHOICES(style_choice),
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
    return guider_of_inputs(c, "basic", basic_in, COUNT(basic_in), NULL, &c->out[0]);
}

static kiln_status cfg_run(const kiln_call *c)
{
    return cfg_guider_new(c, c->in, ((const guider_params *)c->params)->cfg, &c->out[0]);
}

/* ComfyUI takes a missing negative for no text at all, which only networks that can do without a context know how to
 * read. */
static kiln_status models_run(const kiln_call *c)
{
    const guider_setting cfg[] = {{"cfg", ((const guider_params *)c->params)->cfg}, {0}};
    if (!c->in[3])
        return c->host->fail(
            c->ctx, KILN_ERR_UNSUPPORTED,
            "negative is not wired: that means no text at all, and no model that kiln knows can be asked without one; "
            "wire a CLIPTextEncode of an empty text, or the positive through ConditioningZeroOut");
    return guider_of_inputs(c, c->in[2] ? "dual-model" : "cfg", models_in, COUNT(models_in), cfg, &c->out[0]);
}

static kiln_status dual_run(const kiln_call *c)
{
    const guider_params *p = c->params;
    const guider_setting settings[] = {{"cfg_conds", p->cfg}, {"cfg_cond2_negative", p->cfg2}, {0}};
    return guider_of_inputs(c, p->nested ? "dual-cfg-nested" : "dual-cfg", dual_in, COUNT(dual_in), settings,
                            &c->out[0]);
}

static kiln_status perp_run(const kiln_call *c)
{
    const guider_params *p = c->params;
    const guider_setting settings[] = {{"cfg", p->cfg}, {"neg_scale", p->cfg2}, {0}};
    return guider_of_inputs(c, "perp-neg", perp_in, COUNT(perp_in), settings, &c->out[0]);
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
    kiln_noise noise = {.size = sizeof noise};
    kiln_sampling_job job = {.latent = c->in[4], .noise = &noise};
    TRY(sampling(c)->noise_read(c, c->in[0], &noise));
    return sample_with(c, &job, c->in[1], &c->in[2]);
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
    const kiln_sampling_api *s = sampling(c);
    kiln_noise noise = {.size = sizeof noise};
    double *sigma;
    size_t n;
    TRY(s->noise_read(c, c->in[1], &noise));
    TRY(s->sigmas_read(c, c->in[2], c->in[0], &sigma, &n));
    if (n == 0) {
        c->out[0] = c->host->ref(c->in[3]);
        return KILN_OK;
    }
    double level = n > 1 ? fabs(sigma[0] - sigma[n - 1]) : sigma[0];
    return s->add_noise(c, c->in[0], &noise, level, c->in[3], &c->out[0]);
}

const kiln_node node_add_noise = {
    PLAIN_NODE("AddNoise", "sampling/custom_sampling/noise", "Noise for a latent that DisableNoise then samples."),
    KILN_ARRAY(in, add_in), KILN_ARRAY(out, add_out), .run = add_run};
