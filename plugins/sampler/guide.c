/* guide.c - see guide.h. */
#include "guide.h"

#include "kit.h"
#include "schedules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ITEMS_MAX = 256, KEY_MAX = 4096 };

/* One conditioning to evaluate, and which of the two sums it goes into. */
typedef struct {
    const condition *entry;
    int negative, done;
} item;

kiln_status guide_init(guide *g)
{
    size_t n = (size_t)(g->batch * g->height * g->width * g->channels) * sizeof(float);
    const kiln_host *host = g->call->host;
    g->positive_out = host->scratch(g->call->ctx, n, KILN_CPU);
    g->negative_out = host->scratch(g->call->ctx, n, KILN_CPU);
    g->total = host->scratch(g->call->ctx, 2 * (size_t)(g->height * g->width) * sizeof(float), KILN_CPU);
    return g->positive_out && g->negative_out && g->total ? KILN_OK : KILN_ERR_NOMEM;
}

static int holds(const condition *e, double sigma) { return sigma <= e->sigma_start && sigma >= e->sigma_end; }

static int same_size(const condition *a, const condition *b)
{
    return a->h == b->h && a->w == b->w && a->length == b->length;
}

/* ---- the program ------------------------------------------------------------------------------------- */

static kiln_status program_key(const guide *g, int64_t n, const condition *e, char key[KEY_MAX])
{
    const kiln_weights_api *w = g->call->host->ability(KILN_WEIGHTS_ABILITY);
    const char *identity = w->identity(g->call->ctx, g->model->weights);
    if (!identity) return KILN_ERR_IO;
    int at = snprintf(key, KEY_MAX, "%s:%s:%lldx%lldx%lld:%lld", g->model->denoiser->family, identity, (long long)n,
                      (long long)e->h, (long long)e->w, (long long)e->length);
    for (size_t i = 0; i < g->model->n_hook && at < KEY_MAX; i++)
        at += snprintf(key + at, (size_t)(KEY_MAX - at), ":%s", g->model->hook[i]->identity);
    return at < KEY_MAX ? KILN_OK : g->call->host->fail(g->call->ctx, KILN_ERR_INVALID, "too many hooks on this model");
}

static kiln_status record(const guide *g, const kiln_ops *ops, kiln_program *p, int64_t n, const condition *e)
{
    kiln_denoise_inputs in = {.size = sizeof in, .hook = g->model->hook, .n_hook = g->model->n_hook};
    in.x = ops->input(p, "x", KILN_F32, 4, KILN_DIMS(n, e->h, e->w, g->channels));
    in.timestep = ops->input(p, "timestep", KILN_F32, 1, KILN_DIMS(n));
    in.context = ops->input(p, "context", KILN_F32, 3, KILN_DIMS(n, e->length, e->width));
    ops->output(p, "prediction", g->model->denoiser->record(g->model->denoiser, ops, p, g->model->weights, &in));
    return ops->plan(g->call->ctx, p, NULL);
}

static kiln_tensor window(float *data, uint32_t rank, const int64_t *dim)
{
    kiln_tensor t = {.size = sizeof t, .dtype = KILN_F32, .device = KILN_CPU, .rank = rank, .data = data};
    int64_t stride = sizeof(float);
    for (uint32_t i = rank; i-- > 0;) {
        t.dim[i] = dim[i];
        t.stride[i] = stride;
        stride *= dim[i];
    }
    return t;
}

static kiln_status evaluate(const guide *g, int64_t n, const condition *e, float *x, float *timestep, float *context,
                            float *out)
{
    const kiln_ops *ops = g->call->host->ability(KILN_OPS_ABILITY);
    char key[KEY_MAX];
    int fresh = 0;
    TRY(program_key(g, n, e, key));
    kiln_program *p = ops->program_keep(g->call->ctx, key,
                                        &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "denoiser"}, &fresh);
    if (!p) return KILN_ERR_NOMEM;
    kiln_status status = fresh ? record(g, ops, p, n, e) : KILN_OK;
    if (status == KILN_OK) {
        const int64_t picture[4] = {n, e->h, e->w, g->channels}, tokens[3] = {n, e->length, e->width};
        kiln_bind in[3] = {{"x", window(x, 4, picture)}, {"timestep", window(timestep, 1, &n)}, {"context", window(context, 3, tokens)}};
        kiln_bind result = {"prediction", window(out, 4, picture)};
        status = ops->run(g->call->ctx, p, in, 3, &result, 1);
    }
    ops->program_free(p);
    return status;
}

/* ---- scaling ------------------------------------------------------------------------------------------ */

/* Salimans and Ho 2022 in the variance-exploding parametrisation x = x0 + sigma e:
 * eps: x0 = x - sigma p; v: x0 = x/(s^2+1) - p s/sqrt(s^2+1); flow: x = (1-s) x0 + s e, x0 = x - s p. */
static void to_x0(const guide *g, double sigma, double *of_x, double *of_prediction)
{
    double s2 = sigma * sigma + 1;
    switch (g->model->sampling.prediction) {
    case KILN_PREDICT_V: *of_x = 1 / s2, *of_prediction = -sigma / sqrt(s2); break;
    case KILN_PREDICT_X0: *of_x = 0, *of_prediction = 1; break;
    default: *of_x = 1, *of_prediction = -sigma; break;
    }
}

static double input_scale(const guide *g, double sigma)
{
    return g->model->sampling.prediction == KILN_PREDICT_FLOW ? 1 : 1 / sqrt(sigma * sigma + 1);
}

static double timestep_of(const guide *g, double sigma)
{
    return sigma_to_t(g->model->sampling.sigma, g->model->sampling.n_sigma, sigma);
}

/* ---- gather, evaluate, scatter -------------------------------------------------------------------------- */

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

static void gather_tokens(const guide *g, const condition *e, float *dst)
{
    size_t n = (size_t)(e->length * e->width);
    for (int64_t b = 0; b < g->batch; b++) memcpy(dst + (size_t)b * n, e->tokens + (size_t)(b % e->batch) * n, n * sizeof *dst);
}

/* sum += weight * x0 over the entry's part, total += weight. */
static void scatter(const guide *g, const float *x, const float *prediction, double sigma, const item *it)
{
    const condition *e = it->entry;
    double of_x, of_prediction;
    to_x0(g, sigma, &of_x, &of_prediction);
    float *sum = it->negative ? g->negative_out : g->positive_out;
    float *total = g->total + (it->negative ? g->height * g->width : 0);
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t y = 0; y < e->h; y++)
            for (int64_t c = 0; c < e->w; c++) {
                int64_t cell = (e->y + y) * g->width + e->x + c;
                int64_t at = (b * g->height * g->width + cell) * g->channels;
                float weight = e->weight ? e->weight[y * e->w + c] : 1.0f;
                if (b == 0) total[cell] += weight;
                for (int64_t k = 0; k < g->channels; k++) {
                    double x0 = of_x * (double)x[at + k] + of_prediction * (double)*prediction++;
                    sum[at + k] += weight * (float)x0;
                }
            }
}

/* Evaluates all not yet done items of the first one's size in one batch. */
static kiln_status evaluate_group(guide *g, const float *x, double sigma, item *items, size_t n)
{
    const condition *first = items[0].entry;
    int64_t copies = 0;
    for (size_t i = 0; i < n; i++) copies += !items[i].done && same_size(first, items[i].entry);
    int64_t count = copies * g->batch;
    size_t picture = (size_t)(first->h * first->w * g->channels), tokens = (size_t)(first->length * first->width);
    size_t floats = (size_t)count * (2 * picture + tokens + 1);
    if (floats > g->work_room) { /* scratch lives as long as the call: taken once for the largest */
        g->work = g->call->host->scratch(g->call->ctx, floats * sizeof(float), KILN_CPU);
        if (!g->work) return KILN_ERR_NOMEM;
        g->work_room = floats;
    }
    float *x_in = g->work;
    float *out = x_in + (size_t)count * picture, *context = out + (size_t)count * picture;
    float *timestep = context + (size_t)count * tokens;
    memset(out, 0, (size_t)count * picture * sizeof *out);
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (items[i].done || !same_size(first, items[i].entry)) continue;
        gather(g, x, input_scale(g, sigma), items[i].entry, x_in + (size_t)(at * g->batch) * picture);
        gather_tokens(g, items[i].entry, context + (size_t)(at * g->batch) * tokens);
        at++;
    }
    for (int64_t i = 0; i < count; i++) timestep[i] = (float)timestep_of(g, sigma);
    TRY(evaluate(g, count, first, x_in, timestep, context, out));
    at = 0;
    for (size_t i = 0; i < n; i++) {
        if (items[i].done || !same_size(first, items[i].entry)) continue;
        scatter(g, x, out + (size_t)(at * g->batch) * picture, sigma, &items[i]);
        items[i].done = i > 0; /* the first marks itself below: the others compare with it */
        at++;
    }
    items[0].done = 1;
    return KILN_OK;
}

static kiln_status collect(const guide *g, const conditions *from, int negative, double sigma, item *items, size_t *n)
{
    for (size_t i = 0; i < from->n; i++) {
        if (!holds(&from->entry[i], sigma)) continue;
        if (*n == ITEMS_MAX)
            return g->call->host->fail(g->call->ctx, KILN_ERR_INVALID, "more than %d conditionings at once", ITEMS_MAX);
        items[(*n)++] = (item){.entry = &from->entry[i], .negative = negative};
    }
    return KILN_OK;
}

/* sum / total per cell; cells nobody spoke for stay 0. */
static void normalise(const guide *g, float *sum, const float *total)
{
    int64_t cells = g->height * g->width;
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < cells; i++) {
            if (total[i] == 1.0f || total[i] == 0.0f) continue;
            float *at = sum + (b * cells + i) * g->channels;
            for (int64_t k = 0; k < g->channels; k++) at[k] /= total[i];
        }
}

kiln_status guide_denoise(guide *g, const float *x, double sigma, float *out)
{
    size_t count = (size_t)(g->batch * g->height * g->width * g->channels), cells = (size_t)(g->height * g->width), n = 0;
    int unconditional = g->always_unconditional || fabs(g->cfg - 1) > 1e-9;
    item items[ITEMS_MAX];
    TRY(collect(g, &g->positive, 0, sigma, items, &n));
    if (unconditional) TRY(collect(g, &g->negative, 1, sigma, items, &n));
    memset(g->positive_out, 0, count * sizeof(float));
    memset(g->negative_out, 0, count * sizeof(float));
    memset(g->total, 0, 2 * cells * sizeof(float));
    for (size_t i = 0; i < n; i++)
        if (!items[i].done) TRY(evaluate_group(g, x, sigma, items + i, n - i));
    normalise(g, g->positive_out, g->total);
    normalise(g, g->negative_out, g->total + cells);
    for (size_t i = 0; i < count; i++) {
        double c = (double)g->positive_out[i], u = (double)g->negative_out[i];
        double x0 = unconditional ? u + (c - u) * g->cfg : c;
        if (!isfinite(x0))
            return g->call->host->fail(g->call->ctx, KILN_ERR_INVALID,
                                       "the model gave a number that is not finite at noise level %g; try --precision f32, "
                                       "or check the model file", sigma);
        out[i] = (float)x0;
    }
    return KILN_OK;
}
