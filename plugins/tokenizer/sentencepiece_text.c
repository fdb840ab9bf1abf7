/* sentencepiece_text.c - see sentencepiece_text.h. Spans are sentencepiece's own: a piece reaches up to where the next
 * one begins, so a blank that was removed belongs to the piece before it. */
#include "sentencepiece_text.h"

#include "unicode.h"

#include <string.h>

#define SPACE "\xe2\x96\x81"

typedef struct {
    token_pool *pool;
    const sentencepiece_spec *spec;
    const aligned_text *in;
    uint32_t text_end;
    char *s;
    uint32_t *from;
    size_t n, capacity;
} writer;

/* What the text at s becomes; *taken bytes of it. */
static const char *prefix(const writer *w, size_t at, size_t *taken, size_t *bytes)
{
    const char *s = w->in->s + at;
    size_t n = w->in->n - at;
    int32_t value;
    *taken = *bytes = trie_longest(w->spec->user, s, n, &value);
    if (*taken) return s;
    const char *mapped = w->spec->map ? charsmap_longest(w->spec->map, s, n, taken, bytes) : NULL;
    if (mapped) return mapped;
    *taken = *bytes = utf8_next(s, n, &value);
    return s;
}

static uint32_t place(const writer *w, size_t at) { return at < w->in->n ? w->in->from[at] : w->text_end; }

static int put(writer *w, const char *s, size_t n, size_t at)
{
    size_t capacity = w->capacity;
    if (w->n + n > w->capacity) {
        if (!token_pool_reserve(w->pool, &w->s, &capacity, w->n + n, 1)) return 0;
        capacity = w->capacity;
        if (!token_pool_reserve(w->pool, &w->from, &capacity, w->n + n, sizeof *w->from)) return 0;
        w->capacity = capacity;
    }
    memcpy(w->s + w->n, s, n);
    for (size_t i = 0; i < n; i++) w->from[w->n + i] = place(w, at);
    w->n += n;
    return 1;
}

static int put_space(writer *w, size_t at)
{
    return w->spec->escape_whitespaces ? put(w, SPACE, 3, at) : put(w, " ", 1, at);
}

static int put_escaped(writer *w, const char *s, size_t n, size_t at)
{
    for (size_t i = 0; i < n; i++)
        if (!(s[i] == ' ' ? put_space(w, at) : put(w, s + i, 1, at))) return 0;
    return 1;
}

static size_t skip_blanks(const writer *w)
{
    size_t at = 0, taken, bytes;
    while (at < w->in->n) {
        const char *s = prefix(w, at, &taken, &bytes);
        if (bytes != 1 || s[0] != ' ') break;
        at += taken;
    }
    return at;
}

/* Where the text ends once blanks at its end are gone; *end: the place of the first of them. */
static size_t without_last_blanks(const writer *w, size_t *end)
{
    const char *space = w->spec->escape_whitespaces ? SPACE : " ";
    size_t m = strlen(space), n = w->n;
    while (n >= m && memcmp(w->s + n - m, space, m) == 0) {
        n -= m;
        *end = w->from[n];
    }
    return n;
}

static int finish(writer *w, size_t end, aligned_text *text)
{
    uint32_t *to = token_pool_get(w->pool, w->n + 1, sizeof *to);
    if (!to) return 0;
    for (size_t i = 0; i < w->n; i++) to[i] = i + 1 < w->n ? w->from[i + 1] : (uint32_t)end;
    *text = (aligned_text){w->s, w->n, w->from, to, w->in->origin};
    return 1;
}

int sentencepiece_normalize(token_pool *p, const sentencepiece_spec *k, aligned_text *text, uint32_t text_end)
{
    aligned_text in = *text;
    writer w = {.pool = p, .spec = k, .in = &in, .text_end = text_end};
    int tidy = k->remove_extra_whitespaces, after_blank = tidy;
    size_t at = tidy ? skip_blanks(&w) : 0, taken, bytes;
    *text = (aligned_text){.s = "", .origin = in.origin};
    if (at == in.n) return 1;
    if (k->add_dummy_prefix && !k->whitespace_as_suffix && !put_space(&w, at)) return 0;
    for (; at < in.n; at += taken) {
        const char *s = prefix(&w, at, &taken, &bytes);
        for (; after_blank && bytes > 0 && s[0] == ' '; s++) bytes--;
        if (!put_escaped(&w, s, bytes, at)) return 0;
        if (bytes > 0) after_blank = s[bytes - 1] == ' ';
        if (!tidy) after_blank = 0;
    }
    size_t end = place(&w, at), last = end;
    if (tidy) {
        w.n = without_last_blanks(&w, &last);
        end = last;
    }
    if (k->add_dummy_prefix && k->whitespace_as_suffix) {
        size_t before = w.n;
        if (!put_space(&w, at)) return 0;
        for (size_t i = before; i < w.n; i++) w.from[i] = (uint32_t)end;
    }
    return finish(&w, end, text);
}
