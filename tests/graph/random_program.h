/* random_program.h - random tensor programs over pictures and token rows, and their plain evaluation: op by op, each
 * result in memory of its own, by the reference kernels, with neither fusing nor a plan.
 */
#ifndef KILN_TESTS_RANDOM_PROGRAM_H
#define KILN_TESTS_RANDOM_PROGRAM_H

#include "backend/backend.h"
#include "backend/runtime.h"
#include "harness.h"

#include "base/memory_alloc.h"

#include <string.h>

typedef struct {
    uint64_t state;
} dice;

static inline uint32_t roll(dice *d, uint32_t n)
{
    uint64_t z = (d->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32) % n;
}

static inline float roll_number(dice *d) { return (float)((int32_t)roll(d, 2001) - 1000) * 0x1p-10f; }

static inline kiln_t random_constant(recording *r, dice *d, uint32_t rank, const int64_t *dim)
{
    float data[4096];
    int64_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= dim[i];
    if (n > 4096) return (kiln_t){0};
    for (int64_t i = 0; i < n; i++) data[i] = roll_number(d) * 0.5f;
    return record_constant(r, KILN_F32, data, rank, dim);
}

static inline kiln_t random_linear(recording *r, dice *d, kiln_t x, int64_t out)
{
    const op *o = recorded(r, x);
    int64_t in = o->shape.dim[o->shape.rank - 1];
    kiln_t w = random_constant(r, d, 2, (const int64_t[]){out, in}),
           b = roll(d, 2) ? random_constant(r, d, 1, &out) : (kiln_t){0};
    return record_op(r, OP_LINEAR, NULL, (const kiln_t[]){x, w, b}, 3);
}

static inline kiln_t random_attention(recording *r, dice *d, kiln_t x)
{
    int64_t width = recorded(r, x)->shape.dim[2];
    kiln_t q = random_linear(r, d, x, width), k = random_linear(r, d, x, width), v = random_linear(r, d, x, width);
    op_attr a = {.attention = {.heads = 2, .scale = 0.5f, .causal = roll(d, 2)}};
    return record_op(r, OP_ATTENTION, &a, (const kiln_t[]){q, k, v, {0}}, 4);
}

/* One op more on a tensor that is there; {0} when the op drawn does not fit the tensor drawn. */
static inline kiln_t random_op(recording *r, dice *d, const kiln_t *have, uint32_t n)
{
    kiln_t x = have[roll(d, n)], y = have[roll(d, n)];
    shape s = recorded(r, x)->shape, t = recorded(r, y)->shape;
    int64_t c = s.dim[s.rank - 1];
    op_attr a = {0};
    switch (roll(d, 18)) {
    case 0:
        if (s.rank != 4 || c > 16) return (kiln_t){0};
        a.conv2d = (conv2d_attr){.stride = {1, 1}, .pad = {1, 1, 1, 1}, .dilation = {1, 1}, .groups = 1};
        return record_op(r, OP_CONV2D, &a,
                         (const kiln_t[]){x, random_constant(r, d, 4, (const int64_t[]){8, c, 3, 3}), {0}}, 3);
    case 1:
    case 2: return c > 64 ? (kiln_t){0} : random_linear(r, d, x, roll(d, 2) ? 8 : 16);
    case 3: a.act.kind = 1 + roll(d, 7); return record_op(r, OP_ACT, &a, &x, 1);
    case 4:
        if (s.rank < 3 || c % 4) return (kiln_t){0};
        a.norm = (norm_attr){.groups = 4, .eps = 1e-5f};
        return record_op(r, OP_GROUP_NORM, &a,
                         (const kiln_t[]){x, random_constant(r, d, 1, &c), random_constant(r, d, 1, &c)}, 3);
    case 5:
        a.norm = (norm_attr){.eps = 1e-5f};
        return record_op(r, OP_LAYER_NORM, &a,
                         (const kiln_t[]){x, random_constant(r, d, 1, &c), random_constant(r, d, 1, &c)}, 3);
    case 6:
    case 7:
    case 8:
        if (!shape_equal(&s, &t)) return (kiln_t){0};
        return record_op(r, roll(d, 3) ? OP_ADD : OP_MUL, NULL, (const kiln_t[]){x, y}, 2);
    case 9: a.affine.scale = 0.5f, a.affine.shift = 0.25f; return record_op(r, OP_AFFINE, &a, &x, 1);
    case 10: return c % 2 || c < 4 ? (kiln_t){0} : record_op(r, OP_GEGLU, NULL, &x, 1);
    case 11:
    case 12:
        a.concat.axis = roll(d, 3) ? s.rank - 1 : roll(d, s.rank);
        if (s.rank != t.rank || shape_count(&s) > 2000) return (kiln_t){0};
        for (uint32_t i = 0; i < s.rank; i++)
            if (i != a.concat.axis && s.dim[i] != t.dim[i]) return (kiln_t){0};
        return record_op(r, OP_CONCAT, &a, (const kiln_t[]){x, y}, 2);
    case 13:
        a.slice.axis = roll(d, s.rank);
        a.slice.length = 1 + roll(d, (uint32_t)s.dim[a.slice.axis]);
        a.slice.start = roll(d, (uint32_t)(s.dim[a.slice.axis] - a.slice.length + 1));
        return record_op(r, OP_SLICE, &a, &x, 1);
    case 14:
        if (s.rank == 4) return record_reshape(r, x, 3, (const int64_t[]){s.dim[0], s.dim[1] * s.dim[2], c});
        return s.rank == 3 ? record_reshape(r, x, 4, (const int64_t[]){s.dim[0], s.dim[1], 1, c}) : (kiln_t){0};
    case 15:
        for (uint32_t i = 0; i < s.rank; i++) a.permute.axis[i] = (i + 1) % s.rank;
        return record_op(r, OP_PERMUTE, &a, &x, 1);
    case 16: /* with a row of itself, which may be a view of what is written over */
        a.slice.axis = roll(d, s.rank - 1);
        a.slice.length = 1;
        a.slice.start = s.dim[a.slice.axis] - 1 - roll(d, 2) % s.dim[a.slice.axis];
        return record_op(r, roll(d, 2) ? OP_ADD : OP_MUL, NULL, (const kiln_t[]){x, record_op(r, OP_SLICE, &a, &x, 1)},
                         2);
    default: return s.rank == 3 && c % 2 == 0 && c <= 32 ? random_attention(r, d, x) : (kiln_t){0};
    }
}

static const int64_t picture_dim[] = {2, 4, 4, 8}, tokens_dim[] = {2, 5, 8};
enum { PICTURE = 2 * 4 * 4 * 8, TOKENS = 2 * 5 * 8, RANDOM_OPS = 40, RANDOM_OUTPUTS = 3 };

/* Inputs "x" (a picture) and "t" (tokens), some ops, three outputs "o0".. (may be one tensor twice). */
static inline void random_program(recording *r, uint64_t seed, uint32_t ops)
{
    static const char *const name[RANDOM_OUTPUTS] = {"o0", "o1", "o2"};
    dice d = {seed};
    kiln_t have[RANDOM_OPS + 2] = {record_input(r, "x", KILN_F32, 4, picture_dim),
                                   record_input(r, "t", KILN_F32, 3, tokens_dim)};
    uint32_t n = 2;
    for (uint32_t i = 0; i < ops * 3 && n < ops + 2; i++) {
        kiln_t t = random_op(r, &d, have + (n > 6 && roll(&d, 2) ? n - 4 : 0), n > 6 ? 4 : n); /* mostly what is new */
        if (t.id) have[n++] = t;
    }
    for (uint32_t i = 0; i < RANDOM_OUTPUTS; i++) record_output(r, name[i], have[i == 0 ? n - 1 : roll(&d, n)]);
}

/* Every op of an unplanned f32 recording, each into memory of its own. value[id], or NULL; caller frees each and all.
 */
static inline float **plain_evaluation(const recording *r, const float *x, const float *t, pool *threads)
{
    float **value = mem_calloc(r->n + 1, sizeof *value);
    for (uint32_t id = 1; value && id <= r->n; id++) {
        const op *o = &r->op[id - 1];
        size_t n = (size_t)shape_count(&o->shape);
        value[id] = mem_calloc(n + 1, sizeof(float));
        if (o->kind == OP_INPUT) memcpy(value[id], o->name[0] == 'x' ? x : t, n * sizeof(float));
        if (o->kind == OP_CONSTANT) memcpy(value[id], o->constant, n * sizeof(float));
        if (o->kind <= OP_CONSTANT) continue;
        op_desc d = {.kind = o->kind,
                     .attr = o->attr,
                     .n_in = o->n_in,
                     .precision = KILN_F32,
                     .out = {.dtype = KILN_F32, .shape = o->shape, .ld = o->shape.dim[o->shape.rank - 1]}};
        kernel_args a = {.out = value[id], .pool = threads};
        for (uint32_t k = 0; k < o->n_in; k++) {
            if (!o->in[k]) continue;
            const op *from = &r->op[o->in[k] - 1];
            d.in[k] = (operand_desc){.dtype = KILN_F32,
                                     .shape = from->shape,
                                     .ld = from->shape.dim[from->shape.rank - 1],
                                     .weight = from->kind == OP_CONSTANT};
            a.in[k] = value[o->in[k]];
        }
        kernel *kn = NULL;
        error e = {0};
        if (CHECK_MSG(backend_reference.prepare(&d, &kn, &e) == KILN_OK, "%s: %s", op_name(o->kind), e.message)) {
            a.scratch = mem_aligned(64, kn->scratch_bytes + 64);
            CHECK_MSG(kn->run(kn, &a, &e) == KILN_OK, "%s: %s", op_name(o->kind), e.message);
            mem_free((void *)a.scratch);
            kn->free(kn);
        }
    }
    return value;
}

static inline void plain_free(float **value, size_t n)
{
    for (size_t i = 0; value && i <= n; i++) mem_free(value[i]);
    mem_free(value);
}

static inline void random_inputs(float *x, float *t)
{
    dice d = {99};
    for (int i = 0; i < PICTURE; i++) x[i] = roll_number(&d);
    for (int i = 0; i < TOKENS; i++) t[i] = roll_number(&d);
}

static inline kiln_bind bind_f32(const char *name, float *data, uint32_t rank, const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data});
}

#endif
