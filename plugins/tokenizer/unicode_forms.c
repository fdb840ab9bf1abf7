/* unicode_forms.c - see unicode_forms.h.
 *
 * Decompose, put marks in order, compose: by runs that begin at a character of combining class 0. A character carries
 * its change (aligned_text.h): the first of a decomposition replaces, the others are new; what is composed with
 * another removes it.
 */
#include "unicode_forms.h"

#include "unicode.h"
#include "unicode_tables.h"

#include <utf8proc.h>

typedef struct {
    int32_t code;
    int32_t change;
    uint32_t class;
} mark;

typedef struct {
    token_pool *pool;
    mark *item;
    size_t n, capacity;
} marks;

static int is_inert(int32_t code)
{
    size_t low = 0, high = unicode_inert_ranges_n / 2;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if ((uint32_t)code < unicode_inert_ranges[2 * mid])
            high = mid;
        else if ((uint32_t)code > unicode_inert_ranges[2 * mid + 1])
            low = mid + 1;
        else
            return 1;
    }
    return 0;
}

static uint32_t class_of(int32_t code)
{
    return code < 0x300 || is_inert(code) ? 0 : (uint32_t)utf8proc_get_property(code)->combining_class;
}

static int decompose(marks *m, int form, int32_t code)
{
    utf8proc_int32_t part[32] = {code};
    utf8proc_option_t options =
        (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (form & FORM_COMPATIBLE ? UTF8PROC_COMPAT : 0));
    int boundary = 0;
    utf8proc_ssize_t n = 1;
    if (code >= 0x80 && !is_inert(code)) n = utf8proc_decompose_char(code, part, 32, options, &boundary);
    if (n < 1 || n > 32) n = 1, part[0] = code;
    if (!token_pool_reserve(m->pool, &m->item, &m->capacity, m->n + (size_t)n, sizeof *m->item)) return 0;
    for (utf8proc_ssize_t i = 0; i < n; i++) m->item[m->n++] = (mark){part[i], i > 0, class_of(part[i])};
    return 1;
}

/* Stable, by class, between characters of class 0. Marks in a row are few; a long row is bounded by merging. */
static int sort_run(marks *m, size_t from, size_t to)
{
    mark *work = NULL, *item = m->item;
    int ordered = 1;
    for (size_t i = from + 1; i < to; i++) ordered &= item[i - 1].class <= item[i].class;
    if (ordered) return 1;
    if (!(work = token_pool_get(m->pool, to - from, sizeof *work))) return 0;
    for (size_t width = 1; width < to - from; width *= 2) {
        for (size_t low = from; low < to; low += 2 * width) {
            size_t mid = low + width < to ? low + width : to, end = mid + width < to ? mid + width : to;
            size_t a = low, b = mid, out = 0;
            while (a < mid || b < end)
                work[out++] = b == end || (a < mid && item[a].class <= item[b].class) ? item[a++] : item[b++];
            for (size_t i = 0; i < out; i++) item[low + i] = work[i];
        }
    }
    return 1;
}

static int put_in_order(marks *m)
{
    for (size_t i = 0; i < m->n;) {
        size_t from = i;
        if (m->item[i].class == 0) {
            i++;
            continue;
        }
        while (i < m->n && m->item[i].class) i++;
        if (!sort_run(m, from, i)) return 0;
    }
    return 1;
}

/* The character that two are composed to; -1: none. */
static int32_t composed(int32_t a, int32_t b)
{
    utf8proc_int32_t pair[3] = {a, b, 0};
    if (b < 0x300 || is_inert(a) || is_inert(b)) return -1;
    utf8proc_ssize_t n = utf8proc_normalize_utf32(pair, 2, (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    return n == 1 && !is_inert(pair[0]) ? pair[0] : -1;
}

/* Joins marks with the last character of class 0, in place. */
static void compose(marks *m)
{
    size_t base = SIZE_MAX, to = 0;
    uint32_t last = 0; /* class of what is kept last behind the base */
    for (size_t i = 0; i < m->n; i++) {
        mark x = m->item[i];
        int blocked = base != SIZE_MAX && to - base > 1 && last >= x.class;
        int32_t code = base != SIZE_MAX && !blocked ? composed(m->item[base].code, x.code) : -1;
        if (code >= 0) {
            m->item[base].code = code;
            m->item[base].change += x.change - 1;
            continue;
        }
        if (x.class == 0) base = to;
        last = x.class;
        m->item[to++] = x;
    }
    m->n = to;
}

int text_to_form(token_pool *p, int form, aligned_text *text)
{
    marks m = {.pool = p};
    size_t ascii = 0;
    while (ascii < text->n && (unsigned char)text->s[ascii] < 0x80) ascii++;
    if (ascii == text->n) return 1;
    for (size_t at = 0, step; at < text->n; at += step) {
        int32_t code;
        step = utf8_next(text->s + at, text->n - at, &code);
        if (!decompose(&m, form, code)) return 0;
    }
    if (!put_in_order(&m)) return 0;
    if (form & FORM_COMPOSE) compose(&m);
    text_edit e = edit_begin(p, text, 0);
    for (size_t i = 0; i < m.n; i++) edit_put(&e, m.item[i].code, m.item[i].change);
    return edit_end(&e, text);
}
