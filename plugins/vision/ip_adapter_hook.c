/* ip_adapter_hook.c - see ip_adapter_hook.h. */
#include "ip_adapter_hook.h"

#include "ip_adapter_layers.h"
#include "kiln/kit.h"
#include "kiln/resize.h"

#include <stdio.h>
#include <stdlib.h>

#define PENALTY_WIDTH 1280.0f

/* "tokens" would be the prompt's: keys that nothing else writes. "opposite" is what speaks at layers where the sides
 * are exchanged. */
static const kiln_input_spec rows[] = {
    {.size = sizeof *rows, .kind = KILN_INPUT_TOKENS, .name = "tokens", .key = "ip_adapter_tokens"},
    {.size = sizeof *rows, .kind = KILN_INPUT_TABLE, .name = "weights", .key = "ip_adapter_weights"},
    {.size = sizeof *rows,
     .kind = KILN_INPUT_TABLE,
     .flags = KILN_INPUT_OPTIONAL | KILN_INPUT_OMITTED,
     .name = "mask",
     .key = "ip_adapter_mask"},
    {.size = sizeof *rows,
     .kind = KILN_INPUT_TOKENS,
     .flags = KILN_INPUT_OPTIONAL | KILN_INPUT_OMITTED,
     .name = "opposite",
     .key = "ip_adapter_opposite"},
};

typedef struct {
    const kiln_host *host;
    kiln_hook hook;
    const kiln_hook **all; /* the model's, and this one */
    kiln_value *values, *adapter;
    kiln_weights *weights;
    int64_t each, width; /* rows of a picture's tokens, and how wide one is */
    uint32_t scaling;
    ip_adapter_places places;
    uint8_t opposite[IP_ADAPTER_LAYERS_MAX];
    const char *pattern[IP_ADAPTER_PLACES_MAX + 1];
    char identity[160];
} ip_adapter_on;

static void release(void *owned)
{
    ip_adapter_on *self = owned;
    if (!self) return;
    self->host->unref(self->values);
    self->host->unref(self->adapter);
    free(self->all);
    free(self);
}

/* ---- recording ---- */

static int64_t dim_at(const kiln_recording *r, kiln_t x, uint32_t i)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    return i < r->ops->shape(r->program, x, dim, KILN_MAX_RANK) ? dim[i] : 0;
}

static kiln_t product(const kiln_recording *r, kiln_t x, const float *by, int64_t out, int64_t in)
{
    return r->ops->linear(r->program, x, r->ops->constant(r->program, by, 2, KILN_DIMS(out, in)), (kiln_t){0});
}

/* x [...,from] -> [...,to], bilinear as torch's interpolate. */
static kiln_t scaled(const kiln_recording *r, kiln_t x, int64_t from, int64_t to)
{
    float *by = calloc((size_t)(from * to) + 1, sizeof *by);
    if (!by) return r->ops->fail(r->program, "out of memory");
    for (int64_t i = 0; i < to; i++) {
        resize_taps t = resize_axis(i, from, to, RESIZE_BILINEAR);
        for (int k = 0; k < t.n; k++) by[i * from + t.at[k]] += (float)t.weight[k];
    }
    x = product(r, x, by, to, from);
    free(by);
    return x;
}

/* mask [m,h,w] -> [m,cells,1] of an attention's grid. */
static kiln_t mask_of_grid(const kiln_recording *r, kiln_t mask, const int64_t grid[3])
{
    static const uint32_t turned[] = {0, 2, 1};
    int64_t m = dim_at(r, mask, 0), h = dim_at(r, mask, 1), w = dim_at(r, mask, 2);
    mask = r->ops->permute(r->program, scaled(r, mask, w, grid[2]), turned);
    mask = r->ops->permute(r->program, scaled(r, mask, h, grid[1]), turned);
    return r->ops->reshape(r->program, mask, 3, KILN_DIMS(m, grid[1] * grid[2], 1));
}

/* A mask for each picture of the batch: the last one is that of all further ones. */
static kiln_t mask_of_batch(const kiln_recording *r, kiln_t mask)
{
    const kiln_ops *o = r->ops;
    int64_t m = dim_at(r, mask, 0);
    kiln_t all = {0};
    const char *at = (const char *)r->in->member;
    for (size_t i = 0; m > 1 && i < r->in->n_member; i++) {
        const kiln_batch_member *b = (const kiln_batch_member *)(const void *)(at + i * r->in->member->size);
        for (int64_t p = 0; p < b->pictures; p++) {
            kiln_t one = o->slice(r->program, mask, 0, p < m ? p : m - 1, 1);
            all = all.id ? o->concat(r->program, (kiln_t[]){all, one}, 2, 0) : one;
        }
    }
    return all.id ? all : mask;
}

static kiln_t masked(const kiln_hook *h, const kiln_recording *r, const kiln_attention_info *a, kiln_t x)
{
    kiln_t mask = kiln_hook_input(h, r, "mask");
    if (!mask.id) return x;
    if (a->grid[0] != 1 || a->grid[1] * a->grid[2] != dim_at(r, x, 1))
        return r->ops->fail(r->program,
                            "a mask of an IP-Adapter wants to know the picture's cells, and '%s' does not "
                            "say them",
                            a->place);
    return r->ops->mul(r->program, x, mask_of_batch(r, mask_of_grid(r, mask, a->grid)));
}

static kiln_t projected(const ip_adapter_on *self, const kiln_recording *r, kiln_t tokens, uint32_t number,
                        const char *what, int64_t width)
{
    char name[80];
    snprintf(name, sizeof name, "ip_adapter.%u.%s.weight", number, what);
    kiln_t w = r->ops->weight(r->program, self->weights, name, 2, KILN_DIMS(width, self->width));
    return r->ops->linear(r->program, tokens, w, (kiln_t){0});
}

/* v + (weight - 1) mean(v), the mean over each picture's tokens. */
static kiln_t weigh_mean(const ip_adapter_on *self, const kiln_recording *r, kiln_t v, kiln_t weight)
{
    static const uint32_t turned[] = {0, 2, 1};
    const kiln_ops *o = r->ops;
    int64_t n = dim_at(r, v, 1) / self->each;
    kiln_t less = o->affine(r->program, weight, 1, -1), all = {0};
    float *row = malloc((size_t)self->each * sizeof *row);
    if (!row) return o->fail(r->program, "out of memory");
    for (int64_t i = 0; i < self->each; i++) row[i] = 1 / (float)self->each;
    for (int64_t i = 0; i < n; i++) {
        kiln_t part = o->slice(r->program, v, 1, i * self->each, self->each);
        kiln_t mean = product(r, o->permute(r->program, part, turned), row, 1, self->each);
        mean = o->mul(r->program, o->permute(r->program, mean, turned), less);
        part = o->add(r->program, part, mean);
        all = all.id ? o->concat(r->program, (kiln_t[]){all, part}, 2, 1) : part;
    }
    free(row);
    return all;
}

/* What is added at a place. */
static kiln_t image_attention(const kiln_hook *h, const kiln_recording *r, const ip_adapter_place *at,
                              const kiln_attention_info *a)
{
    const ip_adapter_on *self = h->self;
    const kiln_ops *o = r->ops;
    int64_t width = dim_at(r, a->q, 2);
    kiln_t tokens = kiln_hook_input(h, r, self->opposite[at->layer] ? "opposite" : "tokens");
    kiln_t weight = o->slice(r->program, kiln_hook_input(h, r, "weights"), 0, at->layer, 1);
    kiln_t k = projected(self, r, tokens, at->number, "to_k_ip", width);
    kiln_t v = projected(self, r, tokens, at->number, "to_v_ip", width);
    kiln_attention how = {.size = sizeof how, .heads = a->heads, .scale = a->scale};
    weight = o->reshape(r->program, weight, 3, KILN_DIMS(1, 1, 1));
    if (self->scaling == IP_SCALE_V) return o->mul(r->program, o->attention(r->program, a->q, k, v, &how), weight);
    if (self->scaling != IP_SCALE_KV) weight = o->affine(r->program, weight, (float)width / PENALTY_WIDTH, 0);
    k = o->mul(r->program, k, weight);
    v = self->scaling == IP_SCALE_K_MEAN_V_C ? weigh_mean(self, r, v, weight) : o->mul(r->program, v, weight);
    return o->attention(r->program, a->q, k, v, &how);
}

static kiln_t add_at(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const ip_adapter_on *self = h->self;
    size_t i = 0;
    while (i < self->places.n && strcmp(self->places.place[i].name, info->place) != 0) i++;
    if (i == self->places.n || !info->attention)
        return r->ops->fail(r->program, "an IP-Adapter is to act at '%s', which is no cross-attention", info->place);
    kiln_t more = image_attention(h, r, &self->places.place[i], info->attention);
    return r->ops->add(r->program, x, masked(h, r, info->attention, more));
}

/* ---- does it fit? ---- */

int ip_adapter_is_idle(const ip_adapter_use *use) { return use->weight == 0 || use->end <= 0 || use->start > use->end; }

/* How wide the denoiser's text is; 0: it takes any. */
static int64_t text_width(const kiln_denoiser *d)
{
    for (uint32_t i = 0; i < d->n_input; i++) {
        const kiln_input_spec row = kiln_input_spec_at(d->input, d->input_stride, i);
        if (row.kind == KILN_INPUT_TOKENS && row.key && strcmp(row.key, "tokens") == 0) return row.width;
    }
    return 0;
}

static const kiln_net *net_of(const kiln_call *c, const ip_adapter_use *use)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    return models->net(c->ctx, use->adapter, IP_ADAPTER_TYPE);
}

kiln_status ip_adapter_fits(const kiln_call *c, const ip_adapter_use *use)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_net *net = net_of(c, use);
    const kiln_model *model = models->model(c->ctx, use->model);
    ip_adapter_places *p = c->host->scratch(c->ctx, sizeof *p, KILN_CPU);
    if (!p) return KILN_ERR_NOMEM;
    if (!net || !model) return KILN_ERR_INVALID;
    const ip_adapter_config *config = ip_adapter_config_of(net);
    ip_adapter_find_places(model->denoiser, p);
    if (config->attentions != (int64_t)p->n)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "this IP-Adapter is for a model with %lld cross-attentions, and this one has %zu; take the "
            "one that was made for this family of models",
            (long long)config->attentions, p->n);
    int64_t width = text_width(model->denoiser);
    if (width && width != config->width)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "this IP-Adapter is for a model whose text is %lld wide, and this one's is %lld; take the "
                             "one that was made for this family of models",
                             (long long)config->width, (long long)width);
    return KILN_OK;
}

/* ---- putting it on ---- */

static kiln_status floats(const kiln_call *c, const double *from, int64_t n, kiln_value **out)
{
    kiln_tensor t;
    TRY(kit_new_f32(c, 1, &n, out, &t));
    for (int64_t i = 0; t.data && i < n; i++) ((float *)t.data)[i] = (float)from[i];
    return KILN_OK;
}

static kiln_status set_opposites(const kiln_call *c, ip_adapter_on *self, const ip_adapter_tokens *tokens)
{
    const kiln_value_api *v = kit_values(c);
    kiln_tensor like, t;
    kiln_value *zeros = NULL;
    kit_tensor_clear(&like);
    TRY(c->host->view(c->ctx, tokens->positive, &like));
    TRY(kit_new_f32(c, 3, like.dim, &zeros, &t));
    if (t.data) memset(t.data, 0, kit_count(&t) * sizeof(float));
    kiln_status status = v->map_set(self->values, "opposite", zeros);
    c->host->unref(zeros);
    return status == KILN_OK ? v->map_set(self->values, "opposite.unconditional", tokens->positive) : status;
}

static kiln_status check_mask(const kiln_call *c, const kiln_value *mask)
{
    kiln_tensor t;
    TRY(kit_f32(c, mask, 3, "attn_mask", &t));
    return kit_count(&t) ? KILN_OK : c->host->fail(c->ctx, KILN_ERR_INVALID, "attn_mask is empty");
}

static kiln_status set_values(const kiln_call *c, const ip_adapter_use *use, const ip_adapter_tokens *tokens,
                              const double *weight, ip_adapter_on *self)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *weights = NULL;
    int opposite = 0;
    if (!(self->values = v->new_map(c->ctx))) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < self->places.layers; i++) opposite |= self->opposite[i];
    TRY(v->map_set(self->values, "tokens", tokens->positive));
    TRY(v->map_set(self->values, "tokens.unconditional", tokens->negative));
    TRY(floats(c, weight, (int64_t)self->places.layers, &weights));
    TRY(kit_set(c, self->values, "weights", weights));
    if (opposite) TRY(set_opposites(c, self, tokens));
    if (!use->mask) return KILN_OK;
    TRY(check_mask(c, use->mask));
    return v->map_set(self->values, "mask", (kiln_value *)(uintptr_t)use->mask);
}

/* Layers without a weight are no places of the hook: nothing is computed there. */
static void fill_hook(const ip_adapter_use *use, const double *weight, ip_adapter_on *self)
{
    size_t n = 0;
    for (size_t i = 0; i < self->places.n; i++)
        if (weight[self->places.place[i].layer] != 0) self->pattern[n++] = self->places.place[i].name;
    self->hook = (kiln_hook){.size = sizeof self->hook,
                             .self = self,
                             .identity = self->identity,
                             .place = self->pattern,
                             .start = use->start,
                             .end = use->end,
                             KILN_ARRAY(input, rows),
                             .values = self->values,
                             .at = add_at};
}

static kiln_status name_it(const kiln_call *c, ip_adapter_on *self)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const char *identity = w->identity(c->ctx, self->weights);
    uint64_t opposite = 0;
    if (!identity) return KILN_ERR_IO;
    for (size_t i = 0; i < self->places.layers; i++) opposite |= (uint64_t)self->opposite[i] << i;
    snprintf(self->identity, sizeof self->identity, "ip-adapter/%.64s/%u.%lld.%llx", identity, self->scaling,
             (long long)self->each, (unsigned long long)opposite);
    return KILN_OK;
}

static kiln_status fill(const kiln_call *c, const ip_adapter_use *use, const ip_adapter_tokens *tokens,
                        const kiln_model *model, ip_adapter_on *self)
{
    double weight[IP_ADAPTER_LAYERS_MAX] = {0};
    const kiln_net *net = net_of(c, use);
    if (!net) return KILN_ERR_INVALID;
    self->adapter = c->host->ref(use->adapter), self->weights = net->weights;
    self->each = tokens->each, self->width = ip_adapter_config_of(net)->width, self->scaling = use->scaling;
    ip_adapter_find_places(model->denoiser, &self->places);
    if (!ip_adapter_weights(&self->places, use->type, use->weight, weight, self->opposite))
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "this weight_type is about the 16 layers of SD1 or the 11 of SDXL, and this model has %zu; "
            "take linear, or another one that begins with ease, weak or strong",
            self->places.layers);
    TRY(set_values(c, use, tokens, weight, self));
    TRY(name_it(c, self));
    fill_hook(use, weight, self);
    if (!(self->all = calloc(model->n_hook + 1, sizeof *self->all))) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < model->n_hook; i++) self->all[i] = model->hook[i];
    self->all[model->n_hook] = &self->hook;
    return KILN_OK;
}

kiln_status ip_adapter_put(const kiln_call *c, const ip_adapter_use *use, const ip_adapter_tokens *tokens,
                           kiln_value **out)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, use->model);
    ip_adapter_on *self = model ? calloc(1, sizeof *self) : NULL;
    if (!self) return model ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    self->host = c->host;
    kiln_status status = fill(c, use, tokens, model, self);
    if (status == KILN_OK) {
        kiln_model m = *model;
        m.hook = self->all, m.n_hook = model->n_hook + 1;
        m.owned = self, m.release = release, m.base = use->model;
        *out = models->model_new(c->ctx, &m);
        if (*out) return KILN_OK;
        status = KILN_ERR_NOMEM;
    }
    release(self);
    return status;
}
