/* lora_delta.c - see lora_delta.h. Norms by inputs need all rows: the differences are computed first, all of them, then
 * the norms, then the rows. */
#include "lora_delta.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 64 }; /* rows, or inputs, that one thread takes at a time */

static int axis_of(const kiln_weight_call *c) { return (int)c->option[DORA_AXIS]; }

size_t delta_rows(const kiln_weight_call *c) { return axis_of(c) == DORA_COLUMNS ? c->rows : 1; }

static size_t inputs_of(const kiln_weight_call *c) { return c->rank > 1 ? (size_t)c->dim[1] : 1; }

static size_t per_row(const kiln_weight_call *c, const delta_kind *d)
{
    return c->columns + (d->scratch ? d->scratch(c) : 0);
}

size_t delta_scratch(const kiln_weight_call *c, const delta_kind *d, size_t rows)
{
    return rows * per_row(c, d) + (axis_of(c) == DORA_COLUMNS ? inputs_of(c) : 0);
}

/* ---- by rows ---- */

static void add_scaled(const kiln_weight_call *c, float *w, const float *d, size_t n)
{
    float s = (float)(c->strength * c->scale);
    for (size_t i = 0; i < n; i++) w[i] += s * d[i];
}

/* One row, or part of one, becomes W + strength (factor (W + scale d) - W). */
static void decompose(const kiln_weight_call *c, float *w, const float *d, size_t n, float factor)
{
    float scale = (float)c->scale, strength = (float)c->strength;
    for (size_t i = 0; i < n; i++) w[i] += strength * (factor * (w[i] + scale * d[i]) - w[i]);
}

static void decompose_row(const kiln_weight_call *c, float *w, const float *d, size_t row)
{
    double sum = 0;
    float scale = (float)c->scale;
    for (size_t i = 0; i < c->columns; i++) {
        double v = (double)(w[i] + scale * d[i]);
        sum += v * v;
    }
    decompose(c, w, d, c->columns,
              (float)((double)c->factor[FACTOR_DORA].data[row] / (sqrt(sum) + (double)FLT_EPSILON)));
}

static void apply_rows(const kiln_weight_call *c, const delta_kind *d, float *w, size_t row, size_t rows,
                       float *scratch)
{
    float *delta = scratch;
    memset(delta, 0, rows * c->columns * sizeof *delta);
    d->delta(c, w, row, rows, delta, scratch + rows * c->columns);
    if (axis_of(c) == DORA_NONE) {
        add_scaled(c, w, delta, rows * c->columns);
        return;
    }
    for (size_t i = 0; i < rows; i++) decompose_row(c, w + i * c->columns, delta + i * c->columns, row + i);
}

/* ---- by inputs ---- */

typedef struct {
    const kiln_weight_call *c;
    const delta_kind *d;
    float *w, *delta, *scratch, *factor; /* factor: one for each input */
    size_t own;                          /* scratch of a row */
} whole;

static size_t chunk_of(size_t i, size_t n) { return n - i * CHUNK < CHUNK ? n - i * CHUNK : CHUNK; }

static void make_deltas(void *arg, size_t i)
{
    const whole *x = arg;
    size_t row = i * CHUNK, at = row * x->c->columns;
    x->d->delta(x->c, x->w + at, row, chunk_of(i, x->c->rows), x->delta + at, x->scratch + row * x->own);
}

static void make_norms(void *arg, size_t i)
{
    const whole *x = arg;
    const kiln_weight_call *c = x->c;
    size_t inputs = inputs_of(c), kernel = c->columns / inputs, n = chunk_of(i, inputs), first = i * CHUNK;
    double sum[CHUNK] = {0};
    for (size_t row = 0; row < c->rows; row++)
        for (size_t k = 0; k < n * kernel; k++) {
            size_t at = row * c->columns + first * kernel + k;
            double v = (double)(x->w[at] + (float)c->scale * x->delta[at]);
            sum[k / kernel] += v * v;
        }
    for (size_t k = 0; k < n; k++)
        x->factor[first + k] =
            (float)((double)c->factor[FACTOR_DORA].data[first + k] / (sqrt(sum[k]) + (double)FLT_EPSILON));
}

static void finish_rows(void *arg, size_t i)
{
    const whole *x = arg;
    const kiln_weight_call *c = x->c;
    size_t inputs = inputs_of(c), kernel = c->columns / inputs, last = i * CHUNK + chunk_of(i, c->rows);
    for (size_t row = i * CHUNK; row < last; row++)
        for (size_t k = 0; k < inputs; k++) {
            size_t at = row * c->columns + k * kernel;
            decompose(c, x->w + at, x->delta + at, kernel, x->factor[k]);
        }
}

static void apply_whole(const kiln_weight_call *c, const delta_kind *d, float *w, float *scratch)
{
    size_t n = c->rows * c->columns, own = d->scratch ? d->scratch(c) : 0;
    whole x = {c, d, w, scratch, scratch + n, scratch + n + c->rows * own, own};
    memset(x.delta, 0, n * sizeof *x.delta);
    c->each(c, (c->rows + CHUNK - 1) / CHUNK, make_deltas, &x);
    c->each(c, (inputs_of(c) + CHUNK - 1) / CHUNK, make_norms, &x);
    c->each(c, (c->rows + CHUNK - 1) / CHUNK, finish_rows, &x);
}

void delta_apply(const kiln_weight_call *c, const delta_kind *d, float *w, size_t row, size_t rows, float *scratch)
{
    if (axis_of(c) == DORA_COLUMNS)
        apply_whole(c, d, w, scratch);
    else
        apply_rows(c, d, w, row, rows, scratch);
}
