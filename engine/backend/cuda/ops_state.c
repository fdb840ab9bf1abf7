/* ops_state.c - writing into a state. */
#include "backend/cuda/cuda.h"

static kiln_status body(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_state_write m = k->u.state_write;
    m.offset = a->in[1], m.x = a->in[2], m.out = a->out;
    if (k->op.n_in > 3) m.written = a->in[3];
    CUDA_TRY(cu_state_write_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_state_write(cuda_kernel *k, error *e)
{
    const operand_desc *x = &k->op.in[2];
    uint32_t axis = k->op.attr.state_write.axis;
    cu_state_write *m = &k->u.state_write;
    (void)e;
    *m = (cu_state_write){.x_type = cuda_operand_type(k, 2),
                          .out_type = cuda_type(k->op.out.dtype),
                          .count = shape_count(&x->shape),
                          .inner = 1,
                          .n = x->shape.dim[axis],
                          .places = k->op.out.shape.dim[axis],
                          .columns = cuda_columns(x),
                          .x_ld = cuda_ld(x),
                          .one_offset = shape_count(&k->op.in[1].shape) == 1,
                          .one_written = k->op.n_in > 3 && shape_count(&k->op.in[3].shape) == 1};
    for (uint32_t i = axis + 1; i < x->shape.rank; i++) m->inner *= x->shape.dim[i];
    k->body = body;
    return KILN_OK;
}
