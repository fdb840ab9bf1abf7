/* sample_session.c - see sample_session.h.
 *
 * Noise is drawn as torch draws it, in [N,C,H,W] order, and put in ours.
 */
#include "sample_session.h"

#include "kiln/kit.h"
#include "sample_state.h"

static kiln_session *session_of(const kiln_sampling *s) { return s->self; }

size_t session_count(const kiln_session *s) { return latent_shape_count(&s->space.shape) + s->space.more; }

float *session_floats(const kiln_session *s, size_t n)
{
    return s->call->host->scratch(s->call->ctx, n * sizeof(float), KILN_CPU);
}

/* ---- noise ---- */

/* n pictures of the first stream, at most those there are. */
static void draw(const kiln_session *s, noise_stream *g, int64_t n, float *out)
{
    stream_randn(g, s->work, (size_t)n * (latent_shape_count(&s->space.shape) / (size_t)s->space.shape.pictures));
    latent_pictures_last(&s->space.shape, n, s->work, out);
}

/* The further streams, one after the other. */
static void draw_streams(const kiln_session *s, noise_stream *g, float *out)
{
    for (size_t k = 0; k < s->space.n_stream; k++) {
        const kiln_latent_shape *shape = &s->space.stream[k];
        stream_randn(g, s->work, latent_shape_count(shape));
        latent_pictures_last(shape, shape->pictures, s->work, out);
        out += latent_shape_count(shape);
    }
}

/* With a batch_index the k-th picture gets the k-th draw, however many of the batch are here. */
static kiln_status draw_indexed(kiln_session *s, noise_stream *g, const kiln_value *index, float *out)
{
    const kiln_call *c = s->call;
    const kiln_value_api *v = kit_values(c);
    int64_t pictures = s->space.shape.pictures, wanted, last = 0;
    size_t one = latent_shape_count(&s->space.shape) / (size_t)pictures;
    if (s->space.n_stream)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "a latent of several streams with a batch_index cannot be sampled; take whole batches");
    if ((int64_t)v->count(index) != pictures)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent's batch_index has %zu entries for %lld latents",
                             v->count(index), (long long)pictures);
    for (int64_t b = 0; b < pictures; b++) {
        if (v->get_int(v->list_at(index, (size_t)b), &wanted) != KILN_OK || wanted < 0 || wanted > 100000)
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "the latent's batch_index must hold numbers from 0 to 100000");
        if (wanted > last) last = wanted;
    }
    float *drawn = session_floats(s, one);
    if (!drawn) return KILN_ERR_NOMEM;
    for (int64_t k = 0; k <= last && !kit_estimating(c); k++) {
        draw(s, g, 1, drawn);
        for (int64_t b = 0; b < pictures; b++)
            if (v->get_int(v->list_at(index, (size_t)b), &wanted) == KILN_OK && wanted == k)
                memcpy(out + (size_t)b * one, drawn, one * sizeof *out);
    }
    return KILN_OK;
}

kiln_status session_first_noise(kiln_session *s, noise_stream *g, float *out)
{
    const kiln_value *index = kit_values(s->call)->map_get(s->job->latent, "batch_index");
    if (index) return draw_indexed(s, g, index, out);
    if (kit_estimating(s->call)) return KILN_OK;
    draw(s, g, s->space.shape.pictures, out);
    draw_streams(s, g, out + latent_shape_count(&s->space.shape));
    return KILN_OK;
}

static kiln_status session_noise(const kiln_sampling *api, double from, double to, kiln_latent *out)
{
    kiln_session *s = session_of(api);
    const kiln_call *c = s->call;
    if (kit_estimating(c)) return KILN_OK;
    kiln_status status = noise_source_draw(&s->random, from, to, s->work);
    if (status == KILN_ERR_INVALID)
        return c->host->fail(c->ctx, status,
                             "noise between the levels %g and %g: levels of a Brownian path have to be below 1e12",
                             from, to);
    TRY(status);
    float *ours = s->noise; /* the first noise is where it is needed already */
    latent_channels_last(&s->x, s->work, ours);
    return latent_upload(&s->space, out, ours);
}

/* ---- denoise ---- */

/* x0 inside the noise mask: the job's own way, or the first guider's guess. */
static kiln_status guess(kiln_session *s, const kiln_latent *x, double sigma, kiln_latent *out)
{
    const kiln_latent *from = x;
    if (!s->job->denoise) return evaluator_denoise(&s->evaluator[0], x, (kiln_latent_place){0, 0}, sigma, out);
    if (x == out) {
        if (!s->input.data) TRY(latent_init(&s->space, &s->input, &s->space.shape));
        TRY(latent_copy(&s->space, &s->input, x));
        from = &s->input;
    }
    TRY(s->job->denoise(s->job->self, s, (kiln_latent *)(uintptr_t)from, sigma, out));
    return s->space.failed;
}

/* What the network is shown of what a noise mask keeps: noised to sigma, or clean where the network is told so by a
 * timestep of its own. */
static level_blend kept_blend(const kiln_session *s, double sigma)
{
    const evaluator *e = &s->evaluator[0];
    if (e->model[0]->denoiser->timestep != KILN_TIMESTEP_PICTURE) return (level_blend){.of_noise = 0, .of_latent = 1};
    return model_sampling_blend(&e->counted, sigma);
}

/* With a noise mask, what is outside it stays the given latent: shown on the way in, put back on the way out. */
static kiln_status guess_inside_mask(kiln_session *s, const kiln_latent *x, double sigma, kiln_latent *out)
{
    const kiln_latents *l = &s->space.algebra;
    level_blend b = kept_blend(s, sigma);
    TRY(session_mask_at(s, sigma));
    l->lincomb(l, &s->masked, 2, (double[]){b.of_noise, b.of_latent},
               (kiln_latent *[]){&s->outside_noise, &s->outside});
    l->blend(l, &s->masked, x, &s->masked, &s->mask);
    TRY(guess(s, &s->masked, sigma, out));
    l->blend(l, out, out, &s->outside, &s->mask);
    return s->space.failed;
}

static int is_whole(const kiln_session *s, const kiln_latent *x)
{
    return x->space == &s->space && memcmp(&x->shape, &s->space.shape, sizeof x->shape) == 0;
}

static kiln_status session_denoise(const kiln_sampling *api, const kiln_latent *x, double sigma, kiln_latent *out)
{
    kiln_session *s = session_of(api);
    s->asked = 1;
    TRY(s->space.failed);
    if (!is_whole(s, x) || !is_whole(s, out))
        return s->call->host->fail(s->call->ctx, KILN_ERR_BUG,
                                   "denoise() of a latent that is not of the sampling's size");
    return s->mask.data ? guess_inside_mask(s, x, sigma, out) : guess(s, x, sigma, out);
}

static kiln_status session_unconditional(const kiln_sampling *api, kiln_latent *out)
{
    kiln_session *s = session_of(api);
    const kiln_call *c = s->call;
    if (!s->last.by || memcmp(&s->last.x.shape, &out->shape, sizeof out->shape) != 0)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "sampler '%s' asks for the unconditional guess of the whole picture, and this node "
                             "evaluates parts of it; take a sampler that is not CFG++",
                             s->row->name);
    return evaluation_unconditional(&s->last, out);
}

/* ---- arithmetic ---- */

static void session_lincomb(const kiln_sampling *api, kiln_latent *out, size_t n, const double *coefficient,
                            kiln_latent *const *x)
{
    const kiln_latents *l = &session_of(api)->space.algebra;
    l->lincomb(l, out, n, coefficient, x);
}

static double session_norm(const kiln_sampling *api, const kiln_latent *x)
{
    const kiln_latents *l = &session_of(api)->space.algebra;
    return l->norm(l, x);
}

/* ---- what is kept across steps ---- */

slot_entry *session_entry(slot_entry *entries, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(entries[i].name, name) == 0) return &entries[i];
    if (*n == SLOTS_MAX || strlen(name) >= SLOT_NAME_MAX) return NULL;
    strcpy(entries[*n].name, name);
    return &entries[(*n)++];
}

static kiln_latent *session_slot(const kiln_sampling *api, const char *name)
{
    kiln_session *s = session_of(api);
    slot_entry *e = session_entry(s->slot, &s->n_slot, name);
    if (!e) return NULL;
    if (!e->latent.data && (latent_init(&s->space, &e->latent, &s->space.shape) != KILN_OK ||
                            latent_combine(&s->space, &e->latent, 0, NULL, NULL) != KILN_OK))
        return NULL;
    return &e->latent;
}

static double *session_scalars(const kiln_sampling *api, const char *name, size_t n)
{
    kiln_session *s = session_of(api);
    slot_entry *e = session_entry(s->number, &s->n_number, name);
    if (!e) return NULL;
    if (e->scalar && e->n != n) { /* only a state from elsewhere can say so */
        s->misfit = 1;
        return NULL;
    }
    if (!e->scalar) {
        e->n = n;
        e->scalar = s->call->host->scratch(s->call->ctx, n * sizeof(double), KILN_CPU);
        if (e->scalar) memset(e->scalar, 0, n * sizeof(double));
    }
    return e->scalar;
}

static kiln_status session_step(const kiln_sampling *api, size_t i, const kiln_latent *denoised)
{
    kiln_session *s = session_of(api);
    TRY(s->space.failed);
    if (s->denoised.data && denoised) TRY(latent_copy(&s->space, &s->denoised, denoised));
    preview_step(&s->shown, &s->space, denoised ? denoised : &s->x, i, s->job->n);
    TRY(s->space.failed);
    kiln_status status = s->call->host->progress(s->call->ctx, i + 1, s->job->n, "step");
    state_after_step(s, i + 1);
    return status;
}

void session_api(kiln_session *s, const void *options)
{
    s->api = (kiln_sampling){.size = sizeof s->api,
                             .n = s->job->n,
                             .sigma = s->job->sigma,
                             .process = s->evaluator[0].counted.by->process,
                             .options = options,
                             .x = &s->x,
                             .seed = s->job->noise->seed,
                             .self = s,
                             .denoise = session_denoise,
                             .unconditional = session_unconditional,
                             .lincomb = session_lincomb,
                             .norm = session_norm,
                             .noise = session_noise,
                             .slot = session_slot,
                             .scalars = session_scalars,
                             .step = session_step,
                             .resize = session_resize,
                             .latents = &s->space.algebra};
    session_measures(&s->api);
    preview_begin(&s->shown, s->call, s->evaluator[0].model[0]);
}
