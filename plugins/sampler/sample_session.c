/* sample_session.c - see sample_session.h.
 *
 * Noise is drawn as torch draws it, in [N,C,H,W] order, and put in ours.
 */
#include "sample_session.h"

#include "kiln/kit.h"
#include "sample_state.h"

#include <math.h>
#include <string.h>

static session *session_of(const kiln_sampling *s) { return s->self; }

float *session_floats(const session *s, size_t n)
{
    return s->job->call->host->scratch(s->job->call->ctx, n * sizeof(float), KILN_CPU);
}

/* ---- noise ---- */

/* [n,C,H,W] -> [n,H,W,C] */
static void turn(const session *s, int64_t n, const float *drawn, float *out)
{
    int64_t C = s->guide.channels, cells = s->guide.height * s->guide.width;
    for (int64_t b = 0; b < n; b++)
        for (int64_t k = 0; k < C; k++)
            for (int64_t i = 0; i < cells; i++) out[(b * cells + i) * C + k] = drawn[(b * C + k) * cells + i];
}

/* n pictures of the latent's size. s->masked holds as many numbers or more, and is not in use while drawing. */
static void draw(const session *s, noise_stream *g, int64_t n, float *out)
{
    stream_randn(g, s->masked, (size_t)n * (s->count / (size_t)s->guide.batch));
    turn(s, n, s->masked, out);
}

/* With a batch_index the k-th picture gets the k-th draw, however many of the batch are here. */
static kiln_status draw_indexed(session *s, noise_stream *g, const kiln_value *index, float *out)
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
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "the latent's batch_index must hold numbers from 0 to 100000");
        if (wanted > last) last = wanted;
    }
    float *drawn = session_floats(s, one);
    if (!drawn) return KILN_ERR_NOMEM;
    for (int64_t k = 0; k <= last; k++) {
        draw(s, g, 1, drawn);
        for (int64_t b = 0; b < s->guide.batch; b++)
            if (v->get_int(v->list_at(index, (size_t)b), &wanted) == KILN_OK && wanted == k)
                memcpy(out + (size_t)b * one, drawn, one * sizeof *out);
    }
    return KILN_OK;
}

kiln_status session_first_noise(session *s, noise_stream *g, float *out)
{
    const kiln_value *index = kit_values(s->job->call)->map_get(s->job->latent, "batch_index");
    if (index) return draw_indexed(s, g, index, out);
    draw(s, g, s->guide.batch, out);
    return KILN_OK;
}

void session_add_noise(const session *s, level_blend blend, const float *latent, float *out)
{
    for (size_t i = 0; i < s->count; i++)
        out[i] = (float)(blend.of_noise * (double)s->noise[i] + blend.of_latent * (double)latent[i]);
}

/* ---- what the sampler sees ---- */

static float mask_at(const session *s, size_t i) { return s->mask[i / (size_t)s->guide.channels]; }

static kiln_status denoise_there(session *s, const kiln_latent *x, double sigma, kiln_latent *out)
{
    const float *from = place_read_there(&s->place, x);
    float *to = from ? place_write_there(&s->place, out) : NULL;
    return to ? guide_denoise_there(&s->guide, from, sigma, to) : s->place.trouble;
}

static kiln_status denoise_plain(session *s, const kiln_latent *x, double sigma, kiln_latent *out)
{
    latent_lies lay = out->lies;
    kiln_status status = s->place.ops ? denoise_there(s, x, sigma, out) : KILN_ERR_UNSUPPORTED;
    if (status != KILN_ERR_UNSUPPORTED) return status == KILN_OK ? s->place.trouble : status;
    out->lies = lay; /* nothing was written there: out may be x */
    const float *from = place_read(&s->place, x);
    TRY(s->place.trouble);
    return guide_denoise(&s->guide, from, sigma, place_write(&s->place, out));
}

/* With a noise mask, what lies outside it is held at the given latent: noised to sigma on the way in,
 * put back on the way out. */
static kiln_status session_denoise(const kiln_sampling *api, const kiln_latent *x, double sigma, kiln_latent *out)
{
    session *s = session_of(api);
    if (!s->mask) return denoise_plain(s, x, sigma, out);
    const float *given = place_read(&s->place, x);
    session_add_noise(s, model_sampling_blend(&s->guide.counted, sigma), s->start, s->masked);
    for (size_t i = 0; i < s->count; i++) {
        float m = mask_at(s, i);
        s->masked[i] = given[i] * m + s->masked[i] * (1 - m);
    }
    float *guess = place_write(&s->place, out);
    TRY(guide_denoise(&s->guide, s->masked, sigma, guess));
    for (size_t i = 0; i < s->count; i++) {
        float m = mask_at(s, i);
        guess[i] = guess[i] * m + s->start[i] * (1 - m);
    }
    return s->place.trouble;
}

static kiln_status session_unconditional(const kiln_sampling *api, kiln_latent *out)
{
    session *s = session_of(api);
    if (!s->guide.lies_there) return guide_unconditional(&s->guide, place_write(&s->place, out));
    float *to = place_write_there(&s->place, out);
    return to ? guide_unconditional_there(&s->guide, to) : s->place.trouble;
}

static void lincomb_there(session *s, kiln_latent *out, size_t n, const double *coefficient, kiln_latent *const *x)
{
    const float *from[KILN_MAX_TERMS];
    float *to;
    for (size_t k = 0; k < n; k++)
        if (!(from[k] = place_read_there(&s->place, x[k]))) return;
    if (!(to = place_write_there(&s->place, out))) return;
    kiln_status status = s->place.ops->combine(s->job->call->ctx, to, s->count, (uint32_t)n, coefficient, from);
    if (status != KILN_OK && s->place.trouble == KILN_OK) s->place.trouble = status;
}

static void session_lincomb(const kiln_sampling *api, kiln_latent *out, size_t n, const double *coefficient,
                            kiln_latent *const *x)
{
    session *s = session_of(api);
    if (s->place.ops && n <= KILN_MAX_TERMS) {
        lincomb_there(s, out, n, coefficient, x);
        return;
    }
    for (size_t k = 0; k < n; k++) place_read(&s->place, x[k]);
    float *to = place_write(&s->place, out);
    for (size_t i = 0; i < s->count; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++) sum += coefficient[k] * (double)x[k]->data[i];
        to[i] = (float)sum;
    }
}

static double norm_there(session *s, const kiln_latent *x)
{
    double norm = 0;
    const float *from = place_read_there(&s->place, x);
    kiln_status status = from ? s->place.ops->norm(s->job->call->ctx, from, s->count, &norm) : s->place.trouble;
    if (status != KILN_OK && s->place.trouble == KILN_OK) s->place.trouble = status;
    return norm;
}

static double session_norm(const kiln_sampling *api, const kiln_latent *x)
{
    session *s = session_of(api);
    double sum = 0;
    if (s->place.ops) return norm_there(s, x);
    for (size_t i = 0; i < s->count; i++) sum += (double)x->data[i] * (double)x->data[i];
    return sqrt(sum / (double)s->count);
}

static kiln_status session_noise(const kiln_sampling *api, double from, double to, kiln_latent *out)
{
    session *s = session_of(api);
    const kiln_call *c = s->job->call;
    kiln_status status = noise_source_draw(&s->random, from, to, s->masked);
    if (status == KILN_ERR_INVALID)
        return c->host->fail(c->ctx, status,
                             "noise between the levels %g and %g: levels of a Brownian path have to be below 1e12",
                             from, to);
    TRY(status);
    turn(s, s->guide.batch, s->masked, place_write(&s->place, out));
    return KILN_OK;
}

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
    session *s = session_of(api);
    slot_entry *e = session_entry(s->slot, &s->n_slot, name);
    if (!e) return NULL;
    if (!e->latent.data) {
        if (!(e->latent.data = session_floats(s, s->count))) return NULL;
        memset(e->latent.data, 0, s->count * sizeof(float));
    }
    return &e->latent;
}

static double *session_scalars(const kiln_sampling *api, const char *name, size_t n)
{
    session *s = session_of(api);
    slot_entry *e = session_entry(s->number, &s->n_number, name);
    if (!e) return NULL;
    if (e->scalar && e->n != n) { /* only a state from elsewhere can say so */
        s->misfit = 1;
        return NULL;
    }
    if (!e->scalar) {
        e->n = n;
        e->scalar = s->job->call->host->scratch(s->job->call->ctx, n * sizeof(double), KILN_CPU);
        if (e->scalar) memset(e->scalar, 0, n * sizeof(double));
    }
    return e->scalar;
}

static kiln_status session_step(const kiln_sampling *api, size_t i, const kiln_latent *denoised)
{
    session *s = session_of(api);
    TRY(s->place.trouble);
    if (s->denoised.data && denoised)
        session_lincomb(api, &s->denoised, 1, (double[]){1}, (kiln_latent *[]){(kiln_latent *)(uintptr_t)denoised});
    kiln_status status = s->job->call->host->progress(s->job->call->ctx, i + 1, s->job->n, "step");
    state_after_step(s, i + 1);
    return status;
}

void session_api(session *s, const void *options)
{
    s->api = (kiln_sampling){.size = sizeof s->api,
                             .n = s->job->n,
                             .sigma = s->job->sigma,
                             .prediction = s->model->sampling.prediction,
                             .options = options,
                             .x = &s->x,
                             .seed = s->job->seed,
                             .self = s,
                             .denoise = session_denoise,
                             .unconditional = session_unconditional,
                             .lincomb = session_lincomb,
                             .norm = session_norm,
                             .noise = session_noise,
                             .slot = session_slot,
                             .scalars = session_scalars,
                             .step = session_step,
                             .resize = session_resize};
    session_measures(&s->api);
}
