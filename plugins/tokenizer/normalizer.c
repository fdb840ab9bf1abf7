/* normalizer.c - see normalizer.h. Each step writes a new text; what it removes goes to the character before it, as
 * the `tokenizers` library has it. */
#include "normalizer.h"

#include "unicode.h"
#include "unicode_forms.h"

#include <utf8proc.h>

/* ---- one character at a time ---- */

typedef struct {
    int32_t *code;
    size_t n;
} code_list;

static int codes_of(token_pool *p, const aligned_text *t, code_list *out)
{
    if (!(out->code = token_pool_get(p, t->n + 1, sizeof *out->code))) return 0;
    out->n = 0;
    for (size_t at = 0; at < t->n;) at += utf8_next(t->s + at, t->n - at, &out->code[out->n++]);
    return 1;
}

/* Keeps the characters that `keep` wants, as `map` (may be NULL) makes them. */
static int filter(token_pool *p, aligned_text *t, int (*keep)(int32_t), int32_t (*map)(int32_t))
{
    size_t removed = 0, last = SIZE_MAX;
    code_list all;
    if (!codes_of(p, t, &all)) return 0;
    size_t first = 0, bytes = 0;
    while (first < all.n && !keep(all.code[first])) bytes += utf8_length(all.code[first++]);
    text_edit e = edit_begin(p, t, bytes);
    for (size_t i = first; i <= all.n; i++) {
        int kept = i < all.n && keep(all.code[i]);
        if (last != SIZE_MAX && (kept || i == all.n))
            edit_put(&e, map ? map(all.code[last]) : all.code[last], -(int)removed);
        removed = kept ? 0 : removed + 1;
        if (kept) last = i;
    }
    return edit_end(&e, t);
}

static int lower(token_pool *p, aligned_text *t)
{
    text_edit e = edit_begin(p, t, 0);
    for (size_t at = 0, step; at < t->n; at += step) {
        int32_t code, small[2];
        step = utf8_next(t->s + at, t->n - at, &code);
        int n = unicode_lower(code, small);
        for (int i = 0; i < n; i++) edit_put(&e, small[i], i > 0);
    }
    return edit_end(&e, t);
}

int text_to_bytes(token_pool *p, aligned_text *t)
{
    text_edit e = edit_begin(p, t, 0);
    for (size_t at = 0, step; at < t->n; at += step) {
        int32_t code;
        step = utf8_next(t->s + at, t->n - at, &code);
        for (size_t i = 0; i < step; i++) edit_put(&e, byte_to_code((uint8_t)t->s[at + i]), i > 0);
    }
    return edit_end(&e, t);
}

static int strip(token_pool *p, aligned_text *t, uint32_t flags)
{
    size_t a = 0, b = t->n;
    int32_t code;
    (void)p;
    while (flags & 1 && a < b) {
        size_t step = utf8_next(t->s + a, b - a, &code);
        if (!unicode_is_blank(code)) break;
        a += step;
    }
    while (flags & 2 && b > a) {
        size_t before = utf8_before(t->s, b);
        utf8_next(t->s + before, b - before, &code);
        if (!unicode_is_blank(code)) break;
        b = before;
    }
    uint32_t origin = t->origin;
    *t = text_part(t, a, b);
    if (t->n == 0) t->origin = origin;
    return 1;
}

int text_prepend(token_pool *p, aligned_text *t, const char *s, size_t n)
{
    int32_t first, code;
    if (t->n == 0) return 1;
    size_t head = utf8_next(t->s, t->n, &first), i = 0;
    text_edit e = edit_begin(p, t, 0);
    for (size_t at = 0; at < n; i++) {
        at += utf8_next(s + at, n - at, &code);
        edit_put(&e, code, i > 0);
    }
    if (i > 0) edit_put(&e, first, 1);
    e.at = i > 0 ? head : 0;
    edit_copy(&e, t->n - e.at);
    return edit_end(&e, t);
}

int text_replace(token_pool *p, aligned_text *t, const pattern *what, const char *by, size_t n)
{
    range_list found = {0};
    int got = pattern_ranges(what, p, t->s, t->n, &found);
    if (got != 1) return got;
    if (found.n == 0 || (found.n == 1 && !found.item[0].is_match)) return 1;
    text_edit e = edit_begin(p, t, 0);
    for (size_t i = 0; i < found.n; i++) {
        const text_range *r = &found.item[i];
        e.at = r->is_match ? r->to : r->from;
        if (!r->is_match) edit_copy(&e, r->to - r->from);
        for (size_t at = 0, step; r->is_match && at < n; at += step) {
            int32_t code;
            step = utf8_next(by + at, n - at, &code);
            edit_put(&e, code, 1);
        }
    }
    return edit_end(&e, t);
}

/* ---- BERT ---- */

static int is_clean(int32_t c) { return c != 0 && c != 0xfffd && !unicode_is_bert_control(c); }
static int32_t plain_blank(int32_t c) { return unicode_is_blank(c) ? ' ' : c; }
static int is_no_accent(int32_t c) { return !unicode_is_bert_accent(c); }
static int is_not_combining(int32_t c) { return !unicode_is_combining(c); }

static int separate_chinese(token_pool *p, aligned_text *t)
{
    text_edit e = edit_begin(p, t, 0);
    for (size_t at = 0, step; at < t->n; at += step) {
        int32_t code;
        step = utf8_next(t->s + at, t->n - at, &code);
        int chinese = unicode_is_chinese(code);
        if (chinese) edit_put(&e, ' ', 0);
        edit_put(&e, code, chinese);
        if (chinese) edit_put(&e, ' ', 1);
    }
    return edit_end(&e, t);
}

static int bert(token_pool *p, uint32_t flags, aligned_text *t)
{
    return (!(flags & BERT_CLEAN) || filter(p, t, is_clean, plain_blank)) &&
           (!(flags & BERT_CHINESE) || separate_chinese(p, t)) &&
           (!(flags & BERT_ACCENTS) || (text_to_form(p, 0, t) && filter(p, t, is_no_accent, NULL))) &&
           (!(flags & BERT_LOWER) || lower(p, t));
}

/* ---- a SentencePiece map over grapheme clusters, as tokenizer.json has it ---- */

typedef struct {
    int32_t code;
    int change;
} changed;

typedef struct {
    token_pool *pool;
    changed *item;
    size_t n, capacity;
} changes;

static int put_change(changes *c, int32_t code, int change)
{
    if (!token_pool_reserve(c->pool, &c->item, &c->capacity, c->n + 1, sizeof *c->item)) return 0;
    c->item[c->n++] = (changed){code, change};
    return 1;
}

/* `old` characters become those of s. Fewer: the last one written takes what is removed. */
static int put_mapped(changes *c, size_t old, const char *s, size_t n)
{
    size_t count = 0;
    for (size_t at = 0; at < n; count++) {
        int32_t code;
        at += utf8_next(s + at, n - at, &code);
        if (!put_change(c, code, count >= old)) return 0;
    }
    if (count < old && c->n) c->item[c->n - 1].change -= (int)(old - count);
    return 1;
}

/* End of the grapheme cluster that begins at `at`; *count: its characters. */
static size_t cluster_end(const aligned_text *t, size_t at, size_t *count)
{
    int32_t code, next = 0, state = 0;
    size_t end = at + utf8_next(t->s + at, t->n - at, &code);
    for (*count = 1; end < t->n; ++*count, code = next) {
        size_t step = utf8_next(t->s + end, t->n - end, &next);
        if (utf8proc_grapheme_break_stateful(code, next, &state)) break;
        end += step;
    }
    return end;
}

static int map_characters(const charsmap *map, const aligned_text *t, size_t at, size_t end, changes *c)
{
    for (size_t step, m; at < end; at += step) {
        int32_t code;
        step = utf8_next(t->s + at, end - at, &code);
        const char *to = charsmap_shortest(map, t->s + at, step, &m);
        if (!(to ? put_mapped(c, 1, to, m) : put_change(c, code, 0))) return 0;
    }
    return 1;
}

static int map_clusters(token_pool *p, const charsmap *map, aligned_text *t)
{
    changes c = {.pool = p};
    for (size_t at = 0, end; at < t->n; at = end) {
        size_t count, m;
        end = cluster_end(t, at, &count);
        const char *to = end - at < 6 ? charsmap_shortest(map, t->s + at, end - at, &m) : NULL;
        if (!(to ? put_mapped(&c, count, to, m) : map_characters(map, t, at, end, &c))) return 0;
    }
    text_edit e = edit_begin(p, t, 0);
    for (size_t i = 0; i < c.n; i++) edit_put(&e, c.item[i].code, c.item[i].change);
    return edit_end(&e, t);
}

/* ---- all ---- */

static int one_step(token_pool *p, const normalize_step *s, aligned_text *t)
{
    switch (s->kind) {
    case NORMALIZE_FORM: return text_to_form(p, (int)s->flags, t);
    case NORMALIZE_LOWER: return lower(p, t);
    case NORMALIZE_STRIP: return strip(p, t, s->flags);
    case NORMALIZE_STRIP_ACCENTS: return filter(p, t, is_not_combining, NULL);
    case NORMALIZE_REPLACE: return text_replace(p, t, s->pattern, s->text, s->n);
    case NORMALIZE_PREPEND: return text_prepend(p, t, s->text, s->n);
    case NORMALIZE_BERT: return bert(p, s->flags, t);
    case NORMALIZE_BYTES: return text_to_bytes(p, t);
    case NORMALIZE_CHARSMAP: return map_clusters(p, s->map, t);
    }
    return 1;
}

int normalize(token_pool *p, const normalize_step *step, size_t n, aligned_text *text)
{
    for (size_t i = 0; i < n && text->n > 0; i++) {
        int got = one_step(p, &step[i], text);
        if (got != 1) return got;
    }
    return 1;
}
