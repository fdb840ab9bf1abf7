/* reference_attention.c - attention: the definition, key by key. */
#include "backend/attention_bias.h"
#include "backend/reference/reference.h"

#include <math.h>

enum { Q, K, V, MASK, OFFSET, KEY_LENGTH, Q_SEGMENT, K_SEGMENT, KEY_POSITION, TABLE, SINKS, PAGES };

typedef struct {
    const op_desc *op;
    const kernel_args *a;
    int64_t heads, group, queries, keys, D, Dv; /* group: heads of q that read one of k */
    int64_t n, h, q;                            /* image, head, query */
} attending;

static int has(const attending *t, uint32_t i) { return i < t->op->n_in && t->op->in[i].dtype != 0; }

/* Of i32 [1] or [N]. */
static int64_t of_image(const attending *t, uint32_t i)
{
    const operand_desc *d = &t->op->in[i];
    return operand_get_i32(d, t->a->in[i], d->shape.dim[0] == 1 ? 0 : t->n);
}
/* Of i32 [1 or N,T]. */
static int64_t of_place(const attending *t, uint32_t i, int64_t at)
{
    const operand_desc *d = &t->op->in[i];
    return operand_get_i32(d, t->a->in[i], (d->shape.dim[0] == 1 ? 0 : t->n) * d->shape.dim[1] + at);
}

static int64_t position_of(const attending *t) { return (has(t, OFFSET) ? of_image(t, OFFSET) : 0) + t->q; }

static int sees(const attending *t, int64_t k)
{
    const attention_attr *a = &t->op->attr.attention;
    if (has(t, KEY_LENGTH) && k >= of_image(t, KEY_LENGTH)) return 0;
    int64_t at = has(t, KEY_POSITION) ? of_place(t, KEY_POSITION, k) : k, own = position_of(t);
    if (at < 0 || (a->causal && at > own)) return 0;
    if (a->window && (at < own - a->left || at > own + a->right)) return 0;
    return !has(t, Q_SEGMENT) || of_place(t, Q_SEGMENT, t->q) == of_place(t, K_SEGMENT, k);
}

/* Row of k and v; pages were checked. */
static int64_t key_row(const attending *t, int64_t k)
{
    int64_t each = t->op->in[K].shape.dim[1];
    return has(t, PAGES) ? of_place(t, PAGES, k / each) * each + k % each : t->n * t->keys + k;
}

/* The mask's value: dimensions of size 1 repeat. */
static double mask_at(const attending *t, int64_t k)
{
    const int64_t *d = t->op->in[MASK].shape.dim;
    int64_t row = ((d[0] == 1 ? 0 : t->n) * d[1] + (d[1] == 1 ? 0 : t->h)) * d[2] + t->q;
    return (double)operand_get(&t->op->in[MASK], t->a->in[MASK], row, k);
}

/* -inf: the query does not see that key. */
static double score_at(const attending *t, int64_t k)
{
    const attention_attr *a = &t->op->attr.attention;
    const operand_desc *in = t->op->in;
    if (!sees(t, k)) return -INFINITY;
    double s = 0, cap = (double)a->softcap;
    int64_t row = key_row(t, k);
    for (int64_t i = 0; i < t->D; i++)
        s += (double)operand_get(&in[Q], t->a->in[Q], t->n * t->queries + t->q, t->h * t->D + i) *
             (double)operand_get(&in[K], t->a->in[K], row, t->h / t->group * t->D + i);
    s *= (double)a->scale;
    if (cap > 0) s = cap * tanh(s / cap);
    if (has(t, MASK)) s += mask_at(t, k);
    if (!has(t, TABLE)) return s;
    int64_t at = has(t, KEY_POSITION) ? of_place(t, KEY_POSITION, k) : k;
    return s + (double)operand_get(&in[TABLE], t->a->in[TABLE], bias_row(a, in[TABLE].shape.dim[0], at, position_of(t)),
                                   t->h);
}

static double most_or_nan(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b); }

/* softmax(scores) v for one query of one head: two passes over the keys, and one for every few columns of the result,
 * which is as many as are summed at a time without memory of their own. */
static void attend(const attending *t)
{
    enum { AT_ONCE = 64 };
    const op_desc *op = t->op;
    double most = has(t, SINKS) ? (double)operand_get(&op->in[SINKS], t->a->in[SINKS], 0, t->h) : -INFINITY;
    double sink = most, total = 0;
    int64_t row = t->n * t->queries + t->q;
    for (int64_t k = 0; k < t->keys; k++) most = most_or_nan(most, score_at(t, k));
    for (int64_t k = 0; k < t->keys && most != -INFINITY; k++) total += exp(score_at(t, k) - most);
    if (has(t, SINKS) && sink != -INFINITY) total += exp(sink - most);
    for (int64_t first = 0; first < t->Dv; first += AT_ONCE) {
        int64_t count = t->Dv - first < AT_ONCE ? t->Dv - first : AT_ONCE;
        double sum[AT_ONCE] = {0};
        for (int64_t k = 0; k < t->keys && total != 0; k++) {
            double weight = exp(score_at(t, k) - most);
            for (int64_t i = 0; weight != 0 && i < count; i++)
                sum[i] += weight * (double)operand_get(&op->in[V], t->a->in[V], key_row(t, k),
                                                       t->h / t->group * t->Dv + first + i);
        }
        for (int64_t i = 0; i < count; i++)
            operand_set(&op->out, t->a->out, row, t->h * t->Dv + first + i, total != 0 ? (float)(sum[i] / total) : 0);
    }
    if (op->n_more && t->a->more[0])
        ((float *)t->a->more[0])[(t->n * t->heads + t->h) * t->queries + t->q] =
            total != 0 ? (float)(most + log(total)) : -INFINITY;
}

static kiln_status check_places(attending *t, error *e)
{
    int64_t each = t->op->in[K].shape.dim[1], pages = t->op->in[K].shape.dim[0];
    int64_t length = has(t, KEY_LENGTH) ? of_image(t, KEY_LENGTH) : t->keys;
    if (length < 0 || length > t->keys)
        return error_set(e, KILN_ERR_INVALID, "attention: a key_length of %lld, of %lld keys", (long long)length,
                         (long long)t->keys);
    for (int64_t k = 0; has(t, PAGES) && k < length; k += each)
        if (of_place(t, PAGES, k / each) < 0 || of_place(t, PAGES, k / each) >= pages)
            return error_set(e, KILN_ERR_INVALID, "attention: page %lld is outside the %lld that there are",
                             (long long)of_place(t, PAGES, k / each), (long long)pages);
    return KILN_OK;
}

kiln_status reference_attention(const op_desc *op, const kernel_args *a, error *e)
{
    int64_t heads = op->attr.attention.heads, kv = op->attr.attention.kv_heads ? op->attr.attention.kv_heads : heads;
    attending t = {.op = op, .a = a, .heads = heads, .group = heads / kv, .queries = op->in[Q].shape.dim[1]};
    t.keys = op->in[K].shape.dim[1] * (has(&t, PAGES) ? op->in[PAGES].shape.dim[1] : 1);
    t.D = op->in[Q].shape.dim[2] / heads, t.Dv = op->in[V].shape.dim[2] / kv;
    for (t.n = 0; t.n < op->in[Q].shape.dim[0]; t.n++) {
        TRY(check_places(&t, e));
        for (t.h = 0; t.h < heads; t.h++)
            for (t.q = 0; t.q < t.queries; t.q++) attend(&t);
    }
    return KILN_OK;
}
