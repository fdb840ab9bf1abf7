/* small_hooks.c - hooks without weights: attention replaced, further keys and values, blocks left out, a residual
 * stream changed. Each is a constant table; only what has numbers of its own keeps something alive.
 */
#include "ip_adapter.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- a MODEL with one more hook ---- */

typedef struct {
    const kiln_hook **list;
    void *owned;
    void (*release)(void *owned);
} hook_list;

static void release_list(void *owned)
{
    hook_list *l = owned;
    if (l->release) l->release(l->owned);
    free(l->list);
    free(l);
}

kiln_status model_with_hook(const kiln_call *c, kiln_value *model, const kiln_hook *hook, void *owned,
                            void (*release)(void *owned), kiln_value **out)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *given = models->model(c->ctx, model);
    hook_list *l = calloc(1, sizeof *l);
    if (given && l) l->list = calloc(given->n_hook + 1, sizeof *l->list);
    if (!given || !l || !l->list) {
        if (release) release(owned);
        free(l);
        return given ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    }
    if (given->n_hook) memcpy(l->list, given->hook, given->n_hook * sizeof *l->list);
    l->list[given->n_hook] = hook;
    l->owned = owned, l->release = release;
    kiln_model m = *given;
    m.hook = l->list, m.n_hook++;
    m.owned = l, m.release = release_list, m.base = model;
    if (!(*out = models->model_new(c->ctx, &m))) release_list(l);
    return *out ? KILN_OK : KILN_ERR_INVALID;
}

static const kiln_port model_in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_port model_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The denoiser with the hook on it."}};

/* ---- attention replaced: what a token gives is what it gets (perturbed attention, Ahn et al. 2024) ---- */

static kiln_t values_alone(const kiln_hook *h, const kiln_recording *r, const kiln_attention_info *a)
{
    (void)h, (void)r;
    return a->v;
}

static const char *const middle_attention[] = {"middle.1.attn1", NULL};
static const kiln_hook attention_is_v = {
    .size = sizeof attention_is_v, .identity = "example-v", .place = middle_attention, .attention = values_alone};

static kiln_status run_attention_is_v(const kiln_call *c)
{
    return model_with_hook(c, c->in[0], &attention_is_v, NULL, NULL, &c->out[0]);
}

const kiln_node node_attention_is_v = {
    KIT_NODE("ExampleAttentionIsV", "Attention is V", "example", "The middle's self-attention gives its values."),
    KILN_ARRAY(in, model_in), KILN_ARRAY(out, model_out), .run = run_attention_is_v};

/* ---- further keys and values, of the hook's own ---- */

static const kiln_input_spec further_input[] = {
    {.size = sizeof *further_input, .kind = KILN_INPUT_TOKENS, .name = "keys"},
    {.size = sizeof *further_input, .kind = KILN_INPUT_TOKENS, .name = "values"},
};

static void append_keys(const kiln_hook *h, const kiln_recording *r, kiln_attention_info *a)
{
    kiln_t keys = kiln_hook_input(h, r, "keys"), values = kiln_hook_input(h, r, "values");
    a->k = r->ops->concat(r->program, (kiln_t[]){a->k, keys}, 2, 1);
    a->v = r->ops->concat(r->program, (kiln_t[]){a->v, values}, 2, 1);
}

typedef struct {
    kiln_hook hook;
    const kiln_host *host;
    kiln_value *values;
} further_keys;

static void release_further(void *owned)
{
    further_keys *f = owned;
    f->host->unref(f->values);
    free(f);
}

static const kiln_port further_in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "keys", .type = "EXTRA_KEYS", .doc = "f32 [N,T,C]"},
    {.name = "values", .type = "EXTRA_KEYS", .doc = "f32 [N,T,C]"},
};

static kiln_status run_further(const kiln_call *c)
{
    static const char *const places[] = {"input.1.attn1", "input.2.attn1", NULL};
    const kiln_value_api *v = kit_values(c);
    further_keys *f = calloc(1, sizeof *f);
    if (!f) return KILN_ERR_NOMEM;
    f->host = c->host, f->values = v->new_map(c->ctx);
    f->hook = (kiln_hook){.size = sizeof f->hook,
                          .identity = "example-further-keys",
                          .place = places,
                          KILN_ARRAY(input, further_input),
                          .values = f->values,
                          .before_attention = append_keys};
    kiln_status status = f->values ? v->map_set(f->values, "keys", c->in[1]) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = v->map_set(f->values, "values", c->in[2]);
    if (status == KILN_OK) return model_with_hook(c, c->in[0], &f->hook, f, release_further, &c->out[0]);
    release_further(f);
    return status;
}

const kiln_node node_further_keys = {
    KIT_NODE("ExampleFurtherKeys", "Further keys", "example", "Self-attention sees some keys and values more."),
    KILN_ARRAY(in, further_in), KILN_ARRAY(out, model_out), .run = run_further};

/* ---- blocks left out ---- */

static int leaves_out(const kiln_hook *h, const char *place)
{
    (void)h, (void)place; /* at each of the hook's places */
    return 1;
}

typedef struct {
    kiln_hook hook;
    const char *place[3];
    char text[2][64], identity[160];
} leaving;

typedef struct {
    const char *first, *second;
} leave_params;

static const kiln_param leave_param[] = {
    {.name = "first",
     .type = KILN_P_STRING,
     .offset = offsetof(leave_params, first),
     .def_str = "input.2",
     .doc = "A block."},
    {.name = "second",
     .type = KILN_P_STRING,
     .offset = offsetof(leave_params, second),
     .def_str = "output.1",
     .doc = "Another."},
};

static kiln_status run_leave_out(const kiln_call *c)
{
    const leave_params *p = c->params;
    leaving *l = calloc(1, sizeof *l);
    if (!l) return KILN_ERR_NOMEM;
    snprintf(l->text[0], sizeof l->text[0], "%s", p->first);
    snprintf(l->text[1], sizeof l->text[1], "%s", p->second);
    snprintf(l->identity, sizeof l->identity, "example-leave-out");
    l->place[0] = l->text[0], l->place[1] = l->text[1];
    l->hook = (kiln_hook){.size = sizeof l->hook, .identity = l->identity, .place = l->place, .leaves_out = leaves_out};
    return model_with_hook(c, c->in[0], &l->hook, l, free, &c->out[0]);
}

const kiln_node node_leave_out = {KIT_NODE("ExampleLeaveOut", "Leave out", "example", "Two blocks are left out."),
                                  KILN_ARRAY(in, model_in), KILN_ARRAY(out, model_out),
                                  KIT_PARAMS(leave_params, leave_param), .run = run_leave_out};

/* ---- a residual stream changed: FreeU's half that is no Fourier filter (Si et al. 2023) ---- */

static kiln_t stronger(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    (void)h, (void)info;
    int64_t channels = dim_at(r->ops, r->program, x, 3), half = channels / 2;
    kiln_t first = r->ops->affine(r->program, r->ops->slice(r->program, x, 3, 0, half), 1.3f, 0);
    kiln_t rest = r->ops->slice(r->program, x, 3, half, channels - half);
    return r->ops->concat(r->program, (kiln_t[]){first, rest}, 2, 3);
}

static const char *const into_output[] = {"output.*.in", NULL};
static const kiln_hook stronger_backbone = {
    .size = sizeof stronger_backbone, .identity = "example-backbone-1.3", .place = into_output, .at = stronger};

static kiln_status run_stronger(const kiln_call *c)
{
    return model_with_hook(c, c->in[0], &stronger_backbone, NULL, NULL, &c->out[0]);
}

const kiln_node node_stronger_backbone = {
    KIT_NODE("ExampleStrongerBackbone", "Stronger backbone", "example", "Half of the decoder's channels, times 1.3."),
    KILN_ARRAY(in, model_in), KILN_ARRAY(out, model_out), .run = run_stronger};
