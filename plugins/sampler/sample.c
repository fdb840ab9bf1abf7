/* sample.c - see sample.h.
 *
 * A LATENT value holds the autoencoder's own numbers; what the network sees is (latent - shift) * scale.
 */
#include "sample.h"

#include "kit.h"
#include "sample_session.h"

#include <math.h>
#include <string.h>

enum { STEPS_MAX = 20000 };

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
    s->start = session_floats(s, s->count), s->noise = session_floats(s, s->count), s->masked = session_floats(s, s->count);
    s->x.data = session_floats(s, s->count);
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
    s->mask = session_floats(s, (size_t)(s->guide.batch * cells));
    if (!s->mask) return KILN_ERR_NOMEM;
    for (int64_t b = 0; b < s->guide.batch; b++)
        resize_bilinear((const float *)m.data + (b % m.dim[0]) * m.dim[1] * m.dim[2], m.dim[1], m.dim[2],
                        s->mask + b * cells, s->guide.height, s->guide.width);
    return KILN_OK;
}

/* A start from the top level gets sqrt(1 + sigma^2): the variance the model was trained with there. */
static double first_gain(const session *s)
{
    const kiln_model_sampling *m = &s->model->sampling;
    double top = m->sigma[m->n_sigma - 1], sigma = s->job->sigma[0];
    return sigma > top || fabs(sigma - top) <= 1e-5 * top ? sqrt(1 + sigma * sigma) : sigma;
}

static kiln_status make_noise(session *s)
{
    if (s->job->no_noise)
        memset(s->noise, 0, s->count * sizeof(float));
    else
        TRY(session_first_noise(s, s->job->seed, s->noise));
    session_add_noise(s, s->job->sigma[0], first_gain(s), s->start, s->x.data);
    if (s->mask && (s->job->sampler->flags & KILN_SAMPLER_FRESH_MASK_NOISE))
        TRY(session_first_noise(s, s->job->seed + 1, s->noise));
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
    session_api(s, options);
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
