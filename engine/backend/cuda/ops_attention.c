/* ops_attention.c - attention: on tensor cores where they can, else in plain f32 arithmetic. */
#include "backend/cuda/cuda.h"

static kiln_status body(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_attention t = k->u.attention;
    t.q = a->in[0], t.k = a->in[1], t.v = a->in[2], t.out = a->out;
    t.mask = k->op.n_in > 3 && k->op.in[3].dtype ? a->in[3] : NULL;
    int mma = cuda_on_tensor_cores(t.type);
    if (mma && cu_attention_mma_takes(&t))
        CUDA_TRY(cu_attention_mma_run(&t, cuda_stream(a->stream)), "launch");
    else if (mma && cuda_takes_wide_heads() && cu_attention_wide_takes(&t))
        CUDA_TRY(cu_attention_wide_run(&t, cuda_stream(a->stream)), "launch");
    else
        CUDA_TRY(cu_attention_run(&t, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

kiln_status cuda_prepare_attention(cuda_kernel *k, error *e)
{
    const operand_desc *q = &k->op.in[0], *keys = &k->op.in[1], *v = &k->op.in[2], *mask = &k->op.in[3];
    cu_attention *t = &k->u.attention;
    const attention_attr *attr = &k->op.attr.attention;
    *t = (cu_attention){.type = cuda_operand_type(k, 0),
                        .out_type = cuda_type(k->op.out.dtype),
                        .images = q->shape.dim[0],
                        .heads = attr->heads,
                        .queries = q->shape.dim[1],
                        .keys = keys->shape.dim[1],
                        .head = q->shape.dim[2] / attr->heads,
                        .q_ld = cuda_ld(q),
                        .k_ld = cuda_ld(keys),
                        .v_ld = cuda_ld(v),
                        .out_ld = k->op.out.ld,
                        .scale = attr->scale,
                        .causal = (int)attr->causal};
    if (cuda_operand_type(k, 1) != t->type || cuda_operand_type(k, 2) != t->type)
        return error_set(e, KILN_ERR_UNSUPPORTED, "attention over different types");
    if (t->head > 512)
        return error_set(e, KILN_ERR_UNSUPPORTED, "attention heads of %lld; up to 512", (long long)t->head);
    if (k->op.n_in > 3 && mask->dtype) {
        const int64_t *d = mask->shape.dim;
        t->mask_type = cuda_operand_type(k, 3);
        t->mask_ld = cuda_ld(mask);
        t->mask_head = d[1] == 1 ? 0 : d[2] * t->mask_ld;
        t->mask_image = d[0] == 1 ? 0 : d[1] * d[2] * t->mask_ld;
    }
    k->base.flops = (uint64_t)(4 * t->images * t->heads * t->queries * t->keys * t->head);
    k->body = body;
    return KILN_OK;
}
