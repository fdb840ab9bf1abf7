/* sample_levels.c - the noise levels of a sampling: a schedule's for a model, and SIGMAS values; see sample.h. */
#include "sample.h"

#include "kiln/kit.h"
#include "options.h"

#include <math.h>

enum { STEPS_MAX = 20000 };

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

static kiln_status find_schedule(const kiln_call *c, const char *name, const kiln_schedule **out)
{
    const kiln_sampler_api *api = c->host->ability(KILN_SAMPLER_ABILITY);
    *out = api->schedule(name);
    return *out ? KILN_OK
                : unknown(c, "scheduler", name, options_nearest(c, name, api->schedule_count(), schedule_name, api));
}

kiln_status sample_model_sampling(const kiln_call *c, const kiln_value *model, model_sampling *out)
{
    const kiln_model *m = ((const kiln_model_api *)c->host->ability(KILN_MODEL_ABILITY))->model(c->ctx, model);
    if (!m) return KILN_ERR_INVALID;
    *out = model_sampling_of(m);
    return KILN_OK;
}

/* ---- a schedule's levels ---- */

/* Steps the schedule is made for: of them the last options->steps are taken. */
static kiln_status whole_steps(const kiln_call *c, const kiln_sigma_options *options, size_t *out)
{
    double wanted =
        options->denoise > 0.9999 ? (double)options->steps : floor((double)options->steps / options->denoise);
    *out = (size_t)wanted;
    if (wanted <= STEPS_MAX) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "%lld steps at denoise %g make %.0f steps; at most %d are possible",
                         (long long)options->steps, options->denoise, wanted, STEPS_MAX);
}

/* What the levels may follow from. */
static kiln_status tell_facts(const kiln_call *c, const kiln_sigma_options *options, size_t steps,
                              kiln_run_facts *facts)
{
    kiln_tensor t;
    facts->steps = (int64_t)steps;
    if (!KILN_HAS(kiln_sigma_options, options, latent) || !options->latent) return KILN_OK;
    TRY(kit_samples(c, options->latent, &t));
    for (facts->cells = 1; t.rank > 2; t.rank--) facts->cells *= t.dim[t.rank - 2];
    return KILN_OK;
}

/* The schedule's levels as a SIGMAS value holds them, in f32: one picture either way. */
static kiln_status make_levels(const kiln_call *c, const kiln_schedule *row, const kiln_schedule_input *in,
                               double **out, size_t *have)
{
    size_t capacity = 2 * in->steps + 8;
    double *made = c->host->scratch(c->ctx, capacity * sizeof *made, KILN_CPU);
    if (!made) return KILN_ERR_NOMEM;
    *have = row->make(in, made, capacity);
    if (*have < 2 || *have > capacity)
        return c->host->fail(c->ctx, KILN_ERR_BUG, "scheduler '%s' made %zu levels for %zu steps", row->name, *have,
                             in->steps);
    for (size_t i = 0; i < *have; i++) made[i] = (double)(float)made[i];
    *out = made;
    return KILN_OK;
}

kiln_status sample_sigmas(const kiln_call *c, const kiln_value *model, const kiln_sigma_options *options,
                          double **sigma, size_t *n)
{
    const kiln_schedule *row;
    model_sampling counted;
    size_t all, have, steps = (size_t)options->steps, extra = options->drop_last_but_one ? 1 : 0;
    double *made = NULL;
    *n = 0;
    *sigma = NULL;
    TRY(sample_model_sampling(c, model, &counted));
    TRY(find_schedule(c, options->schedule, &row));
    if (options->denoise <= 0) return KILN_OK; /* nothing to do: the latent comes back as it is */
    TRY(whole_steps(c, options, &all));
    TRY(tell_facts(c, options, all, &counted.facts));
    kiln_schedule_input in;
    TRY(model_sampling_schedule_input(c, &counted, all + extra, &in));
    TRY(make_levels(c, row, &in, &made, &have));
    if (extra && have > 2) made[have - 2] = made[have - 1], have--;
    int whole = options->denoise > 0.9999;
    size_t keep = (whole && !options->at_most_steps) || have <= steps + 1 ? have : steps + 1;
    *sigma = made + (have - keep);
    *n = keep - 1;
    return KILN_OK;
}

/* ---- SIGMAS ---- */

kiln_status sigmas_new(const kiln_call *c, const double *sigma, size_t n, kiln_value **out)
{
    kiln_tensor t;
    TRY(kit_new_f32(c, 1, (const int64_t[]){(int64_t)n}, out, &t));
    for (size_t i = 0; i < n && !kit_estimating(c); i++) ((float *)t.data)[i] = (float)sigma[i];
    return KILN_OK;
}

kiln_status sigmas_read(const kiln_call *c, const kiln_value *sigmas, const kiln_value *model, double **sigma,
                        size_t *n)
{
    model_sampling counted;
    kiln_tensor t;
    double first = 1;
    TRY(kit_f32(c, sigmas, 1, "sigmas", &t));
    *n = (size_t)t.dim[0];
    *sigma = c->host->scratch(c->ctx, (*n + 1) * sizeof **sigma, KILN_CPU);
    if (!*sigma) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < *n && !kit_estimating(c); i++) (*sigma)[i] = (double)((const float *)t.data)[i];
    if (!kit_estimating(c)) return KILN_OK;
    if (model) {
        TRY(sample_model_sampling(c, model, &counted));
        first = model_sampling_sigma_max(&counted);
    }
    for (size_t i = 0; i < *n; i++) (*sigma)[i] = first * (double)(*n - 1 - i) / (double)(*n > 1 ? *n - 1 : 1);
    return KILN_OK;
}
