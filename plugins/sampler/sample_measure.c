/* sample_measure.c - what a sampler asks of its session besides algebra: levels by share of the way, how far two
 * latents are apart, noise held within bounds, and saying why it cannot go on.
 */
#include "sample_session.h"

#include "model_sampling.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static session *session_of(const kiln_sampling *s) { return s->self; }

static kiln_status fail(const kiln_sampling *api, kiln_status status, const char *fmt, ...)
{
    const kiln_call *c = session_of(api)->job->call;
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return c->host->fail(c->ctx, status, "%s", text);
}

static double percent_to_sigma(const kiln_sampling *api, double percent)
{
    return model_sampling_percent_to_sigma(&session_of(api)->guide.counted, percent);
}

static double distance(const kiln_sampling *api, const kiln_latent *a, const kiln_latent *b, const kiln_latent *before,
                       double atol, double rtol)
{
    session *s = session_of(api);
    size_t count = s->count;
    const float *x = place_read(&s->place, a), *y = place_read(&s->place, b), *old = place_read(&s->place, before);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double most = fmax(fabs((double)x[i]), fabs((double)old[i]));
        double e = ((double)x[i] - (double)y[i]) / fmax(atol, rtol * most);
        sum += e * e;
    }
    return sqrt(sum / (double)count);
}

static void clip(const kiln_sampling *api, kiln_latent *x, double deviations)
{
    session *s = session_of(api);
    size_t count = s->count;
    double mean = 0, square = 0;
    if (count < 2) return;
    place_change(&s->place, x);
    for (size_t i = 0; i < count; i++) mean += (double)x->data[i] / (double)count;
    for (size_t i = 0; i < count; i++) square += ((double)x->data[i] - mean) * ((double)x->data[i] - mean);
    double most = deviations * sqrt(square / (double)(count - 1));
    for (size_t i = 0; i < count; i++) {
        double v = (double)x->data[i];
        x->data[i] = (float)(v > most ? most : v < -most ? -most : v);
    }
}

void session_measures(kiln_sampling *api)
{
    api->fail = fail;
    api->percent_to_sigma = percent_to_sigma;
    api->error = distance;
    api->clip = clip;
}
