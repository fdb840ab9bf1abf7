/* flow.c - how the toy counts noise: a rectified flow, x = (1 - sigma) clean + sigma noise, whose network says the
 * velocity. Nothing of standard_sampling.h is used.
 *
 * The levels are shifted towards noise, more for larger videos and for more steps: a share u of the way is level
 * s u / (1 + (s - 1) u) with s = 1 + cells / 40 + steps / 100. A run tells both (kiln_run_facts); where it knows
 * neither, s is 1.
 */
#include "video.h"

static double shift_of(const kiln_run_facts *facts)
{
    return facts ? 1 + (double)facts->cells / 40 + (double)facts->steps / 100 : 1;
}

static double shifted(double share, const kiln_run_facts *facts)
{
    double s = shift_of(facts);
    return s * share / (1 + (s - 1) * share);
}

/* x0 = x - sigma v; the network sees x as it is. */
static void level(const kiln_model_sampling *self, double sigma, kiln_level *out)
{
    (void)self;
    out->input = 1, out->of_x = 1, out->of_prediction = -sigma;
    out->clean = 1 - sigma, out->noise = sigma;
}

static double timestep(const kiln_model_sampling *self, double sigma) { return (void)self, 1000 * sigma; }

static double sigma_at(const kiln_model_sampling *self, double t, const kiln_run_facts *facts)
{
    return (void)self, shifted(t / 1000, facts);
}

static double percent_to_sigma(const kiln_model_sampling *self, double percent, const kiln_run_facts *facts)
{
    (void)self;
    return percent <= 0 ? 1 : percent >= 1 ? 0 : shifted(1 - percent, facts);
}

const kiln_model_sampling video_flow = {
    .size = sizeof video_flow,
    .process = KILN_PROCESS_FLOW,
    .identity = "example video flow 1",
    .sigma_min = 0.001,
    .sigma_max = 1,
    .n_sigma = 100, /* no table: its levels are shares of the way, which follow from the run */
    .level = level,
    .timestep = timestep,
    .sigma_at = sigma_at,
    .percent_to_sigma = percent_to_sigma,
};
