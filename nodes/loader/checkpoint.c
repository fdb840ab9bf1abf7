/* checkpoint.c - CheckpointLoaderSimple, CheckpointLoader and DiffusersLoader: denoiser, text encoder and autoencoder
 * of one file or folder.
 *
 * A file need not have all three (a refiner without an autoencoder, a denoiser alone). What is not in it is a fault
 * only where the workflow takes it; the rest of the file is used as it is.
 */
#include "checkpoint_config.h"
#include "kiln/kit.h"
#include "kiln/model.h"
#include "kiln/standard_sampling.h"
#include "kiln/text.h"
#include "load_part.h"
#include "loaders.h"

#include <stdlib.h>

enum { PARTS = 3 };

static const char *const kinds[PARTS] = {KILN_FAMILY_DENOISER, KILN_FAMILY_TEXT_ENCODER, KILN_FAMILY_AUTOENCODER};
static const struct {
    const char *words, *loader;
} part[PARTS] = {
    {"denoiser", "UNETLoader"},
    {"text encoder", "CLIPLoader or DualCLIPLoader"},
    {"autoencoder", "VAELoader"},
};
static const kiln_port all_out[PARTS] = {
    {.name = "MODEL", .type = "MODEL", .doc = "The denoiser."},
    {.name = "CLIP", .type = "CLIP", .doc = "The text encoder."},
    {.name = "VAE", .type = "VAE", .doc = "The autoencoder."},
};

typedef struct {
    const char *path;
    int32_t ema;
} checkpoint_params;

static int is_wanted(const kiln_call *c, size_t i) { return !KILN_HAS(kiln_call, c, wanted) || (c->wanted >> i & 1); }

static kiln_status say_missing(const kiln_call *c, const char *path, size_t i)
{
    return c->host->fail(
        c->ctx, KILN_ERR_UNSUPPORTED,
        "%s: no loaded plugin knows %s %s in it, and %s is used; load one with %s (`kiln inspect` shows "
        "what is in the file)",
        path, i == 2 ? "an" : "a", part[i].words, all_out[i].name, part[i].loader);
}

static kiln_status load_all(const kiln_call *c, const char *path, uint32_t flags)
{
    const kiln_load what = {
        .size = sizeof what, .flags = flags | KILN_LOAD_OPTIONAL, .path = path, .kind = kinds, .n = PARTS};
    TRY(loading_api.load(c, &what, c->out));
    for (size_t i = 0; i < PARTS; i++)
        if (!c->out[i] && is_wanted(c, i)) return say_missing(c, path, i);
    return KILN_OK;
}

/* Before anything runs: is every part there that is used? A file that cannot be opened is the run's fault to name. */
static kiln_status check_parts(const kiln_call *c, const char *path)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    kiln_weights *set = path && path[0] && !kit_estimating(c) ? w->open(NULL, path) : NULL;
    kiln_status status = KILN_OK;
    for (size_t i = 0; set && i < PARTS && status == KILN_OK; i++)
        if (is_wanted(c, i) && !models->detect(kinds[i], set)) status = say_missing(c, path, i);
    w->unref(set);
    return status;
}

/* ---- CheckpointLoaderSimple ---- */

static const kiln_param checkpoint_param[] = {
    LOADER_PATH(checkpoint_params, "ckpt_name", "checkpoints",
                "A .safetensors file or a folder in diffusers' layout, below a checkpoints folder."),
    {.name = "ema",
     .type = KILN_P_BOOL,
     .flags = KILN_PARAM_OWN,
     .offset = offsetof(checkpoint_params, ema),
     .doc = "Take the averaged weights (model_ema.*) that a training file carries beside its last ones."},
};
static kiln_status run_checkpoint(const kiln_call *c)
{
    const checkpoint_params *p = c->params;
    return load_all(c, p->path, p->ema ? KILN_LOAD_EMA : 0);
}
static kiln_status check_checkpoint(const kiln_call *c)
{
    return kit_at_param(c, check_parts(c, ((const checkpoint_params *)c->params)->path), "ckpt_name");
}
const kiln_node node_checkpoint_loader = {
    LOADER_NODE,
    .type = "CheckpointLoaderSimple",
    .title = "Load Checkpoint",
    .doc = "Opens a checkpoint: its denoiser, text encoder and autoencoder.",
    KILN_ARRAY(out, all_out),
    KIT_PARAMS(checkpoint_params, checkpoint_param),
    .run = run_checkpoint,
    .check = check_checkpoint,
};

/* ---- CheckpointLoader ---- */

typedef struct {
    const char *config, *path;
} config_params;

static const kiln_param config_param[] = {
    {.name = "config_name",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(config_params, config),
     .from = "configs",
     .doc = "A .yaml file of the original code, such as v1-inference.yaml; of it what the network predicts "
            "(parameterization) and the text encoder's layer (layer_idx) count."},
    LOADER_PATH(config_params, "ckpt_name", "checkpoints", "As CheckpointLoaderSimple's."),
};

typedef struct {
    kiln_standard_sampling sampling;
    double sigma[];
} v_sampling;

/* The model's own training table, of a network that predicts velocity. */
static kiln_status make_v(const kiln_call *c, kiln_value **model)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *of = models->model(c->ctx, *model);
    if (!of) return KILN_ERR_INVALID;
    const kiln_model_sampling *own = of->denoiser->sampling;
    if (!own->sigma)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the model has no table of training levels to predict v on");
    v_sampling *v = malloc(sizeof *v + own->n_sigma * sizeof *v->sigma);
    if (!v) return KILN_ERR_NOMEM;
    memcpy(v->sigma, own->sigma, own->n_sigma * sizeof *v->sigma);
    kiln_model m = *of;
    const kiln_sampling_row row = {.prediction = KILN_PREDICT_V, .n_sigma = own->n_sigma, .sigma = v->sigma};
    kiln_standard_sampling_init(&v->sampling, &row);
    m.sampling = &v->sampling.base, m.owned = v, m.release = free, m.base = *model;
    kiln_value *changed = models->model_new(c->ctx, &m);
    if (!changed) {
        free(v);
        return KILN_ERR_NOMEM;
    }
    c->host->unref(*model);
    *model = changed;
    return KILN_OK;
}

static kiln_status set_layer(const kiln_call *c, int32_t layer, kiln_value **clip)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *of = models->clip(c->ctx, *clip);
    kiln_clip_encoder *encoder = of ? kiln_clip_encoders_copy(of) : NULL;
    if (!encoder) return of ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    kiln_clip changed = *of;
    kiln_value *value = NULL;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < of->n_encoder && status == KILN_OK; i++) {
        encoder[i].layer = layer;
        if (-layer > encoder[i].encoder->layers)
            status = c->host->fail(c->ctx, KILN_ERR_INVALID, "layer_idx is %d, and the text encoder '%s' has %d layers",
                                   layer, encoder[i].name, encoder[i].encoder->layers);
    }
    changed.encoder = encoder, changed.owned = encoder, changed.release = free, changed.base = *clip;
    if (status == KILN_OK && !(value = models->clip_new(c->ctx, &changed))) status = KILN_ERR_NOMEM;
    if (status != KILN_OK) {
        free(encoder);
        return status;
    }
    c->host->unref(*clip);
    *clip = value;
    return KILN_OK;
}

static kiln_status run_config(const kiln_call *c)
{
    const config_params *p = c->params;
    checkpoint_config config;
    TRY(checkpoint_config_read(c, p->config, &config));
    TRY(load_all(c, p->path, 0));
    if (config.predicts_v && c->out[0]) TRY(make_v(c, &c->out[0]));
    return config.layer && c->out[1] ? set_layer(c, config.layer, &c->out[1]) : KILN_OK;
}
static kiln_status check_config(const kiln_call *c)
{
    const config_params *p = c->params;
    checkpoint_config config;
    if (p->config && p->config[0] && !kit_estimating(c))
        TRY(kit_at_param(c, checkpoint_config_read(c, p->config, &config), "config_name"));
    return kit_at_param(c, check_parts(c, p->path), "ckpt_name");
}
const kiln_node node_config_loader = {
    LOADER_NODE,
    .type = "CheckpointLoader",
    .title = "Load Checkpoint With Config (DEPRECATED)",
    .doc = "Opens a checkpoint beside the configuration it was trained with; CheckpointLoaderSimple does without.",
    KILN_ARRAY(out, all_out),
    KIT_PARAMS(config_params, config_param),
    .run = run_config,
    .check = check_config,
};

/* ---- DiffusersLoader ---- */

typedef struct {
    const char *path;
} folder_params;

static const kiln_param diffusers_param[] = {
    LOADER_PATH(folder_params, "model_path", "diffusers", "A folder in diffusers' layout."),
};
static kiln_status run_diffusers(const kiln_call *c)
{
    return load_all(c, ((const folder_params *)c->params)->path, 0);
}
static kiln_status check_diffusers(const kiln_call *c)
{
    return kit_at_param(c, check_parts(c, ((const folder_params *)c->params)->path), "model_path");
}
const kiln_node node_diffusers_loader = {
    LOADER_NODE,
    .type = "DiffusersLoader",
    .title = "Load Diffusers Folder",
    .doc = "Opens a folder in diffusers' layout; CheckpointLoaderSimple does too.",
    KILN_ARRAY(out, all_out),
    KIT_PARAMS(folder_params, diffusers_param),
    .run = run_diffusers,
    .check = check_diffusers,
};
