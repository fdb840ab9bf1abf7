/* ssd_scan.c - Mamba-2's recurrence as an op of this plugin. For a sequence, a head h of width D and its group g:
 *     S[d][s] = exp(dt[t] a) S[d][s] + dt[t] x[t][d] b[t][g][s]
 *     y[t][d] = sum over s of c[t][g][s] S[d][s] + D x[t][d]
 * x [N,T,H*D], dt [N,T,H], a [H], b and c [N,T,G*S], skip [H], S before [N,H,D,S] -> y [N,T,H*D], S after.
 */
#include "language.h"
#include "ssd_scan.h"

enum { X, DT, A, B, C, SKIP, BEFORE, OPERANDS };

/* Sizes of a call, with the operands' numbers. */
static ssd_scan_call sizes(const kiln_op_call *c)
{
    const int64_t *s = c->in[BEFORE].dim;
    return (ssd_scan_call){.x = c->in[X].data,
                           .dt = c->in[DT].data,
                           .a = c->in[A].data,
                           .b = c->in[B].data,
                           .c = c->in[C].data,
                           .d = c->in[SKIP].data,
                           .before = c->in[BEFORE].data,
                           .y = c->out ? c->out[0].data : NULL,
                           .last = c->out ? c->out[1].data : NULL,
                           .n = s[0],
                           .heads = s[1],
                           .width = s[2],
                           .state = s[3],
                           .t = c->in[X].dim[1],
                           .groups = c->in[B].dim[2] / s[3]};
}

static int is(const kiln_tensor *t, uint32_t rank, const int64_t *dim)
{
    return t->rank == rank && !memcmp(t->dim, dim, rank * sizeof *dim);
}

static kiln_status scan_shape(const kiln_op_call *c, kiln_op_result *out)
{
    if (c->n_in != OPERANDS || c->in[X].rank != 3 || c->in[B].rank != 3 || c->in[BEFORE].rank != 4)
        return c->fail(c->engine, "x and b have to be [N,T,..], the state [N,H,D,S]");
    if (c->in[BEFORE].dim[3] > SSD_STATE_MAX)
        return c->fail(c->engine, "the state has %lld columns; %d at most", (long long)c->in[BEFORE].dim[3],
                       SSD_STATE_MAX);
    ssd_scan_call s = sizes(c);
    if (!s.groups || s.heads % s.groups || !is(&c->in[X], 3, KILN_DIMS(s.n, s.t, s.heads * s.width)) ||
        !is(&c->in[DT], 3, KILN_DIMS(s.n, s.t, s.heads)) || !is(&c->in[A], 1, KILN_DIMS(s.heads)) ||
        !is(&c->in[SKIP], 1, KILN_DIMS(s.heads)) || !is(&c->in[B], 3, KILN_DIMS(s.n, s.t, s.groups * s.state)) ||
        !is(&c->in[C], 3, c->in[B].dim))
        return c->fail(c->engine, "sizes do not fit a state [%lld,%lld,%lld,%lld]", s.n, s.heads, s.width, s.state);
    out[0].rank = 3, memcpy(out[0].dim, c->in[X].dim, 3 * sizeof *out[0].dim);
    out[1].rank = 4, memcpy(out[1].dim, c->in[BEFORE].dim, 4 * sizeof *out[1].dim);
    return KILN_OK;
}

static uint64_t scan_flops(const kiln_op_call *c)
{
    ssd_scan_call s = sizes(c);
    return 6 * (uint64_t)(s.n * s.t * s.heads * s.width * s.state);
}

/* ---- the definition ---- */

static void reference_row(const ssd_scan_call *s, long long n, long long h, long long d, double *state)
{
    const long long g = h / (s->heads / s->groups), row = (n * s->heads + h) * s->width + d;
    for (long long k = 0; k < s->state; k++) state[k] = (double)s->before[row * s->state + k];
    for (long long t = 0; t < s->t; t++) {
        const long long at = n * s->t + t, shared = (at * s->groups + g) * s->state;
        double dt = (double)s->dt[at * s->heads + h], x = (double)s->x[(at * s->heads + h) * s->width + d];
        double keep = exp(dt * (double)s->a[h]), sum = (double)s->d[h] * x;
        for (long long k = 0; k < s->state; k++) {
            state[k] = keep * state[k] + dt * x * (double)s->b[shared + k];
            sum += (double)s->c[shared + k] * state[k];
        }
        s->y[(at * s->heads + h) * s->width + d] = (float)sum;
    }
    for (long long k = 0; s->last && k < s->state; k++) s->last[row * s->state + k] = (float)state[k];
}

static kiln_status scan_reference(const kiln_op_call *c)
{
    double state[SSD_STATE_MAX];
    ssd_scan_call s = sizes(c);
    for (long long n = 0; n < s.n; n++)
        for (long long h = 0; h < s.heads; h++)
            for (long long d = 0; d < s.width; d++) reference_row(&s, n, h, d, state);
    return KILN_OK;
}

/* ---- on a processor: a tile is a head of a sequence, which holds its D x S numbers in its workspace ---- */

static uint64_t scan_tiles(const kiln_op_call *c)
{
    ssd_scan_call s = sizes(c);
    return (uint64_t)(s.n * s.heads);
}
static size_t scan_workspace(const kiln_op_call *c)
{
    ssd_scan_call s = sizes(c);
    return (size_t)(s.width * s.state) * sizeof(float);
}

/* Eight sums side by side, which a compiler keeps in a register or two; the order depends on n alone. */
static float step(float *state, const float *b, const float *c, long long n, float keep, float x)
{
    float sum[8] = {0};
    long long k = 0;
    for (; k + 8 <= n; k += 8)
        for (int i = 0; i < 8; i++) {
            state[k + i] = keep * state[k + i] + x * b[k + i];
            sum[i] += c[k + i] * state[k + i];
        }
    for (int i = 0; k < n; k++, i++) {
        state[k] = keep * state[k] + x * b[k];
        sum[i] += c[k] * state[k];
    }
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

static void scan_tile(const kiln_op_call *c, uint64_t tile, void *workspace)
{
    ssd_scan_call s = sizes(c);
    const long long n = (long long)tile / s.heads, h = (long long)tile % s.heads, g = h / (s.heads / s.groups);
    const size_t bytes = (size_t)(s.width * s.state) * sizeof(float);
    float *state = workspace;
    memcpy(state, s.before + (long long)tile * s.width * s.state, bytes);
    for (long long t = 0; t < s.t; t++) {
        const long long at = n * s.t + t, shared = (at * s.groups + g) * s.state;
        const float dt = s.dt[at * s.heads + h], keep = expf(dt * s.a[h]);
        const float *x = s.x + (at * s.heads + h) * s.width;
        float *y = s.y + (at * s.heads + h) * s.width;
        for (long long d = 0; d < s.width; d++)
            y[d] = s.d[h] * x[d] + step(state + d * s.state, s.b + shared, s.c + shared, s.state, keep, dt * x[d]);
    }
    if (s.last) memcpy(s.last + (long long)tile * s.width * s.state, state, bytes);
}

#ifdef SSD_SCAN_CUDA
static kiln_status scan_cuda(const kiln_op_call *c, void *stream, void *workspace)
{
    (void)workspace;
    ssd_scan_call s = sizes(c);
    int code = ssd_scan_launch(&s, stream);
    return code ? c->fail(c->engine, "CUDA says %d", code), KILN_ERR_DEVICE : KILN_OK;
}
#else
#define scan_cuda NULL
#endif

/* ---- what it is tried with ---- */

#define NUMBERS(from, to, ...)                                                                                         \
    {                                                                                                                  \
        .dtype = KILN_F32, .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = KILN_DIMS(__VA_ARGS__),  \
        .low = (from), .high = (to)                                                                                    \
    }
/* Of n sequences of t tokens; h heads of width w in g groups, s columns of state. */
#define EXAMPLE(name_, n, t, h, w, g, s)                                                                               \
    {                                                                                                                  \
        .size = sizeof(kiln_op_example), .n_in = OPERANDS, .name = (name_), .in = {                                    \
            NUMBERS(-1, 1, n, t, (h) * (w)),                                                                           \
            NUMBERS(0, 0.5, n, t, h),                                                                                  \
            NUMBERS(-2, -0.1, h),                                                                                      \
            NUMBERS(-1, 1, n, t, (g) * (s)),                                                                           \
            NUMBERS(-1, 1, n, t, (g) * (s)),                                                                           \
            NUMBERS(-1, 1, h),                                                                                         \
            NUMBERS(-1, 1, n, h, w, s),                                                                                \
        }                                                                                                              \
    }
static const kiln_op_example examples[] = {
    EXAMPLE("odd sizes", 2, 19, 3, 5, 1, 13), EXAMPLE("groups", 1, 7, 6, 8, 2, 16),
    EXAMPLE("one token", 1, 1, 4, 16, 2, 24), EXAMPLE("nothing fits a lane", 3, 2, 1, 1, 1, 1),
    EXAMPLE("wide", 1, 70, 2, 33, 2, 130),
};

const kiln_op_kind ssd_scan = {
    .size = sizeof ssd_scan,
    .version = 1,
    .name = "org.example.ssd-scan",
    .doc = "Mamba-2's recurrence.",
    .n_in = OPERANDS,
    .n_out = 2,
    .types = 1u << KILN_F32,
    .shape = scan_shape,
    .flops = scan_flops,
    .reference = scan_reference,
    .tiles = scan_tiles,
    .workspace = scan_workspace,
    .tile = scan_tile,
    .cuda = scan_cuda,
    .relative = 1e-5,
    KILN_ARRAY(example, examples),
};
