/* archived_model.c - a MODEL: a denoiser with named inputs, and a hook with an input and values of its own. */
#include "archived.h"

enum { C = 4, WIDTH = 3 };

static const kiln_host *the_host;

/* What a MODEL owns. */
typedef struct {
    kiln_standard_sampling sampling;
    double sigma[10];
    kiln_denoiser denoiser;
    kiln_hook hook;
    const kiln_hook *hooks[1];
    kiln_value *values;
} owned;

/* ---- the network ---- */

static const kiln_input_spec inputs[] = {
    {.size = sizeof(kiln_input_spec),
     .name = "context",
     .key = "tokens",
     .kind = KILN_INPUT_TOKENS,
     .batch = KILN_BATCH_PAD,
     .width = WIDTH,
     .doc = "Tokens."},
    {.size = sizeof(kiln_input_spec),
     .name = "gain",
     .kind = KILN_INPUT_SCALAR,
     .flags = KILN_INPUT_OPTIONAL,
     .fallback = 0.5,
     .doc = "A number."},
};

static kiln_t record(const kiln_denoiser *d, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                     const kiln_denoise_inputs *in)
{
    const kiln_recording r = {.size = sizeof r, .ops = o, .program = p, .in = in};
    int64_t dim[KILN_MAX_RANK];
    (void)d;
    if (o->shape(p, in->x, dim, KILN_MAX_RANK) != 4) return o->fail(p, "a latent of four dimensions is expected");
    kiln_t context = kiln_input(in->input, in->n_input, "context"), gain = kiln_input(in->input, in->n_input, "gain");
    kiln_t time =
        o->timestep_embedding(p, in->timestep, C, &(kiln_timestep_embedding){.size = sizeof(kiln_timestep_embedding)});
    kiln_t h = o->add(p, in->x, o->reshape(p, time, 4, KILN_DIMS(dim[0], 1, 1, C)));
    kiln_t x = o->reshape(p, h, 3, KILN_DIMS(dim[0], dim[1] * dim[2], C));
    kiln_attention_info a = {.size = sizeof a, .heads = 1, .place = "block.attn1", .x = x, .context = context};
    a.q = o->linear(p, x, o->weight(p, w, "q", 2, KILN_DIMS(C, C)), (kiln_t){0});
    a.k = o->linear(p, context, o->weight(p, w, "k", 2, KILN_DIMS(C, WIDTH)), (kiln_t){0});
    a.v = o->linear(p, context, o->weight(p, w, "v", 2, KILN_DIMS(C, WIDTH)), (kiln_t){0});
    kiln_t y = kiln_attention_at(&r, &a);
    kiln_place_info out = {.size = sizeof out, .place = "block.attn1.out", .timestep_embedding = time, .attention = &a};
    y = kiln_place(&r, y, &out);
    y = o->mul(p, y, o->reshape(p, gain, 3, KILN_DIMS(dim[0], 1, 1)));
    return o->reshape(p, o->add(p, y, o->affine(p, x, 0.25f, 0)), 4, dim);
}

static void places(const kiln_denoiser *d, void (*fn)(void *, const char *, uint32_t), void *arg)
{
    (void)d;
    fn(arg, "block.attn1", KILN_PLACE_ATTENTION);
    fn(arg, "block.attn1.out", KILN_PLACE_POINT);
}

static const kiln_latent_scaling scaling = {.size = sizeof scaling, .n = 1, .scale = (const double[]){0.5}};
static const kiln_latent_format format = {
    .size = sizeof format, .rank = 4, .channels = C, .factor = 8, .scaling = &scaling};

/* ---- the hook: adds a row of its own to what the attention gives ---- */

static const kiln_input_spec hook_inputs[] = {
    {.size = sizeof(kiln_input_spec), .name = "row", .kind = KILN_INPUT_TABLE, .doc = "What is added."}};
static const char *const hook_places[] = {"*.attn1.out", NULL};

static kiln_t hook_at(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *i)
{
    return i->attention ? r->ops->add(r->program, x, kiln_hook_input(h, r, "row")) : x;
}

/* ---- nodes ---- */

typedef struct {
    const char *path;
} model_params;
static const kiln_param model_param[] = {{.name = "file",
                                          .type = KILN_P_FILE,
                                          .flags = KILN_PARAM_REQUIRED,
                                          .offset = offsetof(model_params, path),
                                          .from = "checkpoints",
                                          .doc = "The weights."}};
static const kiln_port model_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "A denoiser with a hook."}};
static const kiln_weight_rule rules[] = {KILN_RULE(.from = "model.*", .to = "*")};

static void release(void *p)
{
    the_host->unref(((owned *)p)->values);
    free(p);
}

static kiln_status set_up(const kiln_call *c, owned *m)
{
    kiln_value *row;
    kiln_tensor t;
    if (!kiln_discrete_sigmas("scaled_linear", 0.00085, 0.2, COUNT(m->sigma), m->sigma)) return KILN_ERR_BUG;
    kiln_standard_sampling_init(
        &m->sampling,
        &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = COUNT(m->sigma), .sigma = m->sigma});
    m->denoiser = (kiln_denoiser){.size = sizeof m->denoiser,
                                  .family = "archived",
                                  .latent = &format,
                                  .sampling = &m->sampling.base,
                                  KILN_ARRAY(input, inputs),
                                  .record = record,
                                  .places = places};
    m->hook = (kiln_hook){.size = sizeof m->hook,
                          KILN_ARRAY(input, hook_inputs),
                          .identity = "archived hook",
                          .place = hook_places,
                          .at = hook_at};
    m->hooks[0] = &m->hook;
    m->hook.values = m->values = kit_values(c)->new_map(c->ctx);
    if (!m->values) return KILN_ERR_NOMEM;
    TRY(kit_new_f32(c, 3, KILN_DIMS(1, 1, C), &row, &t));
    for (int i = 0; t.data && i < C; i++) ((float *)t.data)[i] = (float)i / 10;
    return kit_set(c, m->values, "row", row);
}

static kiln_status model_run(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    owned *m = calloc(1, sizeof *m);
    if (!m) return KILN_ERR_NOMEM;
    the_host = c->host;
    kiln_status status = set_up(c, m);
    kiln_weights *all = status == KILN_OK ? w->open(c->ctx, ((const model_params *)c->params)->path) : NULL;
    kiln_weights *view = all ? w->view(c->ctx, all, rules, COUNT(rules)) : NULL;
    if (view)
        c->out[0] = models->model_new(c->ctx, &(kiln_model){.size = sizeof(kiln_model),
                                                            .denoiser = &m->denoiser,
                                                            .weights = view,
                                                            .hook = m->hooks,
                                                            .n_hook = 1,
                                                            .owned = m,
                                                            .release = release});
    if (view) w->unref(view);
    if (all) w->unref(all);
    if (c->out[0]) return KILN_OK;
    release(m);
    return status == KILN_OK ? KILN_ERR_INVALID : status;
}

const kiln_node archived_model = {KIT_NODE("ArchivedModel", "Model", "archived", "A small denoiser."),
                                  KILN_ARRAY(out, model_out), KIT_PARAMS(model_params, model_param), .run = model_run};

typedef struct {
    double first, gain;
    int64_t tokens;
} conditioning_params;
static const kiln_param conditioning_param[] = {
    KIT_FLOAT(conditioning_params, first, 0, -10, 10, 0.1, "The first number."),
    KIT_FLOAT(conditioning_params, gain, 1, -10, 10, 0.1, "The denoiser's own input."),
    KIT_INT(conditioning_params, tokens, 2, 1, 100, "How many."),
};
static const kiln_port conditioning_out[] = {{.name = "CONDITIONING", .type = "CONDITIONING", .doc = "One entry."}};

static kiln_status conditioning_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const conditioning_params *p = c->params;
    kiln_value *list = v->new_list(c->ctx), *entry = v->new_map(c->ctx), *tokens = NULL;
    kiln_tensor t;
    kiln_status status =
        list && entry ? kit_new_f32(c, 3, KILN_DIMS(1, p->tokens, WIDTH), &tokens, &t) : KILN_ERR_NOMEM;
    for (int64_t i = 0; status == KILN_OK && !kit_estimating(c) && i < p->tokens * WIDTH; i++)
        ((float *)t.data)[i] = (float)(p->first + 0.3 * (double)i);
    if (status == KILN_OK) status = kit_set(c, entry, "tokens", tokens);
    if (status == KILN_OK) status = kit_set(c, entry, "gain", v->new_float(c->ctx, p->gain));
    if (status == KILN_OK) status = v->list_push(list, entry);
    c->host->unref(entry);
    c->out[0] = list;
    return status;
}

const kiln_node archived_conditioning = {
    KIT_NODE("ArchivedConditioning", "Conditioning", "archived", "Tokens and a number."),
    KILN_ARRAY(out, conditioning_out), KIT_PARAMS(conditioning_params, conditioning_param), .run = conditioning_run};
