/* wordpiece_model.c - BERT's: the longest piece that a word begins with, then the longest that goes on, written with
 * "##". A word that cannot be cut so, or is too long, is one unknown token. */
#include "token_model.h"
#include "unicode.h"

#include <string.h>

/* End of the longest piece at `at`, its id in *id; at: none. */
static size_t longest(const token_model *k, const aligned_text *t, size_t at, int32_t *id)
{
    size_t head = at > 0 ? k->n_prefix : 0;
    char text[PIECE_BYTES_MAX / 64];
    if (head + t->n - at > sizeof text) return at;
    memcpy(text, k->prefix ? k->prefix : "", head);
    memcpy(text + head, t->s + at, t->n - at);
    for (size_t end = t->n; end > at; end = utf8_before(t->s, end))
        if ((*id = vocabulary_find(&k->words, text, head + end - at)) != NO_TOKEN) return end;
    return at;
}

int wordpiece_encode(const token_model *k, model_work *work, const aligned_text *t, token_list *out)
{
    size_t characters = 0, first = out->n;
    (void)work;
    for (size_t i = 0; i < t->n; i++) characters += ((unsigned char)t->s[i] & 0xc0) != 0x80;
    for (size_t at = 0, end; at < t->n && characters <= k->characters_max; at = end) {
        int32_t id;
        if ((end = longest(k, t, at, &id)) == at) {
            characters = SIZE_MAX;
            break;
        }
        if (!tokens_add(out, id, t->from[at], t->to[end - 1])) return 0;
    }
    if (characters <= k->characters_max) return 1;
    out->n = first;
    if (k->unknown == NO_TOKEN) return -1;
    return tokens_add(out, k->unknown, t->from[0], t->to[t->n - 1]);
}
