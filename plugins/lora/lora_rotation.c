/* lora_rotation.c - changes that multiply W: OFT, BOFT, IA3; and what replaces it. See lora_change.h.
 *
 * A block of OFT or BOFT makes R = (I + Q) (I - Q)^-1 of Q = B - B^T (Cayley's transform), where Q is made shorter if
 * it exceeds the constraint. OFT: rows of W in runs of b become R^T W (Qiu et al. 2023). BOFT: stage i takes rows that
 * lie b 2^i / 2 apart in turn, and makes R W of them (Liu et al. 2024). With a strength other than 1 each R lies as far
 * between I and itself, as in LyCORIS, and so does the rescaling.
 */
#include "lora_change.h"

#include <math.h>
#include <string.h>

enum { BLOCKS_AT = 0, RESCALE_AT, CONSTRAINT = 0 };

/* ---- Cayley's transform ---- */

static size_t side_of(const kiln_weight_call *c)
{
    const kiln_weight_factor *f = &c->factor[BLOCKS_AT];
    return (size_t)f->dim[f->rank - 1];
}

static size_t count_of(const kiln_weight_factor *f)
{
    size_t n = 1;
    for (uint32_t i = 0; i < f->rank; i++) n *= (size_t)f->dim[i];
    return n;
}

/* What all Q are multiplied by, so that together they are no longer than the constraint. */
static double shortening(const kiln_weight_call *c)
{
    size_t b = side_of(c), n = count_of(&c->factor[BLOCKS_AT]) / (b * b);
    double sum = 0, limit = c->option[CONSTRAINT];
    for (size_t k = 0; k < n && limit > 0; k++) {
        const float *block = c->factor[BLOCKS_AT].data + k * b * b;
        for (size_t i = 0; i < b; i++)
            for (size_t j = 0; j < b; j++) {
                double q = (double)(block[i * b + j] - block[j * b + i]);
                sum += q * q;
            }
    }
    double norm = sqrt(sum) + 1e-8;
    return limit > 0 && norm > limit ? limit / norm : 1;
}

static void swap_rows(double *a, size_t b, size_t i, size_t j)
{
    for (size_t k = 0; k < 2 * b; k++) {
        double kept = a[i * 2 * b + k];
        a[i * 2 * b + k] = a[j * 2 * b + k];
        a[j * 2 * b + k] = kept;
    }
}

/* a [b, 2b] = [M | N] becomes [I | M^-1 N]. M = I - Q^T is never singular. */
static void eliminate(double *a, size_t b)
{
    for (size_t i = 0; i < b; i++) {
        size_t best = i;
        for (size_t k = i + 1; k < b; k++)
            if (fabs(a[k * 2 * b + i]) > fabs(a[best * 2 * b + i])) best = k;
        if (best != i) swap_rows(a, b, i, best);
        double by = 1 / a[i * 2 * b + i];
        for (size_t k = i; k < 2 * b; k++) a[i * 2 * b + k] *= by;
        for (size_t row = 0; row < b; row++) {
            double f = row == i ? 0 : a[row * 2 * b + i];
            for (size_t k = i; k < 2 * b && f != 0; k++) a[row * 2 * b + k] -= f * a[i * 2 * b + k];
        }
    }
}

/* to [b,b] = (1 - s) I + s R, or with `turned` s R^T; a: 2 b b doubles. R^T = (I - Q^T)^-1 (I + Q^T). */
static void cayley(const kiln_weight_call *c, const float *block, double shorter, int turned, double *a, float *to)
{
    size_t b = side_of(c);
    for (size_t i = 0; i < b; i++)
        for (size_t j = 0; j < b; j++) {
            double q = shorter * (double)(block[j * b + i] - block[i * b + j]), one = i == j;
            a[i * 2 * b + j] = one - q;
            a[i * 2 * b + b + j] = one + q;
        }
    eliminate(a, b);
    for (size_t i = 0; i < b; i++)
        for (size_t j = 0; j < b; j++) {
            double r = turned ? a[i * 2 * b + b + j] : a[j * 2 * b + b + i];
            to[i * b + j] = (float)((1 - c->strength) * (i == j) + c->strength * r);
        }
}

typedef struct {
    const kiln_weight_call *c;
    float *to;
    double *work;
    double shorter;
    int turned;
} making;

static void make_one(void *arg, size_t i)
{
    const making *m = arg;
    size_t b = side_of(m->c), n = b * b;
    cayley(m->c, m->c->factor[BLOCKS_AT].data + i * n, m->shorter, m->turned, m->work + i * 2 * n, m->to + i * n);
}

/* The blocks, and behind them what their making takes: doubles, from an even place on. */
static size_t work_at(const kiln_weight_call *c) { return (count_of(&c->factor[BLOCKS_AT]) + 1) & ~(size_t)1; }
static size_t blocks_prepared(const kiln_weight_call *c)
{
    return work_at(c) + 2 * count_of(&c->factor[BLOCKS_AT]) * (sizeof(double) / sizeof(float));
}

static void prepare_blocks(const kiln_weight_call *c, float *to, int turned)
{
    size_t b = side_of(c);
    making m = {c, to, (double *)(void *)(to + work_at(c)), shortening(c), turned};
    c->each(c, count_of(&c->factor[BLOCKS_AT]) / (b * b), make_one, &m);
}

static void rescale(const kiln_weight_call *c, float *w, size_t row, size_t rows)
{
    const float *by = c->factor[RESCALE_AT].data;
    for (size_t i = 0; i < rows && by; i++) {
        float f = 1 + (float)c->strength * (by[row + i] - 1);
        for (size_t k = 0; k < c->columns; k++) w[i * c->columns + k] *= f;
    }
}

/* ---- OFT ---- */

static void oft_prepare(const kiln_weight_call *c, float *to) { prepare_blocks(c, to, 1); }

static size_t oft_scratch(const kiln_weight_call *c, size_t rows) { return rows * c->columns; }

static void oft_apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    size_t b = side_of(c);
    memset(scratch, 0, rows * c->columns * sizeof *scratch);
    for (size_t i = 0; i < rows; i += b)
        c->add_product(&(kiln_weight_product){.to = scratch + i * c->columns,
                                              .to_ld = c->columns,
                                              .a = c->prepared + (row + i) * b,
                                              .b = w + i * c->columns,
                                              .b_ld = c->columns,
                                              .rows = b,
                                              .columns = c->columns,
                                              .inner = b,
                                              .factor = 1});
    memcpy(w, scratch, rows * c->columns * sizeof *w);
    rescale(c, w, row, rows);
}

/* ---- BOFT ---- */

static size_t stages_of(const kiln_weight_call *c) { return (size_t)c->factor[BLOCKS_AT].dim[0]; }

/* The last stage's rows, in turn from two halves. */
static size_t boft_rows(const kiln_weight_call *c) { return side_of(c) << (stages_of(c) - 1); }

static void boft_prepare(const kiln_weight_call *c, float *to) { prepare_blocks(c, to, 0); }

static size_t boft_scratch(const kiln_weight_call *c, size_t rows) { return 2 * rows * c->columns; }

typedef struct {
    const kiln_weight_call *c;
    float *w, *scratch;
    size_t row, stage;
} stage;

/* The row that is the t-th of a stage's order: of each run of two halves of k rows, one of either in turn. */
static size_t row_in_turn(size_t t, size_t k) { return t / (2 * k) * 2 * k + t % 2 * k + t % (2 * k) / 2; }

static void run_block(void *arg, size_t i)
{
    const stage *s = arg;
    const kiln_weight_call *c = s->c;
    size_t b = side_of(c), k = (b / 2) << s->stage, n = b * c->columns, bytes = c->columns * sizeof(float);
    float *in = s->scratch + i * 2 * n, *out = in + n;
    const float *r = c->prepared + (s->stage * c->rows + s->row + i * b) * b;
    for (size_t j = 0; j < b; j++) memcpy(in + j * c->columns, s->w + row_in_turn(i * b + j, k) * c->columns, bytes);
    memset(out, 0, n * sizeof *out);
    c->add_product(&(kiln_weight_product){.to = out,
                                          .to_ld = c->columns,
                                          .a = r,
                                          .b = in,
                                          .b_ld = c->columns,
                                          .rows = b,
                                          .columns = c->columns,
                                          .inner = b,
                                          .factor = 1});
    for (size_t j = 0; j < b; j++) memcpy(s->w + row_in_turn(i * b + j, k) * c->columns, out + j * c->columns, bytes);
}

static void boft_apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    for (size_t i = 0; i < stages_of(c); i++) {
        stage s = {c, w, scratch, row, i};
        c->each(c, rows / side_of(c), run_block, &s);
    }
    rescale(c, w, row, rows);
}

/* ---- IA3, set ---- */

enum { IA3_AXIS = 0, IA3_WHOLE };

static float ia3_factor(const kiln_weight_call *c, size_t i)
{
    float more = c->factor[0].data[i] - (c->option[IA3_WHOLE] > 0 ? 1.0f : 0.0f);
    return 1 + (float)c->strength * more;
}

static void ia3_apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    size_t inputs = c->rank > 1 ? (size_t)c->dim[1] : 1, kernel = c->columns / inputs;
    (void)scratch;
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < c->columns; k++)
            w[i * c->columns + k] *= ia3_factor(c, c->option[IA3_AXIS] > 1 ? k / kernel : row + i);
}

static void set_apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *scratch)
{
    (void)scratch;
    memcpy(w, c->factor[0].data + row * c->columns, rows * c->columns * sizeof *w);
}

#define CHANGE(text, ...)                                                                                              \
    {                                                                                                                  \
        .size = sizeof(kiln_weight_change), .revision = 1, .name = text, __VA_ARGS__                                   \
    }

const kiln_weight_change oft_change = CHANGE("oft", .rows = side_of, .prepared = blocks_prepared,
                                             .prepare = oft_prepare, .scratch = oft_scratch, .apply = oft_apply);
const kiln_weight_change boft_change = CHANGE("boft", .rows = boft_rows, .prepared = blocks_prepared,
                                              .prepare = boft_prepare, .scratch = boft_scratch, .apply = boft_apply);
const kiln_weight_change ia3_change = CHANGE("ia3", .apply = ia3_apply);
const kiln_weight_change set_change = CHANGE("set", .apply = set_apply);
