/* plain_map.c - see plain_map.h. RFC 8259. */
#include "plain_map.h"

#include "unicode.h"

#include <string.h>

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* The next character that is no blank, which stays; 0: there is none, or it is a NUL. */
static char ahead(plain_map *m)
{
    while (m->at < m->end && is_blank(*m->at)) m->at++;
    return m->at < m->end ? *m->at : 0;
}

static int take(plain_map *m, char c)
{
    if (ahead(m) != c) return 0;
    m->at++;
    return 1;
}

/* \u of a character by itself: not of a half of one, nor of NUL. */
static int read_code(plain_map *m)
{
    int32_t code = 0;
    if (m->end - m->at < 4) return 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*m->at++);
        if (digit < 0) return 0;
        code = code << 4 | digit;
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000)) return 0;
    m->n += utf8_put(code, m->key + m->n);
    return 1;
}

static int read_escape(plain_map *m)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (m->at == m->end || *m->at == '\0') return 0;
    const char c = *m->at++, *found = strchr(from, c);
    if (c == 'u') return read_code(m);
    if (found) m->key[m->n++] = to[found - from];
    return found != NULL;
}

static int read_key(plain_map *m)
{
    if (!take(m, '"')) return 0;
    for (m->n = 0; m->n <= PLAIN_KEY_MAX && m->at < m->end && *m->at != '"';) {
        int32_t code;
        const size_t n = utf8_next(m->at, (size_t)(m->end - m->at), &code);
        if (*m->at == '\\') {
            m->at++;
            if (!read_escape(m)) return 0;
            continue;
        }
        if (code < ' ') return 0; /* or no character */
        memcpy(m->key + m->n, m->at, n);
        m->n += n, m->at += n;
    }
    return m->n > 0 && m->n <= PLAIN_KEY_MAX && m->at < m->end && *m->at++ == '"';
}

static int read_number(plain_map *m)
{
    const char first = ahead(m);
    if (first < '0' || first > '9') return 0;
    for (m->number = 0; m->at < m->end && *m->at >= '0' && *m->at <= '9'; m->at++) {
        if (m->number > PLAIN_NUMBER_MAX / 10) return 0;
        m->number = 10 * m->number + (*m->at - '0');
        if (first == '0' && m->at + 1 < m->end && m->at[1] >= '0' && m->at[1] <= '9') return 0;
    }
    const char after = ahead(m);
    return after == ',' || after == '}';
}

int plain_map_next(plain_map *m)
{
    if (m->begun && take(m, '}')) return ahead(m) == 0 && m->at == m->end ? 0 : -1;
    if (!take(m, m->begun ? ',' : '{')) return -1;
    m->begun = 1;
    return read_key(m) && take(m, ':') && read_number(m) ? 1 : -1;
}
