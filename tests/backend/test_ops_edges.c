/* test_ops_edges.c - ops at the ends of what they take, at every level of the processor: numbers that are none,
 * infinite and equal, dimensions of 0, what no row of test_ops_table.h has; and each row of that table prepared without
 * memory.
 *
 * As in test_ops.c the plain C reference says what is right, and the level is chosen in a process of its own. A NaN
 * stands where the reference has one, an infinity is the same one.
 */
#include "harness.h"
#include "ops_run.h"
#include "test_ops_table.h"

#include "base/memory_alloc.h"
#include "base/pool.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GUARD = 256, N_CASES = sizeof cases / sizeof cases[0] }; /* ops_run.c has as many bytes before a result */

/* ---- rows ---- */

#define POOL_OF(label, x, result, ...)                                                                                 \
    {                                                                                                                  \
        "pool " label, {.kind = OP_POOL, .n_in = 1, .in = {x}, .out = result, .attr.pool = {__VA_ARGS__}}, 0           \
    }
#define LAYER(label, g, b, ...)                                                                                        \
    {                                                                                                                  \
        "layer_norm " label,                                                                                           \
            {.kind = OP_LAYER_NORM,                                                                                    \
             .n_in = 3,                                                                                                \
             .in = {X(__VA_ARGS__), g, b},                                                                             \
             .out = X(__VA_ARGS__),                                                                                    \
             .attr.norm = {0, 1e-5f}},                                                                                 \
            0                                                                                                          \
    }

#define TURNED(label, rows, columns)                                                                                   \
    {                                                                                                                  \
        "permute " label,                                                                                              \
            {.kind = OP_PERMUTE,                                                                                       \
             .n_in = 1,                                                                                                \
             .in = {X(rows, columns)},                                                                                 \
             .out = X(columns, rows),                                                                                  \
             .attr.permute = {{1, 0}}},                                                                                \
            0                                                                                                          \
    }

/* What the table of test_ops.c has not. */
static const op_case more[] = {
    ATTEND_MORE("one query, soft cap", 2, 1, 150, 4, 2, 32, 32, HEADS(4, 2, .causal = 0, .softcap = 5), NONE),
    ATTEND_MORE("one query, window", 2, 1, 150, 4, 1, 32, 24, HEADS(4, 1, .causal = 1, .window = 1, .left = 40), NONE,
                IDS(2)),
    ATTEND_MORE("one query, window on both sides", 1, 1, 200, 3, 3, 16, 16,
                HEADS(3, 3, .window = 1, .left = 70, .right = 9), NONE, IDS(1)),
    ATTEND_MORE("one query, mask", 2, 1, 150, 4, 4, 16, 16, HEADS(4, 4, .causal = 0), X(2, 1, 1, 150)),
    ATTEND_MORE("one query, segments", 2, 1, 150, 4, 2, 16, 16, HEADS(4, 2, .causal = 0), NONE, NONE, NONE, IDS(2, 1),
                IDS(2, 150)),
    ATTEND_MORE("one query, ring", 2, 1, 150, 4, 2, 16, 16, HEADS(4, 2, .causal = 1), NONE, IDS(2), NONE, NONE, NONE,
                IDS(2, 150)),
    ATTEND_MORE("one query, bias table", 2, 1, 150, 4, 2, 16, 16, HEADS(4, 2, .bidirectional = 1, .max_distance = 40),
                NONE, IDS(1), NONE, NONE, NONE, NONE, W(16, 4)),
    ATTEND_MORE("one query, sinks", 2, 1, 150, 4, 2, 16, 40, HEADS(4, 2, .causal = 1), NONE, IDS(2), NONE, NONE, NONE,
                NONE, NONE, W(4)),
    ATTEND_MORE("one query, sinks, no keys", 2, 1, 7, 2, 2, 8, 8, HEADS(2, 2, .causal = 0), NONE, NONE, IDS(2), NONE,
                NONE, NONE, NONE, X(2)),
    ATTEND_MORE("one query, lengths", 3, 1, 300, 8, 2, 64, 64, HEADS(8, 2, .causal = 1), NONE, IDS(3), IDS(3)),
    ATTEND_MORE("one query, one set of keys", 1, 1, 700, 8, 1, 72, 64, HEADS(8, 1, .causal = 0), NONE),
    ATTEND_MORE("one query, wide heads", 1, 1, 90, 2, 1, 520, 512, HEADS(2, 1, .causal = 0), NONE),
    ATTEND_PAGES_OF("one query, pages", 2, 1, 19, 16, 4, 2, 16, HEADS(4, 2, .causal = 1), NONE, IDS(2), NONE, NONE,
                    NONE, NONE, NONE, NONE, IDS(2, 9)),
    ATTEND_PAGES_OF("one query, pages, lengths", 3, 1, 30, 7, 2, 1, 16, HEADS(2, 1, .causal = 1), NONE, IDS(3), IDS(3),
                    NONE, NONE, NONE, NONE, NONE, IDS(3, 10)),
    TURNED("whole squares", 160, 192),
    TURNED("whole squares, several strips", 288, 352),
    TURNED("with rests", 133, 71),
    TURNED("few rows", 5, 320),
    TURNED("few columns", 320, 5),
    ANY_CONV("transposed, depthwise", X(2, 5, 4, 6), W(6, 1, 4, 4), W(6), X(2, 10, 8, 6), 2, 1, 0, {2, 2, 1}, {1, 1},
             {1, 1}, ONES, {0}, 6),
    ANY_CONV("transposed, depthwise, dilated, cut", X(1, 6, 7, 19), W(19, 1, 3, 2), NONE, X(1, 12, 15, 19), 2, 1, 0,
             {2, 2, 1}, {1, 0}, {1, 0}, {1, 2, 1}, {1, 0}, 19),
    ANY_CONV("transposed, rank 1, a channel a group, output_pad", X(1, 7, 4), W(4, 1, 3), W(4), X(1, 20, 4), 1, 1, 0,
             {3, 1, 1}, {1}, {1}, ONES, {1}, 4),
    ANY_CONV("transposed, one channel to several", X(1, 4, 5, 1), W(1, 3, 2, 2), W(3), X(1, 8, 10, 3), 2, 1, 0,
             {2, 2, 1}, {0, 0}, {0, 0}, ONES, {0}, 1),
    ANY_CONV("transposed, several channels to one", X(1, 4, 5, 6), W(6, 1, 2, 2), W(1), X(1, 8, 10, 1), 2, 1, 0,
             {2, 2, 1}, {0, 0}, {0, 0}, ONES, {0}, 1),
    ANY_CONV("one channel to one a group, wide", X(1, 3, 70, 8), W(16, 1, 3, 3), W(16), X(1, 3, 70, 16), 2, 0, 0, ONES,
             {1, 1}, {1, 1}, ONES, {0}, 8),
    ANY_CONV("depthwise, rank 3", X(1, 4, 6, 9, 20), W(20, 1, 3, 3, 3), NONE, X(1, 4, 6, 9, 20), 3, 0, 0, ONES,
             {1, 1, 1}, {1, 1, 1}, ONES, {0}, 20),
    ANY_CONV("depthwise 9 x 9, dilated", X(1, 20, 23, 17), W(17, 1, 9, 9), W(17), X(1, 20, 23, 17), 2, 0, 0, ONES,
             {8, 8}, {8, 8}, {2, 2, 1}, {0}, 17),
    ANY_CONV("depthwise 2 x 2, strides 3", X(2, 7, 8, 33), W(33, 1, 2, 2), W(33), X(2, 2, 3, 33), 2, 0, 0, {3, 3, 1},
             {0, 0}, {0, 0}, ONES, {0}, 33),
    ANY_CONV("depthwise, taps 1 x 4", X(1, 5, 64, 64), W(64, 1, 1, 4), NONE, X(1, 5, 61, 64), 2, 0, 0, ONES, {0, 0},
             {0, 0}, ONES, {0}, 64),
    POOL_OF("max 2 x 2", X(2, 8, 12, 64), X(2, 4, 6, 64), 1, 2, 0, {2, 2}, {2, 2}, {0, 0}, {0, 0}),
    POOL_OF("max 5 x 5, one channel", X(1, 9, 11, 1), X(1, 9, 11, 1), 1, 2, 0, {5, 5}, {1, 1}, {2, 2}, {2, 2}),
    POOL_OF("max 3 x 7", X(1, 9, 20, 40), X(1, 9, 20, 40), 1, 2, 0, {3, 7}, {1, 1}, {1, 3}, {1, 3}),
    POOL_OF("average 4 x 4, wide", X(1, 8, 8, 1100), X(1, 2, 2, 1100), 0, 2, 0, {4, 4}, {4, 4}, {0, 0}, {0, 0}),
    POOL_OF("average, rank 3, padding counts", X(1, 4, 6, 5, 7), X(1, 4, 6, 5, 7), 0, 3, 1, {3, 3, 3}, {1, 1, 1},
            {1, 1, 1}, {1, 1, 1}),
    POOL_OF("average 6 x 6 with strides", X(2, 15, 14, 24), X(2, 4, 3, 24), 0, 2, 0, {6, 6}, {3, 4}, {0, 0}, {0, 0}),
    LAYER("gain alone", W(97), NONE, 5, 97),
    LAYER("bias alone", NONE, W(97), 5, 97),
    LAYER("neither", NONE, NONE, 5, 97),
    LAYER("gain alone, wide", W(4160), NONE, 2, 4160),
    LAYER("bias alone, wide", NONE, W(4160), 2, 4160),
    LAYER("neither, wide", NONE, NONE, 2, 4160),
    LAYER("one column", W(1), W(1), 7, 1),
    NORM("layer, gain alone", 1, X(3, 7, 70), 70, W(70), NONE, NONE, NONE, .one_plus = 0),
    NORM("layer, bias alone", 1, X(3, 7, 70), 70, NONE, W(70), NONE, NONE, .one_plus = 0),
    NORM("layer, neither", 1, X(3, 7, 70), 70, NONE, NONE, NONE, NONE, .one_plus = 0),
    NORM("layer, scale alone", 1, X(3, 7, 70), 70, NONE, NONE, X(3, 1, 70), NONE, .one_plus = 0),
    NORM("layer, shift alone", 1, X(3, 7, 70), 70, NONE, NONE, NONE, X(3, 1, 70), .one_plus = 0),
    NORM("layer, scale and shift", 1, X(3, 7, 70), 70, NONE, NONE, X(3, 1, 70), X(3, 1, 70), .one_plus = 0),
    NORM("layer, gain and scale", 1, X(3, 7, 70), 70, W(70), NONE, X(3, 1, 70), NONE, .one_plus = 0),
    NORM("layer by groups, gain alone", 1, X(3, 7, 210), 70, W(70), NONE, NONE, NONE, .one_plus = 0),
    NORM("layer by groups, bias alone", 1, X(3, 7, 210), 70, NONE, W(210), NONE, NONE, .one_plus = 0),
    NORM("layer by groups, neither", 1, X(3, 7, 210), 70, NONE, NONE, NONE, NONE, .one_plus = 0),
    NORM("layer by groups, scale and shift", 1, X(3, 7, 210), 70, NONE, NONE, X(3, 1, 210), X(3, 1, 210),
         .one_plus = 0),
    NORM("layer by groups, scale alone", 1, X(3, 7, 210), 70, NONE, NONE, X(3, 1, 210), NONE, .one_plus = 0),
    NORM("layer by groups, bias and shift", 1, X(3, 7, 210), 70, NONE, W(70), NONE, X(3, 1, 210), .one_plus = 0),
    NORM("layer by groups, gain and bias", 1, X(3, 7, 72), 24, W(24), W(24), NONE, NONE, .one_plus = 0),
    NORM("layer by groups, modulated", 1, X(3, 7, 72), 24, W(72), W(72), X(3, 1, 72), X(3, 1, 72), .one_plus = 0),
    NORM("rms, bias alone", 0, X(3, 7, 70), 70, NONE, W(70), NONE, NONE, .one_plus = 0),
    NORM("rms, gain and bias", 0, X(3, 7, 70), 70, W(70), W(70), NONE, NONE, .one_plus = 0),
    NORM("rms, modulated", 0, X(3, 7, 70), 70, NONE, NONE, X(3, 1, 70), X(3, 1, 70), .one_plus = 0),
    NORM("rms by groups, bias", 0, X(3, 7, 72), 24, NONE, W(72), NONE, NONE, .one_plus = 0),
    NORM("l2, gain and bias", 2, X(3, 7, 70), 70, W(70), W(70), NONE, NONE, .one_plus = 0),
    NORM("l2 by groups, eps inside, gain", 2, X(3, 7, 72), 24, W(72), NONE, NONE, NONE, .eps_inside = 1),
    {"embedding, a table of several pieces when it is packed",
     {.kind = OP_EMBEDDING, .n_in = 2, .in = {W(5, 300000), IDS(1, 5)}, .out = X(1, 5, 300000)},
     0},
    SOFTMAX("lengths of one row each", X(4, 70), IDS(4)),
    SOFTMAX("one column", X(4, 1), NONE),
    SORT("eight of many short rows", X(70, 64), X(70, 8), IDS(70, 8), 8, 0),
    SORT("three of many short rows", X(41, 33), X(41, 3), IDS(41, 3), 3, 0),
    SORT("eight of eight", X(40, 8), X(40, 8), IDS(40, 8), 8, 0),
    SORT("five of a row of 96, ascending", X(37, 96), X(37, 5), IDS(37, 5), 5, 1),
    SORT("four of many, ascending", X(3, 5000), X(3, 4), IDS(3, 4), 4, 1),
    REDUCE("logsumexp, middle", LOGSUMEXP, 2, X(3, 70, 40), X(3, 40)),
    REDUCE("max, middle", MAX, 2, X(3, 70, 40), X(3, 40)),
    REDUCE("min, last", MIN, 2, X(9, 1100), X(9)),
    REDUCE("prod, first", PROD, 1, X(5, 40), X(40)),
    REDUCE("l2, last, short", L2, 2, X(200, 6), X(200)),
    REDUCE("sum, last, short", SUM, 2, X(200, 6), X(200)),
    REDUCE("mean, all", MEAN, 7, X(5, 7, 9), X(1)),
    CUMSUM("last, reverse", X(5, 130), 1, 0, 1),
    CUMSUM("first", X(9, 33), 0, 0, 0),
    MAP("a == b", X(5, 70), X(5, 70), X(5, 70)),
    MAP("min(a, b)", X(5, 70), X(5, 70), X(5, 70)),
    MAP("max(a, b)", X(5, 70), X(5, 70), X(5, 70)),
    MAP("sign(a)", X(5, 70), X(5, 70)),
    MAP("relu(a)", X(5, 70), X(5, 70)),
    MAP("a / b", X(5, 70), X(5, 70), X(5, 70)),
    MAP("abs(a)", X(5, 70), X(5, 70)),
    MAP("sigmoid(a)", X(5, 70), X(5, 70)),
    MAP("tanh(a)", X(5, 70), X(5, 70)),
    MAP("exp(a)", X(5, 70), X(5, 70)),
    MAP("isnan(a)", X(5, 70), X(5, 70)),
    MAP("silu(a)", X(5, 70), X(5, 70)),
    MAP("gelu(a)", X(5, 70), X(5, 70)),
    MAP("softplus(a)", X(5, 70), X(5, 70)),
};

/* Rows of both tables that take any numbers: a sum of infinities of both signs depends on its order, and products are
 * left to the libraries; x sigmoid(x) of -infinity is -infinity or none. */
static const char *const of_any_numbers[] = {
    "softmax plain", "softmax one", "softmax log", "softmax lengths", "reduce max",     "reduce min",  "reduce arg",
    "sort ",         "pool max",    "act T7 RELU", "act T7 TANH",     "act T7 SIGMOID", "map a == b",  "map min",
    "map max",       "map sign",    "map relu",    "map abs",         "map isnan",      "map sigmoid", "map tanh",
    "map exp(a)",    "concat",      "slice",       "permute",         "take",           "upsample",    "convert",
    "affine",        "add",         "mul"};

static int takes_any(const char *name)
{
    for (size_t i = 0; i < sizeof of_any_numbers / sizeof of_any_numbers[0]; i++)
        if (strncmp(name, of_any_numbers[i], strlen(of_any_numbers[i])) == 0)
            return !strstr(name, "saturating") && !strstr(name, "silu") && !strstr(name, ", act");
    return 0;
}

/* ---- operands ---- */

typedef enum { AS_THEY_ARE, WITH_NAN, WITH_INFINITIES, ALL_LOWEST, ALL_EQUAL, SPECIALS } special;

static void put(const op_setup *s, uint32_t i, int64_t at, float v)
{
    if (s->op.in[i].dtype == KILN_F32)
        ((float *)s->in[i])[at] = v;
    else
        ((uint16_t *)s->in[i])[at] = s->op.in[i].dtype == KILN_BF16 ? bf16_from_f32(v) : f16_from_f32(v);
}

/* The reference takes its time over attention: of that NaN alone, in small ones, as they are. */
static int goes_with(const op_case *c, size_t variant, special kind)
{
    const operand_desc *in = c->op.in;
    if (c->op.kind != OP_ATTENTION) return takes_any(c->name);
    return kind == WITH_NAN && variant <= 1 && shape_count(&in[0].shape) * in[1].shape.dim[1] <= 1 << 20;
}

/* Of the first operand a row in three is as it was, so that both are seen beside each other. */
static void spoil(const op_setup *s, special kind)
{
    for (uint32_t i = 0; i < s->op.n_in && kind; i++) {
        const operand_desc *d = &s->op.in[i];
        if (d->weight || !(d->dtype == KILN_F32 || d->dtype == KILN_BF16 || d->dtype == KILN_F16)) continue;
        if (s->op.kind == OP_ATTENTION && (i == 2 || d->shape.rank == 1))
            continue; /* values that no query sees may be read, and a sink is no score */
        int64_t columns = d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1,
                rows = columns ? shape_count(&d->shape) / columns : 0;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns && r % 3 != 2; c++) {
                int64_t at = r * d->ld + c, n = r * 31 + c * 7 + i;
                if (kind == ALL_EQUAL) put(s, i, at, 0.5f);
                if (kind == ALL_LOWEST) put(s, i, at, -INFINITY);
                if (kind == WITH_NAN && (n % 11 == 0 || (r % 3 == 1 && c == 0))) put(s, i, at, NAN);
                if (kind == WITH_INFINITIES && n % 5 == 0) put(s, i, at, n % 10 ? -INFINITY : INFINITY);
            }
    }
}

/* The same kind of number everywhere, and near where it is finite. */
static int same_kind(const op_setup *s, const unsigned char *a, const unsigned char *b, double tolerance,
                     const char *what)
{
    const operand_desc *d = &s->op.out;
    int64_t columns = d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1,
            rows = columns ? shape_count(&d->shape) / columns : 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double x = setup_element(s, a, r, c), y = setup_element(s, b, r, c);
            int same = isnan(x)               ? isnan(y)
                       : isinf(y) || isinf(x) ? x == y
                                              : fabs(x - y) <= 32 * tolerance * fmax(1, fabs(y));
            if (same) continue;
            printf("  %s: row %lld, column %lld: %g, the reference has %g\n", what, (long long)r, (long long)c, x, y);
            return 0;
        }
    return 1;
}

static const struct {
    uint32_t type;
    int64_t pad;
} variants[] = {{KILN_F32, 0}, {KILN_BF16, 0}, {KILN_F16, 0}, {KILN_F32, 8}, {KILN_BF16, 8}};

static int run_case(const op_case *c, size_t v, special kind, pool *const pools[2])
{
    static const char *const words[SPECIALS] = {"", ", NaN", ", infinities", ", all the lowest", ", all equal"};
    char what[200];
    op_setup s;
    int ok = 1;
    snprintf(what, sizeof what, "%s %s%s%s", c->name, dtype_name(variants[v].type),
             variants[v].pad ? " with row distance" : "", words[kind]);
    if (!setup_make(&s, c, variants[v].type, variants[v].pad)) return 0;
    spoil(&s, kind);
    unsigned char *wanted = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL);
    for (int t = 0; t < 2 && ok; t++) {
        unsigned char *got = setup_run(&s, &backend_cpu, pools[t], 1, NULL, NULL, NULL);
        ok = wanted && got;
        if (ok)
            ok = kind ? same_kind(&s, got, wanted, setup_tolerance(c, variants[v].type), what)
                      : setup_near(&s, got, wanted, setup_tolerance(c, variants[v].type), what);
        mem_free(got);
    }
    mem_free(wanted);
    setup_free(&s);
    return ok;
}

/* ---- a norm of stripes ---- */

enum { STRIPE_H = 13, STRIPE_W = 9, STRIPE_C = 96, STRIPE_GROUPS = 32, STRIPE_ROWS = 5 };

/* Rows from `from` on, statistics and norm, beside those of the whole picture; results lie behind a guard. */
static int same_rows(const op_setup *whole, const char *normed, const float *stats, int64_t from, pool *p)
{
    enum { LINE = STRIPE_GROUPS * 3 };
    int64_t n = STRIPE_H - from < STRIPE_ROWS ? STRIPE_H - from : STRIPE_ROWS;
    const op_case cases_of[2] = {NORM_STATS("", 1, n, STRIPE_W, STRIPE_C, STRIPE_GROUPS),
                                 NORM_APPLY("", 1, n, STRIPE_H, STRIPE_W, STRIPE_C, STRIPE_GROUPS, .n_in = 4,
                                            .epilogue = {.act = KILN_ACT_SILU})};
    size_t row = STRIPE_W * STRIPE_C * dtype_size(whole->op.out.dtype);
    int same = 1;
    for (int i = 0; i < 2 && same; i++) {
        op_setup s;
        if (!setup_make(&s, &cases_of[i], whole->op.out.dtype, 0)) return 0;
        memcpy(s.in[0], (const char *)whole->in[0] + (size_t)from * row, (size_t)n * row);
        for (uint32_t k = 1; k < 3 && i; k++) memcpy(s.in[k], whole->in[k], STRIPE_C * sizeof(float));
        if (i) memcpy(s.in[3], stats, STRIPE_H * LINE * sizeof(float));
        char *got = setup_run(&s, &backend_cpu, p, 1, NULL, NULL, NULL);
        same = got && (i ? memcmp(got + GUARD, normed + (size_t)from * row, (size_t)n * row)
                         : memcmp(got + GUARD, stats + from * LINE, (size_t)n * LINE * sizeof(float))) == 0;
        mem_free(got);
        setup_free(&s);
    }
    return same;
}

static int norm_of_stripes(uint32_t type, pool *p)
{
    const op_case cases_of[2] = {NORM_STATS("", 1, STRIPE_H, STRIPE_W, STRIPE_C, STRIPE_GROUPS),
                                 GROUP("", 1, STRIPE_H, STRIPE_W, STRIPE_C, STRIPE_GROUPS, 1e-5f, .n_in = 3,
                                       .epilogue = {.act = KILN_ACT_SILU})};
    op_setup s[2];
    char *got[2];
    for (int i = 0; i < 2; i++)
        if (!setup_make(&s[i], &cases_of[i], type, 0)) return 0;
    memcpy(s[0].in[0], s[1].in[0], STRIPE_H * STRIPE_W * STRIPE_C * dtype_size(type));
    for (int i = 0; i < 2; i++) got[i] = setup_run(&s[i], &backend_cpu, p, 1, NULL, NULL, NULL);
    int same = got[0] && got[1];
    for (int64_t from = 0; from < STRIPE_H && same; from += STRIPE_ROWS)
        same = same_rows(&s[1], got[1] + GUARD, (const float *)(const void *)(got[0] + GUARD), from, p);
    if (!same) printf("  group_norm of stripes, %s: other bits\n", dtype_name(type));
    for (int i = 0; i < 2; i++) mem_free(got[i]), setup_free(&s[i]);
    return same;
}

static int run_all(void)
{
    pool *const pools[2] = {pool_new(1), pool_new(3)};
    int failed = 0, ran = 0;
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
            for (special k = AS_THEY_ARE; k < SPECIALS; k++)
                if (!k || goes_with(&more[i], v, k)) failed += !run_case(&more[i], v, k, pools), ran++;
        for (size_t i = 0; i < N_CASES; i++)
            for (special k = WITH_NAN; k < SPECIALS; k++)
                if (goes_with(&cases[i], v, k)) failed += !run_case(&cases[i], v, k, pools), ran++;
    }
    static const uint32_t types[] = {KILN_F32, KILN_BF16, KILN_F16};
    for (size_t i = 0; i < 6; i++) failed += !norm_of_stripes(types[i / 2], pools[i % 2]), ran++;
    printf("  %s: %d runs, %d failed\n", backend_cpu.features(), ran, failed);
    return failed + (ran < 500);
}

static int machine_has(const char *level)
{
#if defined __x86_64__
    if (strcmp(level, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(level, "avx512") == 0) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (strcmp(level, "avx512bf16") == 0) return __builtin_cpu_supports("avx512bf16");
#endif
    return strcmp(level, "none") == 0;
}

static void at_level(const char *level, const char *past)
{
    if (!machine_has(level)) {
        test_skip("this processor has no such level");
        return;
    }
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(CHECK(child >= 0));
    if (child == 0) {
        setenv("KILN_CPU_FEATURES", level, 1);
        if (past) setenv("KILN_CPU_PAST", past, 1);
        int failed = run_all();
        fflush(stdout);
        _exit(failed > 100 ? 100 : failed);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 1000, 0);
}

static void test_plain(void) { at_level("none", NULL); }
static void test_avx2(void) { at_level("avx2", NULL); }
static void test_avx512(void) { at_level("avx512", NULL); }
static void test_avx512bf16(void) { at_level("avx512bf16", NULL); }
static void test_stored_past_the_caches(void) { at_level("avx512bf16", "0"); }

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_plain), CASE(test_avx2), CASE(test_avx512), CASE(test_avx512bf16), CASE(test_stored_past_the_caches),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
