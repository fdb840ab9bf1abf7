/* shape_rules_picture.c - rules of convolutions of any rank, and of what resizes, pools, pads and samples. */
#include "graph/shape_rule.h"

enum { LARGEST = 1 << 12 }; /* of strides, dilations, paddings, windows: far beyond use, far below overflow */

static int within(const int32_t *v, uint32_t n, int32_t least)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i] < least || v[i] > LARGEST) return 0;
    return 1;
}

/* torch: (size - 1) stride - before - after + dilation (kernel - 1) + output_pad + 1 */
static int64_t conv_transposed_size(const conv_attr *c, uint32_t i, int64_t size, int64_t kernel)
{
    return (size - 1) * c->stride[i] - c->before[i] - c->after[i] + c->dilation[i] * (kernel - 1) + c->output_pad[i] +
           1;
}
static int64_t conv_size(const conv_attr *c, uint32_t i, int64_t size, int64_t kernel)
{
    int64_t room = size + c->before[i] + c->after[i] - (int64_t)c->dilation[i] * (kernel - 1) - 1;
    return room < 0 ? 0 : room / c->stride[i] + 1;
}

static kiln_status conv_numbers(const conv_attr *c, error *e)
{
    if (c->rank < 1 || c->rank > 3) return error_set(e, KILN_ERR_INVALID, "conv: a rank of %u; 1 to 3", c->rank);
    if (!within(c->stride, c->rank, 1) || !within(c->dilation, c->rank, 1) || !within(c->before, c->rank, 0) ||
        !within(c->after, c->rank, 0) || !within(c->output_pad, c->rank, 0) || c->groups < 1)
        return error_set(e, KILN_ERR_INVALID,
                         "conv: stride, dilation and groups must be 1 or more, padding 0 or more, all %d at most",
                         LARGEST);
    if (c->pad_mode > KILN_PAD_CIRCULAR)
        return error_set(e, KILN_ERR_INVALID, "conv: no padding has number %u", c->pad_mode);
    if (c->transposed && c->pad_mode != KILN_PAD_ZERO)
        return error_set(e, KILN_ERR_INVALID, "conv: a transposed one pads with zeros");
    for (uint32_t i = 0; i < c->rank; i++)
        if (c->output_pad[i] && (!c->transposed || c->output_pad[i] >= c->stride[i]))
            return error_set(e, KILN_ERR_INVALID,
                             "conv: output_pad is of transposed ones, and smaller than the stride");
    return KILN_OK;
}

/* What stands outside is made of what stands inside: there must be as much. */
static int can_pad(uint32_t mode, int64_t size, int64_t before, int64_t after)
{
    int64_t most = before > after ? before : after;
    return mode == KILN_PAD_REFLECT ? most < size : mode != KILN_PAD_CIRCULAR || most <= size;
}

kiln_status conv_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    const conv_attr *c = &a->conv;
    const shape *x = in[0], *w = in[1];
    (void)n;
    TRY(conv_numbers(c, e));
    if (x->rank != c->rank + 2 || w->rank != c->rank + 2)
        return wrong_shapes(e, "conv takes x [N,...,I] and w [O,I/groups,...] of its rank", x, w);
    int64_t channels = x->dim[x->rank - 1], in_w = c->transposed ? w->dim[0] : w->dim[1] * c->groups,
            columns = c->transposed ? w->dim[1] * c->groups : w->dim[0];
    if (channels != in_w || channels % c->groups || columns % c->groups)
        return wrong_shapes(e, "conv: x's channels, w and the groups do not fit together", x, w);
    if (!is_vector(in[2], columns))
        return wrong_shapes(e, "conv: bias must have one number an output channel", w, in[2]);
    *out = *x;
    out->dim[out->rank - 1] = columns;
    for (uint32_t i = 0; i < c->rank; i++) {
        int64_t size = x->dim[1 + i], kernel = w->dim[2 + i];
        if (!can_pad(c->pad_mode, size, c->before[i], c->after[i]))
            return wrong_shapes(e, "conv: x is smaller than its padding takes from it", x, NULL);
        out->dim[1 + i] = c->transposed ? conv_transposed_size(c, i, size, kernel) : conv_size(c, i, size, kernel);
        if (out->dim[1 + i] < 1) return wrong_shapes(e, "conv: x is smaller than the kernel", x, w);
    }
    return KILN_OK;
}

kiln_status interpolate_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    uint32_t mode = a->interpolate.mode, smooth = mode == KILN_INTERPOLATE_BILINEAR || mode == KILN_INTERPOLATE_BICUBIC;
    (void)n;
    if (in[0]->rank != 4 || a->interpolate.h < 1 || a->interpolate.w < 1)
        return wrong_shapes(e, "interpolate takes x [N,H,W,C] and a size of 1 or more", in[0], NULL);
    if (mode > KILN_INTERPOLATE_AREA) return error_set(e, KILN_ERR_INVALID, "interpolate: no mode has number %u", mode);
    if (!smooth && (a->interpolate.align_corners || a->interpolate.antialias))
        return error_set(e, KILN_ERR_INVALID, "interpolate: align_corners and antialias are of bilinear and bicubic");
    *out = *in[0];
    out->dim[1] = a->interpolate.h;
    out->dim[2] = a->interpolate.w;
    return KILN_OK;
}

kiln_status pool_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    const pool_attr *p = &a->pool;
    (void)n;
    if (p->kind > KILN_POOL_MAX || p->rank < 1 || p->rank > 3 || in[0]->rank != p->rank + 2)
        return wrong_shapes(e, "pool takes x [N,...,C] of its rank, 1 to 3", in[0], NULL);
    if (!within(p->size, p->rank, 1) || !within(p->stride, p->rank, 1) || !within(p->before, p->rank, 0) ||
        !within(p->after, p->rank, 0))
        return error_set(e, KILN_ERR_INVALID,
                         "pool: window and stride must be 1 or more, padding 0 or more, all %d at most", LARGEST);
    *out = *in[0];
    for (uint32_t i = 0; i < p->rank; i++) {
        int64_t room = in[0]->dim[1 + i] + p->before[i] + p->after[i] - p->size[i];
        if (2 * p->before[i] > p->size[i] || 2 * p->after[i] > p->size[i])
            return error_set(e, KILN_ERR_INVALID, "pool: padding is at most half of the window");
        if (room < 0) return wrong_shapes(e, "pool: x is smaller than the window", in[0], NULL);
        out->dim[1 + i] = room / p->stride[i] + 1;
    }
    return KILN_OK;
}

kiln_status pad_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)n;
    if (a->pad.mode > KILN_PAD_CIRCULAR)
        return error_set(e, KILN_ERR_INVALID, "pad: no padding has number %u", a->pad.mode);
    *out = *in[0];
    for (uint32_t i = 0; i < out->rank; i++) {
        int64_t before = a->pad.before[i], after = a->pad.after[i];
        if (before < 0 || after < 0 || before > INT32_MAX || after > INT32_MAX)
            return error_set(e, KILN_ERR_INVALID, "pad: padding is 0 or more; slice() makes a tensor smaller");
        if (!can_pad(a->pad.mode, in[0]->dim[i], before, after))
            return wrong_shapes(e, "pad: x is smaller than what is repeated of it", in[0], NULL);
        out->dim[i] += before + after;
    }
    return KILN_OK;
}

kiln_status grid_sample_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    const shape *x = in[0], *grid = in[1];
    (void)n;
    if (x->rank != 4 || grid->rank != 4 || grid->dim[3] != 2 || grid->dim[0] != x->dim[0])
        return wrong_shapes(e, "grid_sample takes x [N,H,W,C] and grid [N,h,w,2]", x, grid);
    if (a->grid_sample.mode > KILN_SAMPLE_BICUBIC || a->grid_sample.padding > KILN_SAMPLE_REFLECTION)
        return error_set(e, KILN_ERR_INVALID, "grid_sample: no such mode or padding");
    *out = (shape){.rank = 4, .dim = {x->dim[0], grid->dim[1], grid->dim[2], x->dim[3]}};
    return KILN_OK;
}
