/* sampling_rig.c - see sampling_rig.h. */
#include "sampling_rig.h"

#include "samplers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rig *rig_of(const kiln_sampling *s) { return s->self; }
static double *zeros(size_t n) { return calloc(n, sizeof(double)); }

static kiln_status rig_denoise(const kiln_sampling *s, const kiln_latent *x, double sigma, kiln_latent *out)
{
    rig *r = rig_of(s);
    double *d = zeros(r->count);
    r->evaluations++;
    if (r->seen) r->seen(r, x->v, sigma);
    r->guess(r, x->v, sigma, d, r->unconditional);
    for (size_t i = 0; i < r->count; i++) out->v[i] = r->single ? (double)(float)d[i] : d[i];
    free(d);
    return KILN_OK;
}

static kiln_status rig_unconditional(const kiln_sampling *s, kiln_latent *out)
{
    rig *r = rig_of(s);
    for (size_t i = 0; i < r->count; i++)
        out->v[i] = r->single ? (double)(float)r->unconditional[i] : r->unconditional[i];
    return KILN_OK;
}

static void rig_lincomb(const kiln_sampling *s, kiln_latent *out, size_t n, const double *a, kiln_latent *const *x)
{
    rig *r = rig_of(s);
    for (size_t i = 0; i < r->count; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++) sum += a[k] * x[k]->v[i];
        out->v[i] = r->single ? (double)(float)sum : sum;
    }
}

static double rig_norm(const kiln_sampling *s, const kiln_latent *x)
{
    rig *r = rig_of(s);
    double sum = 0;
    for (size_t i = 0; i < r->count; i++) sum += x->v[i] * x->v[i];
    return sqrt(sum / (double)r->count);
}

static kiln_status rig_noise(const kiln_sampling *s, double from, double to, kiln_latent *out)
{
    rig *r = rig_of(s);
    r->draw(r, from, to, out->v);
    r->draws++;
    return KILN_OK;
}

static kiln_latent *rig_slot_of(const kiln_sampling *s, const char *name)
{
    rig *r = rig_of(s);
    for (size_t i = 0; i < r->n_slot; i++)
        if (strcmp(r->slot[i].name, name) == 0) return &r->slot[i].latent;
    if (r->n_slot == 64 || strlen(name) > 31) return NULL;
    strcpy(r->slot[r->n_slot].name, name);
    r->slot[r->n_slot].latent.v = zeros(r->count);
    return &r->slot[r->n_slot++].latent;
}

static double *rig_scalars(const kiln_sampling *s, const char *name, size_t n)
{
    rig *r = rig_of(s);
    for (size_t i = 0; i < r->n_number; i++)
        if (strcmp(r->number[i].name, name) == 0) return r->number[i].v;
    if (r->n_number == 8 || n > 32 || strlen(name) > 31) return NULL;
    strcpy(r->number[r->n_number].name, name);
    return r->number[r->n_number++].v;
}

static kiln_status rig_step(const kiln_sampling *s, size_t i, const kiln_latent *denoised)
{
    rig *r = rig_of(s);
    (void)denoised;
    r->steps++;
    if (r->stepped) r->stepped(r, i);
    if (r->stop_at != r->steps) return KILN_OK;
    r->api.first = i + 1; /* where a saved state would go on */
    return KILN_CANCELLED;
}

static kiln_status rig_fail(const kiln_sampling *s, kiln_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(rig_of(s)->failure, sizeof rig_of(s)->failure, fmt, args);
    va_end(args);
    return status;
}

/* Of SD1's table, or of flow with shift 1. */
static double rig_percent(const kiln_sampling *s, double percent)
{
    if (percent <= 0) return 1e9;
    if (percent >= 1) return 0;
    if (s->process == KILN_PROCESS_FLOW) return 1 - percent;
    double kept[1000], product = 1, place = (1 - percent) * 999;
    for (int i = 0; i < 1000; i++) {
        double root = sqrt(0.00085) + (sqrt(0.012) - sqrt(0.00085)) * i / 999;
        kept[i] = product *= 1 - root * root;
    }
    int low = (int)place;
    double a = log((1 - kept[low]) / kept[low]) / 2, b = log((1 - kept[low + 1]) / kept[low + 1]) / 2;
    return exp(a + (b - a) * (place - low));
}

static double rig_error(const kiln_sampling *s, const kiln_latent *a, const kiln_latent *b, const kiln_latent *before,
                        double atol, double rtol)
{
    rig *r = rig_of(s);
    double sum = 0;
    for (size_t i = 0; i < r->count; i++) {
        double e = (a->v[i] - b->v[i]) / fmax(atol, rtol * fmax(fabs(a->v[i]), fabs(before->v[i])));
        sum += e * e;
    }
    return sqrt(sum / (double)r->count);
}

static void rig_clip(const kiln_sampling *s, kiln_latent *x, double deviations)
{
    rig *r = rig_of(s);
    double mean = 0, square = 0;
    for (size_t i = 0; i < r->count; i++) mean += x->v[i] / (double)r->count;
    for (size_t i = 0; i < r->count; i++) square += (x->v[i] - mean) * (x->v[i] - mean);
    double most = deviations * sqrt(square / (double)(r->count - 1));
    for (size_t i = 0; i < r->count; i++) x->v[i] = fmin(fmax(x->v[i], -most), most);
}

/* A rig's latent has no shape: how it was scaled shows as a factor. */
static kiln_status rig_resize(const kiln_sampling *s, double scale, uint32_t method)
{
    rig *r = rig_of(s);
    double factor = scale == 1 ? 1 : scale * (1 + 0.01 * method);
    for (size_t i = 0; i < r->count; i++) r->x.v[i] *= factor;
    return KILN_OK;
}

static const kiln_param *param_at(const kiln_sampler *row, uint32_t i)
{
    return (const void *)((const char *)row->param + i * row->param_stride);
}

static void put(rig *r, const kiln_param *p, double value)
{
    int64_t whole = (int64_t)value;
    int32_t small = (int32_t)value;
    if (p->type == KILN_P_FLOAT) memcpy(r->options + p->offset, &value, sizeof value);
    if (p->type == KILN_P_INT) memcpy(r->options + p->offset, &whole, sizeof whole);
    if (p->type == KILN_P_BOOL || p->type == KILN_P_ENUM) memcpy(r->options + p->offset, &small, sizeof small);
}

void rig_open(rig *r, const kiln_sampler *row, const double *sigma, size_t n, const double *start, size_t count)
{
    memset(r, 0, sizeof *r);
    r->count = count;
    r->x.v = zeros(count);
    r->unconditional = zeros(count);
    if (start) memcpy(r->x.v, start, count * sizeof *start);
    for (uint32_t i = 0; i < row->n_param; i++) put(r, param_at(row, i), param_at(row, i)->def);
    r->api = (kiln_sampling){.size = sizeof r->api,
                             .n = n,
                             .sigma = sigma,
                             .process = KILN_PROCESS_DIFFUSION,
                             .options = r->options,
                             .x = &r->x,
                             .seed = 42,
                             .self = r,
                             .denoise = rig_denoise,
                             .unconditional = rig_unconditional,
                             .lincomb = rig_lincomb,
                             .norm = rig_norm,
                             .noise = rig_noise,
                             .slot = rig_slot_of,
                             .scalars = rig_scalars,
                             .step = rig_step,
                             .fail = rig_fail,
                             .percent_to_sigma = rig_percent,
                             .error = rig_error,
                             .clip = rig_clip,
                             .resize = rig_resize};
}

void rig_close(rig *r)
{
    for (size_t i = 0; i < r->n_slot; i++) free(r->slot[i].latent.v);
    free(r->x.v);
    free(r->unconditional);
}

/* A number, or a choice by its name. */
static int value_of(const kiln_param *p, const char *text, double *out)
{
    for (const kiln_choice *c = p->choice; c && c->name; c++)
        if (strcmp(c->name, text) == 0) return *out = (double)c->value, 1;
    char *end;
    *out = strtod(text, &end);
    if (p->type == KILN_P_ENUM || end == text) return 0;
    return p->type == KILN_P_BOOL || (*out >= p->min && *out <= p->max);
}

int rig_options(rig *r, const kiln_sampler *row, const char *text)
{
    char name[32], value[32];
    double number;
    for (int used; sscanf(text, "%31[a-z0-9_]=%31[^,]%n", name, value, &used) == 2;
         text += used + (text[used] == ',')) {
        uint32_t i = 0;
        while (i < row->n_param && strcmp(param_at(row, i)->name, name) != 0) i++;
        if (i == row->n_param || !value_of(param_at(row, i), value, &number)) return 0;
        put(r, param_at(row, i), number);
    }
    return 1;
}

double *rig_slot(rig *r, const char *name)
{
    for (size_t i = 0; i < r->n_slot; i++)
        if (strcmp(r->slot[i].name, name) == 0) return r->slot[i].latent.v;
    return NULL;
}

const kiln_sampler *rig_sampler(const char *name, size_t n)
{
    for (size_t i = 0; i < sampler_row_count; i++)
        if (strlen(sampler_rows[i]->name) == n && strncmp(sampler_rows[i]->name, name, n) == 0) return sampler_rows[i];
    return NULL;
}

static double uniform(gauss *g)
{
    uint64_t z = g->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

double gauss_next(gauss *g)
{
    if (g->have) return g->have = 0, g->spare;
    double radius = sqrt(-2 * log(uniform(g))), angle = 2 * acos(-1) * uniform(g);
    g->have = 1, g->spare = radius * sin(angle);
    return radius * cos(angle);
}
