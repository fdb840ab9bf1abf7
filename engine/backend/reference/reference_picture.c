/* reference_picture.c - convolutions of any rank, interpolate, pool, pad, grid_sample. A picture of rank 1 or 2 is one
 * of rank 3 with dimensions of 1 before it.
 */
#include "backend/reference/reference.h"

#include "backend/resample.h"

#include <math.h>

typedef struct {
    int64_t n, size[3], channels;
} picture;

static picture picture_of(const shape *s)
{
    picture p = {s->dim[0], {1, 1, 1}, s->dim[s->rank - 1]};
    for (uint32_t d = 1; d + 1 < s->rank; d++) p.size[4 + d - s->rank] = s->dim[d];
    return p;
}
static int64_t pixel(const picture *p, int64_t n, const int64_t at[3])
{
    return ((n * p->size[0] + at[0]) * p->size[1] + at[1]) * p->size[2] + at[2];
}
static void place_of_pixel(const picture *p, int64_t i, int64_t *n, int64_t at[3])
{
    for (int d = 2; d >= 0; d--) {
        at[d] = i % p->size[d];
        i /= p->size[d];
    }
    *n = i;
}
/* Numbers of a rank come last: {a, b} of rank 2 is {`none`, a, b}. */
static void spread(int64_t to[3], const int32_t *v, uint32_t rank, int64_t none)
{
    for (uint32_t d = 0; d < 3; d++) to[d] = d + rank < 3 ? none : v[d + rank - 3];
}

/* ---- conv ---- */

typedef struct {
    picture x, out;
    int64_t kernel[3], stride[3], before[3], dilation[3], in_group, out_group;
    const conv_attr *t;
} convolution;

/* Where tap k of result `to` reads, along one dimension; -1: in the padding. */
static int64_t source_of(const convolution *c, int d, int64_t to, int64_t k)
{
    int64_t i = to * c->stride[d] - c->before[d] + k * c->dilation[d];
    if (!c->t->transposed) return padded_place((int)c->t->pad_mode, i, c->x.size[d]);
    i = to + c->before[d] - k * c->dilation[d];
    return i < 0 || i % c->stride[d] || i / c->stride[d] >= c->x.size[d] ? -1 : i / c->stride[d];
}

static double conv_value(const op_desc *op, const kernel_args *a, const convolution *c, int64_t n, const int64_t to[3],
                         int64_t o)
{
    int64_t group = o / c->out_group, taps = c->kernel[0] * c->kernel[1] * c->kernel[2], from[3];
    double sum = op->in[2].dtype ? (double)((const float *)a->in[2])[o] : 0;
    for (int64_t k = 0; k < taps; k++) {
        int64_t at[3] = {k / c->kernel[2] / c->kernel[1], k / c->kernel[2] % c->kernel[1], k % c->kernel[2]},
                inside = 1;
        for (int d = 0; d < 3; d++) inside &= (from[d] = source_of(c, d, to[d], at[d])) >= 0;
        for (int64_t i = 0; i < c->in_group && inside; i++) {
            int64_t channel = group * c->in_group + i;
            int64_t w = c->t->transposed ? (channel * c->out_group + o % c->out_group) * taps + k
                                         : (o * c->in_group + i) * taps + k;
            sum += (double)operand_get(&op->in[0], a->in[0], pixel(&c->x, n, from), channel) *
                   (double)((const float *)a->in[1])[w];
        }
    }
    return sum;
}

kiln_status reference_conv(const op_desc *op, const kernel_args *a, error *e)
{
    const conv_attr *t = &op->attr.conv;
    convolution c = {.x = picture_of(&op->in[0].shape), .out = picture_of(&op->out.shape), .t = t, .kernel = {1, 1, 1}};
    (void)e;
    for (uint32_t d = 0; d < t->rank; d++) c.kernel[d + 3 - t->rank] = op->in[1].shape.dim[2 + d];
    spread(c.stride, t->stride, t->rank, 1);
    spread(c.before, t->before, t->rank, 0);
    spread(c.dilation, t->dilation, t->rank, 1);
    c.in_group = c.x.channels / t->groups, c.out_group = c.out.channels / t->groups;
    for (int64_t i = 0; i < operand_rows(&op->out); i++) {
        int64_t n, to[3];
        place_of_pixel(&c.out, i, &n, to);
        for (int64_t o = 0; o < c.out.channels; o++)
            operand_set(&op->out, a->out, i, o, (float)conv_value(op, a, &c, n, to, o));
    }
    return KILN_OK;
}

/* ---- interpolate, grid_sample ---- */

kiln_status reference_interpolate(const op_desc *op, const kernel_args *a, error *e)
{
    const int64_t *s = op->in[0].shape.dim, *d = op->out.shape.dim;
    int mode = (int)op->attr.interpolate.mode, align = (int)op->attr.interpolate.align_corners,
        antialias = (int)op->attr.interpolate.antialias;
    resample_axis v = {mode, align, antialias, s[1], d[1]}, h = {mode, align, antialias, s[2], d[2]};
    (void)e;
    for (int64_t i = 0; i < operand_rows(&op->out); i++) {
        int64_t n = i / d[2] / d[1];
        resample_span y = resample_at(&v, i / d[2] % d[1]), x = resample_at(&h, i % d[2]);
        for (int64_t c = 0; c < d[3]; c++) {
            double sum = 0;
            for (int64_t j = 0; j < y.count; j++)
                for (int64_t k = 0; k < x.count; k++)
                    sum += resample_weight(&v, &y, j) * resample_weight(&h, &x, k) *
                           (double)operand_get(
                               &op->in[0], a->in[0],
                               (n * s[1] + resample_place(&v, &y, j)) * s[2] + resample_place(&h, &x, k), c);
            operand_set(&op->out, a->out, i, c, (float)sum);
        }
    }
    return KILN_OK;
}

kiln_status reference_grid_sample(const op_desc *op, const kernel_args *a, error *e)
{
    const int64_t *s = op->in[0].shape.dim, *d = op->out.shape.dim;
    int mode = (int)op->attr.grid_sample.mode, padding = (int)op->attr.grid_sample.padding,
        align = (int)op->attr.grid_sample.align_corners;
    (void)e;
    for (int64_t i = 0; i < operand_rows(&op->out); i++) {
        int64_t n = i / d[2] / d[1], x[GRID_TAPS], y[GRID_TAPS];
        double wx[GRID_TAPS], wy[GRID_TAPS];
        int taps = grid_taps(mode, padding, align, (double)operand_get(&op->in[1], a->in[1], i, 0), s[2], x, wx);
        grid_taps(mode, padding, align, (double)operand_get(&op->in[1], a->in[1], i, 1), s[1], y, wy);
        for (int64_t c = 0; c < d[3]; c++) {
            double sum = 0;
            for (int k = 0; k < taps * taps; k++)
                if (y[k / taps] >= 0 && x[k % taps] >= 0)
                    sum += wy[k / taps] * wx[k % taps] *
                           (double)operand_get(&op->in[0], a->in[0], (n * s[1] + y[k / taps]) * s[2] + x[k % taps], c);
            operand_set(&op->out, a->out, i, c, (float)sum);
        }
    }
    return KILN_OK;
}

/* ---- pool, pad ---- */

static double pool_value(const op_desc *op, const kernel_args *a, const picture *x, int64_t n, const int64_t to[3],
                         int64_t channel)
{
    const pool_attr *t = &op->attr.pool;
    int64_t size[3], stride[3], before[3], after[3], count = 0, all = 1, from[3];
    spread(size, t->size, t->rank, 1), spread(stride, t->stride, t->rank, 1);
    spread(before, t->before, t->rank, 0), spread(after, t->after, t->rank, 0);
    double sum = 0, most = -(double)INFINITY;
    for (int d = 0; d < 3; d++) { /* a window counts what is padding, and not what is beyond it */
        int64_t first = to[d] * stride[d] - before[d], last = first + size[d], end = x->size[d] + after[d];
        all *= (last < end ? last : end) - first;
    }
    for (int64_t k = 0; k < size[0] * size[1] * size[2]; k++) {
        int64_t at[3] = {k / size[2] / size[1], k / size[2] % size[1], k % size[2]}, inside = 1;
        for (int d = 0; d < 3; d++)
            inside &= (from[d] = to[d] * stride[d] - before[d] + at[d]) >= 0 && from[d] < x->size[d];
        if (!inside) continue;
        double v = (double)operand_get(&op->in[0], a->in[0], pixel(x, n, from), channel);
        sum += v, count++;
        if (v > most || isnan(v)) most = v;
    }
    if (t->kind == KILN_POOL_MAX) return most;
    return sum / (double)(t->include_pad ? all : count);
}

kiln_status reference_pool(const op_desc *op, const kernel_args *a, error *e)
{
    picture x = picture_of(&op->in[0].shape), out = picture_of(&op->out.shape);
    (void)e;
    for (int64_t i = 0; i < operand_rows(&op->out); i++) {
        int64_t n, to[3];
        place_of_pixel(&out, i, &n, to);
        for (int64_t c = 0; c < out.channels; c++)
            operand_set(&op->out, a->out, i, c, (float)pool_value(op, a, &x, n, to, c));
    }
    return KILN_OK;
}

kiln_status reference_pad(const op_desc *op, const kernel_args *a, error *e)
{
    const shape *s = &op->in[0].shape, *d = &op->out.shape;
    int64_t columns = operand_columns(&op->out), own = operand_columns(&op->in[0]);
    (void)e;
    for (int64_t i = 0; i < shape_count(d); i++) {
        int64_t rest = i, from = 0, stride = 1, inside = 1;
        for (uint32_t k = d->rank; k-- > 0; rest /= d->dim[k]) {
            int64_t at = padded_place((int)op->attr.pad.mode, rest % d->dim[k] - op->attr.pad.before[k], s->dim[k]);
            inside &= at >= 0;
            from += at * stride;
            stride *= s->dim[k];
        }
        if (op->out.dtype == KILN_I32)
            ((int32_t *)a->out)[i / columns * op->out.ld + i % columns] =
                inside ? operand_get_i32(&op->in[0], a->in[0], from) : (int32_t)op->attr.pad.value;
        else
            operand_set(&op->out, a->out, i / columns, i % columns,
                        inside ? operand_get(&op->in[0], a->in[0], from / own, from % own) : op->attr.pad.value);
    }
    return KILN_OK;
}
