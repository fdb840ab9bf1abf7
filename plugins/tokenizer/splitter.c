/* splitter.c - see splitter.h. */
#include "splitter.h"

#include "normalizer.h"
#include "token_index.h"
#include "unicode.h"

#include <string.h>

int pieces_add(token_pool *p, piece_list *l, aligned_text text, int32_t id)
{
    if (text.n == 0) return 1;
    if (!token_pool_reserve(p, &l->item, &l->capacity, l->n + 1, sizeof *l->item)) return 0;
    l->item[l->n++] = (text_piece){text, id};
    return 1;
}

/* ---- ranges and what becomes of them ---- */

static int add_range(token_pool *p, range_list *l, size_t from, size_t to, int is_match)
{
    if (!token_pool_reserve(p, &l->item, &l->capacity, l->n + 1, sizeof *l->item)) return 0;
    l->item[l->n++] = (text_range){from, to, is_match};
    return 1;
}

/* Each character of a kind is a match of its own. */
static int ranges_by(token_pool *p, int (*is_kind)(int32_t), const aligned_text *t, range_list *out)
{
    size_t from = 0;
    out->n = 0;
    for (size_t at = 0, step; at < t->n; at += step) {
        int32_t code;
        step = utf8_next(t->s + at, t->n - at, &code);
        if (!is_kind(code)) continue;
        if (from < at && !add_range(p, out, from, at, 0)) return 0;
        if (!add_range(p, out, at, at + step, 1)) return 0;
        from = at + step;
    }
    return from == t->n || add_range(p, out, from, t->n, 0);
}

/* Joins ranges as the behavior says; in place. */
static void join(range_list *l, split_behavior how)
{
    size_t to = 0;
    int before = 0;
    if (how == SPLIT_WITH_NEXT) {
        size_t from = l->n;
        for (size_t i = l->n; i-- > 0;) {
            text_range r = l->item[i];
            if (r.is_match && !before && from < l->n)
                l->item[from].from = r.from;
            else
                l->item[--from] = r;
            before = r.is_match;
        }
        memmove(l->item, l->item + from, (l->n - from) * sizeof *l->item);
        l->n -= from;
        return;
    }
    if (how != SPLIT_WITH_PREVIOUS && how != SPLIT_CONTIGUOUS) return;
    for (size_t i = 0; i < l->n; i++) {
        text_range r = l->item[i];
        int joins = how == SPLIT_CONTIGUOUS ? r.is_match == before : r.is_match && !before;
        if (joins && to > 0)
            l->item[to - 1].to = r.to;
        else
            l->item[to++] = r;
        before = r.is_match;
    }
    l->n = to;
}

static int put_ranges(token_pool *p, const aligned_text *t, range_list *l, split_behavior how, int invert,
                      piece_list *out)
{
    for (size_t i = 0; i < l->n && invert; i++) l->item[i].is_match = !l->item[i].is_match;
    join(l, how);
    for (size_t i = 0; i < l->n; i++)
        if (!(how == SPLIT_REMOVED && l->item[i].is_match) &&
            !pieces_add(p, out, text_part(t, l->item[i].from, l->item[i].to), NO_TOKEN))
            return 0;
    return 1;
}

/* ---- kinds ---- */

static int by_pattern(token_pool *p, const split_step *s, const aligned_text *t, range_list *work, piece_list *out)
{
    int got = pattern_ranges(s->pattern, p, t->s, t->n, work);
    return got == 1 ? put_ranges(p, t, work, s->behavior, s->invert, out) : got;
}

static int by_kind(token_pool *p, int (*is_kind)(int32_t), split_behavior how, const aligned_text *t, range_list *work,
                   piece_list *out)
{
    return ranges_by(p, is_kind, t, work) && put_ranges(p, t, work, how, 0, out);
}

static int by_bytes(token_pool *p, const split_step *s, aligned_text t, range_list *work, piece_list *out)
{
    size_t first = out->n;
    int got = 1;
    if (s->prefix && t.s[0] != ' ' && !text_prepend(p, &t, " ", 1)) return 0;
    if (s->pattern)
        got = by_pattern(p, &(split_step){.pattern = s->pattern, .behavior = SPLIT_ISOLATED}, &t, work, out);
    else
        got = pieces_add(p, out, t, NO_TOKEN);
    for (size_t i = first; got == 1 && i < out->n; i++) got = text_to_bytes(p, &out->item[i].text);
    return got;
}

static int by_metaspace(token_pool *p, const split_step *s, aligned_text t, range_list *work, piece_list *out)
{
    int got = text_replace(p, &t, s->blank, s->text, s->n);
    if (got != 1) return got;
    int has = t.n >= s->n && memcmp(t.s, s->text, s->n) == 0;
    int wanted = s->prefix == PREFIX_ALWAYS || (s->prefix == PREFIX_FIRST && t.origin == 0);
    if (wanted && !has && !text_prepend(p, &t, s->text, s->n)) return 0;
    if (!s->cut) return pieces_add(p, out, t, NO_TOKEN);
    return by_pattern(p, &(split_step){.pattern = s->pattern, .behavior = SPLIT_WITH_NEXT}, &t, work, out);
}

static int by_words(token_pool *p, const aligned_text *t, piece_list *out)
{
    size_t from = 0;
    int last = 0;
    for (size_t at = 0, step; at < t->n; at += step) {
        int32_t code;
        step = utf8_next(t->s + at, t->n - at, &code);
        int kind = unicode_is_blank(code) ? 0 : unicode_is_word(code) ? 1 : 2;
        if (kind != last) {
            if (last && !pieces_add(p, out, text_part(t, from, at), NO_TOKEN)) return 0;
            from = at;
        }
        last = kind;
    }
    return !last || pieces_add(p, out, text_part(t, from, t->n), NO_TOKEN);
}

static int by_bert(token_pool *p, const aligned_text *t, range_list *work, piece_list *out)
{
    piece_list words = {0};
    if (!by_kind(p, unicode_is_blank, SPLIT_REMOVED, t, work, &words)) return 0;
    for (size_t i = 0; i < words.n; i++)
        if (!by_kind(p, unicode_is_bert_punctuation, SPLIT_ISOLATED, &words.item[i].text, work, out)) return 0;
    return 1;
}

static int one_text(token_pool *p, const split_step *s, const aligned_text *t, range_list *work, piece_list *out)
{
    switch (s->kind) {
    case SPLIT_PATTERN: return by_pattern(p, s, t, work, out);
    case SPLIT_BYTES: return by_bytes(p, s, *t, work, out);
    case SPLIT_METASPACE: return by_metaspace(p, s, *t, work, out);
    case SPLIT_BLANKS: return by_kind(p, unicode_is_blank, SPLIT_REMOVED, t, work, out);
    case SPLIT_WORDS: return by_words(p, t, out);
    case SPLIT_BERT: return by_bert(p, t, work, out);
    case SPLIT_PUNCTUATION: return by_kind(p, unicode_is_bert_punctuation, s->behavior, t, work, out);
    case SPLIT_DIGITS: return by_kind(p, unicode_is_numeric, s->behavior, t, work, out);
    }
    return 1;
}

int split_pieces(token_pool *p, const split_step *step, size_t n, piece_list *l)
{
    range_list work = {0};
    for (size_t k = 0; k < n; k++) {
        piece_list next = {0};
        for (size_t i = 0; i < l->n; i++) {
            const text_piece *x = &l->item[i];
            int got = x->id == NO_TOKEN ? one_text(p, &step[k], &x->text, &work, &next)
                                        : pieces_add(p, &next, x->text, x->id);
            if (got != 1) return got;
        }
        *l = next;
    }
    return 1;
}
