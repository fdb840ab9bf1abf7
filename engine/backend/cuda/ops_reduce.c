/* ops_reduce.c - reductions over any axes, and sums along one. */
#include "backend/cuda/cuda.h"

enum { PIECE_ELEMENTS = 1 << 15, PIECE_ROWS = 512 };

static kiln_status reduce(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_reduce m = k->u.reduce;
    m.x = a->in[0], m.out = a->out, m.parts = a->scratch;
    CUDA_TRY(cu_reduce_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_reduce(cuda_kernel *k, error *e)
{
    const operand_desc *x = &k->op.in[0];
    uint32_t last = x->shape.rank - 1, axes = k->op.attr.reduce.axes;
    int64_t step = cuda_ld(x);
    cu_reduce m = {.x_type = cuda_operand_type(k, 0),
                   .out_type = cuda_type(k->op.out.dtype),
                   .kind = (int)k->op.attr.reduce.kind,
                   .line = (int)(axes >> last & 1),
                   .kept = 1,
                   .gone = 1,
                   .columns = cuda_columns(x),
                   .out_columns = cuda_columns(&k->op.out),
                   .out_ld = k->op.out.ld};
    int64_t steps[CU_RANK];
    (void)e;
    for (uint32_t d = last; d-- > 0; step *= x->shape.dim[d]) steps[d] = step;
    for (uint32_t d = 0; d < last; d++) {
        if (axes >> d & 1)
            m.go[m.n_go] = x->shape.dim[d], m.go_step[m.n_go++] = steps[d], m.gone *= x->shape.dim[d];
        else
            m.stay[m.n_stay] = x->shape.dim[d], m.stay_step[m.n_stay++] = steps[d], m.kept *= x->shape.dim[d];
    }
    int64_t length = m.line ? m.gone * m.columns : m.gone;
    m.per_piece = m.line ? PIECE_ELEMENTS : PIECE_ROWS;
    m.pieces = length ? (length + m.per_piece - 1) / m.per_piece : 1;
    k->u.reduce = m;
    k->base.scratch_bytes = cu_reduce_scratch(&m);
    k->base.flops = (uint64_t)shape_count(&x->shape);
    k->body = reduce;
    return KILN_OK;
}

static kiln_status cumsum(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_cumsum m = k->u.cumsum;
    m.x = a->in[0], m.out = a->out;
    CUDA_TRY(cu_cumsum_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_cumsum(cuda_kernel *k, error *e)
{
    const operand_desc *x = &k->op.in[0];
    uint32_t axis = k->op.attr.cumsum.axis;
    int64_t inner = 1, count = shape_count(&x->shape), along = x->shape.dim[axis];
    if (x->dtype != k->op.out.dtype && (x->dtype == KILN_I32 || k->op.out.dtype == KILN_I32))
        return error_set(e, KILN_ERR_UNSUPPORTED, "cumsum from one type into another");
    for (uint32_t d = axis + 1; d + 1 < x->shape.rank; d++) inner *= x->shape.dim[d];
    k->u.cumsum = (cu_cumsum){.x_type = cuda_operand_type(k, 0),
                              .out_type = cuda_type(k->op.out.dtype),
                              .exclusive = (int)k->op.attr.cumsum.exclusive,
                              .reverse = (int)k->op.attr.cumsum.reverse,
                              .last = axis + 1 == x->shape.rank,
                              .lines = along ? count / along : 0,
                              .along = along,
                              .inner = inner,
                              .columns = cuda_columns(x),
                              .x_ld = cuda_ld(x),
                              .out_ld = k->op.out.ld};
    k->base.flops = (uint64_t)count;
    k->body = cumsum;
    return KILN_OK;
}
