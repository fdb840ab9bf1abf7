/* guide_there.c - guide.h's denoising where the latents lie on the device: nothing but the timestep goes there and one
 * number comes back.
 *
 * For what most samplings are: each conditioning speaks for the whole picture with one weight, and the guesses are
 * summed by numbers (the guider's `linear`). The sums and their roundings are those of guide.c and guider.c. What is
 * not so is done there, on the host.
 */
#include "guide.h"

#include "kiln/kit.h"

#include <math.h>
#include <string.h>

static size_t numbers(const guide *g) { return (size_t)(g->batch * g->height * g->width * g->channels); }

static int speaks_for_all(const guide *g, const condition *e)
{
    return !e->weight && e->y == 0 && e->x == 0 && e->h == g->height && e->w == g->width;
}

int guide_may_lie_there(const guide *g)
{
    const condition *first = NULL;
    if (!g->by->kind->linear || g->model->n_guidance || g->other) return 0;
    for (int k = 0; k < GUIDER_SETS && g->by->kind->set[k]; k++)
        for (size_t i = 0; i < g->set[k].given.n; i++) {
            const condition *e = &g->set[k].given.entry[i];
            if (!first) first = e;
            if (!speaks_for_all(g, e) || e->length != first->length || e->width != first->width) return 0;
        }
    return first != NULL;
}

/* The set's one entry that holds at sigma; NULL: there is none, or more than one. */
static const condition *only_one(const guide_set *s, double sigma)
{
    const condition *found = NULL;
    for (size_t i = 0; i < s->given.n; i++) {
        const condition *e = &s->given.entry[i];
        if (sigma > e->sigma_start || sigma < e->sigma_end) continue;
        if (found) return NULL;
        found = e;
    }
    return found;
}

static kiln_status there_capacity(guide *g, float **to, size_t n)
{
    if (!*to) *to = place_floats(g->place, n);
    return *to ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status sum(const guide *g, float *out, uint32_t terms, const double *c, const float *const *x)
{
    return g->place->ops->combine(g->call->ctx, out, numbers(g), terms, c, x);
}

/* Timesteps and tokens of `count` pictures, on the host. */
static kiln_status fill_host_inputs(guide *g, const condition *const *entry, size_t n_entry, double sigma,
                                    float **timestep, float **context)
{
    size_t tokens = (size_t)(entry[0]->length * entry[0]->width), count = n_entry * (size_t)g->batch;
    if (count * (tokens + 1) > g->work_capacity) {
        if (!(g->work = g->call->host->scratch(g->call->ctx, count * (tokens + 1) * sizeof(float), KILN_CPU)))
            return KILN_ERR_NOMEM;
        g->work_capacity = count * (tokens + 1);
    }
    *context = g->work, *timestep = g->work + count * tokens;
    for (size_t i = 0; i < n_entry; i++) guide_gather_tokens(g, entry[i], *context + i * (size_t)g->batch * tokens);
    for (size_t i = 0; i < count; i++) (*timestep)[i] = (float)model_sampling_timestep(&g->counted, sigma);
    return KILN_OK;
}

/* The guesses of the wanted sets at x; KILN_ERR_UNSUPPORTED: not so simple at this level. */
static kiln_status evaluate(guide *g, uint32_t wanted, const float *x, double sigma)
{
    const condition *entry[GUIDER_SETS];
    size_t n = numbers(g), n_entry = 0, at = 0;
    level_scaling scale = model_sampling_scaling(&g->counted, sigma);
    float *timestep, *context;
    for (int k = 0; k < GUIDER_SETS; k++)
        if (wanted & 1u << k && !(entry[n_entry++] = only_one(&g->set[k], sigma))) return KILN_ERR_UNSUPPORTED;
    if (!n_entry) return KILN_ERR_UNSUPPORTED;
    TRY(there_capacity(g, &g->in_there, GUIDER_SETS * n));
    TRY(there_capacity(g, &g->out_there, GUIDER_SETS * n));
    TRY(fill_host_inputs(g, entry, n_entry, sigma, &timestep, &context));
    for (size_t i = 0; i < n_entry; i++) TRY(sum(g, g->in_there + i * n, 1, &scale.input, &x));
    TRY(guide_evaluate(g, g->model, (int64_t)n_entry * g->batch, entry[0], g->place->device, g->in_there, timestep,
                       context, g->out_there));
    for (int k = 0; k < GUIDER_SETS; k++) {
        if (!(wanted & 1u << k)) continue;
        TRY(there_capacity(g, &g->set[k].guess_there, n));
        TRY(sum(g, g->set[k].guess_there, 2, (double[]){scale.of_x, scale.of_prediction},
                (const float *[]){x, g->out_there + at++ * n}));
    }
    return KILN_OK;
}

static kiln_status check_finite(const guide *g, const float *x0, double sigma)
{
    double norm = 0;
    TRY(g->place->ops->norm(g->call->ctx, x0, numbers(g), &norm));
    return isfinite(norm) ? KILN_OK : guide_not_finite(g, sigma);
}

kiln_status guide_denoise_there(guide *g, const float *x, double sigma, float *out)
{
    uint32_t wanted = g->by->kind->wants(g->by) | g->always;
    double weight[GUIDER_SETS] = {0}, c[GUIDER_SETS];
    const float *guess[GUIDER_SETS];
    uint32_t terms = 0;
    TRY(there_capacity(g, &g->x_there, numbers(g)));
    TRY(sum(g, g->x_there, 1, (double[]){1}, &x));
    TRY(evaluate(g, wanted, g->x_there, sigma));
    g->by->kind->linear(g->by, weight);
    for (int k = 0; k < GUIDER_SETS; k++)
        if (wanted & 1u << k && weight[k] != 0) c[terms] = weight[k], guess[terms++] = g->set[k].guess_there;
    TRY(sum(g, out, terms, c, guess));
    g->evaluated = wanted, g->sigma = sigma, g->lies_there = 1;
    return check_finite(g, out, sigma);
}

kiln_status guide_unconditional_there(guide *g, float *out)
{
    int set = g->by->kind->unconditional;
    uint32_t bit = set < 0 ? 0 : 1u << set;
    if (set < 0) return guide_unconditional(g, NULL); /* says why not */
    if (!(g->evaluated & bit)) TRY(evaluate(g, bit, g->x_there, g->sigma));
    g->evaluated |= bit;
    g->always |= bit;
    TRY(sum(g, out, 1, (double[]){1}, (const float *[]){g->set[set].guess_there}));
    return check_finite(g, out, g->sigma);
}
