/* model_sampling_nodes.c - nodes that give a MODEL another sampling description, or guidance of its own.
 *
 * The new MODEL has the same denoiser, weights and hooks and keeps the one it came from alive; that one is untouched.
 * Tables are made anew from the denoiser's own, so that a second such node replaces the first one's work. Names,
 * defaults and ranges are ComfyUI's; `timestep` is kiln's.
 */
#include "model_guidance.h"
#include "kiln/standard_sampling.h"
#include "model_sampling.h"
#include "sampler_nodes.h"
#include "sampler_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kiln_port model_in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_port model_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with the change."}};
#define MODEL_NODE(id, text) PLAIN_NODE(id, "advanced/model", text), KILN_ARRAY(out, model_out)

/* ---- another sampling ---- */

/* What a MODEL made here owns. */
typedef struct {
    kiln_standard_sampling sampling;
    kiln_sampling_row row; /* what it will be made of, when the levels are there */
    double sigma[];
} described;

/* A description with a table of n entries, to be filled. NULL: no memory. */
static described *described_new(size_t n, kiln_sampling_row row)
{
    described *d = calloc(1, sizeof *d + n * sizeof d->sigma[0]);
    if (!d) return NULL;
    d->row = row;
    d->row.n_sigma = (uint32_t)n;
    d->row.sigma = d->sigma;
    return d;
}

static kiln_status model_of(const kiln_call *c, const kiln_model **model)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    *model = models->model(c->ctx, c->in[0]);
    return *model ? KILN_OK : KILN_ERR_INVALID;
}

/* The model with d's sampling and latents scaled so (NULL: as the denoiser says). Takes d. */
static kiln_status describe_scaled(const kiln_call *c, described *d, const kiln_latent_scaling *latent)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model;
    kiln_status status = model_of(c, &model);
    if (status == KILN_OK) {
        kiln_model m = *model;
        kiln_standard_sampling_init(&d->sampling, &d->row);
        m.sampling = &d->sampling.base;
        m.latent = latent;
        m.owned = d, m.release = free, m.base = c->in[0];
        c->out[0] = models->model_new(c->ctx, &m);
        if (!c->out[0]) status = KILN_ERR_NOMEM;
    }
    if (status != KILN_OK) free(d);
    return status;
}

static kiln_status describe(const kiln_call *c, described *d) { return describe_scaled(c, d, NULL); }

/* ---- ModelSamplingDiscrete ---- */

enum { TIME_AUTO, TIME_INTERPOLATE, TIME_NEAREST };
enum { LCM_LEVELS = 50 }; /* the timesteps a consistency model is distilled at */

typedef struct {
    int32_t sampling, zsnr, timestep;
} discrete_params;

static const kiln_choice discrete_choice[] = {
    {.name = "eps", .value = KILN_PREDICT_EPS, .doc = "predicts noise"},
    {.name = "v_prediction", .value = KILN_PREDICT_V, .doc = "predicts velocity"},
    {.name = "lcm", .value = KILN_PREDICT_LCM, .doc = "a latent consistency model"},
    {.name = "x0", .value = KILN_PREDICT_X0, .doc = "predicts the clean latent"},
    {.name = "img_to_img", .value = KILN_PREDICT_IMAGE, .doc = "the same, of an input that is not scaled"},
    {.name = "img_to_img_flow",
     .value = KILN_PREDICT_IMAGE_FLOW,
     .doc = "the same, of a latent without noise, which ends as 1 - x"},
    {0}};
static const kiln_choice timestep_choice[] = {
    {.name = "auto", .value = TIME_AUTO, .doc = "interpolate, for lcm nearest"},
    {.name = "interpolate", .value = TIME_INTERPOLATE, .doc = "between table entries, in log sigma"},
    {.name = "nearest", .value = TIME_NEAREST, .doc = "the nearest entry, as ComfyUI"},
    {0}};
static const kiln_param discrete_param[] = {
    KIT_ENUM(discrete_params, sampling, discrete_choice, KILN_PREDICT_EPS, "What the network predicts."),
    KIT_BOOL(discrete_params, zsnr, 0, "Rescale the table so that its last level has no signal (Lin et al. 2023)."),
    {.name = "timestep",
     .type = KILN_P_ENUM,
     .flags = KILN_PARAM_OWN,
     .offset = offsetof(discrete_params, timestep),
     .def = TIME_AUTO,
     KILN_CHOICES(timestep_choice),
     .doc = "Which timestep a noise level is."},
};

/* Every skip-th entry, the last one among them. */
static void thin_out(double *sigma, size_t n, size_t kept)
{
    size_t skip = n / kept;
    for (size_t i = 0; i < kept; i++) sigma[i] = sigma[n - 1 - (kept - 1 - i) * skip];
}

static kiln_status discrete_run(const kiln_call *c)
{
    const discrete_params *p = c->params;
    const kiln_model *model;
    TRY(model_of(c, &model));
    const kiln_model_sampling *own = model->denoiser->sampling;
    int lcm = p->sampling == KILN_PREDICT_LCM,
        nearest = p->timestep == TIME_NEAREST || (lcm && p->timestep == TIME_AUTO);
    size_t n = own->n_sigma, skip = lcm ? n / LCM_LEVELS : 1;
    if (lcm && n < LCM_LEVELS)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the model has %zu training levels; lcm needs %d or more", n,
                             LCM_LEVELS);
    if (!own->sigma)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the model has no table of training levels to take");
    if (p->zsnr && own->process != KILN_PROCESS_DIFFUSION)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "zsnr: the model's own levels are those of a flow, which end without signal already");
    described *d = described_new(n, (kiln_sampling_row){.prediction = (uint32_t)p->sampling,
                                                        .time = nearest ? KILN_TIME_NEAREST : KILN_TIME_INTERPOLATED,
                                                        .multiplier = (double)skip,
                                                        .offset = (double)(skip - 1)});
    if (!d) return KILN_ERR_NOMEM;
    memcpy(d->sigma, own->sigma, n * sizeof d->sigma[0]);
    if (p->zsnr) kiln_zero_terminal_snr(own->sigma, n, d->sigma);
    if (lcm) thin_out(d->sigma, n, LCM_LEVELS), d->row.n_sigma = LCM_LEVELS;
    return describe(c, d);
}

const kiln_node node_sampling_discrete = {
    MODEL_NODE("ModelSamplingDiscrete", "The model's training table, with what the network predicts said anew."),
    KILN_ARRAY(in, model_in), KILN_ARRAY(param, discrete_param), .params_size = sizeof(discrete_params),
    .run = discrete_run};

/* ---- continuous ---- */

enum { CONTINUOUS_LEVELS = 1000, EDM_V = 1, EDM, EDM_EPS, EDM_PLAYGROUND, EDM_RFLOW };

typedef struct {
    int32_t sampling;
    double sigma_max, sigma_min;
} continuous_params;

static kiln_status check_continuous(const kiln_call *c)
{
    const continuous_params *p = c->params;
    if (p->sigma_max > p->sigma_min) return KILN_OK;
    return kit_at_param(c,
                        c->host->fail(c->ctx, KILN_ERR_INVALID, "sigma_max (%g) has to be above sigma_min (%g)",
                                      p->sigma_max, p->sigma_min),
                        "sigma_max");
}

/* Evenly spaced in log sigma: what schedules that want a table take. */
static kiln_status continuous(const kiln_call *c, kiln_sampling_row row, const kiln_latent_scaling *latent)
{
    const continuous_params *p = c->params;
    described *d = described_new(CONTINUOUS_LEVELS, row);
    if (!d) return KILN_ERR_NOMEM;
    kiln_continuous_sigmas(p->sigma_min, p->sigma_max, CONTINUOUS_LEVELS, d->sigma);
    return describe_scaled(c, d, latent);
}

static const kiln_choice edm_choice[] = {
    {.name = "v_prediction", .value = EDM_V},
    {.name = "edm", .value = EDM, .doc = "sigma_data 0.5"},
    {.name = "edm_playground_v2.5",
     .value = EDM_PLAYGROUND,
     .doc = "the same, of latents with mean 0 and deviation 0.5"},
    {.name = "eps", .value = EDM_EPS},
    {.name = "cosmos_rflow", .value = EDM_RFLOW, .doc = "a rectified flow; the network is given sigma/(1+sigma)"},
    {0}};
static const kiln_param edm_param[] = {
    KIT_ENUM(continuous_params, sampling, edm_choice, EDM_V, "What the network predicts."),
    KIT_FLOAT(continuous_params, sigma_max, 120, 0, 1000, 0.001, "The highest level."),
    KIT_FLOAT_ABOVE(continuous_params, sigma_min, 0.002, 0, 1000, 0.001, "The lowest level.")};

/* Playground v2.5's latents: each channel's mean and deviation over its training set, then half of it (Li et al. 2024,
 * "Playground v2.5", and the scaling in its published autoencoder's configuration). */
enum { PLAYGROUND_CHANNELS = 4 };
static const double playground_mean[PLAYGROUND_CHANNELS] = {-1.6574, 1.886, -1.383, 2.5155};
static const double playground_scale[PLAYGROUND_CHANNELS] = {0.5 / 8.4927, 0.5 / 5.9022, 0.5 / 6.5498, 0.5 / 5.2299};
static const kiln_latent_scaling playground = {
    .size = sizeof playground, .n = PLAYGROUND_CHANNELS, .scale = playground_scale, .shift = playground_mean};

/* What each choice is. */
static const struct {
    kiln_sampling_row row;
    const kiln_latent_scaling *latent;
} edm_kind[] = {
    [EDM_V] = {{.prediction = KILN_PREDICT_V, .time = KILN_TIME_LOG}, NULL},
    [EDM] = {{.prediction = KILN_PREDICT_EDM, .time = KILN_TIME_LOG, .sigma_data = 0.5}, NULL},
    [EDM_PLAYGROUND] = {{.prediction = KILN_PREDICT_EDM, .time = KILN_TIME_LOG, .sigma_data = 0.5}, &playground},
    [EDM_EPS] = {{.prediction = KILN_PREDICT_EPS, .time = KILN_TIME_LOG}, NULL},
    [EDM_RFLOW] = {{.prediction = KILN_PREDICT_RFLOW, .time = KILN_TIME_RATIO}, NULL},
};

static kiln_status edm_run(const kiln_call *c)
{
    int32_t which = ((const continuous_params *)c->params)->sampling;
    const kiln_model *model;
    TRY(model_of(c, &model));
    int32_t channels = model->denoiser->latent->channels;
    if (edm_kind[which].latent && channels != PLAYGROUND_CHANNELS)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "edm_playground_v2.5 is for latents of %d channels; this model's have %d",
                             PLAYGROUND_CHANNELS, channels);
    return continuous(c, edm_kind[which].row, edm_kind[which].latent);
}

const kiln_node node_sampling_edm = {
    MODEL_NODE("ModelSamplingContinuousEDM",
               "Continuous levels; the network is given log(sigma)/4 (Karras et al. 2022)."),
    KILN_ARRAY(in, model_in),
    KILN_ARRAY(param, edm_param),
    .params_size = sizeof(continuous_params),
    .run = edm_run,
    .check = check_continuous};

static const kiln_choice v_choice[] = {{.name = "v_prediction", .value = EDM_V}, {0}};
static const kiln_param v_param[] = {
    KIT_ENUM(continuous_params, sampling, v_choice, EDM_V, "What the network predicts."),
    KIT_FLOAT(continuous_params, sigma_max, 500, 0, 1000, 0.001, "The highest level."),
    KIT_FLOAT_ABOVE(continuous_params, sigma_min, 0.03, 0, 1000, 0.001, "The lowest level.")};
static kiln_status v_run(const kiln_call *c)
{
    return continuous(c, (kiln_sampling_row){.prediction = KILN_PREDICT_V, .time = KILN_TIME_ANGLE}, NULL);
}

const kiln_node node_sampling_v = {
    MODEL_NODE("ModelSamplingContinuousV",
               "Continuous levels; the network is given 2/pi atan(sigma) (Salimans and Ho 2022)."),
    KILN_ARRAY(in, model_in),
    KILN_ARRAY(param, v_param),
    .params_size = sizeof(continuous_params),
    .run = v_run,
    .check = check_continuous};

/* ---- flow ---- */

/* n levels shift u / (1 + (shift-1) u), u = 1/n .. 1: Esser et al. 2024, eq. 23. */
static kiln_status flow(const kiln_call *c, double shift, double multiplier, size_t n)
{
    if (!(shift > 0) || !isfinite(shift))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "a shift of %g leaves no levels; it has to be above 0 (1: none)",
                             shift);
    described *d = described_new(
        n, (kiln_sampling_row){
               .prediction = KILN_PREDICT_FLOW, .time = KILN_TIME_FLOW, .multiplier = multiplier, .shift = shift});
    if (!d) return KILN_ERR_NOMEM;
    kiln_flow_sigmas(shift, n, d->sigma);
    return describe(c, d);
}

typedef struct {
    double shift, max_shift, base_shift;
    int64_t width, height;
} flow_params;

static const kiln_param sd3_param[] = {
    KIT_FLOAT_ABOVE(flow_params, shift, 3, 0, 100, 0.01, "The larger, the more steps at high noise.")};
static const kiln_param aura_param[] = {
    KIT_FLOAT_ABOVE(flow_params, shift, 1.73, 0, 100, 0.01, "The larger, the more steps at high noise.")};
static const kiln_param flux_param[] = {
    KIT_FLOAT(flow_params, max_shift, 1.15, 0, 100, 0.01, "Log of the shift at 1024x1024."),
    KIT_FLOAT(flow_params, base_shift, 0.5, 0, 100, 0.01, "Log of the shift at 256x256."),
    KIT_INT(flow_params, width, 1024, 16, 16384, "Of the picture."),
    KIT_INT(flow_params, height, 1024, 16, 16384, "Of the picture.")};

static kiln_status sd3_run(const kiln_call *c) { return flow(c, ((const flow_params *)c->params)->shift, 1000, 1000); }
static kiln_status aura_run(const kiln_call *c) { return flow(c, ((const flow_params *)c->params)->shift, 1, 1000); }

/* Tokens of 16x16 pixels: 256 get base_shift, 4096 get max_shift, others what lies on that line. */
static kiln_status flux_run(const kiln_call *c)
{
    const flow_params *p = c->params;
    double tokens = (double)p->width * (double)p->height / 256, slope = (p->max_shift - p->base_shift) / (4096 - 256);
    return flow(c, exp(p->base_shift + slope * (tokens - 256)), 1, 10000);
}

const kiln_node node_sampling_sd3 = {
    MODEL_NODE("ModelSamplingSD3", "A flow with shifted levels; the network is given 1000 sigma."),
    KILN_ARRAY(in, model_in), KILN_ARRAY(param, sd3_param), .params_size = sizeof(flow_params), .run = sd3_run};
const kiln_node node_sampling_aura = {
    MODEL_NODE("ModelSamplingAuraFlow", "A flow with shifted levels; the network is given sigma."),
    KILN_ARRAY(in, model_in), KILN_ARRAY(param, aura_param), .params_size = sizeof(flow_params), .run = aura_run};
const kiln_node node_sampling_flux = {
    MODEL_NODE("ModelSamplingFlux", "A flow whose shift follows from the picture's size."), KILN_ARRAY(in, model_in),
    KILN_ARRAY(param, flux_param), .params_size = sizeof(flow_params), .run = flux_run};

/* ---- guidance ---- */

/* What a MODEL with one more guidance owns: itself at the end of the list. */
typedef struct {
    kiln_guidance own;
    char identity[64];
    double number;
    kiln_value *conditioning; /* a reference, or NULL */
    const kiln_host *host;
    const kiln_guidance *list[];
} guided;

static void guided_release(void *owned)
{
    guided *g = owned;
    g->host->unref(g->conditioning);
    free(g);
}

static kiln_status add_guidance(const kiln_call *c, const char *name, double number, uint32_t flags,
                                kiln_value *conditioning, kiln_status (*apply)(void *, const kiln_guesses *))
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model;
    TRY(model_of(c, &model));
    guided *g = calloc(1, sizeof *g + (model->n_guidance + 1) * sizeof g->list[0]);
    if (!g) return KILN_ERR_NOMEM;
    g->host = c->host;
    g->number = number;
    g->conditioning = conditioning ? c->host->ref(conditioning) : NULL;
    snprintf(g->identity, sizeof g->identity, "%s %.17g", name, number);
    g->own = (kiln_guidance){.size = sizeof g->own,
                             .flags = flags,
                             .self = g,
                             .identity = g->identity,
                             .conditioning = conditioning,
                             .apply = apply};
    for (size_t i = 0; i < model->n_guidance; i++) g->list[i] = model->guidance[i];
    g->list[model->n_guidance] = &g->own;
    kiln_model m = *model;
    m.guidance = g->list, m.n_guidance = model->n_guidance + 1;
    m.owned = g, m.release = guided_release, m.base = c->in[0];
    c->out[0] = models->model_new(c->ctx, &m);
    if (!c->out[0]) guided_release(g);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

typedef struct {
    double multiplier, neg_scale;
} guidance_params;

static kiln_status apply_rescale(void *self, const kiln_guesses *g)
{
    return rescaled(g, ((const guided *)self)->number);
}

static const kiln_param rescale_param[] = {
    KIT_FLOAT(guidance_params, multiplier, 0.7, 0, 1, 0.01, "Share of the rescaled guess; 0: none.")};
static kiln_status rescale_run(const kiln_call *c)
{
    return add_guidance(c, "rescale-cfg", ((const guidance_params *)c->params)->multiplier, KILN_GUIDANCE_REPLACE, NULL,
                        apply_rescale);
}

const kiln_node node_rescale_cfg = {
    MODEL_NODE("RescaleCFG", "Guidance that keeps the spread of the conditional guess (Lin et al. 2023)."),
    KILN_ARRAY(in, model_in), KILN_ARRAY(param, rescale_param), .params_size = sizeof(guidance_params),
    .run = rescale_run};

static kiln_status apply_perp(void *self, const kiln_guesses *g)
{
    return perpendicular(g, ((const guided *)self)->number);
}

static const kiln_port perp_in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."},
                                    {.name = "empty_conditioning", .type = "CONDITIONING", .doc = "The empty text."}};
static const kiln_param perp_param[] = {
    KIT_FLOAT(guidance_params, neg_scale, 1, 0, 100, 0.01, "How strongly the negative is avoided.")};
static kiln_status perp_run(const kiln_call *c)
{
    return add_guidance(c, "perp-neg", ((const guidance_params *)c->params)->neg_scale,
                        KILN_GUIDANCE_REPLACE | KILN_GUIDANCE_UNCONDITIONAL, c->in[1], apply_perp);
}

const kiln_node node_perp_neg = {
    MODEL_NODE("PerpNeg", "Avoids only what of the negative is no part of the positive; PerpNegGuider does the same."),
    KILN_ARRAY(in, perp_in), KILN_ARRAY(param, perp_param), .params_size = sizeof(guidance_params), .run = perp_run};
