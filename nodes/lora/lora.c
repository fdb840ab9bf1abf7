/* lora.c - LoraLoader, LoraLoaderModelOnly: the same model over weights with a patch on top. Nothing is computed here:
 * the sums are made as weights are packed, and the base stays as it is, for whoever else uses it. */
#include "lora.h"

#include "kiln/kit.h"
#include "kiln/model.h"
#include "lora_file.h"

#include <stdlib.h>

typedef struct {
    const char *path;
    double strength_model, strength_clip;
} lora_params;

static const kiln_port model_in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_port both_in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "clip", .type = "CLIP", .doc = "The text encoder."},
};
static const kiln_port model_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The denoiser with the LoRA on it."}};
static const kiln_port both_out[] = {
    {.name = "MODEL", .type = "MODEL", .doc = "The denoiser with the LoRA on it."},
    {.name = "CLIP", .type = "CLIP", .doc = "The text encoder with the LoRA on it."},
};

#define STRENGTH(name_, doc_)                                                                                          \
    {                                                                                                                  \
        .name = #name_, .type = KILN_P_FLOAT, .offset = offsetof(lora_params, name_), .def = 1, .min = -100,           \
        .max = 100, .step = 0.01, .doc = doc_                                                                          \
    }
#define LORA_NAME                                                                                                      \
    {                                                                                                                  \
        .name = "lora_name", .type = KILN_P_FILE, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(lora_params, path), \
        .from = "loras",                                                                                               \
        .doc = "A .safetensors file below a loras folder, as kohya's scripts, diffusers or peft write it."             \
    }
static const kiln_param model_param[] = {
    LORA_NAME,
    STRENGTH(strength_model, "How much of it; 0 is the model as it was, below 0 the other way."),
};
static const kiln_param both_param[] = {
    LORA_NAME,
    STRENGTH(strength_model, "How much of it on the denoiser; 0 is the model as it was, below 0 the other way."),
    STRENGTH(strength_clip, "How much of it on the text encoder."),
};

static kiln_value *model_over(const kiln_call *c, const kiln_model *model, kiln_weights *weights)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    kiln_model m = *model;
    if (weights == model->weights) return c->host->ref(c->in[0]);
    m.weights = weights, m.owned = NULL, m.release = NULL, m.base = c->in[0];
    return models->model_new(c->ctx, &m);
}

static kiln_value *clip_over(const kiln_call *c, const kiln_clip *clip, kiln_weights *const weights[LORA_TEXTS_MAX])
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    kiln_clip m = *clip;
    int same = 1;
    for (uint32_t i = 0; i < clip->n_encoder; i++) same = same && weights[i] == kiln_clip_encoder_at(clip, i)->weights;
    if (same) return c->host->ref(c->in[1]);
    kiln_clip_encoder *encoder = kiln_clip_encoders_copy(clip);
    if (!encoder) return NULL;
    for (uint32_t i = 0; i < clip->n_encoder; i++) encoder[i].weights = weights[i];
    m.encoder = encoder, m.owned = encoder, m.release = free, m.base = c->in[1];
    kiln_value *v = models->clip_new(c->ctx, &m);
    if (!v) free(encoder);
    return v;
}

static kiln_status add_encoders(const kiln_call *c, const kiln_clip *clip, lora_request *r)
{
    if (clip->n_encoder > LORA_TEXTS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "this CLIP has %u text encoders, and a LoRA can be put on %d at most; take "
                             "LoraLoaderModelOnly",
                             clip->n_encoder, (int)LORA_TEXTS_MAX);
    for (uint32_t i = 0; i < clip->n_encoder; i++) {
        r->text[i].name = kiln_clip_encoder_at(clip, i)->name;
        r->text[i].set = kiln_clip_encoder_at(clip, i)->weights;
    }
    return KILN_OK;
}

static kiln_status apply(const kiln_call *c, int with_clip)
{
    const lora_params *p = c->params;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    const kiln_clip *clip = model && with_clip ? models->clip(c->ctx, c->in[1]) : NULL;
    if (!model || (with_clip && !clip)) return KILN_ERR_INVALID;
    kiln_weights *unet = NULL, *text[LORA_TEXTS_MAX] = {NULL};
    lora_request r = {
        .path = p->path, .unet = model->weights, .unet_strength = p->strength_model, .text_strength = p->strength_clip};
    if (clip) TRY(add_encoders(c, clip, &r));
    TRY(lora_apply(c->host, c->ctx, &r, &unet, text));
    c->out[0] = model_over(c, model, unet);
    if (clip) c->out[1] = clip_over(c, clip, text);
    w->unref(unet);
    for (int i = 0; i < LORA_TEXTS_MAX; i++) w->unref(text[i]);
    return c->out[0] && (!clip || c->out[1]) ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status run_both(const kiln_call *c) { return apply(c, 1); }
static kiln_status run_model(const kiln_call *c) { return apply(c, 0); }

#define LOADER                                                                                                         \
    .size = sizeof(kiln_node), .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,                    \
    .devices = KILN_CPU, .revision = 1, .category = "loaders"

const kiln_node node_lora_loader = {
    LOADER,
    .type = "LoraLoader",
    .title = "Load LoRA",
    .doc = "Puts a LoRA on a denoiser and its text encoder. Several in a row add up; "
           "the model it came from is not changed.",
    KILN_ARRAY(in, both_in),
    KILN_ARRAY(out, both_out),
    KIT_PARAMS(lora_params, both_param),
    .run = run_both,
};
const kiln_node node_lora_loader_model_only = {
    LOADER,
    .type = "LoraLoaderModelOnly",
    .title = "Load LoRA (Model)",
    .doc = "Puts a LoRA on a denoiser and leaves the text encoder as it is.",
    KILN_ARRAY(in, model_in),
    KILN_ARRAY(out, model_out),
    KIT_PARAMS(lora_params, model_param),
    .run = run_model,
};
