/* ops_picture.c - convolutions of any rank, pools, interpolate, grid_sample, pad. */
#include "backend/cuda/cuda.h"

/* ---- conv, pool: a picture of rank 1 or 2 is one of rank 3 with dimensions of 1 before it ---- */

static void spread(int64_t to[3], const int32_t *v, uint32_t rank, int64_t none)
{
    for (uint32_t d = 0; d < 3; d++) to[d] = d + rank < 3 ? none : v[d + rank - 3];
}
static void spread_sizes(int64_t to[3], const shape *s)
{
    for (uint32_t d = 0; d < 3; d++) to[d] = d + s->rank < 5 ? 1 : s->dim[d + s->rank - 4];
}

static cu_windows windows_of(const cuda_kernel *k)
{
    const operand_desc *x = &k->op.in[0], *out = &k->op.out;
    cu_windows m = {.x_type = cuda_operand_type(k, 0),
                    .out_type = cuda_result_type(&k->op),
                    .images = x->shape.dim[0],
                    .kernel = {1, 1, 1},
                    .dilation = {1, 1, 1},
                    .columns = cuda_columns(out),
                    .x_ld = cuda_ld(x),
                    .out_ld = out->ld};
    spread_sizes(m.x, &x->shape), spread_sizes(m.out, &out->shape);
    return m;
}

static kiln_status conv(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_windows m = k->u.windows;
    m.in = a->in[0], m.w = a->in[1], m.bias = k->op.in[2].dtype ? a->in[2] : NULL, m.to = a->out;
    CUDA_TRY(cu_conv_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_conv(cuda_kernel *k, error *e)
{
    const conv_attr *t = &k->op.attr.conv;
    cu_windows m = windows_of(k);
    (void)e;
    for (uint32_t d = 0; d < t->rank; d++) m.kernel[d + 3 - t->rank] = k->op.in[1].shape.dim[2 + d];
    spread(m.stride, t->stride, t->rank, 1), spread(m.dilation, t->dilation, t->rank, 1);
    spread(m.before, t->before, t->rank, 0);
    m.pad_mode = (int)t->pad_mode, m.transposed = (int)t->transposed;
    m.in_group = cuda_columns(&k->op.in[0]) / t->groups, m.out_group = m.columns / t->groups;
    k->u.windows = m;
    k->base.flops = 2 * (uint64_t)shape_count(&k->op.out.shape) *
                    (uint64_t)(m.kernel[0] * m.kernel[1] * m.kernel[2] * m.in_group) /
                    (uint64_t)(t->transposed ? m.stride[0] * m.stride[1] * m.stride[2] : 1);
    k->body = conv;
    return KILN_OK;
}

static kiln_status pool_body(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_windows m = k->u.windows;
    m.in = a->in[0], m.to = a->out;
    CUDA_TRY(cu_pool_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_pool(cuda_kernel *k, error *e)
{
    const pool_attr *t = &k->op.attr.pool;
    cu_windows m = windows_of(k);
    (void)e;
    spread(m.kernel, t->size, t->rank, 1), spread(m.stride, t->stride, t->rank, 1);
    spread(m.before, t->before, t->rank, 0), spread(m.after, t->after, t->rank, 0);
    m.most = t->kind == KILN_POOL_MAX, m.include_pad = (int)t->include_pad;
    k->u.windows = m;
    k->base.flops = (uint64_t)(shape_count(&k->op.out.shape) * m.kernel[0] * m.kernel[1] * m.kernel[2]);
    k->body = pool_body;
    return KILN_OK;
}

/* ---- interpolate, grid_sample ---- */

static cu_resize resize_of(const cuda_kernel *k)
{
    const operand_desc *x = &k->op.in[0], *out = &k->op.out;
    return (cu_resize){.x_type = cuda_operand_type(k, 0),
                       .out_type = cuda_type(out->dtype),
                       .images = x->shape.dim[0],
                       .H = x->shape.dim[1],
                       .W = x->shape.dim[2],
                       .h = out->shape.dim[1],
                       .w = out->shape.dim[2],
                       .columns = cuda_columns(out),
                       .x_ld = cuda_ld(x),
                       .out_ld = out->ld};
}

static kiln_status interpolate(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_resize m = k->u.resize;
    m.in = a->in[0], m.to = a->out;
    CUDA_TRY(cu_interpolate_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_interpolate(cuda_kernel *k, error *e)
{
    (void)e;
    k->u.resize = resize_of(k);
    k->u.resize.mode = (int)k->op.attr.interpolate.mode;
    k->u.resize.align_corners = (int)k->op.attr.interpolate.align_corners;
    k->u.resize.antialias = (int)k->op.attr.interpolate.antialias;
    k->base.flops = 8 * (uint64_t)shape_count(&k->op.out.shape);
    k->body = interpolate;
    return KILN_OK;
}

static kiln_status grid_sample(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_resize m = k->u.resize;
    m.in = a->in[0], m.grid = a->in[1], m.to = a->out;
    CUDA_TRY(cu_grid_sample_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_grid_sample(cuda_kernel *k, error *e)
{
    (void)e;
    k->u.resize = resize_of(k);
    k->u.resize.mode = (int)k->op.attr.grid_sample.mode;
    k->u.resize.padding = (int)k->op.attr.grid_sample.padding;
    k->u.resize.align_corners = (int)k->op.attr.grid_sample.align_corners;
    k->u.resize.grid_type = cuda_operand_type(k, 1);
    k->u.resize.grid_ld = cuda_ld(&k->op.in[1]);
    k->base.flops = 8 * (uint64_t)shape_count(&k->op.out.shape);
    k->body = grid_sample;
    return KILN_OK;
}

/* ---- pad ---- */

static kiln_status pad(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_pad m = k->u.pad;
    m.src = a->in[0], m.dst = a->out;
    CUDA_TRY(cu_pad_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_pad(cuda_kernel *k, error *e)
{
    const operand_desc *x = &k->op.in[0], *out = &k->op.out;
    int64_t from = cuda_ld(x), to = out->ld;
    if (x->dtype != out->dtype) return error_set(e, KILN_ERR_UNSUPPORTED, "pad from one type into another");
    cu_pad m = {.type = cuda_operand_type(k, 0),
                .mode = (int)k->op.attr.pad.mode,
                .rank = (int)out->shape.rank,
                .value = k->op.attr.pad.value,
                .count = shape_count(&out->shape)};
    for (int d = m.rank - 1; d >= 0; d--) {
        int last = d == m.rank - 1;
        m.in[d] = x->shape.dim[d], m.out[d] = out->shape.dim[d], m.before[d] = k->op.attr.pad.before[d];
        m.from[d] = last ? 1 : from, m.to[d] = last ? 1 : to;
        if (!last) from *= m.in[d], to *= m.out[d];
    }
    k->u.pad = m;
    k->base.flops = (uint64_t)m.count;
    k->body = pad;
    return KILN_OK;
}
