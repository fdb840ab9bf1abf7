/* guidance.c - see guidance.h. Sums are in double. */
#include "guidance.h"

#include <math.h>

static double at(const float *x, size_t i) { return x ? (double)x[i] : 0; }

/* ---- perp-neg ---- */

static void perpendicular_one(const kiln_guesses *g, size_t from, double scale)
{
    double dot = 0, square = 0;
    for (size_t i = from; i < from + g->count; i++) {
        double p = at(g->positive, i) - at(g->extra, i), q = at(g->negative, i) - at(g->extra, i);
        dot += p * q, square += p * p;
    }
    double along = square > 0 ? dot / square : 0;
    for (size_t i = from; i < from + g->count; i++) {
        double e = at(g->extra, i), p = at(g->positive, i) - e, q = at(g->negative, i) - e;
        g->x0[i] = (float)(e + g->cfg * (p - scale * (q - along * p)));
    }
}

void perpendicular(const kiln_guesses *g, double scale)
{
    for (size_t b = 0; b < g->batch; b++) perpendicular_one(g, b * g->count, scale);
}

/* ---- rescale ---- */

/* v = (x / (s^2+1) - x0) sqrt(s^2+1) / s and back: linear in x0, so that guided v is v of guided x0. */
typedef struct {
    double of_x, of_x0;
} linear;

static linear measure_of(const kiln_guesses *g)
{
    double s = g->sigma, variance = s * s + 1;
    if (g->prediction == KILN_PREDICT_FLOW || g->prediction == KILN_PREDICT_IMAGE_FLOW || s == 0) return (linear){0, 1};
    return (linear){1 / (sqrt(variance) * s), -sqrt(variance) / s};
}

static double guided_at(const kiln_guesses *g, size_t i)
{
    double u = at(g->negative, i);
    return u + g->cfg * (at(g->positive, i) - u);
}

/* Standard deviation with n - 1 below, in two passes, of the conditional or the guided guess. */
static double spread(const kiln_guesses *g, linear m, size_t from, int guided)
{
    double sum = 0, squares = 0;
    for (size_t i = from; i < from + g->count; i++)
        sum += m.of_x * at(g->x, i) + m.of_x0 * (guided ? guided_at(g, i) : at(g->positive, i));
    double mean = sum / (double)g->count;
    for (size_t i = from; i < from + g->count; i++) {
        double d = m.of_x * at(g->x, i) + m.of_x0 * (guided ? guided_at(g, i) : at(g->positive, i)) - mean;
        squares += d * d;
    }
    return g->count > 1 ? sqrt(squares / (double)(g->count - 1)) : 0;
}

void rescaled(const kiln_guesses *g, double multiplier)
{
    linear m = measure_of(g);
    for (size_t b = 0; b < g->batch; b++) {
        size_t from = b * g->count;
        double wanted = spread(g, m, from, 0), have = spread(g, m, from, 1);
        double factor = have > 0 ? multiplier * wanted / have + 1 - multiplier : 1;
        for (size_t i = from; i < from + g->count; i++) {
            double v = (m.of_x * at(g->x, i) + m.of_x0 * guided_at(g, i)) * factor;
            g->x0[i] = (float)((v - m.of_x * at(g->x, i)) / m.of_x0);
        }
    }
}
