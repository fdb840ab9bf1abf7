/* merges_model.c - BPE by merges: of all neighbouring pairs the one learnt first is joined, the leftmost of equals
 * first, until no pair is known (Sennrich et al. 2016). A list of symbols and a heap: n log n. */
#include "merge_queue.h"
#include "token_model.h"
#include "unicode.h"

#include <string.h>

typedef struct {
    int32_t id, previous, next; /* NO_TOKEN: none */
    uint32_t from, to;          /* bytes of the word; from == to: joined to the one before */
} symbol;

typedef struct {
    const token_model *model;
    token_pool *pool;
    symbol *item;
    size_t n, capacity;
    merge_queue queue;
} merging;

static int add(merging *m, int32_t id, size_t from, size_t to)
{
    if (!token_pool_reserve(m->pool, &m->item, &m->capacity, m->n + 1, sizeof *m->item)) return 0;
    int32_t at = (int32_t)m->n;
    m->item[m->n++] = (symbol){id, at - 1, NO_TOKEN, (uint32_t)from, (uint32_t)to};
    if (at > 0) m->item[at - 1].next = at;
    return 1;
}

/* The token of a character, with what the model puts before and after it. */
static int32_t find(const token_model *m, const aligned_text *t, size_t a, size_t b)
{
    char text[512];
    size_t n = 0, head = a > 0 ? m->n_prefix : 0, tail = b == t->n ? m->n_suffix : 0;
    if (!head && !tail) return vocabulary_find(&m->words, t->s + a, b - a);
    if (head + tail + 4 > sizeof text) return NO_TOKEN;
    memcpy(text, m->prefix ? m->prefix : "", head);
    memcpy(text + (n = head), t->s + a, b - a);
    memcpy(text + (n += b - a), m->suffix ? m->suffix : "", tail);
    return vocabulary_find(&m->words, text, n + tail);
}

static int has_bytes(const token_model *k, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (k->byte[(unsigned char)s[i]] == NO_TOKEN) return 0;
    return 1;
}

static int first_symbols(merging *m, const aligned_text *t)
{
    const token_model *k = m->model;
    size_t unknown_from = SIZE_MAX;
    for (size_t at = 0, step; at < t->n; at += step) {
        int32_t code;
        step = utf8_next(t->s + at, t->n - at, &code);
        int32_t id = find(k, t, at, at + step);
        if (id == NO_TOKEN && k->byte_fallback && has_bytes(k, t->s + at, step)) {
            for (size_t i = 0; i < step; i++)
                if (!add(m, k->byte[(unsigned char)t->s[at + i]], at + i, at + i + 1)) return 0;
            continue;
        }
        if (unknown_from != SIZE_MAX && (id != NO_TOKEN || !k->fuse_unknown)) {
            if (!add(m, k->unknown, unknown_from, at)) return 0;
            unknown_from = SIZE_MAX;
        }
        if (id != NO_TOKEN && !add(m, id, at, at + step)) return 0;
        if (id == NO_TOKEN && k->unknown != NO_TOKEN && unknown_from == SIZE_MAX) unknown_from = at;
    }
    return unknown_from == SIZE_MAX || add(m, k->unknown, unknown_from, t->n);
}

static int offer(merging *m, int32_t left)
{
    if (left < 0 || m->item[left].next < 0) return 1;
    const pair_row *r = pairs_find(&m->model->merges, m->item[left].id, m->item[m->item[left].next].id);
    return !r || queue_push(&m->queue, (possible_merge){-(double)r->value2, left, r->value});
}

static int join_all(merging *m)
{
    m->queue.n = 0;
    for (size_t i = 0; i + 1 < m->n; i++)
        if (!offer(m, (int32_t)i)) return 0;
    while (m->queue.n) {
        possible_merge top = queue_pop(&m->queue);
        symbol *left = &m->item[top.left];
        if (left->from == left->to || left->next < 0) continue;
        symbol *right = &m->item[left->next];
        const pair_row *now = pairs_find(&m->model->merges, left->id, right->id);
        if (!now || now->value != top.value) continue; /* one of the two was joined elsewhere */
        left->id = top.value;
        left->to = right->to;
        left->next = right->next;
        right->from = right->to;
        if (left->next >= 0) m->item[left->next].previous = top.left;
        if (!offer(m, left->previous) || !offer(m, top.left)) return 0;
    }
    return 1;
}

static int is_newlines(const aligned_text *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->s[i] != '\n') return 0;
    return 1;
}

int merges_encode(const token_model *k, model_work *work, const aligned_text *t, token_list *out)
{
    const int as_one = k->ignore_merges || (k->whole_newlines && is_newlines(t));
    int32_t whole = as_one ? vocabulary_find(&k->words, t->s, t->n) : NO_TOKEN;
    if (whole != NO_TOKEN) return tokens_add(out, whole, t->from[0], t->to[t->n - 1]);
    merging m = {.model = k, .pool = out->pool, .item = work->symbol, .capacity = work->symbols};
    m.queue = (merge_queue){out->pool, work->queue, 0, work->queued};
    int ok = first_symbols(&m, t) && join_all(&m);
    *work = (model_work){m.item, m.queue.item, m.capacity, m.queue.capacity};
    for (int32_t i = m.n ? 0 : NO_TOKEN; ok && i >= 0; i = m.item[i].next)
        ok = tokens_add(out, m.item[i].id, t->from[m.item[i].from], t->to[m.item[i].to - 1]);
    return ok;
}
