/* text_encode.c - CLIPTextEncode and CLIPSetLastLayer.
 *
 * A prompt's chunks are encoded one by one, with one program for all of them, and laid end to end on the
 * token axis. Weights work as in ComfyUI: z = (z - z_empty) * w + z_empty for each token, z_empty being
 * the encoding of the empty prompt; pooled is that of the first chunk, unweighted.
 */
#include "text_encode.h"

#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdio.h>
#include <string.h>

/* ---- one run of the encoder ---- */

typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    const kiln_clip *clip;
    const kiln_text_encoder *encoder;
    kiln_program *program;
    int32_t layer;
} encoding;

static kiln_status record(const encoding *e)
{
    const kiln_ops *o = e->ops;
    kiln_t ids = o->input(e->program, "ids", KILN_I32, 2, KILN_DIMS(1, e->encoder->length));
    kiln_t end = o->input(e->program, "end", KILN_I32, 1, KILN_DIMS(1));
    kiln_text_features f = e->encoder->record(e->encoder, o, e->program, e->clip->weights, ids, end, e->layer);
    o->output(e->program, "tokens", f.tokens);
    if (e->encoder->pooled_width) o->output(e->program, "pooled", f.pooled);
    return o->plan(e->call->ctx, e->program, NULL);
}

static kiln_status open_program(encoding *e)
{
    const kiln_host *host = e->call->host;
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const char *identity = w->identity(e->call->ctx, e->clip->weights);
    char key[512];
    int fresh = 0;
    if (!identity) return KILN_ERR_IO;
    snprintf(key, sizeof key, "text:%s:%s:%d", e->encoder->family, identity, e->layer);
    kiln_program_options options = {.size = sizeof options, .name = "text encoder"};
    e->program = e->ops->program_keep(e->call->ctx, key, &options, &fresh);
    if (!e->program) return KILN_ERR_NOMEM;
    return fresh ? record(e) : KILN_OK;
}

/* id[length] -> tokens[length * width], pooled (may be NULL when the encoder has none). */
static kiln_status run(const encoding *e, int32_t *id, int32_t *end, float *tokens, float *pooled)
{
    const kiln_text_encoder *c = e->encoder;
    kiln_bind in[2] = {KILN_BIND("ids", kit_window(KILN_I32, KILN_CPU, id, 2, KILN_DIMS(1, c->length))),
                       KILN_BIND("end", kit_window(KILN_I32, KILN_CPU, end, 1, KILN_DIMS(1)))};
    kiln_bind out[2] = {
        KILN_BIND("tokens", kit_window(KILN_F32, KILN_CPU, tokens, 3, KILN_DIMS(1, c->length, c->width))),
        KILN_BIND("pooled", kit_window(KILN_F32, KILN_CPU, pooled, 2, KILN_DIMS(1, c->pooled_width)))};
    return e->ops->run(e->call->ctx, e->program, in, 2, out, c->pooled_width ? 2 : 1);
}

/* ---- weights ---- */

static int all_ones(const kiln_tokens *t)
{
    for (size_t i = 0; i < (size_t)t->n_chunk * t->length; i++)
        if (t->weight[i] != 1) return 0;
    return 1;
}

static void apply_weights(float *z, const float *empty, const float *weight, int64_t tokens, int64_t width)
{
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t k = 0; weight[t] != 1 && k < width; k++) {
            float z0 = empty[t * width + k];
            z[t * width + k] = (z[t * width + k] - z0) * weight[t] + z0;
        }
}

static kiln_status weigh(const encoding *e, const kiln_tokens *t, float *z, float *pooled_unused)
{
    const kiln_host *host = e->call->host;
    size_t one = (size_t)(e->encoder->length * e->encoder->width);
    kiln_tokens none = {.size = sizeof none};
    TRY(e->encoder->tokenise(e->encoder, host, e->call->ctx, "", &none));
    float *empty = host->scratch(e->call->ctx, one * sizeof *empty, KILN_CPU);
    if (!empty) return KILN_ERR_NOMEM;
    TRY(run(e, none.id, none.end, empty, pooled_unused));
    for (uint32_t i = 0; !kit_estimating(e->call) && i < t->n_chunk; i++)
        apply_weights(z + i * one, empty, t->weight + i * t->length, e->encoder->length, e->encoder->width);
    return KILN_OK;
}

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
     .doc = "The prompt. (x:1.2) weighs x, (x) is (x:1.1), \\( and \\) are parentheses; any length."},
};

static kiln_status encode_chunks(const encoding *e, const kiln_tokens *t, float *z, float *pooled)
{
    const kiln_host *host = e->call->host;
    size_t one = (size_t)(e->encoder->length * e->encoder->width);
    float *other = host->scratch(e->call->ctx, (size_t)e->encoder->pooled_width * sizeof *other + 64, KILN_CPU);
    if (!other) return KILN_ERR_NOMEM;
    for (uint32_t i = 0; i < t->n_chunk; i++) {
        TRY(host->progress(e->call->ctx, i, t->n_chunk, "encoding text"));
        TRY(run(e, t->id + i * t->length, t->end + i, kit_at(z, i * one), i == 0 ? pooled : other));
    }
    return all_ones(t) ? KILN_OK : weigh(e, t, z, other);
}

static kiln_status make_conditioning(const kiln_call *c, kiln_value *tokens, kiln_value *pooled, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *map = v->new_map(c->ctx), *list = v->new_list(c->ctx);
    int ok = map && list && v->map_set(map, "tokens", tokens) == KILN_OK &&
             (!pooled || v->map_set(map, "pooled", pooled) == KILN_OK) && v->list_push(list, map) == KILN_OK;
    c->host->unref(map);
    if (!ok) c->host->unref(list);
    *out = ok ? list : NULL;
    return ok ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status encode_with(const encoding *e, const kiln_tokens *t)
{
    const kiln_call *c = e->call;
    const kiln_text_encoder *encoder = e->encoder;
    kiln_value *tokens = NULL, *pooled = NULL;
    kiln_tensor z, p = {0};
    kiln_status status = kit_new_f32(c, 3, KILN_DIMS(1, t->n_chunk * encoder->length, encoder->width), &tokens, &z);
    if (status == KILN_OK && encoder->pooled_width)
        status = kit_new_f32(c, 2, KILN_DIMS(1, encoder->pooled_width), &pooled, &p);
    if (status == KILN_OK) status = encode_chunks(e, t, z.data, p.data);
    if (status == KILN_OK) status = make_conditioning(c, tokens, pooled, &c->out[0]);
    c->host->unref(tokens);
    c->host->unref(pooled);
    return status;
}

static kiln_status encode_run(const kiln_call *c)
{
    const encode_params *p = c->params;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *clip = models->clip(c->ctx, c->in[0]);
    if (!clip) return KILN_ERR_INVALID;
    encoding e = {.call = c,
                  .ops = c->host->ability(KILN_OPS_ABILITY),
                  .clip = clip,
                  .encoder = clip->encoder,
                  .layer = clip->layer ? clip->layer : clip->encoder->default_layer};
    kiln_tokens tokens = {.size = sizeof tokens};
    TRY(e.encoder->tokenise(e.encoder, c->host, c->ctx, p->text, &tokens));
    kiln_status status = open_program(&e);
    if (status == KILN_OK) status = encode_with(&e, &tokens);
    if (e.program) e.ops->program_free(e.program);
    return status;
}

const kiln_node node_clip_text_encode = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "CLIPTextEncode",
                   "CLIP Text Encode (Prompt)", "conditioning",
                   "Encodes a prompt into the conditioning that steers the denoiser."),
    KILN_ARRAY(in, clip_in),
    KILN_ARRAY(out, encode_out),
    KIT_PARAMS(encode_params, encode_param),
    .run = encode_run,
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

static kiln_status layer_run(const kiln_call *c)
{
    const layer_params *p = c->params;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *clip = models->clip(c->ctx, c->in[0]);
    if (!clip) return KILN_ERR_INVALID;
    if (-p->layer > clip->encoder->layers)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "stop_at_clip_layer is %lld, but this text encoder has %d layers; say -%d to -1",
                             (long long)p->layer, clip->encoder->layers, clip->encoder->layers);
    kiln_clip changed = *clip;
    changed.layer = (int32_t)p->layer;
    changed.owned = NULL;
    changed.release = NULL;
    changed.base = c->in[0];
    c->out[0] = models->clip_new(c->ctx, &changed);
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
