/* ops_product.c - matmul, linear with the weight transposed, linear by groups of rows; see product.cu. Weights lie as
 * linear()'s do, so that one packed copy serves both; what is stored by blocks is widened as it is loaded, and of
 * groups without rows nothing is. */
#include "backend/cuda/cuda.h"

#include "tensor/dtype.h"

static kiln_status body(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_matmul p = k->u.gemm.product;
    p.a = a->in[0], p.b = a->in[1], p.out = a->out;
    p.b_stored = cuda_stored(k, 1, a->in[1]);
    if (k->op.kind != OP_MATMUL && k->op.in[2].dtype) p.bias = a->in[2];
    if (k->op.kind == OP_GROUPED_LINEAR) p.offsets = a->in[3];
    CUDA_TRY(cu_matmul_run(&p, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

/* Dimensions before the last two, the last one first; an operand's of size 1 repeat. */
static void describe_matrices(cu_matmul *p, const operand_desc *out, const operand_desc *a, const operand_desc *b)
{
    int64_t to = a->shape.dim[a->shape.rank - 2] * cuda_ld(a), on = b->shape.dim[b->shape.rank - 2] * cuda_ld(b);
    p->matrices = 1;
    for (uint32_t i = 3; i <= out->shape.rank; i++, p->dims++) {
        int64_t x = i <= a->shape.rank ? a->shape.dim[a->shape.rank - i] : 1;
        int64_t y = i <= b->shape.rank ? b->shape.dim[b->shape.rank - i] : 1;
        p->size[p->dims] = out->shape.dim[out->shape.rank - i];
        p->a_step[p->dims] = x == 1 ? 0 : to, p->b_step[p->dims] = y == 1 ? 0 : on;
        p->matrices *= p->size[p->dims];
        to *= x, on *= y;
    }
}

static void finish(cuda_kernel *k, const cu_matmul *sizes, const char *name)
{
    cu_matmul *p = &k->u.gemm.product;
    *p = *sizes;
    p->type = cuda_operand_type(k, 0), p->b_type = cuda_operand_type(k, 1), p->out_type = cuda_result_type(&k->op);
    p->a_ld = cuda_ld(&k->op.in[0]), p->out_ld = k->op.out.ld;
    k->base.flops = (uint64_t)(2 * (p->b_group ? 1 : p->matrices) * p->I * p->J * p->K);
    k->base.name = name;
    k->body = body;
}

kiln_status cuda_prepare_matmul(cuda_kernel *k, error *e)
{
    const operand_desc *a = &k->op.in[0], *b = &k->op.in[1], *out = &k->op.out;
    int turned = k->op.attr.matmul.transpose_b != 0;
    cu_matmul p = {.I = out->shape.dim[out->shape.rank - 2],
                   .J = cuda_columns(out),
                   .K = cuda_columns(a),
                   .alpha = k->op.attr.matmul.alpha,
                   .b_j = turned ? cuda_ld(b) : 1,
                   .b_k = turned ? 1 : cuda_ld(b)};
    (void)e;
    describe_matrices(&p, out, a, b);
    finish(k, &p, "matmul");
    return KILN_OK;
}

/* Operand 1 lies as linear()'s weight of `rows` rows does. */
static kiln_status pack(const kernel *base, uint32_t operand, const void *src, uint32_t src_dtype, void *dst, pool *p,
                        error *e)
{
    return (operand == 1 ? cuda_gemm_pack : cuda_pack_plain)(base, operand, src, src_dtype, dst, p, e);
}
static int64_t describe_weight(cuda_kernel *k, int64_t rows, int64_t columns)
{
    k->u.gemm.p = (cu_gemm){.type = cuda_operand_type(k, 0), .N = rows, .K = columns};
    cuda_gemm_packing(k);
    if (k->op.in[2].dtype) cuda_pack_as(k, 2, KILN_F32);
    k->base.pack = pack;
    return k->u.gemm.p.k_packed;
}

kiln_status cuda_prepare_linear_transposed(cuda_kernel *k, error *e)
{
    const int64_t *w = k->op.in[1].shape.dim;
    (void)e;
    int64_t apart = describe_weight(k, w[0], w[1]);
    cu_matmul p = {
        .matrices = 1, .I = cuda_rows(&k->op.in[0]), .J = w[1], .K = w[0], .alpha = 1, .b_j = 1, .b_k = apart};
    finish(k, &p, "linear_transposed");
    return KILN_OK;
}

kiln_status cuda_prepare_grouped_linear(cuda_kernel *k, error *e)
{
    const int64_t *w = k->op.in[1].shape.dim;
    if (k->op.n_in > 4) return error_set(e, KILN_ERR_UNSUPPORTED, "grouped_linear: no kernel for rows by number");
    int64_t apart = describe_weight(k, w[0] * w[1], w[2]);
    cu_matmul p = {.matrices = w[0],
                   .I = cuda_rows(&k->op.in[0]),
                   .J = w[1],
                   .K = w[2],
                   .alpha = 1,
                   .b_j = apart,
                   .b_k = 1,
                   .b_group = w[1] * apart};
    finish(k, &p, "grouped_linear");
    return KILN_OK;
}
