/* sample.c - see sample.h.
 *
 * A LATENT value holds the autoencoder's own numbers; what the network sees is (latent - shift) * scale.
 */
#include "sample.h"

#include "kiln/kit.h"
#include "options.h"
#include "sample_session.h"
#include "sample_state.h"

#include <math.h>
#include <string.h>

enum { STEPS_MAX = 20000 };

/* ---- setting up ---- */

static int all_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != 0) return 0;
    return 1;
}

/* How channel k of a LATENT value becomes the network's: (latent - shift) * scale. */
static double scale_of(const session *s, size_t k)
{
    return s->model->latent ? s->model->latent->scale[k] : s->model->denoiser->latent.scale;
}
static double shift_of(const session *s, size_t k)
{
    return s->model->latent ? s->model->latent->shift[k] : s->model->denoiser->latent.shift;
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
    s->first_height = t.dim[1], s->first_width = t.dim[2];
    s->guide.batch = t.dim[0], s->guide.height = t.dim[1], s->guide.width = t.dim[2], s->guide.channels = f->channels;
    s->count = (size_t)(t.dim[0] * t.dim[1] * t.dim[2]) * (size_t)f->channels;
    if (s->count == 0) return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent is empty: it has no cells");
    s->start = session_floats(s, s->count), s->noise = session_floats(s, s->count),
    s->masked = session_floats(s, s->count);
    s->x.data = session_floats(s, s->count);
    if (!s->start || !s->noise || !s->masked || !s->x.data) return KILN_ERR_NOMEM;
    const float *latent = t.data;
    for (size_t i = 0; i < s->count; i++) {
        size_t k = i % (size_t)f->channels;
        s->start[i] = empty ? 0 : (float)(((double)latent[i] - shift_of(s, k)) * scale_of(s, k));
    }
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

/* Noise somebody made: of the latent's size. */
static kiln_status given_noise(session *s)
{
    const kiln_call *c = s->job->call;
    kiln_tensor t;
    TRY(kit_f32(c, s->job->noise, 4, "the NOISE's samples", &t));
    if (t.dim[0] != s->guide.batch || t.dim[1] != s->guide.height || t.dim[2] != s->guide.width ||
        t.dim[3] != s->guide.channels)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "the noise is %lldx%lldx%lldx%lld, the latent %lldx%lldx%lldx%lld (pictures, height, width, channels)",
            (long long)t.dim[0], (long long)t.dim[1], (long long)t.dim[2], (long long)t.dim[3],
            (long long)s->guide.batch, (long long)s->guide.height, (long long)s->guide.width,
            (long long)s->guide.channels);
    memcpy(s->noise, t.data, s->count * sizeof(float));
    return KILN_OK;
}

static float *tree_capacity(const void *owner, size_t n) { return session_floats(owner, n); }

/* What to begin with; `first` has drawn it, where it was drawn. */
static kiln_status begin_noise(session *s, noise_stream *first)
{
    const sample_job *job = s->job;
    stream_seed(first, noise_first_cuda(&job->source), job->seed, (uint32_t)job->source.blocks);
    if (job->noise && !job->no_noise) return given_noise(s);
    if (!job->no_noise) return session_first_noise(s, first, s->noise);
    memset(s->noise, 0, s->count * sizeof(float));
    return KILN_OK;
}

static kiln_status make_noise(session *s)
{
    const sample_job *job = s->job;
    noise_stream first, fresh;
    stream_seed(&fresh, noise_first_cuda(&job->source), job->seed + 1, (uint32_t)job->source.blocks);
    TRY(begin_noise(s, &first));
    session_add_noise(s, model_sampling_start(&s->guide.counted, job->sigma[0]), s->start,
                      place_write(&s->place, &s->x));
    if (s->mask && (job->sampler->flags & KILN_SAMPLER_FRESH_MASK_NOISE)) TRY(session_first_noise(s, &fresh, s->noise));
    noise_source_init(&s->random, &job->source, job->sampler, &first, job->seed, job->sigma, job->n, s->count);
    s->random.tree.capacity = tree_capacity;
    s->random.tree.owner = s;
    return KILN_OK;
}

/* The second model of a guider that has one: it sees the same x, so its latents have to be of the same channels. */
static kiln_status read_other_model(session *s)
{
    const kiln_call *c = s->job->call;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    if (!s->job->guider.other) return KILN_OK;
    if (!(s->guide.other = models->model(c->ctx, s->job->guider.other))) return KILN_ERR_INVALID;
    int32_t channels = s->model->denoiser->latent.channels, others = s->guide.other->denoiser->latent.channels;
    if (channels == others) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "model_negative has latents of %d channels, model of %d; they have to be of one kind", others,
                         channels);
}

/* A session of the job, with its model and latent. */
static kiln_status session_new(const sample_job *job, session **out)
{
    const kiln_model_api *models = job->call->host->ability(KILN_MODEL_ABILITY);
    session *s = job->call->host->scratch(job->call->ctx, sizeof *s, KILN_CPU);
    if (!s) return KILN_ERR_NOMEM;
    memset(s, 0, sizeof *s);
    s->job = job;
    if (!(s->model = models->model(job->call->ctx, job->guider.model))) return KILN_ERR_INVALID;
    place_init(&s->place, job->call);
    s->guide = (guide){.call = job->call,
                       .place = &s->place,
                       .model = s->model,
                       .by = &job->guider,
                       .counted = model_sampling_of(s->model)};
    TRY(read_other_model(s));
    *out = s;
    return read_latent(s);
}

static kiln_status setup(session *s)
{
    const sample_job *job = s->job;
    TRY(guide_init(&s->guide));
    if (job->sampler->flags & KILN_SAMPLER_UNCONDITIONAL && job->guider.kind->unconditional >= 0)
        s->guide.always |= 1u << job->guider.kind->unconditional;
    TRY(read_mask(s));
    s->place.n = s->count;
    if (s->mask || job->sampler->flags & KILN_SAMPLER_RESIZES || !guide_may_lie_there(&s->guide))
        s->place.ops = NULL; /* the host does most of it */
    return make_noise(s);
}

/* Everything as setup() left it: what a state brought is forgotten. */
static kiln_status start_over(session *s)
{
    memset(s->slot, 0, sizeof s->slot);
    memset(s->number, 0, sizeof s->number);
    s->n_slot = s->n_number = 0;
    s->api.first = 0;
    s->misfit = 0;
    if (s->guide.height != s->first_height || s->guide.width != s->first_width)
        TRY(session_set_size(s, s->first_height, s->first_width));
    TRY(make_noise(s));
    if (s->denoised.data)
        memcpy(place_write(&s->place, &s->denoised), place_read(&s->place, &s->x), s->count * sizeof(float));
    return KILN_OK;
}

/* From the state an earlier call left, if there is one that fits. */
static kiln_status run_from_state(session *s)
{
    uint32_t always = s->guide.always;
    int found = state_take_up(s);
    if (found == STATE_UNUSABLE) TRY(start_over(s));
    kiln_status status = s->job->sampler->run(&s->api);
    if (s->misfit) {
        state_refused(s, "it holds other numbers than this sampler's");
        s->guide.always = always;
        status = start_over(s);
        if (status == KILN_OK) status = s->job->sampler->run(&s->api);
    }
    state_finish(s, status);
    return status;
}

/* A CUDA device's size means nothing where no CUDA generator draws. */
static kiln_status check_source(const sample_job *job)
{
    const kiln_call *c = job->call;
    if (!job->source.blocks || noise_any_cuda(&job->source, job->sampler)) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "cuda_blocks is the size of a CUDA device, and with this noise_source and sampler '%s' none "
                         "draws; leave it 0, or choose cuda or cuda_all",
                         job->sampler->name);
}

/* 0 means that there is no noise, so nothing can follow; what adds noise cannot go up. */
static kiln_status check_sigmas(const sample_job *job)
{
    const kiln_call *c = job->call;
    if (job->n > STEPS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%zu steps; at most %d are possible", job->n, STEPS_MAX);
    for (size_t i = 0; i <= job->n; i++) {
        double s = job->sigma[i];
        if (!isfinite(s) || s < 0)
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "sigmas[%zu] is %g; a noise level is a number from 0 up", i,
                                 s);
        if (s == 0 && i < job->n)
            return c->host->fail(
                c->ctx, KILN_ERR_INVALID,
                "sigmas[%zu] is 0 and %zu more follow; 0 can only be the last (FlipSigmas turns levels round)", i,
                job->n - i);
        if (i && s > job->sigma[i - 1] && job->sampler->flags & KILN_SAMPLER_STOCHASTIC)
            return c->host->fail(
                c->ctx, KILN_ERR_INVALID,
                "sigmas[%zu] is %g, above the %g before it; sampler '%s' adds noise and needs levels that fall", i, s,
                job->sigma[i - 1], job->sampler->name);
    }
    return KILN_OK;
}

/* A LATENT like the given one with these samples, in the autoencoder's numbers. */
static kiln_status latent_of(const session *s, const float *x, level_rest rest, kiln_value **out)
{
    const kiln_call *c = s->job->call;
    const kiln_value_api *v = kit_values(c);
    size_t channels = (size_t)s->guide.channels;
    kiln_value *samples;
    kiln_tensor t;
    TRY(kit_new_f32(c, 4, KILN_DIMS(s->guide.batch, s->guide.height, s->guide.width, s->guide.channels), &samples, &t));
    for (size_t i = 0; i < s->count; i++)
        ((float *)t.data)[i] = (float)(((double)x[i] - rest.minus) / rest.divided_by / scale_of(s, i % channels) +
                                       shift_of(s, i % channels));
    *out = v->map_copy(c->ctx, s->job->latent);
    kiln_status status = *out ? v->map_set(*out, "samples", samples) : KILN_ERR_NOMEM;
    c->host->unref(samples);
    return status;
}

static kiln_status finish(session *s, kiln_value **out, kiln_value **denoised)
{
    double last = s->job->sigma[s->job->n];
    const float *x = place_read(&s->place, &s->x), *x0 = denoised ? place_read(&s->place, &s->denoised) : NULL;
    TRY(s->place.trouble);
    TRY(latent_of(s, x, model_sampling_rest(&s->guide.counted, last), out));
    return denoised ? latent_of(s, x0, (level_rest){.divided_by = 1}, denoised) : KILN_OK;
}

static kiln_status nothing_to_do(const sample_job *job, kiln_value **out, kiln_value **denoised)
{
    const kiln_host *host = job->call->host;
    *out = host->ref((kiln_value *)(uintptr_t)job->latent);
    if (denoised) *denoised = host->ref((kiln_value *)(uintptr_t)job->latent);
    return KILN_OK;
}

kiln_status sample_run(const sample_job *job, kiln_value **out, kiln_value **denoised)
{
    if (job->n == 0) return nothing_to_do(job, out, denoised);
    const void *options = job->options;
    TRY(check_sigmas(job));
    session *s;
    TRY(check_source(job));
    TRY(session_new(job, &s));
    TRY(setup(s));
    if (denoised) {
        if (!(s->denoised.data = session_floats(s, s->count))) return KILN_ERR_NOMEM;
        memcpy(s->denoised.data, place_read(&s->place, &s->x), s->count * sizeof(float));
    }
    if (!options) TRY(options_fill(job->call, job->sampler, NULL, &options));
    session_api(s, options);
    TRY(run_from_state(s));
    return finish(s, out, denoised);
}

kiln_status sample_add_noise(const sample_job *job, double sigma, kiln_value **out)
{
    const kiln_call *c = job->call;
    session *s;
    noise_stream first;
    if (job->source.blocks && !noise_first_cuda(&job->source))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "cuda_blocks is the size of a CUDA device, and with this noise_source none draws here; "
                             "leave it 0, or choose cuda_all");
    TRY(session_new(job, &s));
    TRY(begin_noise(s, &first));
    session_add_noise(s, model_sampling_blend(&s->guide.counted, sigma), s->start, place_write(&s->place, &s->x));
    return latent_of(s, place_read(&s->place, &s->x), (level_rest){.divided_by = 1}, out);
}

/* ---- noise levels ---- */

static const char *sampler_name(const void *api, size_t i)
{
    return ((const kiln_sampler_api *)api)->sampler_at(i)->name;
}
static const char *schedule_name(const void *api, size_t i)
{
    return ((const kiln_sampler_api *)api)->schedule_at(i)->name;
}

/* The near name in quotes, or a place to look. */
static kiln_status unknown(const kiln_call *c, const char *what, const char *name, const char *near)
{
    if (near)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "no %s is called '%s'; did you mean '%s'?", what, name, near);
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "no %s is called '%s'; see `kiln nodes KSampler`", what, name);
}

kiln_status sample_find(const kiln_call *c, const char *name, const kiln_sampler **out)
{
    const kiln_sampler_api *api = c->host->ability(KILN_SAMPLER_ABILITY);
    *out = api->sampler(name);
    return *out ? KILN_OK
                : unknown(c, "sampler", name, options_nearest(c, name, api->sampler_count(), sampler_name, api));
}

kiln_status sample_sigmas(const kiln_call *c, const kiln_model *model, const sigma_options *options, double **sigma,
                          size_t *n)
{
    const kiln_sampler_api *api = c->host->ability(KILN_SAMPLER_ABILITY);
    const kiln_schedule *row = api->schedule(options->schedule);
    model_sampling counted = model_sampling_of(model);
    if (!row)
        return unknown(c, "scheduler", options->schedule,
                       options_nearest(c, options->schedule, api->schedule_count(), schedule_name, api));
    *n = 0;
    *sigma = NULL;
    if (options->denoise <= 0) return KILN_OK; /* nothing to do: the latent comes back as it is */
    size_t extra = options->drop_last_but_one ? 1 : 0, steps = (size_t)options->steps, have;
    int whole = options->denoise > 0.9999;
    double wanted = whole ? (double)steps : floor((double)steps / options->denoise);
    if (wanted > STEPS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "%zu steps at denoise %g make %.0f steps; at most %d are possible", steps,
                             options->denoise, wanted, STEPS_MAX);
    kiln_schedule_input in = model_sampling_schedule_input(&counted, (size_t)wanted + extra);
    size_t capacity = 2 * in.steps + 8;
    double *made = c->host->scratch(c->ctx, capacity * sizeof *made, KILN_CPU);
    if (!made) return KILN_ERR_NOMEM;
    have = row->make(&in, made, capacity);
    if (have < 2 || have > capacity)
        return c->host->fail(c->ctx, KILN_ERR_BUG, "scheduler '%s' made %zu levels for %zu steps", row->name, have,
                             in.steps);
    for (size_t i = 0; i < have; i++)
        made[i] = (double)(float)made[i]; /* as a SIGMAS value holds them: one picture either way */
    if (extra && have > 2) made[have - 2] = made[have - 1], have--;
    size_t keep = (whole && !options->at_most_steps) || have <= steps + 1 ? have : steps + 1;
    *sigma = made + (have - keep);
    *n = keep - 1;
    return KILN_OK;
}
