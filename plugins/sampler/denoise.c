/* denoise.c - see denoise.h. */
#include "denoise.h"

#include "kiln/kit.h"
#include "network.h"

#include <assert.h>

enum { ITEMS_MAX = 256 };

static const kiln_host *host_of(const evaluator *e) { return e->call->host; }

/* ---- setting up ---- */

kiln_status evaluator_open(evaluator *e, const kiln_value *guider)
{
    const kiln_model_api *models = host_of(e)->ability(KILN_MODEL_ABILITY);
    TRY(guider_read(e->call, guider, &e->by));
    for (size_t i = 0; i < e->by.row->n_model; i++) {
        if (!(e->model[i] = models->model(e->call->ctx, e->by.model[i]))) return KILN_ERR_INVALID;
        int32_t first = e->model[0]->denoiser->latent.channels, own = e->model[i]->denoiser->latent.channels;
        if (own != first)
            return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                                    "%s has latents of %d channels, %s of %d; they have to be of one kind",
                                    guider_model(e->by.row, i)->name, own, guider_model(e->by.row, 0)->name, first);
    }
    e->counted = model_sampling_of(e->model[0]);
    return KILN_OK;
}

static kiln_status read_set(evaluator *e, int set, const kiln_value *conditioning, const char *name)
{
    denoise_set *s = &e->set[set];
    latent_size size = {e->space->shape.pictures, e->space->shape.height, e->space->shape.width};
    s->model = e->model[set < KILN_GUIDER_SETS ? guider_set(e->by.row, (size_t)set)->model : 0];
    s->counted = model_sampling_of(s->model);
    return conditions_read(e->call, conditioning, name, &size, &s->counted, s->model->denoiser->context_dim, &s->given);
}

/* The conditionings of the guidance that hangs on the first model. */
static kiln_status read_extra_sets(evaluator *e)
{
    int at = KILN_GUIDER_SETS;
    for (size_t i = 0; i < e->model[0]->n_guidance; i++) {
        const kiln_guidance *g = e->model[0]->guidance[i];
        if (g->flags & KILN_GUIDANCE_UNCONDITIONAL && e->by.row->unconditional >= 0)
            e->always |= 1u << e->by.row->unconditional;
        if (!g->conditioning) continue;
        if (at == DENOISE_SETS)
            return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID, "more than %d conditionings hang on the model",
                                    DENOISE_EXTRA);
        TRY(read_set(e, at, g->conditioning, "the model's own conditioning"));
        e->always |= 1u << at++;
    }
    return KILN_OK;
}

kiln_status evaluator_read_conditions(evaluator *e)
{
    conditions *own[KILN_GUIDER_SETS];
    size_t n = 0;
    e->areas = NULL;
    for (int i = 0; i < (int)e->by.row->n_set; i++) {
        TRY(read_set(e, i, e->by.conditioning[i], guider_set(e->by.row, (size_t)i)->name));
        own[n++] = &e->set[i].given;
    }
    e->always = 0;
    TRY(conditions_oppose(e->call, own, n, e->space->shape.height, e->space->shape.width));
    return read_extra_sets(e);
}

/* ---- parts of the picture ---- */

static kiln_status weights_to_device(const evaluator *e, conditions *set)
{
    for (size_t i = 0; i < set->n; i++) {
        condition *c = &set->entry[i];
        kiln_latent_shape shape = {c->weights, c->h, c->w, 1};
        kiln_latent weight;
        if (!c->weight) continue;
        TRY(latent_from_host(e->space, &weight, &shape, c->weight));
        c->weight = weight.data;
    }
    return KILN_OK;
}

/* The conditionings for that part; made once. */
static kiln_status find_area(evaluator *e, kiln_latent_place place, const kiln_latent_shape *shape, denoise_area **out)
{
    denoise_area *a = e->areas;
    while (a &&
           (a->place.y != place.y || a->place.x != place.x || a->height != shape->height || a->width != shape->width))
        a = a->next;
    *out = a;
    if (a) return KILN_OK;
    if (!(a = host_of(e)->scratch(e->call->ctx, sizeof *a, KILN_CPU))) return KILN_ERR_NOMEM;
    *a = (denoise_area){.next = e->areas, .place = place, .height = shape->height, .width = shape->width};
    condition_area part = {place.y, place.x, shape->height, shape->width};
    for (int k = 0; k < DENOISE_SETS; k++) {
        TRY(conditions_crop(e->call, &e->set[k].given, &part, &a->set[k]));
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
} item;

typedef struct {
    evaluator *e;
    evaluation *v;
    denoise_area *area;
    double sigma;
    item items[ITEMS_MAX];
    size_t n;
} pass;

static int covers(const pass *p, const condition *c) { return c->h == p->area->height && c->w == p->area->width; }

static kiln_status collect(pass *p, int set)
{
    const conditions *from = &p->area->set[set];
    size_t first = p->n;
    for (size_t i = 0; i < from->n; i++) {
        const condition *c = &from->entry[i];
        if (p->sigma > c->sigma_start || p->sigma < c->sigma_end) continue;
        if (p->n == ITEMS_MAX)
            return host_of(p->e)->fail(p->e->call->ctx, KILN_ERR_INVALID, "more than %d conditionings at once",
                                       ITEMS_MAX);
        p->items[p->n++] = (item){.entry = c, .set = set};
    }
    if (p->n == first + 1) p->items[first].alone = covers(p, p->items[first].entry) && !p->items[first].entry->weight;
    return KILN_OK;
}

/* One batch can hold both: the same model, and parts of one size. */
static int go_together(const pass *p, const item *a, const item *b)
{
    return p->e->set[a->set].model == p->e->set[b->set].model && a->entry->h == b->entry->h &&
           a->entry->w == b->entry->w && a->entry->length == b->entry->length;
}

static kiln_area area_of(const pass *p, const condition *c)
{
    const kiln_latent_shape *s = &p->v->x.shape;
    return (kiln_area){s->pictures, s->height, s->width, s->channels, c->y, c->x, c->h, c->w};
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

static void copy_tokens(const pass *p, const condition *c, float *out)
{
    size_t n = (size_t)(c->length * c->width);
    if (kit_estimating(p->e->call)) return;
    for (int64_t b = 0; b < p->v->x.shape.pictures; b++)
        memcpy(out + (size_t)b * n, c->tokens + (size_t)(b % c->batch) * n, n * sizeof *out);
}

/* x0 under the conditioning from what the network said, into the set's guess or its sum. */
static kiln_status take_prediction(pass *p, const item *i, const float *prediction, size_t n, level_scaling scale)
{
    const evaluator *e = p->e;
    evaluation *v = p->v;
    const float *x;
    TRY(part_of_x(p, i->entry, &x));
    float *x0 = i->alone ? v->guess[i->set].data : reserve(e, &v->x0, n, e->space->device);
    if (!x0) return KILN_ERR_NOMEM;
    TRY(e->space->ops->combine(e->call->ctx, x0, n, 2, (double[]){scale.of_x, scale.of_prediction},
                               (const float *[]){x, prediction}));
    if (i->alone) return KILN_OK;
    kiln_area a = area_of(p, i->entry);
    kiln_part part = {.data = x0, .weight = i->entry->weight, .weights = i->entry->weights};
    return e->space->ops->accumulate(e->call->ctx, &a, &part, v->guess[i->set].data, v->total[i->set].data);
}

/* The network's inputs for all items that go with `first`: *x and the others have `batch.pictures` of them. */
static kiln_status gather(pass *p, const item *first, level_scaling scale, const network_batch *b, network_data *d)
{
    const evaluator *e = p->e;
    size_t picture = (size_t)(b->h * b->w * b->channels), tokens = (size_t)(b->length * b->width),
           count = (size_t)b->pictures, batch = (size_t)p->v->x.shape.pictures, at = 0;
    d->device = e->space->device;
    d->x = reserve(e, &p->v->in, count * picture, d->device);
    d->prediction = reserve(e, &p->v->out, count * picture, d->device);
    d->tokens = reserve(e, &p->v->host, count * (tokens + 1), KILN_CPU);
    if (!d->x || !d->prediction || !d->tokens) return KILN_ERR_NOMEM;
    d->timestep = d->tokens + count * tokens;
    for (const item *i = first; i < p->items + p->n; i++) {
        const float *x;
        if (i->done || !go_together(p, first, i)) continue;
        TRY(part_of_x(p, i->entry, &x));
        TRY(e->space->ops->combine(e->call->ctx, d->x + at * picture, batch * picture, 1, &scale.input, &x));
        copy_tokens(p, i->entry, d->tokens + at * tokens);
        at += batch;
    }
    for (size_t i = 0; i < count; i++)
        d->timestep[i] = (float)model_sampling_timestep(&e->set[first->set].counted, p->sigma);
    return KILN_OK;
}

/* Evaluates all items not yet done that go with `first` in one batch. */
static kiln_status evaluate_group(pass *p, item *first)
{
    const denoise_set *set = &p->e->set[first->set];
    const condition *c = first->entry;
    level_scaling scale = model_sampling_scaling(&set->counted, p->sigma);
    network_batch b = {
        .h = c->h, .w = c->w, .channels = p->v->x.shape.channels, .length = c->length, .width = c->width};
    network_data d = {0};
    for (const item *i = first; i < p->items + p->n; i++)
        if (!i->done && go_together(p, first, i)) b.pictures += p->v->x.shape.pictures;
    size_t n = (size_t)(p->v->x.shape.pictures * b.h * b.w * b.channels), at = 0;
    TRY(gather(p, first, scale, &b, &d));
    TRY(network_run(p->e->call, set->model, &b, &d));
    for (item *i = first; i < p->items + p->n; i++) {
        if (i->done || !go_together(p, first, i)) continue;
        TRY(take_prediction(p, i, d.prediction + at, n, scale));
        i->done = 1;
        at += n;
    }
    return KILN_OK;
}

/* Memory for a set's guess; a sum begins at 0. */
static kiln_status prepare_set(pass *p, int set, int sums)
{
    const evaluator *e = p->e;
    evaluation *v = p->v;
    kiln_latent_shape cells = v->x.shape;
    cells.channels = 1;
    v->guess[set] = (kiln_latent){.space = e->space, .shape = v->x.shape};
    v->guess[set].data = reserve(e, &v->guess_memory[set], latent_count(&v->x), e->space->device);
    if (!v->guess[set].data) return KILN_ERR_NOMEM;
    if (!sums) return KILN_OK;
    if (!reserve(e, &v->total[set], latent_shape_count(&cells), e->space->device)) return KILN_ERR_NOMEM;
    TRY(latent_combine(e->space, &v->guess[set], 0, NULL, NULL));
    return e->space->ops->combine(e->call->ctx, v->total[set].data, latent_shape_count(&cells), 0, NULL, NULL);
}

/* The guesses of the wanted sets (bits) at v->x. */
static kiln_status evaluate_sets(evaluator *e, denoise_area *area, uint32_t wanted, double sigma)
{
    pass p = {.e = e, .v = e->last, .area = area, .sigma = sigma};
    uint32_t sums = 0;
    for (int k = 0; k < DENOISE_SETS; k++) {
        size_t first = p.n;
        if (!(wanted & 1u << k)) continue;
        TRY(collect(&p, k));
        if (p.n == first || !p.items[first].alone) sums |= 1u << k;
        TRY(prepare_set(&p, k, (sums >> k) & 1));
    }
    for (size_t i = 0; i < p.n; i++)
        if (!p.items[i].done) TRY(evaluate_group(&p, &p.items[i]));
    const kiln_latent_shape *s = &p.v->x.shape;
    for (int k = 0; k < DENOISE_SETS; k++)
        if (sums & 1u << k)
            TRY(e->space->ops->divide(e->call->ctx, p.v->guess[k].data, p.v->total[k].data,
                                      (size_t)(s->pictures * s->height * s->width), (size_t)s->channels));
    return KILN_OK;
}

static kiln_status check_finite(const evaluator *e, const kiln_latent *x0, double sigma)
{
    int finite = 1;
    TRY(latent_is_finite(e->space, x0, &finite));
    if (finite) return KILN_OK;
    return host_of(e)->fail(e->call->ctx, KILN_ERR_INVALID,
                            "the model gave a number that is not finite at noise level %g; try --precision f32, "
                            "a lower cfg, or another sampler",
                            sigma);
}

/* ---- guidance that hangs on the model ---- */

static kiln_latent *guess(evaluation *v, int set) { return v->evaluated & 1u << set ? &v->guess[set] : NULL; }

/* Guidance k of the first model on `given`. */
static kiln_status apply(const evaluator *e, size_t k, const kiln_guesses *given)
{
    const kiln_guidance *by = e->model[0]->guidance[k];
    kiln_guesses now = *given;
    int set = KILN_GUIDER_SETS;
    for (size_t i = 0; i < k; i++) set += e->model[0]->guidance[i]->conditioning != NULL;
    now.extra = by->conditioning ? guess(e->last, set) : NULL;
    return by->apply(by->self, &now);
}

static kiln_guesses guesses_of(const kiln_guider_step *g, kiln_latent *positive, kiln_latent *negative, double cfg,
                               kiln_latent *out)
{
    return (kiln_guesses){.size = sizeof(kiln_guesses),
                          .prediction = g->prediction,
                          .latents = g->latents,
                          .sigma = g->sigma,
                          .cfg = cfg,
                          .x = g->x,
                          .positive = positive,
                          .negative = negative,
                          .x0 = out};
}

static kiln_status step_patch(const kiln_guider_step *g, kiln_latent *positive, kiln_latent *negative, double cfg,
                              kiln_latent *out)
{
    const evaluator *e = g->self;
    kiln_guesses given = guesses_of(g, positive, negative, cfg, out);
    for (size_t i = 0; i < e->model[0]->n_guidance; i++)
        if (!(e->model[0]->guidance[i]->flags & KILN_GUIDANCE_REPLACE)) TRY(apply(e, i, &given));
    return KILN_OK;
}

/* Classifier-free guidance: Ho and Salimans 2022. Of what stands for it on the model the last acts. */
static kiln_status step_guided(const kiln_guider_step *g, kiln_latent *positive, kiln_latent *negative, double cfg,
                               kiln_latent *out)
{
    const evaluator *e = g->self;
    size_t instead = e->model[0]->n_guidance;
    while (instead && !(e->model[0]->guidance[instead - 1]->flags & KILN_GUIDANCE_REPLACE)) instead--;
    if (!negative) {
        TRY(latent_copy(e->space, out, positive));
    } else if (instead) {
        kiln_guesses given = guesses_of(g, positive, negative, cfg, out);
        TRY(apply(e, instead - 1, &given));
    } else
        g->latents->add_difference(g->latents, out, negative, cfg, positive, negative);
    return step_patch(g, positive, negative, cfg, out);
}

static kiln_status combine(evaluator *e, kiln_latent *out)
{
    kiln_latent *guesses[KILN_GUIDER_SETS];
    kiln_guider_step step = {.size = sizeof step,
                             .prediction = e->counted.prediction,
                             .latents = &e->space->algebra,
                             .params = e->by.params,
                             .sigma = e->last->sigma,
                             .x = &e->last->x,
                             .guess = guesses,
                             .n_guess = e->by.row->n_set,
                             .self = e,
                             .guided = step_guided,
                             .patch = step_patch};
    for (uint32_t k = 0; k < e->by.row->n_set; k++) guesses[k] = guess(e->last, (int)k);
    TRY(e->by.row->combine(&step, out));
    return e->space->failed;
}

/* ---- the whole ---- */

static uint32_t known_sets(const evaluator *e) { return (1u << e->by.row->n_set) - 1; }

kiln_status evaluator_denoise(evaluator *e, const kiln_latent *x, kiln_latent_place place, double sigma,
                              kiln_latent *out)
{
    evaluation *v = e->last;
    denoise_area *area;
    uint32_t wanted = (e->by.row->wants(e->by.params, sigma) & known_sets(e)) | e->always;
    if (v->wants_unconditional && e->by.row->unconditional >= 0) wanted |= 1u << e->by.row->unconditional;
    assert(x->space == e->space && out->space == e->space);
    TRY(find_area(e, place, &x->shape, &area));
    v->x = (kiln_latent){.space = e->space, .shape = x->shape};
    if (!(v->x.data = reserve(e, &v->x_memory, latent_count(x), e->space->device))) return KILN_ERR_NOMEM;
    TRY(latent_copy(e->space, &v->x, x));
    v->by = e, v->area = area, v->sigma = sigma, v->evaluated = 0;
    TRY(evaluate_sets(e, area, wanted, sigma));
    v->evaluated = wanted;
    TRY(combine(e, out));
    return check_finite(e, out, sigma);
}

kiln_status evaluation_unconditional(evaluation *v, kiln_latent *out)
{
    evaluator *e = v->by;
    int32_t set = e->by.row->unconditional;
    if (set < 0)
        return host_of(e)->fail(
            e->call->ctx, KILN_ERR_INVALID,
            "this sampler asks for the unconditional guess, and a guider of the kind '%s' has none; use CFGGuider",
            e->by.row->name);
    if (!(v->evaluated & 1u << set)) TRY(evaluate_sets(e, v->area, 1u << set, v->sigma));
    v->evaluated |= 1u << set;
    v->wants_unconditional = 1;
    TRY(latent_copy(e->space, out, &v->guess[set]));
    return check_finite(e, out, v->sigma);
}
