/* attention_multiply_nodes.c - nodes that multiply the layers of attentions by a number: UNetSelfAttentionMultiply and
 * its like. Names, defaults and ranges are ComfyUI's.
 */
#include "attention_multiply.h"
#include "kiln/model.h"
#include "model_patch_nodes.h"

#include <stdlib.h>

enum { LAYERS = 4 };

static const kiln_port model_in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser, a UNet."}};
static const kiln_port model_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with other weights."}};
static const kiln_port clip_in[] = {{.name = "clip", .type = "CLIP", .doc = "The text encoders."}};
static const kiln_port clip_out[] = {{.name = "CLIP", .type = "CLIP", .doc = "The same with other weights."}};
#define MULTIPLY_NODE(id, text, what)                                                                                  \
    KIT_NODE(id, id, "experimental/attention_experiments", text), KILN_ARRAY(in, what##_in), KILN_ARRAY(out, what##_out)

typedef struct {
    double q, k, v, out;
} multiply_params;

static const kiln_param multiply_param[] = {
    KIT_FLOAT(multiply_params, q, 1, 0, 10, 0.01, "Times the queries' layer."),
    KIT_FLOAT(multiply_params, k, 1, 0, 10, 0.01, "Times the keys' layer."),
    KIT_FLOAT(multiply_params, v, 1, 0, 10, 0.01, "Times the values' layer."),
    KIT_FLOAT(multiply_params, out, 1, 0, 10, 0.01, "Times the layer behind the attention, its bias too."),
};

/* Fails where no tensor is of a row that changes something. */
static kiln_status check_found(const kiln_call *c, const multiplied_layer *layer, const size_t *found)
{
    for (size_t i = 0; i < LAYERS; i++)
        if (!found[i] && layer[i].factor != 1)
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "no weights of this model are called '%s'%s%s",
                                 layer[i].layer, layer[i].part ? (layer[i].without ? " without " : " with ") : "",
                                 layer[i].part ? layer[i].part : "");
    return KILN_OK;
}

/* ---- MODEL ---- */

static kiln_status put_model(const kiln_call *c, const multiplied_layer layer[LAYERS])
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    size_t found[LAYERS];
    kiln_weights *set = NULL;
    if (!model) return KILN_ERR_INVALID;
    TRY(weights_multiplied(c, model->weights, layer, LAYERS, found, &set));
    kiln_status status = check_found(c, layer, found);
    kiln_model m = *model;
    m.weights = set, m.owned = NULL, m.release = NULL, m.base = c->in[0];
    if (status == KILN_OK) c->out[0] = set == model->weights ? c->host->ref(c->in[0]) : models->model_new(c->ctx, &m);
    w->unref(set);
    return status != KILN_OK || c->out[0] ? status : KILN_ERR_NOMEM;
}

static kiln_status run_attention(const kiln_call *c, const char *const name[LAYERS])
{
    const multiply_params *p = c->params;
    return put_model(c, (const multiplied_layer[LAYERS]){{.layer = name[0], .factor = p->q},
                                                         {.layer = name[1], .factor = p->k},
                                                         {.layer = name[2], .factor = p->v},
                                                         {.layer = name[3], .factor = p->out}});
}

static kiln_status run_self(const kiln_call *c)
{
    static const char *const name[LAYERS] = {"attn1.to_q", "attn1.to_k", "attn1.to_v", "attn1.to_out.0"};
    return run_attention(c, name);
}

static kiln_status run_cross(const kiln_call *c)
{
    static const char *const name[LAYERS] = {"attn2.to_q", "attn2.to_k", "attn2.to_v", "attn2.to_out.0"};
    return run_attention(c, name);
}

const kiln_node node_self_attention_multiply = {
    MULTIPLY_NODE("UNetSelfAttentionMultiply", "Multiplies the layers of a UNet's self-attentions.", model),
    KIT_PARAMS(multiply_params, multiply_param),
    .run = run_self,
};
const kiln_node node_cross_attention_multiply = {
    MULTIPLY_NODE("UNetCrossAttentionMultiply", "Multiplies the layers of a UNet's attentions to the text.", model),
    KIT_PARAMS(multiply_params, multiply_param),
    .run = run_cross,
};

/* ---- of videos ---- */

typedef struct {
    double self_structural, self_temporal, cross_structural, cross_temporal;
} temporal_params;

static const kiln_param temporal_param[] = {
    KIT_FLOAT(temporal_params, self_structural, 1, 0, 10, 0.01, "Times what self-attentions within a frame give."),
    KIT_FLOAT(temporal_params, self_temporal, 1, 0, 10, 0.01, "Times what self-attentions across frames give."),
    KIT_FLOAT(temporal_params, cross_structural, 1, 0, 10, 0.01, "Times what attentions to the text give, in a frame."),
    KIT_FLOAT(temporal_params, cross_temporal, 1, 0, 10, 0.01,
              "Times what attentions to the text give, across frames."),
};

static kiln_status run_temporal(const kiln_call *c)
{
    static const char stack[] = ".time_stack.";
    const temporal_params *p = c->params;
    return put_model(c, (const multiplied_layer[LAYERS]){
                            {.layer = "attn1.to_out.0", .factor = p->self_structural, .part = stack, .without = 1},
                            {.layer = "attn1.to_out.0", .factor = p->self_temporal, .part = stack},
                            {.layer = "attn2.to_out.0", .factor = p->cross_structural, .part = stack, .without = 1},
                            {.layer = "attn2.to_out.0", .factor = p->cross_temporal, .part = stack}});
}

const kiln_node node_temporal_attention_multiply = {
    MULTIPLY_NODE("UNetTemporalAttentionMultiply", "Multiplies what attentions give, within and across frames.", model),
    KIT_PARAMS(temporal_params, temporal_param),
    .run = run_temporal,
};

/* ---- CLIP ---- */

/* All encoders multiplied; *changed 1: one of them is another set. */
static kiln_status multiply_encoders(const kiln_call *c, const kiln_clip *clip, const multiplied_layer *layer,
                                     kiln_clip_encoder *encoder, kiln_weights **set, int *changed)
{
    size_t total[LAYERS] = {0};
    for (size_t i = 0; i < clip->n_encoder; i++) {
        size_t found[LAYERS];
        TRY(weights_multiplied(c, kiln_clip_encoder_at(clip, i)->weights, layer, LAYERS, found, &set[i]));
        *changed |= set[i] != encoder[i].weights;
        encoder[i].weights = set[i];
        for (size_t k = 0; k < LAYERS; k++) total[k] += found[k];
    }
    return check_found(c, layer, total);
}

static kiln_status put_clip(const kiln_call *c, const kiln_clip *clip, const multiplied_layer *layer,
                            kiln_clip_encoder *encoder, kiln_weights **set)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    int changed = 0;
    kiln_clip m = *clip;
    TRY(multiply_encoders(c, clip, layer, encoder, set, &changed));
    m.encoder = encoder, m.owned = encoder, m.release = free, m.base = c->in[0];
    c->out[0] = changed ? models->clip_new(c->ctx, &m) : c->host->ref(c->in[0]);
    if (!changed) free(encoder);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status run_clip(const kiln_call *c)
{
    const multiply_params *p = c->params;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_clip *clip = models->clip(c->ctx, c->in[0]);
    const multiplied_layer layer[LAYERS] = {{.layer = "self_attn.q_proj", .factor = p->q},
                                            {.layer = "self_attn.k_proj", .factor = p->k},
                                            {.layer = "self_attn.v_proj", .factor = p->v},
                                            {.layer = "self_attn.out_proj", .factor = p->out}};
    if (!clip) return KILN_ERR_INVALID;
    kiln_clip_encoder *encoder = kiln_clip_encoders_copy(clip);
    kiln_weights **set = calloc(clip->n_encoder + 1, sizeof(kiln_weights *));
    kiln_status status = encoder && set ? put_clip(c, clip, layer, encoder, set) : KILN_ERR_NOMEM;
    for (size_t i = 0; set && i < clip->n_encoder; i++)
        if (set[i]) w->unref(set[i]);
    if (status != KILN_OK) free(encoder);
    free(set);
    return status;
}

const kiln_node node_clip_attention_multiply = {
    MULTIPLY_NODE("CLIPAttentionMultiply", "Multiplies the layers of the text encoders' attentions.", clip),
    KIT_PARAMS(multiply_params, multiply_param),
    .run = run_clip,
};
