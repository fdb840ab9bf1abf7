/* denoise.c - see denoise.h. */
#include "denoise.h"

#include "batch_group.h"
#include "kiln/kit.h"
#include "kiln/precision.h"
#include "model_guidance_run.h"
#include "window_plan.h"

#include <assert.h>
#include <stdio.h>

static const kiln_host *host_of(const evaluator *e) { return e->call->host; }

/* ---- parts of the picture ---- */

/* A mask for each picture, as its frames want it: [weights, frames, h, w]. */
static const float *weight_of_frames(const evaluator *e, const condition *c, int64_t frames)
{
    size_t plane = (size_t)(c->h * c->w);
    if (frames == 1 || c->weights == 1) return c->weight;
    float *all = host_of(e)->scratch(e->call->ctx, (size_t)(c->weights * frames) * plane * sizeof *all, KILN_CPU);
    for (int64_t i = 0; all && i < c->weights * frames && !kit_estimating(e->call); i++)
        memcpy(all + (size_t)i * plane, c->weight + (size_t)(i / frames) * plane, plane * sizeof *all);
    return all;
}

static kiln_status weights_to_device(const evaluator *e, conditions *set)
{
    for (size_t i = 0; i < set->n; i++) {
        condition *c = &set->entry[i];
        int64_t frames = c->weights > 1 ? e->space->shape.frames : 1;
        kiln_latent_shape shape = {c->weights, frames, c->h, c->w, 1, 4};
        kiln_latent weight;
        if (!c->weight) continue;
        const float *data = weight_of_frames(e, c, frames);
        if (!data) return KILN_ERR_NOMEM;
        c->host_weight = c->weight, c->host_weights = c->weights;
        TRY(latent_from_host(e->space, &weight, &shape, data));
        c->weight = weight.data;
        c->weights *= frames;
    }
    return KILN_OK;
}

/* The range of a set's models that evaluates at sigma. */
static uint8_t range_at(const denoise_set *s, double sigma)
{
    size_t i = s->n ? s->n - 1 : 0;
    while (i && sigma >= s->range[i].below) i--;
    return (uint8_t)i;
}

static int is_area(const denoise_area *a, kiln_latent_place place, const kiln_latent_shape *shape, const uint8_t *range)
{
    return a->place.y == place.y && a->place.x == place.x && a->height == shape->height && a->width == shape->width &&
           memcmp(a->range, range, sizeof a->range) == 0;
}

/* The conditionings for that part at that level; made once. */
static kiln_status find_area(evaluator *e, kiln_latent_place place, const kiln_latent_shape *shape, double sigma,
                             denoise_area **out)
{
    uint8_t range[DENOISE_SETS];
    for (int k = 0; k < DENOISE_SETS; k++) range[k] = range_at(&e->set[k], sigma);
    denoise_area *a = e->areas;
    while (a && !is_area(a, place, shape, range)) a = a->next;
    *out = a;
    if (a) return KILN_OK;
    if (!(a = host_of(e)->scratch(e->call->ctx, sizeof *a, KILN_CPU))) return KILN_ERR_NOMEM;
    *a = (denoise_area){.next = e->areas, .place = place, .height = shape->height, .width = shape->width};
    memcpy(a->range, range, sizeof range);
    condition_area part = {place.y, place.x, shape->height, shape->width};
    for (int k = 0; k < DENOISE_SETS; k++) {
        if (!e->set[k].n) continue;
        TRY(conditions_crop(e->call, &e->set[k].range[range[k]].given, &part, &a->set[k]));
        TRY(weights_to_device(e, &a->set[k]));
    }
    *out = e->areas = a;
    return KILN_OK;
}

/* ---- one evaluation ---- */

static float *reserve(const evaluator *e, float_buffer *b, size_t n, uint32_t device)
{
    if (n > b->capacity) { /* scratch lives as long as the call: taken anew only for a larger one */
        b->data = host_of(e)->scratch(e->call->ctx, n * sizeof(float), device);
        b->capacity = b->data ? n : 0;
    }
    return b->data;
}

/* A conditioning to evaluate, and the set it belongs to. */
typedef struct {
    const condition *entry;
    int set, done, alone; /* alone: the set's only one, for all of the area, with weight 1 */
    hooked by;            /* what evaluates it */
} item;

typedef struct {
    evaluator *e;
    evaluation *v;
    denoise_area *area;
    double sigma;
    const kiln_further_guess *further; /* NULL: the guider's own guesses */
    const window_plan *window;         /* NULL: all pictures            */
    item items[ITEMS_MAX];
    size_t n;
} pass;

/* Where a set's guess goes. */
static int slot_of(const pass *p, int set) { return p->further ? DENOISE_SETS : set; }

static int covers(const pass *p, const condition *c) { return c->h == p->area->height && c->w == p->area->width; }

/* The model that evaluates a set at this level, and how it counts noise. */
static const denoise_range *range_now(const pass *p, int set) { return &p->e->set[set].range[p->area->range[set]]; }

static int acts_now(const pass *p, const condition *c)
{
    return p->sigma <= c->sigma_start && p->sigma >= c->sigma_end;
}

static kiln_status add_item(pass *p, int set, const condition *c)
{
    if (p->n == ITEMS_MAX)
        return host_of(p->e)->fail(p->e->call->ctx, KILN_ERR_INVALID, "more than %d conditionings at once", ITEMS_MAX);
    if (p->window) TRY(window_takes(p->window, p->e->call, c));
    if (c->hooks.n) TRY(entry_hooks_move(p->e->call, &c->hooks, p->e->session, p->sigma));
    p->items[p->n++] = (item){.entry = c, .set = set};
    return KILN_OK;
}

/* The set's default entries with the weights that the others leave; made once for each choice of those that act. */
static kiln_status find_rest(const pass *p, int set, default_rest **out)
{
    const evaluator *e = p->e;
    const conditions *from = &p->area->set[set];
    uint8_t *acts = host_of(e)->scratch(e->call->ctx, from->n, KILN_CPU);
    default_part part = {from, p->area->height, p->area->width, e->space->shape.pictures};
    if (!acts) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < from->n; i++) acts[i] = !from->entry[i].is_default && acts_now(p, &from->entry[i]);
    default_rest *r = p->area->rest;
    while (r && !(r->set == set && memcmp(r->acts, acts, from->n) == 0)) r = r->next;
    *out = r;
    if (r) return KILN_OK;
    if (!(r = host_of(e)->scratch(e->call->ctx, sizeof *r, KILN_CPU))) return KILN_ERR_NOMEM;
    *r = (default_rest){.next = p->area->rest, .set = set, .acts = acts};
    TRY(default_entries_make(e->call, &part, acts, r));
    TRY(weights_to_device(e, &r->entries));
    *out = p->area->rest = r;
    return KILN_OK;
}

/* Default entries: as they are where nothing else acts, else for what is left. */
static kiln_status collect_default(pass *p, int set, size_t first)
{
    const conditions *from = &p->area->set[set];
    default_rest *rest;
    if (!default_entries_act(from, p->sigma)) return KILN_OK;
    if (p->n > first) {
        TRY(find_rest(p, set, &rest));
        from = &rest->entries;
    }
    for (size_t i = 0; i < from->n; i++)
        if (from->entry[i].is_default && acts_now(p, &from->entry[i])) TRY(add_item(p, set, &from->entry[i]));
    return KILN_OK;
}

static kiln_status collect(pass *p, int set)
{
    const conditions *from = &p->area->set[set];
    size_t first = p->n;
    for (size_t i = 0; i < from->n; i++)
        if (!from->entry[i].is_default && acts_now(p, &from->entry[i]) && window_has(p->window, i, from->n))
            TRY(add_item(p, set, &from->entry[i]));
    TRY(collect_default(p, set, first));
    if (p->n == first + 1) p->items[first].alone = covers(p, p->items[first].entry) && !p->items[first].entry->weight;
    return KILN_OK;
}

/* Once all schedules have moved on to this level. */
static kiln_status choose_models(pass *p)
{
    for (size_t i = 0; i < p->n; i++)
        TRY(hooked_models_find(&p->v->hooked, p->e->call, range_now(p, p->items[i].set)->model,
                               &p->items[i].entry->hooks, p->e->session, &p->items[i].by));
    return KILN_OK;
}

static kiln_area area_of(const pass *p, const condition *c)
{
    const kiln_latent_shape *s = &p->v->x.shape;
    return (kiln_area){
        sizeof(kiln_area), s->pictures * s->frames, s->height, s->width, s->channels, c->y, c->x, c->h, c->w};
}

/* Where the input's part for this conditioning is. */
static kiln_status part_of_x(pass *p, const condition *c, const float **out)
{
    const kiln_ops *ops = p->e->space->ops;
    kiln_area a = area_of(p, c);
    *out = p->v->x.data;
    if (covers(p, c)) return KILN_OK;
    *out = reserve(p->e, &p->v->part, (size_t)(a.pictures * a.h * a.w * a.channels), p->e->space->device);
    return *out ? ops->crop(p->e->call->ctx, &a, p->v->x.data, p->v->part.data) : KILN_ERR_NOMEM;
}

/* x0 under the conditioning from what the network said, into the set's guess or its sum. */
static kiln_status take_prediction(pass *p, const item *i, const float *prediction, size_t n, kiln_level scale)
{
    const evaluator *e = p->e;
    evaluation *v = p->v;
    const float *x;
    TRY(part_of_x(p, i->entry, &x));
    int slot = slot_of(p, i->set);
    float *x0 = i->alone ? v->guess[slot].data : reserve(e, &v->x0, n, e->space->device);
    if (!x0) return KILN_ERR_NOMEM;
    TRY(e->space->ops->combine(e->call->ctx, x0, n, 2, (double[]){scale.of_x, scale.of_prediction},
                               (const float *[]){x, prediction}));
    if (i->alone) return KILN_OK;
    kiln_area a = area_of(p, i->entry);
    kiln_part part = {.size = sizeof part, .data = x0, .weight = i->entry->weight, .weights = i->entry->weights};
    return e->space->ops->accumulate(e->call->ctx, &a, &part, v->guess[slot].data, v->total[slot].data);
}

/* Conditionings that are evaluated in one batch. */
typedef struct {
    batch_group group;
    item *member[ITEMS_MAX];
    const denoise_range *by;
    size_t picture; /* numbers of one member's latents */
} batch;

static void *input_memory(void *self, size_t i, size_t n)
{
    const evaluator *e = self;
    return reserve(e, &e->last->input[i], n, KILN_CPU);
}

/* The shares of the way between which a hook acts, as levels. */
static int hook_acts(const pass *p, const denoise_range *by, const kiln_hook *h)
{
    if (h->start == 0 && h->end == 0) return 1;
    return p->sigma <= model_sampling_percent_to_sigma(&by->counted, h->start) &&
           p->sigma >= model_sampling_percent_to_sigma(&by->counted, h->end);
}

/* The model's own, then those of a further guess. */
static kiln_status choose_hooks(const pass *p, const denoise_range *by, uint8_t *acts, network_batch *b)
{
    size_t further = p->further ? p->further->n_hook : 0;
    if (by->model->n_hook + further > NETWORK_HOOKS_MAX)
        return host_of(p->e)->fail(p->e->call->ctx, KILN_ERR_INVALID, "%zu hooks on one model; at most %d are possible",
                                   by->model->n_hook + further, NETWORK_HOOKS_MAX);
    for (size_t i = 0; i < by->model->n_hook; i++) {
        acts[i] = (uint8_t)hook_acts(p, by, by->model->hook[i]);
        if (acts[i]) b->hook[b->n_hook++] = by->model->hook[i];
    }
    for (size_t i = 0; i < further; i++)
        if (hook_acts(p, by, p->further->hook[i])) b->hook[b->n_hook++] = p->further->hook[i];
    return KILN_OK;
}

/* The strength of each control, picture by picture, as an input. */
static kiln_status add_strengths(const pass *p, const batch *g, network_batch *b, network_input *input)
{
    int64_t pictures = p->v->x.shape.pictures;
    for (size_t k = 0; k < b->n_control; k++) {
        float *data = reserve(p->e, &p->v->strength[k], (size_t)b->dim[0], KILN_CPU);
        network_input *i = &input[b->n_input];
        if (!data) return KILN_ERR_NOMEM;
        if (b->n_input == NETWORK_INPUTS_MAX)
            return host_of(p->e)->fail(p->e->call->ctx, KILN_ERR_INVALID, "more than %d inputs of one network",
                                       NETWORK_INPUTS_MAX);
        *i = (network_input){.name = b->control[k]->strength_name,
                             .own = "strength",
                             .hook = -1,
                             .control = 1,
                             .dtype = KILN_F32,
                             .device = KILN_CPU,
                             .rank = 1,
                             .dim = {b->dim[0]},
                             .data = data,
                             .changes = 1};
        for (int64_t n = 0; n < b->dim[0]; n++) {
            const condition *c = g->group.member[n / pictures];
            data[n] = (float)condition_control(c, b->control[k]->prefix)->strength;
        }
        b->n_input++;
    }
    return KILN_OK;
}

static kiln_status set_inputs(const pass *p, const batch *g, network_batch *b, network_input *input)
{
    uint8_t acts[NETWORK_HOOKS_MAX];
    const kiln_latent_shape *s = &p->v->x.shape;
    batch_layout layout = {.pictures = s->pictures,
                           .format = g->by->model->denoiser->latent,
                           .hook_acts = acts,
                           .picture_of = p->window ? p->window->now.inputs : NULL,
                           .memory = input_memory,
                           .self = p->e};
    const condition *first = g->group.member[0];
    TRY(choose_hooks(p, g->by, acts, b));
    for (size_t i = 0; i < first->controls.n; i++)
        if (control_acts(&first->controls.use[i], p->sigma)) b->control[b->n_control++] = &first->controls.use[i];
    TRY(batch_group_inputs(&g->group, &layout, input, &b->n_input));
    b->input = input;
    return add_strengths(p, g, b, input);
}

/* How many timesteps a picture has in a part of h x w cells. */
static size_t timesteps_of(uint32_t kind, const kiln_latent_shape *s, const condition *c)
{
    return kind == KILN_TIMESTEP_FRAME   ? (size_t)s->frames
           : kind == KILN_TIMESTEP_TOKEN ? (size_t)(s->frames * c->h * c->w)
                                         : 1;
}

/* The share of the timestep that number i of a member's has: how far the noise mask frees it. */
static double timestep_share(const evaluator *e, uint32_t kind, const condition *c, size_t i)
{
    const kiln_latent_shape *s = &e->space->shape;
    if (kind == KILN_TIMESTEP_FRAME && e->frame_share) return (double)e->frame_share[i];
    if (kind != KILN_TIMESTEP_TOKEN || !e->cell_share) return 1;
    int64_t cell = (int64_t)i % (c->h * c->w), plane = (int64_t)i / (c->h * c->w), y = c->top + cell / c->w,
            x = c->left + cell % c->w;
    return (double)e->cell_share[(plane * s->height + y) * s->width + x];
}

/* One a picture, a frame or a cell: less where the noise mask keeps what is there. */
static kiln_status set_timestep(const pass *p, const batch *g, network_batch *b)
{
    const kiln_latent_shape *s = &p->v->x.shape;
    const condition *first = g->group.member[0];
    uint32_t kind = g->by->model->denoiser->timestep;
    size_t each = timesteps_of(kind, s, first), own = (size_t)s->pictures * each, n = own * g->group.n;
    double timestep = model_sampling_timestep(&g->by->counted, p->sigma);
    float *data = reserve(p->e, &p->v->timestep, n, KILN_CPU);
    if (!data) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t at = i % own;
        if (p->window) at = (size_t)p->window->now.x[at / each] * each + at % each;
        data[i] = (float)(timestep * timestep_share(p->e, kind, g->group.member[i / own], at));
    }
    b->timestep = (network_input){.name = "timestep",
                                  .own = "timestep",
                                  .hook = -1,
                                  .dtype = KILN_F32,
                                  .device = KILN_CPU,
                                  .rank = kind == KILN_TIMESTEP_PICTURE ? 1 : 2,
                                  .dim = {b->dim[0], (int64_t)each},
                                  .data = data,
                                  .changes = 1};
    return KILN_OK;
}

/* x of every member, scaled for the network. */
static kiln_status set_latents(pass *p, const batch *g, double scale, network_batch *b)
{
    const evaluator *e = p->e;
    float *x = reserve(e, &p->v->in, g->group.n * g->picture, e->space->device);
    b->device = e->space->device;
    b->x = x;
    b->prediction = reserve(e, &p->v->out, g->group.n * g->picture, e->space->device);
    if (!x || !b->prediction) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < g->group.n; i++) {
        const float *part;
        TRY(part_of_x(p, g->group.member[i], &part));
        TRY(e->space->ops->combine(e->call->ctx, x + i * g->picture, g->picture, 1, &scale, &part));
    }
    return KILN_OK;
}

/* ---- further streams ---- */

/* Where stream k begins in a latent. */
static size_t stream_at(const latent_space *s, size_t k)
{
    size_t at = latent_shape_count(&s->shape);
    for (size_t i = 0; i < k; i++) at += latent_shape_count(&s->stream[i]);
    return at;
}

/* They go through whole: there is no part of a sound that belongs to a part of a picture. */
static kiln_status check_streams(const pass *p, const batch *g)
{
    const evaluator *e = p->e;
    int whole = p->v->x.more == e->space->more;
    for (size_t i = 0; i < g->group.n; i++) whole = whole && g->member[i]->alone;
    if (whole || !e->space->n_stream) return KILN_OK;
    return host_of(e)->fail(e->call->ctx, KILN_ERR_UNSUPPORTED,
                            "a latent of several streams is evaluated whole: conditionings with areas, masks or "
                            "strengths, several at once, and tiles are not possible");
}

static kiln_status set_streams(pass *p, const batch *g, double scale, network_batch *b)
{
    const evaluator *e = p->e;
    TRY(check_streams(p, g));
    for (size_t k = 0; k < e->space->n_stream; k++) {
        kiln_latent_shape shape = e->space->stream[k];
        size_t n = latent_shape_count(&shape);
        const float *from = p->v->x.data + stream_at(e->space, k);
        float *x = reserve(e, &p->v->stream_in[k], g->group.n * n, e->space->device);
        b->stream[k].x = x,
        b->stream[k].prediction = reserve(e, &p->v->stream_out[k], g->group.n * n, e->space->device);
        if (!x || !b->stream[k].prediction) return KILN_ERR_NOMEM;
        for (size_t i = 0; i < g->group.n; i++)
            TRY(e->space->ops->combine(e->call->ctx, x + i * n, n, 1, &scale, &from));
        shape.pictures *= (int64_t)g->group.n;
        b->stream[k].rank = latent_dims(&shape, shape.channels, b->stream[k].dim);
        b->n_stream++;
    }
    return KILN_OK;
}

/* x0 of member i's further streams, behind that of its first. */
static kiln_status take_streams(pass *p, const batch *g, size_t i, const network_batch *b, kiln_level scale)
{
    const evaluator *e = p->e;
    for (size_t k = 0; k < b->n_stream; k++) {
        size_t n = latent_shape_count(&e->space->stream[k]), at = stream_at(e->space, k);
        TRY(e->space->ops->combine(e->call->ctx, p->v->guess[slot_of(p, g->member[i]->set)].data + at, n, 2,
                                   (double[]){scale.of_x, scale.of_prediction},
                                   (const float *[]){p->v->x.data + at, b->stream[k].prediction + i * n}));
    }
    return KILN_OK;
}

/* All items not yet done that go with `first`. */
static kiln_status form_batch(pass *p, item *first, batch *g)
{
    const kiln_latent_shape *s = &p->v->x.shape;
    g->by = range_now(p, first->set);
    g->group = (batch_group){.call = p->e->call, .sigma = p->sigma};
    g->picture = (size_t)(s->pictures * s->frames * first->entry->h * first->entry->w * s->channels);
    for (item *i = first; i < p->items + p->n; i++) {
        int added = 0;
        if (i->done || i->by.model != first->by.model || range_now(p, i->set)->model != g->by->model) continue;
        TRY(batch_group_add(&g->group, i->entry, &added));
        if (added) g->member[g->group.n - 1] = i;
    }
    return KILN_OK;
}

/* ---- what hooks give beside ---- */

static int is_wanted(const network_batch *b, const kiln_hook *h, const char *name)
{
    for (size_t i = 0; i < b->n_output; i++)
        if (network_output_is(&b->output[i], h, name)) return 0;
    return 1;
}

/* Of the guider's own guesses; b has x's shape and its hooks. */
static kiln_status want_outputs(const pass *p, network_batch *b)
{
    size_t cells = 1;
    for (uint32_t i = 0; i + 1 < b->rank; i++) cells *= (size_t)b->dim[i];
    for (size_t i = 0; i < b->n_hook && !p->further && !p->window; i++) {
        const kiln_hook *h = b->hook[i];
        const char *const *name = KILN_HAS(kiln_hook, h, output) ? h->output : NULL;
        for (; name && *name; name++) {
            if (!is_wanted(b, h, *name)) continue;
            if (b->n_output == NETWORK_OUTPUTS_MAX)
                return host_of(p->e)->fail(p->e->call->ctx, KILN_ERR_INVALID,
                                           "hooks give more than %d tensors beside a guess", NETWORK_OUTPUTS_MAX);
            network_output *o = &b->output[b->n_output];
            float *data = reserve(p->e, &p->v->output[b->n_output], cells, p->e->space->device);
            if (!data) return KILN_ERR_NOMEM;
            *o = (network_output){h, *name, data};
            b->n_output++;
        }
    }
    return KILN_OK;
}

/* Member i's of what the batch gave, if its guess is the set's. */
static kiln_status take_outputs(const pass *p, const batch *g, size_t i, const network_batch *b)
{
    const evaluator *e = p->e;
    kiln_latent_shape shape = p->v->x.shape;
    shape.channels = 1;
    size_t n = latent_shape_count(&shape);
    hook_outputs *to = &p->v->beside[g->member[i]->set];
    to->n = 0;
    for (size_t k = 0; k < b->n_output && g->member[i]->alone; k++) {
        float *data = reserve(e, &to->memory[k], n, e->space->device);
        const float *from = b->output[k].data + i * n;
        if (!data) return KILN_ERR_NOMEM;
        TRY(e->space->ops->combine(e->call->ctx, data, n, 1, (double[]){1}, &from));
        to->by[k] = b->output[k];
        to->given[k] = (kiln_latent){.space = e->space, .shape = shape, .data = data};
        to->n++;
    }
    return KILN_OK;
}

kiln_latent *evaluation_output(evaluation *v, int set, const kiln_hook *hook, const char *name)
{
    hook_outputs *of = &v->beside[set];
    for (size_t k = 0; k < of->n; k++)
        if (network_output_is(&of->by[k], hook, name)) return &of->given[k];
    return NULL;
}

/* Evaluates all items not yet done that go with `first` in one batch. */
static kiln_status evaluate_batch(pass *p, item *first)
{
    batch g;
    network_input input[NETWORK_INPUTS_MAX];
    kiln_latent_shape shape = p->v->x.shape;
    TRY(form_batch(p, first, &g));
    kiln_level scale = model_sampling_level(&g.by->counted, p->sigma);
    network_batch b = {.model = first->by.model,
                       .own = first->by.own,
                       .known = &p->v->apart,
                       .effects = &p->v->effects,
                       .precision = p->v->precision,
                       .ran = &p->v->ran};
    kiln_batch_member member[ITEMS_MAX];
    for (size_t i = 0; i < g.group.n; i++)
        member[i] = (kiln_batch_member){sizeof *member, g.group.member[i]->unconditional != 0, shape.pictures};
    b.member = member, b.n_member = g.group.n;
    shape.pictures *= (int64_t)g.group.n, shape.height = first->entry->h, shape.width = first->entry->w;
    b.rank = latent_dims(&shape, shape.channels, b.dim);
    TRY(set_latents(p, &g, scale.input, &b));
    TRY(set_streams(p, &g, scale.input, &b));
    TRY(set_inputs(p, &g, &b, input));
    TRY(set_timestep(p, &g, &b));
    TRY(want_outputs(p, &b));
    TRY(network_run(p->e->call, &b));
    for (size_t i = 0; i < g.group.n; i++) {
        TRY(take_prediction(p, g.member[i], b.prediction + i * g.picture, g.picture, scale));
        TRY(take_streams(p, &g, i, &b, scale));
        if (!p->further) TRY(take_outputs(p, &g, i, &b));
        g.member[i]->done = 1;
    }
    return KILN_OK;
}

/* Memory for a set's guess; a sum begins at 0. */
static kiln_status prepare_set(pass *p, int set, int sums)
{
    const evaluator *e = p->e;
    evaluation *v = p->v;
    set = slot_of(p, set);
    kiln_latent_shape cells = v->x.shape;
    cells.channels = 1;
    v->guess[set] = (kiln_latent){.space = e->space, .shape = v->x.shape, .more = v->x.more};
    v->guess[set].data = reserve(e, &v->guess_memory[set], latent_count(&v->x), e->space->device);
    if (!v->guess[set].data) return KILN_ERR_NOMEM;
    if (!sums) return KILN_OK;
    if (!reserve(e, &v->total[set], latent_shape_count(&cells), e->space->device)) return KILN_ERR_NOMEM;
    TRY(latent_combine(e->space, &v->guess[set], 0, NULL, NULL));
    return e->space->ops->combine(e->call->ctx, v->total[set].data, latent_shape_count(&cells), 0, NULL, NULL);
}

/* The guesses of the wanted sets (bits) at v->x, of all its pictures at once. */
static kiln_status evaluate_whole(pass *p, uint32_t wanted)
{
    const latent_space *space = p->e->space;
    const kiln_latent_shape *s = &p->v->x.shape;
    uint32_t sums = 0;
    for (int k = 0; k < DENOISE_SETS; k++) {
        size_t first = p->n;
        if (!(wanted & 1u << k)) continue;
        TRY(collect(p, k));
        if (p->n == first || !p->items[first].alone) sums |= 1u << k;
        TRY(prepare_set(p, k, (sums >> k) & 1));
    }
    TRY(choose_models(p));
    for (size_t i = 0; i < p->n; i++)
        if (!p->items[i].done) TRY(evaluate_batch(p, &p->items[i]));
    hooked_models_let_go(&p->v->hooked);
    for (int k = 0; k < DENOISE_SETS; k++)
        if (sums & 1u << k)
            TRY(space->ops->divide(p->e->call->ctx, p->v->guess[slot_of(p, k)].data, p->v->total[slot_of(p, k)].data,
                                   (size_t)(s->pictures * s->frames * s->height * s->width), (size_t)s->channels));
    return KILN_OK;
}

/* ---- pictures in windows ---- */

static size_t a_picture(const kiln_latent_shape *s) { return (size_t)(s->frames * s->height * s->width * s->channels); }

/* v->x becomes the window's part of x. */
static kiln_status take_window(const pass *p, const kiln_latent *x, const kiln_window *w)
{
    const evaluator *e = p->e;
    size_t n = a_picture(&x->shape);
    float *data = reserve(e, &p->v->window_x, w->n * n, e->space->device);
    if (!data) return KILN_ERR_NOMEM;
    for (uint32_t i = 0; i < w->n; i++) {
        const float *from = x->data + (size_t)w->x[i] * n;
        TRY(e->space->ops->combine(e->call->ctx, data + i * n, n, 1, (double[]){1}, &from));
    }
    p->v->x = (kiln_latent){.space = e->space, .shape = x->shape, .data = data};
    p->v->x.shape.pictures = w->n;
    return KILN_OK;
}

/* Adds the window's guesses to the sums; plan->total[picture] is what the picture has had before. */
static kiln_status add_window(const pass *p, const window_plan *plan, int slot)
{
    const evaluator *e = p->e;
    const kiln_window *w = &plan->now;
    size_t n = a_picture(&p->v->x.shape);
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->to[i] < 0) continue;
        float *sum = p->v->window_sum[slot].data + (size_t)w->to[i] * n;
        int further = plan->total[w->to[i]] > 0;
        const float *from[] = {p->v->guess[slot].data + i * n, sum};
        TRY(e->space->ops->combine(e->call->ctx, sum, n, further ? 2 : 1, (double[]){w->weight[i], 1}, from));
    }
    return KILN_OK;
}

static kiln_status sum_window(const pass *p, window_plan *plan, uint32_t wanted)
{
    for (int k = 0; k < DENOISE_SETS; k++)
        if (wanted & 1u << k) TRY(add_window(p, plan, slot_of(p, k)));
    window_count(plan);
    return KILN_OK;
}

/* The sums become means, and the sets' guesses. */
static kiln_status divide_sums(const pass *p, const kiln_latent *x, const window_plan *plan, uint32_t wanted)
{
    const evaluator *e = p->e;
    size_t n = a_picture(&x->shape);
    for (int k = 0; k < DENOISE_SETS; k++) {
        if (!(wanted & 1u << k)) continue;
        int slot = slot_of(p, k);
        for (int64_t i = 0; i < plan->pictures; i++) {
            float *sum = p->v->window_sum[slot].data + (size_t)i * n;
            const float *from = sum;
            TRY(e->space->ops->combine(e->call->ctx, sum, n, 1, (double[]){1 / plan->total[i]}, &from));
        }
        p->v->guess[slot] = (kiln_latent){.space = e->space, .shape = x->shape, .data = p->v->window_sum[slot].data};
    }
    return KILN_OK;
}

static kiln_status evaluate_windows(const pass *p, window_plan *plan, uint32_t wanted)
{
    evaluation *v = p->v;
    kiln_latent x = v->x;
    kiln_status status = KILN_OK;
    for (int k = 0; k < DENOISE_SETS; k++) {
        if (!(wanted & 1u << k)) continue;
        if (!p->further) v->beside[k].n = 0;
        if (!reserve(p->e, &v->window_sum[slot_of(p, k)], latent_count(&x), p->e->space->device)) return KILN_ERR_NOMEM;
    }
    do {
        pass part = {.e = p->e, .v = v, .area = p->area, .sigma = p->sigma, .further = p->further, .window = plan};
        status = take_window(p, &x, &plan->now);
        if (status == KILN_OK) status = evaluate_whole(&part, wanted);
        if (status == KILN_OK) status = sum_window(p, plan, wanted);
        v->x = x;
        TRY(status);
        TRY(window_next(plan, p->e->call));
    } while (plan->now.n);
    TRY(window_covers(plan, p->e->call));
    return divide_sums(p, &x, plan, wanted);
}

/* The guesses of the wanted sets (bits) at v->x. */
static kiln_status evaluate(pass *p, uint32_t wanted)
{
    evaluator *e = p->e;
    window_plan plan;
    TRY(window_first(&plan, e->call, e->model[0], &e->space->shape, e->space->n_stream,
                     window_step(e->session, p->sigma)));
    return plan.now.n ? evaluate_windows(p, &plan, wanted) : evaluate_whole(p, wanted);
}

static kiln_status evaluate_sets(evaluator *e, denoise_area *area, uint32_t wanted, double sigma)
{
    return evaluate(&(pass){.e = e, .v = e->last, .area = area, .sigma = sigma}, wanted);
}

kiln_status evaluator_further(evaluator *e, int set, const kiln_further_guess *asked, kiln_latent **out)
{
    evaluation *v = e->last;
    kiln_latent x = v->x;
    if (asked->x) v->x.data = asked->x->data;
    kiln_status status =
        evaluate(&(pass){.e = e, .v = v, .area = v->area, .sigma = v->sigma, .further = asked}, 1u << set);
    v->x = x;
    *out = &v->guess[DENOISE_SETS];
    return status;
}

/* Whoever wrote the sampler looks there first: a wrong coefficient is likelier than broken weights. */
static kiln_status blame_sampler(const evaluator *e, double sigma, const char *weights)
{
    const kiln_sampler *row = e->foreign;
    const kiln_sampler_api *samplers = host_of(e)->ability(KILN_SAMPLER_ABILITY);
    const char *plugin = samplers->plugin_of(row);
    int given = 1;
    TRY(latent_is_finite(e->space, &e->last->x, &given));
    return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                            "sampler '%.100s' of %.100s %s a number that is not finite at noise level %g, in f32 too; "
                            "look at its coefficients there, and try euler: if that fails as well, look whether the "
                            "model's weights are whole: kiln inspect --finite %.300s",
                            row->name, plugin ? plugin : "a plugin",
                            given ? "got from the model" : "asked the model about", sigma, weights);
}

/* *again 1: the guess at v->x is to be made once more, with networks in f32 from here to the sampling's end. */
static kiln_status check_finite(const evaluator *e, const kiln_latent *x0, double sigma, int *again)
{
    evaluation *v = e->last;
    int finite = 1;
    *again = 0;
    TRY(latent_is_finite(e->space, x0, &finite));
    if (finite) return KILN_OK;
    *again = !v->precision && kiln_goes_wider(e->call, "denoiser", &v->precision, v->ran);
    if (*again) v->apart = NULL;
    if (*again) return KILN_OK;
    const char *weights = kiln_file_of(host_of(e)->ability(KILN_WEIGHTS_ABILITY), e->model[0]->weights);
    if (e->foreign) return blame_sampler(e, sigma, weights);
    return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                            "the model gave a number that is not finite at noise level %g, in f32 too; try a lower cfg "
                            "or another sampler, and look whether its weights are whole: kiln inspect --finite %.300s",
                            sigma, weights);
}

/* ---- the guider's guess ---- */

static kiln_status combine(evaluator *e, kiln_latent *out)
{
    kiln_latent *guesses[KILN_GUIDER_SETS];
    kiln_guider_step step = {.size = sizeof step,
                             .sampling = e->counted.by,
                             .latents = &e->space->algebra,
                             .params = e->by.params,
                             .sigma = e->last->sigma,
                             .x = &e->last->x,
                             .guess = guesses,
                             .n_guess = e->by.row->n_set,
                             .self = e,
                             .guided = model_guidance_guided,
                             .patch = model_guidance_patch};
    TRY(model_guidance_begin(e));
    for (uint32_t k = 0; k < e->by.row->n_set; k++) guesses[k] = evaluation_guess(e->last, (int)k);
    TRY(e->by.row->combine(&step, out));
    return e->space->failed;
}

/* ---- the whole ---- */

static uint32_t known_sets(const evaluator *e) { return (1u << e->by.row->n_set) - 1; }

static uint32_t wanted_sets(const evaluator *e, double sigma)
{
    uint32_t wanted = (e->by.row->wants(e->by.params, sigma) & known_sets(e)) | e->always;
    if (e->last->wants_unconditional && e->by.row->unconditional >= 0) wanted |= 1u << e->by.row->unconditional;
    return wanted;
}

/* Latents, or parts of them, that a network cannot take. */
static kiln_status check_patches(const evaluator *e, const kiln_latent_shape *s)
{
    for (int k = 0; k < DENOISE_SETS; k++)
        for (size_t i = 0; i < e->set[k].n; i++) {
            const kiln_latent_format *f = e->set[k].range[i].model->denoiser->latent;
            int64_t patch = f->patch > 1 ? f->patch : 1, frames = f->time_patch > 1 ? f->time_patch : 1,
                    factor = f->factor > 1 ? f->factor : 1;
            if (s->height % patch == 0 && s->width % patch == 0 && s->frames % frames == 0) continue;
            return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                                    "the model takes latents in patches of %lldx%lld cells and %lld frames, and this "
                                    "one, or this part of one, has %lldx%lld cells and %lld frames; make width and "
                                    "height multiples of %lld pixels",
                                    (long long)patch, (long long)patch, (long long)frames, (long long)s->width,
                                    (long long)s->height, (long long)s->frames, (long long)(patch * factor));
        }
    return KILN_OK;
}

kiln_status evaluator_denoise(evaluator *e, const kiln_latent *x, kiln_latent_place place, double sigma,
                              kiln_latent *out)
{
    evaluation *v = e->last;
    denoise_area *area;
    uint32_t wanted = e->by.row ? wanted_sets(e, sigma) : 1;
    assert(x->space == e->space && out->space == e->space);
    TRY(check_patches(e, &x->shape));
    TRY(find_area(e, place, &x->shape, sigma, &area));
    v->x = (kiln_latent){.space = e->space, .shape = x->shape, .more = x->more};
    if (!(v->x.data = reserve(e, &v->x_memory, latent_count(x), e->space->device))) return KILN_ERR_NOMEM;
    TRY(latent_copy(e->space, &v->x, x));
    v->by = e, v->area = area, v->sigma = sigma;
    int again = 0;
    do {
        v->evaluated = v->ran = 0, v->changed_set = -1;
        TRY(evaluate_sets(e, area, wanted, sigma));
        v->evaluated = wanted;
        TRY(e->by.row ? combine(e, out) : latent_copy(e->space, out, &v->guess[0]));
        TRY(check_finite(e, out, sigma, &again));
    } while (again);
    return e->by.row ? model_guidance_end(e) : KILN_OK;
}

kiln_status evaluation_unconditional(evaluation *v, kiln_latent *out)
{
    evaluator *e = v->by;
    int32_t set = e->by.row ? e->by.row->unconditional : -1;
    if (set < 0)
        return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                                "this sampler asks for the unconditional guess, and %s%s has none; use CFGGuider",
                                e->by.row ? "a guider of the kind " : "this node", e->by.row ? e->by.row->name : "");
    int again = 0;
    do {
        if (again || !(v->evaluated & 1u << set)) TRY(evaluate_sets(e, v->area, 1u << set, v->sigma));
        v->evaluated |= 1u << set;
        v->wants_unconditional = 1;
        TRY(latent_copy(e->space, out, v->changed_set == set ? &v->changed[1] : &v->guess[set]));
        TRY(check_finite(e, out, v->sigma, &again));
    } while (again);
    return KILN_OK;
}
