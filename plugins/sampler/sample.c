/* sample.c - see sample.h.
 *
 * Latents are f32 [N,H,W,C] here. Noise is drawn as torch draws it, in [N,C,H,W] order, and put in ours.
 * A LATENT value holds the autoencoder's own numbers; what the network sees is (latent - shift) * scale.
 */
#include "sample.h"

#include "guide.h"
#include "kit.h"
#include "torch_random.h"

#include <math.h>
#include <string.h>

enum { SLOTS_MAX = 64, NAME_MAX_BYTES = 32, STEPS_MAX = 20000 };

struct kiln_latent {
    float *data;
};

typedef struct {
    char name[NAME_MAX_BYTES];
    kiln_latent latent;
    double *scalar;
} slot_entry;

typedef struct {
    kiln_sampling api; /* self points back here */
    const sample_job *job;
    const kiln_model *model;
    guide guide;
    size_t count;
    kiln_latent x;
    float *noise, *start, *mask, *masked; /* mask [N,H,W] or NULL; start: the latent in model space */
    torch_generator random;
    slot_entry slot[SLOTS_MAX], number[SLOTS_MAX];
    size_t n_slot, n_number;
} session;

static session *session_of(const kiln_sampling *s) { return s->self; }

static float *floats(const session *s, size_t n)
{
    return s->job->call->host->scratch(s->job->call->ctx, n * sizeof(float), KILN_CPU);
}

/* ---- noise ----------------------------------------------------------------------------------------- */

/* Draws [n,C,H,W] and stores [n,H,W,C]. */
static kiln_status draw(session *s, torch_generator *g, int64_t n, float *out)
{
    int64_t C = s->guide.channels, cells = s->guide.height * s->guide.width;
    float *drawn = s->masked; /* its size is n * C * cells or more; not in use while drawing */
    torch_randn(g, drawn, (size_t)(n * C * cells));
    for (int64_t b = 0; b < n; b++)
        for (int64_t k = 0; k < C; k++)
            for (int64_t i = 0; i < cells; i++) out[(b * cells + i) * C + k] = drawn[(b * C + k) * cells + i];
    return KILN_OK;
}

/* With a batch_index the k-th picture gets the k-th draw, however many of the batch are here. */
static kiln_status draw_indexed(session *s, torch_generator *g, const kiln_value *index, float *out)
{
    const kiln_call *c = s->job->call;
    const kiln_value_api *v = kit_values(c);
    size_t one = s->count / (size_t)s->guide.batch;
    int64_t wanted, last = 0;
    if ((int64_t)v->count(index) != s->guide.batch)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent's batch_index has %zu entries for %lld latents",
                             v->count(index), (long long)s->guide.batch);
    for (int64_t b = 0; b < s->guide.batch; b++) {
        if (v->get_int(v->list_at(index, (size_t)b), &wanted) != KILN_OK || wanted < 0 || wanted > 100000)
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent's batch_index must hold numbers from 0 to 100000");
        if (wanted > last) last = wanted;
    }
    float *drawn = floats(s, one);
    if (!drawn) return KILN_ERR_NOMEM;
    for (int64_t k = 0; k <= last; k++) {
        TRY(draw(s, g, 1, drawn));
        for (int64_t b = 0; b < s->guide.batch; b++)
            if (v->get_int(v->list_at(index, (size_t)b), &wanted) == KILN_OK && wanted == k)
                memcpy(out + (size_t)b * one, drawn, one * sizeof *out);
    }
    return KILN_OK;
}

static kiln_status first_noise(session *s, uint64_t seed, float *out)
{
    torch_generator g;
    torch_seed(&g, seed);
    const kiln_value *index = kit_values(s->job->call)->map_get(s->job->latent, "batch_index");
    if (index) return draw_indexed(s, &g, index, out);
    return draw(s, &g, s->guide.batch, out);
}

/* latent + gain * noise; flow: sigma noise + (1 - sigma) latent. ComfyUI's noise_scaling. */
static void add_noise(const session *s, double sigma, double gain, const float *latent, float *out)
{
    int flow = s->model->sampling.prediction == KILN_PREDICT_FLOW;
    double of_latent = flow ? 1 - sigma : 1, of_noise = flow ? sigma : gain;
    for (size_t i = 0; i < s->count; i++) out[i] = (float)(of_noise * (double)s->noise[i] + of_latent * (double)latent[i]);
}

/* A start from the top level gets sqrt(1 + sigma^2): the variance the model was trained with there. */
static double first_gain(const session *s)
{
    const kiln_model_sampling *m = &s->model->sampling;
    double top = m->sigma[m->n_sigma - 1], sigma = s->job->sigma[0];
    return sigma > top || fabs(sigma - top) <= 1e-5 * top ? sqrt(1 + sigma * sigma) : sigma;
}

/* ---- what the sampler sees ---------------------------------------------------------------------------- */

static float mask_at(const session *s, size_t i) { return s->mask[i / (size_t)s->guide.channels]; }

/* With a noise mask, what lies outside it is held at the given latent: noised to sigma on the way in,
 * put back on the way out. */
static kiln_status session_denoise(const kiln_sampling *api, const kiln_latent *x, double sigma, kiln_latent *out)
{
    session *s = session_of(api);
    if (!s->mask) return guide_denoise(&s->guide, x->data, sigma, out->data);
    add_noise(s, sigma, sigma, s->start, s->masked);
    for (size_t i = 0; i < s->count; i++) {
        float m = mask_at(s, i);
        s->masked[i] = x->data[i] * m + s->masked[i] * (1 - m);
    }
    TRY(guide_denoise(&s->guide, s->masked, sigma, out->data));
    for (size_t i = 0; i < s->count; i++) {
        float m = mask_at(s, i);
        out->data[i] = out->data[i] * m + s->start[i] * (1 - m);
    }
    return KILN_OK;
}

static kiln_status session_unconditional(const kiln_sampling *api, kiln_latent *out)
{
    session *s = session_of(api);
    s->guide.always_unconditional = 1;
    memcpy(out->data, s->guide.negative_out, s->count * sizeof(float));
    return KILN_OK;
}

static void session_lincomb(const kiln_sampling *api, kiln_latent *out, size_t n, const double *coefficient,
                            kiln_latent *const *x)
{
    size_t count = session_of(api)->count;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++) sum += coefficient[k] * (double)x[k]->data[i];
        out->data[i] = (float)sum;
    }
}

static double session_norm(const kiln_sampling *api, const kiln_latent *x)
{
    size_t count = session_of(api)->count;
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)x->data[i] * (double)x->data[i];
    return sqrt(sum / (double)count);
}

/* ComfyUI on a CPU: one generator for the whole sampling, seeded seed + 1, a draw each time. */
static kiln_status session_noise(const kiln_sampling *api, double from, double to, kiln_latent *out)
{
    session *s = session_of(api);
    (void)from, (void)to; /* white noise is the same between any two levels */
    return draw(s, &s->random, s->guide.batch, out->data);
}

static slot_entry *entry_of(slot_entry *entries, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(entries[i].name, name) == 0) return &entries[i];
    if (*n == SLOTS_MAX || strlen(name) >= NAME_MAX_BYTES) return NULL;
    strcpy(entries[*n].name, name);
    return &entries[(*n)++];
}

static kiln_latent *session_slot(const kiln_sampling *api, const char *name)
{
    session *s = session_of(api);
    slot_entry *e = entry_of(s->slot, &s->n_slot, name);
    if (!e) return NULL;
    if (!e->latent.data) {
        if (!(e->latent.data = floats(s, s->count))) return NULL;
        memset(e->latent.data, 0, s->count * sizeof(float));
    }
    return &e->latent;
}

static double *session_scalars(const kiln_sampling *api, const char *name, size_t n)
{
    session *s = session_of(api);
    slot_entry *e = entry_of(s->number, &s->n_number, name);
    if (!e) return NULL;
    if (!e->scalar) {
        e->scalar = s->job->call->host->scratch(s->job->call->ctx, n * sizeof(double), KILN_CPU);
        if (e->scalar) memset(e->scalar, 0, n * sizeof(double));
    }
    return e->scalar;
}

static kiln_status session_step(const kiln_sampling *api, size_t i, const kiln_latent *denoised)
{
    session *s = session_of(api);
    (void)denoised; /* what a preview would show */
    return s->job->call->host->progress(s->job->call->ctx, i + 1, s->job->n, "step");
}

/* ---- setting up --------------------------------------------------------------------------------------- */

static int all_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != 0) return 0;
    return 1;
}

/* The latent in model space. An empty one of another model's channel count becomes one of ours. */
static kiln_status read_latent(session *s)
{
    const kiln_call *c = s->job->call;
    const kiln_latent_format *f = &s->model->denoiser->latent;
    kiln_tensor t;
    TRY(kit_samples(c, s->job->latent, &t));
    int empty = all_zero(t.data, kit_count(&t));
    if (t.dim[3] != f->channels && !empty)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the latent has %lld channels, this model wants %d; encode it with this model's VAE",
                             (long long)t.dim[3], f->channels);
    s->guide.batch = t.dim[0], s->guide.height = t.dim[1], s->guide.width = t.dim[2], s->guide.channels = f->channels;
    s->count = (size_t)(t.dim[0] * t.dim[1] * t.dim[2]) * (size_t)f->channels;
    if (s->count == 0) return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent is empty: it has no cells");
    s->start = floats(s, s->count), s->noise = floats(s, s->count), s->masked = floats(s, s->count);
    s->x.data = floats(s, s->count);
    if (!s->start || !s->noise || !s->masked || !s->x.data) return KILN_ERR_NOMEM;
    const float *latent = t.data;
    for (size_t i = 0; i < s->count; i++)
        s->start[i] = empty ? 0 : (float)(((double)latent[i] - f->shift) * f->scale);
    return KILN_OK;
}

static kiln_status read_mask(session *s)
{
    const kiln_call *c = s->job->call;
    const kiln_value *mask = kit_values(c)->map_get(s->job->latent, "noise_mask");
    kiln_tensor m;
    if (!mask) return KILN_OK;
    TRY(kit_f32(c, mask, 3, "the latent's noise_mask", &m));
    int64_t cells = s->guide.height * s->guide.width;
    s->mask = floats(s, (size_t)(s->guide.batch * cells));
    if (!s->mask) return KILN_ERR_NOMEM;
    for (int64_t b = 0; b < s->guide.batch; b++)
        resize_bilinear((const float *)m.data + (b % m.dim[0]) * m.dim[1] * m.dim[2], m.dim[1], m.dim[2],
                        s->mask + b * cells, s->guide.height, s->guide.width);
    return KILN_OK;
}

static kiln_status make_noise(session *s)
{
    if (s->job->no_noise)
        memset(s->noise, 0, s->count * sizeof(float));
    else
        TRY(first_noise(s, s->job->seed, s->noise));
    add_noise(s, s->job->sigma[0], first_gain(s), s->start, s->x.data);
    if (s->mask && (s->job->sampler->flags & KILN_SAMPLER_FRESH_MASK_NOISE))
        TRY(first_noise(s, s->job->seed + 1, s->noise));
    torch_seed(&s->random, s->job->seed + 1);
    return KILN_OK;
}

static kiln_status setup(session *s)
{
    const sample_job *job = s->job;
    const kiln_model_api *models = job->call->host->ability(KILN_MODEL_ABILITY);
    if (!(s->model = models->model(job->call->ctx, job->model))) return KILN_ERR_INVALID;
    s->guide = (guide){.call = job->call, .model = s->model, .cfg = job->cfg};
    TRY(read_latent(s));
    guide *g = &s->guide;
    int64_t wide = s->model->denoiser->context_dim;
    TRY(conditions_read(job->call, job->positive, "positive", g->height, g->width, &s->model->sampling, wide, &g->positive));
    TRY(conditions_read(job->call, job->negative, "negative", g->height, g->width, &s->model->sampling, wide, &g->negative));
    TRY(guide_init(g));
    TRY(read_mask(s));
    return make_noise(s);
}

static const void *options_or_defaults(const sample_job *job)
{
    if (job->options || job->sampler->params_size == 0) return job->options;
    char *block = job->call->host->scratch(job->call->ctx, job->sampler->params_size, KILN_CPU);
    if (!block) return NULL;
    memset(block, 0, job->sampler->params_size);
    for (uint32_t i = 0; i < job->sampler->n_param; i++) {
        const kiln_param *p = (const void *)((const char *)job->sampler->param + i * job->sampler->param_stride);
        int64_t whole = (int64_t)p->def;
        int32_t small = (int32_t)p->def;
        if (p->type == KILN_P_FLOAT) memcpy(block + p->offset, &p->def, sizeof p->def);
        if (p->type == KILN_P_INT) memcpy(block + p->offset, &whole, sizeof whole);
        if (p->type == KILN_P_BOOL || p->type == KILN_P_ENUM) memcpy(block + p->offset, &small, sizeof small);
    }
    return block;
}

static kiln_status finish(const session *s, kiln_value **out)
{
    const kiln_call *c = s->job->call;
    const kiln_value_api *v = kit_values(c);
    const kiln_latent_format *f = &s->model->denoiser->latent;
    kiln_value *samples;
    kiln_tensor t;
    TRY(kit_new_f32(c, 4, KILN_DIMS(s->guide.batch, s->guide.height, s->guide.width, s->guide.channels), &samples, &t));
    for (size_t i = 0; i < s->count; i++) ((float *)t.data)[i] = (float)((double)s->x.data[i] / f->scale + f->shift);
    *out = v->map_copy(c->ctx, s->job->latent);
    kiln_status status = *out ? v->map_set(*out, "samples", samples) : KILN_ERR_NOMEM;
    c->host->unref(samples);
    return status;
}

kiln_status sample_run(const sample_job *job, kiln_value **out)
{
    if (job->n == 0) {
        *out = job->call->host->ref((kiln_value *)(uintptr_t)job->latent);
        return KILN_OK;
    }
    session *s = job->call->host->scratch(job->call->ctx, sizeof *s, KILN_CPU);
    if (!s) return KILN_ERR_NOMEM;
    memset(s, 0, sizeof *s);
    s->job = job;
    TRY(setup(s));
    const void *options = options_or_defaults(job);
    if (!options && job->sampler->params_size) return KILN_ERR_NOMEM;
    s->api = (kiln_sampling){.size = sizeof s->api, .n = job->n, .sigma = job->sigma,
        .prediction = s->model->sampling.prediction, .options = options, .x = &s->x, .seed = job->seed, .self = s,
        .denoise = session_denoise, .unconditional = session_unconditional, .lincomb = session_lincomb,
        .norm = session_norm, .noise = session_noise, .slot = session_slot, .scalars = session_scalars,
        .step = session_step};
    TRY(job->sampler->run(&s->api));
    return finish(s, out);
}

/* ---- noise levels --------------------------------------------------------------------------------------- */

kiln_status sample_find(const kiln_call *c, const char *name, const kiln_sampler **out)
{
    const kiln_sampler_api *samplers = c->host->ability(KILN_SAMPLER_ABILITY);
    *out = samplers->sampler(name);
    return *out ? KILN_OK : c->host->fail(c->ctx, KILN_ERR_INVALID, "no sampler is called '%s'; see `kiln nodes KSampler`", name);
}

kiln_status sample_sigmas(const kiln_call *c, const kiln_model *model, const kiln_sampler *sampler,
                          const char *schedule, int64_t steps, double denoise, double **sigma, size_t *n)
{
    const kiln_sampler_api *samplers = c->host->ability(KILN_SAMPLER_ABILITY);
    const kiln_schedule *row = samplers->schedule(schedule);
    const kiln_model_sampling *m = &model->sampling;
    if (!row) return c->host->fail(c->ctx, KILN_ERR_INVALID, "no scheduler is called '%s'; see `kiln nodes KSampler`", schedule);
    *n = 0;
    *sigma = NULL;
    if (denoise <= 0) return KILN_OK; /* nothing to do: the latent comes back as it is */
    size_t extra = (sampler->flags & KILN_SAMPLER_EXTRA_STEP) ? 1 : 0;
    double wanted = denoise > 0.9999 ? (double)steps : floor((double)steps / denoise);
    if (wanted > STEPS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%lld steps at denoise %g make %.0f steps; at most %d are possible",
                             (long long)steps, denoise, wanted, STEPS_MAX);
    kiln_schedule_input in = {.size = sizeof in, .steps = (size_t)wanted + extra, .sigma = m->sigma,
        .n_sigma = m->n_sigma, .sigma_min = m->sigma[0], .sigma_max = m->sigma[m->n_sigma - 1]};
    size_t room = 2 * in.steps + 8, have;
    double *levels = c->host->scratch(c->ctx, room * sizeof *levels, KILN_CPU);
    if (!levels) return KILN_ERR_NOMEM;
    have = row->make(&in, levels, room);
    if (have < 2 || have > room)
        return c->host->fail(c->ctx, KILN_ERR_BUG, "scheduler '%s' made %zu levels for %zu steps", schedule, have, in.steps);
    if (extra && have > 2) levels[have - 2] = levels[have - 1], have--;
    size_t keep = denoise > 0.9999 || have <= (size_t)steps + 1 ? have : (size_t)steps + 1;
    *sigma = levels + (have - keep);
    *n = keep - 1;
    return KILN_OK;
}
