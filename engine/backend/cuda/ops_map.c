/* ops_map.c - element by element: convert, add, mul, affine, act, geglu, and expressions. */
#include "backend/cuda/cuda.h"

static kiln_status body(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_map m = k->u.map;
    m.x = a->in[0], m.out = a->out;
    if (k->op.kind == OP_ADD || k->op.kind == OP_MUL) m.b = a->in[1];
    m.finish.residual = cuda_residual(k, a);
    CUDA_TRY(cu_map_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

/* Dimensions are aligned at the end; one of size 1 repeats. */
static void broadcast(const cuda_kernel *k, cu_map *m)
{
    const operand_desc *out = &k->op.out, *b = &k->op.in[1];
    int64_t stride = 1, rows = cuda_rows(b);
    m->b_type = cuda_operand_type(k, 1);
    m->b_ld = cuda_ld(b);
    m->b_column = cuda_columns(b) != 1 || cuda_columns(out) == 1;
    m->outer = out->shape.rank ? (int)out->shape.rank - 1 : 0;
    for (int d = m->outer - 1; d >= 0; d--) {
        int at = d - (int)out->shape.rank + (int)b->shape.rank; /* b's dimension */
        int64_t own = at >= 0 ? b->shape.dim[at] : 1;
        m->dim[d] = out->shape.dim[d];
        m->b_stride[d] = own == 1 ? 0 : stride;
        stride *= own;
    }
    m->b_rows = rows == 1 ? CU_ROWS_ONE : rows == cuda_rows(out) ? CU_ROWS_SAME : CU_ROWS_BY_DIM;
}

/* ---- expressions ---- */

static kiln_status expression_body(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_expression m = k->u.expression;
    for (int i = 0; i < m.operands; i++) m.in[i] = a->in[i];
    m.out = a->out;
    CUDA_TRY(cu_expression_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

void cuda_repeated_strides(const operand_desc *d, const shape *out, int64_t stride[CU_RANK])
{
    int64_t step = cuda_ld(d);
    for (uint32_t i = 1; i <= out->rank; i++) {
        int64_t own = i <= d->shape.rank ? d->shape.dim[d->shape.rank - i] : 1, size = out->dim[out->rank - i];
        stride[out->rank - i] = own == 1 && size != 1 ? 0 : i == 1 ? 1 : step;
        if (i > 1) step *= own;
    }
}

kiln_status cuda_prepare_expression(cuda_kernel *k, error *e)
{
    const map_attr *a = &k->op.attr.map;
    cu_expression *m = &k->u.expression;
    (void)e;
    *m = (cu_expression){.n = (int)a->n,
                         .rank = (int)k->op.out.shape.rank,
                         .out_type = cuda_result_type(&k->op),
                         .integer = (int)a->integer,
                         .operands = (int)k->op.n_in,
                         .count = shape_count(&k->op.out.shape)};
    for (uint32_t i = 0; i < a->n; i++) {
        const map_code *c = &a->code[i];
        m->code[i][0] = c->op, m->code[i][1] = c->to;
        m->code[i][2] = c->a, m->code[i][3] = c->b, m->code[i][4] = c->c;
    }
    for (uint32_t i = 0; i < a->n_numbers; i++) m->number[i] = a->number[i];
    for (int d = 0; d < m->rank; d++) m->dim[d] = k->op.out.shape.dim[d];
    cuda_repeated_strides(&k->op.out, &k->op.out.shape, m->out_stride);
    for (uint32_t i = 0; i < k->op.n_in; i++) {
        m->type[i] = cuda_operand_type(k, i);
        cuda_repeated_strides(&k->op.in[i], &k->op.out.shape, m->stride[i]);
    }
    k->base.flops = (uint64_t)m->count * a->n;
    k->body = expression_body;
    return KILN_OK;
}

kiln_status cuda_prepare_map(cuda_kernel *k, error *e)
{
    if (k->op.kind == OP_CONVERT && k->op.out.dtype == KILN_I32) return cuda_prepare_layout(k, e); /* that only move */
    static const cu_map_kind kinds[OP_KIND_COUNT] = {
        [OP_CONVERT] = CU_MAP_COPY, [OP_ACT] = CU_MAP_COPY,      [OP_ADD] = CU_MAP_ADD,
        [OP_MUL] = CU_MAP_MUL,      [OP_AFFINE] = CU_MAP_AFFINE, [OP_GEGLU] = CU_MAP_GEGLU};
    cu_map *m = &k->u.map;
    *m = (cu_map){.kind = kinds[k->op.kind],
                  .x_type = cuda_operand_type(k, 0),
                  .out_type = cuda_result_type(&k->op),
                  .rows = cuda_rows(&k->op.out),
                  .columns = cuda_columns(&k->op.out),
                  .x_ld = cuda_ld(&k->op.in[0]),
                  .out_ld = k->op.out.ld};
    if (m->x_type == CU_I32 || m->out_type == CU_I32)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s of whole numbers is not supported", op_name(k->op.kind));
    cuda_epilogue(k, &m->finish);
    if (k->op.kind == OP_ACT) m->finish.act = (int)k->op.attr.act.kind;
    if (k->op.kind == OP_AFFINE) m->scale = k->op.attr.affine.scale, m->shift = k->op.attr.affine.shift;
    if (k->op.kind == OP_ADD || k->op.kind == OP_MUL) broadcast(k, m);
    k->base.flops = (uint64_t)shape_count(&k->op.out.shape);
    k->body = body;
    return KILN_OK;
}
