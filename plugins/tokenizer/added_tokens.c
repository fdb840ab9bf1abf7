/* added_tokens.c - see added_tokens.h. */
#include "added_tokens.h"

#include "unicode.h"

static int word_before(const aligned_text *t, size_t at)
{
    int32_t code;
    if (at == 0) return 0;
    size_t from = utf8_before(t->s, at);
    utf8_next(t->s + from, at - from, &code);
    return unicode_is_word(code);
}

static int word_behind(const aligned_text *t, size_t at)
{
    int32_t code;
    if (at >= t->n) return 0;
    utf8_next(t->s + at, t->n - at, &code);
    return unicode_is_word(code);
}

static size_t blanks_before(const aligned_text *t, size_t at, size_t from)
{
    while (at > from) {
        int32_t code;
        size_t before = utf8_before(t->s, at);
        utf8_next(t->s + before, at - before, &code);
        if (!unicode_is_blank(code)) break;
        at = before;
    }
    return at;
}

static size_t blanks_behind(const aligned_text *t, size_t at)
{
    while (at < t->n) {
        int32_t code;
        size_t step = utf8_next(t->s + at, t->n - at, &code);
        if (!unicode_is_blank(code)) break;
        at += step;
    }
    return at;
}

int added_split(token_pool *p, const added_set *set, const aligned_text *t, int special, piece_list *out)
{
    size_t done = 0, m;
    for (size_t at = 0; at < t->n; at += m) {
        int32_t index = 0;
        m = set->trie.n ? trie_longest(&set->trie, t->s + at, t->n - at, &index) : 0;
        if (m == 0) {
            m = 1;
            continue;
        }
        const added_token *x = &set->item[index];
        if (x->flags & ADDED_SPECIAL && !special) continue;
        if (x->flags & ADDED_SINGLE_WORD && (word_before(t, at) || word_behind(t, at + m))) continue;
        size_t a = at, b = at + m;
        if (a < done) a = done; /* behind blanks that the last token took */
        if (x->flags & ADDED_LSTRIP) a = blanks_before(t, a, done);
        if (x->flags & ADDED_RSTRIP) b = blanks_behind(t, b);
        if (!pieces_add(p, out, text_part(t, done, a), NO_TOKEN) || !pieces_add(p, out, text_part(t, a, b), x->id))
            return 0;
        done = b;
    }
    return pieces_add(p, out, text_part(t, done, t->n), NO_TOKEN);
}
