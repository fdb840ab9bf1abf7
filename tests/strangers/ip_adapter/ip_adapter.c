/* ip_adapter.c - IP-Adapter (Ye et al. 2023) as its authors' files and diffusers have it: the picture's embedding
 * becomes four tokens, and each cross-attention gets a second one beside it, with keys and values of its own:
 *
 *   out = attention(q, k, v) + scale attention(q, to_k_ip(tokens), to_v_ip(tokens))
 *
 * It is one hook on the MODEL. Tokens and scale are inputs of the hook's own, so that another picture or another scale
 * records nothing anew; for the negative side the tokens are those of an embedding of zeros.
 */
#include "ip_adapter.h"

#include <stdio.h>
#include <stdlib.h>

enum { PLACES_MAX = 256, PLACE_LENGTH = 64, IP_TOKENS = 4 };

static const kiln_input_spec ip_input[] = {
    {.size = sizeof *ip_input, .kind = KILN_INPUT_TOKENS, .name = "tokens", .key = "ip_adapter_tokens"},
    {.size = sizeof *ip_input, .kind = KILN_INPUT_SCALAR, .name = "scale", .key = "ip_adapter_scale"},
};

typedef struct {
    kiln_hook hook;
    const kiln_host *host;
    const kiln_weights_api *api;
    kiln_weights *weights;
    kiln_value *values;
    const char *pattern[2];
    char pattern_text[PLACE_LENGTH], identity[120];
    char place[PLACES_MAX][PLACE_LENGTH]; /* of all cross-attentions, in the file's order: place i has weights 2i+1 */
    size_t n_place;
} ip_adapter;

/* ---- the hook ---- */

static kiln_t project(const ip_adapter *self, const kiln_recording *r, kiln_t tokens, size_t place, const char *what,
                      int64_t width)
{
    char name[80];
    int64_t context = dim_at(r->ops, r->program, tokens, 2);
    snprintf(name, sizeof name, "ip_adapter.%zu.%s.weight", 2 * place + 1, what);
    kiln_t w = r->ops->weight(r->program, self->weights, name, 2, KILN_DIMS(width, context));
    return r->ops->linear(r->program, tokens, w, (kiln_t){0});
}

static kiln_t at(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const ip_adapter *self = h->self;
    const kiln_attention_info *a = info->attention;
    kiln_t tokens = kiln_hook_input(h, r, "tokens"), scale = kiln_hook_input(h, r, "scale");
    size_t place = 0;
    while (place < self->n_place && strcmp(self->place[place], info->place) != 0) place++;
    if (!a || place == self->n_place)
        return r->ops->fail(r->program, "IP-Adapter is to act at '%s', which is no cross-attention", info->place);
    if (place == 0) self->host->log(KILN_LOG_INFO, "IP-Adapter: recorded");
    int64_t width = dim_at(r->ops, r->program, a->q, 2);
    kiln_t k = project(self, r, tokens, place, "to_k_ip", width), v = project(self, r, tokens, place, "to_v_ip", width);
    kiln_attention how = {.size = sizeof how, .heads = a->heads, .scale = a->scale};
    kiln_t more = r->ops->attention(r->program, a->q, k, v, &how);
    scale = r->ops->reshape(r->program, scale, 3, KILN_DIMS(dim_at(r->ops, r->program, scale, 0), 1, 1));
    return r->ops->add(r->program, x, r->ops->mul(r->program, more, scale));
}

static void release_adapter(void *owned)
{
    ip_adapter *self = owned;
    self->host->unref(self->values);
    self->api->unref(self->weights);
    free(self);
}

/* ---- the places: diffusers numbers the attentions of the encoder first, then the decoder's, then the middle's ---- */

typedef struct {
    ip_adapter *self;
    const char *pattern;
} place_list;

static void add_place(void *arg, const char *place, uint32_t kind)
{
    (void)kind;
    const place_list *list = arg;
    ip_adapter *self = list->self;
    if (self->n_place == PLACES_MAX || !kiln_place_matches(list->pattern, place)) return;
    snprintf(self->place[self->n_place++], PLACE_LENGTH, "%s", place);
}

static kiln_status list_places(const kiln_call *c, const kiln_model *model, ip_adapter *self)
{
    static const char *const order[] = {"input.*.attn2.out", "output.*.attn2.out", "middle.*.attn2.out"};
    const kiln_denoiser *d = model->denoiser;
    kiln_weight_info info = {.size = sizeof info};
    char name[80];
    for (size_t i = 0; d->places && i < COUNT(order); i++) d->places(d, add_place, &(place_list){self, order[i]});
    size_t in_file = 0;
    do snprintf(name, sizeof name, "ip_adapter.%zu.to_k_ip.weight", 2 * in_file + 1);
    while (self->api->find(self->weights, name, &info) == KILN_OK && ++in_file);
    if (in_file == self->n_place && in_file) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "the IP-Adapter is for a model with %zu cross-attentions, and this one has %zu; take the one "
                         "that was made for this family of models",
                         in_file, self->n_place);
}

/* ---- tokens: a linear and a norm of the embedding, and the same of zeros ---- */

static kiln_status tokens_of(const kiln_call *c, const ip_adapter *self, const kiln_tensor *embeds, kiln_value **out)
{
    const kiln_ops *o = c->host->ability(KILN_OPS_ABILITY);
    kiln_program_options options = {.size = sizeof options, .name = "ip-adapter"};
    kiln_weight_info info = {.size = sizeof info};
    kiln_program *p = o->program_new(c->ctx, &options);
    kiln_tensor t;
    if (!p) return KILN_ERR_NOMEM;
    int64_t n = embeds->dim[0],
            all = self->api->find(self->weights, "image_proj.proj.bias", &info) == KILN_OK ? info.dim[0] : IP_TOKENS,
            width = all / IP_TOKENS;
    kiln_t x = o->input(p, "embeds", KILN_F32, 2, embeds->dim);
    x = o->linear(p, x, o->weight(p, self->weights, "image_proj.proj.weight", 2, KILN_DIMS(all, embeds->dim[1])),
                  o->weight(p, self->weights, "image_proj.proj.bias", 1, &all));
    x = o->layer_norm(p, o->reshape(p, x, 3, KILN_DIMS(n, IP_TOKENS, width)), 1e-5f,
                      o->weight(p, self->weights, "image_proj.norm.weight", 1, &width),
                      o->weight(p, self->weights, "image_proj.norm.bias", 1, &width));
    o->output(p, "tokens", x);
    kiln_status status = o->plan(c->ctx, p, NULL);
    if (status == KILN_OK) status = kit_new_f32(c, 3, KILN_DIMS(n, IP_TOKENS, width), out, &t);
    if (status == KILN_OK) {
        kiln_bind in = KILN_BIND("embeds", *embeds);
        kiln_bind result = KILN_BIND("tokens", kit_window(KILN_F32, KILN_CPU, t.data, 3, t.dim));
        status = o->run(c->ctx, p, &in, 1, &result, 1);
    }
    o->program_free(p);
    return status;
}

static kiln_status make_values(const kiln_call *c, ip_adapter *self, const kiln_tensor *embeds, double scale)
{
    const kiln_value_api *v = kit_values(c);
    int64_t dim[] = {1, embeds->dim[1]};
    float *zeros = c->host->scratch(c->ctx, (size_t)dim[1] * sizeof *zeros, KILN_CPU);
    kiln_value *tokens = NULL, *unconditional = NULL;
    if (!(self->values = v->new_map(c->ctx)) || !zeros) return KILN_ERR_NOMEM;
    memset(zeros, 0, (size_t)dim[1] * sizeof *zeros);
    kiln_tensor nothing = kit_window(KILN_F32, KILN_CPU, zeros, 2, dim);
    kiln_status status = tokens_of(c, self, embeds, &tokens);
    if (status == KILN_OK) status = tokens_of(c, self, &nothing, &unconditional);
    if (status == KILN_OK) status = v->map_set(self->values, "tokens", tokens);
    if (status == KILN_OK) status = v->map_set(self->values, "tokens.unconditional", unconditional);
    c->host->unref(tokens);
    c->host->unref(unconditional);
    return status == KILN_OK ? kit_set(c, self->values, "scale", v->new_float(c->ctx, scale)) : status;
}

/* ---- ExampleIPAdapter ---- */

typedef struct {
    const char *path, *places;
    double scale, start_percent, end_percent;
} ip_params;

static const kiln_port ip_in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "clip_vision_output", .type = "CLIP_VISION_OUTPUT", .doc = "The picture, encoded."},
};
static const kiln_port ip_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The denoiser that sees the picture."}};
static const kiln_param ip_param[] = {
    {.name = "ipadapter_file",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(ip_params, path),
     .from = "ipadapter",
     .doc = "A .safetensors file with image_proj.* and ip_adapter.*."},
    {.name = "places",
     .type = KILN_P_STRING,
     .offset = offsetof(ip_params, places),
     .def_str = "*.*.attn2.out",
     .doc = "Where it acts; * stands for any one word."},
    KIT_FLOAT(ip_params, scale, 1, -10, 10, 0.01, "Times this the picture's attention is added."),
    KIT_FLOAT(ip_params, start_percent, 0, 0, 1, 0.001, "It acts from this share of the way on."),
    KIT_FLOAT(ip_params, end_percent, 1, 0, 1, 0.001, "It acts up to this share of the way."),
};

static kiln_status fill(const kiln_call *c, const kiln_model *model, const kiln_tensor *embeds, ip_adapter *self)
{
    const ip_params *p = c->params;
    if (!(self->weights = self->api->open(c->ctx, p->path))) return KILN_ERR_INVALID;
    const char *identity = self->api->identity(c->ctx, self->weights);
    if (!identity) return KILN_ERR_IO;
    TRY(list_places(c, model, self));
    TRY(make_values(c, self, embeds, p->scale));
    snprintf(self->identity, sizeof self->identity, "example-ip-adapter/%s", identity);
    snprintf(self->pattern_text, sizeof self->pattern_text, "%s", p->places);
    self->pattern[0] = self->pattern_text;
    self->hook = (kiln_hook){.size = sizeof self->hook,
                             .self = self,
                             .identity = self->identity,
                             .place = self->pattern,
                             .start = p->start_percent,
                             .end = p->end_percent,
                             KILN_ARRAY(input, ip_input),
                             .values = self->values,
                             .at = at};
    return KILN_OK;
}

static kiln_status run_adapter(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    kiln_tensor embeds;
    if (!model) return KILN_ERR_INVALID;
    TRY(kit_f32(c, kit_values(c)->map_get(c->in[1], "image_embeds"), 2, "clip_vision_output", &embeds));
    ip_adapter *self = calloc(1, sizeof *self);
    if (!self) return KILN_ERR_NOMEM;
    self->host = c->host, self->api = c->host->ability(KILN_WEIGHTS_ABILITY);
    kiln_status status = fill(c, model, &embeds, self);
    if (status == KILN_OK) return model_with_hook(c, c->in[0], &self->hook, self, release_adapter, &c->out[0]);
    release_adapter(self);
    return status;
}

const kiln_node node_ip_adapter = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "ExampleIPAdapter",
                   "IP-Adapter", "example", "Lets a denoiser see a picture beside the prompt."),
    KILN_ARRAY(in, ip_in), KILN_ARRAY(out, ip_out), KIT_PARAMS(ip_params, ip_param), .run = run_adapter};
