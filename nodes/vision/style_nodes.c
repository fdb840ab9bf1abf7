/* style_nodes.c - StyleModelLoader and StyleModelApply: a picture's style as tokens behind the prompt's. ComfyUI's
 * strength_type attn_bias is about models that are not there, and so is no choice.
 */
#include "kiln/kit.h"
#include "kiln/loading.h"
#include "style_adapter.h"
#include "vision_nodes.h"

/* ---- StyleModelLoader ---- */

typedef struct {
    const char *path;
} loader_params;

static const kiln_port style_out[] = {{.name = "STYLE_MODEL", .type = STYLE_TYPE, .doc = "The adapter."}};
static const kiln_param loader_param[] = {{.name = "style_model_name",
                                           .type = KILN_P_FILE,
                                           .flags = KILN_PARAM_REQUIRED,
                                           .offset = offsetof(loader_params, path),
                                           .from = "style_models",
                                           .doc = "A .safetensors file with T2I-Adapter's style adapter."}};

static kiln_status load(const kiln_call *c)
{
    return kiln_load_one(c, ((const loader_params *)c->params)->path, STYLE_KIND, c->out);
}

const kiln_node node_style_model_loader = {
    KIT_NODE("StyleModelLoader", "Load Style Model", "loaders", "Opens a style adapter."),
    KILN_ARRAY(out, style_out),
    KIT_PARAMS(loader_params, loader_param),
    .run = load,
};

/* ---- StyleModelApply ---- */

typedef struct {
    double strength;
    int32_t strength_type;
} apply_params;

static const kiln_port apply_in[] = {
    {.name = "conditioning", .type = "CONDITIONING", .doc = "The prompt."},
    {.name = "style_model", .type = STYLE_TYPE, .doc = "The adapter."},
    {.name = "clip_vision_output", .type = "CLIP_VISION_OUTPUT", .doc = "The pictures, encoded."},
};
static const kiln_port apply_out[] = {
    {.name = "CONDITIONING", .type = "CONDITIONING", .doc = "The prompt with the style's tokens behind it."}};
static const kiln_choice strength_types[] = {{.name = "multiply", .doc = "tokens times the strength", .value = 0}, {0}};
static const kiln_param apply_param[] = {
    KIT_FLOAT(apply_params, strength, 1, 0, 10, 0.001, "Times this the style's tokens are."),
    KIT_ENUM(apply_params, strength_type, strength_types, 0, "What the strength is a factor of."),
};

typedef struct {
    const kiln_ops *ops;
    kiln_program *p;
    int64_t dim[KILN_MAX_RANK];
} recording;

static void take_tokens(const kiln_outputs *out, const char *name, kiln_t t)
{
    recording *r = out->self;
    r->ops->output(r->p, name, t);
    r->ops->shape(r->p, t, r->dim, KILN_MAX_RANK);
}

/* *out [n,tokens,width] of features [n,rows,width]. */
static kiln_status run_program(const kiln_call *c, const kiln_net *net, const kiln_tensor *x, recording *r,
                               kiln_tensor *out)
{
    const kiln_outputs to = {.size = sizeof to, .self = r, .add = take_tokens};
    const kiln_named_tensor in = {
        .size = sizeof in, .name = STYLE_FEATURES, .tensor = r->ops->input(r->p, STYLE_FEATURES, KILN_F32, 3, x->dim)};
    net->network->record(net->network, r->ops, r->p, net->weights, &in, 1, &to);
    TRY(r->ops->plan(c->ctx, r->p, NULL));
    int64_t *dim = c->host->scratch(c->ctx, 3 * sizeof *dim, KILN_CPU);
    if (!dim) return KILN_ERR_NOMEM;
    memcpy(dim, r->dim, 3 * sizeof *dim);
    *out = kit_window(KILN_F32, KILN_CPU, NULL, 3, dim);
    if (!(out->data = c->host->scratch(c->ctx, kit_count(out) * sizeof(float), KILN_CPU))) return KILN_ERR_NOMEM;
    kiln_bind given = KILN_BIND(STYLE_FEATURES, kit_window(KILN_F32, KILN_CPU, x->data, 3, x->dim));
    kiln_bind result = KILN_BIND("tokens", *out);
    return r->ops->run(c->ctx, r->p, &given, 1, &result, 1);
}

static kiln_status style_tokens(const kiln_call *c, kiln_tensor *out)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_net *net = models->net(c->ctx, c->in[1], STYLE_TYPE);
    const kiln_program_options options = {.size = sizeof options, .name = "style"};
    recording r = {.ops = c->host->ability(KILN_OPS_ABILITY)};
    kiln_tensor x;
    if (!net) return KILN_ERR_INVALID;
    TRY(kit_f32(c, kit_values(c)->map_get(c->in[2], STYLE_FEATURES), 3, "clip_vision_output's " STYLE_FEATURES, &x));
    if (x.dim[2] != style_features(net))
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "this style adapter is shown features that are %lld wide, and those of this vision encoder "
            "are %lld; take the encoder that it was made for (ViT-L/14)",
            (long long)style_features(net), (long long)x.dim[2]);
    if (!(r.p = r.ops->program_new(c->ctx, &options))) return KILN_ERR_NOMEM;
    kiln_status status = run_program(c, net, &x, &r, out);
    r.ops->program_free(r.p);
    return status;
}

/* *out = text [n,T,D] with the style's tokens of all pictures behind each of its rows, times the strength. */
static kiln_status behind(const kiln_call *c, const kiln_tensor *style, const kiln_value *text, kiln_value **out)
{
    float strength = (float)((const apply_params *)c->params)->strength;
    kiln_tensor t, all;
    TRY(kit_f32(c, text, 3, "the conditioning's tokens", &t));
    if (t.dim[2] != style->dim[2])
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "this style adapter's tokens are %lld wide, and the prompt's are %lld; it was made for "
                             "another family of models",
                             (long long)style->dim[2], (long long)t.dim[2]);
    int64_t more = style->dim[0] * style->dim[1];
    size_t own = (size_t)(t.dim[1] * t.dim[2]), further = (size_t)(more * t.dim[2]);
    TRY(kit_new_f32(c, 3, KILN_DIMS(t.dim[0], t.dim[1] + more, t.dim[2]), out, &all));
    for (int64_t i = 0; i < t.dim[0] && !kit_estimating(c); i++) {
        float *to = (float *)all.data + (size_t)i * (own + further);
        memcpy(to, (const float *)t.data + (size_t)i * own, own * sizeof *to);
        for (size_t k = 0; k < further; k++) to[own + k] = strength * ((const float *)style->data)[k];
    }
    return KILN_OK;
}

static kiln_status add_entry(const kiln_call *c, const kiln_tensor *style, const kiln_value *from, kiln_value *list)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *entry = v->map_copy(c->ctx, from), *tokens = NULL;
    kiln_status status = entry ? behind(c, style, v->map_get(from, "tokens"), &tokens) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = v->map_set(entry, "tokens", tokens);
    if (status == KILN_OK) status = v->list_push(list, entry);
    c->host->unref(tokens);
    c->host->unref(entry);
    return status;
}

static kiln_status apply(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    kiln_tensor style;
    TRY(style_tokens(c, &style));
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(c->in[0]); i++)
        status = add_entry(c, &style, v->list_at(c->in[0], i), list);
    if (status == KILN_OK)
        c->out[0] = list;
    else
        c->host->unref(list);
    return status;
}

const kiln_node node_style_model_apply = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "StyleModelApply",
                   "Apply Style Model", "conditioning", "Puts a picture's style behind the prompt."),
    KILN_ARRAY(in, apply_in),
    KILN_ARRAY(out, apply_out),
    KIT_PARAMS(apply_params, apply_param),
    .run = apply,
};
