/* model_sampling.c - see model_sampling.h. */
#include "model_sampling.h"

#include "schedules.h"

#include <math.h>

static const double half_pi = 1.57079632679489661923;
/* The last alpha-bar of a zero-terminal table: what Lin et al.'s 0 is in the released v-prediction models, so that
 * the level stays finite (4518.7). */
static const double last_alpha = 4.8973451890853435e-08;

model_sampling model_sampling_of(const kiln_model *model)
{
    const kiln_model_sampling *given = &model->sampling;
    return (model_sampling){.sigma = given->sigma,
                            .n = given->n_sigma,
                            .prediction = given->prediction,
                            .time = given->time,
                            .offset = given->offset,
                            .multiplier = given->multiplier != 0 ? given->multiplier : 1,
                            .shift = given->shift != 0 ? given->shift : 1,
                            .sigma_data = given->sigma_data != 0 ? given->sigma_data : 1};
}

double model_sampling_sigma_min(const model_sampling *l) { return l->sigma[0]; }
double model_sampling_sigma_max(const model_sampling *l) { return l->sigma[l->n - 1]; }

/* ---- timesteps ---- */

/* The entry nearest in log sigma; of two equally near the lower one. */
static double nearest_place(const model_sampling *l, double sigma)
{
    double place = sigma_to_t(l->sigma, l->n, sigma), low = floor(place);
    return place - low > 0.5 ? low + 1 : low;
}

double model_sampling_timestep(const model_sampling *l, double sigma)
{
    switch (l->time) {
    case KILN_TIME_NEAREST: return l->multiplier * nearest_place(l, sigma) + l->offset;
    case KILN_TIME_LOG: return log(sigma) / 4;
    case KILN_TIME_ANGLE: return atan(sigma) / half_pi;
    case KILN_TIME_FLOW: return l->multiplier * sigma;
    case KILN_TIME_RATIO: return sigma / (1 + sigma);
    default: return l->multiplier * sigma_to_t(l->sigma, l->n, sigma) + l->offset;
    }
}

static double shifted(const model_sampling *l, double share) { return l->shift * share / (1 + (l->shift - 1) * share); }

/* The inverse of sigma / (1 + sigma), up to the top level. */
static double of_ratio(const model_sampling *l, double timestep)
{
    double top = model_sampling_sigma_max(l);
    return timestep >= top / (1 + top) ? top : timestep / (1 - timestep);
}

double model_sampling_sigma(const model_sampling *l, double timestep)
{
    switch (l->time) {
    case KILN_TIME_LOG: return exp(4 * timestep);
    case KILN_TIME_ANGLE: return tan(timestep * half_pi);
    case KILN_TIME_FLOW: return shifted(l, timestep / l->multiplier);
    case KILN_TIME_RATIO: return of_ratio(l, timestep);
    default: return t_to_sigma(l->sigma, l->n, (timestep - l->offset) / l->multiplier);
    }
}

/* The table's top timestep is its whole length for both readings of a table; the continuous ones are spaced in log
 * sigma between their ends, which is what their table has. */
double model_sampling_percent_to_sigma(const model_sampling *l, double percent)
{
    if (percent >= 1) return 0;
    if (l->time == KILN_TIME_FLOW) return percent <= 0 ? 1 : shifted(l, 1 - percent);
    if (percent <= 0) return INFINITY;
    if (l->time == KILN_TIME_LOG || l->time == KILN_TIME_ANGLE || l->time == KILN_TIME_RATIO)
        return t_to_sigma(l->sigma, l->n, (1 - percent) * (double)(l->n - 1));
    double top = l->multiplier * (double)(l->n - 1) + l->offset;
    return model_sampling_sigma(l, (1 - percent) * top);
}

/* ---- scaling ---- */

/* x0 = skip x + out (x - sigma p), with out falling to 0 at timestep 0: Luo et al. 2023 (LCM), eq. 9 and its code's
 * timestep scaling of 10. */
static level_scaling consistency(const model_sampling *l, double sigma, level_scaling s)
{
    const double d = 0.5;
    double u = 10 * model_sampling_timestep(l, sigma), out = u / sqrt(u * u + d * d), skip = d * d / (u * u + d * d);
    s.of_x = out + skip;
    s.of_prediction = -sigma * out;
    return s;
}

/* Sources at kiln_prediction in model.h. */
level_scaling model_sampling_scaling(const model_sampling *l, double sigma)
{
    double d = l->sigma_data, variance = sigma * sigma + d * d;
    level_scaling s = {.input = 1 / sqrt(variance), .of_x = 1, .of_prediction = -sigma};
    switch (l->prediction) {
    case KILN_PREDICT_V: s.of_x = d * d / variance, s.of_prediction = -sigma * d / sqrt(variance); break;
    case KILN_PREDICT_EDM: s.of_x = d * d / variance, s.of_prediction = sigma * d / sqrt(variance); break;
    case KILN_PREDICT_X0: s.of_x = 0, s.of_prediction = 1; break;
    case KILN_PREDICT_FLOW: s.input = 1; break;
    case KILN_PREDICT_IMAGE:
    case KILN_PREDICT_IMAGE_FLOW: s.input = 1, s.of_x = 0, s.of_prediction = 1; break;
    case KILN_PREDICT_RFLOW: s.input = s.of_x = 1 / (1 + sigma), s.of_prediction = -sigma / (1 + sigma); break;
    case KILN_PREDICT_LCM: return consistency(l, sigma, s);
    default: break;
    }
    return s;
}

level_blend model_sampling_blend(const model_sampling *l, double sigma)
{
    int flow = l->prediction == KILN_PREDICT_FLOW;
    if (l->prediction == KILN_PREDICT_IMAGE_FLOW) return (level_blend){.of_noise = 0, .of_latent = 1};
    return (level_blend){.of_noise = sigma, .of_latent = flow ? 1 - sigma : 1};
}

level_blend model_sampling_start(const model_sampling *l, double sigma)
{
    double top = model_sampling_sigma_max(l);
    level_blend b = model_sampling_blend(l, sigma);
    int whole = sigma > top || fabs(sigma - top) <= 1e-5 * top;
    int blends = l->prediction == KILN_PREDICT_FLOW || l->prediction == KILN_PREDICT_RFLOW ||
                 l->prediction == KILN_PREDICT_IMAGE_FLOW;
    if (whole && !blends) b.of_noise = sqrt(1 + sigma * sigma);
    return b;
}

level_rest model_sampling_rest(const model_sampling *l, double sigma)
{
    if (l->prediction == KILN_PREDICT_IMAGE_FLOW) return (level_rest){.minus = 1, .divided_by = -1};
    return (level_rest){.divided_by = l->prediction == KILN_PREDICT_FLOW && sigma > 0 && sigma < 1 ? 1 - sigma : 1};
}

/* ---- tables ---- */

static double schedule_timestep(const void *self, double sigma) { return model_sampling_timestep(self, sigma); }
static double schedule_sigma(const void *self, double timestep) { return model_sampling_sigma(self, timestep); }

kiln_schedule_input model_sampling_schedule_input(const model_sampling *l, size_t steps)
{
    return (kiln_schedule_input){.size = sizeof(kiln_schedule_input),
                                 .steps = steps,
                                 .sigma = l->sigma,
                                 .n_sigma = l->n,
                                 .sigma_min = model_sampling_sigma_min(l),
                                 .sigma_max = model_sampling_sigma_max(l),
                                 .self = l,
                                 .timestep = schedule_timestep,
                                 .sigma_at = schedule_sigma};
}

void model_sampling_zero_terminal_snr(const double *sigma, size_t n, double *out)
{
    double first = 1 / sqrt(sigma[0] * sigma[0] + 1), last = 1 / sqrt(sigma[n - 1] * sigma[n - 1] + 1);
    for (size_t i = 0; i < n; i++) {
        double root = (1 / sqrt(sigma[i] * sigma[i] + 1) - last) * first / (first - last);
        double alpha = i + 1 == n ? last_alpha : root * root;
        out[i] = sqrt((1 - alpha) / alpha);
    }
}
