/* lora_peft_rotation.c - OFT and BOFT as peft trains them: rotations of W's inputs, where those of LyCORIS
 * (lora_rotation.c) turn its outputs. See lora_change.h.
 *
 * Columns of W [O,C] in runs of b become W R^T. OFT: R is made of a skew-symmetric Q, whose numbers above the diagonal
 * are the file's [n, b (b - 1) / 2], or one row for all runs: the first terms of Neumann's series of Cayley's
 * transform, I + 2 Q + 2 Q^2 + ... + Q^m (Qiu et al. 2025, arXiv:2506.19847), or (I - Q) (I + Q)^-1. BOFT: of Q = (B -
 * B^T) / 2, the latter, and outputs are scaled behind it (Liu et al. 2024). With a strength other than 1 each R lies as
 * far between I and itself, and so does the scaling.
 */
#include "lora_change.h"

#include <string.h>

enum { BLOCKS_AT = 0, SCALE_AT };

static size_t side_of(const kiln_weight_call *c) { return (size_t)c->option[PEFT_SIDE]; }
static size_t runs_of(const kiln_weight_call *c) { return c->columns / side_of(c); }
/* Different blocks. */
static size_t blocks_of(const kiln_weight_call *c)
{
    return (size_t)c->factor[BLOCKS_AT].dim[c->option[PEFT_BOFT] > 0 ? 1 : 0];
}

/* q [b,b] of the i-th block. */
static void skew(const kiln_weight_call *c, size_t i, double *q)
{
    size_t b = side_of(c);
    int boft = c->option[PEFT_BOFT] > 0;
    const float *from = c->factor[BLOCKS_AT].data + i * (boft ? b * b : b * (b - 1) / 2);
    for (size_t row = 0; row < b; row++) {
        q[row * b + row] = 0;
        for (size_t k = row + 1; k < b; k++) {
            double v = boft ? 0.5 * ((double)from[row * b + k] - (double)from[k * b + row]) : (double)*from++;
            q[row * b + k] = v, q[k * b + row] = -v;
        }
    }
}

static void multiply(const double *x, const double *y, size_t b, double *out)
{
    for (size_t i = 0; i < b; i++)
        for (size_t j = 0; j < b; j++) {
            double sum = 0;
            for (size_t k = 0; k < b; k++) sum += x[i * b + k] * y[k * b + j];
            out[i * b + j] = sum;
        }
}

/* r = I + 2 Q + ... + 2 Q^(m-1) + Q^m, as many powers as peft takes for `terms`; power, next: [b,b]. */
static void series(const double *q, size_t b, int terms, double *r, double *power, double *next)
{
    int last = terms < 2 ? 0 : terms == 2 ? 1 : terms == 3 ? 3 : terms - 1;
    for (size_t i = 0; i < b * b; i++) r[i] = i % (b + 1) == 0, power[i] = q[i];
    for (int m = 1; m <= last; m++) {
        double by = m == last && terms > 2 ? 1 : 2;
        for (size_t i = 0; i < b * b; i++) r[i] += by * power[i];
        if (m == last) break;
        multiply(power, q, b, next);
        memcpy(power, next, b * b * sizeof *power);
    }
}

/* r = (I - Q) (I + Q)^-1 = (I + Q)^-1 (I - Q), by elimination in a [b,2b]. I + Q is never singular. */
static void transform(const double *q, size_t b, double *r, double *a)
{
    size_t ld = 2 * b;
    for (size_t i = 0; i < b; i++)
        for (size_t k = 0; k < b; k++) {
            a[i * ld + k] = (i == k) + q[i * b + k];
            a[i * ld + b + k] = (i == k) - q[i * b + k];
        }
    for (size_t i = 0; i < b; i++) { /* the symmetric part of I + Q is I, so pivots are at least 1 */
        double by = 1 / a[i * ld + i];
        for (size_t k = i; k < ld; k++) a[i * ld + k] *= by;
        for (size_t row = 0; row < b; row++) {
            double f = row == i ? 0 : a[row * ld + i];
            for (size_t k = i; k < ld && f != 0; k++) a[row * ld + k] -= f * a[i * ld + k];
        }
    }
    for (size_t i = 0; i < b; i++) memcpy(r + i * b, a + i * ld + b, b * sizeof *r);
}

/* ---- the change ---- */

enum { MATRICES = 4 }; /* of doubles that making a block takes: Q, R, and two more */

static size_t work_at(const kiln_weight_call *c) { return (blocks_of(c) * side_of(c) * side_of(c) + 1) & ~(size_t)1; }

static size_t prepared(const kiln_weight_call *c)
{
    return work_at(c) + MATRICES * blocks_of(c) * side_of(c) * side_of(c) * (sizeof(double) / sizeof(float));
}

typedef struct {
    const kiln_weight_call *c;
    float *to;
    double *work;
} making;

/* (1 - s) I + s R^T */
static void make_one(void *arg, size_t i)
{
    const making *m = arg;
    const kiln_weight_call *c = m->c;
    size_t b = side_of(c), n = b * b;
    double *q = m->work + i * MATRICES * n, *r = q + n, *more = r + n;
    int terms = (int)c->option[PEFT_TERMS];
    skew(c, i, q);
    if (terms)
        series(q, b, terms, r, more, more + n);
    else
        transform(q, b, r, more);
    for (size_t j = 0; j < b; j++)
        for (size_t k = 0; k < b; k++)
            m->to[i * n + j * b + k] = (float)((1 - c->strength) * (j == k) + c->strength * r[k * b + j]);
}

static void prepare(const kiln_weight_call *c, float *to)
{
    making m = {c, to, (double *)(void *)(to + work_at(c))};
    c->each(c, blocks_of(c), make_one, &m);
}

static size_t scratch(const kiln_weight_call *c, size_t rows) { return rows * side_of(c); }

/* Columns of run i through its block: `in` has rows of b. */
static void turn(const kiln_weight_call *c, size_t i, float *w, size_t rows, float *in)
{
    size_t b = side_of(c), block = blocks_of(c) == 1 ? 0 : i;
    for (size_t row = 0; row < rows; row++) {
        float *at = w + row * c->columns + i * b;
        memcpy(in + row * b, at, b * sizeof *in);
        memset(at, 0, b * sizeof *at);
    }
    c->add_product(&(kiln_weight_product){.to = w + i * b,
                                          .to_ld = c->columns,
                                          .a = in,
                                          .b = c->prepared + block * b * b,
                                          .b_ld = b,
                                          .rows = rows,
                                          .columns = b,
                                          .inner = b,
                                          .factor = 1});
}

static void apply(const kiln_weight_call *c, float *w, size_t row, size_t rows, float *in)
{
    const float *by = c->factor[SCALE_AT].data;
    for (size_t i = 0; i < runs_of(c); i++) turn(c, i, w, rows, in);
    for (size_t i = 0; i < rows && by; i++) {
        float f = 1 + (float)c->strength * (by[row + i] - 1);
        for (size_t k = 0; k < c->columns; k++) w[i * c->columns + k] *= f;
    }
}

const kiln_weight_change peft_rotation_change = {.size = sizeof(kiln_weight_change),
                                                 .revision = 1,
                                                 .name = "peft rotation",
                                                 .prepared = prepared,
                                                 .prepare = prepare,
                                                 .scratch = scratch,
                                                 .apply = apply};
