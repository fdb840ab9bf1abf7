/* ops_layout.c - layout ops (concat, slice, reshape, permute, upsample), and embedding and gather: rows by
 * index. */
#include "backend/cuda/cuda.h"

#include "tensor/dtype.h"

/* ---- as strided copies ---- */

/* Elements from one index of each dimension to the next. */
static void strides(const operand_desc *d, int64_t out[CU_RANK])
{
    int64_t step = cuda_ld(d);
    for (uint32_t i = d->shape.rank; i-- > 0;) {
        out[i] = i + 1 == d->shape.rank ? 1 : step;
        if (i + 1 < d->shape.rank) step *= d->shape.dim[i];
    }
}

/* Neighbours that move together: as many bytes as places, strides and the run of the last dimension allow. */
static void widen(cu_move *m, size_t size)
{
    int last = m->rank - 1;
    m->unit = (int)size;
    while (m->rank && m->unit < 16 && m->from[last] == 1 && m->to[last] == 1 && m->dim[last] % 2 == 0) {
        int odd = (int)(((uintptr_t)m->src | (uintptr_t)m->dst) & (uintptr_t)(2 * m->unit - 1)) != 0;
        for (int d = 0; d < last; d++) odd |= m->from[d] % 2 != 0 || m->to[d] % 2 != 0;
        if (odd) break;
        for (int d = 0; d < last; d++) m->from[d] /= 2, m->to[d] /= 2;
        m->dim[last] /= 2;
        m->unit *= 2;
    }
}

static const char *at(const void *p, int64_t elements, size_t size)
{
    return (const char *)p + elements * (int64_t)size;
}

static kiln_status move(cu_move *m, size_t size, const kernel_args *a, error *e)
{
    widen(m, size);
    CUDA_TRY(cu_move_run(m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

static kiln_status concat(const cuda_kernel *k, const kernel_args *a, error *e)
{
    uint32_t axis = k->op.attr.concat.axis;
    size_t size = dtype_size(k->op.out.dtype);
    int64_t place = 0;
    for (uint32_t i = 0; i < k->op.n_in; i++) {
        const operand_desc *in = &k->op.in[i];
        cu_move m = {.rank = (int)in->shape.rank, .src = a->in[i]};
        strides(in, m.from), strides(&k->op.out, m.to);
        for (int d = 0; d < m.rank; d++) m.dim[d] = in->shape.dim[d];
        m.dst = (void *)(uintptr_t)at(a->out, place * m.to[axis], size);
        place += in->shape.dim[axis];
        TRY(move(&m, size, a, e));
    }
    return KILN_OK;
}

static kiln_status slice(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_move m = {.rank = (int)k->op.out.shape.rank, .dst = a->out};
    size_t size = dtype_size(k->op.out.dtype);
    strides(&k->op.in[0], m.from), strides(&k->op.out, m.to);
    for (int d = 0; d < m.rank; d++) m.dim[d] = k->op.out.shape.dim[d];
    m.src = at(a->in[0], k->op.attr.slice.start * m.from[k->op.attr.slice.axis], size);
    return move(&m, size, a, e);
}

static kiln_status permute(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_move m = {.rank = (int)k->op.out.shape.rank, .src = a->in[0], .dst = a->out};
    int64_t from[CU_RANK];
    strides(&k->op.in[0], from), strides(&k->op.out, m.to);
    for (int d = 0; d < m.rank; d++) m.dim[d] = k->op.out.shape.dim[d], m.from[d] = from[k->op.attr.permute.axis[d]];
    return move(&m, dtype_size(k->op.out.dtype), a, e);
}

/* ---- the others ---- */

static kiln_status reshape(const cuda_kernel *k, const kernel_args *a, error *e)
{
    const operand_desc *in = &k->op.in[0], *out = &k->op.out;
    cu_reshape m = {.unit = (int)dtype_size(out->dtype),
                    .n = shape_count(&out->shape),
                    .src_columns = cuda_columns(in),
                    .src_ld = cuda_ld(in),
                    .dst_columns = cuda_columns(out),
                    .dst_ld = out->ld,
                    .src = a->in[0],
                    .dst = a->out};
    while (m.unit < 16 && m.src_columns % 2 == 0 && m.dst_columns % 2 == 0 && m.src_ld % 2 == 0 && m.dst_ld % 2 == 0 &&
           (((uintptr_t)m.src | (uintptr_t)m.dst) & (uintptr_t)(2 * m.unit - 1)) == 0)
        m.unit *= 2, m.n /= 2, m.src_columns /= 2, m.dst_columns /= 2, m.src_ld /= 2, m.dst_ld /= 2;
    CUDA_TRY(cu_reshape_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

static kiln_status upsample(const cuda_kernel *k, const kernel_args *a, error *e)
{
    const int64_t *s = k->op.in[0].shape.dim, *d = k->op.out.shape.dim;
    cu_upsample m = {.unit = (int)dtype_size(k->op.out.dtype),
                     .images = d[0],
                     .H = s[1],
                     .W = s[2],
                     .h = d[1],
                     .w = d[2],
                     .columns = d[3],
                     .src_ld = cuda_ld(&k->op.in[0]),
                     .dst_ld = k->op.out.ld,
                     .src = a->in[0],
                     .dst = a->out};
    while (m.unit < 16 && m.columns % 2 == 0 && m.src_ld % 2 == 0 && m.dst_ld % 2 == 0 &&
           (((uintptr_t)m.src | (uintptr_t)m.dst) & (uintptr_t)(2 * m.unit - 1)) == 0)
        m.unit *= 2, m.columns /= 2, m.src_ld /= 2, m.dst_ld /= 2;
    CUDA_TRY(cu_upsample_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_layout(cuda_kernel *k, error *e)
{
    static kiln_status (*const bodies[OP_KIND_COUNT])(const cuda_kernel *, const kernel_args *, error *) = {
        [OP_CONCAT] = concat,   [OP_SLICE] = slice,     [OP_RESHAPE] = reshape,
        [OP_CONVERT] = reshape, [OP_PERMUTE] = permute, [OP_UPSAMPLE] = upsample};
    for (uint32_t i = 0; i < k->op.n_in; i++) {
        if (k->op.in[i].weight)
            cuda_pack_as(k, i, k->op.out.dtype);
        else if (k->op.in[i].dtype != k->op.out.dtype)
            return error_set(e, KILN_ERR_UNSUPPORTED, "%s from one type into another", op_name(k->op.kind));
    }
    k->body = bodies[k->op.kind];
    return KILN_OK;
}

/* ---- rows by number ---- */

static kiln_status embedding(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_embedding m = k->u.embedding;
    m.table = a->in[0], m.id = a->in[1], m.out = a->out;
    m.stored = cuda_stored(k, 0, a->in[0]);
    CUDA_TRY(cu_embedding_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_embedding(cuda_kernel *k, error *e)
{
    const operand_desc *t = &k->op.in[0], *id = &k->op.in[1];
    int gather = k->op.kind == OP_GATHER;
    if (id->dtype != KILN_I32)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s by numbers of type %s", op_name(k->op.kind),
                         dtype_name(id->dtype));
    if (t->weight && !k->block[0]) cuda_pack_as(k, 0, k->op.out.dtype);
    k->u.embedding = (cu_embedding){.table_type = cuda_operand_type(k, 0),
                                    .out_type = cuda_type(k->op.out.dtype),
                                    .rows = cuda_rows(&k->op.out),
                                    .columns = cuda_columns(&k->op.out),
                                    .table_ld = cuda_ld(t),
                                    .out_ld = k->op.out.ld,
                                    .every = gather && id->shape.rank == 2 ? id->shape.dim[1] : 1,
                                    .step = gather ? t->shape.dim[1] : 0,
                                    .limit = gather ? t->shape.dim[1] : t->shape.dim[0],
                                    .id_columns = cuda_columns(id),
                                    .id_ld = cuda_ld(id)};
    k->body = embedding;
    return KILN_OK;
}

static kiln_status timestep(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_timestep m = k->u.timestep;
    m.t = a->in[0], m.out = a->out;
    CUDA_TRY(cu_timestep_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_timestep(cuda_kernel *k, error *e)
{
    if (cuda_operand_type(k, 0) != CU_F32)
        return error_set(e, KILN_ERR_UNSUPPORTED, "a timestep of type %s", dtype_name(k->op.in[0].dtype));
    k->u.timestep = (cu_timestep){.out_type = cuda_type(k->op.out.dtype),
                                  .cos_first = (int)k->op.attr.timestep.cos_first,
                                  .rows = shape_count(&k->op.in[0].shape),
                                  .dim = k->op.attr.timestep.dim,
                                  .out_ld = k->op.out.ld,
                                  .shift = k->op.attr.timestep.shift,
                                  .max_period = k->op.attr.timestep.max_period};
    k->body = timestep;
    return KILN_OK;
}
