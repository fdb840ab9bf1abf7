/* token_model.c - see token_model.h. */
#include "token_model.h"

int tokens_add(token_list *l, int32_t id, uint32_t from, uint32_t to)
{
    size_t capacity[3] = {l->capacity, l->capacity, l->capacity};
    if (l->n == l->capacity) {
        if (!token_pool_reserve(l->pool, &l->id, &capacity[0], l->n + 1, sizeof *l->id) ||
            !token_pool_reserve(l->pool, &l->from, &capacity[1], l->n + 1, sizeof *l->from) ||
            !token_pool_reserve(l->pool, &l->to, &capacity[2], l->n + 1, sizeof *l->to))
            return 0;
        l->capacity = capacity[0];
    }
    l->id[l->n] = id;
    l->from[l->n] = from;
    l->to[l->n++] = to;
    return 1;
}

int unknown_encode(const token_model *m, const aligned_text *t, size_t a, size_t b, int *was_unknown, token_list *out)
{
    if (m->byte_fallback) {
        for (size_t i = a; i < b; i++)
            if (!tokens_add(out, m->byte[(unsigned char)t->s[i]], t->from[a], t->to[b - 1])) return 0;
        return 1;
    }
    if (m->unknown == NO_TOKEN) return -1;
    if (*was_unknown && m->in_one_unknown) {
        out->to[out->n - 1] = t->to[b - 1];
        return 1;
    }
    *was_unknown = 1;
    return tokens_add(out, m->unknown, t->from[a], t->to[b - 1]);
}

int model_encode(const token_model *m, model_work *work, const aligned_text *word, token_list *out)
{
    if (word->n == 0) return 1;
    switch (m->kind) {
    case MODEL_MERGES: return merges_encode(m, work, word, out);
    case MODEL_SCORES: return scores_encode(m, work, word, out);
    case MODEL_UNIGRAM: return unigram_encode(m, work, word, out);
    case MODEL_WORDPIECE: return wordpiece_encode(m, work, word, out);
    }
    return 1;
}
