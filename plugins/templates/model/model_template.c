/* my_plugin.c - a model family: how its files are recognised, and its network, as a recording of ops.
 *
 * To begin with it is a network for which a cell of the latent is all there is:
 *
 *   h = silu(in(x) + time(sinusoid(timestep)))      [N,H,W,hidden]
 *   the predicted noise = out(h) + brightness       [N,H,W,4]
 *
 * The latents are Stable Diffusion 1's (4 channels, a cell for 8x8 pixels), the noise levels its training's. */
#include "kiln/model.h"
#include "kiln/standard_sampling.h"

#include <stdlib.h>

enum { LEVELS = 1000 };

/* What open() makes and the MODEL owns. */
typedef struct {
    kiln_denoiser denoiser;
    kiln_standard_sampling sampling;
    double sigma[LEVELS];
    int64_t hidden, sinusoid;
} my_plugin_model;

static const double scale = 0.18215;
static const kiln_latent_scaling scaling = {.size = sizeof scaling, .n = 1, .scale = &scale, .shift = NULL};
static const kiln_latent_format latent = {
    .size = sizeof latent, .rank = 4, .channels = 4, .factor = 8, .scaling = &scaling};

/* What a CONDITIONING may say to it. A text would be KILN_INPUT_TOKENS under the key "tokens". */
static const kiln_input_spec inputs[] = {
    {.size = sizeof inputs[0],
     .kind = KILN_INPUT_SCALAR,
     .flags = KILN_INPUT_OPTIONAL,
     .name = "brightness",
     .doc = "is added to the predicted noise"},
};

/* ---- the network ---- */

static kiln_t linear(const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t x, const char *weight,
                     const char *bias, int64_t from, int64_t to)
{
    const int64_t matrix[] = {to, from};
    kiln_t b = o->weight(p, w, bias, 1, &to);
    return o->linear(p, x, o->weight(p, w, weight, 2, matrix), b);
}

static kiln_t record(const kiln_denoiser *denoiser, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                     const kiln_denoise_inputs *in)
{
    const my_plugin_model *d = (const my_plugin_model *)denoiser->self;
    int64_t dim[KILN_MAX_RANK] = {0};
    o->shape(p, in->x, dim, KILN_MAX_RANK);
    const int64_t each[] = {dim[0], 1, 1, d->hidden}, one[] = {dim[0], 1, 1, 1};
    kiln_timestep_embedding sinusoid;
    memset(&sinusoid, 0, sizeof sinusoid);
    sinusoid.size = sizeof sinusoid, sinusoid.cos_first = 1;

    kiln_t t = o->timestep_embedding(p, in->timestep, d->sinusoid, &sinusoid); /* [N,sinusoid] */
    t = linear(o, p, w, t, "my_plugin.time.weight", "my_plugin.time.bias", d->sinusoid, d->hidden);
    kiln_t h = linear(o, p, w, in->x, "my_plugin.in.weight", "my_plugin.in.bias", latent.channels, d->hidden);
    h = o->act(p, o->add(p, h, o->reshape(p, t, 4, each)), KILN_ACT_SILU);
    h = linear(o, p, w, h, "my_plugin.out.weight", "my_plugin.out.bias", d->hidden, latent.channels);
    return o->add(p, h, o->reshape(p, kiln_input(in->input, in->n_input, "brightness"), 4, one));
}

/* ---- recognising and opening a file ---- */

/* The size of a dimension of a tensor; 0: there is no such tensor or dimension. */
static int64_t size_of(const kiln_weights_api *w, const kiln_weights *set, const char *name, uint32_t dimension)
{
    kiln_weight_info info;
    memset(&info, 0, sizeof info);
    info.size = sizeof info;
    return w->find(set, name, &info) == KILN_OK && dimension < info.rank ? info.dim[dimension] : 0;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return size_of(w, set, "my_plugin.in.weight", 1) == latent.channels ? 90 : 0;
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = (const kiln_weights_api *)host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = (const kiln_model_api *)host->ability(KILN_MODEL_ABILITY);
    my_plugin_model *d = (my_plugin_model *)calloc(1, sizeof *d);
    if (!d) return NULL;
    d->hidden = size_of(w, set, "my_plugin.in.weight", 0);
    d->sinusoid = size_of(w, set, "my_plugin.time.weight", 1);

    kiln_sampling_row row;
    memset(&row, 0, sizeof row);
    kiln_discrete_sigmas("scaled_linear", 0.00085, 0.012, LEVELS, d->sigma);
    row.prediction = KILN_PREDICT_EPS, row.n_sigma = LEVELS, row.sigma = d->sigma;
    kiln_standard_sampling_init(&d->sampling, &row);

    d->denoiser.size = sizeof d->denoiser;
    d->denoiser.family = "my-plugin"; /* and all that decides what is recorded, but shapes and weights */
    d->denoiser.self = d;
    d->denoiser.latent = &latent;
    d->denoiser.sampling = &d->sampling.base;
    d->denoiser.input = inputs, d->denoiser.n_input = 1, d->denoiser.input_stride = sizeof inputs[0];
    d->denoiser.record = record;

    kiln_model model;
    memset(&model, 0, sizeof model);
    model.size = sizeof model, model.denoiser = &d->denoiser, model.weights = set, model.owned = d,
    model.release = free;
    kiln_value *value = models->model_new(ctx, &model);
    if (!value) free(d); /* model_new() has taken nothing then */
    return value;
}

static const kiln_model_family family = {
    .size = sizeof family,
    .kind = KILN_FAMILY_DENOISER,
    .name = "my-plugin",
    .doc = "a network cell by cell",
    .detect = detect,
    .open = open_model,
};

/* ---- a node that makes its CONDITIONING: [{brightness: a number}] ---- */

typedef struct {
    double brightness;
} my_plugin_params;

static const kiln_port out[] = {{.name = "CONDITIONING", .doc = "What steers the model.", .type = "CONDITIONING"}};
static const kiln_param param[] = {
    {.name = "brightness",
     .doc = "Is added to the predicted noise.",
     .type = KILN_P_FLOAT,
     .offset = offsetof(my_plugin_params, brightness),
     .def = 0,
     .min = -1,
     .max = 1,
     .step = 0.01},
};

static kiln_status run(const kiln_call *c)
{
    const kiln_value_api *v = (const kiln_value_api *)c->host->ability(KILN_VALUE_ABILITY);
    kiln_value *number = v->new_float(c->ctx, ((const my_plugin_params *)c->params)->brightness);
    kiln_value *entry = v->new_map(c->ctx), *list = v->new_list(c->ctx);
    kiln_status status = number && entry && list ? v->map_set(entry, "brightness", number) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = v->list_push(list, entry);
    if (status == KILN_OK) c->out[0] = c->host->ref(list);
    c->host->unref(number), c->host->unref(entry), c->host->unref(list); /* each container has taken its own */
    return status;
}

static const kiln_node node = {
    .size = sizeof node,
    .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "MyPlugin",
    .title = "My Plugin",
    .category = "conditioning",
    .doc = "What steers a model of this family.",
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, param),
    .params_size = sizeof(my_plugin_params),
    .run = run,
};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = (const kiln_model_api *)host->ability(KILN_MODEL_ABILITY);
    return models ? models->register_family(&family) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.my-plugin", "0.1.0", "MIT", open_plugin, &node);
