/* merge_queue.h - the joins that are possible, best first: by key, then from left to right. A heap. */
#ifndef KILN_TOKENIZER_MERGE_QUEUE_H
#define KILN_TOKENIZER_MERGE_QUEUE_H

#include "token_pool.h"

typedef struct {
    double key;          /* the highest comes first */
    int32_t left, value; /* what is joined, and what it makes */
} possible_merge;

typedef struct {
    token_pool *pool;
    possible_merge *item;
    size_t n, capacity;
} merge_queue;

static inline int merge_before(const possible_merge *a, const possible_merge *b)
{
    return a->key > b->key || (a->key == b->key && a->left < b->left);
}

static inline int queue_push(merge_queue *q, possible_merge x)
{
    if (!token_pool_reserve(q->pool, &q->item, &q->capacity, q->n + 1, sizeof x)) return 0;
    size_t i = q->n++;
    for (; i > 0 && merge_before(&x, &q->item[(i - 1) / 2]); i = (i - 1) / 2) q->item[i] = q->item[(i - 1) / 2];
    q->item[i] = x;
    return 1;
}

static inline possible_merge queue_pop(merge_queue *q)
{
    possible_merge top = q->item[0], last = q->item[--q->n];
    size_t i = 0, child;
    for (; (child = 2 * i + 1) < q->n; i = child) {
        if (child + 1 < q->n && merge_before(&q->item[child + 1], &q->item[child])) child++;
        if (!merge_before(&q->item[child], &last)) break;
        q->item[i] = q->item[child];
    }
    q->item[i] = last;
    return top;
}

#endif
