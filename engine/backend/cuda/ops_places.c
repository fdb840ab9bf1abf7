/* ops_places.c - order and places: sort, bincount, take, take_along, scatter, random. */
#include "backend/cuda/cuda.h"

static kiln_status sort(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_sort m = k->u.sort;
    m.x = a->in[0], m.out = a->out, m.places = a->more[0], m.room = a->scratch;
    CUDA_TRY(cu_sort_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_sort(cuda_kernel *k, error *e)
{
    const operand_desc *x = &k->op.in[0];
    if (x->dtype != k->op.out.dtype) return error_set(e, KILN_ERR_UNSUPPORTED, "topk from one type into another");
    if (cuda_columns(x) > INT32_MAX)
        return error_set(e, KILN_ERR_UNSUPPORTED, "topk of rows of %lld; 2^31 - 1 at most", (long long)cuda_columns(x));
    k->u.sort = (cu_sort){.x_type = cuda_operand_type(k, 0),
                          .ascending = (int)k->op.attr.sort.ascending,
                          .rows = cuda_rows(x),
                          .columns = cuda_columns(x),
                          .k = k->op.attr.sort.k,
                          .padded = cu_sort_padded(k->op.attr.sort.k),
                          .x_ld = cuda_ld(x),
                          .out_ld = k->op.out.ld,
                          .places_ld = k->op.n_more ? k->op.more[0].ld : 0};
    k->base.scratch_bytes = (size_t)(k->u.sort.rows * k->u.sort.padded) * sizeof(uint64_t);
    k->base.flops = (uint64_t)shape_count(&x->shape);
    k->body = sort;
    return KILN_OK;
}

/* ---- numbers ---- */

static cu_numbers numbers_of(const operand_desc *d)
{
    return (cu_numbers){.n = shape_count(&d->shape), .columns = cuda_columns(d), .ld = cuda_ld(d)};
}

static kiln_status bincount(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_numbers m = k->u.bincount;
    m.p = a->in[0];
    CUDA_TRY(cu_bincount_run(&m, k->op.attr.bincount.bins, a->out, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

static kiln_status take(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_take m = k->u.take;
    m.x = a->in[0], m.index.p = a->in[1], m.out = a->out;
    CUDA_TRY(cu_take_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

static kiln_status scatter(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_scatter m = k->u.scatter;
    m.x = a->in[0], m.index.p = a->in[1], m.source = a->in[2], m.out = a->out, m.room = a->scratch;
    CUDA_TRY(cu_scatter_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

static int64_t product(const shape *s, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t d = from; d < to; d++) n *= s->dim[d];
    return n;
}

static void prepare_take(cuda_kernel *k)
{
    const operand_desc *x = &k->op.in[0];
    int along = k->op.kind == OP_TAKE_ALONG;
    uint32_t axis = along ? x->shape.rank - 1 : k->op.attr.take.axis;
    k->u.take = (cu_take){.type = cuda_operand_type(k, 0),
                          .along = along,
                          .outer = product(&x->shape, 0, axis),
                          .places = x->shape.dim[axis],
                          .inner = along ? cuda_columns(&k->op.out) : product(&x->shape, axis + 1, x->shape.rank),
                          .x_columns = cuda_columns(x),
                          .x_ld = cuda_ld(x),
                          .out_columns = cuda_columns(&k->op.out),
                          .out_ld = k->op.out.ld,
                          .index = numbers_of(&k->op.in[1])};
    k->body = take;
}

static void prepare_scatter(cuda_kernel *k)
{
    const operand_desc *x = &k->op.in[0], *source = &k->op.in[2];
    uint32_t axis = k->op.attr.scatter.axis;
    k->u.scatter = (cu_scatter){.type = cuda_operand_type(k, 0),
                                .add = (int)k->op.attr.scatter.add,
                                .outer = product(&x->shape, 0, axis),
                                .places = x->shape.dim[axis],
                                .inner = product(&x->shape, axis + 1, x->shape.rank),
                                .x_columns = cuda_columns(x),
                                .x_ld = cuda_ld(x),
                                .source_columns = cuda_columns(source),
                                .source_ld = cuda_ld(source),
                                .out_ld = k->op.out.ld,
                                .index = numbers_of(&k->op.in[1])};
    k->base.scratch_bytes = cu_scatter_scratch(k->u.scatter.places, k->u.scatter.index.n);
    k->body = scatter;
}

kiln_status cuda_prepare_places(cuda_kernel *k, error *e)
{
    const op_desc *op = &k->op;
    uint32_t moved = op->kind == OP_SCATTER ? 2 : 0;
    if (op->kind != OP_BINCOUNT && (op->in[0].dtype != op->out.dtype || op->in[moved].dtype != op->out.dtype))
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s from one type into another", op_name(op->kind));
    k->base.flops = (uint64_t)shape_count(&op->out.shape);
    if (op->kind == OP_SCATTER)
        prepare_scatter(k);
    else if (op->kind == OP_BINCOUNT)
        k->u.bincount = numbers_of(&op->in[0]), k->body = bincount;
    else
        prepare_take(k);
    return KILN_OK;
}

/* ---- random ---- */

static kiln_status random_numbers(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_random m = k->u.random;
    m.seed = a->in[0], m.out = a->out;
    CUDA_TRY(cu_random_run(&m, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_random(cuda_kernel *k, error *e)
{
    const operand_desc *seed = &k->op.in[0], *out = &k->op.out;
    if (out->dtype != KILN_F32) return error_set(e, KILN_ERR_UNSUPPORTED, "random: its numbers are f32");
    k->u.random = (cu_random){.kind = (int)k->op.attr.random.kind,
                              .count = shape_count(&out->shape),
                              .columns = cuda_columns(out),
                              .out_ld = out->ld,
                              .seed_columns = cuda_columns(seed),
                              .seed_ld = cuda_ld(seed)};
    k->base.flops = 100 * (uint64_t)k->u.random.count;
    k->body = random_numbers;
    return KILN_OK;
}
