/* sample.c - see sample.h.
 *
 * A LATENT value has the autoencoder's own numbers; what the network sees is (latent - shift) * scale. To and fro costs
 * a last digit, so a latent with noise left in it has the network's numbers too, as "model_samples": the next stage
 * goes on with these as long as they still say what its samples say.
 */
#include "sample.h"

#include "kiln/kit.h"
#include "noise_value.h"
#include "options.h"
#include "sample_session.h"
#include "sample_state.h"
#include "samplers.h"
#include "sizeless.h"

#include <math.h>
#include <stdio.h>

enum { STEPS_MAX = 20000 };

/* ---- LATENT values ---- */

/* How channel k of a LATENT value becomes the network's: (latent - shift) * scale. */
static double scale_of(const kiln_latent_scaling *s, size_t k) { return s->scale[s->n > 1 ? k : 0]; }
static double shift_of(const kiln_latent_scaling *s, size_t k) { return s->shift ? s->shift[s->n > 1 ? k : 0] : 0; }

static const kiln_latent_scaling *scaling_of(const kiln_model *m)
{
    return m->latent ? m->latent : m->denoiser->latent->scaling;
}

static const kiln_latent_format *stream_format(const kiln_model *m, size_t k)
{
    return (const kiln_latent_format *)(const void *)((const char *)m->denoiser->stream +
                                                      k * m->denoiser->stream_stride);
}

static int all_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != 0) return 0;
    return 1;
}

static kiln_latent_shape shape_of_dims(uint32_t rank, const int64_t *d, int64_t channels)
{
    kiln_latent_shape s = {d[0], 1, 1, d[rank - 2], channels, rank};
    if (rank > 3) s.height = d[rank - 3];
    if (rank > 4) s.frames = d[1];
    return s;
}

static kiln_status fail_rank(const kiln_call *c, uint32_t have, uint32_t wanted)
{
    static const char *const is[] = {[3] = "[N,L,C]", [4] = "[N,H,W,C], a picture", [5] = "[N,T,H,W,C], a video"};
    return c->host->fail(
        c->ctx, KILN_ERR_INVALID,
        "the latent has %u dimensions, this model wants %u (%s); take the empty latent of its family, or "
        "its own VAE",
        have, wanted, is[wanted]);
}

static uint32_t rank_of(const kiln_latent_format *f) { return f->rank ? (uint32_t)f->rank : 4; }

/* The tensor of a LATENT's stream. */
static kiln_status view_stream(const kiln_call *c, const kiln_value *samples, const kiln_latent_format *f,
                               kiln_tensor *t)
{
    uint32_t wanted = rank_of(f);
    if (wanted < 3 || wanted > 5)
        return c->host->fail(c->ctx, KILN_ERR_BUG, "the model's latents have %u dimensions; 3 to 5 are possible",
                             wanted);
    kit_tensor_clear(t);
    if (!samples) return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent's samples is missing");
    TRY(c->host->view(c->ctx, samples, t));
    if (t->dtype != KILN_F32)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent's samples: expected a float tensor");
    return t->rank == wanted ? KILN_OK : fail_rank(c, t->rank, wanted);
}

/* The shape that `latent` has for the model, and whether it is empty. An empty one of another model's channels becomes
 * one of ours; in an estimate every one of other channels counts as empty. */
static kiln_status latent_shape(const kiln_call *c, const kiln_latent_format *f, const kiln_tensor *t,
                                kiln_latent_shape *shape, int *empty)
{
    int32_t channels = f->channels;
    int64_t own = t->dim[t->rank - 1];
    *empty = kit_estimating(c) ? own != channels : all_zero(t->data, kit_count(t));
    if (own != channels && !*empty)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the latent has %lld channels, this model wants %d; encode it with this model's VAE",
                             (long long)own, channels);
    *shape = shape_of_dims(t->rank, t->dim, channels);
    if (latent_shape_count(shape) == 0)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent is empty: it has no cells");
    return KILN_OK;
}

/* A number of model space as a LATENT has it. */
static float latent_number(const kiln_latent_scaling *by, size_t k, float x, level_rest rest)
{
    return (float)(((double)x * rest.scale + rest.shift) / rest.divided_by / scale_of(by, k) + shift_of(by, k));
}

/* The network's own numbers that an earlier stage left beside these samples; NULL: none, or of other samples. */
static const float *left_numbers(const kiln_session *s, const kiln_latent_scaling *by, const kiln_tensor *samples)
{
    const kiln_call *c = s->call;
    const kiln_value *left = kit_values(c)->map_get(s->job->latent, "model_samples");
    size_t channels = (size_t)samples->dim[samples->rank - 1];
    kiln_tensor t;
    kit_tensor_clear(&t);
    if (!left || kit_estimating(c) || c->host->view(c->ctx, left, &t) != KILN_OK || t.dtype != KILN_F32 ||
        t.rank != samples->rank || memcmp(t.dim, samples->dim, t.rank * sizeof *t.dim) != 0)
        return NULL;
    const float *x = t.data, *latent = samples->data;
    for (size_t i = 0; i < kit_count(&t); i++)
        if (latent_number(by, i % channels, x[i], LEVEL_REST_NONE) != latent[i]) return NULL;
    return x;
}

/* One stream in model space. */
static void read_stream(const kiln_session *s, const kiln_latent_scaling *by, const kiln_tensor *t, int empty,
                        const kiln_latent_shape *shape, float *out)
{
    const float *latent = t->data;
    for (size_t i = 0; i < latent_shape_count(shape) && !kit_estimating(s->call); i++) {
        size_t k = i % (size_t)shape->channels;
        out[i] = empty ? 0 : (float)(((double)latent[i] - shift_of(by, k)) * scale_of(by, k));
    }
}

/* The further streams' shapes. */
static kiln_status list_streams(kiln_session *s, const kiln_model *m, kiln_tensor *t, int *empty)
{
    const kiln_call *c = s->call;
    const kiln_value_api *v = kit_values(c);
    const kiln_value *list = v->map_get(s->job->latent, "streams");
    size_t wanted = m->denoiser->n_stream, have = list ? v->count(list) : 0;
    if (wanted > STREAMS_MAX || (wanted && have != wanted))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the latent has %zu streams beside its samples, this model wants %zu (at most %d are "
                             "possible); take the empty latent of its family",
                             have, wanted, STREAMS_MAX);
    s->space.n_stream = wanted;
    for (size_t k = 0; k < wanted; k++) {
        TRY(view_stream(c, v->list_at(list, k), stream_format(m, k), &t[k]));
        TRY(latent_shape(c, stream_format(m, k), &t[k], &s->space.stream[k], &empty[k]));
        if (s->space.stream[k].pictures != s->space.shape.pictures)
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent's streams have %lld and %lld pictures",
                                 (long long)s->space.shape.pictures, (long long)s->space.stream[k].pictures);
        s->space.more += latent_shape_count(&s->space.stream[k]);
    }
    return KILN_OK;
}

/* The given latent in model space. */
static kiln_status read_latent(kiln_session *s, const kiln_model *m)
{
    kiln_tensor t, more[STREAMS_MAX];
    int empty, none[STREAMS_MAX];
    TRY(view_stream(s->call, kit_values(s->call)->map_get(s->job->latent, "samples"), m->denoiser->latent, &t));
    TRY(latent_shape(s->call, m->denoiser->latent, &t, &s->space.shape, &empty));
    TRY(list_streams(s, m, more, none));
    s->first_height = s->space.shape.height, s->first_width = s->space.shape.width;
    size_t n = session_count(s);
    s->start = session_floats(s, n), s->noise = session_floats(s, n), s->work = session_floats(s, n);
    if (!s->start || !s->noise || !s->work) return KILN_ERR_NOMEM;
    const float *left = empty ? NULL : left_numbers(s, scaling_of(m), &t);
    if (left)
        memcpy(s->start, left, latent_shape_count(&s->space.shape) * sizeof *left);
    else
        read_stream(s, scaling_of(m), &t, empty, &s->space.shape, s->start);
    float *at = s->start + latent_shape_count(&s->space.shape);
    for (size_t k = 0; k < s->space.n_stream; at += latent_shape_count(&s->space.stream[k++]))
        read_stream(s, stream_format(m, k)->scaling, &more[k], none[k], &s->space.stream[k], at);
    return KILN_OK;
}

/* One stream in the autoencoder's numbers, as a tensor. */
static kiln_value *stream_value(const kiln_session *s, const kiln_latent_scaling *by, const kiln_latent_shape *shape,
                                const float *x, level_rest rest)
{
    kiln_value *samples;
    kiln_tensor t;
    int64_t dim[5];
    uint32_t rank = latent_dims(shape, shape->channels, dim);
    if (kit_new_f32(s->call, rank, dim, &samples, &t) != KILN_OK) return NULL;
    for (size_t i = 0; i < latent_shape_count(shape) && !kit_estimating(s->call); i++) {
        size_t k = i % (size_t)shape->channels;
        ((float *)t.data)[i] = latent_number(by, k, x[i], rest);
    }
    return samples;
}

static kiln_value *streams_value(const kiln_session *s, const kiln_model *m, const float *x, level_rest rest)
{
    const kiln_value_api *v = kit_values(s->call);
    kiln_value *list = v->new_list(s->call->ctx);
    int ok = list != NULL;
    for (size_t k = 0; ok && k < s->space.n_stream; x += latent_shape_count(&s->space.stream[k++])) {
        kiln_value *one = stream_value(s, stream_format(m, k)->scaling, &s->space.stream[k], x, rest);
        ok = one && v->list_push(list, one) == KILN_OK;
        s->call->host->unref(one);
    }
    if (!ok) s->call->host->unref(list);
    return ok ? list : NULL;
}

/* A LATENT like the given one with these samples, in the autoencoder's numbers. */
static kiln_status latent_value(const kiln_session *s, const kiln_model *m, const float *x, level_rest rest,
                                kiln_value **out)
{
    const kiln_latent_shape *shape = &s->space.shape;
    kiln_value *samples = stream_value(s, scaling_of(m), shape, x, rest);
    if (!s->space.n_stream) {
        TRY(kit_latent(s->call, s->job->latent, samples, out));
        return kit_values(s->call)->map_set(*out, "model_samples", NULL); /* of the samples that were */
    }
    kiln_value *base = kit_values(s->call)->map_copy(s->call->ctx, s->job->latent);
    kiln_value *list = samples && base ? streams_value(s, m, x + latent_shape_count(shape), rest) : NULL;
    kiln_status status = base && list ? kit_set(s->call, base, "streams", list) : KILN_ERR_NOMEM;
    if (status == KILN_OK)
        status = kit_set(s->call, base, "samples", samples);
    else
        s->call->host->unref(samples);
    if (status == KILN_OK)
        *out = base;
    else
        s->call->host->unref(base);
    return status;
}

/* ---- noise ---- */

static void write_dims(uint32_t rank, const int64_t *dim, char text[120])
{
    int at = 0;
    for (uint32_t i = 0; i < rank && at < 100; i++)
        at += snprintf(text + at, 120 - (size_t)at, "%s%lld", i ? "x" : "", (long long)dim[i]);
}

/* Noise somebody made: of the latent's shape. */
static kiln_status given_noise(kiln_session *s)
{
    const kiln_call *c = s->call;
    int64_t dim[5];
    uint32_t rank = latent_dims(&s->space.shape, s->space.shape.channels, dim);
    char have[120], wanted[120];
    kiln_tensor t;
    if (s->space.n_stream)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "noise of one's own for a latent of several streams; take RandomNoise");
    TRY(kit_f32(c, s->job->noise->samples, rank, "the NOISE's samples", &t));
    write_dims(rank, t.dim, have);
    write_dims(rank, dim, wanted);
    if (memcmp(t.dim, dim, rank * sizeof *dim) != 0)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "the noise is %s, the latent %s (pictures, height, width, channels; a video's frames before "
            "its height)",
            have, wanted);
    if (!kit_estimating(c)) memcpy(s->noise, t.data, session_count(s) * sizeof(float));
    return KILN_OK;
}

/* What to begin with, into s->noise; `first` has drawn it, where it was drawn. */
static kiln_status begin_noise(kiln_session *s, noise_stream *first)
{
    const kiln_noise *noise = s->job->noise;
    stream_seed(first, noise_first_cuda(noise), noise->seed, (uint32_t)noise->blocks);
    if (noise->samples && !noise->none) return given_noise(s);
    if (!noise->none) return session_first_noise(s, first, s->noise);
    memset(s->noise, 0, session_count(s) * sizeof(float));
    return KILN_OK;
}

/* Pictures take one another's noise, as the MODEL's windows say. */
static kiln_status exchange_noise(kiln_session *s)
{
    const kiln_windows *w = s->evaluator->model[0]->windows;
    int64_t n = s->space.shape.pictures;
    size_t one = latent_shape_count(&s->space.shape) / (size_t)n;
    if (!w || !w->noise || s->space.n_stream) return KILN_OK;
    int64_t *from = s->call->host->scratch(s->call->ctx, (size_t)n * sizeof *from, KILN_CPU);
    if (!from || !w->noise(w->self, n, s->job->noise->seed, from)) return KILN_ERR_NOMEM;
    if (kit_estimating(s->call)) return KILN_OK;
    memcpy(s->work, s->noise, (size_t)n * one * sizeof *s->work);
    for (int64_t i = 0; i < n; i++)
        memcpy(s->noise + (size_t)i * one, s->work + (size_t)from[i] * one, one * sizeof *s->noise);
    return KILN_OK;
}

/* out = of_noise * noise + of_latent * latent, on the host; out may be either. */
static void blend_noise(const kiln_session *s, level_blend blend, float *out)
{
    for (size_t i = 0; i < session_count(s) && !kit_estimating(s->call); i++)
        out[i] = (float)(blend.of_noise * (double)s->noise[i] + blend.of_latent * (double)s->start[i]);
}

/* A second stage takes the first one's noise for the picture that the mask keeps. */
static void say_noise_is_kept(const kiln_session *s)
{
    const kiln_call *c = s->call;
    if (s->job->noise->none && kit_values(c)->map_get(s->job->latent, "model_samples") && !kit_estimating(c))
        c->host->log(
            KILN_LOG_WARN,
            "the latent has noise left in it and a noise_mask: what is outside the mask keeps that noise; draw "
            "with both models in one sampling (ModelRangeAtStep), or let the first stage go to the end");
}

/* What a noise mask keeps, and the noise it is given at each level. */
static kiln_status set_outside(kiln_session *s)
{
    const kiln_noise *noise = s->job->noise;
    noise_stream fresh;
    if (!s->mask.data) return KILN_OK;
    say_noise_is_kept(s);
    if (s->row->flags & KILN_SAMPLER_FRESH_MASK_NOISE) {
        stream_seed(&fresh, noise_first_cuda(noise), noise->seed + 1, (uint32_t)noise->blocks);
        TRY(session_first_noise(s, &fresh, s->noise));
    }
    if (!s->masked.data) {
        TRY(latent_init(&s->space, &s->outside, &s->space.shape));
        TRY(latent_init(&s->space, &s->outside_noise, &s->space.shape));
        TRY(latent_init(&s->space, &s->masked, &s->space.shape));
    }
    TRY(latent_upload(&s->space, &s->outside, s->start));
    return latent_upload(&s->space, &s->outside_noise, s->noise);
}

static float *tree_capacity(const void *owner, size_t n) { return session_floats(owner, n); }

/* x at the first level, and the generators of the steps. */
static kiln_status make_noise(kiln_session *s)
{
    const kiln_sampling_job *job = s->job;
    noise_stream first;
    TRY(begin_noise(s, &first));
    TRY(exchange_noise(s));
    blend_noise(s, model_sampling_start(&s->evaluator[0].counted, job->sigma[0]), s->work);
    TRY(latent_upload(&s->space, &s->x, s->work));
    TRY(set_outside(s));
    noise_source_init(&s->random, job->noise, s->row, &first, job->noise->seed, job->sigma, job->n, session_count(s));
    s->random.tree.capacity = tree_capacity;
    s->random.tree.owner = s;
    return KILN_OK;
}

/* ---- opening ---- */

/* A CUDA device's size means nothing where no CUDA generator draws. */
static kiln_status check_source(const kiln_session *s)
{
    const kiln_call *c = s->call;
    if (!s->job->noise->blocks || noise_any_cuda(s->job->noise, s->row)) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "cuda_blocks is the size of a CUDA device, and with this noise_source and sampler '%s' none "
                         "draws; leave it 0, or choose cuda or cuda_all",
                         s->row->name);
}

/* Sigma 0 means that there is no noise, so nothing can follow; what adds noise cannot go up. */
static kiln_status check_sigmas(const kiln_session *s)
{
    const kiln_call *c = s->call;
    size_t n = s->job->n;
    const double *sigma = s->job->sigma;
    if (n > STEPS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "%zu steps; at most %d are possible", n, STEPS_MAX);
    for (size_t i = 0; i <= n; i++) {
        if (!isfinite(sigma[i]) || sigma[i] < 0)
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "sigmas[%zu] is %g; a noise level is a number from 0 up", i,
                                 sigma[i]);
        if (i < n && sigma[i] == 0)
            return c->host->fail(
                c->ctx, KILN_ERR_INVALID,
                "sigmas[%zu] is 0 and %zu more follow; 0 can only be the last (FlipSigmas turns levels round)", i,
                n - i);
        if (i && sigma[i] > sigma[i - 1] && s->row->flags & KILN_SAMPLER_STOCHASTIC)
            return c->host->fail(
                c->ctx, KILN_ERR_INVALID,
                "sigmas[%zu] is %g, above the %g before it; sampler '%s' adds noise and needs levels that fall", i,
                sigma[i], sigma[i - 1], s->row->name);
    }
    return KILN_OK;
}

/* Also a node's own loop, which has no row. */
static int is_own(const kiln_sampler *row)
{
    size_t i = 0;
    while (i < sampler_row_count && sampler_rows[i] != row) i++;
    return !row || i < sampler_row_count;
}

static kiln_status open_evaluators(kiln_session *s)
{
    size_t n = s->job->n_guider;
    s->evaluator = s->call->host->scratch(s->call->ctx, n * sizeof *s->evaluator, KILN_CPU);
    if (!s->evaluator) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        evaluator *e = &s->evaluator[i];
        *e = (evaluator){.call = s->call,
                         .space = &s->space,
                         .last = &s->last,
                         .latent = s->job->latent,
                         .seed = s->job->noise->seed,
                         .steps = (int64_t)s->job->n,
                         .session = &s->api,
                         .foreign = is_own(s->job->sampler) ? NULL : s->job->sampler,
                         .number = i};
        TRY(evaluator_open(e, s->job->guider[i]));
        int32_t own = e->model[0]->denoiser->latent->channels,
                first = s->evaluator->model[0]->denoiser->latent->channels;
        if (own != first)
            return s->call->host->fail(s->call->ctx, KILN_ERR_INVALID,
                                       "guider %zu has latents of %d channels, the first of %d; they have to be of one "
                                       "kind",
                                       i + 1, own, first);
    }
    return KILN_OK;
}

/* All but the noise. */
static kiln_status set_up(kiln_session *s)
{
    const kiln_sampling_job *job = s->job;
    TRY(check_sigmas(s));
    TRY(check_source(s));
    TRY(latent_space_init(&s->space, s->call));
    TRY(open_evaluators(s));
    TRY(read_latent(s, s->evaluator->model[0]));
    TRY(latent_init(&s->space, &s->x, &s->space.shape));
    if (job->wants_denoised) TRY(latent_init(&s->space, &s->denoised, &s->space.shape));
    for (size_t i = 0; i < job->n_guider; i++) TRY(evaluator_read_conditions(&s->evaluator[i]));
    entry_keys_say(&s->last.keys, s->call->host);
    return session_read_mask(s);
}

/* The beginning: what a state brought is forgotten. */
static kiln_status start(kiln_session *s)
{
    memset(s->slot, 0, sizeof s->slot);
    memset(s->number, 0, sizeof s->number);
    s->n_slot = s->n_number = 0;
    s->api.first = 0;
    s->misfit = 0;
    s->last.wants_unconditional = (s->row->flags & KILN_SAMPLER_UNCONDITIONAL) != 0;
    if (s->space.shape.height != s->first_height || s->space.shape.width != s->first_width)
        TRY(session_set_size(s, s->first_height, s->first_width));
    TRY(make_noise(s));
    return s->denoised.data ? latent_copy(&s->space, &s->denoised, &s->x) : KILN_OK;
}

/* The job and its noise, as far as their sizes say. */
static kiln_status take_job(kiln_session *s, const kiln_sampling_job *asked)
{
    if (!KILN_READ(&s->given, asked, self)) return sizeless(s->call, "open()", "kiln_sampling_job");
    if (s->given.noise) TRY(noise_copy(s->call, s->given.noise, &s->given_noise));
    s->given.noise = &s->given_noise;
    s->job = &s->given;
    return KILN_OK;
}

kiln_status sample_open(const kiln_call *c, const kiln_sampling_job *asked, kiln_session **out)
{
    static const kiln_sampler own_loop = {.size = sizeof own_loop, .name = "(the node's own loop)"};
    kiln_session *s = c->host->scratch(c->ctx, sizeof *s, KILN_CPU);
    if (!s) return KILN_ERR_NOMEM;
    memset(s, 0, sizeof *s);
    s->call = c;
    TRY(take_job(s, asked));
    const kiln_sampling_job *job = s->job;
    const void *options = job->options;
    s->row = job->sampler ? job->sampler : &own_loop;
    *out = s;
    if (job->n == 0) return KILN_OK; /* the latent comes back as it is */
    if (!job->n_guider) return c->host->fail(c->ctx, KILN_ERR_BUG, "a sampling without a guider");
    TRY(set_up(s));
    if (!options && job->sampler) TRY(options_fill(c, job->sampler, NULL, &options));
    session_api(s, options);
    TRY(start(s));
    return state_take_up(s) == STATE_UNUSABLE ? start(s) : KILN_OK;
}

/* ---- running and finishing ---- */

kiln_status sample_run(kiln_session *s)
{
    const kiln_call *c = s->call;
    if (s->job->n == 0) return KILN_OK;
    if (!s->job->sampler) return c->host->fail(c->ctx, KILN_ERR_BUG, "run() of a sampling that names no sampler");
    kiln_status status = s->row->run(&s->api);
    if (s->misfit) {
        state_refused(s, "it holds other numbers than this sampler's");
        status = start(s);
        if (status == KILN_OK) status = s->row->run(&s->api);
    }
    state_finish(s, status);
    if (status == KILN_OK && !s->asked && !s->api.first)
        return c->host->fail(
            c->ctx, KILN_ERR_BUG,
            "the sampler '%.100s' returned without one call of denoise(), so nothing was sampled; it has to "
            "go through the %zu steps",
            s->row->name, s->job->n);
    return status;
}

/* Of a latent that goes on to another stage: x itself, where samples are nothing but x in other numbers. */
static kiln_status leave_numbers(const kiln_session *s, level_rest rest, kiln_value *latent)
{
    const kiln_call *c = s->call;
    int plain = rest.scale == 1 && rest.shift == 0 && rest.divided_by == 1;
    int64_t dim[5];
    uint32_t rank = latent_dims(&s->space.shape, s->space.shape.channels, dim);
    kiln_value *left;
    kiln_tensor t;
    if (s->job->sigma[s->job->n] == 0 || !plain || s->space.n_stream) return KILN_OK;
    TRY(kit_new_f32(c, rank, dim, &left, &t));
    if (!kit_estimating(c)) memcpy(t.data, s->work, kit_count(&t) * sizeof(float));
    return kit_set(c, latent, "model_samples", left);
}

kiln_status sample_finish(kiln_session *s, kiln_value **out, kiln_value **denoised)
{
    const kiln_host *host = s->call->host;
    if (s->job->n == 0) {
        *out = host->ref((kiln_value *)(uintptr_t)s->job->latent);
        if (denoised) *denoised = host->ref((kiln_value *)(uintptr_t)s->job->latent);
        return KILN_OK;
    }
    const kiln_model *m = s->evaluator->model[0];
    level_rest rest = model_sampling_rest(&s->evaluator->counted, s->job->sigma[s->job->n]);
    state_finish(s, KILN_OK);
    TRY(s->space.failed);
    hook_effects_say(&s->last.effects, host);
    TRY(latent_download(&s->space, &s->x, s->work));
    TRY(latent_value(s, m, s->work, rest, out));
    TRY(leave_numbers(s, rest, *out));
    if (!denoised) return KILN_OK;
    if (!s->denoised.data)
        return host->fail(s->call->ctx, KILN_ERR_BUG, "the last guess of a job without wants_denoised");
    TRY(latent_download(&s->space, &s->denoised, s->work));
    return latent_value(s, m, s->work, LEVEL_REST_NONE, denoised);
}

/* ---- noise without sampling ---- */

kiln_status sample_add_noise(const kiln_call *c, const kiln_value *model, const kiln_noise *given, double sigma,
                             const kiln_value *latent, kiln_value **out)
{
    const kiln_model *m = ((const kiln_model_api *)c->host->ability(KILN_MODEL_ABILITY))->model(c->ctx, model);
    kiln_noise copy, *noise = &copy;
    kiln_sampling_job job = {.size = sizeof job, .latent = latent, .noise = noise};
    kiln_session *s = c->host->scratch(c->ctx, sizeof *s, KILN_CPU);
    noise_stream first;
    if (!m) return KILN_ERR_INVALID;
    if (!s) return KILN_ERR_NOMEM;
    TRY(noise_copy(c, given, noise));
    if (noise->blocks && !noise_first_cuda(noise))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "cuda_blocks is the size of a CUDA device, and with this noise_source none draws here; "
                             "leave it 0, or choose cuda_all");
    memset(s, 0, sizeof *s);
    s->call = c, s->job = &job;
    TRY(read_latent(s, m));
    TRY(begin_noise(s, &first));
    model_sampling counted = model_sampling_of(m);
    blend_noise(s, model_sampling_blend(&counted, sigma), s->work);
    return latent_value(s, m, s->work, LEVEL_REST_NONE, out);
}
