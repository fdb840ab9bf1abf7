/* sample_measure.c - what a sampler asks of its session besides algebra: levels by share of the way, how far two
 * latents are apart, noise clipped, and saying why it cannot go on.
 *
 * error() and clip() look at single elements, which vector ops cannot: they work on copies on the host.
 */
#include "sample_session.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static kiln_session *session_of(const kiln_sampling *s) { return s->self; }

static kiln_status fail(const kiln_sampling *api, kiln_status status, const char *fmt, ...)
{
    const kiln_call *c = session_of(api)->call;
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return c->host->fail(c->ctx, status, "%s", text);
}

static double percent_to_sigma(const kiln_sampling *api, double percent)
{
    return model_sampling_percent_to_sigma(&session_of(api)->evaluator[0].counted, percent);
}

/* Host memory for n latents, taken once. NULL: no memory, which is noted. */
static float *host_copies(kiln_session *s, size_t n)
{
    size_t wanted = n * session_count(s);
    if (s->copies_capacity < wanted) {
        s->copies = session_floats(s, wanted);
        s->copies_capacity = s->copies ? wanted : 0;
    }
    if (!s->copies && s->space.failed == KILN_OK) s->space.failed = KILN_ERR_NOMEM;
    return s->copies;
}

static double distance(const kiln_sampling *api, const kiln_latent *a, const kiln_latent *b, const kiln_latent *before,
                       double atol, double rtol)
{
    kiln_session *s = session_of(api);
    const kiln_latents *l = &s->space.algebra;
    size_t count = session_count(s);
    float *x = kit_estimating(s->call) ? NULL : host_copies(s, 3), *y, *old;
    double sum = 0;
    if (!x) return 0;
    l->download(l, a, x), l->download(l, b, y = x + count), l->download(l, before, old = y + count);
    for (size_t i = 0; i < count; i++) {
        double most = fmax(fabs((double)x[i]), fabs((double)old[i]));
        double e = ((double)x[i] - (double)y[i]) / fmax(atol, rtol * most);
        sum += e * e;
    }
    return sqrt(sum / (double)count);
}

static void clip(const kiln_sampling *api, kiln_latent *x, double deviations)
{
    kiln_session *s = session_of(api);
    const kiln_latents *l = &s->space.algebra;
    size_t count = session_count(s);
    double mean = 0, square = 0;
    float *data = kit_estimating(s->call) || count < 2 ? NULL : host_copies(s, 1);
    if (!data) return;
    l->download(l, x, data);
    for (size_t i = 0; i < count; i++) mean += (double)data[i] / (double)count;
    for (size_t i = 0; i < count; i++) square += ((double)data[i] - mean) * ((double)data[i] - mean);
    double most = deviations * sqrt(square / (double)(count - 1));
    for (size_t i = 0; i < count; i++) {
        double v = (double)data[i];
        data[i] = (float)(v > most ? most : v < -most ? -most : v);
    }
    l->upload(l, x, data);
}

void session_measures(kiln_sampling *api)
{
    api->fail = fail;
    api->percent_to_sigma = percent_to_sigma;
    api->error = distance;
    api->clip = clip;
}
