/* aligned_text.c - see aligned_text.h. */
#include "aligned_text.h"

#include "unicode.h"

#include <string.h>

static int reserve(text_edit *e, size_t more)
{
    size_t capacity[3] = {e->capacity, e->capacity, e->capacity};
    if (e->n + more <= e->capacity) return 1;
    size_t wanted = e->n + more + 16;
    if (!token_pool_reserve(e->pool, &e->s, &capacity[0], wanted, 1) ||
        !token_pool_reserve(e->pool, &e->from, &capacity[1], wanted, sizeof *e->from) ||
        !token_pool_reserve(e->pool, &e->to, &capacity[2], wanted, sizeof *e->to))
        return 0;
    e->capacity = capacity[0];
    return 1;
}

text_edit edit_begin(token_pool *p, const aligned_text *in, size_t removed)
{
    text_edit e = {.pool = p, .in = in, .at = removed};
    reserve(&e, in->n + in->n / 8);
    return e;
}

static size_t character_bytes(const aligned_text *t, size_t at)
{
    int32_t code;
    return at < t->n ? utf8_next(t->s + at, t->n - at, &code) : 0;
}

void edit_put(text_edit *e, int32_t code, int change)
{
    const aligned_text *in = e->in;
    size_t bytes = utf8_length(code), source = change > 0 ? e->at - 1 : e->at;
    int is_there = source < in->n;
    uint32_t from = is_there ? in->from[source] : in->origin, to = is_there ? in->to[source] : from;
    if (e->pool->failed || !reserve(e, bytes)) return;
    for (size_t i = 0; i < bytes; i++) {
        e->from[e->n + i] = from;
        e->to[e->n + i] = to;
    }
    char text[4];
    utf8_put(code, text);
    memcpy(e->s + e->n, text, bytes);
    e->n += bytes;
    for (; change <= 0; change++) e->at += character_bytes(in, e->at);
}

void edit_copy(text_edit *e, size_t bytes)
{
    if (e->pool->failed || !reserve(e, bytes)) return;
    memcpy(e->s + e->n, e->in->s + e->at, bytes);
    memcpy(e->from + e->n, e->in->from + e->at, bytes * sizeof *e->from);
    memcpy(e->to + e->n, e->in->to + e->at, bytes * sizeof *e->to);
    e->n += bytes;
    e->at += bytes;
}

int edit_end(text_edit *e, aligned_text *out)
{
    *out = (aligned_text){e->s, e->n, e->from, e->to, e->in->origin};
    return !e->pool->failed;
}

aligned_text text_part(const aligned_text *t, size_t a, size_t b)
{
    return (aligned_text){t->s + a, b - a, t->from + a, t->to + a, a < t->n ? t->from[a] : t->origin};
}

int text_original(token_pool *p, const char *text, size_t n, aligned_text *out)
{
    aligned_text none = {.s = ""};
    text_edit e = {.pool = p, .in = &none};
    if (!reserve(&e, n + 1)) return 0;
    for (size_t at = 0, step; at < n; at += step) {
        int32_t code;
        step = utf8_next(text + at, n - at, &code);
        size_t bytes = code < 0 ? 3 : step;
        if (!reserve(&e, bytes)) return 0;
        memcpy(e.s + e.n, code < 0 ? "\xef\xbf\xbd" : text + at, bytes);
        for (size_t i = 0; i < bytes; i++) {
            e.from[e.n + i] = (uint32_t)at;
            e.to[e.n + i] = (uint32_t)(at + step);
        }
        e.n += bytes;
    }
    return edit_end(&e, out);
}
