/* ops_attention.c - attention: on tensor cores where they can, else in plain f32 arithmetic. */
#include "backend/attention_bias.h"
#include "backend/cuda/cuda.h"

enum { Q, K, V, MASK, OFFSET, KEY_LENGTH, Q_SEGMENT, K_SEGMENT, KEY_POSITION, TABLE, SINKS, PAGES };

static int has(const cuda_kernel *k, uint32_t i) { return i < k->op.n_in && k->op.in[i].dtype != 0; }
static const void *pointer(const cuda_kernel *k, const kernel_args *a, uint32_t i)
{
    return has(k, i) ? a->in[i] : NULL;
}

static kiln_status body(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_attention t = k->u.attention;
    cu_attention_more *m = &t.more;
    t.q = a->in[Q], t.k = a->in[K], t.v = a->in[V], t.out = a->out, t.mask = pointer(k, a, MASK);
    m->offset.at = pointer(k, a, OFFSET), m->key_length.at = pointer(k, a, KEY_LENGTH);
    m->q_segment.at = pointer(k, a, Q_SEGMENT), m->k_segment.at = pointer(k, a, K_SEGMENT);
    m->key_position.at = pointer(k, a, KEY_POSITION), m->pages.at = pointer(k, a, PAGES);
    m->table = pointer(k, a, TABLE), m->sinks = pointer(k, a, SINKS);
    m->lse = k->op.n_more ? a->more[0] : NULL;
    m->used |= m->lse != NULL;
    int mma = cuda_on_tensor_cores(t.type);
    if (mma && cu_attention_mma_takes(&t))
        CUDA_TRY(cu_attention_mma_run(&t, cuda_stream(a->stream)), "launch");
    else if (mma && cuda_takes_wide_heads() && cu_attention_wide_takes(&t))
        CUDA_TRY(cu_attention_wide_run(&t, cuda_stream(a->stream)), "launch");
    else
        CUDA_TRY(cu_attention_run(&t, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

static int64_t step_of(const cuda_kernel *k, uint32_t i)
{
    const operand_desc *d = &k->op.in[i];
    return !has(k, i) || d->shape.dim[0] == 1 ? 0 : d->shape.rank == 1 ? 1 : cuda_ld(d);
}

/* The first distance of each bucket that has several. */
static void find_buckets(const attention_attr *attr, cu_attention_more *m)
{
    m->exact = m->buckets / 2;
    for (int64_t i = m->exact; i < m->buckets; i++) {
        int64_t low = m->exact, high = attr->max_distance;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (bias_bucket_of(middle, m->buckets, attr->max_distance) >= i)
                high = middle;
            else
                low = middle + 1;
        }
        m->start[i] = low;
    }
}

static kiln_status prepare_more(cuda_kernel *k, error *e)
{
    const attention_attr *attr = &k->op.attr.attention;
    cu_attention *t = &k->u.attention;
    cu_attention_more *m = &t->more;
    m->softcap = attr->softcap, m->bidirectional = (int)attr->bidirectional;
    m->window = (int)attr->window, m->left = attr->left, m->right = attr->right;
    m->used = attr->softcap > 0 || attr->window;
    for (uint32_t i = OFFSET; i <= PAGES; i++) m->used |= has(k, i);
    m->offset.step = step_of(k, OFFSET), m->key_length.step = step_of(k, KEY_LENGTH);
    m->q_segment.step = step_of(k, Q_SEGMENT), m->k_segment.step = step_of(k, K_SEGMENT);
    m->key_position.step = step_of(k, KEY_POSITION);
    if (has(k, PAGES)) {
        m->pages.step = cuda_ld(&k->op.in[PAGES]);
        m->page = t->keys, m->n_pages = k->op.in[K].shape.dim[0];
        t->keys *= k->op.in[PAGES].shape.dim[1];
    }
    if (has(k, SINKS)) m->sinks_type = cuda_operand_type(k, SINKS);
    if (!has(k, TABLE)) return KILN_OK;
    m->table_type = cuda_operand_type(k, TABLE), m->table_ld = cuda_ld(&k->op.in[TABLE]);
    m->buckets = bias_buckets(attr, k->op.in[TABLE].shape.dim[0]);
    if (m->buckets > CU_BUCKETS)
        return error_set(e, KILN_ERR_UNSUPPORTED, "attention: a bias table of %lld buckets in a direction; up to %d",
                         (long long)m->buckets, CU_BUCKETS);
    find_buckets(attr, m);
    return KILN_OK;
}

static kiln_status check(const cuda_kernel *k, const cu_attention *t, error *e)
{
    int64_t widest = t->head > t->head_v ? t->head : t->head_v;
    if (cuda_operand_type(k, K) != t->type || cuda_operand_type(k, V) != t->type)
        return error_set(e, KILN_ERR_UNSUPPORTED, "attention over different types");
    if (widest > CU_WIDEST_HEAD)
        return error_set(e, KILN_ERR_UNSUPPORTED, "attention heads of %lld; up to %d", (long long)widest,
                         CU_WIDEST_HEAD);
    return KILN_OK;
}

kiln_status cuda_prepare_attention(cuda_kernel *k, error *e)
{
    const operand_desc *q = &k->op.in[Q], *keys = &k->op.in[K], *v = &k->op.in[V], *mask = &k->op.in[MASK];
    cu_attention *t = &k->u.attention;
    const attention_attr *attr = &k->op.attr.attention;
    int64_t kv_heads = attr->kv_heads ? attr->kv_heads : attr->heads;
    *t = (cu_attention){.type = cuda_operand_type(k, Q),
                        .out_type = cuda_type(k->op.out.dtype),
                        .images = q->shape.dim[0],
                        .heads = attr->heads,
                        .group = attr->heads / kv_heads,
                        .queries = q->shape.dim[1],
                        .keys = keys->shape.dim[1],
                        .head = q->shape.dim[2] / attr->heads,
                        .head_v = v->shape.dim[2] / kv_heads,
                        .q_ld = cuda_ld(q),
                        .k_ld = cuda_ld(keys),
                        .v_ld = cuda_ld(v),
                        .out_ld = k->op.out.ld,
                        .scale = attr->scale,
                        .causal = (int)attr->causal};
    TRY(check(k, t, e));
    if (has(k, MASK)) {
        const int64_t *d = mask->shape.dim;
        t->mask_type = cuda_operand_type(k, MASK);
        t->mask_ld = cuda_ld(mask);
        t->mask_head = d[1] == 1 ? 0 : d[2] * t->mask_ld;
        t->mask_image = d[0] == 1 ? 0 : d[1] * d[2] * t->mask_ld;
    }
    TRY(prepare_more(k, e));
    k->base.flops = (uint64_t)(2 * t->images * t->heads * t->queries * t->keys * (t->head + t->head_v));
    k->body = body;
    return KILN_OK;
}
