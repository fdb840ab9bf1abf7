/* ops_norm.c - group and layer normalisation. */
#include "backend/cuda/cuda.h"

static kiln_status body(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_norm m = k->u.norm;
    m.x = a->in[0], m.gamma = a->in[1], m.beta = a->in[2], m.out = a->out, m.partial = a->scratch;
    m.finish.residual = cuda_residual(k, a);
    if (op_takes_stats(&k->op)) m.stats = a->in[3];
    if (k->op.kind == OP_GROUP_NORM_STATS)
        CUDA_TRY(cu_group_norm_stats_run(&m, cuda_stream(a->stream)), "launch");
    else if (m.groups)
        CUDA_TRY(cu_group_norm_run(&m, cuda_stream(a->stream)), "launch");
    else
        CUDA_TRY(cu_layer_norm_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_norm(cuda_kernel *k, error *e)
{
    const operand_desc *x = &k->op.in[0];
    int grouped = k->op.kind != OP_LAYER_NORM, picture = grouped && x->shape.rank == 4;
    int64_t images = grouped ? x->shape.dim[0] : 1, rows = cuda_rows(x);
    for (uint32_t i = 1; i < 3; i++)
        if (i < k->op.n_in && k->op.in[i].dtype && !k->op.in[i].weight)
            return error_set(e, KILN_ERR_UNSUPPORTED, "%s scaled by something that is no weight", op_name(k->op.kind));
    k->u.norm = (cu_norm){.x_type = cuda_operand_type(k, 0),
                          .out_type = cuda_result_type(&k->op),
                          .images = images,
                          .rows = images ? rows / images : 0,
                          .columns = cuda_columns(x),
                          .x_ld = cuda_ld(x),
                          .out_ld = k->op.out.ld,
                          .groups = grouped ? k->op.attr.norm.groups : 0,
                          .stats_ld = op_takes_stats(&k->op) ? k->op.in[3].ld : 0,
                          .width = picture ? x->shape.dim[2] : 0,
                          .height = picture ? x->shape.dim[1] : 0,
                          .eps = k->op.attr.norm.eps};
    if (op_takes_stats(&k->op)) k->u.norm.height = k->op.in[3].shape.dim[1];
    cuda_epilogue(k, &k->u.norm.finish);
    if (k->op.kind == OP_GROUP_NORM)
        k->base.scratch_bytes = cu_group_norm_scratch(images, k->u.norm.rows, k->u.norm.columns, k->u.norm.groups);
    k->base.flops = (uint64_t)shape_count(&x->shape) * 6;
    k->body = body;
    return KILN_OK;
}
