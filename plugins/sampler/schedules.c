/* schedules.c - noise levels for n steps, descending to 0.
 *
 * S is the ascending table of training sigmas, N its length; where a model has no table the rows that
 * need one make 1000 levels between sigma_min and sigma_max, evenly spaced in log sigma. Karras et al.
 * 2022 (karras), k-diffusion (exponential), "Align your steps" authors' kl_optimal as ComfyUI has it,
 * "Beta sampling is all you need" 2024 (beta); the others are spacings of the training table.
 */
#include "schedules.h"

#include "beta_quantile.h"
#include "kiln/standard_sampling.h"

#include <math.h>

enum { TABLE_MADE = 1000 };

typedef struct {
    double *out;
    size_t capacity, n;
} writer;

static void put(writer *w, double sigma)
{
    if (w->n < w->capacity) w->out[w->n] = sigma;
    w->n++;
}

typedef struct {
    const double *s;
    size_t n;
} table_view;

/* The model's table, or the one made for a continuous model. */
static table_view table_of(const kiln_schedule_input *in, double made[TABLE_MADE])
{
    if (in->sigma && in->n_sigma > 1) return (table_view){in->sigma, in->n_sigma};
    double a = log(in->sigma_min), b = log(in->sigma_max);
    for (int i = 0; i < TABLE_MADE; i++) made[i] = exp(a + (b - a) * i / (TABLE_MADE - 1));
    return (table_view){made, TABLE_MADE};
}

/* linspace(a, b, n)[i]; n == 1 is a. */
static double between(double a, double b, size_t i, size_t n)
{
    return n < 2 ? a : a + (b - a) * (double)i / (double)(n - 1);
}

static int counts_itself(const kiln_schedule_input *in)
{
    return KILN_HAS(kiln_schedule_input, in, sigma_at) && in->sigma_at;
}

static double timestep_of(const kiln_schedule_input *in, table_view t, double sigma)
{
    return counts_itself(in) ? in->timestep(in->self, sigma) : kiln_sigma_to_t(t.s, t.n, sigma);
}

static double level_of(const kiln_schedule_input *in, table_view t, double timestep)
{
    return counts_itself(in) ? in->sigma_at(in->self, timestep) : kiln_t_to_sigma(t.s, t.n, timestep);
}

static size_t spaced(const kiln_schedule_input *in, double *out, size_t capacity, int sgm)
{
    double made[TABLE_MADE];
    table_view t = table_of(in, made);
    writer w = {out, capacity, 0};
    double start = timestep_of(in, t, in->sigma_max), end = timestep_of(in, t, in->sigma_min);
    size_t points = in->steps + (sgm ? 1 : 0);
    int ends_at_zero = !sgm && level_of(in, t, end) < 1e-5;
    if (ends_at_zero) points++;
    for (size_t i = 0; i < in->steps + (ends_at_zero ? 1 : 0); i++)
        put(&w, level_of(in, t, between(start, end, i, points)));
    if (ends_at_zero && w.n && w.n <= capacity) out[w.n - 1] = 0;
    if (!ends_at_zero) put(&w, 0);
    return w.n;
}

static size_t make_normal(const kiln_schedule_input *in, double *out, size_t capacity)
{
    return spaced(in, out, capacity, 0);
}
static size_t make_sgm_uniform(const kiln_schedule_input *in, double *out, size_t capacity)
{
    return spaced(in, out, capacity, 1);
}

static size_t make_simple(const kiln_schedule_input *in, double *out, size_t capacity)
{
    double made[TABLE_MADE];
    table_view t = table_of(in, made);
    writer w = {out, capacity, 0};
    double stride = (double)t.n / (double)in->steps;
    for (size_t i = 0; i < in->steps; i++) {
        size_t back = 1 + (size_t)((double)i * stride);
        put(&w, t.s[t.n - (back < t.n ? back : t.n)]);
    }
    put(&w, 0);
    return w.n;
}

/* May give more than steps + 1 levels, and begins below sigma_max: as its users expect it. */
static size_t make_ddim_uniform(const kiln_schedule_input *in, double *out, size_t capacity)
{
    double made[TABLE_MADE];
    table_view t = table_of(in, made);
    int ends_at_zero = t.s[1] < 1e-5; /* a rescaled table has its own zero */
    size_t steps = in->steps + (ends_at_zero ? 1 : 0), count = 0;
    size_t stride = t.n / steps > 0 ? t.n / steps : 1;
    for (size_t x = 1; x < t.n; x += stride) count++;
    writer w = {out, capacity, 0};
    for (size_t i = count; i-- > 0;) put(&w, t.s[1 + i * stride]);
    if (!ends_at_zero) put(&w, 0);
    return w.n;
}

static size_t make_karras(const kiln_schedule_input *in, double *out, size_t capacity)
{
    const double rho = 7;
    double a = pow(in->sigma_max, 1 / rho), b = pow(in->sigma_min, 1 / rho);
    writer w = {out, capacity, 0};
    for (size_t i = 0; i < in->steps; i++) put(&w, pow(between(a, b, i, in->steps), rho));
    put(&w, 0);
    return w.n;
}

static size_t make_exponential(const kiln_schedule_input *in, double *out, size_t capacity)
{
    writer w = {out, capacity, 0};
    for (size_t i = 0; i < in->steps; i++) put(&w, exp(between(log(in->sigma_max), log(in->sigma_min), i, in->steps)));
    put(&w, 0);
    return w.n;
}

static size_t make_kl_optimal(const kiln_schedule_input *in, double *out, size_t capacity)
{
    writer w = {out, capacity, 0};
    for (size_t i = 0; i < in->steps; i++)
        put(&w, tan(between(atan(in->sigma_max), atan(in->sigma_min), i, in->steps)));
    put(&w, 0);
    return w.n;
}

/* Consecutive equal table places are dropped, so there may be fewer steps than asked for. */
size_t schedule_beta(const kiln_schedule_input *in, double alpha, double beta, double *out, size_t capacity)
{
    double made[TABLE_MADE];
    table_view t = table_of(in, made);
    writer w = {out, capacity, 0};
    double last = -1;
    for (size_t i = 0; i < in->steps; i++) {
        double place = rint(beta_quantile(1 - (double)i / (double)in->steps, alpha, beta) * (double)(t.n - 1));
        if (place == last) continue;
        last = place;
        put(&w, t.s[(size_t)place]);
    }
    put(&w, 0);
    return w.n;
}

static size_t make_beta(const kiln_schedule_input *in, double *out, size_t capacity)
{
    return schedule_beta(in, 0.6, 0.6, out, capacity);
}

/* sigma = sigma_max (1 - s): s rises linearly to 0.025 over the first half, then quadratically to 1
 * with the same slope where they meet (Movie Gen 2024, appendix). */
static size_t make_linear_quadratic(const kiln_schedule_input *in, double *out, size_t capacity)
{
    const double threshold = 0.025;
    writer w = {out, capacity, 0};
    size_t n = in->steps, half = n / 2;
    if (n == 1) {
        put(&w, in->sigma_max);
        put(&w, 0);
        return w.n;
    }
    double h = (double)half, q = (double)(n - half);
    double slope = threshold / h;
    double difference = h - threshold * (double)n;
    double quadratic = difference / (h * q * q);
    double linear = threshold / h - 2 * difference / (q * q);
    double constant = quadratic * h * h;
    for (size_t i = 0; i < half; i++) put(&w, in->sigma_max * (1 - slope * (double)i));
    for (size_t i = half; i < n; i++) {
        double x = (double)i;
        put(&w, in->sigma_max * (1 - (quadratic * x * x + linear * x + constant)));
    }
    put(&w, 0);
    return w.n;
}

#define ROW(id, text, origin)                                                                                          \
    static const kiln_schedule row_##id = {                                                                            \
        .size = sizeof(kiln_schedule), .name = #id, .doc = text, .source = origin, .make = make_##id}
ROW(simple, "Every N/steps-th level of the training table, from the top.", "ComfyUI");
ROW(sgm_uniform, "Timesteps evenly spaced over steps + 1, without the last.", "Stability generative-models");
ROW(karras, "sigma^(1/7) evenly spaced: small steps at low noise.", "Karras et al. 2022, eq. 5");
ROW(exponential, "log sigma evenly spaced.", "k-diffusion");
ROW(ddim_uniform, "DDIM's spacing of the training table; may make a step more.", "Song et al. 2020");
ROW(beta, "Timesteps at quantiles of Beta(0.6, 0.6): dense at both ends.", "Lee et al. 2024");
ROW(normal, "Timesteps evenly spaced.", "k-diffusion get_sigmas");
ROW(linear_quadratic, "Linear for the first half, then quadratic.", "Polyak et al. 2024");
ROW(kl_optimal, "atan sigma evenly spaced.", "Sabour et al. 2024");
#undef ROW

const kiln_schedule *const schedule_rows[] = {
    &row_simple, &row_sgm_uniform, &row_karras,           &row_exponential, &row_ddim_uniform,
    &row_beta,   &row_normal,      &row_linear_quadratic, &row_kl_optimal,
};
const size_t schedule_row_count = sizeof schedule_rows / sizeof schedule_rows[0];
