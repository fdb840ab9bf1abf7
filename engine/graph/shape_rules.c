/* shape_rules.c - one rule per op, in a table; each mistake a recorder can make has its message here. */
#include "graph/shape_rules.h"

#include "base/checked.h"

#include <string.h>

typedef kiln_status rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e);

static kiln_status wrong(error *e, const char *what, const shape *a, const shape *b)
{
    char x[80], y[80];
    if (!b) return error_set(e, KILN_ERR_INVALID, "%s, got %s", what, shape_text(a, x));
    return error_set(e, KILN_ERR_INVALID, "%s, got %s and %s", what, shape_text(a, x), shape_text(b, y));
}

static int64_t last(const shape *s) { return s->rank ? s->dim[s->rank - 1] : 1; }

static int is_vector(const shape *s, int64_t n) { return !s || (s->rank == 1 && s->dim[0] == n); }

static kiln_status finish(const shape *out, error *e)
{
    shape checked;
    char text[80];
    if (shape_make(&checked, out->rank, out->dim)) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "the result %s is too large", shape_text(out, text));
}

/* (size + before + after - dilation (kernel - 1) - 1) / stride + 1 */
static int64_t conv_size(int64_t size, int32_t before, int32_t after, int64_t kernel, int32_t dilation, int32_t stride)
{
    int64_t span = (int64_t)dilation * (kernel - 1) + 1, capacity = size + before + after - span;
    return capacity < 0 ? 0 : capacity / stride + 1;
}

static kiln_status conv2d_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    const conv2d_attr *c = &a->conv2d;
    (void)n;
    if (in[0]->rank != 4 || in[1]->rank != 4)
        return wrong(e, "conv2d takes x [N,H,W,I] and w [O,I,kh,kw]", in[0], in[1]);
    if (c->stride[0] < 1 || c->stride[1] < 1 || c->dilation[0] < 1 || c->dilation[1] < 1 || c->groups < 1 ||
        c->pad[0] < 0 || c->pad[1] < 0 || c->pad[2] < 0 || c->pad[3] < 0 || c->stride[0] > 64 || c->stride[1] > 64 ||
        c->dilation[0] > 64 || c->dilation[1] > 64)
        return error_set(e, KILN_ERR_INVALID,
                         "conv2d: stride, dilation and groups must be 1 or more (64 at most), padding 0 or more");
    if (c->groups != 1) return error_set(e, KILN_ERR_UNSUPPORTED, "conv2d: grouped convolution is not supported yet");
    if (in[0]->dim[3] != in[1]->dim[1])
        return wrong(e, "conv2d: x's channels and w's input channels differ", in[0], in[1]);
    if (!is_vector(in[2], in[1]->dim[0]))
        return wrong(e, "conv2d: bias must have one number an output channel", in[1], in[2]);
    *out = (shape){.rank = 4,
                   .dim = {in[0]->dim[0],
                           conv_size(in[0]->dim[1], c->pad[0], c->pad[2], in[1]->dim[2], c->dilation[0], c->stride[0]),
                           conv_size(in[0]->dim[2], c->pad[1], c->pad[3], in[1]->dim[3], c->dilation[1], c->stride[1]),
                           in[1]->dim[0]}};
    if (out->dim[1] < 1 || out->dim[2] < 1)
        return wrong(e, "conv2d: the picture is smaller than the kernel", in[0], in[1]);
    return KILN_OK;
}

static kiln_status linear_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    if (in[0]->rank < 1 || in[1]->rank != 2 || last(in[0]) != in[1]->dim[1])
        return wrong(e, "linear takes x [...,I] and w [O,I]", in[0], in[1]);
    if (!is_vector(in[2], in[1]->dim[0])) return wrong(e, "linear: bias must have one number an output", in[1], in[2]);
    *out = *in[0];
    out->dim[out->rank - 1] = in[1]->dim[0];
    return KILN_OK;
}

static kiln_status attention_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    int64_t heads = a->attention.heads;
    if (in[0]->rank != 3 || in[1]->rank != 3 || in[2]->rank != 3)
        return wrong(e, "attention takes q, k, v [N,T,heads*D]", in[0], in[1]);
    if (!shape_equal(in[1], in[2])) return wrong(e, "attention: k and v differ in shape", in[1], in[2]);
    if (in[0]->dim[0] != in[1]->dim[0] || in[0]->dim[2] != in[1]->dim[2])
        return wrong(e, "attention: q and k differ in batch or width", in[0], in[1]);
    if (heads < 1 || last(in[0]) % heads || last(in[0]) == 0)
        return error_set(e, KILN_ERR_INVALID, "attention: a width of %lld does not divide into %lld heads",
                         (long long)last(in[0]), (long long)heads);
    const shape *m = n > 3 ? in[3] : NULL;
    if (m && (m->rank != 4 || (m->dim[0] != 1 && m->dim[0] != in[0]->dim[0]) ||
              (m->dim[1] != 1 && m->dim[1] != heads) || m->dim[2] != in[0]->dim[1] || m->dim[3] != in[1]->dim[1]))
        return wrong(e, "attention: mask must be [1 or N, 1 or heads, Tq, Tk]", in[0], m);
    *out = *in[0];
    return KILN_OK;
}

static kiln_status good_eps(const op_attr *a, const char *name, error *e)
{
    if (a->norm.eps >= 0 && a->norm.eps < 1) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "%s: eps must be in 0..1, got %g", name, (double)a->norm.eps);
}

static kiln_status group_norm_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (in[0]->rank < 2) return wrong(e, "group_norm takes x [N,...,C]", in[0], NULL);
    TRY(good_eps(a, "group_norm", e));
    if (a->norm.groups < 1 || last(in[0]) % a->norm.groups)
        return error_set(e, KILN_ERR_INVALID, "group_norm: %lld channels do not divide into %d groups",
                         (long long)last(in[0]), a->norm.groups);
    if (!is_vector(in[1], last(in[0])) || !is_vector(in[2], last(in[0])))
        return wrong(e, "group_norm: gamma and beta must have one number a channel", in[0],
                     in[is_vector(in[1], last(in[0])) ? 2 : 1]);
    *out = *in[0];
    return KILN_OK;
}

static kiln_status layer_norm_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    TRY(good_eps(a, "layer_norm", e));
    if (in[0]->rank < 1) return wrong(e, "layer_norm takes x [...,C]", in[0], NULL);
    if (!is_vector(in[1], last(in[0])) || !is_vector(in[2], last(in[0])))
        return wrong(e, "layer_norm: gamma and beta must have one number a channel", in[0],
                     in[is_vector(in[1], last(in[0])) ? 2 : 1]);
    *out = *in[0];
    return KILN_OK;
}

static kiln_status broadcast_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    int fits = in[1]->rank <= in[0]->rank;
    for (uint32_t i = 1; fits && i <= in[1]->rank; i++) {
        int64_t own = in[1]->dim[in[1]->rank - i];
        fits = own == 1 || own == in[0]->dim[in[0]->rank - i];
    }
    if (!fits) return wrong(e, "the second operand does not broadcast to the first", in[0], in[1]);
    *out = *in[0];
    return KILN_OK;
}

static kiln_status same_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n, (void)e;
    *out = *in[0];
    return KILN_OK;
}

static kiln_status act_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    if (a->act.kind == KILN_ACT_NONE || a->act.kind > KILN_ACT_TANH)
        return error_set(e, KILN_ERR_INVALID, "act: no activation has number %u", a->act.kind);
    return same_rule(a, in, n, out, e);
}

static kiln_status geglu_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    if (in[0]->rank < 1 || last(in[0]) % 2 || last(in[0]) == 0)
        return wrong(e, "geglu takes an even number of columns", in[0], NULL);
    *out = *in[0];
    out->dim[out->rank - 1] /= 2;
    return KILN_OK;
}

static kiln_status upsample_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (in[0]->rank != 4 || a->upsample.h < 1 || a->upsample.w < 1)
        return wrong(e, "upsample_nearest takes x [N,H,W,C] and a size of 1 or more", in[0], NULL);
    *out = *in[0];
    out->dim[1] = a->upsample.h;
    out->dim[2] = a->upsample.w;
    return KILN_OK;
}

static kiln_status concat_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    uint32_t axis = a->concat.axis;
    if (n < 1) return error_set(e, KILN_ERR_INVALID, "concat of nothing");
    if (axis >= in[0]->rank) return wrong(e, "concat takes an axis of its operands", in[0], NULL);
    *out = *in[0];
    for (uint32_t i = 1; i < n; i++) {
        if (in[i]->rank != out->rank) return wrong(e, "concat: operands differ in rank", out, in[i]);
        for (uint32_t k = 0; k < out->rank; k++)
            if (k != axis && in[i]->dim[k] != in[0]->dim[k])
                return wrong(e, "concat: operands differ outside the axis", in[0], in[i]);
        out->dim[axis] += in[i]->dim[axis];
    }
    return KILN_OK;
}

static kiln_status slice_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    uint32_t axis = a->slice.axis;
    if (axis >= in[0]->rank || a->slice.start < 0 || a->slice.length < 1 ||
        a->slice.length > in[0]->dim[axis] - a->slice.start)
        return wrong(e, "slice reaches outside its operand", in[0], NULL);
    *out = *in[0];
    out->dim[axis] = a->slice.length;
    return KILN_OK;
}

static kiln_status permute_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    uint32_t seen = 0;
    out->rank = in[0]->rank;
    for (uint32_t i = 0; i < in[0]->rank; i++) {
        uint32_t from = a->permute.axis[i];
        if (from >= in[0]->rank || seen & (1u << from)) return wrong(e, "permute takes each axis once", in[0], NULL);
        seen |= 1u << from;
        out->dim[i] = in[0]->dim[from];
    }
    return KILN_OK;
}

static kiln_status embedding_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    if (in[0]->rank != 2 || in[1]->rank + 1 > KILN_MAX_RANK)
        return wrong(e, "embedding takes a table [V,D] and ids", in[0], in[1]);
    *out = *in[1];
    out->dim[out->rank++] = in[0]->dim[1];
    return KILN_OK;
}

static kiln_status gather_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    if (in[0]->rank != 3 || in[1]->rank != 1 || in[1]->dim[0] != in[0]->dim[0])
        return wrong(e, "gather takes x [N,T,D] and index [N]", in[0], in[1]);
    *out = (shape){.rank = 2, .dim = {in[0]->dim[0], in[0]->dim[2]}};
    return KILN_OK;
}

static kiln_status timestep_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (!in[0]->rank || in[0]->rank == KILN_MAX_RANK || a->timestep.dim < 2)
        return wrong(e, "timestep_embedding takes times [...] and 2 columns or more", in[0], NULL);
    *out = *in[0];
    out->dim[out->rank++] = a->timestep.dim;
    return KILN_OK;
}

static rule *const rules[OP_KIND_COUNT] = {
    [OP_CONVERT] = same_rule,          [OP_CONV2D] = conv2d_rule,
    [OP_LINEAR] = linear_rule,         [OP_ATTENTION] = attention_rule,
    [OP_GROUP_NORM] = group_norm_rule, [OP_LAYER_NORM] = layer_norm_rule,
    [OP_ADD] = broadcast_rule,         [OP_MUL] = broadcast_rule,
    [OP_AFFINE] = same_rule,           [OP_ACT] = act_rule,
    [OP_GEGLU] = geglu_rule,           [OP_UPSAMPLE] = upsample_rule,
    [OP_CONCAT] = concat_rule,         [OP_SLICE] = slice_rule,
    [OP_PERMUTE] = permute_rule,       [OP_EMBEDDING] = embedding_rule,
    [OP_GATHER] = gather_rule,         [OP_TIMESTEP] = timestep_rule,
};

kiln_status shape_of_op(op_kind kind, const op_attr *attr, const shape *const *in, uint32_t n_in, shape *out, error *e)
{
    *out = (shape){0};
    TRY(rules[kind](attr, in, n_in, out, e));
    return finish(out, e);
}

/* Saturating: shapes that are only checked may be too large to ever run. */
static uint64_t times(uint64_t a, int64_t b)
{
    uint64_t product;
    return checked_mul_u64(a, (uint64_t)b, &product) ? product : UINT64_MAX;
}

uint64_t flops_of_op(op_kind kind, const op_attr *attr, const shape *const *in, const shape *out)
{
    (void)attr;
    switch (kind) {
    case OP_CONV2D: return times(times(2 * (uint64_t)shape_count(out), in[1]->dim[1]), in[1]->dim[2] * in[1]->dim[3]);
    case OP_LINEAR: return times(2 * (uint64_t)shape_count(in[0]), in[1]->dim[0]);
    case OP_ATTENTION: return times(4 * (uint64_t)shape_count(in[0]), in[1]->dim[1]);
    default: return 0;
    }
}
