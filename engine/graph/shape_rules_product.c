/* shape_rules_product.c - rules of attention and of products of matrices. */
#include "graph/shape_rule.h"

enum { Q, K, V, MASK, OFFSET, KEY_LENGTH, Q_SEGMENT, K_SEGMENT, KEY_POSITION, TABLE, SINKS, PAGES, ATTENTION_OPERANDS };

/* i32 [1] or [N] */
static int is_by_sequence(const shape *s, int64_t n)
{
    return !s || (s->rank == 1 && (s->dim[0] == 1 || s->dim[0] == n));
}
/* i32 [1 or N,T] */
static int is_by_place(const shape *s, int64_t n, int64_t t)
{
    return !s || (s->rank == 2 && (s->dim[0] == 1 || s->dim[0] == n) && s->dim[1] == t);
}

static kiln_status attention_places(const shape *const *in, int64_t heads, int64_t keys, error *e)
{
    int64_t n = in[Q]->dim[0], queries = in[Q]->dim[1];
    const shape *m = in[MASK];
    if (m && (m->rank != 4 || (m->dim[0] != 1 && m->dim[0] != n) || (m->dim[1] != 1 && m->dim[1] != heads) ||
              m->dim[2] != queries || m->dim[3] != keys))
        return wrong_shapes(e, "attention: mask must be [1 or N, 1 or heads, Tq, Tk]", in[Q], m);
    if (!is_by_sequence(in[OFFSET], n))
        return wrong_shapes(e, "attention: offset must be [1] or [N]", in[Q], in[OFFSET]);
    if (!is_by_sequence(in[KEY_LENGTH], n))
        return wrong_shapes(e, "attention: key_length must be [1] or [N]", in[Q], in[KEY_LENGTH]);
    if (!in[Q_SEGMENT] != !in[K_SEGMENT])
        return error_set(e, KILN_ERR_INVALID, "attention: q_segment and k_segment go together");
    if (!is_by_place(in[Q_SEGMENT], n, queries) || !is_by_place(in[K_SEGMENT], n, keys))
        return wrong_shapes(e, "attention: segments must be [1 or N,Tq] and [1 or N,Tk]", in[Q_SEGMENT], in[K_SEGMENT]);
    if (!is_by_place(in[KEY_POSITION], n, keys))
        return wrong_shapes(e, "attention: key_position must be [1 or N,Tk]", in[K], in[KEY_POSITION]);
    if (in[TABLE] && (in[TABLE]->rank != 2 || in[TABLE]->dim[1] != heads))
        return wrong_shapes(e, "attention: bias_table must be [buckets,heads]", in[Q], in[TABLE]);
    if (!is_vector(in[SINKS], heads))
        return wrong_shapes(e, "attention: sinks must have one number a head", in[Q], in[SINKS]);
    return KILN_OK;
}

static kiln_status attention_numbers(const attention_attr *a, const shape *const *in, error *e)
{
    if (!(a->softcap >= 0)) return error_set(e, KILN_ERR_INVALID, "attention: a softcap is 0 or more");
    if (a->window && (a->left < 0 || a->right < 0))
        return error_set(e, KILN_ERR_INVALID, "attention: a window reaches 0 or more to the left and right");
    if (in[TABLE] &&
        (in[TABLE]->dim[0] < (a->bidirectional ? 4 : 2) || in[TABLE]->dim[0] % (a->bidirectional ? 4 : 2) ||
         a->max_distance <= in[TABLE]->dim[0] / (a->bidirectional ? 4 : 2)))
        return error_set(e, KILN_ERR_INVALID,
                         "attention: %lld buckets and a max_distance of %lld make no table of biases",
                         (long long)in[TABLE]->dim[0], (long long)a->max_distance);
    return KILN_OK;
}

kiln_status attention_rule(const op_attr *attr, const shape *const *given, uint32_t n, shape *out, error *e)
{
    const attention_attr *a = &attr->attention;
    const shape *in[ATTENTION_OPERANDS] = {0};
    int64_t heads = a->heads, kv_heads = a->kv_heads;
    for (uint32_t i = 0; i < n && i < ATTENTION_OPERANDS; i++) in[i] = given[i];
    if (in[Q]->rank != 3 || in[K]->rank != 3 || in[V]->rank != 3)
        return wrong_shapes(e, "attention takes q [N,T,heads*D], k and v [N,T,kv_heads*D]", in[Q], in[K]);
    if (heads < 1 || in[Q]->dim[2] % heads || in[Q]->dim[2] == 0)
        return error_set(e, KILN_ERR_INVALID, "attention: a width of %lld does not divide into %lld heads",
                         (long long)in[Q]->dim[2], (long long)heads);
    if (kv_heads < 1 || heads % kv_heads || in[V]->dim[2] % kv_heads)
        return error_set(e, KILN_ERR_INVALID,
                         "attention: %lld heads of q and %lld of k and v (%lld columns) do not fit together",
                         (long long)heads, (long long)kv_heads, (long long)in[V]->dim[2]);
    if (in[K]->dim[0] != in[V]->dim[0] || in[K]->dim[1] != in[V]->dim[1] ||
        (kv_heads == heads && in[K]->dim[2] != in[Q]->dim[2]))
        return wrong_shapes(e,
                            kv_heads == heads && in[K]->dim[2] != in[Q]->dim[2]
                                ? "attention: q and k differ in batch or width"
                                : "attention: k and v differ in shape",
                            kv_heads == heads && in[K]->dim[2] != in[Q]->dim[2] ? in[Q] : in[K],
                            kv_heads == heads && in[K]->dim[2] != in[Q]->dim[2] ? in[K] : in[V]);
    if (in[K]->dim[2] != in[Q]->dim[2] / heads * kv_heads || (!in[PAGES] && in[Q]->dim[0] != in[K]->dim[0]))
        return wrong_shapes(e, "attention: q and k differ in batch or width", in[Q], in[K]);
    if (in[PAGES] && (in[PAGES]->rank != 2 || in[PAGES]->dim[0] != in[Q]->dim[0]))
        return wrong_shapes(e, "attention: pages must be [N,P]", in[Q], in[PAGES]);
    TRY(attention_places(in, heads, in[PAGES] ? in[PAGES]->dim[1] * in[K]->dim[1] : in[K]->dim[1], e));
    TRY(attention_numbers(a, in, e));
    *out = *in[Q];
    out->dim[2] = in[V]->dim[2] / kv_heads * heads;
    return KILN_OK;
}

kiln_status matmul_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    uint32_t ra = in[0]->rank, rb = in[1]->rank, rank = ra > rb ? ra : rb, t = a->matmul.transpose_b;
    (void)n;
    int fits = ra >= 2 && rb >= 2 && in[0]->dim[ra - 1] == in[1]->dim[t ? rb - 1 : rb - 2];
    out->rank = rank;
    for (uint32_t i = 3; fits && i <= rank; i++) {
        int64_t x = i <= ra ? in[0]->dim[ra - i] : 1, y = i <= rb ? in[1]->dim[rb - i] : 1;
        fits = x == y || x == 1 || y == 1;
        out->dim[rank - i] = x == 1 ? y : x;
    }
    if (!fits)
        return wrong_shapes(e, t ? "matmul takes a [..,I,K] and b [..,J,K]" : "matmul takes a [..,I,K] and b [..,K,J]",
                            in[0], in[1]);
    out->dim[rank - 2] = in[0]->dim[ra - 2];
    out->dim[rank - 1] = in[1]->dim[t ? rb - 2 : rb - 1];
    return KILN_OK;
}

kiln_status linear_transposed_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    if (in[0]->rank < 1 || in[1]->rank != 2 || last_dimension(in[0]) != in[1]->dim[0])
        return wrong_shapes(e, "linear_transposed takes x [...,O] and w [O,I]", in[0], in[1]);
    if (!is_vector(in[2], in[1]->dim[1]))
        return wrong_shapes(e, "linear_transposed: bias must have one number a column of w", in[1], in[2]);
    *out = *in[0];
    out->dim[out->rank - 1] = in[1]->dim[1];
    return KILN_OK;
}

kiln_status grouped_linear_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e)
{
    (void)a, (void)n;
    if (in[0]->rank != 2 || in[1]->rank != 3 || in[0]->dim[1] != in[1]->dim[2])
        return wrong_shapes(e, "grouped_linear takes x [R,I] and w [E,O,I]", in[0], in[1]);
    if (in[2] && (in[2]->rank != 2 || in[2]->dim[0] != in[1]->dim[0] || in[2]->dim[1] != in[1]->dim[1]))
        return wrong_shapes(e, "grouped_linear: bias must be [E,O]", in[1], in[2]);
    if (!is_vector(in[3], in[1]->dim[0] + 1))
        return wrong_shapes(e, "grouped_linear: offsets must have a number more than there are groups", in[1], in[3]);
    *out = (shape){.rank = 2, .dim = {in[0]->dim[0], in[1]->dim[1]}};
    return KILN_OK;
}
