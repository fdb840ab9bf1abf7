/* scores_model.c - SentencePiece's BPE: neighbours are joined whose joined text is a piece, best score first, the
 * leftmost of equals first. User-defined pieces stay whole; an unused piece is taken apart again. With ranks for
 * scores and bytes for symbols it is tiktoken's. */
#include "merge_queue.h"
#include "token_model.h"
#include "unicode.h"

typedef struct {
    int32_t previous, next;
    uint32_t from, to; /* from == to: joined to the one before */
    int32_t is_user;
} symbol;

typedef struct {
    const token_model *model;
    const aligned_text *text;
    token_pool *pool;
    symbol *item;
    size_t n, capacity;
    merge_queue queue;
    pair_table apart; /* (id of an unused piece, 0) -> length of its left part when it was joined last */
} merging;

static int first_symbols(merging *m)
{
    const aligned_text *t = m->text;
    for (size_t at = 0, step; at < t->n; at += step) {
        int32_t code;
        step = trie_longest(&m->model->user, t->s + at, t->n - at, &code);
        int is_user = step > 0;
        if (!is_user) step = m->model->bytes_alone ? 1 : utf8_next(t->s + at, t->n - at, &code);
        if (!token_pool_reserve(m->pool, &m->item, &m->capacity, m->n + 1, sizeof *m->item)) return 0;
        int32_t i = (int32_t)m->n++;
        m->item[i] = (symbol){i - 1, at + step < t->n ? i + 1 : NO_TOKEN, (uint32_t)at, (uint32_t)(at + step), is_user};
    }
    return 1;
}

static int remember_parts(merging *m, int32_t id, int32_t left_bytes)
{
    pair_row *known = (pair_row *)pairs_find(&m->apart, id, 0);
    if (!known) return pairs_put(m->pool, &m->apart, id, 0, left_bytes, 0);
    known->value = left_bytes;
    return 1;
}

static int offer(merging *m, int32_t left)
{
    if (left < 0 || m->item[left].next < 0) return 1;
    const symbol *a = &m->item[left], *b = &m->item[a->next];
    if (a->is_user || b->is_user) return 1;
    int32_t id = vocabulary_find(&m->model->words, m->text->s + a->from, b->to - a->from);
    if (id == NO_TOKEN) return 1;
    const token_piece *x = &m->model->words.piece[id];
    if (!queue_push(&m->queue, (possible_merge){x->score, left, (int32_t)(b->to - a->from)})) return 0;
    return x->type != PIECE_UNUSED || remember_parts(m, id, (int32_t)(a->to - a->from));
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
        if ((int32_t)(right->to - left->from) != top.value) continue;
        left->to = right->to;
        left->next = right->next;
        right->from = right->to;
        if (left->next >= 0) m->item[left->next].previous = top.left;
        if (!offer(m, left->previous) || !offer(m, top.left)) return 0;
    }
    return 1;
}

/* The token of a[0..n), or of its parts when it is unused. The stack is as deep as the joins that made it. */
static int put(merging *m, uint32_t from, uint32_t to, int *was_unknown, token_list *out)
{
    const token_model *k = m->model;
    uint32_t *todo = NULL; /* where parts end, the leftmost on top */
    size_t n = 0, capacity = 0;
    for (;;) {
        int32_t id = vocabulary_find(&k->reserved, m->text->s + from, to - from);
        if (id == NO_TOKEN) id = vocabulary_find(&k->words, m->text->s + from, to - from);
        const pair_row *parts =
            id != NO_TOKEN && k->words.piece[id].type == PIECE_UNUSED ? pairs_find(&m->apart, id, 0) : NULL;
        if (parts) {
            if (!token_pool_reserve(m->pool, &todo, &capacity, n + 1, sizeof *todo)) return 0;
            todo[n++] = to;
            to = from + (uint32_t)parts->value;
            continue;
        }
        int got = 1;
        if (id == NO_TOKEN || id == k->unknown) {
            got = unknown_encode(k, m->text, from, to, was_unknown, out);
        } else {
            *was_unknown = 0;
            got = tokens_add(out, id, m->text->from[from], m->text->to[to - 1]);
        }
        if (got != 1 || n == 0) return got;
        from = to;
        to = todo[--n];
    }
}

int scores_encode(const token_model *k, model_work *work, const aligned_text *t, token_list *out)
{
    int was_unknown = 0;
    merging m = {.model = k, .text = t, .pool = out->pool, .item = work->symbol, .capacity = work->symbols};
    m.queue = (merge_queue){out->pool, work->queue, 0, work->queued};
    int got = first_symbols(&m) && join_all(&m);
    *work = (model_work){m.item, m.queue.item, m.capacity, m.queue.capacity};
    for (int32_t i = m.n ? 0 : NO_TOKEN; got == 1 && i >= 0; i = m.item[i].next)
        got = put(&m, m.item[i].from, m.item[i].to, &was_unknown, out);
    return got;
}
