/* text_encode.c - CLIPTextEncode and CLIPSetLastLayer. */
#include "text_encode.h"

#include "encode_text.h"
#include "kiln/kit.h"
#include "prompt.h"

#include <stdlib.h>
#include <string.h>

/* ---- CLIPTextEncode ---- */

typedef struct {
    const char *text;
} encode_params;

static const kiln_port clip_in[] = {{.name = "clip", .type = "CLIP", .doc = "The text encoder."}};
static const kiln_port encode_out[] = {
    {.name = "CONDITIONING", .type = "CONDITIONING", .doc = "What the sampler is steered by."},
};
static const kiln_param encode_param[] = {
    {.name = "text",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_REQUIRED | KILN_PARAM_MULTILINE,
     .offset = offsetof(encode_params, text),
     .doc = "The prompt. (x:1.2) weighs x, (x) is (x:1.1), \\( and \\) are parentheses; embedding:NAME is a file of "
            "embeddings/; any length."},
};

static kiln_status encode_run(const kiln_call *c)
{
    const encode_params *p = c->params;
    kiln_prompt all = {.size = sizeof all, .text = p->text};
    return text_api.encode(c, c->in[0], &all, 1, &c->out[0]);
}

static void names_embeddings(const void *params, const kiln_file_names *to)
{
    prompt_names_files(((const encode_params *)params)->text, "text", to);
}

const kiln_node node_clip_text_encode = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "CLIPTextEncode",
                   "CLIP Text Encode (Prompt)", "conditioning",
                   "Encodes a prompt into the conditioning that steers the denoiser."),
    KILN_ARRAY(in, clip_in),
    KILN_ARRAY(out, encode_out),
    KIT_PARAMS(encode_params, encode_param),
    .run = encode_run,
    .names_files = names_embeddings,
};

/* ---- CLIPSetLastLayer ---- */

typedef struct {
    int64_t layer;
} layer_params;

static const kiln_port layer_out[] = {
    {.name = "CLIP", .type = "CLIP", .doc = "The same encoder, read at another layer."},
};
static const kiln_param layer_param[] = {
    {.name = "stop_at_clip_layer",
     .type = KILN_P_INT,
     .offset = offsetof(layer_params, layer),
     .def = -1,
     .min = -24,
     .max = -1,
     .step = 1,
     .doc = "-1 is the last layer, -2 the one before it (\"CLIP skip 2\"), and so on."},
};

static kiln_status check_layer(const kiln_call *c, const kiln_clip_encoder *e, int64_t layer)
{
    const kiln_text_encoder *t = e->encoder;
    const char *what = KILN_HAS(kiln_text_encoder, t, architecture) && t->architecture ? t->architecture : t->family;
    if (-layer <= t->layers) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "stop_at_clip_layer is %lld, but the text encoder '%s' (%s) has %d layers; say -%d to -1",
                         (long long)layer, e->name, what, t->layers, t->layers);
}

static kiln_status layer_run(const kiln_call *c)
{
    const layer_params *p = c->params;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *clip = models->clip(c->ctx, c->in[0]);
    if (!clip) return KILN_ERR_INVALID;
    for (uint32_t i = 0; i < clip->n_encoder; i++) TRY(check_layer(c, kiln_clip_encoder_at(clip, i), p->layer));
    kiln_clip_encoder *encoder = kiln_clip_encoders_copy(clip);
    if (!encoder) return KILN_ERR_NOMEM;
    kiln_clip changed = *clip;
    for (uint32_t i = 0; i < clip->n_encoder; i++) encoder[i].layer = (int32_t)p->layer;
    changed.encoder = encoder;
    changed.owned = encoder, changed.release = free, changed.base = c->in[0];
    c->out[0] = models->clip_new(c->ctx, &changed);
    if (!c->out[0]) free(encoder);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

const kiln_node node_clip_set_last_layer = {
    KIT_NODE("CLIPSetLastLayer", "CLIP Set Last Layer", "conditioning",
             "Reads the text encoder at an earlier layer (CLIP skip)."),
    KILN_ARRAY(in, clip_in),
    KILN_ARRAY(out, layer_out),
    KIT_PARAMS(layer_params, layer_param),
    .run = layer_run,
};
