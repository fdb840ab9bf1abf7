/* shape_rules_sequence.c - rules of what works on elements, rows and places. */
#include "graph/shape_rule.h"

int repeats_to(const shape *s, const shape *to)
{
    if (!s) return 1;
    if (s->rank > to->rank) return 0;
    for (uint32_t i = 1; i <= s->rank; i++) {
        int64_t own = s->dim[s->rank - i];
        if (own != 1 && own != to->dim[to->rank - i]) return 0;
    }
    return 1;
}

/* Dimensions aligned at the end; one of 1 takes the other's size. */
static int widen(shape *out, const shape *s)
{
    shape wide = {.rank = out->rank > s->rank ? out->rank : s->rank};
    for (uint32_t i = 1; i <= wide.rank; i++) {
        int64_t a = i <= out->rank ? out->dim[out->rank - i] : 1, b = i <= s->rank ? s->dim[s->rank - i] : 1;
        if (a != b && a != 1 && b != 1) return 0;
        wide.dim[wide.rank - i] = a == 1 ? b : a;
    }
    *out = wide;
    return 1;
}

kiln_status map_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    const shape *least = &a->map.least;
    if (least->rank && !repeats_to(in[0], least))
        return wrong_shapes(e, "expand: x does not broadcast to that shape", in[0], least);
    *out = *least;
    for (uint32_t i = 0; i < n; i++)
        if (!widen(out, in[i])) return wrong_shapes(e, "map: operands do not broadcast to one shape", out, in[i]);
    return KILN_OK;
}

kiln_status norm_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    int64_t columns = last_dimension(in[0]), group = a->any_norm.group;
    (void)n;
    if (in[0]->rank < 1) return wrong_shapes(e, "norm takes x [...,C]", in[0], NULL);
    if (a->any_norm.kind > KILN_NORM_L2)
        return error_set(e, KILN_ERR_INVALID, "norm: no norm has number %u", a->any_norm.kind);
    if (!(a->any_norm.eps >= 0 && a->any_norm.eps < 1))
        return error_set(e, KILN_ERR_INVALID, "norm: eps must be in 0..1, got %g", (double)a->any_norm.eps);
    if (group < 1 || columns % group)
        return error_set(e, KILN_ERR_INVALID, "norm: %lld columns do not divide into groups of %lld",
                         (long long)columns, (long long)group);
    for (uint32_t i = 1; i <= 2; i++)
        if (!is_vector(in[i], columns) && !is_vector(in[i], group))
            return wrong_shapes(e, "norm: gain and bias must have one number a column, or a column of a group", in[0],
                                in[i]);
    for (uint32_t i = 3; i <= 4; i++)
        if (!repeats_to(in[i], in[0]))
            return wrong_shapes(e, "norm: scale and shift must broadcast to x", in[0], in[i]);
    *out = *in[0];
    return KILN_OK;
}

kiln_status rope_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    int64_t heads = a->rope.heads, half = a->rope.rotary / 2;
    (void)n;
    if (in[0]->rank != 3) return wrong_shapes(e, "rope takes x [N,T,heads*D]", in[0], NULL);
    if (heads < 1 || in[0]->dim[2] % heads)
        return error_set(e, KILN_ERR_INVALID, "rope: a width of %lld does not divide into %lld heads",
                         (long long)in[0]->dim[2], (long long)heads);
    if (half < 1 || a->rope.rotary % 2 || a->rope.rotary > in[0]->dim[2] / heads)
        return error_set(e, KILN_ERR_INVALID, "rope: %lld of a head's %lld columns cannot turn in pairs",
                         (long long)a->rope.rotary, (long long)(in[0]->dim[2] / heads));
    for (uint32_t i = 1; i <= 2; i++) {
        const int64_t *d = in[i]->dim;
        if (in[i]->rank != 4 || (d[0] != 1 && d[0] != in[0]->dim[0]) || d[1] != in[0]->dim[1] ||
            (d[2] != 1 && d[2] != heads) || d[3] != half)
            return wrong_shapes(e, "rope: cos and sin must be [1 or N,T,1 or heads,rotary/2]", in[0], in[i]);
    }
    if (!shape_equal(in[1], in[2])) return wrong_shapes(e, "rope: cos and sin differ in shape", in[1], in[2]);
    *out = *in[0];
    return KILN_OK;
}

kiln_status softmax_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    int64_t columns = last_dimension(in[0]), rows = columns ? shape_count(in[0]) / columns : 0;
    (void)a;
    if (in[0]->rank < 1) return wrong_shapes(e, "softmax takes x [...,C]", in[0], NULL);
    if (n > 1 && in[1] && shape_count(in[1]) != 1 && shape_count(in[1]) != rows)
        return wrong_shapes(e, "softmax: length must be one number, or one a row", in[0], in[1]);
    *out = *in[0];
    return KILN_OK;
}

kiln_status reduce_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    uint32_t axes = a->reduce.axes, kind = a->reduce.kind, one = axes && !(axes & (axes - 1));
    (void)n;
    if (kind > KILN_REDUCE_ARGMIN) return error_set(e, KILN_ERR_INVALID, "reduce: no reduction has number %u", kind);
    if (!axes || axes >> in[0]->rank) return wrong_shapes(e, "reduce takes axes of its operand", in[0], NULL);
    if (kind >= KILN_REDUCE_ARGMAX && !one)
        return error_set(e, KILN_ERR_INVALID, "reduce: argmax and argmin go over one axis");
    for (uint32_t i = 0; i < in[0]->rank; i++) {
        if (!(axes >> i & 1))
            out->dim[out->rank++] = in[0]->dim[i];
        else if (a->reduce.keep)
            out->dim[out->rank++] = 1;
    }
    return KILN_OK;
}

kiln_status sort_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (in[0]->rank < 1) return wrong_shapes(e, "topk takes x [...,C]", in[0], NULL);
    if (a->sort.k < 1 || a->sort.k > last_dimension(in[0]))
        return error_set(e, KILN_ERR_INVALID, "topk: k must be 1 to the %lld columns, got %lld",
                         (long long)last_dimension(in[0]), (long long)a->sort.k);
    *out = *in[0];
    out->dim[out->rank - 1] = a->sort.k;
    return KILN_OK;
}

kiln_status cumsum_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (a->cumsum.axis >= in[0]->rank) return wrong_shapes(e, "cumsum takes an axis of its operand", in[0], NULL);
    *out = *in[0];
    return KILN_OK;
}

kiln_status bincount_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (a->bincount.bins < 1) return wrong_shapes(e, "bincount takes 1 bin or more", in[0], NULL);
    *out = (shape){.rank = 1, .dim = {a->bincount.bins}};
    return KILN_OK;
}

kiln_status take_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    uint32_t axis = a->take.axis;
    (void)n;
    if (axis >= in[0]->rank || in[0]->rank - 1 + in[1]->rank > KILN_MAX_RANK)
        return wrong_shapes(e, "take: x has no such axis, or the result too many dimensions", in[0], in[1]);
    for (uint32_t i = 0; i < axis; i++) out->dim[out->rank++] = in[0]->dim[i];
    for (uint32_t i = 0; i < in[1]->rank; i++) out->dim[out->rank++] = in[1]->dim[i];
    for (uint32_t i = axis + 1; i < in[0]->rank; i++) out->dim[out->rank++] = in[0]->dim[i];
    return KILN_OK;
}

kiln_status take_along_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    int fits = in[0]->rank >= 1 && in[0]->rank == in[1]->rank;
    for (uint32_t i = 0; fits && i + 1 < in[0]->rank; i++) fits = in[0]->dim[i] == in[1]->dim[i];
    if (!fits) return wrong_shapes(e, "take_along: x and index differ before the last dimension", in[0], in[1]);
    *out = *in[1];
    return KILN_OK;
}

kiln_status scatter_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    uint32_t axis = a->scatter.axis;
    (void)n;
    int fits = axis < in[0]->rank && in[1]->rank == 1 && in[2]->rank == in[0]->rank;
    for (uint32_t i = 0; fits && i < in[0]->rank; i++)
        fits = in[2]->dim[i] == (i == axis ? in[1]->dim[0] : in[0]->dim[i]);
    if (!fits)
        return wrong_shapes(e, "scatter takes x, index [n] and a source like x with n places on the axis", in[0],
                            in[2]);
    *out = *in[0];
    return KILN_OK;
}

/* Where it begins is known when it runs; that it can fit is known here. */
kiln_status state_write_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    uint32_t axis = a->state_write.axis;
    int fits = axis < in[0]->rank && in[2]->rank == in[0]->rank && in[2]->dim[axis] <= in[0]->dim[axis];
    for (uint32_t i = 0; fits && i < in[0]->rank; i++) fits = i == axis || in[2]->dim[i] == in[0]->dim[i];
    if (!fits)
        return wrong_shapes(e, "state_write takes a tensor like the state, with as many places on the axis or fewer",
                            in[0], in[2]);
    if (shape_count(in[1]) != 1 && (axis != 1 || shape_count(in[1]) != in[0]->dim[0]))
        return wrong_shapes(e, "state_write: offset must be one number, or one a sequence for axis 1", in[0], in[1]);
    if (n > 3 && shape_count(in[3]) != 1 && (axis != 1 || shape_count(in[3]) != in[0]->dim[0]))
        return wrong_shapes(e, "state_write: count must be one number, or one a sequence for axis 1", in[0], in[3]);
    *out = *in[0];
    return KILN_OK;
}
