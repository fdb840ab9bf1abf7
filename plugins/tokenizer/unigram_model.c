/* unigram_model.c - the pieces of a text whose scores' sum is highest (Kudo 2018), by one pass over the text that keeps
 * the best way to each place (Viterbi). A character without a piece of its own costs ten more than the worst piece.
 * Sums are in double precision, as sentencepiece (from 0.2.3 on) and `tokenizers` have them: near a tie it decides. */
#include "token_model.h"
#include "unicode.h"

#include <string.h>

typedef struct {
    double score;
    int32_t id;
    int32_t from; /* NO_TOKEN: not reached */
} place;

static void offer(place *to, size_t from, double score, int32_t id)
{
    if (to->from == NO_TOKEN || score > to->score) *to = (place){score, id, (int32_t)from};
}

static void offer_all(const token_model *k, const aligned_text *t, size_t at, place *best)
{
    int32_t code, node = 0;
    size_t step = utf8_next(t->s + at, t->n - at, &code);
    int has_single = 0;
    double until = best[at].score;
    for (size_t i = at; i < t->n && (node = trie_step(&k->pieces, node, t->s[i])) != NO_TOKEN; i++) {
        int32_t id = k->pieces.value[node];
        if (id == NO_TOKEN || k->words.piece[id].type == PIECE_UNUSED) continue;
        size_t length = i + 1 - at;
        double score = k->words.piece[id].score + until;
        if (k->words.piece[id].type == PIECE_USER) /* always taken */
            score = (double)((float)length * (float)k->score_max) - 0.1 + until;
        offer(&best[i + 1], at, score, id);
        has_single |= length == step;
    }
    if (!has_single) offer(&best[at + step], at, k->score_unknown + until, k->unknown);
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
    for (size_t at = 0; at < t->n;) {
        int32_t code;
        offer_all(k, t, at, best);
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
