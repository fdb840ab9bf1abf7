/* latent_operation.c - operations on latents as values: LatentOperationTonemapReinhard, LatentOperationSharpen, and
 * what does them: LatentApplyOperation, LatentApplyOperationCFG. Names, defaults and formulas are ComfyUI's; a cell's
 * length is that of its channels' vector.
 *
 * A LATENT_OPERATION is a map { kind, ... }.
 */
#include "kiln/kit.h"
#include "kiln/model.h"
#include "latent.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RADIUS_MAX = 31 };
static const kiln_port operation_out[] = {
    {.name = "LATENT_OPERATION", .type = "LATENT_OPERATION", .doc = "What is done."}};

static kiln_status set_number(const kiln_call *c, const char *key, double value)
{
    return kit_set(c, c->out[0], key, kit_values(c)->new_float(c->ctx, value));
}
static kiln_status begin(const kiln_call *c, const char *kind)
{
    const kiln_value_api *v = kit_values(c);
    c->out[0] = v->new_map(c->ctx);
    return c->out[0] ? kit_set(c, c->out[0], "kind", v->new_string(c->ctx, kind, strlen(kind))) : KILN_ERR_NOMEM;
}

typedef struct {
    double multiplier;
} tonemap_params;
static const kiln_param tonemap_param[] = {
    KIT_FLOAT(tonemap_params, multiplier, 1, 0, 100, 0.01, "Of the length that counts as bright.")};
static kiln_status tonemap_run(const kiln_call *c)
{
    TRY(begin(c, "tonemap_reinhard"));
    return set_number(c, "multiplier", ((const tonemap_params *)c->params)->multiplier);
}
const kiln_node node_latent_tonemap = {
    KIT_NODE("LatentOperationTonemapReinhard", "Latent Operation Tonemap Reinhard", "latent",
             "Long cells become shorter: against colours that burn out."),
    KILN_ARRAY(out, operation_out),
    KIT_PARAMS(tonemap_params, tonemap_param),
    .run = tonemap_run,
};

typedef struct {
    int64_t sharpen_radius;
    double sigma, alpha;
} sharpen_params;
static const kiln_param sharpen_param[] = {
    KIT_INT(sharpen_params, sharpen_radius, 9, 1, RADIUS_MAX, "Cells on each side that count."),
    KIT_FLOAT(sharpen_params, sigma, 1, 0.1, 10, 0.1, "Of the Gauss curve, in radii."),
    KIT_FLOAT(sharpen_params, alpha, 0.1, 0, 5, 0.01, "How much; 0 changes nothing."),
};
static kiln_status sharpen_run(const kiln_call *c)
{
    const sharpen_params *p = c->params;
    TRY(begin(c, "sharpen"));
    TRY(set_number(c, "radius", (double)p->sharpen_radius));
    TRY(set_number(c, "sigma", p->sigma));
    return set_number(c, "alpha", p->alpha);
}
const kiln_node node_latent_sharpen = {
    KIT_NODE("LatentOperationSharpen", "Latent Operation Sharpen", "latent", "Sharpens the directions of cells."),
    KILN_ARRAY(out, operation_out),
    KIT_PARAMS(sharpen_params, sharpen_param),
    .run = sharpen_run,
};

/* ---- applying ---- */

static double length(const float *cell, int64_t channels)
{
    double sum = 0;
    for (int64_t k = 0; k < channels; k++) sum += (double)cell[k] * (double)cell[k];
    return sqrt(sum);
}

/* Reinhard's x / (1 + x) of the lengths, which are measured by mean + 5 deviations of their picture. */
static void tonemap(const float *from, float *to, int64_t cells, int64_t channels, double multiplier)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < cells; i++) sum += length(from + i * channels, channels) + 1e-10;
    double mean = sum / (double)cells;
    for (int64_t i = 0; i < cells; i++) square += pow(length(from + i * channels, channels) + 1e-10 - mean, 2);
    double top = (sqrt(square / (double)(cells - 1)) * 5 + mean) * multiplier;
    for (int64_t i = 0; i < cells * channels; i++) {
        double long_is = length(from + i / channels * channels, channels) + 1e-10, part = long_is / top;
        to[i] = (float)((double)from[i] / long_is * (part / (part + 1) * top));
    }
}

typedef struct {
    int64_t radius;
    double weight[2 * RADIUS_MAX + 1], much;
} blur;

/* An operation as its value says. */
typedef struct {
    int sharpens; /* or it is a tonemap */
    double multiplier;
    blur blur;
} operation;

static int64_t reflected(int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

/* x + 10 alpha (x - blurred x) of the directions, times the lengths. */
static void sharpen(const kit_planes *p, const blur *b, const float *from, float *to, double *unit, double *rows)
{
    int64_t C = p->channels, h = p->rows, w = p->columns;
    for (int64_t i = 0; i < h * w * C; i++) unit[i] = (double)from[i] / (length(from + i / C * C, C) + 1e-6);
    for (int64_t i = 0; i < h * w * C; i++) {
        int64_t y = i / C / w, x = i / C % w;
        rows[i] = 0;
        for (int64_t r = -b->radius; r <= b->radius; r++)
            rows[i] += b->weight[r + b->radius] * unit[(y * w + reflected(x + r, w)) * C + i % C];
    }
    for (int64_t i = 0; i < h * w * C; i++) {
        int64_t y = i / C / w, x = i / C % w;
        double blurred = 0;
        for (int64_t r = -b->radius; r <= b->radius; r++)
            blurred += b->weight[r + b->radius] * rows[(reflected(y + r, h) * w + x) * C + i % C];
        to[i] = (float)((length(from + i / C * C, C) + 1e-6) * (unit[i] + b->much * (unit[i] - blurred)));
    }
}

static kiln_status number(const kiln_call *c, const char *key, double *out)
{
    const kiln_value_api *v = kit_values(c);
    if (v->get_float(v->map_get(c->in[1], key), out) == KILN_OK) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "the operation lacks a number '%s'", key);
}

static kiln_status read_blur(const kiln_call *c, blur *b)
{
    double radius, sigma, sum = 0;
    TRY(number(c, "radius", &radius));
    TRY(number(c, "sigma", &sigma));
    TRY(number(c, "alpha", &b->much));
    b->radius = radius >= 1 && radius <= RADIUS_MAX ? (int64_t)radius : 1, b->much *= 10;
    for (int64_t i = -b->radius; i <= b->radius; i++)
        sum += b->weight[i + b->radius] = exp(-pow((double)i / radius / sigma, 2) / 2);
    for (int64_t i = 0; i <= 2 * b->radius; i++) b->weight[i] /= sum;
    return KILN_OK;
}

/* Input 1 of the call. */
static kiln_status read_operation(const kiln_call *c, operation *out)
{
    const char *kind = kit_values(c)->get_string(kit_values(c)->map_get(c->in[1], "kind"), NULL);
    memset(out, 0, sizeof *out);
    out->sharpens = kind && strcmp(kind, "sharpen") == 0;
    if (out->sharpens) return read_blur(c, &out->blur);
    if (kind && strcmp(kind, "tonemap_reinhard") == 0) return number(c, "multiplier", &out->multiplier);
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "operation: there is no operation '%.60s'", kind ? kind : "");
}

#define SMALL                                                                                                          \
    "sharpen_radius is %lld and the latent has %lldx%lld cells; take a radius below both", (long long)o->blur.radius,  \
        (long long)p->columns, (long long)p->rows

static int fits(const operation *o, const kit_planes *p)
{
    return !o->sharpens || (o->blur.radius < p->rows && o->blur.radius < p->columns);
}

/* Number i of the latent's planes. `work` has room for two planes of doubles where it sharpens. */
static void operate(const operation *o, const kit_planes *p, int64_t i, const float *from, float *to, double *work)
{
    size_t n = (size_t)(p->rows * p->columns * p->channels);
    if (o->sharpens) sharpen(p, &o->blur, from + (size_t)i * n, to + (size_t)i * n, work, work + n);
}

static kiln_status apply_sharpen(const kiln_call *c, const operation *o, const kit_planes *p, const float *from,
                                 float *to)
{
    size_t n = (size_t)(p->rows * p->columns * p->channels);
    if (!fits(o, p)) return c->host->fail(c->ctx, KILN_ERR_INVALID, SMALL);
    double *work = c->host->scratch(c->ctx, 2 * n * sizeof *work, KILN_CPU);
    if (!work) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < p->planes; i++) {
        TRY(c->host->progress(c->ctx, (uint64_t)i, (uint64_t)p->planes, "sharpening"));
        operate(o, p, i, from, to, work);
    }
    return KILN_OK;
}

/* Each picture by its own lengths, of all its frames. */
static void apply_tonemap(const operation *o, int64_t pictures, int64_t cells, int64_t channels, const float *from,
                          float *to)
{
    for (int64_t i = 0; i < pictures; i++)
        tonemap(from + i * cells * channels, to + i * cells * channels, cells, channels, o->multiplier);
}

static const kiln_port apply_in[] = {
    {.name = "samples", .type = "LATENT", .doc = "What to change."},
    {.name = "operation", .type = "LATENT_OPERATION", .doc = "What is done."},
};
static const kiln_port apply_out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The new latent."}};

static kiln_status apply_run(const kiln_call *c)
{
    operation o;
    kiln_tensor a, r;
    kiln_value *samples;
    TRY(kit_samples(c, c->in[0], &a));
    kit_planes p = kit_planes_of(&a);
    TRY(kit_new_f32(c, a.rank, a.dim, &samples, &r));
    TRY(kit_latent(c, c->in[0], samples, &c->out[0]));
    if (kit_estimating(c)) return KILN_OK;
    TRY(read_operation(c, &o));
    if (o.sharpens) return apply_sharpen(c, &o, &p, a.data, r.data);
    int64_t channels = a.dim[a.rank - 1];
    if (kit_count(&a) == 0) return KILN_OK;
    apply_tonemap(&o, a.dim[0], (int64_t)kit_count(&a) / (a.dim[0] * channels), channels, a.data, r.data);
    return KILN_OK;
}
const kiln_node node_latent_apply = {
    KIT_NODE("LatentApplyOperation", "Latent Apply Operation", "latent", "Does an operation with a latent."),
    KILN_ARRAY(in, apply_in),
    KILN_ARRAY(out, apply_out),
    .run = apply_run,
};

/* ---- in guidance ---- */

/* What the new MODEL owns. `before` acts on the difference of the guesses, `after` on the one guess where there is no
 * other. */
typedef struct {
    operation what;
    kiln_guidance before, after;
    const kiln_guidance **all;
    char identity[1024];
} guided;

static void release_guided(void *owned)
{
    guided *self = owned;
    if (!self) return;
    free(self->all);
    free(self);
}

/* x = the operation of it. */
static kiln_status change_guess(const operation *o, const kiln_guesses *g, float *x, float *to, double *work)
{
    kiln_latent_shape d = g->latents->shape(g->latents, g->x);
    kit_planes all = {.planes = d.pictures * d.frames, .rows = d.height, .columns = d.width, .channels = d.channels};
    const kit_planes *p = &all;
    if (!fits(o, p)) return g->fail(g, KILN_ERR_INVALID, SMALL);
    if (o->sharpens)
        for (int64_t i = 0; i < p->planes; i++) operate(o, p, i, x, to, work);
    else
        apply_tonemap(o, d.pictures, d.frames * d.height * d.width, d.channels, x, to);
    return KILN_OK;
}

/* base + the operation of (guess - base) into `guess`; base NULL: 0. */
static kiln_status change(const operation *o, const kiln_guesses *g, kiln_latent *guess, kiln_latent *base)
{
    const kiln_latents *l = g->latents;
    kiln_latent_shape d = l->shape(l, g->x);
    size_t plane = (size_t)(d.height * d.width * d.channels), n = (size_t)(d.pictures * d.frames) * plane;
    if (l->count(l, g->x) != n)
        return g->fail(g, KILN_ERR_UNSUPPORTED,
                       "LatentApplyOperationCFG knows no latents of several streams (video and audio)");
    float *x = calloc(3 * n, sizeof *x), *from = x + n, *to = x + 2 * n;
    double *work = malloc((o->sharpens ? 2 * plane : 1) * sizeof *work);
    kiln_status status = x && work ? KILN_OK : KILN_ERR_NOMEM;
    if (status == KILN_OK) {
        l->download(l, guess, x);
        if (base) l->download(l, base, from);
        for (size_t i = 0; i < n; i++) x[i] -= from[i];
        status = change_guess(o, g, x, to, work);
    }
    if (status == KILN_OK) {
        for (size_t i = 0; i < n; i++) to[i] += from[i];
        l->upload(l, guess, to);
    }
    free(work);
    free(x);
    return status;
}

static kiln_status apply_before(void *self, const kiln_guesses *g)
{
    return change(&((const guided *)self)->what, g, g->positive, g->negative);
}

static kiln_status apply_after(void *self, const kiln_guesses *g)
{
    return g->negative ? KILN_OK : change(&((const guided *)self)->what, g, g->x0, NULL);
}

static void name_guided(guided *self)
{
    const operation *o = &self->what;
    int at = snprintf(self->identity, sizeof self->identity, "LatentApplyOperationCFG/%d/%.17g/%.17g/%lld", o->sharpens,
                      o->multiplier, o->blur.much, (long long)o->blur.radius);
    snprintf(self->identity + at, sizeof self->identity - (size_t)at, "/%.17g", o->blur.weight[0]);
    self->before = (kiln_guidance){.size = sizeof self->before,
                                   .flags = KILN_GUIDANCE_BEFORE,
                                   .self = self,
                                   .identity = self->identity,
                                   .apply = apply_before};
    self->after = self->before;
    self->after.flags = 0, self->after.apply = apply_after;
}

static const kiln_port guided_in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "operation", .type = "LATENT_OPERATION", .doc = "What is done with its guidance."},
};
static const kiln_port guided_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with the operation."}};

static kiln_status guided_run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    operation o;
    if (!model) return KILN_ERR_INVALID;
    TRY(read_operation(c, &o));
    guided *self = calloc(1, sizeof *self);
    if (!self || !(self->all = calloc(model->n_guidance + 2, sizeof *self->all))) {
        release_guided(self);
        return KILN_ERR_NOMEM;
    }
    self->what = o;
    name_guided(self);
    for (size_t i = 0; i < model->n_guidance; i++) self->all[i] = model->guidance[i];
    self->all[model->n_guidance] = &self->before, self->all[model->n_guidance + 1] = &self->after;
    kiln_model m = *model;
    m.guidance = self->all, m.n_guidance = model->n_guidance + 2;
    m.owned = self, m.release = release_guided, m.base = c->in[0];
    if ((c->out[0] = models->model_new(c->ctx, &m))) return KILN_OK;
    release_guided(self);
    return KILN_ERR_NOMEM;
}
const kiln_node node_latent_apply_cfg = {
    KIT_NODE("LatentApplyOperationCFG", "Latent Apply Operation CFG", "latent",
             "Does an operation with what guidance adds at each step; with the guess itself at cfg 1."),
    KILN_ARRAY(in, guided_in),
    KILN_ARRAY(out, guided_out),
    .run = guided_run,
};
