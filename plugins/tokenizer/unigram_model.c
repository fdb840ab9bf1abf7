/* unigram_model.c - the pieces of a text whose scores' sum is highest (Kudo 2018), by one pass over the text that keeps
 * the best way to each place (Viterbi). A character without a piece of its own costs ten more than the worst piece.
 *
 * Near a tie the arithmetic decides, so it is that of the library a model belongs to: `tokenizers` adds in double
 * precision; sentencepiece 0.2.3 in single precision, and takes the sum so far away from all ways once it is large.
 */
#include "token_model.h"
#include "unicode.h"

#include <string.h>

typedef struct {
    double score;
    int32_t id;
    int32_t from; /* NO_TOKEN: not reached */
} place;

typedef struct {
    const token_model *model;
    const aligned_text *text;
    place *best;     /* [n + 1] */
    size_t farthest; /* place that a way leads to */
} lattice;

/* A piece from `from` to `to`. */
static void offer(lattice *l, size_t from, size_t to, double score, int32_t id)
{
    place *p = &l->best[to];
    double sum = l->best[from].score + score;
    if (l->model->single_precision) sum = (double)((float)l->best[from].score + (float)score);
    if (to > l->farthest) l->farthest = to;
    if (p->from == NO_TOKEN || sum > p->score) *p = (place){sum, id, (int32_t)from};
}

/* sentencepiece's: small sums keep their digits. */
static void reset_sums(lattice *l, size_t at)
{
    const float limit = 100000, offset = (float)l->best[at].score;
    if (!l->model->single_precision || (offset >= -limit && offset <= limit)) return;
    for (size_t i = at; i <= l->farthest; i++)
        if (i == at || l->best[i].from != NO_TOKEN) l->best[i].score = (double)((float)l->best[i].score - offset);
    l->best[at].score = 0;
}

static void offer_all(lattice *l, size_t at)
{
    const token_model *k = l->model;
    const aligned_text *t = l->text;
    int32_t code, node = 0;
    size_t step = utf8_next(t->s + at, t->n - at, &code);
    int has_single = 0;
    reset_sums(l, at);
    for (size_t i = at; i < t->n && (node = trie_step(&k->pieces, node, t->s[i])) != NO_TOKEN; i++) {
        int32_t id = k->pieces.value[node];
        if (id == NO_TOKEN || k->words.piece[id].type == PIECE_UNUSED) continue;
        size_t length = i + 1 - at;
        int is_user = k->words.piece[id].type == PIECE_USER; /* better than what it could be cut into */
        offer(l, at, i + 1, is_user ? (double)(float)(0.1 * (double)(length - 1)) : k->words.piece[id].score, id);
        has_single |= length == step;
    }
    if (!has_single) offer(l, at, at + step, k->score_unknown, k->unknown);
}

/* The best way's ends, from the last to the first, into end[]; returns how many. */
static size_t walk_back(const place *best, size_t n, size_t *end)
{
    size_t count = 0;
    for (size_t at = n; at > 0; at = (size_t)best[at].from) end[count++] = at;
    return count;
}

int unigram_encode(const token_model *k, model_work *work, const aligned_text *t, token_list *out)
{
    place *best = work->symbol;
    int was_unknown = 0, got = 1;
    size_t capacity = work->symbols;
    if (!token_pool_reserve(out->pool, &best, &capacity, t->n + 1, sizeof *best)) return 0;
    work->symbol = best;
    work->symbols = capacity;
    size_t *end = work->queue;
    capacity = work->queued;
    if (!token_pool_reserve(out->pool, &end, &capacity, t->n + 1, sizeof *end)) return 0;
    work->queue = end;
    work->queued = capacity;
    for (size_t i = 0; i <= t->n; i++) best[i] = (place){0, NO_TOKEN, NO_TOKEN};
    lattice l = {k, t, best, 0};
    for (size_t at = 0; at < t->n;) {
        int32_t code;
        offer_all(&l, at);
        at += utf8_next(t->s + at, t->n - at, &code);
    }
    for (size_t n = walk_back(best, t->n, end); got == 1 && n-- > 0;) {
        size_t b = end[n], a = (size_t)best[b].from;
        if (best[b].id == NO_TOKEN || best[b].id == k->unknown) {
            got = unknown_encode(k, t, a, b, &was_unknown, out);
        } else {
            was_unknown = 0;
            got = tokens_add(out, best[b].id, t->from[a], t->to[b - 1]);
        }
    }
    return got;
}
