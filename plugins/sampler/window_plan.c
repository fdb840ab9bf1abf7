/* window_plan.c - see window_plan.h. */
#include "window_plan.h"

#include "kiln/kit.h"

#include <math.h>

int64_t window_step(const kiln_sampling *session, double sigma)
{
    if (!session) return 0;
    size_t n = session->n, i = 0;
    while (i <= n && fabs(session->sigma[i] - sigma) > 1e-8 + 1e-4 * sigma) i++; /* one of the sampling's levels */
    if (i <= n) return (int64_t)i;
    for (i = 0; i + 1 < n && session->sigma[i + 1] > sigma;) i++; /* one between them */
    return (int64_t)i;
}

static kiln_status fill(window_plan *w, const kiln_call *c)
{
    w->now.n = 0;
    int there = w->by->at(w->by->self, w->pictures, w->step, w->i, &w->now);
    if (there >= 0) return w->now.n = there ? w->now.n : 0, KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "the model's context windows make no sense for %lld pictures: one would reach past the last; "
                         "take a smaller context_stride or a shorter context_length",
                         (long long)w->pictures);
}

kiln_status window_first(window_plan *w, const kiln_call *c, const kiln_model *m, const kiln_latent_shape *s,
                         size_t streams, int64_t step)
{
    size_t n = (size_t)s->pictures + 1;
    *w = (window_plan){.by = m->windows, .pictures = s->pictures, .step = step};
    if (!w->by) return KILN_OK;
    int64_t *index = c->host->scratch(c->ctx, 3 * n * sizeof *index, KILN_CPU);
    double *number = c->host->scratch(c->ctx, 2 * n * sizeof *number, KILN_CPU);
    if (!index || !number) return KILN_ERR_NOMEM;
    w->now = (kiln_window){
        .size = sizeof w->now, .x = index, .inputs = index + n, .to = index + 2 * n, .weight = number + n};
    w->total = number;
    memset(number, 0, n * sizeof *number);
    TRY(fill(w, c));
    if (w->now.n && streams)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "context windows of a latent of several streams (video and audio) are not possible");
    return KILN_OK;
}

kiln_status window_next(window_plan *w, const kiln_call *c)
{
    w->i++;
    return fill(w, c);
}

void window_count(window_plan *w)
{
    for (uint32_t i = 0; i < w->now.n; i++)
        if (w->now.to[i] >= 0) w->total[w->now.to[i]] += w->now.weight[i];
}

kiln_status window_covers(const window_plan *w, const kiln_call *c)
{
    for (int64_t i = 0; i < w->pictures; i++)
        if (!(w->total[i] > 0))
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "picture %lld of %lld is in none of the model's context windows at step %lld; take a "
                                 "larger context_overlap or another context_schedule",
                                 (long long)i + 1, (long long)w->pictures, (long long)w->step + 1);
    return KILN_OK;
}

int window_has(const window_plan *w, size_t i, size_t n)
{
    int64_t least = INT64_MAX, most = -1;
    if (!w || !w->by->split || n < 2) return 1;
    for (uint32_t k = 0; k < w->now.n; k++)
        if (w->now.to[k] >= 0) {
            least = w->now.to[k] < least ? w->now.to[k] : least;
            most = w->now.to[k] > most ? w->now.to[k] : most;
        }
    double middle = (double)(least + most) / (double)(2 * w->pictures);
    size_t region = (size_t)(middle * (double)n);
    return i == (region < n ? region : n - 1);
}

kiln_status window_takes(const window_plan *w, const kiln_call *c, const condition *entry)
{
    (void)w;
    if (entry->weights <= 1) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                         "a conditioning has a mask for each of several pictures, and the model evaluates them in "
                         "windows; give it one mask");
}
