/* decoder.c - see decoder.h. */
#include "decoder.h"

#include "unicode.h"

#include <string.h>

static int replace(token_pool *p, decoded *x, const char *what, size_t n, const char *by, size_t m)
{
    size_t count = 0, to = 0;
    if (n == 0 || !x->n) return 1;
    for (char *at = x->s; (at = memmem(at, (size_t)(x->s + x->n - at), what, n)); at += n) count++;
    if (count == 0) return 1;
    char *s = token_pool_get(p, x->n + count * m + 1, 1);
    if (!s) return 0;
    for (size_t at = 0; at < x->n;) {
        if (x->n - at >= n && memcmp(x->s + at, what, n) == 0) {
            memcpy(s + to, by, m);
            to += m;
            at += n;
        } else {
            s[to++] = x->s[at++];
        }
    }
    *x = (decoded){s, to};
    return 1;
}

static int fuse(token_pool *p, decoded_list *l)
{
    size_t bytes = 0, to = 0;
    for (size_t i = 0; i < l->n; i++) bytes += l->item[i].n;
    char *s = token_pool_get(p, bytes + 1, 1);
    if (!s) return 0;
    for (size_t i = 0; i < l->n; to += l->item[i++].n)
        if (l->item[i].n) memcpy(s + to, l->item[i].s, l->item[i].n);
    if (l->n) l->item[0] = (decoded){s, bytes};
    l->n = l->n > 0;
    return 1;
}

/* A token with a character that stands for no byte is text. */
static int to_bytes(token_pool *p, decoded *x)
{
    char *s = token_pool_get(p, x->n + 1, 1);
    size_t to = 0;
    if (!s) return 0;
    for (size_t at = 0; at < x->n;) {
        int32_t code;
        at += utf8_next(x->s + at, x->n - at, &code);
        int byte = code_to_byte(code);
        if (byte < 0) return 1;
        s[to++] = (char)byte;
    }
    *x = (decoded){s, to};
    return 1;
}

static int tidy(token_pool *p, decoded *x)
{
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (!replace(p, x, pairs[i][0], strlen(pairs[i][0]), pairs[i][1], strlen(pairs[i][1]))) return 0;
    return 1;
}

static int wordpiece(token_pool *p, const decode_step *k, decoded_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        decoded *x = &l->item[i];
        if (i > 0 && x->n >= k->n && memcmp(x->s, k->text, k->n) == 0) {
            *x = (decoded){x->s + k->n, x->n - k->n};
        } else if (i > 0) {
            char *s = token_pool_get(p, x->n + 2, 1);
            if (!s) return 0;
            s[0] = ' ';
            memcpy(s + 1, x->s, x->n);
            *x = (decoded){s, x->n + 1};
        }
        if (k->flag && !tidy(p, x)) return 0;
    }
    return 1;
}

static int byte_of(const decoded *x)
{
    if (x->n != 6 || memcmp(x->s, "<0x", 3) != 0 || x->s[5] != '>') return -1;
    int high = hex_digit(x->s[3]), low = hex_digit(x->s[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* The bytes as UTF-8 with U+FFFD for those that are no character's, or (whole) for all when one is not. */
static int bytes_as_text(token_pool *p, const char *s, size_t n, int whole, decoded *out)
{
    int32_t code = 0;
    size_t at = 0, to = 0;
    *out = (decoded){token_pool_get(p, 3 * n + 1, 1), 0};
    if (!out->s) return 0;
    while (whole && at < n && code >= 0) at += utf8_next(s + at, n - at, &code);
    int all = whole && code < 0;
    for (at = 0; at < n;) {
        size_t step = utf8_next(s + at, n - at, &code);
        if (all) step = 1;
        if (all || code < 0)
            memcpy(out->s + to, "\xef\xbf\xbd", 3);
        else
            memcpy(out->s + to, s + at, step);
        to += all || code < 0 ? 3 : step;
        at += step;
    }
    out->n = to;
    return 1;
}

static int fallback(token_pool *p, int by_byte, decoded_list *l)
{
    size_t to = 0;
    for (size_t i = 0; i < l->n;) {
        size_t end = i;
        while (end < l->n && byte_of(&l->item[end]) >= 0) end++;
        if (end == i) {
            l->item[to++] = l->item[i++];
            continue;
        }
        char *s = token_pool_get(p, end - i + 1, 1);
        if (!s) return 0;
        for (size_t k = i; k < end; k++) s[k - i] = (char)byte_of(&l->item[k]);
        if (!bytes_as_text(p, s, end - i, !by_byte, &l->item[to++])) return 0;
        i = end;
    }
    l->n = to;
    return 1;
}

static void take_lead(const decode_step *k, decoded_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        decoded *x = &l->item[i];
        int has = x->n >= k->n && memcmp(x->s, k->text, k->n) == 0;
        if (has) *x = (decoded){x->s + k->n, x->n - k->n};
        if (x->n || (has && !k->flag)) return;
    }
}

static void strip(const decode_step *k, decoded *x)
{
    for (int i = 0; i < k->start && k->n && x->n >= k->n && memcmp(x->s, k->text, k->n) == 0; i++)
        *x = (decoded){x->s + k->n, x->n - k->n};
    for (int i = 0; i < k->stop && k->n && x->n >= k->n && memcmp(x->s + x->n - k->n, k->text, k->n) == 0; i++)
        x->n -= k->n;
}

static int each(token_pool *p, const decode_step *k, decoded *x, size_t i, size_t n)
{
    switch (k->kind) {
    case DECODE_BYTES: return to_bytes(p, x);
    case DECODE_METASPACE: return replace(p, x, k->text, k->n, " ", i > 0 || !k->flag);
    case DECODE_SUFFIX: return replace(p, x, k->text, k->n, " ", i + 1 < n);
    case DECODE_REPLACE: return replace(p, x, k->text, k->n, k->other, k->n_other);
    case DECODE_STRIP: strip(k, x); return 1;
    default: return 1;
    }
}

int decode_tokens(token_pool *p, const decode_step *step, size_t n, decoded_list *l)
{
    for (size_t s = 0; s < n; s++) {
        const decode_step *k = &step[s];
        for (size_t i = 0; i < l->n; i++)
            if (!each(p, k, &l->item[i], i, l->n)) return 0;
        if (k->kind == DECODE_LEAD) take_lead(k, l);
        if (k->kind == DECODE_WORDPIECE && !wordpiece(p, k, l)) return 0;
        if (k->kind == DECODE_FALLBACK && !fallback(p, k->flag, l)) return 0;
        if ((k->kind == DECODE_FUSE || k->kind == DECODE_BYTES) && !fuse(p, l)) return 0;
    }
    return fuse(p, l);
}
