/* cosine_schedule.c - a schedule: once this plugin is on the search path, the lists of schedules have "example_cosine".
 * Shows: a row of the open table of schedules, and what a schedule is asked.
 *
 * log sigma goes from its greatest to its least along half a cosine, so that steps are short at both ends.
 */
#include "kiln/sampler.h"

#include <math.h>

static size_t make(const kiln_schedule_input *in, double *out, size_t capacity)
{
    static const double pi = 3.14159265358979323846;
    const double high = log(in->sigma_max), low = log(in->sigma_min);
    const size_t n = in->steps;
    for (size_t i = 0; i < n && i < capacity; i++) {
        double share = n > 1 ? (1 + cos(pi * (double)i / (double)(n - 1))) / 2 : 1;
        out[i] = exp(low + share * (high - low));
    }
    if (n < capacity) out[n] = 0;
    return n + 1;
}

static const kiln_schedule cosine = {
    .size = sizeof cosine,
    .name = "example_cosine",
    .doc = "Short steps at both ends of log sigma.",
    .source = "half a cosine over log sigma",
    .make = make,
};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampler_api *samplers = host->ability(KILN_SAMPLER_ABILITY);
    return samplers ? samplers->register_schedule(&cosine) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_WITHOUT_NODES("org.example.cosine-schedule", "1.0.0", "MIT", open_plugin);
