/* shape_rules.c - one rule per op, in a table; each mistake a recorder can make has its message here. */
#include "graph/custom_call.h"
#include "graph/shape_rule.h"
#include "graph/shape_rules.h"

#include "base/checked.h"

#include <string.h>

kiln_status wrong_shapes(error *e, const char *what, const shape *a, const shape *b)
{
    char x[80], y[80];
    if (!b) return error_set(e, KILN_ERR_INVALID, "%s, got %s", what, shape_text(a, x));
    return error_set(e, KILN_ERR_INVALID, "%s, got %s and %s", what, shape_text(a, x), shape_text(b, y));
}

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
        return wrong_shapes(e, "conv2d takes x [N,H,W,I] and w [O,I,kh,kw]", in[0], in[1]);
    if (c->stride[0] < 1 || c->stride[1] < 1 || c->dilation[0] < 1 || c->dilation[1] < 1 || c->groups < 1 ||
        c->pad[0] < 0 || c->pad[1] < 0 || c->pad[2] < 0 || c->pad[3] < 0 || c->stride[0] > 64 || c->stride[1] > 64 ||
        c->dilation[0] > 64 || c->dilation[1] > 64)
        return error_set(e, KILN_ERR_INVALID,
                         "conv2d: stride, dilation and groups must be 1 or more (64 at most), padding 0 or more");
    if (c->groups != 1) return error_set(e, KILN_ERR_INVALID, "conv2d of several groups is recorded as a conv");
    if (in[0]->dim[3] != in[1]->dim[1])
        return wrong_shapes(e, "conv2d: x's channels and w's input channels differ", in[0], in[1]);
    if (!is_vector(in[2], in[1]->dim[0]))
        return wrong_shapes(e, "conv2d: bias must have one number an output channel", in[1], in[2]);
    *out = (shape){.rank = 4,
                   .dim = {in[0]->dim[0],
                           conv_size(in[0]->dim[1], c->pad[0], c->pad[2], in[1]->dim[2], c->dilation[0], c->stride[0]),
                           conv_size(in[0]->dim[2], c->pad[1], c->pad[3], in[1]->dim[3], c->dilation[1], c->stride[1]),
                           in[1]->dim[0]}};
    if (out->dim[1] < 1 || out->dim[2] < 1)
        return wrong_shapes(e, "conv2d: the picture is smaller than the kernel", in[0], in[1]);
    return KILN_OK;
}

static kiln_status linear_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    if (in[0]->rank < 1 || in[1]->rank != 2 || last_dimension(in[0]) != in[1]->dim[1])
        return wrong_shapes(e, "linear takes x [...,I] and w [O,I]", in[0], in[1]);
    if (!is_vector(in[2], in[1]->dim[0]))
        return wrong_shapes(e, "linear: bias must have one number an output", in[1], in[2]);
    *out = *in[0];
    out->dim[out->rank - 1] = in[1]->dim[0];
    return KILN_OK;
}

static kiln_status good_eps(const op_attr *a, const char *name, error *e)
{
    if (a->norm.eps >= 0 && a->norm.eps < 1) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "%s: eps must be in 0..1, got %g", name, (double)a->norm.eps);
}

static kiln_status good_groups(const op_attr *a, const char *name, const shape *x, error *e)
{
    if (a->norm.groups >= 1 && last_dimension(x) % a->norm.groups == 0) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "%s: %lld channels do not divide into %d groups", name,
                     (long long)last_dimension(x), a->norm.groups);
}

static kiln_status group_norm_stats_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (in[0]->rank != 4) return wrong_shapes(e, "group_norm_stats takes x [N,H,W,C]", in[0], NULL);
    TRY(good_groups(a, "group_norm_stats", in[0], e));
    *out = *in[0];
    out->dim[2] = a->norm.groups, out->dim[3] = OP_NORM_STATS;
    return KILN_OK;
}

static int are_stats_of(const op_attr *a, const shape *m, const shape *x)
{
    return m->rank == 4 && x->rank == 4 && m->dim[0] == x->dim[0] && m->dim[1] >= 1 && m->dim[2] == a->norm.groups &&
           m->dim[3] == OP_NORM_STATS;
}

static kiln_status group_norm_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    if (in[0]->rank < 2) return wrong_shapes(e, "group_norm takes x [N,...,C]", in[0], NULL);
    TRY(good_eps(a, "group_norm", e));
    if (n > 3 && in[3] && !are_stats_of(a, in[3], in[0]))
        return wrong_shapes(e, "group_norm_apply takes x [N,h,W,C] and stats [N,H,groups,3]", in[0], in[3]);
    TRY(good_groups(a, "group_norm", in[0], e));
    if (!is_vector(in[1], last_dimension(in[0])) || !is_vector(in[2], last_dimension(in[0])))
        return wrong_shapes(e, "group_norm: gamma and beta must have one number a channel", in[0],
                            in[is_vector(in[1], last_dimension(in[0])) ? 2 : 1]);
    *out = *in[0];
    return KILN_OK;
}

static kiln_status layer_norm_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    TRY(good_eps(a, "layer_norm", e));
    if (in[0]->rank < 1) return wrong_shapes(e, "layer_norm takes x [...,C]", in[0], NULL);
    if (!is_vector(in[1], last_dimension(in[0])) || !is_vector(in[2], last_dimension(in[0])))
        return wrong_shapes(e, "layer_norm: gamma and beta must have one number a channel", in[0],
                            in[is_vector(in[1], last_dimension(in[0])) ? 2 : 1]);
    *out = *in[0];
    return KILN_OK;
}

static kiln_status add_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    int fits = in[1]->rank <= in[0]->rank;
    for (uint32_t i = 1; fits && i <= in[1]->rank; i++) {
        int64_t own = in[1]->dim[in[1]->rank - i];
        fits = own == 1 || own == in[0]->dim[in[0]->rank - i];
    }
    if (!fits) return wrong_shapes(e, "the second operand does not broadcast to the first", in[0], in[1]);
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
    if (in[0]->rank < 1 || last_dimension(in[0]) % 2 || last_dimension(in[0]) == 0)
        return wrong_shapes(e, "geglu takes an even number of columns", in[0], NULL);
    *out = *in[0];
    out->dim[out->rank - 1] /= 2;
    return KILN_OK;
}

static kiln_status upsample_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (in[0]->rank != 4 || a->upsample.h < 1 || a->upsample.w < 1)
        return wrong_shapes(e, "upsample_nearest takes x [N,H,W,C] and a size of 1 or more", in[0], NULL);
    *out = *in[0];
    out->dim[1] = a->upsample.h;
    out->dim[2] = a->upsample.w;
    return KILN_OK;
}

static kiln_status concat_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    uint32_t axis = a->concat.axis;
    if (n < 1) return error_set(e, KILN_ERR_INVALID, "concat of nothing");
    if (axis >= in[0]->rank) return wrong_shapes(e, "concat takes an axis of its operands", in[0], NULL);
    *out = *in[0];
    for (uint32_t i = 1; i < n; i++) {
        if (in[i]->rank != out->rank) return wrong_shapes(e, "concat: operands differ in rank", out, in[i]);
        for (uint32_t k = 0; k < out->rank; k++)
            if (k != axis && in[i]->dim[k] != in[0]->dim[k])
                return wrong_shapes(e, "concat: operands differ outside the axis", in[0], in[i]);
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
        return wrong_shapes(e, "slice reaches outside its operand", in[0], NULL);
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
        if (from >= in[0]->rank || seen & (1u << from))
            return wrong_shapes(e, "permute takes each axis once", in[0], NULL);
        seen |= 1u << from;
        out->dim[i] = in[0]->dim[from];
    }
    return KILN_OK;
}

static kiln_status embedding_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    if (in[0]->rank != 2 || in[1]->rank + 1 > KILN_MAX_RANK)
        return wrong_shapes(e, "embedding takes a table [V,D] and ids", in[0], in[1]);
    *out = *in[1];
    out->dim[out->rank++] = in[0]->dim[1];
    return KILN_OK;
}

static kiln_status gather_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    if (in[0]->rank != 3 || in[1]->rank < 1 || in[1]->rank > 2 || in[1]->dim[0] != in[0]->dim[0])
        return wrong_shapes(e, "gather takes x [N,T,D] and index [N] or [N,K]", in[0], in[1]);
    *out = *in[1];
    out->dim[out->rank++] = in[0]->dim[2];
    return KILN_OK;
}

static kiln_status timestep_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (!in[0]->rank || in[0]->rank == KILN_MAX_RANK || a->timestep.dim < 2)
        return wrong_shapes(e, "timestep_embedding takes times [...] and 2 columns or more", in[0], NULL);
    *out = *in[0];
    out->dim[out->rank++] = a->timestep.dim;
    return KILN_OK;
}

static shape_rule *const rules[OP_KIND_COUNT] = {
    [OP_CONVERT] = same_rule,
    [OP_CONV2D] = conv2d_rule,
    [OP_LINEAR] = linear_rule,
    [OP_ATTENTION] = attention_rule,
    [OP_GROUP_NORM] = group_norm_rule,
    [OP_GROUP_NORM_STATS] = group_norm_stats_rule,
    [OP_LAYER_NORM] = layer_norm_rule,
    [OP_ADD] = add_rule,
    [OP_MUL] = add_rule,
    [OP_AFFINE] = same_rule,
    [OP_ACT] = act_rule,
    [OP_GEGLU] = geglu_rule,
    [OP_UPSAMPLE] = upsample_rule,
    [OP_CONCAT] = concat_rule,
    [OP_SLICE] = slice_rule,
    [OP_PERMUTE] = permute_rule,
    [OP_EMBEDDING] = embedding_rule,
    [OP_GATHER] = gather_rule,
    [OP_TIMESTEP] = timestep_rule,
    [OP_MAP] = map_rule,
    [OP_NORM] = norm_rule,
    [OP_ROPE] = rope_rule,
    [OP_SOFTMAX] = softmax_rule,
    [OP_REDUCE] = reduce_rule,
    [OP_SORT] = sort_rule,
    [OP_CUMSUM] = cumsum_rule,
    [OP_BINCOUNT] = bincount_rule,
    [OP_TAKE] = take_rule,
    [OP_TAKE_ALONG] = take_along_rule,
    [OP_SCATTER] = scatter_rule,
    [OP_MATMUL] = matmul_rule,
    [OP_LINEAR_T] = linear_transposed_rule,
    [OP_GROUPED_LINEAR] = grouped_linear_rule,
    [OP_CONV] = conv_rule,
    [OP_INTERPOLATE] = interpolate_rule,
    [OP_POOL] = pool_rule,
    [OP_PAD] = pad_rule,
    [OP_GRID_SAMPLE] = grid_sample_rule,
    [OP_STATE_WRITE] = state_write_rule,
};

kiln_status shape_of_op(op_kind kind, const op_attr *attr, const shape *const *in, uint32_t n_in, shape *out, error *e)
{
    *out = (shape){0};
    if (!rules[kind]) return error_set(e, KILN_ERR_BUG, "%s has no rule for its shape", op_name(kind));
    TRY(rules[kind](attr, in, n_in, out, e));
    return finish(out, e);
}

/* Saturating: shapes that are only checked may be too large to ever run. */
static uint64_t times(uint64_t a, int64_t b)
{
    uint64_t product;
    return checked_mul_u64(a, (uint64_t)b, &product) ? product : UINT64_MAX;
}

static uint64_t attention_flops(const op_attr *a, const shape *const *in, uint32_t n, const shape *out)
{
    int64_t pages = n > 11 && in[11] ? in[11]->dim[1] : 1, keys = in[1]->dim[1] * pages;
    (void)a;
    return times(2 * (uint64_t)(shape_count(in[0]) + shape_count(out)), keys);
}

/* Of an upsampled picture's row or column there are half as many numbers: two taps or more meet the same one. */
static int64_t taps_of(const op_attr *attr, int64_t taps) { return attr->conv2d.upsampled.rows ? taps / 2 + 1 : taps; }

uint64_t flops_of_op(op_kind kind, const op_attr *attr, const shape *const *in, uint32_t n_in, const shape *out)
{
    switch (kind) {
    case OP_CONV2D:
        return times(times(2 * (uint64_t)shape_count(out), in[1]->dim[1]),
                     taps_of(attr, in[1]->dim[2]) * taps_of(attr, in[1]->dim[3]));
    case OP_CONV: /* transposed: each element of x meets each of its group's weights */
        return attr->conv.transposed ? times(2 * (uint64_t)shape_count(in[0]), shape_count(in[1]) / in[1]->dim[0])
                                     : times(2 * (uint64_t)shape_count(out), shape_count(in[1]) / in[1]->dim[0]);
    case OP_LINEAR: return times(2 * (uint64_t)shape_count(in[0]), in[1]->dim[0]);
    case OP_LINEAR_T: return times(2 * (uint64_t)shape_count(in[0]), in[1]->dim[1]);
    case OP_GROUPED_LINEAR: return times(2 * (uint64_t)shape_count(out), in[1]->dim[2]);
    case OP_MATMUL: return times(2 * (uint64_t)shape_count(out), last_dimension(in[0]));
    case OP_ATTENTION: return attention_flops(attr, in, n_in, out);
    case OP_CUSTOM: return custom_flops(attr->custom, in, n_in, out);
    default: return 0;
    }
}
