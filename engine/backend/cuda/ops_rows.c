/* ops_rows.c - what works row by row: norm, rope, softmax. */
#include "backend/cuda/cuda.h"

/* ---- norm ---- */

static kiln_status norm(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_norm_rows m = k->u.norm_rows;
    m.x = a->in[0], m.gain = a->in[1], m.bias = a->in[2], m.scale.p = a->in[3], m.shift.p = a->in[4], m.out = a->out;
    CUDA_TRY(cu_norm_rows_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

static cu_view view_of(const cuda_kernel *k, uint32_t i)
{
    cu_view v = {.type = cuda_operand_type(k, i)};
    if (k->op.in[i].dtype) cuda_repeated_strides(&k->op.in[i], &k->op.out.shape, v.stride);
    return v;
}

kiln_status cuda_prepare_norm_rows(cuda_kernel *k, error *e)
{
    const any_norm_attr *t = &k->op.attr.any_norm;
    const operand_desc *x = &k->op.in[0];
    (void)e;
    k->u.norm_rows = (cu_norm_rows){.x_type = cuda_operand_type(k, 0),
                                    .out_type = cuda_result_type(&k->op),
                                    .gain_type = cuda_operand_type(k, 1),
                                    .bias_type = cuda_operand_type(k, 2),
                                    .kind = (int)t->kind,
                                    .one_plus = (int)t->one_plus,
                                    .eps_inside = (int)t->eps_inside,
                                    .rank = (int)x->shape.rank,
                                    .eps = t->eps,
                                    .rows = cuda_rows(x),
                                    .columns = cuda_columns(x),
                                    .group = t->group,
                                    .x_ld = cuda_ld(x),
                                    .out_ld = k->op.out.ld,
                                    .gain_columns = cuda_columns(&k->op.in[1]),
                                    .bias_columns = cuda_columns(&k->op.in[2]),
                                    .scale = view_of(k, 3),
                                    .shift = view_of(k, 4)};
    for (uint32_t d = 0; d < x->shape.rank; d++) k->u.norm_rows.dim[d] = x->shape.dim[d];
    k->base.flops = (uint64_t)shape_count(&x->shape) * 6;
    k->body = norm;
    return KILN_OK;
}

/* ---- rope ---- */

static kiln_status rope(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_rope m = k->u.rope;
    m.x = a->in[0], m.cosine = a->in[1], m.sine = a->in[2], m.out = a->out;
    CUDA_TRY(cu_rope_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_rope(cuda_kernel *k, error *e)
{
    const operand_desc *x = &k->op.in[0], *c = &k->op.in[1], *s = &k->op.in[2];
    int64_t heads = k->op.attr.rope.heads;
    if (c->dtype != KILN_F32 || s->dtype != KILN_F32)
        return error_set(e, KILN_ERR_UNSUPPORTED, "rope: the tables must be f32");
    k->u.rope = (cu_rope){.x_type = cuda_operand_type(k, 0),
                          .out_type = cuda_type(k->op.out.dtype),
                          .interleaved = (int)k->op.attr.rope.interleaved,
                          .table_n = c->shape.dim[0] != 1,
                          .table_heads = c->shape.dim[2] != 1,
                          .rows = cuda_rows(x),
                          .T = x->shape.dim[1],
                          .heads = heads,
                          .head = x->shape.dim[2] / heads,
                          .half = k->op.attr.rope.rotary / 2,
                          .x_ld = cuda_ld(x),
                          .out_ld = k->op.out.ld,
                          .cos_ld = cuda_ld(c),
                          .sin_ld = cuda_ld(s)};
    k->base.flops = (uint64_t)shape_count(&x->shape) * 3;
    k->body = rope;
    return KILN_OK;
}

/* ---- softmax ---- */

static kiln_status softmax(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_softmax_rows m = k->u.softmax;
    m.x = a->in[0], m.length = k->op.n_in > 1 && k->op.in[1].dtype ? a->in[1] : NULL, m.out = a->out;
    CUDA_TRY(cu_softmax_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_softmax(cuda_kernel *k, error *e)
{
    const operand_desc *x = &k->op.in[0], *length = &k->op.in[1];
    (void)e;
    k->u.softmax = (cu_softmax_rows){.x_type = cuda_operand_type(k, 0),
                                     .out_type = cuda_type(k->op.out.dtype),
                                     .log = (int)k->op.attr.softmax.log,
                                     .rows = cuda_rows(x),
                                     .columns = cuda_columns(x),
                                     .x_ld = cuda_ld(x),
                                     .out_ld = k->op.out.ld,
                                     .length_columns = cuda_columns(length),
                                     .length_ld = cuda_ld(length),
                                     .lengths = shape_count(&length->shape)};
    k->base.flops = (uint64_t)shape_count(&x->shape) * 5;
    k->body = softmax;
    return KILN_OK;
}
