/* attention_view.c - see attention_view.h. */
#include "backend/cpu/attention_view.h"

#include "backend/attention_bias.h"

#include <math.h>

/* Row `image` of i32 [1 or N,T]. */
static const int32_t *places_of(const cpu_kernel *c, const kernel_args *a, uint32_t i, int64_t image)
{
    const operand_desc *d = &c->op.in[i];
    if (!attention_has(&c->op, i)) return NULL;
    return (const int32_t *)a->in[i] + (d->shape.dim[0] == 1 ? 0 : image * (d->weight ? d->shape.dim[1] : d->ld));
}
/* Of i32 [1] or [N]. */
static int64_t number_of(const cpu_kernel *c, const kernel_args *a, uint32_t i, int64_t image, int64_t otherwise)
{
    if (!attention_has(&c->op, i)) return otherwise;
    return ((const int32_t *)a->in[i])[c->op.in[i].shape.dim[0] == 1 ? 0 : image];
}

attention_view attention_view_of(const cpu_kernel *c, const kernel_args *a, int64_t image, int64_t kv)
{
    const attention_plan *p = c->plan;
    return (attention_view){.c = c,
                            .a = a,
                            .p = p,
                            .image = image,
                            .kv = kv,
                            .length = number_of(c, a, ATTEND_KEY_LENGTH, image, p->Tk),
                            .offset = number_of(c, a, ATTEND_OFFSET, image, 0),
                            .q_segment = places_of(c, a, ATTEND_Q_SEGMENT, image),
                            .k_segment = places_of(c, a, ATTEND_K_SEGMENT, image),
                            .key_position = places_of(c, a, ATTEND_KEY_POSITION, image),
                            .pages = places_of(c, a, ATTEND_PAGES, image)};
}

kiln_status attention_check(const attention_view *v, error *e)
{
    int64_t pages = v->c->op.in[ATTEND_K].shape.dim[0];
    if (v->length < 0 || v->length > v->p->Tk)
        return error_set(e, KILN_ERR_INVALID, "attention: a key_length of %lld, of %lld keys", (long long)v->length,
                         (long long)v->p->Tk);
    for (int64_t i = 0; v->pages && i * v->p->page < v->length; i++)
        if (v->pages[i] < 0 || v->pages[i] >= pages)
            return error_set(e, KILN_ERR_INVALID, "attention: page %d is outside the %lld that there are", v->pages[i],
                             (long long)pages);
    return KILN_OK;
}

attention_run attention_run_at(const attention_view *v, const attention_strip *s, int64_t at)
{
    if (at >= s->n) return (attention_run){0};
    int64_t column = s->first + at, query = column % v->p->Tq;
    return (attention_run){.head = v->kv * v->p->group + column / v->p->Tq,
                           .query = query,
                           .n = min64(v->p->Tq - query, s->n - at),
                           .at = at};
}

attention_strip attention_strip_at(const attention_view *v, int64_t first, int64_t n)
{
    const attention_attr *a = &v->c->op.attr.attention;
    attention_strip s = {.first = first, .n = n, .low = INT64_MAX, .high = 0};
    for (attention_run r = attention_run_at(v, &s, 0); r.n; r = attention_run_at(v, &s, r.at + r.n)) {
        int64_t own = v->offset + r.query, last = own + r.n - 1;
        int64_t low = 0, high = a->causal ? last + 1 : INT64_MAX;
        if (a->window && own > a->left) low = own - a->left;
        if (a->window && a->right < high - last - 1) high = last + a->right + 1;
        if (low < s.low) s.low = low;
        if (high > s.high) s.high = high;
    }
    return s;
}

/* Least and largest of the places that are 0 or more, or of all. */
static void range_of(const int32_t *x, int64_t n, int32_t floor, int64_t *low, int64_t *high)
{
    *low = INT64_MAX, *high = INT64_MIN;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < floor) continue;
        if (x[i] < *low) *low = x[i];
        if (x[i] > *high) *high = x[i];
    }
}

static int shares_segment(const attention_view *v, const attention_strip *s, int64_t first, int64_t n)
{
    int64_t low, high;
    range_of(v->k_segment + first, n, INT32_MIN, &low, &high);
    for (attention_run r = attention_run_at(v, s, 0); r.n; r = attention_run_at(v, s, r.at + r.n))
        for (int64_t i = 0; i < r.n; i++)
            if (v->q_segment[r.query + i] >= low && v->q_segment[r.query + i] <= high) return 1;
    return 0;
}

int attention_sees(const attention_view *v, const attention_strip *s, int64_t first, int64_t n)
{
    int64_t low = first, high = first + n - 1;
    if (v->key_position) range_of(v->key_position + first, n, 0, &low, &high);
    if (low >= s->high || high < s->low) return 0;
    return !v->q_segment || shares_segment(v, s, first, n);
}

int64_t attention_key_row(const attention_view *v, int64_t key)
{
    if (v->key_position && v->key_position[key] < 0) return -1;
    return v->pages ? v->pages[key / v->p->page] * v->p->page + key % v->p->page : v->image * v->p->Tk + key;
}

/* ---- what is added to scores ---- */

static void add_mask(const attention_view *v, const attention_run *r, float *scores, int64_t first, int64_t n)
{
    const operand_desc *m = &v->c->op.in[ATTEND_MASK];
    const int64_t *d = m->shape.dim;
    int64_t row = ((d[0] == 1 ? 0 : v->image) * d[1] + (d[1] == 1 ? 0 : r->head)) * d[2];
    float mask[ATTEND_KEYS];
    for (int64_t i = 0; i < r->n; i++) {
        const char *from = place_of(m, v->a->in[ATTEND_MASK], row + (d[2] == 1 ? 0 : r->query + i), first);
        v->c->k->load(mask, from, type_of(m), (size_t)n);
        for (int64_t k = 0; k < n; k++) scores[k * v->p->width + r->at + i] += mask[k] * log2_e;
    }
}

/* The bias of n queries from position `query` on, for the key at `key`. */
static void bias_of(const attention_view *v, int64_t head, int64_t key, int64_t query, float *to, int64_t n)
{
    const operand_desc *t = &v->c->op.in[ATTEND_TABLE];
    for (int64_t i = 0; i < n; i++) {
        int64_t apart = key - query - i;
        int64_t row = apart >= -ATTEND_NEAR && apart <= ATTEND_NEAR
                          ? v->p->near[apart + ATTEND_NEAR]
                          : bias_row(&v->c->op.attr.attention, t->shape.dim[0], apart, 0);
        v->c->k->load(to + i, place_of(t, v->a->in[ATTEND_TABLE], row, head), type_of(t), 1);
        to[i] *= log2_e;
    }
}

/* Keys one after another have the same biases, moved on by one each. */
static void add_bias(const attention_view *v, const attention_run *r, float *scores, int64_t first, int64_t n)
{
    float bias[ATTEND_KEYS + ATTEND_STRIP];
    int64_t own = v->offset + r->query;
    if (!v->key_position) bias_of(v, r->head, first + n - 1, own, bias, n + r->n - 1);
    for (int64_t k = 0; k < n; k++) {
        if (v->key_position) bias_of(v, r->head, v->key_position[first + k], own, bias, r->n);
        v->c->k->add(scores + k * v->p->width + r->at, v->key_position ? bias : bias + (n - 1 - k), (size_t)r->n);
    }
}

static void hide(float *row, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) row[i] = -INFINITY;
}

static void hide_unseen(const attention_view *v, const attention_run *r, float *scores, int64_t first, int64_t n)
{
    const attention_attr *a = &v->c->op.attr.attention;
    int64_t own = v->offset + r->query;
    for (int64_t k = 0; k < n; k++) {
        float *row = scores + k * v->p->width + r->at;
        int64_t at = v->key_position ? v->key_position[first + k] : first + k;
        int64_t from = a->causal ? at - own : 0, to = at < 0 ? 0 : r->n; /* the queries that see it */
        if (a->window && at - own - a->right > from) from = at - own - a->right;
        if (a->window && a->left < to - 1 - (at - own)) to = at - own + a->left + 1;
        hide(row, 0, min64(from, r->n));
        hide(row, to > 0 ? to : 0, r->n);
        for (int64_t i = 0; v->q_segment && i < r->n; i++)
            row[i] = v->q_segment[r->query + i] == v->k_segment[first + k] ? row[i] : -INFINITY;
    }
}

static int hides(const attention_view *v)
{
    const attention_attr *a = &v->c->op.attr.attention;
    return a->causal || a->window || v->key_position || v->q_segment;
}

int attention_limits(const attention_view *v)
{
    const op_desc *op = &v->c->op;
    return op->attr.attention.softcap > 0 || attention_has(op, ATTEND_MASK) || attention_has(op, ATTEND_TABLE) ||
           hides(v);
}

void attention_limit(const attention_view *v, const attention_strip *s, float *scores, int64_t first, int64_t n)
{
    const op_desc *op = &v->c->op;
    const attention_attr *a = &op->attr.attention;
    int mask = attention_has(op, ATTEND_MASK), table = attention_has(op, ATTEND_TABLE);
    if (a->softcap > 0) { /* scores came divided by it */
        v->c->k->act(scores, KILN_ACT_TANH, (size_t)(n * v->p->width));
        v->c->k->affine(scores, a->softcap * log2_e, 0, (size_t)(n * v->p->width));
    }
    if (!mask && !table && !hides(v)) return;
    for (attention_run r = attention_run_at(v, s, 0); r.n; r = attention_run_at(v, s, r.at + r.n)) {
        if (mask) add_mask(v, &r, scores, first, n);
        if (table) add_bias(v, &r, scores, first, n);
        if (hides(v)) hide_unseen(v, &r, scores, first, n);
    }
}
