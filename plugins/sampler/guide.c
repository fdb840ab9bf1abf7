/* guide.c - see guide.h. */
#include "guide.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ITEMS_MAX = 256, KEY_MAX = 4096 };

/* One conditioning to evaluate, and which of the sums it goes into. */
typedef struct {
    const condition *entry;
    int set, done;
} item;

/* ---- setting up ---- */

static kiln_status set_read(guide *g, int set, const kiln_value *conditioning, const char *name)
{
    guide_set *s = &g->set[set];
    size_t cells = (size_t)(g->batch * g->height * g->width), n = (size_t)g->channels * cells;
    const kiln_host *host = g->call->host;
    s->model = g->by->kind->on_other & (1u << set) && set < GUIDER_SETS ? g->other : g->model;
    s->counted = model_sampling_of(s->model);
    latent_size size = {g->batch, g->height, g->width};
    TRY(conditions_read(g->call, conditioning, name, &size, &s->counted, s->model->denoiser->context_dim, &s->given));
    s->guess = host->scratch(g->call->ctx, n * sizeof(float), KILN_CPU);
    s->total = host->scratch(g->call->ctx, cells * sizeof(float), KILN_CPU);
    return s->guess && s->total ? KILN_OK : KILN_ERR_NOMEM;
}

kiln_status guide_init(guide *g)
{
    const guider_kind *kind = g->by->kind;
    size_t n = (size_t)(g->batch * g->height * g->width * g->channels);
    int extra = GUIDER_SETS;
    conditions *own[GUIDER_SETS];
    size_t n_own = 0;
    for (int i = 0; i < GUIDER_SETS && kind->set[i]; i++) {
        TRY(set_read(g, i, g->by->conditioning[i], kind->set[i]));
        own[n_own++] = &g->set[i].given;
    }
    TRY(conditions_oppose(g->call, own, n_own, g->height, g->width));
    for (size_t i = 0; i < g->model->n_guidance; i++) {
        const kiln_guidance *by = g->model->guidance[i];
        if (kind->unconditional >= 0 && by->flags & KILN_GUIDANCE_UNCONDITIONAL) g->always |= 1u << kind->unconditional;
        if (!by->conditioning) continue;
        if (extra == GUIDE_SETS)
            return g->call->host->fail(g->call->ctx, KILN_ERR_INVALID, "more than %d conditionings hang on the model",
                                       GUIDE_EXTRA);
        TRY(set_read(g, extra, by->conditioning, "the model's own conditioning"));
        g->always |= 1u << extra++;
    }
    g->x = g->call->host->scratch(g->call->ctx, n * sizeof(float), KILN_CPU);
    return g->x ? KILN_OK : KILN_ERR_NOMEM;
}

static int holds(const condition *e, double sigma) { return sigma <= e->sigma_start && sigma >= e->sigma_end; }

static int same_size(const condition *a, const condition *b)
{
    return a->h == b->h && a->w == b->w && a->length == b->length;
}

/* ---- the program ---- */

static kiln_status program_key(const guide *g, const kiln_model *model, int64_t n, const condition *e,
                               char key[KEY_MAX])
{
    const kiln_weights_api *w = g->call->host->ability(KILN_WEIGHTS_ABILITY);
    const char *identity = w->identity(g->call->ctx, model->weights);
    if (!identity) return KILN_ERR_IO;
    int at = snprintf(key, KEY_MAX, "%s:%s:%lldx%lldx%lld:%lld", model->denoiser->family, identity, (long long)n,
                      (long long)e->h, (long long)e->w, (long long)e->length);
    for (size_t i = 0; i < model->n_hook && at < KEY_MAX; i++)
        at += snprintf(key + at, (size_t)(KEY_MAX - at), ":%s", model->hook[i]->identity);
    return at < KEY_MAX ? KILN_OK : g->call->host->fail(g->call->ctx, KILN_ERR_INVALID, "too many hooks on this model");
}

static kiln_status record(const guide *g, const kiln_model *model, const kiln_ops *ops, kiln_program *p, int64_t n,
                          const condition *e)
{
    kiln_denoise_inputs in = {.size = sizeof in, .hook = model->hook, .n_hook = model->n_hook};
    in.x = ops->input(p, "x", KILN_F32, 4, KILN_DIMS(n, e->h, e->w, g->channels));
    in.timestep = ops->input(p, "timestep", KILN_F32, 1, KILN_DIMS(n));
    in.context = ops->input(p, "context", KILN_F32, 3, KILN_DIMS(n, e->length, e->width));
    if (KILN_HAS(kiln_ops, ops, step_invariant)) ops->step_invariant(p, in.context);
    ops->output(p, "prediction", model->denoiser->record(model->denoiser, ops, p, model->weights, &in));
    return ops->plan(g->call->ctx, p, NULL);
}

static kiln_tensor window(uint32_t device, float *data, uint32_t rank, const int64_t *dim)
{
    kiln_tensor t = {.size = sizeof t, .dtype = KILN_F32, .device = device, .rank = rank, .data = data};
    int64_t stride = sizeof(float);
    for (uint32_t i = rank; i-- > 0;) {
        t.dim[i] = dim[i];
        t.stride[i] = stride;
        stride *= dim[i];
    }
    return t;
}

kiln_status guide_evaluate(const guide *g, const kiln_model *model, int64_t n, const condition *e, uint32_t device,
                           float *x, float *timestep, float *context, float *out)
{
    const kiln_ops *ops = g->call->host->ability(KILN_OPS_ABILITY);
    char key[KEY_MAX];
    int fresh = 0;
    TRY(program_key(g, model, n, e, key));
    kiln_program *p = ops->program_keep(
        g->call->ctx, key, &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "denoiser"}, &fresh);
    if (!p) return KILN_ERR_NOMEM;
    kiln_status status = fresh ? record(g, model, ops, p, n, e) : KILN_OK;
    if (status == KILN_OK) {
        const int64_t picture[4] = {n, e->h, e->w, g->channels}, tokens[3] = {n, e->length, e->width};
        kiln_bind in[3] = {{"x", window(device, x, 4, picture)},
                           {"timestep", window(KILN_CPU, timestep, 1, &n)},
                           {"context", window(KILN_CPU, context, 3, tokens)}};
        kiln_bind result = {"prediction", window(device, out, 4, picture)};
        status = ops->run(g->call->ctx, p, in, 3, &result, 1);
    }
    ops->program_free(p);
    return status;
}

/* ---- gather, evaluate, scatter ---- */

/* The entry's part of x, scaled, one copy a batch item. */
static void gather(const guide *g, const float *x, double scale, const condition *e, float *dst)
{
    int64_t row = e->w * g->channels;
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t y = 0; y < e->h; y++) {
            const float *src = x + ((b * g->height + e->y + y) * g->width + e->x) * g->channels;
            for (int64_t i = 0; i < row; i++) *dst++ = (float)((double)src[i] * scale);
        }
}

void guide_gather_tokens(const guide *g, const condition *e, float *dst)
{
    size_t n = (size_t)(e->length * e->width);
    for (int64_t b = 0; b < g->batch; b++)
        memcpy(dst + (size_t)b * n, e->tokens + (size_t)(b % e->batch) * n, n * sizeof *dst);
}

/* sum += weight * x0 over the entry's part, total += weight. */
static void scatter(const guide *g, const float *x, const float *prediction, level_scaling scale, const item *it)
{
    const condition *e = it->entry;
    float *sum = g->set[it->set].guess, *total = g->set[it->set].total;
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t y = 0; y < e->h; y++)
            for (int64_t c = 0; c < e->w; c++) {
                int64_t cell = (b * g->height + e->y + y) * g->width + e->x + c, at = cell * g->channels;
                float weight = e->weight ? e->weight[(b % e->weights * e->h + y) * e->w + c] : 1.0f;
                total[cell] += weight;
                for (int64_t k = 0; k < g->channels; k++) {
                    double x0 = scale.of_x * (double)x[at + k] + scale.of_prediction * (double)*prediction++;
                    sum[at + k] += weight * (float)x0;
                }
            }
}

/* One batch can hold both: the same model, and parts of one size. */
static int go_together(const guide *g, const item *a, const item *b)
{
    return g->set[a->set].model == g->set[b->set].model && same_size(a->entry, b->entry);
}

/* Evaluates all not yet done items that go with the first in one batch. */
static kiln_status evaluate_group(guide *g, const float *x, double sigma, item *items, size_t n)
{
    const condition *first = items[0].entry;
    int64_t copies = 0;
    for (size_t i = 0; i < n; i++) copies += !items[i].done && go_together(g, items, items + i);
    int64_t count = copies * g->batch;
    size_t picture = (size_t)(first->h * first->w * g->channels), tokens = (size_t)(first->length * first->width);
    size_t floats = (size_t)count * (2 * picture + tokens + 1);
    const guide_set *set = &g->set[items[0].set];
    level_scaling scale = model_sampling_scaling(&set->counted, sigma);
    if (floats > g->work_capacity) { /* scratch lives as long as the call: taken once for the largest */
        g->work = g->call->host->scratch(g->call->ctx, floats * sizeof(float), KILN_CPU);
        if (!g->work) return KILN_ERR_NOMEM;
        g->work_capacity = floats;
    }
    float *x_in = g->work;
    float *out = x_in + (size_t)count * picture, *context = out + (size_t)count * picture;
    float *timestep = context + (size_t)count * tokens;
    memset(out, 0, (size_t)count * picture * sizeof *out);
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (items[i].done || !go_together(g, items, items + i)) continue;
        gather(g, x, scale.input, items[i].entry, x_in + (size_t)(at * g->batch) * picture);
        guide_gather_tokens(g, items[i].entry, context + (size_t)(at * g->batch) * tokens);
        at++;
    }
    for (int64_t i = 0; i < count; i++) timestep[i] = (float)model_sampling_timestep(&set->counted, sigma);
    TRY(guide_evaluate(g, set->model, count, first, KILN_CPU, x_in, timestep, context, out));
    at = 0;
    for (size_t i = 0; i < n; i++) {
        if (items[i].done || !go_together(g, items, items + i)) continue;
        scatter(g, x, out + (size_t)(at * g->batch) * picture, scale, &items[i]);
        items[i].done = i > 0; /* the first marks itself below: the others compare with it */
        at++;
    }
    items[0].done = 1;
    return KILN_OK;
}

static kiln_status collect(const guide *g, int set, double sigma, item *items, size_t *n)
{
    const conditions *from = &g->set[set].given;
    for (size_t i = 0; i < from->n; i++) {
        if (!holds(&from->entry[i], sigma)) continue;
        if (*n == ITEMS_MAX)
            return g->call->host->fail(g->call->ctx, KILN_ERR_INVALID, "more than %d conditionings at once", ITEMS_MAX);
        items[(*n)++] = (item){.entry = &from->entry[i], .set = set};
    }
    return KILN_OK;
}

/* sum / total per cell; cells nobody spoke for stay 0. */
static void normalise(const guide *g, float *sum, const float *total)
{
    int64_t cells = g->batch * g->height * g->width;
    for (int64_t i = 0; i < cells; i++) {
        if (total[i] == 1.0f || total[i] == 0.0f) continue;
        for (int64_t k = 0; k < g->channels; k++) sum[i * g->channels + k] /= total[i];
    }
}

/* The guesses of the wanted sets (bits) at g->x. */
static kiln_status evaluate_sets(guide *g, uint32_t wanted, double sigma)
{
    size_t cells = (size_t)(g->batch * g->height * g->width), count = (size_t)g->channels * cells, n = 0;
    item items[ITEMS_MAX];
    for (int k = 0; k < GUIDE_SETS; k++) {
        if (!(wanted & 1u << k)) continue;
        TRY(collect(g, k, sigma, items, &n));
        memset(g->set[k].guess, 0, count * sizeof(float));
        memset(g->set[k].total, 0, cells * sizeof(float));
    }
    for (size_t i = 0; i < n; i++)
        if (!items[i].done) TRY(evaluate_group(g, g->x, sigma, items + i, n - i));
    for (int k = 0; k < GUIDE_SETS; k++)
        if (wanted & 1u << k) normalise(g, g->set[k].guess, g->set[k].total);
    return KILN_OK;
}

kiln_status guide_not_finite(const guide *g, double sigma)
{
    return g->call->host->fail(g->call->ctx, KILN_ERR_INVALID,
                               "the model gave a number that is not finite at noise level %g; try --precision f32, "
                               "or check the model file",
                               sigma);
}

static kiln_status check_finite(const guide *g, const float *x0, double sigma)
{
    size_t count = (size_t)(g->batch * g->height * g->width * g->channels);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x0[i])) return guide_not_finite(g, sigma);
    return KILN_OK;
}

kiln_status guide_denoise(guide *g, const float *x, double sigma, float *out)
{
    uint32_t wanted = g->by->kind->wants(g->by) | g->always;
    memcpy(g->x, x, (size_t)(g->batch * g->height * g->width * g->channels) * sizeof *x);
    TRY(evaluate_sets(g, wanted, sigma));
    g->evaluated = wanted;
    g->sigma = sigma;
    g->lies_there = 0;
    TRY(g->by->kind->combine(g, g->x, sigma, out));
    return check_finite(g, out, sigma);
}

kiln_status guide_unconditional(guide *g, float *out)
{
    int set = g->by->kind->unconditional;
    if (set < 0)
        return g->call->host->fail(
            g->call->ctx, KILN_ERR_INVALID,
            "this sampler asks for the unconditional guess, and %s has no negative conditioning; use CFGGuider",
            g->by->kind->node);
    uint32_t bit = 1u << set;
    if (!(g->evaluated & bit)) TRY(evaluate_sets(g, bit, g->sigma));
    g->evaluated |= bit;
    g->always |= bit;
    memcpy(out, g->set[set].guess, (size_t)(g->batch * g->height * g->width * g->channels) * sizeof *out);
    return check_finite(g, out, g->sigma);
}
